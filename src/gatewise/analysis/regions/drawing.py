"""Pictures of partitions."""

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gatewise.analysis.planes import Array, Polygons, Slice
from gatewise.analysis.record import new_axes
from gatewise.checks import check_number

SIZE = (5, 5)  # of a figure, in inches


def draw_polygons(axes: Any, polygons: Polygons, segments: Array, window: Slice, seed: int) -> Any:
    """Draw polygons in random light colours, segments over them in red, and the three inputs.

    Args:
        axes: matplotlib's axes, or None for new ones.
        polygons: the polygons.
        segments: (S, 2, 2), start and end of each segment.
        window: the window of the plane.
        seed: the seed of the colours.

    Returns:
        The axes.
    """
    from matplotlib.collections import LineCollection, PolyCollection

    axes = axes or new_axes(SIZE)
    shades = np.random.default_rng(seed).uniform(0.75, 1.0, (len(polygons), 3))
    corners = np.split(polygons.vertices, polygons.starts[1:-1])
    axes.add_collection(
        PolyCollection(corners, facecolors=shades, edgecolors="0.35", linewidths=0.3)
    )
    if len(segments):
        axes.add_collection(LineCollection(list(segments), colors="tab:red", linewidths=1.5))
    return _frame(axes, window)


def draw_entropy(axes: Any, entropy: Array, window: Slice) -> Any:
    """Draw a grid of numbers between 0 and 1, and the three inputs; returns the axes."""
    axes = axes or new_axes(SIZE)
    extent = (window.low[0], window.high[0], window.low[1], window.high[1])
    axes.imshow(entropy, origin="lower", extent=extent, vmin=0, vmax=1, cmap="magma")
    axes.set_title("soft gates have no regions; bright: gates are uncertain", fontsize=8)
    return _frame(axes, window)


def animation(plots: Sequence[Callable[[Any], Any]], seconds: float) -> bytes:
    """Return an animated GIF that repeats.

    Args:
        plots: functions that draw one picture on the axes they are called with.
        seconds: how long each picture is shown.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    frames = []
    for number, plot in enumerate(plots, 1):
        axes = plot(new_axes(SIZE))
        label = f"{number} of {len(plots)}"
        axes.text(0.02, 0.97, label, transform=axes.transAxes, va="top", fontsize=8)
        canvas = FigureCanvasAgg(axes.figure)
        canvas.draw()
        frames.append(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB"))
    buffer = io.BytesIO()
    frames[0].save(
        buffer,
        "GIF",
        save_all=True,
        append_images=frames[1:],
        duration=round(1000 * seconds),
        loop=0,
    )
    return buffer.getvalue()


def check_seconds(seconds: Any) -> float:
    """Return the time for which a picture of a film is shown, if it is 0.02 to 60 seconds."""
    return check_number("film", "seconds", seconds, least=0.02, most=60)


def _frame(axes: Any, window: Slice) -> Any:
    axes.plot(*window.marks.T.numpy(), "k.", markersize=4)
    axes.set_xlim(window.low[0], window.high[0])
    axes.set_ylim(window.low[1], window.high[1])
    axes.set_aspect("equal")
    return axes
