"""Remove an activation and let the layers that read it apply it.

A rectifier before a layer equals a layer with a second weight for negative inputs. That weight is 0
for ReLU, and the slope times the weight for leaky ReLU. So the site passes its input through, and
every tensor after it has a *slope* for each element: the factor that its negative values still
need. The slope is 1 where nothing is left to do.

If another operator reads such a tensor, the site is refused, or the activation is put back there.
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
    Kind,
    Node,
    Reading,
    SiteGraph,
    get_operator,
    is_never_negative,
    operators_of,
)
from gatewise.surgery.reasons import Reason, Refusal

PASSED_ON = operators_of(Kind.IDENTITY, Kind.COPY, Kind.DROPOUT) - {
    "alpha_dropout",  # shifts the values
    "native_dropout",
}
INDEXED_POOLS = operators_of(Kind.INDEXED_MAX_POOL)  # of two dimensions
SHAPED = MOVES | RESHAPES | CUTS | SPLITS | {"expand", "cat"}
# The layers that have a phase selective form.
PHASE_LAYERS: tuple[type[nn.Module], ...] = (nn.Conv1d, nn.Conv2d, nn.Linear)
_REFUSED = {
    **dict.fromkeys(SUMS, Reason.RESIDUAL),
    **dict.fromkeys(PRODUCTS, Reason.GATED),
    **dict.fromkeys((POOLS - MAX_POOLS) | REDUCTIONS, Reason.AVERAGED),
    **dict.fromkeys(CHANNEL_NORMS | LAST_NORMS, Reason.NORM),
    **dict.fromkeys(("matmul", "bmm", "scaled_dot_product_attention"), Reason.ATTENTION),
    "output": Reason.OUTPUT,
}


def slope_of_site(op: str, node: Node) -> float:
    """Return the factor that the activation applies to negative values.

    Raises:
        Refusal: The activation is neither ReLU nor leaky ReLU.
    """
    pieces = get_operator(op).pieces
    if op in ("relu", "leaky_relu") and pieces is not None:
        return pieces.resolve(node.arguments).slopes[0]
    raise Refusal(Reason.NOT_HOMOGENEOUS, op)


@dataclass
class Deferral:
    """One graph, the removed sites in it, and the slopes at the layers that read them.

    Attributes:
        reading: The graph and its sites, read in one mode.
        names: The sites to remove.
        modules: The model's modules, by path.
        within_reach: Calls that the activation can be put back before.
        slopes: The slopes of each tensor: a tensor of the same rank, of size 1 along every
            dimension that makes no difference.
        layers: One slope for each input channel of the layers that take over, by path.
        put_back: For each call, the slopes of the arguments that get the activation back.
        refusals: Why the activation was put back.
    """

    reading: Reading
    names: Sequence[str]
    modules: Mapping[str, nn.Module]
    within_reach: Collection[Node] = ()
    slopes: dict[Node, Any] = field(default_factory=dict)
    layers: dict[str, Tensor] = field(default_factory=dict)
    put_back: dict[Node, dict[str, Tensor]] = field(default_factory=dict)
    refusals: list[Refusal] = field(default_factory=list)

    def run(self) -> "Deferral":
        """Follow the slopes to the layers.

        Raises:
            Refusal: The sites cannot be removed.
        """
        starts = {
            self.reading.site_nodes[name].output: self.reading.site_nodes[name]
            for name in self.names
        }
        for node in self.reading.graph:
            if node in starts:
                site = starts[node]
                # The slope of two activations in a row is not one slope.
                if site.input in self.slopes:
                    raise Refusal(Reason.ALREADY_WIDENED)
                self.slopes[node] = self._slopes_of_site(site.op, node)
            elif self._reads_slopes(node):
                try:
                    self._visit(node)
                except Refusal as refusal:
                    self._put_back(node, refusal)
        self._check_layers_are_read_once()
        return self

    def _slopes_of_site(self, op: str, node: Node) -> Tensor:
        """Return the factors that the activation applies to negative values."""
        if op != "prelu":
            slope = slope_of_site(op, node)
            return torch.full((1,) * node.rank, slope, dtype=torch.float64, device="cpu")
        weight = node.tensor("weight")
        path, _, name = (weight.name if weight is not None else "").rpartition(".")
        value = self.modules[path]._parameters.get(name) if path in self.modules else None
        if value is None or value.is_meta or not bool(value.isfinite().all()):
            raise Refusal(Reason.NOT_HOMOGENEOUS, f"{op} with a slope that is no parameter")
        shape = [1] * node.rank
        if value.numel() > 1:
            shape[1] = value.numel()
        return compressed(value.detach().double().cpu().reshape(shape))

    def _reads_slopes(self, node: Node) -> bool:
        """Whether an input of ``node`` has slopes."""
        return any(source in self.slopes for source in node.inputs)

    def _visit(self, node: Node) -> None:
        """Compute the slopes of ``node``, or refuse."""
        if node.op in CONVOLUTIONS | {"linear"}:
            self._layer(node)
        elif node.op in PASSED_ON:
            self.slopes[node] = self.slopes[node.inputs[0]]
        elif node.op in MAX_POOLS or node.op in ("pad", "constant_pad_nd"):
            self.slopes[node] = self._spatial(node)
        elif node.op in INDEXED_POOLS and _drops_indices(node):
            pooled = self._spatial(node)
            self.slopes[node] = (pooled, torch.ones_like(pooled))
        elif node.op == "getitem":
            self.slopes[node] = self.slopes[node.inputs[0]][int(node.arguments["index"])]
        elif node.op in SHAPED:
            self.slopes[node] = self._shaped(node)
        elif node.op in PRODUCTS and (scaled := self._scaled(node)) is not None:
            self.slopes[node] = scaled
        elif node.op != "_assert_tensor_metadata":
            raise Refusal(_REFUSED.get(node.op, Reason.NO_RULE), node.op)

    def _put_back(self, node: Node, refusal: Refusal) -> None:
        """Put the activation back before the call ``node``, so that its output needs no slope.

        The refusal is raised again if the call cannot be rewritten, or if it reads such a tensor
        inside a list.
        """
        arguments = {}
        for name, value in node.arguments.items():
            if isinstance(value, Node) and value in self.slopes:
                arguments[name] = value
        named = arguments.values()
        hidden = any(source in self.slopes and source not in named for source in node.inputs)
        if refusal.reason is Reason.SHARED or node not in self.within_reach or hidden:
            raise refusal
        self.put_back[node] = {name: self.slopes[value] for name, value in arguments.items()}
        self.refusals.append(refusal)

    def _scaled(self, node: Node) -> Tensor | None:
        """Return the slopes of a product with a tensor that is never negative, such as a gate.

        Such a factor keeps the sign, so the activation can wait. ``None`` for other products.
        """
        first = node.tensor("self")
        other = node.arguments.get("other")
        product = node.op in ("mul", "multiply")
        if product and isinstance(other, Node) and other in self.slopes:
            first, other = other, first
        if first is None or first not in self.slopes or other in self.slopes:
            return None
        if not product and not isinstance(other, int | float):
            return None
        if not is_never_negative(other) or other == 0:
            return None
        slopes = self.slopes[first]
        return slopes.reshape((1,) * (node.rank - slopes.dim()) + slopes.shape)

    def _spatial(self, node: Node) -> Tensor:
        """Return the slopes after max pooling or padding.

        The activation is not decreasing, so the largest value stays the largest. A padded zero has
        no sign. Both need equal slopes along the dimensions that they mix.
        """
        slopes = self.slopes[node.inputs[0]]
        if node.op in INDEXED_POOLS:
            dims = range(slopes.dim() - 2, slopes.dim())
        elif node.op in MAX_POOLS:
            dims = range(node.rank - int(node.op[-2]), node.rank)
        else:
            dims = range(node.rank - len(node.arguments["pad"]) // 2, node.rank)
            constant = (node.arguments.get("mode") or "constant") == "constant"
            if constant and (node.arguments.get("value") or 0) < 0:
                raise Refusal(Reason.NO_RULE, "padding with a negative value")
        if any(slopes.shape[dim] != 1 for dim in dims) or float(slopes.min()) < 0:
            raise Refusal(Reason.NO_RULE, node.op)
        return slopes

    def _shaped(self, node: Node) -> Any:
        """Run an operator that only moves elements, on slopes of the real shapes."""
        if node.op in RESHAPES:
            return compressed(self._as_slopes(node.inputs[0]).reshape(node.shape))
        if node.overload is None:
            raise Refusal(Reason.NO_RULE, node.op)
        arguments = {name: self._as_slopes(value) for name, value in node.arguments.items()}
        result = node.overload(**arguments)
        if isinstance(result, Tensor):
            return compressed(result)
        return tuple(compressed(part) for part in result)

    def _as_slopes(self, value: Any) -> Any:
        """Return an argument with the slopes, in full size, in place of each tensor."""
        if isinstance(value, Node):
            if not value.floating or value.shape is None:
                raise Refusal(Reason.NO_RULE, "an index that is computed")
            done = torch.ones((1,) * value.rank, dtype=torch.float64, device="cpu")
            return self.slopes.get(value, done).expand(value.shape)
        if isinstance(value, list | tuple):
            return type(value)(self._as_slopes(item) for item in value)
        return value

    def _layer(self, node: Node) -> None:
        """Note the slopes of a layer's input channels."""
        path = node.scope[0]
        if any(source in self.slopes for source in node.inputs[1:]):
            raise Refusal(Reason.COMPUTED_WEIGHT, path)
        weight = node.arguments["weight"].name
        if type(self.modules.get(path)) not in PHASE_LAYERS or weight != f"{path}.weight":
            raise Refusal(Reason.NOT_A_LAYER, path or node.op)
        source = node.inputs[0]
        dim = source.rank - 1 if node.op == "linear" else self.reading.dims[node]
        slopes = self.slopes[source]
        # A phase selective layer has one slope for each input channel.
        if slopes.numel() != slopes.shape[dim]:
            raise Refusal(Reason.NOT_A_LAYER, f"{path} has inputs of both kinds in one channel")
        of_channels = slopes.flatten().expand(source.shape[dim] if source.shape else 1)
        if not torch.equal(self.layers.setdefault(path, of_channels), of_channels):
            raise Refusal(Reason.SHARED, path)

    def _check_layers_are_read_once(self) -> None:
        """Refuse layers that are also called on another tensor, and tied weights."""
        for leaf in self.reading.graph:
            if leaf.op != "parameter" or leaf.name.rpartition(".")[0] not in self.layers:
                continue
            for user in leaf.users:
                reads = user not in self.put_back and self._reads_slopes(user)
                if user.scope[0] not in self.layers or not reads:
                    raise Refusal(Reason.SHARED, leaf.name)


