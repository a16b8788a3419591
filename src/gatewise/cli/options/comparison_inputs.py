"""The network and the data of ``gatewise compare`` and ``gatewise train``."""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from gatewise.cli.options.model_reference import load_function, load_model, split_reference
from gatewise.errors import ArgumentError, unknown_name

if TYPE_CHECKING:
    from torch import nn

KINDS = "a data set, FILE.npz with --test FILE.npz, a folder of images, or file.py:FUNCTION"
ALL_ROWS = 1 << 40
DATA_HELP = (
    "The data: a set of `gatewise list data`, FILE.npz with inputs and labels (and --test), a "
    "folder of images with train/CLASS and test/CLASS, or file.py:FUNCTION, which returns (train, "
    "test)."
)
TestArrays = Annotated[
    Path | None,
    typer.Option("--test", metavar="FILE.npz", help="The test set, if --data is a file."),
]


@dataclass(frozen=True)
class ModelFactory:
    """A function that builds the model of a reference, in any process.

    Attributes:
        reference: As the user writes it.
        options: Arguments of the constructor.
    """

    reference: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, **options: Any) -> "nn.Module":
        """Build the model.

        Args:
            **options: In place of those that are kept.
        """
        return load_model(self.reference, {**self.options, **options})


def model_factory(reference: str, options: Mapping[str, Any]) -> Any:
    """Return a function that builds the model of a reference.

    Args:
        reference: A reference to a model, or the name of a network of gatewise.
        options: Arguments of the constructor.
    """
    from gatewise.studies import BuiltIn

    kind, name = split_reference(reference)
    return BuiltIn(name, options) if kind == "gatewise" else ModelFactory(reference, options)


def built_in_name(reference: str) -> str | None:
    """Return the name of a network of gatewise; None for other models."""
    kind, name = split_reference(reference)
    return name if kind == "gatewise" else None


def is_data_set(name: str) -> bool:
    """Return whether ``--data`` is the name of a data set, and no file, folder or function."""
    # Path.exists raises where a name is too long for a file.
    return ":" not in name and not Path(name).suffix and not os.path.exists(name)  # noqa: PTH110


def comparison_data(
    name: str, test: Path | None, options: Mapping[str, Any], folder: str | None
) -> Any:
    """Return the data of a comparison, in a form that :func:`gatewise.compare` takes.

    Args:
        name: The value of ``--data``.
        test: The value of ``--test``.
        options: Of a data set.
        folder: Of the data sets.
    """
    from gatewise.data import datasets
    from gatewise.studies import NamedData

    path = Path(name)
    if path.suffix.lower() in (".npz", ".npy"):
        if test is None:
            raise ArgumentError("--data: a file of arrays needs a test set", fix="--test FILE.npz")
        return _arrays(path), _arrays(test)
    if test is not None:
        raise ArgumentError("--test: it is for arrays alone", got=str(test), allowed=KINDS)
    if path.is_dir():
        return NamedData("image_folder", dict(options), name)
    if ":" in name:
        return load_function(name)()
    if name not in datasets():
        raise unknown_name("data set, file or folder", name, datasets())
    return NamedData(name, dict(options), folder)


def _arrays(path: Path) -> Any:
    """Return inputs and labels of a file."""
    from gatewise.data import read_arrays

    inputs, labels = read_arrays([path], ALL_ROWS)
    if labels is None:
        raise ArgumentError(
            "--data: the file has no labels",
            got=str(path),
            fix="save it by numpy.savez(FILE, x=inputs, y=labels)",
        )
    return inputs, labels
