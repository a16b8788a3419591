"""Pictures of partitions."""

import io
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gatewise.analysis.planes import Array, Polygons, Slice


def draw_polygons(axes: Any, polygons: Polygons, segments: Array, window: Slice, seed: int) -> Any:
    """Polygons in random light colours, ``segments`` (S, 2, 2) over them in red, and the three inputs."""
    from matplotlib.collections import LineCollection, PolyCollection

    axes = axes or new_axes()
    shades = np.random.default_rng(seed).uniform(0.75, 1.0, (len(polygons), 3))
    corners = np.split(polygons.vertices, polygons.starts[1:-1])
    axes.add_collection(
        PolyCollection(corners, facecolors=shades, edgecolors="0.35", linewidths=0.3)
    )
    if len(segments):
        axes.add_collection(LineCollection(list(segments), colors="tab:red", linewidths=1.5))
    return _frame(axes, window)


def draw_entropy(axes: Any, entropy: Array, window: Slice) -> Any:
    """A grid of numbers between 0 and 1, and the three inputs."""
    axes = axes or new_axes()
    extent = (window.low[0], window.high[0], window.low[1], window.high[1])
    axes.imshow(entropy, origin="lower", extent=extent, vmin=0, vmax=1, cmap="magma")
    axes.set_title("soft gates: no regions; bright where undecided", fontsize=8)
    return _frame(axes, window)


def animation(plots: Sequence[Callable[[Any], Any]], seconds: float) -> bytes:
    """An animated GIF: what each of ``plots`` draws on the axes it is given, for ``seconds``, over and over."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from PIL import Image

    frames = []
    for number, plot in enumerate(plots):
        axes = plot(new_axes())
        axes.text(
            0.02,
            0.97,
            f"{number + 1} of {len(plots)}",
            transform=axes.transAxes,
            va="top",
            fontsize=8,
        )
        canvas = FigureCanvasAgg(axes.figure)
        canvas.draw()
        frames.append(Image.fromarray(np.asarray(canvas.buffer_rgba())).convert("RGB"))
    made = io.BytesIO()
    frames[0].save(
        made, "GIF", save_all=True, append_images=frames[1:], duration=round(1000 * seconds), loop=0
    )
    return made.getvalue()


def new_axes() -> Any:
    """Axes of a figure of their own."""
    from matplotlib.figure import Figure

    return Figure(figsize=(5, 5), layout="constrained").subplots()


def _frame(axes: Any, window: Slice) -> Any:
    axes.plot(*window.marks.T.numpy(), "k.", markersize=4)
    axes.set_xlim(window.low[0], window.high[0])
    axes.set_ylim(window.low[1], window.high[1])
    axes.set_aspect("equal")
    return axes
