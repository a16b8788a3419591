"""``gatewise diagnose``: measure what the activations of a model do, and write a page."""

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from gatewise.cli.options import (
    MORE_INPUTS,
    OTHER_DATA,
    DataFolder,
    DataRequest,
    Device,
    Input,
    Json,
    KeptAnswers,
    Length,
    Model,
    ModelOptions,
    Tokenizer,
    Trust,
    Weights,
    advised_commands,
    apply_plan_beside,
    key_values,
    open_model,
)
from gatewise.cli.output import check_target, print_json, print_note, print_rich, table
from gatewise.errors import ArgumentError, FileError, shorten

if TYPE_CHECKING:
    from torch import nn

    from gatewise.analysis import Diagnosis
    from gatewise.cli.options import DiagnosisData

INTERRUPTED = 130  # the exit code of a command that Ctrl-C ended

Data = Annotated[
    list[str] | None,
    typer.Option(
        "--data",
        metavar="NAME|FOLDER|FILE",
        help="The inputs: a data set of `gatewise list data`, any folder of images, "
        "a Hugging Face data set, arrays (.npy, .npz; repeatable), or text (.txt). "
        "Default: random numbers.",
    ),
]
Size = Annotated[
    int | None,
    typer.Option(
        metavar="PIXELS",
        help="Resize and crop images to this side. Default: the size that the model's library "
        "states, or no resizing.",
    ),
]
Mean = Annotated[
    str | None,
    typer.Option(
        "--mean",
        metavar="M,M,M",
        help="Subtract this from every channel, after --scale and in the network's order of "
        "channels. Default: what the model's library states.",
    ),
]
Std = Annotated[
    str | None, typer.Option("--std", metavar="S,S,S", help="Then divide every channel by this.")
]
Scale = Annotated[
    float | None,
    typer.Option("--scale", metavar="S", help="The value of a full pixel: 1 (default) or 255."),
]
Bgr = Annotated[bool, typer.Option("--bgr", help="The network reads blue first, and red last.")]
Transform = Annotated[
    str | None,
    typer.Option(
        "--transform",
        metavar="file.py:FUNCTION",
        help="Prepare images with this function instead: from a PIL image to a tensor (channels, "
        "height, width).",
    ),
]
Examples = Annotated[int, typer.Option(min=1, help="Number of inputs to use.")]
Questions = Annotated[
    list[str] | None,
    typer.Option(
        "--questions",
        metavar="NAME,NAME,...",
        help="Run only these checks, for example gates,pairing, or `all`. An unknown name lists "
        "them all. Default: those of the first page.",
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


Revive = Annotated[
    Path | None,
    typer.Option(
        "--revive",
        metavar="FILE",
        help="Also give dead channels new weights without changing the outputs, and write the "
        "weights to this file (.safetensors). Needs --data.",
    ),
]


def diagnose(
    model: Model,
    data: Data = None,
    data_folder: DataFolder = None,
    size: Size = None,
    mean: Mean = None,
    std: Std = None,
    scale: Scale = None,
    bgr: Bgr = False,
    transform: Transform = None,
    tokenizer: Tokenizer = None,
    length: Length = 128,
    examples: Examples = 1000,
    questions: Questions = None,
    out: Out = Path("diagnosis"),
    weights: Weights = None,
    trust: Trust = False,
    input: Input = None,
    set: ModelOptions = None,
    memory: Memory = 2.0,
    seconds: Seconds = 15.0,
    checkpoints: Checkpoints = None,
    device: Device = "cpu",
    revive: Revive = None,
    json: Json = False,
) -> None:
    """Measure what the activations of a model do, and give advice.

    Prints a summary and writes a page (index.html) and a JSON file to a folder. Checks that do not
    apply are listed with the reason. Without `--data`, the inputs are random, and checks that need
    data are skipped. With `--checkpoints`, the activations are also compared over training. The
    model then gets the last of these weights, unless `--weights` names others.

    Images are prepared as the model's library states (timm, torchvision, Hugging Face), or as
    `--mean`, `--std`, `--scale`, `--bgr` and `--size` or `--transform` say. If neither is known,
    the page says so first. If interrupted with Ctrl-C, the finished checks are written. Run the
    same command to resume.

    Example: `gatewise diagnose small_cnn --data digits --out diagnosis`
    """
    from gatewise.analysis import DiagnosisInterrupted, all_questions, fill
    from gatewise.analysis import diagnose as ask
    from gatewise.cli.options import find_checkpoints, find_data
    from gatewise.cli.output import Watch
    from gatewise.report import write_diagnosis

    _check_folder(out)
    if revive is not None:
        check_target(revive, (".safetensors",))
        if not data:
            raise ArgumentError("--revive: which channels are dead is seen on data", fix="--data")
    settings = key_values("--set", set)
    network = open_model("diagnose", model, settings, weights, trust=trust)
    files = find_checkpoints(checkpoints or [])
    if weights is None and files:
        apply_plan_beside(network, files[-1])
        fill("--checkpoints", network, files[-1], len(files))
        weights = files[-1]
    request = DataRequest(
        names=data or [],
        examples=examples,
        reference=model,
        network=network,
        model_options=settings,
        folder=data_folder,
        size=size,
        mean=mean,
        std=std,
        scale=scale,
        bgr=bgr,
        transform=transform,
        tokenizer=tokenizer,
        length=length,
    )
    inputs = find_data(request, input)
    data_options = request.options if data else ""
    kept = KeptAnswers(
        out,
        [model, settings, data, data_options, input, examples, memory, seconds],
        [model.rpartition(":")[0], *(data or []), *filter(None, [weights]), *files],
    )
    finished = kept.read()
    if finished:
        print_note(f"resuming: {len(finished)} checks are finished")
    interrupted = False
    with Watch({name: question.title for name, question in all_questions().items()}) as watch:
        try:
            diagnosis = ask(
                network,
                inputs.batches,
                examples=examples,
                questions=_names(questions),
                memory=int(memory * 2**30),
                seconds=seconds,
                checkpoints=files or None,
                device=None if device == "cpu" else device,
                real=inputs.real,
                about=inputs.about,
                preprocessing=inputs.preprocessing,
                preprocessing_known=inputs.known,
                name=model,
                progress=watch,
                commands=advised_commands(
                    _reference(model, weights, input, set, inputs),
                    data_options or f"--data {OTHER_DATA}",
                ),
                finished=finished,
                on_answer=kept.add,
            )
        except DiagnosisInterrupted as stopped:
            diagnosis = stopped.diagnosis
            interrupted = True
    page, record = write_diagnosis(diagnosis.to_dict(), out)
    if not interrupted:
        kept.remove()
    if json:
        print_json(diagnosis.to_dict())
    else:
        _print(diagnosis)
    print_note(f"page  {page}\njson  {record}")
    if revive is not None and not interrupted:
        _revive(network, inputs, revive)
    if interrupted:
        print_note("interrupted: run the same command to resume")
        raise typer.Exit(INTERRUPTED)


def _revive(network: "nn.Module", inputs: "DiagnosisData", target: Path) -> None:
    """Give dead channels new weights, and write all weights."""
    from gatewise.files import write_tensors
    from gatewise.surgery import revive

    batches = [batch[0] if isinstance(batch, tuple) else batch for batch in inputs.batches]
    print_note(str(revive(network, batches)))
    write_tensors(target, network.state_dict())
    print_note(f"wrote {target}")


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
        text = f"{answer.line} {MORE_INPUTS.get(answer.reason, '')}".rstrip()
        if answer.detail:
            text = f"{text.removesuffix('.')} ({shorten(answer.detail)})."
        rows.add_row(answer.name, text, f"{answer.seconds:.1f}")
    parameters = f"{diagnosis.model['parameters']:,} parameters"
    if not diagnosis.data["preprocessing_known"]:
        print_rich(f"Preprocessing not known: {diagnosis.data['preprocessing']}")
    print_rich(f"{diagnosis.name}: {parameters}; {diagnosis.data['about']}")
    check = diagnosis.input_check
    state = "" if check.state == "not checked" else f"input check {check.state}: "
    print_rich(f"{state}{check.line}", rows)
    print_rich(*(each.line for each in diagnosis.findings))
    if diagnosis.more:
        print_rich(f"more analyses, with --questions NAME or all: {', '.join(diagnosis.more)}")
    for advice in diagnosis.advice:
        print_rich(
            f"• {advice.title}: {advice.effect} {advice.effect_of}",
            f"  {advice.text}",
            f"  evidence: {advice.strength}. {advice.evidence}",
            f"  {advice.command}",
            "",
        )
    if diagnosis.held_back:
        titles = "; ".join(advice.title for advice in diagnosis.held_back)
        print_rich(f"Held back, because the inputs are suspect: {titles}")
    if diagnosis.nothing_to_fix:
        print_rich(f"Nothing to fix: {', '.join(diagnosis.nothing_to_fix)}.")
