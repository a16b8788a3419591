"""Carry a partition through a model's graph.

Polygons of a plane, and on each what every tensor is there.

Note [Partition]. All tensors are affine functions of the plane's two coordinates on each polygon.
Affine operators keep that; a unit with a kink splits every polygon that its kink crosses, and then
is affine again. Polygons do not know each other, so when they become many they are carried on in
parts, one after the other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gatewise.analysis.planes.affine_rules import affine, by_polygon, no_rule
from gatewise.analysis.planes.composite import Composite, Composites
from gatewise.analysis.planes.in_place_writes import Writes
from gatewise.analysis.planes.kinks import Kinks, is_folded, kinks_of, pair_of, pieces_of
from gatewise.analysis.planes.line_splitting import Split
from gatewise.analysis.planes.piece_splitting import split_by_pieces
from gatewise.analysis.planes.polygons import (
    Array,
    Polygons,
    join,
    names_of_units,
    too_many_regions,
)
from gatewise.errors import ArgumentError
from gatewise.graph import LEAVES, Graph, Node, filled

PART = 2**17  # numbers of the largest tensor of one part: a megabyte, as caches are
FEWEST = 8  # polygons of a part, however large the tensors
LinesSplitter = Callable[[Polygons, Array, Array, int], Split]


@dataclass
class State:
    """Polygons on their way through the graph, and the tensors still needed."""

    polygons: Polygons
    pattern: Array  # (N,) uint64: a number for the pieces that all units so far are in
    values: dict[Node, Any] = field(default_factory=dict)
    live: set[Node] = field(default_factory=set)

    def taken(self, polygons: Polygons, parent: Array, pattern: Array) -> "State":
        """The same for parts of these polygons: ``parent`` says of which."""
        index = torch.from_numpy(parent)
        whole = len(parent) == len(self.polygons) and bool((np.diff(parent) == 1).all())
        values = {
            node: _taken(value, index) if node in self.live and not whole else value
            for node, value in self.values.items()
        }
        return State(polygons, pattern, values, set(self.live))

    def part(self, first: int, last: int) -> "State":
        """The polygons from ``first`` up to ``last``, as views."""
        cut = lambda value: (
            value[3 * first : 3 * last] if isinstance(value, Tensor) else [cut(v) for v in value]
        )
        values = {
            node: cut(value) if node in self.live else value for node, value in self.values.items()
        }
        return State(
            self.polygons.slice(first, last), self.pattern[first:last], values, set(self.live)
        )


def _taken(value: Any, index: Tensor) -> Any:
    if isinstance(value, Tensor):
        return by_polygon(value.contiguous()).index_select(0, index).flatten(0, 1)
    return [_taken(each, index) for each in value]


@dataclass
class PlaneRun:
    """One run of ``graph`` over a window of a plane."""

    graph: Graph
    model: nn.Module
    output: Node
    split_lines: LinesSplitter
    reach: Array  # (2,) largest coordinates of the window
    limit: int
    label: int = 0
    found: list[tuple[Polygons, Array, Array]] = field(default_factory=list)
    count: int = 0
    order: dict[Node, int] = field(default_factory=dict)  # of the units, as they were met

    def __call__(self, window: Polygons, plane: Tensor) -> tuple[Polygons, Array, Array]:
        """Polygons, patterns (N,) and output maps (N, 3, o) over ``window``.

        ``plane`` is the input (3, *input).
        """
        self.writes = Writes(self.graph)
        self.composites = Composites(self.graph, self.model)
        sizes = (
            int(np.prod(node.shape[1:]))
            for node in self.graph
            if node.shape and node.op not in LEAVES
        )
        self.largest = max(sizes, default=1)
        start = State(window, np.zeros(len(window), dtype=np.uint64))
        for node in self.graph:
            if node.op == "input":
                start.values[node] = plane.double()
                start.live.add(node)
        self._carry(start, 0)
        polygons, patterns, maps = zip(*self.found, strict=True)
        return join(list(polygons)), np.concatenate(patterns), np.concatenate(maps)

    def _carry(self, state: State, first: int) -> None:
        nodes = self.graph.nodes
        for place in range(first, len(nodes)):
            node = nodes[place]
            if node.op == "output":
                self._collect(state)
            elif node not in state.values and not self._is_skipped(node):
                before = len(state.polygons)
                state = self._step(state, node)
                self._forget(state, node)
                size = max(FEWEST, PART // (3 * self.largest))
                if len(state.polygons) > max(before, 2 * size):
                    self._check(len(state.polygons))
                    for low in range(0, len(state.polygons), size):
                        self._carry(
                            state.part(low, min(low + size, len(state.polygons))), place + 1
                        )
                    return

    def _is_skipped(self, node: Node) -> bool:
        """Part of a unit that is taken as a whole, or the reader's check of its own shapes and types."""
        return node in self.composites.inside or node.op.startswith("_assert")

    def _step(self, state: State, node: Node) -> State:
        if node.op in LEAVES:
            state.values[node] = self._leaf(node)
        elif node in self.composites.calls:
            state = self._composite(state, node, self.composites.calls[node])
            state.live.add(node)
        elif not state.live.intersection(node.inputs):
            state.values[node] = _fixed(node, state)
        else:
            state = self._live(state, node)
            state.live.add(node)
        self.writes.carry(node, state.values, state.live)
        return state

    def _live(self, state: State, node: Node) -> State:
        if (kinks := kinks_of(node, state.values)) is not None:
            return self._kink(state, node, node.inputs[0], kinks)
        if is_folded(node):
            state.values[node] = pair_of(node, state.values, state.live)
        elif (pieces := pieces_of(node, state.values, state.live)) is not None:
            return self._maximum(state, node, *pieces)
        else:
            state.values[node] = affine(node, state.values, state.live)
        return state

    def _composite(self, state: State, node: Node, unit: Composite) -> State:
        kinks = unit.kinks((node.shape or ())[1:])
        if kinks is None or unit.input not in state.live:
            raise no_rule(node, f", of the unit {unit.name}")
        return self._kink(state, node, unit.input, kinks)

    def _kink(self, state: State, node: Node, source: Node, kinks: Kinks) -> State:
        x = by_polygon(state.values[source].contiguous())
        flat = x.flatten(2)  # (N, 3, U)
        lines = (
            [flat]
            if kinks.thresholds == (0.0,)
            else [_lowered(flat, level) for level in kinks.thresholds]
        )
        joined = (lines[0] if len(lines) == 1 else torch.cat(lines, 2)).numpy()
        split = self.split_lines(state.polygons, joined, self.reach, self.label)
        piece = (
            split.piece.reshape(len(split.parent), len(lines), -1).sum(1, dtype=np.uint8)
            if lines[1:]
            else split.piece
        )
        state = self._after(state, split, piece, node)
        own = state.values[source]
        state.values[node] = _on_pieces(
            by_polygon(own.contiguous()), torch.from_numpy(piece), kinks
        ).flatten(0, 1)
        return state

    def _maximum(self, state: State, node: Node, pieces: Tensor, sign: float) -> State:
        x = by_polygon(pieces.contiguous())
        flat = x.flatten(2, -2)  # (N, 3, U, k)
        split = split_by_pieces(state.polygons, flat.numpy(), self.reach, self.label, self._check)
        state = self._after(state, split, split.piece, node)
        index = torch.from_numpy(split.piece.astype(np.int64))[:, None, :, None].expand(
            -1, 3, -1, 1
        )
        chosen = flat[torch.from_numpy(split.parent)].gather(-1, index)[..., 0] * sign
        value = chosen.reshape(len(split.parent) * 3, *x.shape[2:-1])
        state.values[node] = (
            (value,) if node.shape is None else value
        )  # `max` over a dimension gives two tensors
        return state

    def _after(self, state: State, split: Split, piece: Array, node: Node) -> State:
        self.label = split.next_label
        self._check(len(split.parent))
        random = names_of_units(self.order.setdefault(node, len(self.order)), piece.shape[1])
        pattern = state.pattern[split.parent] + piece.astype(np.uint64) @ random
        return state.taken(split.polygons, split.parent, pattern)

    def _leaf(self, node: Node) -> Any:
        if node.op in ("parameter", "buffer"):
            found = (
                self.model.get_parameter(node.name)
                if node.op == "parameter"
                else self.model.get_buffer(node.name)
            )
        else:
            found = node.value
        return doubled(found.detach() if isinstance(found, Tensor) else found)

    def _forget(self, state: State, node: Node) -> None:
        unit = self.composites.calls.get(node)
        for each in node.inputs if unit is None else (unit.input,):
            if self.writes.last_use[each] <= node.index and each is not self.output:
                state.values.pop(each, None)
                state.live.discard(each)

    def _check(self, now: int) -> None:
        if self.count + now > self.limit:
            raise too_many_regions(self.count + now, self.limit)

    def _collect(self, state: State) -> None:
        if self.output not in state.live:
            raise ArgumentError("partition: the model's output does not depend on its input")
        maps = by_polygon(state.values[self.output].contiguous()).flatten(2).numpy()
        self.count += len(state.polygons)
        self.found.append((state.polygons, state.pattern, maps))


