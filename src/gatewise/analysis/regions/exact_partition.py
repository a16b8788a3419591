"""Into which regions does a network divide a plane, and which affine map is it on each?"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from html import escape
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from gatewise.analysis.model_graphs import check_points, eval_graph, the_output
from gatewise.analysis.planes import (
    BATCH,
    NO_LABEL,
    DenseLayer,
    Extent,
    LinesSplitter,
    PlaneRun,
    Polygons,
    Slice,
    adjacent,
    dense_chain,
    dense_chain_of_graph,
    native_splitter,
    rectangle,
    shared_edges,
    slice_through,
    split_by_lines,
    split_by_pieces,
    split_dense,
    tolerance,
)
from gatewise.analysis.regions.drawing import animation, draw_entropy, draw_polygons
from gatewise.analysis.regions.gate_entropy_map import gate_entropy, is_soft
from gatewise.errors import ArgumentError, Limitation, NotApplicableError, unknown_name
from gatewise.files import write_bytes
from gatewise.graph import Graph, untouched

MOST_REGIONS = 2**40


@dataclass(frozen=True, eq=False)
class Region:
    """One region: a convex polygon of the slice, on which every unit stays in one piece."""

    vertices: Tensor  # (k, 2) slice coordinates, counter-clockwise
    area: float
    affine: Tensor  # (3, o): output = affine[0] + u affine[1] + v affine[2]
    pattern: int  # a number for the pieces of all units: equal for equal patterns


@dataclass(frozen=True, eq=False)
class Partition:
    """The answer of :func:`partition` for a max-affine network: its exact regions in the window."""

    slice: Slice
    polygons: Polygons
    maps: Tensor  # (N, 3, o)
    patterns: np.ndarray  # (N,) uint64
    form: str  # "native" or "numpy"

    exact = True

    @property
    def count(self) -> int:
        """How many regions there are."""
        return len(self.polygons)

    @property
    def areas(self) -> Tensor:
        """Of the regions (N,), in the units of the input."""
        return torch.from_numpy(self.polygons.areas)

    @property
    def centroids(self) -> Tensor:
        """Centres of gravity (N, 2) in slice coordinates."""
        return torch.from_numpy(self.polygons.centroids)

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """The regions one by one.

        The arrays they are taken from are faster where there are many.
        """
        starts, vertices = self.polygons.starts.tolist(), torch.from_numpy(self.polygons.vertices)
        areas, patterns = self.polygons.areas.tolist(), self.patterns.tolist()
        return tuple(
            Region(vertices[starts[i] : starts[i + 1]], areas[i], self.maps[i], patterns[i])
            for i in range(self.count)
        )

    def neighbours(self) -> Tensor:
        """Pairs of regions (P, 2) that share an edge, the smaller index first."""
        return torch.from_numpy(adjacent(self.polygons))

    def decision_boundary(self) -> tuple[Tensor, Tensor]:
        """Where the largest output changes, or a single output becomes positive.

        Segments (S, 2, 2) in slice coordinates, each within one region or on its edge, and the
        regions (S,) they are in; of two that share the edge the first.
        """
        maps = self.maps.numpy()
        first = int(self.polygons.labels.max(initial=NO_LABEL)) + 1
        if maps.shape[2] == 1:
            split = split_by_lines(self.polygons, maps, self.slice.reach, first)
        else:
            split = split_by_pieces(self.polygons, maps[:, :, None], self.slice.reach, first)
        cells, middles, own = split.polygons, split.polygons.middles, maps[split.parent]
        values = own[:, 0] + middles[:, :1] * own[:, 1] + middles[:, 1:] * own[:, 2]
        rounding = tolerance(own, self.slice.reach).max(1, keepdims=True)
        if maps.shape[2] == 1:
            kind = values[:, 0] > rounding[:, 0]
        else:  # the first of those that are equal but for rounding
            kind = (values >= values.max(1, keepdims=True) - rounding).argmax(1)
        pairs, segments = shared_edges(
            cells
        )  # of two cells of one region, too: they were cut where it changes
        differ = kind[pairs[:, 0]] != kind[pairs[:, 1]]
        return torch.from_numpy(segments[differ]), torch.from_numpy(split.parent[pairs[differ, 0]])

    def plot(self, axes: Any = None, *, boundary: bool = True, seed: int = 0) -> Any:
        """The regions as polygons in random light colours, the decision boundary over them.

        Returns the axes.
        """
        segments = self.decision_boundary()[0] if boundary else torch.empty(0, 2, 2)
        return draw_polygons(axes, self.polygons, segments.numpy(), self.slice, seed)

    @staticmethod
    def film(
        partitions: "Sequence[Partition | SoftPartition]", path: str | Path, *, seconds: float = 0.4
    ) -> Path:
        """Write partitions, such as of a run's checkpoints, one after the other as an animated GIF.

        Returns its path.

        All must be of one window. Each is shown for ``seconds``.
        """
        shown = list(partitions)
        if not shown or any(
            (each.slice.low, each.slice.high) != (shown[0].slice.low, shown[0].slice.high)
            for each in shown
        ):
            raise ArgumentError(
                "film: partitions must be some, all of one window", got=f"{len(shown)} partitions"
            )
        if not isinstance(seconds, int | float) or not 0.02 <= seconds <= 60:
            raise ArgumentError("film: seconds a picture", got=seconds, allowed="0.02 to 60")
        write_bytes(Path(path), animation([each.plot for each in shown], seconds))
        return Path(path)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file: the polygons, their areas, patterns and maps."""
        return {
            "exact": True,
            "form": self.form,
            "count": self.count,
            "low": list(self.slice.low),
            "high": list(self.slice.high),
            "marks": self.slice.marks.tolist(),
            "vertices": self.polygons.vertices.tolist(),
            "starts": self.polygons.starts.tolist(),
            "areas": self.areas.tolist(),
            "patterns": [str(each) for each in self.patterns.tolist()],
            "maps": self.maps.tolist(),
        }

    def __repr__(self) -> str:
        return f"Partition({self.count} regions, {len(np.unique(self.patterns))} patterns, {self.form} form)"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


