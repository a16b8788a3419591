"""``gatewise report``: write the HTML page of a study or of a diagnosis."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewise.cli.output import check_target, print_note
from gatewise.errors import ArgumentError, FileError

if TYPE_CHECKING:
    from gatewise.studies import ComparisonResult

Source = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER|FILE",
        help="The folder of a study or of a diagnosis, or its records (study.jsonl).",
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
    the records of another computer. The page needs no network.

    Example: `gatewise report demo --out report.html`
    """
    from gatewise.report import PAGE, RECORD, is_diagnosis, write_page

    if not source.exists():
        raise FileError(
            "report: there is no such file or folder",
            got=str(source),
            fix="name the folder of a study or of a diagnosis",
        )
    diagnosis = source / RECORD
    if diagnosis.is_file():
        out = out or source / PAGE
        source = diagnosis
    if source.suffix == ".json" and is_diagnosis(record := _read_json(source)):
        target = write_page(record, check_target(out or source.with_suffix(".html"), ENDINGS))
        return print_note(f"wrote {target}: {len(record['questions'])} questions")
    result = _comparison(source)
    default = source / "report.html" if source.is_dir() else source.with_suffix(".html")
    target = write_page(result, check_target(out or default, ENDINGS))
    print_note(f"wrote {target}: {len(result.records)} runs")


def _comparison(source: Path) -> "ComparisonResult":
    """Return the comparison of a folder or a file."""
    from gatewise.studies import read_recorded, read_study

    if source.is_dir() and any(source.glob("*.run.json")):
        return read_recorded(source)
    if source.is_dir() or source.suffix in (".sqlite", ".jsonl"):
        return read_study(source)
    raise ArgumentError(
        "report: this file is not the result of a study",
        got=str(source),
        fix="name the folder of a study, or its study.jsonl",
    )


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
