"""``gatewise compare``: train a network with different units at the same rates, and compare."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewise.cli.commands.train import INTERRUPTED, stopped_message
from gatewise.cli.error_group import CHECK_FAILED, named_options
from gatewise.cli.options import (
    DATA_HELP,
    DataFolder,
    DataOptions,
    Device,
    Epochs,
    Json,
    ModelOptions,
    On,
    RecipeChanges,
    Shard,
    TestArrays,
    as_options,
    comparison_data,
    key_values,
    model_factory,
    recipe_lines,
)
from gatewise.cli.output import print_error, print_json, print_note
from gatewise.errors import (
    ArgumentError,
    FileError,
    HeldError,
    LostProcessError,
    unknown_name,
)

if TYPE_CHECKING:
    from gatewise.studies import ComparisonResult, ComparisonStudy, Running

REPORT = "report.html"
RECORDS = "study.jsonl"

Subject = Annotated[
    str | None,
    typer.Argument(
        metavar="MODEL|STUDY",
        help="A network: file.py:FUNCTION, package.module:FUNCTION, timm:NAME, torchvision:NAME, "
        "hf:CONFIG.json, or a name of `gatewise list models`. Or a study: FILE.toml, or one that "
        "is included: demo, units_cifar10, gates_text.",
    ),
]
Units = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,NAME,...", help="The units, for example `silu,crelu,beta_vq:pieces=abs`."
    ),
]
Baseline = Annotated[
    str | None,
    typer.Option(
        metavar="NAME",
        help="The unit that the others are compared with. Default: the unchanged network.",
    ),
]
Data = Annotated[str | None, typer.Option("--data", metavar="NAME|FILE|FOLDER", help=DATA_HELP)]
Rates = Annotated[
    str | None,
    typer.Option(
        metavar="NUMBER|R,R,R,R",
        help="How many learning rates, half a decade apart around the recipe's (default 5; 4 or "
        "more, or 1), or four or more rates at equal ratios.",
    ),
]
Seeds = Annotated[int | None, typer.Option(help="Seeds of every unit and rate. Default: 8.")]
RecipeName = Annotated[
    str | None,
    typer.Option(
        "--recipe",
        metavar="NAME|FILE.toml",
        help="The training recipe. Default: adam, with rates around 3e-3.",
    ),
]
Metric = Annotated[
    str | None, typer.Option(metavar="NAME", help="The judged metric. Default: that of the task.")
]
Margin = Annotated[
    float | None,
    typer.Option(
        metavar="DIFFERENCE",
        help="Units that differ by less than this are called equivalent, for example 0.005 for "
        "half a percentage point of accuracy. Default: no unit is called equivalent.",
    ),
]
StudyDryRun = Annotated[
    bool,
    typer.Option(
        "--dry-run",
        help="Only put the units in, count the runs and estimate their time from a few training "
        "steps of each unit. Nothing is written.",
    ),
]
Out = Annotated[
    Path, typer.Option(metavar="FOLDER", help="The folder of this study. One for each study.")
]
WorkerCount = Annotated[int, typer.Option("--workers", help="Runs at the same time.")]
Threads = Annotated[int, typer.Option(help="Threads of each run. 0: an equal share of the cores.")]
TimeLimit = Annotated[
    float | None,
    typer.Option("--time-limit", metavar="SECONDS", help="A run that takes longer has failed."),
]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Repeat the runs that failed.")]
ShowStatus = Annotated[
    bool, typer.Option("--status", help="Only print how far the study in --out is.")
]


def compare(
    context: typer.Context,
    out: Out,
    subject: Subject = None,
    units: Units = None,
    set: ModelOptions = None,
    data: Data = None,
    test: TestArrays = None,
    data_options: DataOptions = None,
    baseline: Baseline = None,
    rates: Rates = None,
    seeds: Seeds = None,
    recipe: RecipeName = None,
    epochs: Epochs = None,
    changes: RecipeChanges = None,
    metric: Metric = None,
    margin: Margin = None,
    on: On = "local",
    workers: WorkerCount = 1,
    threads: Threads = 0,
    device: Device = "cpu",
    shard: Shard = None,
    time_limit: TimeLimit = None,
    retry_failed: RetryFailed = False,
    data_folder: DataFolder = None,
    dry_run: StudyDryRun = False,
    show_status: ShowStatus = False,
    json: Json = False,
) -> None:
    """Train a network with different activation functions, and test which ones differ.

    Every unit is trained at the same learning rates with the same seeds, on the same batches. A
    unit is better if it is better both at the fitted peak of its rate curve and at the best rate
    that was tried. The result is a line for each unit, the page `report.html` and the records
    `study.jsonl`.

    Before training, the number of runs and their time are printed. If interrupted, rerun the same
    command to resume. The exit code is 1 if runs failed or the disk failed.

    Example: `gatewise compare net.py:make --data digits --units silu,crelu --out first`
    """
    if show_status:
        return _show_status(out, json)
    from gatewise.studies import Running

    running = Running(
        workers=workers,
        threads=threads,
        on=on,
        shard=shard,
        time_limit=time_limit,
        retry_failed=retry_failed,
    )
    study = _study(
        subject,
        {
            "units": _units(units),
            "baseline": baseline,
            "rates": _rates(rates),
            "seeds": seeds,
            "metric": metric,
            "margin": margin,
        },
        options=key_values("--set", set),
        data=(data, test, key_values("--data-option", data_options), data_folder),
        recipe=(recipe, recipe_lines(changes, epochs)),
        device=device,
    )
    options = named_options(context.command)
    _run(study, out, running, options, dry_run=dry_run, json=json)


def _study(
    subject: str | None,
    table: dict[str, Any],
    *,
    options: dict[str, Any],
    data: tuple[str | None, Path | None, dict[str, Any], str | None],
    recipe: tuple[str | None, list[str]],
    device: str,
) -> "ComparisonStudy":
    """Return the plan of a study with options in place of its keys, or that of the options.

    Args:
        subject: A network or a study.
        table: The options, None for those that are not given.
        options: Of the network.
        data: Its name, test set, options and folder.
        recipe: The name of what it is trained by, None for the study's or the default; and
            changes of it.
        device: Where it is trained.
    """
    from gatewise.models import list_models
    from gatewise.studies import Choices, make_recipe, plan_comparison, presets, read_comparison

    given = {key: value for key, value in table.items() if value is not None}
    name, test, data_options, folder = data
    if subject is None:
        raise ArgumentError(
            "compare: name a network or a study",
            fix="gatewise compare net.py:make --data digits --units silu,crelu --out first, or "
            "gatewise compare demo --out demo",
        )
    if subject in presets() or subject.endswith(".toml"):
        if test is not None:
            raise ArgumentError("--test: it is for arrays alone", got=str(test), fix="leave it out")
        if options:
            raise ArgumentError(
                "--set: the options of a study's networks are in its file",
                got=", ".join(options),
                fix="copy the study to a file and change it there",
            )
        if name is not None:
            given["data"] = {"name": name, "options": data_options}
        return read_comparison(
            subject,
            given,
            recipe=recipe[0],
            recipe_changes=recipe[1],
            data_folder=folder,
            device=device,
        )
    if subject.isidentifier() and subject not in list_models():
        raise unknown_name("model or study", subject, [*list_models(), *presets()])
    factory = model_factory(subject, options)
    if "units" not in given or name is None:
        raise ArgumentError(
            "compare: a network needs --units and --data",
            fix=f"gatewise compare {subject} --data digits --units silu,crelu --out first",
        )
    choices = Choices(metric=given.pop("metric", None))
    return plan_comparison(
        {subject.rpartition(":")[2]: factory},
        given.pop("units"),
        comparison_data(name, test, data_options, folder),
        choices=choices,
        recipe=make_recipe(recipe[0], changes=recipe[1]),
        device=device,
        **given,
    )


def _units(text: str | None) -> list[Any] | None:
    """Return ``relu,beta_vq:pieces=abs`` as a study file would write it."""
    if text is None:
        return None
    units: list[Any] = []
    for unit in text.split(","):
        name, *options = unit.strip().split(":")
        units.append({"name": name, **key_values("--units", options)} if options else name)
    return units


def _rates(text: str | None) -> int | list[float] | None:
    """Return a number of rates, or the rates."""
    if text is None or text.isdigit():
        return None if text is None else int(text)
    try:
        return [float(part) for part in text.split(",")]
    except ValueError:
        raise ArgumentError(
            "--rates: needs a number of rates, or rates with commas between them",
            got=text,
            fix="--rates 5, or --rates 0.001,0.003,0.01,0.03",
        ) from None


def _run(
    study: "ComparisonStudy",
    out: Path,
    running: "Running",
    options: Mapping[str, str],
    *,
    dry_run: bool,
    json: bool,
) -> None:
    """Print the cost, run the study and print its result."""
    from gatewise.studies import describe, estimate_cost, run_comparison
    from gatewise.train import StopSignal

    estimate = estimate_cost(study, running.workers)
    if dry_run and json:
        return print_json(estimate.to_dict())
    for line in describe(study, estimate):
        print_note(as_options(line, options))
    if dry_run:
        return None
    stop = StopSignal(
        tell=lambda: print_note("\nstopping and saving; press Ctrl-C again to stop at once")
    )
    try:
        result = run_comparison(study, out, running, say=print_note, stop=stop)
    except HeldError:
        raise  # another process uses the folder: invalid input, exit code 2
    except (FileError, LostProcessError) as problem:  # the disk or a cluster: not invalid input
        print_error(str(problem))
        raise typer.Exit(CHECK_FAILED) from None
    if result is None:
        print_note(stopped_message())
        raise typer.Exit(INTERRUPTED)
    if running.shard is not None:
        return _report_shard(study, out, running.shard)
    _report(result, out, json)
    if any(record["status"] == "failed" for record in result.records):
        raise typer.Exit(CHECK_FAILED)


def _report(result: "ComparisonResult", out: Path, json: bool) -> None:
    """Write the page, and print the result as text or JSON."""
    from gatewise.files import write_text
    from gatewise.report import comparison_page

    write_text(out / REPORT, comparison_page(result))
    if json:
        return print_json(result.to_dict())
    print(result)
    print(f"records  {out / RECORDS}")
    print(f"report   {out / REPORT}")


def _report_shard(study: "ComparisonStudy", out: Path, shard: str) -> None:
    """Print what is left when the shards that are there are joined."""
    from gatewise.studies import read_records

    _, records = read_records(out)
    left = len(study.missing(records))
    print(f"shard {shard} is done; of all shards joined, the study asks for {left} more runs")
    print("run the same command without --shard in this folder to join them and go on")


def _show_status(out: Path, json: bool) -> None:
    """Print how far a study is."""
    from gatewise.studies import StudyFile

    status = StudyFile(out).status()
    if json:
        return print_json(status.to_dict())
    ended = status.done + status.failed
    print(f"{ended} of {status.cells} runs that are asked for so far have ended")
    print(f"{status.failed} failed, {status.diverged} diverged")
    print(f"driver   {status.driver or 'none: rerun the command to go on'}")
    for record in status.failures:
        print(f"failed   {record.get('unit')}, seed {record.get('seed')}: {record.get('error')}")
