"""The base classes of the results that analyses return.

A result converts itself to plain values for a file, shows itself in a notebook, and draws itself
with matplotlib. An analysis only states its fields, its text and its picture.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Any, cast

import numpy as np
from torch import Tensor

from gatewise.words import FitsScreen


class AnalysisResult(FitsScreen):
    """The base of every result. Subclasses are dataclasses."""

    def to_dict(self) -> dict[str, Any]:
        """Return all fields as plain values that :mod:`json` can write."""
        names = [field.name for field in fields(cast(Any, self))]
        return {name: plain_values(getattr(self, name)) for name in names}


class PlottedResult(AnalysisResult):
    """A result with a picture. Subclasses implement :meth:`_draw`."""

    def plot(self, axes: Any = None) -> Any:
        """Draw the result with matplotlib and return the axes.

        Args:
            axes: The matplotlib axes to draw on. A new figure is created by default.
        """
        if axes is None:
            axes = new_axes(self._figure_size())
        self._draw(axes)
        return axes

    def _figure_size(self) -> tuple[float, float]:
        """Return width and height of a new figure, in inches."""
        return 5.0, 3.6

    def _draw(self, axes: Any) -> None:
        """Draw on matplotlib's ``axes``."""
        raise NotImplementedError


def new_axes(size: tuple[float, float]) -> Any:
    """Return the axes of a new matplotlib figure.

    The figure belongs to no window and to no global state of pyplot.

    Args:
        size: Width and height in inches.
    """
    from matplotlib.figure import Figure  # takes half a second, and few programs plot

    return Figure(figsize=size, layout="constrained").subplots()


def label_places(axes: Any, rows: Sequence[Any], start: int = 0) -> None:
    """Label the places of a horizontal axis with the names of sites or layers.

    Args:
        axes: The matplotlib axes.
        rows: One object with a ``name`` for each place.
        start: The position of the first place.
    """
    places = range(start, start + len(rows))
    axes.set_xticks(places, [row.name for row in rows], rotation=90, fontsize=6)


def plain_values(value: Any, *, finite: bool = False) -> Any:
    """Return ``value`` in the types that JSON has.

    Tensors and arrays become nested lists, tuples become lists, results become dicts, and anything
    that JSON does not know becomes its string.

    Args:
        value: A value of any type, e.g. a tensor, a result, or a mapping of them.
        finite: Whether NaN and infinity become ``None``. Strict JSON has neither.
    """
    if isinstance(value, AnalysisResult):
        value = value.to_dict()
    elif isinstance(value, Tensor | np.ndarray | np.generic):
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain_values(item, finite=finite) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(item, finite=finite) for item in value]
    if isinstance(value, float):
        return None if finite and not math.isfinite(value) else value
    if isinstance(value, str | int) or value is None:
        return value
    return str(value)
