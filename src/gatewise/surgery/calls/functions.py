"""The torch functions that are activations, from the operator table, and their calls in graphs."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.graph import COMPOSITE, OPERATORS
from gatewise.units import UnitModule

# By the name of the function: the names of the arguments after the input, in torch's order.
PARAMETERS: Mapping[str, tuple[str, ...]] = {
    operator.functions[0]: operator.parameters
    for operator in OPERATORS.values()
    if operator.functions
}


# The name in the graph, and the name of the function, where they differ.
SAME = {
    ("hardtanh", "relu6"),
    ("log_sigmoid", "logsigmoid"),
}
TORCHS_OWN = "torch.nn.modules.activation"  # defines the activation classes of torch


class Activation(NamedTuple):
    """The operator of a torch function, and whether the function writes into its input."""

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
    """Return what ``function`` is, or ``None`` if it is no activation of the table."""
    try:
        return FUNCTIONS.get(function)  # type: ignore[arg-type]
    except TypeError:  # not hashable, so no function of torch
        return None


def arguments_of(op: str, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> dict[str, Any]:
    """Return the arguments of a call of ``op`` by name, without the input and ``inplace``."""
    named = dict(zip(PARAMETERS[op], args[1:], strict=False)) | dict(kwargs)
    for name in ("input", "inplace", "self"):
        named.pop(name, None)
    return named


def may_be_activation(module: nn.Module) -> bool:
    """Whether a call of ``module`` may be recorded as one activation.

    It must be a unit, or a leaf without buffers and, unless torch defines it as an activation,
    without parameters. A norm that contains an activation has both: it is the owner of a functional
    call.
    """
    if isinstance(module, UnitModule):
        return True
    if next(module.children(), None) is not None or next(module.buffers(), None) is not None:
        return False
    return is_torchs_own(module) or next(module.parameters(), None) is None


def is_torchs_own(module: nn.Module) -> bool:
    """Whether ``module`` is an activation class of torch, which calls one function of the table."""
    return type(module).__module__ == TORCHS_OWN


def same_activation(op: str, function: str) -> bool:
    """Whether the operator ``op`` of a graph can come from a call of ``function``."""
    return op in (function, COMPOSITE) or (op, function) in SAME
