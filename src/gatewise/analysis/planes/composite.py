"""Units that a model's graph shows as several operators.

Taken as the one function that they are.
"""

from collections import defaultdict
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from gatewise.analysis.planes.kinks import Kinks
from gatewise.graph import COMPOSITE, LEAVES, Graph, Node, Scope, activation_sites
from gatewise.units import registered_units

PLAIN = (
    nn.ReLU,
    nn.LeakyReLU,
    nn.ReLU6,
    nn.Hardtanh,
)  # one operator: what hooks add to it is followed by itself


@dataclass(frozen=True)
class Composite:
    """One call of a module that is an elementwise function of one tensor."""

    input: Node
    module: nn.Module

    @property
    def name(self) -> str:
        """What it is called in messages."""
        return type(self.module).__name__

    @property
    def is_max_affine(self) -> bool:
        """Whether it is known to be affine in pieces, so that its derivative is that of the piece."""
        return type(self.module) in {registered_units()[name].module for name in ("prelu", "pwlu")}

    def kinks(self, shape: tuple[int, ...]) -> Kinks | None:
        """Its slopes on inputs of ``shape``, if it has one kink, at 0, and goes through 0.

        ``None`` if it is others.
        """
        if type(self.module) is not registered_units()["prelu"].module:
            return None
        ones = torch.ones(1, *shape, dtype=torch.float64)
        with torch.no_grad():
            return Kinks((0.0,), (-self.module(-ones)[0], self.module(ones)[0]), (0.0, 0.0))

    def held(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """Slope and offset at ``z``: of the piece; of the secant through 0, if it goes there.

        Else of the tangent.
        """
        with torch.enable_grad():
            leaf = z.detach().clone().requires_grad_()
            y = self.module(leaf)
            slope = torch.autograd.grad(y.sum(), leaf)[0]
        still, y = z.detach(), y.detach()
        with torch.no_grad():
            through_zero = not self.is_max_affine and not self.module(torch.zeros_like(still)).any()
        if through_zero:
            near = still.abs() < 1e-30
            slope = torch.where(near, slope, y / torch.where(near, 1, still))
        return slope, y - slope * still


class Composites:
    """All of a graph, and the operators inside them, which need not be run."""

    def __init__(self, graph: Graph, model: nn.Module) -> None:
        self.calls: dict[Node, Composite] = {}
        self.inside: set[Node] = set()
        modules = dict(model.named_modules())
        by_scope: dict[Scope, list[Node]] = defaultdict(list)
        for node in graph:
            if node.op not in LEAVES and node.op != "output":
                by_scope[node.scope].append(node)
        known = {
            unit.module
            for unit in registered_units().values()
            if unit.family not in ("max-affine", "context")
        }
        written_out = {
            found.output.scope for found in activation_sites(graph, model) if found.op == COMPOSITE
        }
        for scope, nodes in by_scope.items():
            module = modules.get(scope[0])
            if (
                module is not None
                and type(module) not in PLAIN
                and (type(module) in known or scope in written_out)
            ):
                self._add(module, nodes)

    def _add(self, module: nn.Module, nodes: list[Node]) -> None:
        members = set(nodes)
        enter = {
            each
            for node in nodes
            for each in node.inputs
            if each not in members and each.op != "parameter"
        }
        leave = [node for node in nodes if any(user not in members for user in node.users)]
        if (
            len(enter) == len(leave) == 1
            and len(nodes) > 1
            and (source := enter.pop()).shape == leave[0].shape
        ):
            self.calls[leave[0]] = Composite(source, module)
            self.inside |= members - {leave[0]}
