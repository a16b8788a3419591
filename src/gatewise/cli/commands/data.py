"""``gatewise list data``: list the data sets, and whether their files are present."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from gatewise.cli.options import DataFolder, Json
from gatewise.cli.output import print_json, print_rich, table
from gatewise.errors import ArgumentError

if TYPE_CHECKING:
    from gatewise.data import Source, State


def data(data_folder: DataFolder = None, json: Json = False) -> None:
    """List the data sets, and whether their files are present, missing or damaged.

    All files are read in full and compared with the published SHA-256. gatewise downloads nothing:
    for a data set that is missing, the line below the table says how to get it.

    Example: `gatewise list data --data-folder ~/datasets`
    """
    from gatewise.data import datasets, state

    folder = None if data_folder is None else Path(data_folder)
    if folder is not None and not folder.is_dir():
        raise ArgumentError(
            "--data-folder: is not a folder", got=data_folder, fix="name a folder that exists"
        )
    sets = [(source, state(source.name, folder=folder)) for source in datasets().values()]
    if json:
        return print_json([_record(source, state) for source, state in sets])
    _print_table(sets)


def _print_table(sets: list[tuple["Source", "State"]]) -> None:
    """Print one row per data set, and how to get those that are missing."""
    columns = ("name", "title", "train", "test", "classes", "shape", "state")
    whole = ("name", "train", "test", "classes", "shape", "state")
    rows = table(*columns, right=("train", "test", "classes"), whole=whole)
    details = []
    for source, state in sets:
        train, test = source.sizes or ("-", "-")
        classes = "-" if source.classes is None else source.classes or "numbers"
        shape = "x".join(map(str, source.shape)) if source.shape else "-"
        rows.add_row(
            source.name,
            source.title,
            str(train),
            str(test),
            str(classes),
            shape,
            state.word,
        )
        if state.detail:
            details.append(f"{source.name}: {state.detail}")
    print_rich(rows, *details)


def _record(source: "Source", state: "State") -> dict[str, Any]:
    """Return a data set for ``--json``."""
    files = []
    for file in source.files:
        for name, form in file.forms.items():
            files.append({"path": name, "sha256": form.sha256, "bytes": form.size})
    return {
        "name": source.name,
        "title": source.title,
        "home": source.home,
        "fetch": source.fetch,
        "licence": source.licence,
        "sizes": source.sizes,
        "classes": source.classes,
        "shape": source.shape,
        "options": list(source.options),
        "files": files,
        "state": state.word,
        "detail": state.detail,
    }