def doubled(value: Any) -> Any:
    """A tensor of numbers in float64."""
    return value.double() if isinstance(value, Tensor) and value.is_floating_point() else value


def _fixed(node: Node, state: State) -> Any:
    """A call that does not depend on the input."""
    if node.op == "getitem":
        return state.values[node.inputs[0]][node.arguments["index"]]
    if node.overload is None:
        raise no_rule(node)
    return doubled(
        node.overload(
            **{name: filled(value, state.values) for name, value in node.arguments.items()}
        )
    )


def _lowered(flat: Tensor, level: float) -> Tensor:
    lowered = flat.clone()
    lowered[:, 0] -= level
    return lowered


def _on_pieces(x: Tensor, piece: Tensor, kinks: Kinks) -> Tensor:
    """The unit's value (N, 3, *shape), each element by the piece it is in (N, U)."""
    piece = piece.reshape(len(x), *x.shape[2:])
    result = x * (piece.double() if kinks.is_relu else _chosen(piece, kinks.slopes)).unsqueeze(1)
    if any(kinks.offsets):
        result[:, 0] += _chosen(piece, kinks.offsets)
    return result


def _chosen(piece: Tensor, options: Sequence[float | Tensor]) -> Tensor:
    found = torch.zeros(piece.shape, dtype=torch.float64)
    for number, option in enumerate(options):
        found = torch.where(piece == number, option, found)
    return found
