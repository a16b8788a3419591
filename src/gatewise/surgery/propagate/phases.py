"""Leave an activation out, and let the layers that read it apply it.

Which can, and to which of their inputs.

A rectifier before a layer is the layer with a second weight, 0, for negative inputs (``a`` times
the weight for a leaky one). So the site passes its input through, and each tensor on the way has a
*slope* for each element: what its negative values are still to be multiplied with, 1 where nothing
is left to do.

Where something else reads such a tensor, the site is refused, or the activation is put back there
and there alone.
"""

import math
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.graph import (
    CHANNEL_NORMS,
    CONVOLUTIONS,
    CUTS,
    LAST_NORMS,
    MAX_POOLS,
    MOVES,
    POOLS,
    PRODUCTS,
    REDUCTIONS,
    RESHAPES,
    SPLITS,
    SUMS,
    Graph,
    Node,
    Reading,
    SiteGraph,
    is_never_negative,
)
from gatewise.surgery.reasons import Reason, Refusal

UNCHANGED = {
    "dropout",
    "feature_dropout",
    "clone",
    "contiguous",
    "to",
    "alias",
    "detach",
    "type_as",
}
SHAPED = MOVES | RESHAPES | CUTS | SPLITS | {"expand", "cat"}
LAYERS: tuple[type[nn.Module], ...] = (
    nn.Conv1d,
    nn.Conv2d,
    nn.Linear,
)  # those with a phase selective form
_REFUSED = {
    **dict.fromkeys(SUMS, Reason.RESIDUAL),
    **dict.fromkeys(PRODUCTS, Reason.GATED),
    **dict.fromkeys((POOLS - MAX_POOLS) | REDUCTIONS, Reason.AVERAGED),
    **dict.fromkeys(CHANNEL_NORMS | LAST_NORMS, Reason.NORM),
    **dict.fromkeys(("matmul", "bmm", "scaled_dot_product_attention"), Reason.ATTENTION),
    "output": Reason.OUTPUT,
}


def slope_of_site(op: str, node: Node) -> float:
    """What the activation multiplies negative values with, or :class:`Refusal` if it does something else."""
    if op == "relu":
        return 0.0
    if op == "leaky_relu":
        return float(node.arguments["negative_slope"])
    raise Refusal(Reason.NOT_HOMOGENEOUS, op)


