"""``gatewise report``: write the HTML page of a study or of a diagnosis."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewise.cli.output import check_target, print_note
from gatewise.errors import ArgumentError, FileError
from gatewise.words import plural

if TYPE_CHECKING:
    from gatewise.studies import StudyResult

Source = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER|FILE.json",
        help="The folder of a study or of a diagnosis, or its result as JSON.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option(
        "--out",
        metavar="FILE",
        help="The page to write (.html). Default: FOLDER/report.html for a study, "
        "FOLDER/index.html for a diagnosis.",
    ),
]

ENDINGS = (".html", ".htm")


def report(source: Source, out: Out = None) -> None:
    """Write the HTML page of a study (`gatewise compare`) or a diagnosis (`gatewise diagnose`).

    Both commands write the page themselves. Use this command to write it again, for example from
    the JSON of another computer. The page needs no network.

    Example: `gatewise report demo/study --out demo/report.html`
    """
    from gatewise.report import PAGE, RECORD, is_diagnosis, write_comparison, write_page

    diagnosis = source / RECORD
    if diagnosis.is_file():
        out = out or source / PAGE
        source = diagnosis
    if not source.is_dir() and is_diagnosis(record := _read_json(source)):
        target = write_page(record, check_target(out or source.with_suffix(".html"), ENDINGS))
        return print_note(f"wrote {target}: {len(record['questions'])} questions")
    result, study = _result(source)
    default = source / "report.html" if study else source.with_suffix(".html")
    target = check_target(out or default, ENDINGS)
    write_comparison(result, target, study)
    if isinstance(result, dict):
        records, cells, damaged = result["records"], result["cells"], result.get("damaged")
    else:
        records, cells, damaged = result.records, result.cells, result.damaged
    print_note(f"wrote {target}: {len(records)} of {len(cells)} runs")
    if damaged:
        verb = "was" if len(damaged) == 1 else "were"
        print_note(f"{plural(len(damaged), 'damaged record')} {verb} set aside: see the page")


def _result(source: Path) -> "tuple[StudyResult | dict[str, Any], Path | None]":
    """Return the result, and the study's folder if it was read from there."""
    if source.is_dir():
        from gatewise.studies import read_study

        return read_study(source), source
    content = _read_json(source)
    if not isinstance(content, dict) or not {"cells", "records"} <= content.keys():
        raise ArgumentError(
            "report: this file is not the result of a study",
            got=str(source),
            fix="name the folder of a study",
        )
    return content, None


def _read_json(path: Path) -> Any:
    """Return the content of a JSON file."""
    import json

    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise FileError(
            "report: the file cannot be read",
            got=str(path),
            fix="name the folder of a study",
        ) from problem
    except (ValueError, RecursionError) as problem:
        raise ArgumentError("report: this file is not JSON", got=f"{path}: {problem}") from problem