def _drops_indices(pool: Node) -> bool:
    """Whether only the values of a max pool are read, and not where they were."""
    parts = [user for user in pool.users if user.users]
    return all(part.op == "getitem" and part.arguments["index"] == 0 for part in parts)


def compressed(slopes: Tensor) -> Tensor:
    """Return ``slopes`` with size 1 along every dimension that makes no difference."""
    for dim, stride in enumerate(slopes.stride()):
        first = slopes.narrow(dim, 0, 1)
        if slopes.shape[dim] > 1 and (stride == 0 or bool((slopes == first).all())):
            slopes = first
    return slopes


@dataclass(frozen=True)
class Takeover:
    """What takes over the removed sites, in all modes together.

    Attributes:
        layers: One slope for each input channel of the layers that take over, by path.
        put_back: For each call, the slopes of the arguments that get the activation back.
        refusals: Why the activation was put back.
    """

    layers: Mapping[str, Tensor] = field(default_factory=dict)
    put_back: Mapping[Node, Mapping[str, Tensor]] = field(default_factory=dict)
    refusals: Sequence[Refusal] = ()

    def elements_put_back(self, graph: Graph) -> int:
        """Count the elements that go through activations that were put back, in one pass."""
        count = 0
        for node in graph:
            for name in self.put_back.get(node, ()):
                count += math.prod(node.arguments[name].shape)
        return count

    def check_gain(self) -> None:
        """Raise the first refusal if no layer takes over anything."""
        if self.refusals and not any(bool((slopes != 1).any()) for slopes in self.layers.values()):
            raise self.refusals[0]


