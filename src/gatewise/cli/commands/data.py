"""``gatewise data``: the data sets, and whether they are there."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewise.cli.output import print_json, print_rich, table

if TYPE_CHECKING:
    from gatewise.data import Source, State

Folder = Annotated[
    Path | None,
    typer.Option(
        help="The folder that holds the data sets; by default the one GATEWISE_DATA names."
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")]


def data(folder: Folder = None, json: Json = False) -> None:
    """List the data sets: what there is, and whether its files are present, missing or damaged.

    Present means that every file has the published digest: all bytes are read. Nothing is
    downloaded; below the table it is said how to have what is not there.

    Example: `gatewise data --folder ~/datasets`
    """
    from gatewise.data import datasets, state

    found = [(source, state(source.name, folder=folder)) for source in datasets().values()]
    if json:
        return print_json([_record(source, state) for source, state in found])
    _print_table(found)


def _print_table(found: list[tuple["Source", "State"]]) -> None:
    rows = table(
        "name",
        "title",
        "train",
        "test",
        "classes",
        "shape",
        "state",
        right=("train", "test", "classes"),
        whole=("name", "train", "test", "classes", "shape", "state"),
    )
    for source, state in found:
        train, test = source.sizes or ("-", "-")
        classes = "-" if source.classes is None else source.classes or "numbers"
        shape = "x".join(map(str, source.shape)) if source.shape else "-"
        rows.add_row(
            source.name, source.title, str(train), str(test), str(classes), shape, state.word
        )
    print_rich(rows, *(f"{source.name}: {state.detail}" for source, state in found if state.detail))


def _record(source: "Source", state: "State") -> dict[str, Any]:
    files = [
        {"path": name, "sha256": form.sha256, "bytes": form.size}
        for file in source.files
        for name, form in file.forms.items()
    ]
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