@dataclass(frozen=True, eq=False)
class SoftPartition:
    """The answer of :func:`partition` for a network with soft gates, which has no regions.

    How soft it is where.
    """

    slice: Slice
    # (steps, steps): mean entropy of the gates, 1 where all are undecided; rows of equal v
    entropy: Tensor

    exact = False

    def plot(self, axes: Any = None) -> Any:
        """The window shaded by the entropy of the gates; returns the axes."""
        return draw_entropy(axes, self.entropy.numpy(), self.slice)

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file."""
        return {
            "exact": False,
            "low": list(self.slice.low),
            "high": list(self.slice.high),
            "marks": self.slice.marks.tolist(),
            "entropy": self.entropy.tolist(),
        }

    def __repr__(self) -> str:
        return f"SoftPartition(no regions: gates are soft, mean entropy {float(self.entropy.mean()):.2f} of 1)"

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


def partition(
    model: nn.Module,
    three_points: Tensor | Sequence[Tensor],
    *,
    extent: Extent = 1.5,
    form: str = "fastest",
    limit: int = 2_000_000,
    steps: int = 128,
) -> Partition | SoftPartition:
    """The exact regions of ``model`` in a window of the plane through three inputs, and its affine map on each.

    The network must be max-affine: dense and convolution layers, batch normalisation, average and max-pooling, units
    of the ReLU family, absolute value, maxout, CReLU, sums and concatenation. It is read in eval mode and computed in
    float64. An operator without a rule is refused by name. A network with soft gates has no regions: its gates' mean
    entropy on a grid is returned instead, as :class:`SoftPartition`.

    Args:
        model: gives one tensor, a row an input. three_points: (3, *input); the first is the origin of the slice
            coordinates, the second lies on their first axis, and lengths are those of the input. extent: half the
            window's side in units of the largest distance of the points from their mean, or ``(left, right, bottom,
            top)`` in slice coordinates. form: ``"native"`` (compiled), ``"numpy"``, or the fastest there is. limit:
            of the number of regions. steps: of the grid for soft networks.

    Regions thinner than rounding (some 1e-14 of the window) are not told apart.

    Balestriero and Baraniuk, 2019, arXiv:1810.09274, appendix C; Humayun et al., 2023, "SplineCam", arXiv:2302.12828.
    """
    if form not in ("fastest", "native", "numpy"):
        raise unknown_name("form", form, ("fastest", "native", "numpy"))
    if isinstance(limit, bool) or not isinstance(limit, int) or not 1 <= limit <= MOST_REGIONS:
        raise ArgumentError(
            "partition: limit of the regions",
            got=limit,
            allowed=f"a whole number, 1 to {MOST_REGIONS}",
        )
    window = slice_through(three_points, extent)
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float64)
    check_points("partition", "three_points", window.origin[None], model)
    native = native_splitter() if form != "numpy" else None
    if native and (layers := dense_chain(model, window.origin)):
        found = _through_layers(layers, window, limit)
    else:
        graph = _graph(model, window, BATCH, dtype)
        if is_soft(graph, model):
            graph = _graph(model, window, steps, dtype)
            output = the_output("partition", graph)
            return SoftPartition(window, gate_entropy(graph, model, output, window, steps, dtype))
        if native is None and form == "native":
            raise ArgumentError(
                "partition: the native form is not there",
                fix="install a C compiler, or form='numpy'",
            )
        found = _through_graph(graph, model, native, window, limit)
    _check_answers(model, found, dtype)
    return found


def _through_layers(layers: list[DenseLayer], window: Slice, limit: int) -> Partition:
    start = rectangle(window.low, window.high)
    polygons, patterns, maps = split_dense(
        layers, start, window.plane.flatten(1), window.reach, limit
    )
    return Partition(window, polygons, torch.from_numpy(maps), patterns, "native")


def _through_graph(
    graph: Graph, model: nn.Module, native: LinesSplitter | None, window: Slice, limit: int
) -> Partition:
    output = the_output("partition", graph)
    if native and (layers := dense_chain_of_graph(graph, model, output)):
        return _through_layers(layers, window, limit)
    run = PlaneRun(graph, model, output, native or split_by_lines, window.reach, limit)
    polygons, patterns, maps = run(rectangle(window.low, window.high), window.plane)
    return Partition(
        window, polygons, torch.from_numpy(maps), patterns, "native" if native else "numpy"
    )


def _graph(model: nn.Module, window: Slice, rows: int, dtype: torch.dtype) -> Graph:
    return eval_graph(
        "partition", model, window.origin.to(dtype).expand(rows, *window.origin.shape).clone()
    )


def _check_answers(model: nn.Module, found: Partition, dtype: torch.dtype) -> None:
    """Compare the maps with the model itself at a few centres.

    An operator wrongly followed is not kept quiet.
    """
    where = np.linspace(0, found.count - 1, min(found.count, BATCH)).astype(np.int64)
    points, maps = (
        torch.from_numpy(found.polygons.take(where).centroids),
        found.maps[torch.from_numpy(where)],
    )
    terms = torch.stack((maps[:, 0], points[:, :1] * maps[:, 1], points[:, 1:] * maps[:, 2]))
    theirs, precision = _answers(model, found.slice.inputs(points), dtype)
    apart = float((terms.sum(0) - theirs).abs().max())
    largest = max(1.0, float(theirs.abs().max()), float(terms.abs().max()))
    if not math.isfinite(apart) or not math.isfinite(largest):
        raise NotApplicableError(
            Limitation.NOT_FINITE,
            "partition: the model's numbers are too large for float64 in the window",
            fix="a smaller extent",
        )
    if apart > 1e5 * torch.finfo(precision).eps * largest:
        raise ArgumentError(
            "partition: the model's own answer is another than that of the regions",
            got=f"a difference of {apart:.2g}",
            fix="please report the model: an operator of it was not followed rightly",
        )


def _answers(model: nn.Module, x: Tensor, dtype: torch.dtype) -> tuple[Tensor, torch.dtype]:
    """What ``model`` gives for ``x`` (n, *input), in float64 where it can be run so, and in which precision that is."""
    state = {
        name: value.double() if value.is_floating_point() else value
        for name, value in (*model.named_parameters(), *model.named_buffers())
    }
    with torch.no_grad(), untouched(model):
        model.eval()
        try:
            return functional_call(model, state, (x.double(),)).flatten(1).double(), torch.float64
        except Exception:  # a model that makes numbers of one precision itself
            return model(x.to(dtype)).flatten(1).double(), dtype