def defer(
    graph: SiteGraph,
    names: Sequence[str],
    modules: Mapping[str, nn.Module],
    within_reach: Collection[Node] = (),
) -> Takeover:
    """Find what takes over all of the sites ``names``.

    Args:
        graph: The model's graph.
        names: The sites to remove.
        modules: The model's modules, by path.
        within_reach: Calls that the activation can be put back before.

    Raises:
        Refusal: The sites cannot be removed together.
    """
    layers: dict[str, Tensor] = {}
    put_back: dict[Node, Mapping[str, Tensor]] = {}
    refusals: list[Refusal] = []
    for reading in graph.readings.values():
        present = [name for name in names if name in reading.site_nodes]
        deferral = Deferral(reading, present, modules, within_reach).run()
        merge_modes(layers, deferral.layers)
        put_back |= deferral.put_back
        refusals += deferral.refusals
    check_untied(graph, layers)
    # A layer cannot take over the activation at one call and get it back at another.
    for node in put_back:
        if node.scope[0] in layers:
            raise Refusal(Reason.SHARED, node.scope[0])
    return Takeover(layers, put_back, refusals)


def merge_modes(layers: dict[str, Tensor], of_mode: Mapping[str, Tensor]) -> None:
    """Add the layers of one mode to ``layers``. They must agree with those of other modes."""
    for path, slopes in of_mode.items():
        if not torch.equal(layers.setdefault(path, slopes), slopes):
            raise Refusal(Reason.SHARED, f"{path}, differently in train mode")


def check_untied(graph: SiteGraph, paths: Collection[str]) -> None:
    """Refuse layers whose weight has several names."""
    for path in paths:
        names = graph.aliases.get(f"{path}.weight", ())
        if len(names) > 1:
            raise Refusal(Reason.SHARED, ", ".join(names))
