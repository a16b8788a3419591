"""Run a model's graph with its gates held where they are, so that what is left is affine in the input.

Note [Held gates]. Each tensor of the graph is one of three kinds. *Fixed*: it does not depend on the input, or it is a
gate, whose value is held. *Affine*: an affine function of the input while gates are held. *Curved*: neither, such as
an exponential or the product of two affine tensors; that is allowed on the way to a gate (attention scores before
their softmax), is held as a gate where it multiplies an affine tensor, and is refused by name at the output.

Max-affine operators (ReLU, max-pooling, absolute value) need no holding: torch's derivative is that of the piece that
the input is in. A smooth unit ``z T(z)`` is held as ``T``: the sigmoid of SiLU, the normal distribution function of
GELU; and any other with ``f(0) = 0`` as the secant ``f(z) / z``. Softplus is ``T z`` and the entropy of ``T``, whose
sum it is. Sigmoid, softmax and comparisons are gates themselves. A unit that is a module of several operators is taken
as one function.
"""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.planes import Composite, Composites
from gatewise.errors import Limitation, NotApplicableError
from gatewise.graph import (
    CONVOLUTIONS,
    CUTS,
    LEAVES,
    MOVES,
    POOLS,
    PRODUCTS,
    RESHAPES,
    SPLITS,
    TRANSPOSED,
    Graph,
    Node,
    filled,
)

FIXED, AFFINE = "fixed", "affine"  # any other kind is the name of the operator that curved it
Gate = Callable[[Node, Tensor], None]

GATES = {
    *(
        "sigmoid",
        "hardsigmoid",
        "softmax",
        "_softmax",
        "erf",
        "sign",
        "heaviside",
        "argmax",
        "logical_not",
    ),
    *("isnan", "isinf", "isfinite", "is_nonzero"),
    *("eq", "ne", "lt", "le", "gt", "ge", "logical_and", "logical_or"),
}
MAX_AFFINE = {
    *(
        "relu",
        "relu6",
        "leaky_relu",
        "rrelu",
        "prelu",
        "hardtanh",
        "abs",
        "threshold",
        "hardshrink",
        "softshrink",
    ),
    *(
        "clamp",
        "clamp_min",
        "clamp_max",
        "maximum",
        "minimum",
        "fmax",
        "fmin",
        "amax",
        "amin",
        "max",
        "min",
    ),
    *("nan_to_num", "clip"),
    *("max_pool1d", "max_pool2d", "max_pool3d", "max_pool2d_with_indices", "adaptive_max_pool2d"),
}
SMOOTH = {
    "silu",
    "gelu",
    "mish",
    "elu",
    "selu",
    "celu",
    "hardswish",
    "tanh",
    "softplus",
    "log_sigmoid",
}
AFFINE_OPS = {
    *(POOLS | RESHAPES | MOVES | CUTS | SPLITS),
    *(
        "add",
        "sub",
        "rsub",
        "neg",
        "cat",
        "stack",
        "mean",
        "sum",
        "getitem",
        "where",
        "masked_fill",
        "expand",
        "repeat",
    ),
    *(
        "clone",
        "contiguous",
        "detach",
        "alias",
        "to",
        "_to_copy",
        "type_as",
        "positive",
        "copy",
        "cumsum",
    ),
    *(
        "dropout",
        "alpha_dropout",
        "feature_dropout",
        "pad",
        "constant_pad_nd",
        "reflection_pad2d",
        "replication_pad2d",
    ),
    *(
        "reflection_pad1d",
        "replication_pad1d",
        "upsample_nearest1d",
        "upsample_nearest2d",
        "upsample_bilinear2d",
    ),
    *(
        "pixel_shuffle",
        "pixel_unshuffle",
        "channel_shuffle",
        "unfold",
        "im2col",
        "batch_norm",
        "diff",
    ),
}
# Affine in each of their tensors alone: in all together only where the others are fixed.
MULTILINEAR = {
    *(PRODUCTS | CONVOLUTIONS | TRANSPOSED),
    *("linear", "addmm", "mm", "matmul", "bmm", "baddbmm", "einsum", "lerp", "addcmul"),
}
DIVISIONS = {"div", "divide", "true_divide"}


