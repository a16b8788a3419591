"""Models that are dense layers and units one after the other.

Note [Dense chains]. Most networks whose regions people look at are such chains. Compiled code
propagates the plane through all their layers. A sequence of torch's own modules is recognised
without a graph, because reading the graph would take as long as the computation. For other models
the graph is read. A model that is not certainly a chain is propagated node by node, which is only
slower.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from gatewise.analysis.planes.affine_rules import BATCH, SAME
from gatewise.analysis.planes.kinks import kinks_of
from gatewise.analysis.unmodified_modules import is_as_written
from gatewise.graph import LEAVES, RESHAPES, Graph, Node, Pieces
from gatewise.units import registered_units


@dataclass(frozen=True)
class DenseLayer:
    """A dense layer, and the unit after it, whose slope is 1 where the response is positive.

    Attributes:
        weight: (outputs, inputs), float64.
        bias: (outputs,).
        slope: (outputs,), the unit's slope where the response is negative; None without a unit.
    """

    weight: Tensor
    bias: Tensor
    slope: Tensor | None = None


def dense_chain(model: nn.Module, x: Tensor) -> list[DenseLayer] | None:
    """The layers of ``model`` for one input ``x`` (*input); None if it may not be a chain."""
    layers: list[DenseLayer] = []
    width = x.numel()
    is_flat = x.dim() == 1
    for module in _called_modules(model):
        if module is None:
            return None
        if isinstance(module, nn.Flatten):
            is_flat = True
        elif isinstance(module, nn.Linear):
            layer = _layer(module.weight, module.bias, width)
            if layer is None or not is_flat:
                return None
            width = len(layer.bias)
            layers.append(layer)
        elif not isinstance(module, nn.Identity | nn.Dropout):
            slope = _slope(module, width)
            if slope is None or not layers or layers[-1].slope is not None:
                return None
            layers[-1] = replace(layers[-1], slope=slope)
    return layers or None


def _called_modules(module: nn.Module) -> Iterator[nn.Module | None]:
    """Yield the modules in the order of their calls; None for an unknown one."""
    if not is_as_written(module):
        yield None
    elif type(module) is nn.Sequential:
        for child in module:
            yield from _called_modules(child)
    elif type(module) is nn.Flatten:
        yield module if (module.start_dim, module.end_dim) == (1, -1) else None
    elif type(module) is nn.Dropout:
        yield None if module.training else module
    else:
        gatewise_units = [registered_units()[name].module for name in ("relu", "leaky_relu", "abs")]
        known = (nn.Linear, nn.Identity, nn.ReLU, nn.LeakyReLU, nn.PReLU, *gatewise_units)
        yield module if type(module) in known else None


def _slope(unit: nn.Module, width: int) -> Tensor | None:
    """The slope below 0, (width,), from the unit's value at -1; None for another width."""
    dtype = torch.float64
    for parameter in unit.parameters():
        if parameter.numel() not in (1, width) or parameter.device.type != "cpu":
            return None
        dtype = parameter.dtype
    with torch.no_grad():
        return -unit(torch.full((1, width), -1.0, dtype=dtype))[0].double()


def _layer(weight: Tensor, bias: Tensor | None, width: int) -> DenseLayer | None:
    """A layer of ``width`` inputs; None if the shapes do not fit, or it is not on the CPU."""
    if weight.device.type != "cpu" or not weight.is_floating_point() or weight.dim() != 2:
        return None
    if not len(weight) or weight.shape[1] != width:
        return None
    if bias is not None and bias.shape != weight.shape[:1]:
        return None
    weight = weight.detach().double()
    if bias is None:
        return DenseLayer(weight, weight.new_zeros(len(weight)))
    return DenseLayer(weight, bias.detach().double())


def dense_chain_of_graph(graph: Graph, model: nn.Module, output: Node) -> list[DenseLayer] | None:
    """The same from a graph, in which every call must read the result of the call before it."""
    parameters = {node: model.get_parameter(node.name) for node in graph if node.op == "parameter"}
    layers: list[DenseLayer] = []
    last = next(node for node in graph if node.op == "input")
    for node in graph:
        if node.op in LEAVES or node.op == "output" or node.op.startswith("_assert"):
            continue
        if not node.inputs or node.inputs[0] is not last:
            return None
        if not all(source in parameters for source in node.inputs[1:]):
            return None
        slope = None
        if layers and layers[-1].slope is None:
            slope = _slope_of_call(node, parameters)
        if node.op == "linear" and last.rank == 2:
            layer = _layer_of_call(node, parameters, (last.shape or (0, 0))[1])
            if layer is None:
                return None
            layers.append(layer)
        elif slope is not None:
            layers[-1] = replace(layers[-1], slope=slope)
        elif not _is_identity(node):
            return None
        last = node
    return layers if last is output and layers else None


def _layer_of_call(
    node: Node,
    parameters: dict[Node, nn.Parameter],
    width: int,
) -> DenseLayer | None:
    weight = node.tensor("weight")
    bias = node.tensor("bias")
    if weight is None:
        return None
    return _layer(parameters[weight], None if bias is None else parameters[bias], width)


def _slope_of_call(node: Node, parameters: dict[Node, nn.Parameter]) -> Tensor | None:
    """The slope of a unit below 0, (width,); None unless the call's only kink is at 0."""
    values = {source: value.detach().double() for source, value in parameters.items()}
    kinks = kinks_of(node, values)
    if kinks is None or node.rank != 2 or not _is_kink_at_0(kinks):
        return None
    below = torch.as_tensor(kinks.slopes[0], dtype=torch.float64)
    return below.expand((node.shape or (0, 0))[1]).clone()


def _is_kink_at_0(kinks: Pieces) -> bool:
    if kinks.thresholds != (0.0,) or any(kinks.offsets):
        return False
    above = kinks.slopes[-1]
    return not isinstance(above, Tensor) and above == 1


def _is_identity(node: Node) -> bool:
    """Whether a call returns the numbers of its input in their order, one row per input."""
    if not node.floating:
        return False
    if node.op in SAME:
        return True
    return node.op in RESHAPES and node.rank == 2 and (node.shape or (0,))[0] == BATCH
