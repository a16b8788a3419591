"""Models that are dense layers and units one after the other.

Note [Dense chains]. Most planes that people look at are those of such networks. They are carried
through all layers by compiled code. Sequences of torch's own modules are chains as they stand, and
reading a graph first would take as long as that; of other models the graph is looked at. What is
not certainly a chain is carried node by node, and nothing is lost but time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from gatewise.analysis.planes.affine_rules import BATCH, SAME
from gatewise.analysis.planes.kinks import Kinks, kinks_of
from gatewise.analysis.unmodified_modules import is_as_written
from gatewise.graph import LEAVES, RESHAPES, Graph, Node
from gatewise.units import registered_units


@dataclass(frozen=True)
class DenseLayer:
    """A dense layer, and the unit after it, whose slope is 1 where the response is positive."""

    weight: Tensor  # (outputs, inputs) float64
    bias: Tensor  # (outputs,)
    slope: Tensor | None = None  # (outputs,) where the response is negative; None: no unit follows


def dense_chain(model: nn.Module, x: Tensor) -> list[DenseLayer] | None:
    """The layers of ``model`` for one input ``x`` (*input), ``None`` if it is not certain to be a chain of them."""
    layers: list[DenseLayer] = []
    width, flat = x.numel(), x.dim() == 1
    for part in _parts(model):
        if part is None:
            return None
        if isinstance(part, nn.Flatten):
            flat = True
        elif isinstance(part, nn.Linear):
            if not flat or (layer := _layer(part.weight, part.bias, width)) is None:
                return None
            width = len(layer.bias)
            layers.append(layer)
        elif not isinstance(part, nn.Identity | nn.Dropout):
            slope = _slope(part, width)
            if slope is None or not layers or layers[-1].slope is not None:
                return None
            layers[-1] = replace(layers[-1], slope=slope)
    return layers or None


def _parts(module: nn.Module) -> Iterator[nn.Module | None]:
    """The modules that are called, in their order; ``None`` for one that is not known."""
    if not is_as_written(module):
        yield None
    elif type(module) is nn.Sequential:
        for child in module:
            yield from _parts(child)
    elif type(module) is nn.Flatten:
        yield module if (module.start_dim, module.end_dim) == (1, -1) else None
    elif type(module) is nn.Dropout:
        yield None if module.training else module
    else:
        yield module if type(module) in (nn.Linear, nn.Identity, *_KINKED, *_our_units()) else None


_KINKED = (nn.ReLU, nn.LeakyReLU, nn.PReLU)


def _our_units() -> tuple[type[nn.Module], ...]:
    return tuple(registered_units()[name].module for name in ("relu", "leaky_relu", "abs"))


def _slope(unit: nn.Module, width: int) -> Tensor | None:
    """Of the unit below 0 (width,), as it says itself; ``None`` if it is made for another width."""
    if any(
        each.numel() not in (1, width) or each.device.type != "cpu" for each in unit.parameters()
    ):
        return None
    with torch.no_grad():
        return -unit(torch.full((1, width), -1.0, dtype=_dtype(unit)))[0].double()


def _dtype(module: nn.Module) -> torch.dtype:
    return next((each.dtype for each in module.parameters()), torch.float64)


def _layer(weight: Tensor, bias: Tensor | None, width: int) -> DenseLayer | None:
    """A layer of ``width`` inputs; ``None`` if its numbers are not as many, or not here."""
    if weight.device.type != "cpu" or not weight.is_floating_point() or weight.dim() != 2:
        return None
    if (
        not len(weight)
        or weight.shape[1] != width
        or (bias is not None and bias.shape != weight.shape[:1])
    ):
        return None
    weight = weight.detach().double()
    return DenseLayer(
        weight, weight.new_zeros(len(weight)) if bias is None else bias.detach().double()
    )


def dense_chain_of_graph(graph: Graph, model: nn.Module, output: Node) -> list[DenseLayer] | None:
    """The same of a graph: every call reads what the call before it gave, and the last one's is the output."""
    parameters = {node: model.get_parameter(node.name) for node in graph if node.op == "parameter"}
    layers: list[DenseLayer] = []
    last = next(node for node in graph if node.op == "input")
    for node in graph:
        if node.op in LEAVES or node.op == "output" or node.op.startswith("_assert"):
            continue
        if (
            not node.inputs
            or node.inputs[0] is not last
            or any(each not in parameters for each in node.inputs[1:])
        ):
            return None
        if node.op == "linear" and last.rank == 2:
            weight, bias = (node.tensor(name) for name in ("weight", "bias"))
            known = None if bias is None else parameters[bias]
            if (
                weight is None
                or (layer := _layer(parameters[weight], known, (last.shape or (0, 0))[1])) is None
            ):
                return None
            layers.append(layer)
        elif (
            layers
            and layers[-1].slope is None
            and (slope := _slope_of_call(node, parameters)) is not None
        ):
            layers[-1] = replace(layers[-1], slope=slope)
        elif not _changes_nothing(node):
            return None
        last = node
    return layers if last is output and layers else None


def _slope_of_call(node: Node, parameters: dict[Node, nn.Parameter]) -> Tensor | None:
    """Of a unit below 0 (width,), ``None`` if the call is none whose only kink is there."""
    kinks = kinks_of(node, {each: value.detach().double() for each, value in parameters.items()})
    if kinks is None or node.rank != 2 or not _is_kink_at_0(kinks):
        return None
    below = torch.as_tensor(kinks.slopes[0], dtype=torch.float64)
    return below.expand((node.shape or (0, 0))[1]).clone()


def _is_kink_at_0(kinks: Kinks) -> bool:
    above = kinks.slopes[-1]
    return (
        kinks.thresholds == (0.0,)
        and not any(kinks.offsets)
        and not isinstance(above, Tensor)
        and above == 1
    )


def _changes_nothing(node: Node) -> bool:
    """Whether a call gives the numbers that it was given, in their order, a row an input."""
    if not node.floating:
        return False
    return node.op in SAME or (
        node.op in RESHAPES and node.rank == 2 and (node.shape or (0,))[0] == BATCH
    )
