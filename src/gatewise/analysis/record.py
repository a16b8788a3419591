"""The base classes of the results that analyses return.

A result converts itself to plain values for a file, shows itself in a notebook, and draws itself
with matplotlib. An analysis only states its fields, its text and its picture.
"""

from collections.abc import Sequence
from typing import Any

from gatewise.results import Result


class AnalysisResult(Result):
    """The base of the result of every analysis."""


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
