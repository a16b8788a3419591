"""``gatewise diagnose``: what the gates of a model do, in one page and one JSON."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer
from typer.core import TyperCommand

from gatewise.cli.options import Input, Model, Set, Weights, key_values, load_weights
from gatewise.cli.output import check_target, print_json, print_note, print_rich, table
from gatewise.errors import FileError, shorten

if TYPE_CHECKING:
    from gatewise.analysis import Diagnosis
    from gatewise.cli.options import Found

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
        help="A set of `gatewise data`, a folder of images, or arrays; random inputs without.",
    ),
]
DataFolder = Annotated[
    Path | None, typer.Option(help="Where data sets are, if not in GATEWISE_DATA.")
]
Size = Annotated[int | None, typer.Option(help="Resize images to this side, in pixels.")]
Examples = Annotated[int, typer.Option(min=1, help="Inputs that are used.")]
Questions = Annotated[
    list[str] | None,
    typer.Option("--questions", help=f"Ask only these, separated by commas: {NAMES}."),
]
Out = Annotated[
    Path, typer.Option("--out", metavar="FOLDER", help="Where the page and the JSON go.")
]
Memory = Annotated[float, typer.Option(min=0.01, help="GiB that one question may take.")]
Seconds = Annotated[
    float, typer.Option(min=0.1, help="How long a question that can stop early may go on.")
]
Checkpoints = Annotated[
    list[Path] | None,
    typer.Option(
        "--checkpoints",
        metavar="FILE|RUN",
        help="Weights at earlier moments, the earliest first (.safetensors), or the folder of a run that kept its own.",
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print the JSON too, instead of the summary.")]


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
    set: Set = None,
    memory: Memory = 2.0,
    seconds: Seconds = 15.0,
    checkpoints: Checkpoints = None,
    json: Json = False,
) -> None:
    """Ask a model what its gates do: one page and one JSON in a folder, a summary here.

    Questions that do not apply are named with the reason. Without `--data` inputs are random
    numbers, and what needs data is left out. With `--checkpoints` it is also asked how gates and
    regions moved from one to the next; the model has the weights of the last of them unless
    `--weights` says otherwise.

    Example: `gatewise diagnose torchvision:resnet18 --data cifar10 --out looked-at`
    """
    from gatewise.analysis import QUESTIONS, fill
    from gatewise.analysis import diagnose as ask
    from gatewise.cli.options import find_checkpoints, find_data, load_model, random_data
    from gatewise.cli.output import Watch
    from gatewise.report import write_diagnosis

    _check_folder(out)
    network = load_model(model, key_values("--set", set)).eval()
    moments = find_checkpoints(checkpoints or [])
    if weights is not None:
        load_weights(network, weights)
    elif moments:
        fill("--checkpoints", network, moments[-1], len(moments))
        weights = moments[-1]
    found = (
        find_data(data, data_folder, size, examples)
        if data
        else random_data(model, network, input, examples)
    )
    with Watch({name: each.title for name, each in QUESTIONS.items()}) as watch:
        made = ask(
            network,
            found.batches,
            examples=examples,
            questions=_names(questions),
            memory=int(memory * 2**30),
            seconds=seconds,
            checkpoints=moments,
            real=found.real,
            about=found.about,
            name=model,
            progress=watch,
            reference=_reference(model, weights, input, set, found),
        )
    page, record = write_diagnosis(made.to_dict(), out)
    if json:
        return print_json(made.to_dict())
    _print(made)
    print_note(f"page  {page}\njson  {record}")


def _names(questions: list[str] | None) -> list[str] | None:
    return (
        [name.strip() for each in questions for name in each.split(",") if name.strip()]
        if questions
        else None
    )


def _check_folder(out: Path) -> None:
    if out.exists() and not out.is_dir():
        raise FileError("--out: is not a folder", got=str(out), fix="name a folder")
    check_target(out.absolute() / "index.html") if out.is_dir() else check_target(out.absolute())


def _reference(
    model: str,
    weights: Path | None,
    inputs: list[str] | None,
    options: list[str] | None,
    found: "Found",
) -> str:
    """How a command names the same model again."""
    words = [model]
    words += ["--weights", str(weights)] if weights else []
    words += [
        word
        for each in inputs or ([found.shape] if found.shape else [])
        for word in ("--input", each)
    ]
    words += [word for each in options or [] for word in ("--set", each)]
    return shlex.join(words)


def _print(made: "Diagnosis") -> None:
    rows = table("question", "answer", "s", right=["s"], whole=("question", "s"))
    for each in made:
        why = (
            f"{each.line.removesuffix('.')} ({shorten(each.detail)})." if each.detail else each.line
        )
        rows.add_row(each.name, why, f"{each.seconds:.1f}")
    print_rich(f"{made.name}: {made.model['parameters']:,} parameters; {made.data['about']}", rows)
    for each in made.advice:
        print_rich(f"• {each.text}", f"  evidence: {each.evidence}", f"  {each.command}", "")
    if not made.advice:
        print_rich("No problems found.")
