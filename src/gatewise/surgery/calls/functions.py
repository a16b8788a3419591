"""The closed table of torch functions that are activations, under every name torch gives them."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.units import UnitModule

# Names of the arguments after the input, in torch's order. GLU and softmax are no pointwise
# functions: not here.
PARAMETERS: Mapping[str, tuple[str, ...]] = {
    "celu": ("alpha", "inplace"),
    "elu": ("alpha", "inplace"),
    "gelu": ("approximate",),
    "hardshrink": ("lambd",),
    "hardsigmoid": ("inplace",),
    "hardswish": ("inplace",),
    "hardtanh": ("min_val", "max_val", "inplace"),
    "leaky_relu": ("negative_slope", "inplace"),
    "logsigmoid": (),
    "mish": ("inplace",),
    "prelu": ("weight",),
    "relu": ("inplace",),
    "relu6": ("inplace",),
    "rrelu": ("lower", "upper", "training", "inplace"),
    "selu": ("inplace",),
    "sigmoid": (),
    "silu": ("inplace",),
    "softplus": ("beta", "threshold"),
    "softshrink": ("lambd",),
    "softsign": (),
    "tanh": (),
    "tanhshrink": (),
    "threshold": ("threshold", "value", "inplace"),
}


class Activation(NamedTuple):
    """What one torch function is: the operation, and whether the function writes into its input."""

    op: str
    inplace: bool


def _every_name() -> dict[Callable[..., Any], Activation]:
    homes = (F, torch, Tensor, torch.special)
    spelled = [
        (name + tail, Activation(name, bool(tail))) for name in PARAMETERS for tail in ("", "_")
    ]
    table = {
        getattr(home, name): what for home in homes for name, what in spelled if hasattr(home, name)
    }
    return table | {torch.special.expit: Activation("sigmoid", False)}


FUNCTIONS: Mapping[Callable[..., Any], Activation] = _every_name()


def activation(function: object) -> Activation | None:
    """What ``function`` is, or None if it is no activation of the table."""
    try:
        return FUNCTIONS.get(function)  # type: ignore[arg-type]
    except TypeError:  # not hashable, so none of torch's
        return None


def arguments_of(op: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """What was given to ``op`` beyond the input and whether to work in place."""
    named = dict(zip(PARAMETERS[op], args[1:], strict=False)) | dict(kwargs)
    return {
        name: value for name, value in named.items() if name not in ("input", "inplace", "self")
    }


def may_be_activation(module: nn.Module) -> bool:
    """Whether calls of ``module`` are looked at as one activation.

    A leaf that holds no layer's weights.

    A norm with an activation inside has parameters and buffers, and stays what it is: an owner of a
    functional call.
    """
    if isinstance(module, UnitModule):
        return True
    if next(module.children(), None) is not None or next(module.buffers(), None) is not None:
        return False
    return is_torchs_own(module) or next(module.parameters(), None) is None


def is_torchs_own(module: nn.Module) -> bool:
    """Whether ``module`` is one of torch's activation classes, whose inside is one function of the table."""
    return type(module).__module__ == "torch.nn.modules.activation"
