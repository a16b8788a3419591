"""The exact linear regions of a network in a plane, and its affine map on each."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call

from gatewise.analysis.model_graphs import check_points, eval_graph, the_output
from gatewise.analysis.planes import (
    BATCH,
    NO_LABEL,
    Extent,
    PlaneRun,
    Polygons,
    Slice,
    adjacent,
    native_splitter,
    rectangle,
    shared_edges,
    slice_through,
    split_by_lines,
    split_by_pieces,
    tolerance,
)
from gatewise.analysis.record import AnalysisResult
from gatewise.analysis.regions.drawing import draw_entropy, draw_polygons
from gatewise.analysis.regions.frozen_gates import is_soft
from gatewise.analysis.regions.gate_entropy_map import gate_entropy
from gatewise.checks import is_size
from gatewise.errors import ArgumentError, Limitation, NotApplicableError, unknown_name
from gatewise.graph import Graph, untouched

MOST_REGIONS = 2**40


@dataclass(frozen=True, eq=False)
class Region:
    """One region: a convex polygon of the slice, on which every unit stays in one piece.

    Attributes:
        vertices: (k, 2), slice coordinates, counter-clockwise.
        area: the area, in units of the input.
        affine: (3, o), output = affine[0] + u affine[1] + v affine[2].
        pattern: a number for the pieces of all units, equal for equal patterns.
    """

    vertices: Tensor
    area: float
    affine: Tensor
    pattern: int


@dataclass(frozen=True, eq=False)
class Partition(AnalysisResult):
    """The result of :func:`partition` for a max-affine network: its exact regions in the window.

    Attributes:
        slice: the window of the plane.
        polygons: the N regions.
        maps: (N, 3, o), the affine map on each region, as in :class:`Region`.
        patterns: (N,) uint64, a number for the pieces of all units.
        form: ``"native"`` or ``"numpy"``.
    """

    slice: Slice
    polygons: Polygons
    maps: Tensor
    patterns: np.ndarray
    form: str

    exact = True

    @property
    def count(self) -> int:
        """The number of regions."""
        return len(self.polygons)

    @property
    def areas(self) -> Tensor:
        """The areas of the regions (N,), in units of the input."""
        return torch.from_numpy(self.polygons.areas)

    @property
    def centroids(self) -> Tensor:
        """The centroids of the regions (N, 2), in slice coordinates."""
        return torch.from_numpy(self.polygons.centroids)

    @cached_property
    def regions(self) -> tuple[Region, ...]:
        """The regions as objects. For many regions the arrays are faster."""
        starts = self.polygons.starts.tolist()
        vertices = torch.from_numpy(self.polygons.vertices)
        areas = self.polygons.areas.tolist()
        patterns = self.patterns.tolist()
        regions = []
        for i in range(self.count):
            corners = vertices[starts[i] : starts[i + 1]]
            regions.append(Region(corners, areas[i], self.maps[i], patterns[i]))
        return tuple(regions)

    def neighbours(self) -> Tensor:
        """Pairs of regions (P, 2) that share an edge, the smaller index first."""
        return torch.from_numpy(adjacent(self.polygons))

    def decision_boundary(self) -> tuple[Tensor, Tensor]:
        """Where the largest output changes, or a single output becomes positive.

        Returns:
            Segments (S, 2, 2) in slice coordinates, each within one region or on its edge, and the
            regions (S,) they are in. Of two regions that share the edge it is the first.
        """
        maps = self.maps.numpy()
        single_output = maps.shape[2] == 1
        first = int(self.polygons.labels.max(initial=NO_LABEL)) + 1
        if single_output:
            split = split_by_lines(self.polygons, maps, self.slice.bounds, first)
        else:
            split = split_by_pieces(self.polygons, maps[:, :, None], self.slice.bounds, first)
        middles = split.polygons.middles
        maps = maps[split.parent]
        values = maps[:, 0] + middles[:, :1] * maps[:, 1] + middles[:, 1:] * maps[:, 2]
        rounding = tolerance(maps, self.slice.bounds).max(1, keepdims=True)
        if single_output:
            decision = values[:, 0] > rounding[:, 0]
        else:  # the first of those that are equal up to rounding
            decision = (values >= values.max(1, keepdims=True) - rounding).argmax(1)
        # Two cells of one region count too: regions were cut where the decision changes.
        pairs, segments = shared_edges(split.polygons)
        differ = decision[pairs[:, 0]] != decision[pairs[:, 1]]
        return torch.from_numpy(segments[differ]), torch.from_numpy(split.parent[pairs[differ, 0]])

    def plot(self, axes: Any = None, *, boundary: bool = True, seed: int = 0) -> Any:
        """Draw the regions in random light colours, and the decision boundary in red.

        Args:
            axes: matplotlib's axes, or None for new ones.
            boundary: whether to draw the decision boundary.
            seed: the seed of the colours.

        Returns:
            The axes.
        """
        segments = self.decision_boundary()[0] if boundary else torch.empty(0, 2, 2)
        return draw_polygons(axes, self.polygons, segments.numpy(), self.slice, seed)

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
            "patterns": list(map(str, self.patterns.tolist())),
            "maps": self.maps.tolist(),
        }

    def __str__(self) -> str:
        patterns = len(np.unique(self.patterns))
        return f"Partition({self.count} regions, {patterns} patterns, {self.form} form)"


@dataclass(frozen=True, eq=False)
class SoftPartition(AnalysisResult):
    """The result of :func:`partition` for a network with soft gates, which has no regions.

    Attributes:
        slice: the window of the plane.
        entropy: (steps, steps), the mean entropy of the gates, 1 where all gates are at 1/2. Rows
            have equal v.
    """

    slice: Slice
    entropy: Tensor

    exact = False

    def plot(self, axes: Any = None) -> Any:
        """Draw the entropy of the gates over the window; returns the axes."""
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

    def __str__(self) -> str:
        mean = float(self.entropy.mean())
        return f"SoftPartition(no regions: gates are soft, mean entropy {mean:.2f} of 1)"


def partition(
    model: nn.Module,
    three_points: Tensor | Sequence[Tensor],
    *,
    extent: Extent = 1.5,
    form: str = "fastest",
    limit: int = 2_000_000,
    steps: int = 128,
) -> Partition | SoftPartition:
    """Compute the exact regions of ``model`` in a window of the plane through three inputs.

    The network must be max-affine: dense and convolution layers, batch normalisation, average and
    max-pooling, units of the ReLU family, absolute value, maxout, CReLU, sums and concatenation. It
    is read in eval mode and computed in float64. An operator without a rule is refused by name. A
    network with soft gates has no regions. For it the mean entropy of its gates on a grid is
    returned, as :class:`SoftPartition`. Regions thinner than rounding (about 1e-14 of the window)
    are not separated.

    Args:
        model: a model that returns one tensor with a row for each input.
        three_points: (3, *input). The first is the origin of the slice coordinates, the second is
            on their first axis. Lengths are those of the input.
        extent: half the side of the window, in units of the largest distance of the points from
            their mean; or ``(left, right, bottom, top)`` in slice coordinates.
        form: ``"native"`` (compiled), ``"numpy"``, or ``"fastest"`` for the faster available one.
        limit: the largest number of regions.
        steps: points along each axis of the grid for soft networks.

    Balestriero and Baraniuk, 2019, arXiv:1810.09274, appendix C; Humayun et al., 2023, "SplineCam",
    arXiv:2302.12828.
    """
    if form not in ("fastest", "native", "numpy"):
        raise unknown_name("form", form, ("fastest", "native", "numpy"))
    if not is_size(limit, 1, MOST_REGIONS):
        raise ArgumentError(
            "partition: limit must be a number of regions",
            got=limit,
            allowed=f"a whole number, 1 to {MOST_REGIONS}",
        )
    window = slice_through(three_points, extent)
    dtype = next((p.dtype for p in model.parameters() if p.is_floating_point()), torch.float64)
    check_points("partition", "three_points", window.origin[None], model)
    graph = _graph(model, window, BATCH, dtype)
    if is_soft(graph, model):
        graph = _graph(model, window, steps, dtype)
        output = the_output("partition", graph)
        return SoftPartition(window, gate_entropy(graph, model, output, window, steps, dtype))
    native = native_splitter() if form != "numpy" else None
    if native is None and form == "native":
        raise ArgumentError(
            "partition: the native form is not available",
            fix="install a C compiler, or form='numpy'",
        )
    output = the_output("partition", graph)
    run = PlaneRun(graph, model, output, native or split_by_lines, window.bounds, limit)
    polygons, patterns, maps = run(rectangle(window.low, window.high), window.plane)
    used = "native" if native else "numpy"
    result = Partition(window, polygons, torch.from_numpy(maps), patterns, used)
    _check_maps(model, result, dtype)
    return result


def _graph(model: nn.Module, window: Slice, rows: int, dtype: torch.dtype) -> Graph:
    batch = window.origin.to(dtype).expand(rows, *window.origin.shape)
    return eval_graph("partition", model, batch.clone())


def _check_maps(model: nn.Module, result: Partition, dtype: torch.dtype) -> None:
    """Compare the maps with the model itself at the centroids of a few regions.

    This finds operators whose rule is wrong.
    """
    where = np.linspace(0, result.count - 1, min(result.count, BATCH)).astype(np.int64)
    points = torch.from_numpy(result.polygons.take(where).centroids)
    maps = result.maps[torch.from_numpy(where)]
    terms = torch.stack((maps[:, 0], points[:, :1] * maps[:, 1], points[:, 1:] * maps[:, 2]))
    outputs, precision = _run_model(model, result.slice.inputs(points), dtype)
    difference = float((terms.sum(0) - outputs).abs().max())
    largest = max(1.0, float(outputs.abs().max()), float(terms.abs().max()))
    if not math.isfinite(difference) or not math.isfinite(largest):
        raise NotApplicableError(
            Limitation.NOT_FINITE,
            "partition: the model's numbers are too large for float64 in the window",
            fix="a smaller extent",
        )
    # Rounding adds up over the layers of the model: 1e5 eps is 2e-11 in float64, 1e-2 in float32.
    if difference > 1e5 * torch.finfo(precision).eps * largest:
        raise ArgumentError(
            "partition: the model's output differs from that of the regions",
            got=f"a difference of {difference:.2g}",
            fix="please report the model: the rule of one of its operators is wrong",
        )


def _run_model(model: nn.Module, x: Tensor, dtype: torch.dtype) -> tuple[Tensor, torch.dtype]:
    """The outputs of ``model`` for ``x`` (n, *input), and the precision they were computed in.

    That is float64 if the model can be run so.
    """
    state = {}
    for name, value in (*model.named_parameters(), *model.named_buffers()):
        state[name] = value.double() if value.is_floating_point() else value
    with torch.no_grad(), untouched(model):
        model.eval()
        try:
            return functional_call(model, state, (x.double(),)).flatten(1).double(), torch.float64
        except Exception:  # a model that creates tensors of one precision itself
            return model(x.to(dtype)).flatten(1).double(), dtype
