"""Compute the linear regions of a model in a window of a plane, by running its graph on polygons.

Note [Partition]. On each polygon, every tensor is an affine function of the plane's two
coordinates. Affine operators keep that. A unit with a kink splits every polygon that its kink
crosses, and is affine on each part. Polygons are independent of each other, so when they become
many, the run continues with parts of them, one part after the other.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gatewise.analysis.planes.affine_rules import affine, by_polygon, no_rule
from gatewise.analysis.planes.composite import Composite, Composites
from gatewise.analysis.planes.in_place_writes import Writes
from gatewise.analysis.planes.kinks import is_folded, kinks_of, pair_of, pieces_of
from gatewise.analysis.planes.line_splitting import LinesSplitter, Split
from gatewise.analysis.planes.piece_splitting import split_by_pieces
from gatewise.analysis.planes.polygons import (
    Array,
    Polygons,
    join,
    names_of_units,
    too_many_regions,
)
from gatewise.errors import Limitation, NotApplicableError
from gatewise.graph import LEAVES, Graph, Node, Pieces, call_operator, leaf_value

PART = 2**17  # numbers in the largest tensor of one part: a megabyte, which fits into a cache
FEWEST = 8  # polygons of a part, however large the tensors are


@dataclass
class PlaneState:
    """The polygons after some of the nodes, and the tensors that later nodes read."""

    polygons: Polygons
    pattern: Array  # (N,) uint64: a hash of the pieces that all units so far are in
    values: dict[Node, Any] = field(default_factory=dict)
    live: set[Node] = field(default_factory=set)  # nodes that depend on the input

    def taken(self, polygons: Polygons, parent: Array, pattern: Array) -> "PlaneState":
        """Return the state of ``polygons``, which are parts of these.

        Args:
            polygons: the parts.
            parent: (M,) the number of the polygon that each part comes from.
            pattern: (M,) the patterns of the parts.
        """
        unsplit = len(parent) == len(self.polygons) and bool((np.diff(parent) == 1).all())
        values = dict(self.values)
        if not unsplit:
            index = torch.from_numpy(parent)
            for node in self.live.intersection(values):
                values[node] = _taken(values[node], index)
        return PlaneState(polygons, pattern, values, set(self.live))

    def part(self, first: int, last: int) -> "PlaneState":
        """Return the state of the polygons from ``first`` up to ``last``; its tensors are views."""
        values = dict(self.values)
        for node in self.live.intersection(values):
            values[node] = _rows(values[node], slice(3 * first, 3 * last))
        polygons = self.polygons.slice(first, last)
        return PlaneState(polygons, self.pattern[first:last], values, set(self.live))


def _taken(value: Any, index: Tensor) -> Any:
    if isinstance(value, Tensor):
        return by_polygon(value.contiguous()).index_select(0, index).flatten(0, 1)
    return [_taken(item, index) for item in value]


def _rows(value: Any, rows: slice) -> Any:
    if isinstance(value, Tensor):
        return value[rows]
    return [_rows(item, rows) for item in value]


@dataclass
class PlaneRun:
    """One run of a graph over a window of a plane. See Note [Partition].

    Attributes:
        graph: the graph of the model in eval mode.
        model: the model.
        output: the node whose value is wanted.
        split_lines: splits polygons along lines.
        bounds: (2,) the largest coordinates of the window.
        limit: the most polygons; more are an error.
        label: the next number for an edge of a polygon.
    """

    graph: Graph
    model: nn.Module
    output: Node
    split_lines: LinesSplitter
    bounds: Array
    limit: int
    label: int = 0
    parts: list[tuple[Polygons, Array, Array]] = field(default_factory=list)  # finished ones
    count: int = 0  # polygons of the finished parts
    order: dict[Node, int] = field(default_factory=dict)  # of the units, in the order of the run

    def __call__(self, window: Polygons, plane: Tensor) -> tuple[Polygons, Array, Array]:
        """Return polygons, patterns (N,) and output maps (N, 3, o) over a window.

        Args:
            window: the polygon to start with.
            plane: (3, *input) the origin of the plane and its two directions.
        """
        self.last_use: dict[Node, int] = {}  # the index of the last node that reads each
        for node in self.graph:
            self.last_use[node] = max((user.index for user in node.users), default=node.index)
        self.writes = None
        if any(node.inplace for node in self.graph):
            self.writes = Writes(self.graph, self.last_use)
        self.composites = Composites(self.graph, self.model)
        self.largest = 1  # elements of the largest tensor, for one input
        state = PlaneState(window, np.zeros(len(window), dtype=np.uint64))
        for node in self.graph:
            if node.shape and node.op not in LEAVES:
                self.largest = max(self.largest, int(np.prod(node.shape[1:])))
            if node.op == "input":
                state.values[node] = plane.double()
                state.live.add(node)
        self._run(state, 0)
        polygons, patterns, maps = zip(*self.parts, strict=True)
        return join(list(polygons)), np.concatenate(patterns), np.concatenate(maps)

    def _run(self, state: PlaneState, first: int) -> None:
        """Run the nodes from the place ``first`` on, part by part where polygons become many."""
        size = max(FEWEST, PART // (3 * self.largest))
        for place in range(first, len(self.graph.nodes)):
            node = self.graph.nodes[place]
            if node.op == "output":
                self._collect(state)
                return
            if node in state.values or self._is_skipped(node):
                continue
            before = len(state.polygons)
            state = self._step(state, node)
            self._free(state, node)
            now = len(state.polygons)
            if now > max(before, 2 * size):
                self._check(now)
                for start in range(0, now, size):
                    self._run(state.part(start, min(start + size, now)), place + 1)
                return

    def _is_skipped(self, node: Node) -> bool:
        """Return whether a node is inside a unit that runs as a whole, or is a check of export."""
        return node in self.composites.inside or node.op.startswith("_assert")

    def _step(self, state: PlaneState, node: Node) -> PlaneState:
        unit = self.composites.calls.get(node)
        if node.op in LEAVES:
            value = leaf_value(node, self.model)
            state.values[node] = doubled(value.detach() if isinstance(value, Tensor) else value)
        elif unit is not None:
            state = self._composite(state, node, unit)
            state.live.add(node)
        elif state.live.isdisjoint(node.inputs):
            if node.overload is None and node.op != "getitem":
                raise no_rule(node)
            state.values[node] = doubled(call_operator(node, state.values))
        else:
            state = self._live(state, node)
            state.live.add(node)
        if self.writes is not None and node.inplace:
            self.writes.propagate(node, state.values, state.live)
        return state

    def _live(self, state: PlaneState, node: Node) -> PlaneState:
        """Run a call that depends on the input."""
        kinks = kinks_of(node, state.values)
        if kinks is not None:
            return self._kink(state, node, node.inputs[0], kinks)
        if is_folded(node):
            state.values[node] = pair_of(node, state.values, state.live)
            return state
        pieces = pieces_of(node, state.values, state.live)
        if pieces is not None:
            return self._maximum(state, node, *pieces)
        state.values[node] = affine(node, state.values, state.live)
        return state

    def _composite(self, state: PlaneState, node: Node, unit: Composite) -> PlaneState:
        kinks = unit.kinks((node.shape or ())[1:])
        if kinks is None or unit.input not in state.live:
            raise no_rule(node, f", of the unit {unit.name}")
        return self._kink(state, node, unit.input, kinks)

    def _kink(self, state: PlaneState, node: Node, source: Node, kinks: Pieces) -> PlaneState:
        """Split along the kinks of an elementwise unit, and apply the unit to each part."""
        flat = by_polygon(state.values[source].contiguous()).flatten(2)  # (N, 3, U)
        lines = flat
        if kinks.thresholds != (0.0,):
            lines = torch.cat([_lowered(flat, level) for level in kinks.thresholds], 2)
        split = self.split_lines(state.polygons, lines.numpy(), self.bounds, self.label)
        piece = split.piece
        if len(kinks.thresholds) > 1:
            # The number of a piece is the number of thresholds below the value.
            by_threshold = piece.reshape(len(split.parent), len(kinks.thresholds), -1)
            piece = by_threshold.sum(1, dtype=np.uint8)
        state = self._after(state, split, piece, node)
        z = by_polygon(state.values[source].contiguous())
        state.values[node] = _on_pieces(z, torch.from_numpy(piece), kinks).flatten(0, 1)
        return state

    def _maximum(self, state: PlaneState, node: Node, pieces: Tensor, sign: float) -> PlaneState:
        """Split where another of the ``pieces`` becomes the largest, and take the largest."""
        x = by_polygon(pieces.contiguous())
        flat = x.flatten(2, -2)  # (N, 3, U, k)
        split = split_by_pieces(state.polygons, flat.numpy(), self.bounds, self.label, self._check)
        state = self._after(state, split, split.piece, node)
        index = torch.from_numpy(split.piece.astype(np.int64))
        index = index[:, None, :, None].expand(-1, 3, -1, 1)
        chosen = flat[torch.from_numpy(split.parent)].gather(-1, index)[..., 0] * sign
        value = chosen.reshape(len(split.parent) * 3, *x.shape[2:-1])
        # `max` over a dimension returns two tensors.
        state.values[node] = (value,) if node.shape is None else value
        return state

    def _after(self, state: PlaneState, split: Split, piece: Array, node: Node) -> PlaneState:
        """Return the state after a split, with the pieces (N, U) of a unit in the patterns."""
        self.label = split.next_label
        self._check(len(split.parent))
        random = names_of_units(self.order.setdefault(node, len(self.order)), piece.shape[1])
        pattern = state.pattern[split.parent] + piece.astype(np.uint64) @ random
        return state.taken(split.polygons, split.parent, pattern)

    def _free(self, state: PlaneState, node: Node) -> None:
        """Forget the inputs of a node that no later node reads."""
        unit = self.composites.calls.get(node)
        for source in node.inputs if unit is None else (unit.input,):
            if self.last_use[source] <= node.index and source is not self.output:
                state.values.pop(source, None)
                state.live.discard(source)

    def _check(self, now: int) -> None:
        if self.count + now > self.limit:
            raise too_many_regions(self.count + now, self.limit)

    def _collect(self, state: PlaneState) -> None:
        if self.output not in state.live:
            raise NotApplicableError(
                Limitation.UNSUPPORTED_MODEL,
                "partition: the model's output does not depend on its input",
            )
        maps = by_polygon(state.values[self.output].contiguous()).flatten(2).numpy()
        self.count += len(state.polygons)
        self.parts.append((state.polygons, state.pattern, maps))


def doubled(value: Any) -> Any:
    """Return a floating tensor in float64, and anything else as it is."""
    if isinstance(value, Tensor) and value.is_floating_point():
        return value.double()
    return value


def _lowered(flat: Tensor, level: float) -> Tensor:
    lowered = flat.clone()
    lowered[:, 0] -= level
    return lowered


def _on_pieces(x: Tensor, piece: Tensor, kinks: Pieces) -> Tensor:
    """Return the unit's value (N, 3, *shape), each element by the piece it is in (N, U)."""
    piece = piece.reshape(len(x), *x.shape[2:])
    slope = piece.double() if kinks.is_relu else _chosen(piece, kinks.slopes)
    result = x * slope.unsqueeze(1)
    if any(kinks.offsets):
        result[:, 0] += _chosen(piece, kinks.offsets)
    return result


def _chosen(piece: Tensor, options: Sequence[float | Tensor]) -> Tensor:
    """Return for each element of ``piece`` the option with that number."""
    chosen = torch.zeros(piece.shape, dtype=torch.float64)
    for number, option in enumerate(options):
        chosen = torch.where(piece == number, option, chosen)
    return chosen
