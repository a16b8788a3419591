"""``gatewise compare``: train networks with different units, and compare the results."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewise.cli.commands.train import INTERRUPTED, stopped_message
from gatewise.cli.error_group import CHECK_FAILED
from gatewise.cli.options import (
    DataFolder,
    DataOptions,
    Device,
    Epochs,
    Json,
    On,
    RecipeChanges,
    Shard,
    Workers,
    check_least,
    recipe_lines,
    toml_table,
)
from gatewise.cli.output import print_error, print_json, print_note
from gatewise.errors import ArgumentError, FileError, HeldError, LostProcessError

if TYPE_CHECKING:
    from gatewise.studies import RunOptions, Study, StudyResult

REPORT = "report.html"
BACKBONES = ["small_cnn", "mlp"]

StudyName = Annotated[
    str | None,
    typer.Argument(
        metavar="STUDY", help="A study: FILE.toml, or the name of one that is included: demo."
    ),
]
Units = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,NAME,...",
        help="The units, for example `relu,crelu,beta_vq:pieces=abs`. The first is the baseline.",
    ),
]
Baseline = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="The unit that the others are compared with. Default: the first."
    ),
]
Backbones = Annotated[
    str | None,
    typer.Option(metavar="NAME,NAME,...", help="The networks, by name. Default: small_cnn,mlp."),
]
Data = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="The data set, one of `gatewise list data`. Default: digits."
    ),
]
Seeds = Annotated[
    int | None,
    typer.Option(help="Number of seeds of the final runs. Default: 10. Few seeds show little."),
]
RecipeName = Annotated[
    str | None,
    typer.Option("--recipe", metavar="NAME|FILE.toml", help="The training recipe. Default: adam."),
]
TuneMode = Annotated[
    str | None,
    typer.Option(
        "--tune",
        metavar="MODE",
        help="How the learning rate of each unit is chosen: `quick` (the default, 15 runs for each "
        "unit and network), `full` (22 runs, and more to confirm differences) or `none` (the "
        "recipe's rate for all units; the order can differ at other rates).",
    ),
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
        help="Only check the configuration, count the runs and estimate their time from three "
        "training steps of each unit. Nothing is trained or written.",
    ),
]
Match = Annotated[
    str | None,
    typer.Option(
        metavar="COST",
        help="`parameters`, `flops` or `none`. Scale the width of every network so that it has as "
        "many parameters or FLOPs as the baseline.",
    ),
]
Out = Annotated[
    Path, typer.Option(metavar="FOLDER", help="The folder of this study. One for each study.")
]
GpusPerCell = Annotated[
    float,
    typer.Option(
        "--gpus-per-cell",
        help="GPUs for each run; 0.5 if two runs share one.",
    ),
]
Threads = Annotated[int, typer.Option(help="Threads of each run. 0: an equal share of the cores.")]
Tries = Annotated[int, typer.Option(help="How often to try a run whose worker crashed.")]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Repeat the runs that failed.")]
ShowStatus = Annotated[
    bool, typer.Option("--status", help="Only print how far the study in --out is.")
]


def compare(
    out: Out,
    study: StudyName = None,
    units: Units = None,
    baseline: Baseline = None,
    backbones: Backbones = None,
    data: Data = None,
    data_options: DataOptions = None,
    seeds: Seeds = None,
    recipe: RecipeName = None,
    epochs: Epochs = None,
    changes: RecipeChanges = None,
    match: Match = None,
    tune: TuneMode = None,
    margin: Margin = None,
    on: On = "local",
    workers: Workers = 0,
    threads: Threads = 0,
    device: Device = "cpu",
    gpus_per_cell: GpusPerCell = 0.0,
    shard: Shard = None,
    tries: Tries = 3,
    retry_failed: RetryFailed = False,
    data_folder: DataFolder = None,
    dry_run: StudyDryRun = False,
    show_status: ShowStatus = False,
    json: Json = False,
) -> None:
    """Train networks with different activation functions, and test which ones differ.

    All units get the same batches, augmentation and initial weights, for each of several seeds. The
    learning rate of each unit is chosen on held-out training data, from the same rates for all. The
    result is a table of the differences from the baseline, with confidence intervals and cost, and
    a page `report.html`.

    Before training, the number of runs is printed, and after the first runs the time left.

    The study is a TOML file or is given by options. If interrupted, rerun the same command to
    resume. After a change of the study, only new runs are computed. The exit code is 1 if runs
    failed or the disk failed.

    Example: `gatewise compare --units relu,crelu --data digits --seeds 6 --epochs 5 --out first`
    """
    if show_status:
        return _show_status(out, json)
    flags: dict[str, Any] = {
        "units": _units(units),
        "baseline": baseline,
        "backbones": backbones.split(",") if backbones else None,
        "seeds": seeds,
        "match": match,
        "tune": tune,
        "margin": margin,
    }
    table = {key: value for key, value in flags.items() if value is not None}
    if data or data_options:
        data_table = toml_table("--data-option", data_options)
        table["data"] = {"name": data or "digits", "options": data_table}
    check_least("--seeds", seeds)
    check_least("--workers", workers, 0)
    check_least("--threads", threads, 0)
    check_least("--gpus-per-cell", gpus_per_cell, 0)
    check_least("--tries", tries)
    if margin is not None and not margin > 0:
        raise ArgumentError("--margin is not allowed", got=margin, allowed="a number above 0")
    chosen = _study(study, table, recipe, recipe_lines(changes, epochs))
    from gatewise.studies import RunOptions

    options = RunOptions(
        on=on,
        workers=workers,
        threads=threads,
        device=device,
        gpus_per_cell=gpus_per_cell,
        shard=shard,
        tries=tries,
        retry_failed=retry_failed,
        data_folder=data_folder,
    )
    if dry_run:
        _check(chosen, out, options, json)
    else:
        _run(chosen, out, options, json)


def _study(
    name: str | None,
    table: dict[str, Any],
    recipe: str | None,
    changes: list[str],
) -> "Study":
    """Return the study of a file, with options replacing its keys, or the study of the options.

    Args:
        name: The study, if one is named.
        table: The options, as the file would write them.
        recipe: The recipe.
        changes: Lines of TOML that change the recipe.
    """
    from gatewise.studies import Study
    from gatewise.train import find_recipe

    if name is None and "units" not in table:
        raise ArgumentError(
            "compare: name a study or units",
            fix="gatewise compare demo --out DIR, or --units relu,crelu",
        )
    if name is None and len(table["units"]) < 2:
        raise ArgumentError(
            "--units: there is nothing to compare",
            got="one unit",
            allowed="two units or more",
            fix="--units relu,crelu",
        )
    if recipe or (changes and name is None):
        values = find_recipe(recipe or "adam", changes=changes).model_dump(exclude_unset=True)
        table["recipe"] = {"name": recipe or "adam", **values}
    elif changes:
        raise ArgumentError(
            "compare: --set and --epochs need the name of the recipe they change",
            fix="add --recipe NAME",
        )
    if name is not None:
        return Study.load(name, table)
    return Study.of({"backbones": BACKBONES, **table}, where="compare", name="compare")


def _units(text: str | None) -> list[Any] | None:
    """Return ``relu,beta_vq:pieces=abs`` as a study file would write it."""
    if text is None:
        return None
    units: list[Any] = []
    for unit in text.split(","):
        name, *options = unit.strip().split(":")
        units.append({"name": name, **toml_table("--units", options)} if options else name)
    return units


def _check(study: "Study", out: Path, options: "RunOptions", json: bool) -> None:
    """Check a study, and print how many runs it has and how long they take."""
    from gatewise.cli.output import estimate_line, left_out_line
    from gatewise.studies import StudyFolder, rehearse

    StudyFolder(out).check(study.table.name)
    rehearsal = rehearse(study, options)
    if json:
        return print_json(rehearsal.to_dict())
    print(f"Configuration OK: {rehearsal.planned.words}.")
    for left in rehearsal.left_out:
        print(left_out_line(left.to_dict()))
    print(estimate_line(rehearsal.estimate, "needed"))


def _run(study: "Study", out: Path, options: "RunOptions", json: bool) -> None:
    """Run a study and print its result."""
    from gatewise.cli.output import watched
    from gatewise.studies import StudyFolder, run_study
    from gatewise.train import StopSignal

    StudyFolder(out).check(study.table.name)  # here, because a wrong folder is invalid input
    stop = StopSignal(
        tell=lambda: print_note("\nstopping and saving; press Ctrl-C again to stop at once")
    )
    try:
        with watched(json=json) as watch:
            result = run_study(study, out, options, watch=watch, stop=stop)
    except HeldError:
        raise  # another process uses the folder: invalid input, exit code 2
    except (FileError, LostProcessError) as problem:  # the disk or a cluster: not invalid input
        print_error(str(problem))
        raise typer.Exit(CHECK_FAILED) from None
    if result is None:
        print_note(stopped_message())
        raise typer.Exit(INTERRUPTED)
    _report(result, out, json)
    if any(record["status"] == "failed" for record in result.records):
        raise typer.Exit(CHECK_FAILED)


def _report(result: "StudyResult", out: Path, json: bool) -> None:
    """Write the page, and print the result as text or JSON."""
    from gatewise.cli.output import left_out_line, print_study

    page = _page(result, out)
    if json:
        return print_json(result.to_dict())
    print_study(result)
    for left in result.content.get("left_out", []):
        print(left_out_line(left))
    print(f"records  {out / 'cells'}")
    print(f"report   {page}")


def _page(result: "StudyResult", out: Path) -> Path:
    """Write the report next to the records, unless it is up to date."""
    from gatewise.files import write_text
    from gatewise.report import comparison_page

    path = out / REPORT
    text = comparison_page(result)
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_text(path, text)
    return path


def _show_status(out: Path, json: bool) -> None:
    """Print how far a study is."""
    from gatewise.cli.output import print_status
    from gatewise.studies import status

    study_status = status(out)
    if json:
        print_json(study_status.to_dict())
    else:
        print_status(study_status)