class HeldRun:
    """Runs of ``graph`` with held gates.

    ``gate``, if given, is told the node and the value of every one.
    """

    def __init__(self, what: str, graph: Graph, model: nn.Module, gate: Gate | None = None) -> None:
        self.what, self.graph, self.model, self.gate = what, graph, model, gate
        self.composites = Composites(graph, model)

    def __call__(self, x: Tensor, output: Node) -> Tensor:
        """The value of ``output`` at ``x``, differentiable in ``x`` as if all gates were constants."""
        values: dict[Node, Any] = {}
        kinds: dict[Node, str] = {}
        for node in self.graph:
            if node.op == "output":
                break
            if node in self.composites.inside:
                continue
            values[node], kinds[node] = (
                self._leaf(node, x) if node.op in LEAVES else self._call(node, values, kinds)
            )
            if node.inplace:
                kinds[node.inputs[0]] = kinds[node]
            for each in node.inputs:
                if each.users[-1] is node and each is not output:
                    values.pop(each, None)
        self._check(kinds[output])
        return values[output]

    def _check(self, kind: str) -> None:
        if kind not in (FIXED, AFFINE):
            raise NotApplicableError(
                Limitation.UNSUPPORTED_OPERATOR,
                f"{self.what}: the output is not affine in the input, even with all gates held",
                got=f"the operator {kind}",
                allowed="linear layers, normalisation in eval mode, pooling, max-affine units, and units with gates",
            )

    def _leaf(self, node: Node, x: Tensor) -> tuple[Any, str]:
        if node.op == "input":
            return x.clone(), AFFINE  # a call in place must not change the user's tensor
        if node.op == "parameter":
            return self.model.get_parameter(node.name).detach(), FIXED
        return (self.model.get_buffer(node.name) if node.op == "buffer" else node.value), FIXED

    def _call(
        self, node: Node, values: Mapping[Node, Any], kinds: Mapping[Node, str]
    ) -> tuple[Any, str]:
        if (unit := self.composites.calls.get(node)) is not None:
            return self._composite(node, unit, values, kinds)
        kind = kind_of(node, kinds)
        if node.op in GATES or (node.op == "tanh" and is_factor(node)):
            return self._hold(node, values), FIXED
        if node.op in SMOOTH and kind == AFFINE:
            return self._smooth(node, values), AFFINE
        curved = [each for each in node.inputs if kinds[each] not in (FIXED, AFFINE)]
        if curved and kind == AFFINE:
            return _run(
                node, {**values, **{each: values[each].detach() for each in curved}}
            ), AFFINE
        return _run(node, values), kind

    def _composite(
        self, node: Node, unit: Composite, values: Mapping[Node, Any], kinds: Mapping[Node, str]
    ) -> tuple[Tensor, str]:
        z = values[unit.input]
        if kinds[unit.input] != AFFINE:
            return unit.module(z), kinds[unit.input]
        slope, offset = unit.held(z)
        if self.gate is not None:
            self.gate(node, slope)
        return slope * z + offset, AFFINE

    def _hold(self, node: Node, values: Mapping[Node, Any]) -> Any:
        held = _run(node, values)
        if isinstance(held, Tensor) and held.is_floating_point():
            if self.gate is not None and node.op in (
                "sigmoid",
                "hardsigmoid",
                "softmax",
                "_softmax",
                "tanh",
            ):
                self.gate(node, held.detach())
            held = _written(node, values, held.detach())
        return held

    def _smooth(self, node: Node, values: Mapping[Node, Any]) -> Tensor:
        z = values[node.inputs[0]]
        still = z.detach().clone()
        arguments = {
            name: value for name, value in node.arguments.items() if not isinstance(value, Node)
        }
        function = _out_of_place(node)
        y = function(still, **arguments)
        if node.op in ("softplus", "log_sigmoid"):
            slope = _slope(function, still, arguments)
            result = slope * z + (y - slope * still)
        else:
            near = still.abs() < 1e-30  # the secant's limit is the slope at 0
            slope = torch.where(
                near, _slope(function, still, arguments), y / torch.where(near, 1, still)
            )
            result = slope * z
        if self.gate is not None:
            self.gate(node, slope)
        return _written(node, values, result)


def kind_of(node: Node, kinds: Mapping[Node, str]) -> str:
    """What a call makes of its tensors' kinds, before any holding."""
    live = [kinds[each] for each in node.inputs if kinds[each] != FIXED]
    curved = [kind for kind in live if kind != AFFINE]
    if node.op in MULTILINEAR and live.count(AFFINE) == 1 and not _squares(node):
        below = node.tensor("other") if node.op in DIVISIONS else None
        return AFFINE if below is None or kinds[below] != AFFINE else node.op
    if not live or curved:
        return curved[0] if curved else FIXED
    if node.op in AFFINE_OPS | MAX_AFFINE | SMOOTH:
        return AFFINE
    return node.op


def is_factor(node: Node) -> bool:
    """Whether a product reads ``node``, perhaps after a scale or a shift.

    Then it is a gate and not a response.
    """
    direct = any(user.op in PRODUCTS and _with_live(user, node) for user in node.users)
    return direct or any(
        user.op in ("add", "mul", "div", "sub") and is_factor(user) for user in node.users
    )


def _with_live(product: Node, factor: Node) -> bool:
    return any(each is not factor and each.op not in LEAVES for each in product.inputs)


def _squares(node: Node) -> bool:
    """Whether one tensor stands in a product twice: ``inputs`` names it once."""
    tensors = [value for value in node.arguments.values() if isinstance(value, Node)]
    return len(tensors) != len(set(tensors))


def _slope(function: Callable[..., Tensor], z: Tensor, arguments: Mapping[str, Any]) -> Tensor:
    with torch.enable_grad():
        leaf = z.clone().requires_grad_()
        return torch.autograd.grad(function(leaf, **arguments).sum(), leaf)[0]


def _out_of_place(node: Node) -> Callable[..., Tensor]:
    return getattr(torch.ops.aten, node.op)


def _written(node: Node, values: Mapping[Node, Any], result: Tensor) -> Tensor:
    """``result``, written into the tensor that the call changes if it is one in place.

    Views of it see it too.
    """
    return values[node.inputs[0]].copy_(result) if node.inplace else result


def _run(node: Node, values: Mapping[Node, Any]) -> Any:
    if node.op == "getitem":
        return values[node.inputs[0]][node.arguments["index"]]
    if node.overload is None:
        raise NotApplicableError(
            Limitation.UNSUPPORTED_OPERATOR,
            "the model holds an operation that cannot be run by itself",
            got=node.op,
        )
    return node.overload(**{name: filled(value, values) for name, value in node.arguments.items()})