@dataclass
class Deferral:
    """One graph, the sites left out in it, and the slope of every input of the layers that read them.

    ``slopes`` are tensors of the node's rank, of size 1 along each dimension that makes no difference.
    """

    reading: Reading
    names: Sequence[str]
    modules: Mapping[str, nn.Module]
    within_reach: Collection[Node] = ()  # calls that the activation can be put back before
    slopes: dict[Node, Any] = field(default_factory=dict)
    layers: dict[str, Tensor] = field(
        default_factory=dict
    )  # path: one slope for each input channel
    put_back: dict[Node, dict[str, Tensor]] = field(
        default_factory=dict
    )  # call: slopes of what it reads, by argument
    refusals: list[Refusal] = field(default_factory=list)  # why they were put back

    def run(self) -> "Deferral":
        """Follow the slopes to the layers; a :class:`Refusal` says why it cannot be done."""
        starts = {self.reading.found[name].output: self.reading.found[name] for name in self.names}
        for node in self.reading.graph:
            if node in starts:
                found = starts[node]
                if found.input in self.slopes:
                    raise Refusal(Reason.ALREADY_WIDENED)
                slope = slope_of_site(found.op, node)
                self.slopes[node] = torch.full((1,) * node.rank, slope, dtype=torch.float64)
            elif any(each in self.slopes for each in node.inputs):
                try:
                    self._visit(node)
                except Refusal as refusal:
                    self._put_back(node, refusal)
        self._check_layers_are_read_once()
        return self

    def _visit(self, node: Node) -> None:
        if node.op in CONVOLUTIONS | {"linear"}:
            self._layer(node)
        elif node.op in UNCHANGED:
            self.slopes[node] = self.slopes[node.inputs[0]]
        elif node.op in MAX_POOLS or node.op in ("pad", "constant_pad_nd"):
            self.slopes[node] = self._spatial(node)
        elif node.op == "getitem":
            self.slopes[node] = self.slopes[node.inputs[0]][int(node.arguments["index"])]
        elif node.op in SHAPED:
            self.slopes[node] = self._shaped(node)
        elif node.op in PRODUCTS and (scaled := self._scaled(node)) is not None:
            self.slopes[node] = scaled
        elif node.op != "_assert_tensor_metadata":
            raise Refusal(_REFUSED.get(node.op, Reason.NO_RULE), node.op)

    def _put_back(self, node: Node, refusal: Refusal) -> None:
        """The activation goes where ``node`` reads, if that can be reached.

        What comes out has nothing left to do.
        """
        reads = {
            name: each
            for name, each in node.arguments.items()
            if isinstance(each, Node) and each in self.slopes
        }
        hidden = any(each in self.slopes and each not in reads.values() for each in node.inputs)
        if refusal.reason is Reason.SHARED or node not in self.within_reach or hidden:
            raise refusal
        self.put_back[node] = {name: self.slopes[each] for name, each in reads.items()}
        self.refusals.append(refusal)

    def _scaled(self, node: Node) -> Tensor | None:
        """Slopes of a product with what is never negative, such as a gate.

        The sign is kept, so all can wait.
        """
        first, other = node.tensor("self"), node.arguments.get("other")
        product = node.op in ("mul", "multiply")
        if product and isinstance(other, Node) and other in self.slopes:
            first, other = other, first
        if (
            first not in self.slopes
            or other in self.slopes
            or not (product or isinstance(other, int | float))
        ):
            return None
        if first is None or not is_never_negative(other) or other == 0:
            return None
        slopes = self.slopes[first]
        return slopes.reshape((1,) * (node.rank - slopes.dim()) + slopes.shape)

    def _spatial(self, node: Node) -> Tensor:
        """Max pooling and padding, of dimensions along which the slopes are the same.

        The largest of several values keeps its place under an activation that does not fall; a
        padded zero is zero in either phase.
        """
        slopes = self.slopes[node.inputs[0]]
        if node.op in MAX_POOLS:
            dims = range(node.rank - int(node.op[-2]), node.rank)
        else:
            dims = range(node.rank - len(node.arguments["pad"]) // 2, node.rank)
            if (node.arguments.get("mode") or "constant") == "constant" and (
                node.arguments.get("value") or 0
            ) < 0:
                raise Refusal(Reason.NO_RULE, "padding with a negative value")
        if any(slopes.shape[dim] != 1 for dim in dims) or float(slopes.min()) < 0:
            raise Refusal(Reason.NO_RULE, node.op)
        return slopes

    def _shaped(self, node: Node) -> Any:
        """An operator that only moves elements: run on slopes of the tensors' real shapes."""
        if node.op in RESHAPES:
            return compressed(self._as_slopes(node.inputs[0]).reshape(node.shape))
        if node.overload is None:
            raise Refusal(Reason.NO_RULE, node.op)
        arguments = {name: self._as_slopes(value) for name, value in node.arguments.items()}
        made = node.overload(**arguments)
        return (
            compressed(made)
            if isinstance(made, Tensor)
            else tuple(compressed(part) for part in made)
        )

    def _as_slopes(self, value: Any) -> Any:
        if isinstance(value, Node):
            if not value.floating or value.shape is None:
                raise Refusal(Reason.NO_RULE, "an index that is computed")
            return self.slopes.get(
                value, torch.ones((1,) * value.rank, dtype=torch.float64)
            ).expand(value.shape)
        if isinstance(value, list | tuple):
            return type(value)(self._as_slopes(each) for each in value)
        return value

    def _layer(self, node: Node) -> None:
        path, weight = node.scope[0], node.arguments["weight"]
        if any(each in self.slopes for each in node.inputs[1:]):
            raise Refusal(Reason.COMPUTED_WEIGHT, path)
        if type(self.modules.get(path)) not in LAYERS or weight.name != f"{path}.weight":
            raise Refusal(Reason.NOT_A_LAYER, path or node.op)
        source = node.inputs[0]
        dim = source.rank - 1 if node.op == "linear" else self.reading.dims[node]
        slopes = self.slopes[source]
        if slopes.numel() != slopes.shape[dim]:
            raise Refusal(Reason.NOT_A_LAYER, f"{path} has inputs of both kinds in one channel")
        found = slopes.flatten().expand(source.shape[dim] if source.shape else 1)
        if not torch.equal(self.layers.setdefault(path, found), found):
            raise Refusal(Reason.SHARED, path)

    def _check_layers_are_read_once(self) -> None:
        """A layer that is called elsewhere, on something else, cannot be replaced.

        Nor one whose weight is tied.
        """
        for node in self.reading.graph:
            if node.op in ("parameter",) and node.name.rpartition(".")[0] in self.layers:
                for user in node.users:
                    reads = user not in self.put_back and any(
                        each in self.slopes for each in user.inputs
                    )
                    if user.scope[0] not in self.layers or not reads:
                        raise Refusal(Reason.SHARED, node.name)


def compressed(slopes: Tensor) -> Tensor:
    """Size 1 along each dimension that makes no difference."""
    for dim, stride in enumerate(slopes.stride()):
        first = slopes.narrow(dim, 0, 1)
        if slopes.shape[dim] > 1 and (stride == 0 or bool((slopes == first).all())):
            slopes = first
    return slopes


@dataclass(frozen=True)
class Taken:
    """What takes over some sites.

    Layers with a slope for each input, and calls the activation is put back before.
    """

    layers: Mapping[str, Tensor] = field(default_factory=dict)
    put_back: Mapping[Node, Mapping[str, Tensor]] = field(default_factory=dict)
    refusals: Sequence[Refusal] = ()

    def elements_put_back(self, graph: Graph) -> int:
        """Numbers that go through an activation that is put back, in one pass over ``graph``."""
        nodes = [node for node in graph if node in self.put_back]
        return sum(
            math.prod(node.arguments[name].shape) for node in nodes for name in self.put_back[node]
        )

    def check_gain(self) -> None:
        """A Refusal, if no layer takes anything over: all of the activation would be put back."""
        if self.refusals and not any(bool((slopes != 1).any()) for slopes in self.layers.values()):
            raise self.refusals[0]


def defer(
    graph: SiteGraph,
    names: Sequence[str],
    modules: Mapping[str, nn.Module],
    within_reach: Collection[Node] = (),
) -> Taken:
    """What takes over all of the sites ``names``, or a Refusal."""
    layers: dict[str, Tensor] = {}
    put_back: dict[Node, Mapping[str, Tensor]] = {}
    refusals: list[Refusal] = []
    for reading in graph.readings.values():
        own = [name for name in names if name in reading.found]
        found = Deferral(reading, own, modules, within_reach).run()
        for path, slopes in found.layers.items():
            if not torch.equal(layers.setdefault(path, slopes), slopes):
                raise Refusal(Reason.SHARED, f"{path}, differently in train mode")
        put_back |= found.put_back
        refusals += found.refusals
    _check_ties(graph, layers)
    if both := [node.scope[0] for node in put_back if node.scope[0] in layers]:
        raise Refusal(Reason.SHARED, both[0])
    return Taken(layers, put_back, refusals)


def _check_ties(graph: SiteGraph, layers: Mapping[str, Tensor]) -> None:
    for path in layers:
        names = graph.aliases.get(f"{path}.weight", ())
        if len(names) > 1:
            raise Refusal(Reason.SHARED, ", ".join(names))
