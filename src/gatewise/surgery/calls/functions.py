"""The closed table of torch functions that are activations, under every name torch gives them."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.graph import OPERATORS
from gatewise.units import UnitModule

# By the name of the function: the names of the arguments after the input, in torch's order.
PARAMETERS: Mapping[str, tuple[str, ...]] = {
    operator.functions[0]: operator.parameters
    for operator in OPERATORS.values()
    if operator.functions
}


class Activation(NamedTuple):
    """What one torch function is: the operation, and whether the function writes into its input."""

    op: str
    inplace: bool


def _every_name() -> dict[Callable[..., Any], Activation]:
    """Return the functions of torch that are activations, under all their names."""
    table: dict[Callable[..., Any], Activation] = {}
    for operator in OPERATORS.values():
        for name in operator.functions:
            for home in (F, torch, Tensor, torch.special):
                for suffix in ("", "_"):
                    function = getattr(home, name + suffix, None)
                    if function is not None:
                        table[function] = Activation(operator.functions[0], bool(suffix))
    return table


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
