"""``gatewise diagnose``: measure what the activations of a model do, and write a page."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from gatewise.cli.options import (
    DataFolder,
    Input,
    Json,
    Model,
    ModelOptions,
    Weights,
    key_values,
    load_weights,
)
from gatewise.cli.output import check_target, print_json, print_note, print_rich, table
from gatewise.errors import FileError, shorten

if TYPE_CHECKING:
    from gatewise.analysis import Diagnosis
    from gatewise.cli.options import DiagnosisData

NAMES = "QUESTIONS"  # replaced by the names of all questions when the help is printed


class DiagnoseCommand(TyperCommand):
    """The command, with the names of all questions in its help.

    They are looked up only when the help is printed: importing all analyses takes a second, which
    the other commands need not wait for.
    """

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """Write the help."""
        from gatewise.analysis import QUESTIONS

        for option in self.params:
            if option.name == "questions":
                option.help = option.help.replace(NAMES, ", ".join(QUESTIONS))  # type: ignore[attr-defined]
        super().format_help(ctx, formatter)


Data = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        metavar="NAME|FOLDER|FILE.npy",
        help="The inputs: a data set of `gatewise data`, a folder of images, or arrays "
        "(repeatable). Default: random numbers.",
    ),
]
Size = Annotated[
    int | None,
    typer.Option(metavar="PIXELS", help="Resize images to this side. Default: no resizing."),
]
Examples = Annotated[int, typer.Option(min=1, help="Number of inputs to use.")]
Questions = Annotated[
    list[str] | None,
    typer.Option(
        "--questions",
        metavar="NAME,NAME,...",
        help=f"Run only these checks: {NAMES}. Default: all that apply.",
    ),
]
Out = Annotated[
    Path, typer.Option("--out", metavar="FOLDER", help="Write the page and the JSON here.")
]
Memory = Annotated[
    float, typer.Option(min=0.01, metavar="GIB", help="Memory limit of one check, in GiB.")
]
Seconds = Annotated[
    float,
    typer.Option(
        min=0.1,
        metavar="S",
        help="Time limit, in seconds, of each check that can return a partial result.",
    ),
]
Checkpoints = Annotated[
    list[Path] | None,
    typer.Option(
        "--checkpoints",
        metavar="FILE|RUN",
        help="Weights from earlier in training (.safetensors), earliest first, or the folder of a "
        "run trained with --keep-weights. Needed for the checks flips and film.",
    ),
]


def diagnose(
    model: Model,
    data: Data = None,
    data_folder: DataFolder = None,
    size: Size = None,
    examples: Examples = 1000,
    questions: Questions = None,
    out: Out = Path("diagnosis"),
    weights: Weights = None,
    input: Input = None,
    set: ModelOptions = None,
    memory: Memory = 2.0,
    seconds: Seconds = 15.0,
    checkpoints: Checkpoints = None,
    json: Json = False,
) -> None:
    """Measure what the activations of a model do, and give advice.

    Prints a summary and writes a page (index.html) and a JSON file to a folder. Checks that do not
    apply are listed with the reason. Without `--data`, the inputs are random, and checks that need
    data are skipped. With `--checkpoints`, the activations are also compared over training. The
    model then gets the last of these weights, unless `--weights` names others.

    Example: `gatewise diagnose torchvision:resnet18 --data cifar10 --out diagnosis`
    """
    from gatewise.analysis import QUESTIONS, fill
    from gatewise.analysis import diagnose as ask
    from gatewise.cli.options import find_checkpoints, find_data, load_model, random_data
    from gatewise.cli.output import Watch
    from gatewise.report import write_diagnosis

    _check_folder(out)
    network = load_model(model, key_values("--set", set)).eval()
    files = find_checkpoints(checkpoints or [])
    if weights is not None:
        load_weights(network, weights)
    elif files:
        fill("--checkpoints", network, files[-1], len(files))
        weights = files[-1]
    if data:
        inputs = find_data(data, data_folder, size, examples)
    else:
        inputs = random_data(model, network, input, examples)
    with Watch({name: question.title for name, question in QUESTIONS.items()}) as watch:
        diagnosis = ask(
            network,
            inputs.batches,
            examples=examples,
            questions=_names(questions),
            memory=int(memory * 2**30),
            seconds=seconds,
            checkpoints=files,
            real=inputs.real,
            about=inputs.about,
            name=model,
            progress=watch,
            reference=_reference(model, weights, input, set, inputs),
        )
    page, record = write_diagnosis(diagnosis.to_dict(), out)
    if json:
        return print_json(diagnosis.to_dict())
    _print(diagnosis)
    print_note(f"page  {page}\njson  {record}")


def _names(questions: list[str] | None) -> list[str] | None:
    """Return the names in ``--questions``, which may be repeated and hold commas."""
    if not questions:
        return None
    names = map(str.strip, ",".join(questions).split(","))
    return [name for name in names if name]


def _check_folder(out: Path) -> None:
    """Check that the results can be written, before the work starts."""
    if out.exists() and not out.is_dir():
        raise FileError("--out: is not a folder", got=str(out), fix="name a folder")
    path = out.absolute()
    check_target(path / "index.html" if out.is_dir() else path)


def _reference(
    model: str,
    weights: Path | None,
    inputs: list[str] | None,
    options: list[str] | None,
    data: "DiagnosisData",
) -> str:
    """Return the arguments with which another command names the same model."""
    words = [model]
    if weights:
        words += ["--weights", str(weights)]
    for shape in inputs or ([data.shape] if data.shape else []):
        words += ["--input", shape]
    for option in options or []:
        words += ["--set", option]
    return shlex.join(words)


def _print(diagnosis: "Diagnosis") -> None:
    """Print a table of the results, and the advice."""
    rows = table("check", "result", "s", right=["s"], whole=("check", "s"))
    for answer in diagnosis:
        text = answer.line
        if answer.detail:
            text = f"{text.removesuffix('.')} ({shorten(answer.detail)})."
        rows.add_row(answer.name, text, f"{answer.seconds:.1f}")
    parameters = f"{diagnosis.model['parameters']:,} parameters"
    print_rich(f"{diagnosis.name}: {parameters}; {diagnosis.data['about']}", rows)
    for advice in diagnosis.advice:
        print_rich(f"• {advice.text}", f"  evidence: {advice.evidence}", f"  {advice.command}", "")
    if not diagnosis.advice:
        print_rich("No problems found.")
