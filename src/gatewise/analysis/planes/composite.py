"""Units that a model's graph shows as several operators, treated as one function each."""

import itertools
import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.planes.kinks import HARD_SIGMOID
from gatewise.graph import COMPOSITE, LEAVES, Graph, Node, Pieces, Scope, activation_sites
from gatewise.units import registered_units

# Modules that are one operator. Further operators in their scope come from hooks, and have their
# own rules.
NEVER = 1e300  # a response that no input has
SAME_SLOPE = 1e-6  # pieces whose slopes differ by less are one
SINGLE_OPERATORS = (nn.ReLU, nn.LeakyReLU, nn.ReLU6, nn.Hardtanh)


@dataclass(frozen=True)
class Composite:
    """One call of a module that is an elementwise function of one tensor."""

    input: Node
    module: nn.Module

    @property
    def name(self) -> str:
        """The name of the unit in messages."""
        return type(self.module).__name__

    @property
    def is_max_affine(self) -> bool:
        """Whether the unit is known to be piecewise affine."""
        known = {registered_units()[name].module for name in ("prelu", "pwlu", "hardsigmoid")}
        return type(self.module) in known or self._is_hard_maximum

    @property
    def _is_hard_maximum(self) -> bool:
        """Whether the unit is the largest of some lines: a beta of 1 that is not trained."""
        module: Any = self.module
        if type(module) is not registered_units()["beta_vq"].module:
            return False
        return module.beta_logit is None and bool(module.start == 1.0)

    def kinks(self, shape: tuple[int, ...]) -> Pieces | None:
        """The kinks for inputs of ``shape``; None if they are not known."""
        if self._is_hard_maximum:
            module: Any = self.module
            return _largest_of_lines(*module.pieces)
        units = registered_units()
        if type(self.module) is units["hardsigmoid"].module:
            return HARD_SIGMOID
        if type(self.module) is units["pwlu"].module:
            return _pieces_of_table(self.module)
        if type(self.module) is not units["prelu"].module:
            return None
        ones = torch.ones(1, *shape, dtype=torch.float64)
        with torch.no_grad():
            return Pieces((0.0,), (-self.module(-ones)[0], self.module(ones)[0]), (0.0, 0.0))

    def held(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Slope and offset of an affine function that equals the unit at ``z``.

        For a max-affine unit it is the piece. For another unit it is the secant through 0 if the
        unit has the value 0 there, and the tangent otherwise.
        """
        with torch.enable_grad():
            leaf = z.detach().clone().requires_grad_()
            y = self.module(leaf)
            slope = torch.autograd.grad(y.sum(), leaf)[0]
        z = z.detach()
        y = y.detach()
        with torch.no_grad():
            through_zero = not self.is_max_affine and not self.module(torch.zeros_like(z)).any()
        if through_zero:
            near_zero = z.abs() < 1e-30  # y / z would lose all digits
            slope = torch.where(near_zero, slope, y / torch.where(near_zero, 1, z))
        return slope, y - slope * z


def _pieces_of_table(unit: Any) -> Pieces | None:
    """Return the pieces of PWLU; None if its channels have different ones."""
    if unit.heights.shape[0] > 1:
        return None
    heights = unit.heights[0].double().tolist()
    (left, right), (low, high) = unit.bounds[0].double().tolist(), unit.slopes[0].double().tolist()
    step = (right - left) / (len(heights) - 1)
    if step <= 0:  # the bounds have met
        return None
    knots = [left + place * step for place in range(len(heights))]
    pairs = itertools.pairwise(heights)
    slopes = [low, *((after - before) / step for before, after in pairs), high]
    lines = [(low, heights[0] - low * left)]
    thresholds: list[float] = []
    for knot, height, slope in zip(knots, heights, slopes[1:], strict=True):
        if math.isclose(slope, lines[-1][0], rel_tol=SAME_SLOPE, abs_tol=SAME_SLOPE):
            continue  # no kink: at the start it is ReLU, with one kink
        thresholds.append(knot)
        lines.append((slope, height - slope * knot))
    if not thresholds:
        thresholds.append(-NEVER)
        lines *= 2
    return Pieces(
        tuple(thresholds),
        tuple(slope for slope, _ in lines),
        tuple(offset for _, offset in lines),
    )


def _largest_of_lines(slopes: Sequence[float], offsets: Sequence[float]) -> Pieces:
    """Return the pieces of the largest of some lines, from the smallest slope to the largest."""
    highest: dict[float, float] = {}
    for slope, offset in zip(slopes, offsets, strict=True):
        highest[slope] = max(offset, highest.get(slope, offset))
    lines: list[tuple[float, float]] = []
    thresholds: list[float] = []
    for slope, offset in sorted(highest.items()):
        while lines:
            last_slope, last_offset = lines[-1]
            crossing = (last_offset - offset) / (slope - last_slope)
            if not thresholds or crossing > thresholds[-1]:
                thresholds.append(crossing)
                break
            # The last line is nowhere the largest: it is below at the kink where it would start.
            lines.pop()
            thresholds.pop()
        lines.append((slope, offset))
    if not thresholds:  # one line alone: a kink that no input reaches
        thresholds.append(-NEVER)
        lines *= 2
    return Pieces(
        tuple(thresholds),
        tuple(slope for slope, _ in lines),
        tuple(offset for _, offset in lines),
    )


class Composites:
    """All composite units of a graph, and the operators inside them, which need not be run."""

    def __init__(self, graph: Graph, model: nn.Module) -> None:
        self.calls: dict[Node, Composite] = {}
        self.inside: set[Node] = set()
        modules = dict(model.named_modules(remove_duplicate=False))
        by_scope: dict[Scope, list[Node]] = defaultdict(list)
        self.fixed: set[Node] = set()  # made of parameters alone, which calls of a unit may share
        for node in graph:
            if node.op not in LEAVES and node.op != "output":
                by_scope[node.scope].append(node)
            if node.op == "parameter" or (node.op not in LEAVES and self.fixed >= {*node.inputs}):
                self.fixed.add(node)
        known_classes = set()
        for unit in registered_units().values():
            if unit.family not in ("max-affine", "context"):
                known_classes.add(unit.module)
        composite_scopes = set()
        for site in activation_sites(graph, model):
            if site.op == COMPOSITE:
                composite_scopes.add(site.output.scope)
        for scope, nodes in by_scope.items():
            module = modules.get(scope[0])
            if module is None or type(module) in SINGLE_OPERATORS:
                continue
            if type(module) in known_classes or scope in composite_scopes:
                self._add(module, nodes)

    def _add(self, module: nn.Module, nodes: list[Node]) -> None:
        """Add the unit of ``nodes`` if it has several operators, one input and one output."""
        members = set(nodes)
        inputs = set()
        for node in nodes:
            inputs.update(node.inputs)
        inputs -= members | self.fixed
        outputs = []
        for node in nodes:
            if node not in self.fixed and not members.issuperset(node.users):
                outputs.append(node)
        if len(nodes) == 1 or len(inputs) != 1 or len(outputs) != 1:
            return
        (source,) = inputs
        (output,) = outputs
        if source.shape == output.shape:
            self.calls[output] = Composite(source, module)
            self.inside |= members - {output}
