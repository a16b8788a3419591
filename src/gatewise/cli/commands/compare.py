"""``gatewise compare``.

Units on backbones over seeds, equal but for the unit, and a table of what differs.
"""

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewise.cli.commands.train import INTERRUPTED, as_lines, toml_table
from gatewise.cli.error_group import CHECK_FAILED
from gatewise.cli.output import print_error, print_json, print_note
from gatewise.errors import ArgumentError, FileError, HeldError

if TYPE_CHECKING:
    from gatewise.studies import RunOptions, Study, StudyResult

REPORT = "report.html"
BACKBONES = ["small_cnn", "mlp"]

StudyName = Annotated[
    str | None,
    typer.Argument(
        metavar="[STUDY]", help="A study: FILE.toml, or one that comes along, such as demo."
    ),
]
Units = Annotated[
    str | None,
    typer.Option(help="Units, such as relu,crelu,beta_vq:pieces=abs; the first is the baseline."),
]
Baseline = Annotated[str | None, typer.Option(help="What all others are compared with.")]
Backbones = Annotated[str | None, typer.Option(help="Networks by name, such as small_cnn,mlp.")]
Data = Annotated[str | None, typer.Option(help="The data set by name.")]
DataOptions = Annotated[
    list[str] | None,
    typer.Option("--data-option", metavar="KEY=VALUE", help="Option of the data set."),
]
Seeds = Annotated[
    int | None, typer.Option(help="How many; ten can pass an exact paired test, five cannot.")
]
RecipeName = Annotated[
    str | None, typer.Option("--recipe", help="A recipe by its name, or a file that ends in .toml.")
]
Epochs = Annotated[int | None, typer.Option(help="In place of the recipe's.")]
Changes = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="Change the recipe: --set optimiser.lr=0.01"),
]
Match = Annotated[
    str | None,
    typer.Option(help="Widths at which parameters or flops are the baseline's; or none."),
]
Out = Annotated[Path, typer.Option(help="The folder of this study alone.")]
On = Annotated[
    str, typer.Option(help="local (processes), here (this one), ray or ray://HOST:PORT.")
]
Workers = Annotated[int, typer.Option(help="Cells at once; 0: as many as there are cores.")]
Threads = Annotated[
    int, typer.Option(help="Threads for each cell; 0: an equal share of the cores.")
]
Tries = Annotated[int, typer.Option(help="How often a cell is begun whose worker is lost.")]
RetryFailed = Annotated[bool, typer.Option("--retry-failed", help="Run failed cells again.")]
DataFolder = Annotated[
    str | None, typer.Option(help="Where data sets are, if not in GATEWISE_DATA.")
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only check: read no data, write nothing.")]
ShowStatus = Annotated[
    bool, typer.Option("--status", help="Only say how far the study in --out is.")
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")]


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
    changes: Changes = None,
    match: Match = None,
    on: On = "local",
    workers: Workers = 0,
    threads: Threads = 0,
    tries: Tries = 3,
    retry_failed: RetryFailed = False,
    data_folder: DataFolder = None,
    dry_run: DryRun = False,
    show_status: ShowStatus = False,
    json: Json = False,
) -> None:
    """Compare units fairly.

    Same batches, augmentation and shared first weights, over seeds, with paired tests.

    A study is a TOML file, or the flags. Killed at any moment and given again, the same command
    goes on; a finished study is not run again, and a changed line runs only what changed. Exit 1 if
    cells failed or a disc did.

    Example: `gatewise compare --units relu,leaky_relu,crelu --data digits --seeds 6 --epochs 5
        --out studies/first`
    """
    if show_status:
        return _show_status(out, json)
    flags: dict[str, Any] = {
        "units": _units(units),
        "baseline": baseline,
        "backbones": backbones.split(",") if backbones else None,
        "seeds": seeds,
        "match": match,
    }
    given = {key: value for key, value in flags.items() if value is not None}
    if data or data_options:
        given["data"] = {
            "name": data or "digits",
            "options": toml_table("--data-option", data_options),
        }
    lines = [*as_lines("--set", changes), *([f"epochs = {epochs}"] if epochs is not None else [])]
    chosen = _study(study, given, recipe, lines)
    from gatewise.studies import RunOptions

    how = RunOptions(
        on=on,
        workers=workers,
        threads=threads,
        tries=tries,
        retry_failed=retry_failed,
        data_folder=data_folder,
    )
    _check(chosen, out, how) if dry_run else _run(chosen, out, how, json)


def _study(
    name: str | None, given: dict[str, Any], recipe: str | None, lines: list[str]
) -> "Study":
    """The study of the file with the flags in place of its keys, or of the flags alone."""
    from gatewise.studies import Study
    from gatewise.train import find_recipe

    if name is None and "units" not in given:
        raise ArgumentError(
            "compare: a study or units are needed",
            fix="gatewise compare demo, or --units relu,crelu",
        )
    if recipe or (lines and name is None):
        made = find_recipe(recipe or "adam", changes=lines).model_dump(exclude_unset=True)
        given["recipe"] = {"name": recipe or "adam", **made}
    elif lines:
        raise ArgumentError(
            "compare: --set and --epochs change a recipe that is named", fix="add --recipe NAME"
        )
    if name is not None:
        return Study.load(name, given)
    return Study.of({"backbones": BACKBONES, **given}, where="compare", name="compare")


def _units(given: str | None) -> list[Any] | None:
    """``relu,beta_vq:pieces=abs`` as the file would say it."""
    if given is None:
        return None
    found: list[Any] = []
    for each in given.split(","):
        name, *options = each.strip().split(":")
        found.append({"name": name, **toml_table("--units", options)} if options else name)
    return found


def _check(study: "Study", out: Path, how: "RunOptions") -> None:
    from gatewise.studies import StudyFolder, cells_of, make_groups

    StudyFolder(out).check(study.table.name)
    cells = cells_of(make_groups(study, data_folder=how.data_folder), study.table.seeds)
    print(f"nothing speaks against it: {len(cells)} cells")


def _run(study: "Study", out: Path, how: "RunOptions", json: bool) -> None:
    from gatewise.cli.output import watched
    from gatewise.studies import StudyFolder, run_study
    from gatewise.train import StopSignal

    StudyFolder(out).check(study.table.name)  # here, where a wrong folder is bad input
    stop = StopSignal(
        tell=lambda: print_note("\nstopping: what runs is saved; Ctrl-C again stops at once")
    )
    try:
        with watched() as watch:
            result = run_study(study, out, how, watch=watch, stop=stop)
    except HeldError:
        raise
    except FileError as problem:  # not bad input: the disc
        print_error(str(problem))
        raise typer.Exit(CHECK_FAILED) from None
    if result is None:
        print_note(f"stopped and saved; to go on: {shlex.join(['gatewise', *sys.argv[1:]])}")
        raise typer.Exit(INTERRUPTED)
    _report(result, out, json)
    if any(record["status"] == "failed" for record in result.records):
        raise typer.Exit(CHECK_FAILED)


def _report(result: "StudyResult", out: Path, json: bool) -> None:
    from gatewise.cli.output import print_study

    page = _page(result, out)
    if json:
        return print_json(result.to_dict())
    print_study(result)
    print(f"records  {out / 'cells'}")
    print(f"report   {page}")


def _page(result: "StudyResult", out: Path) -> Path:
    """The report beside the records, if it is not there as it should be."""
    from gatewise.files import write_text
    from gatewise.report import comparison_page

    path, text = out / REPORT, comparison_page(result.to_dict())
    if not path.is_file() or path.read_text(encoding="utf-8") != text:
        write_text(path, text)
    return path


def _show_status(out: Path, json: bool) -> None:
    from gatewise.cli.output import print_status
    from gatewise.studies import status

    found = status(out)
    print_json(found.to_dict()) if json else print_status(found)
