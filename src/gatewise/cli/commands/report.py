"""``gatewise report``: the page of a study that was run, or of a diagnosis."""

from pathlib import Path
from typing import Annotated, Any

import typer

from gatewise.cli.output import check_target, print_note
from gatewise.errors import ArgumentError, FileError

Source = Annotated[
    Path,
    typer.Argument(
        metavar="FOLDER|FILE.json",
        help="The folder of a study or a diagnosis, or its result as JSON.",
    ),
]
Out = Annotated[
    Path | None,
    typer.Option("--out", metavar="FILE", help="Where to write; FOLDER/report.html without."),
]

ENDINGS = (".html", ".htm")


def report(source: Source, out: Out = None) -> None:
    """Write the page of a study: the answer first, then every difference, cost and run behind it.

    Or of a diagnosis.

    Example: `gatewise report demo/study --out demo/report.html`
    """
    from gatewise.report import PAGE, RECORD, is_diagnosis, write_comparison, write_page

    kept = source / RECORD
    if kept.is_file():  # the folder of a diagnosis, whose page is its index
        source, out = kept, out or source / PAGE
    if not source.is_dir() and is_diagnosis(record := _read_json(source)):
        target = write_page(record, check_target(out or source.with_suffix(".html"), ENDINGS))
        return print_note(f"wrote {target}: {len(record['questions'])} questions")
    result, study = _result(source)
    target = check_target(
        out or (source / "report.html" if study else source.with_suffix(".html")), ENDINGS
    )
    write_comparison(result, target, study)
    print_note(f"wrote {target}: {len(result['records'])} of {len(result['cells'])} runs")


def _result(source: Path) -> tuple[dict[str, Any], Path | None]:
    """The plain result, and the study's folder if it was read from there."""
    if source.is_dir():
        from gatewise.studies import read_study

        return read_study(source).to_dict(), source
    content = _read_json(source)
    if not isinstance(content, dict) or not {"cells", "records"} <= content.keys():
        raise ArgumentError(
            "report: this file is not the result of a study",
            got=str(source),
            fix="name the folder of a study",
        )
    return content, None


def _read_json(path: Path) -> Any:
    import json

    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except OSError as problem:
        raise FileError(
            "report: cannot be read", got=str(path), fix="name the folder of a study"
        ) from problem
    except (ValueError, RecursionError) as problem:
        raise ArgumentError("report: this file is not JSON", got=f"{path}: {problem}") from problem
