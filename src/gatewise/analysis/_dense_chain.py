"""Models that are dense layers and units one after the other, which can be read without running them.

Note [Dense chains]. Most planes that people look at are those of such networks. They are carried through all layers by
compiled code, and reading a graph first would take longer than that. What is not certainly such a chain is read as a
graph, and nothing is lost but time.
"""

from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from gatewise.analysis._ntk_plain import is_as_written
from gatewise.units import units


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
            if not flat or part.in_features != width or not _is_on_processor(part):
                return None
            width = part.out_features
            layers.append(_layer(part))
        elif (slope := _slope(part, width)) is not None:
            if not layers or layers[-1].slope is not None:
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
    return tuple(units()[name].module for name in ("relu", "leaky_relu", "abs"))


def _slope(unit: nn.Module, width: int) -> Tensor | None:
    """Of the unit below 0 (width,), as it says itself; ``None`` if the module is no unit."""
    if isinstance(unit, nn.Identity | nn.Dropout):
        return None
    with torch.no_grad():
        return -unit(torch.full((1, width), -1.0, dtype=_dtype(unit)))[0].double()


def _dtype(module: nn.Module) -> torch.dtype:
    return next((each.dtype for each in module.parameters()), torch.float64)


def _is_on_processor(layer: nn.Linear) -> bool:
    return layer.weight.device.type == "cpu" and layer.weight.is_floating_point()


def _layer(layer: nn.Linear) -> DenseLayer:
    weight = layer.weight.detach().double()
    bias = weight.new_zeros(len(weight)) if layer.bias is None else layer.bias.detach().double()
    return DenseLayer(weight, bias)
