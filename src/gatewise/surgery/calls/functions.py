"""The torch functions that are activations, from the operator table, and how they are called."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.errors import ArgumentError
from gatewise.graph import COMPOSITE, OPERATORS, Site, SiteGraph, get_operator
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.units import UnitModule, create_unit

# By the name of the function: the names of the arguments after the input, in torch's order.
PARAMETERS: Mapping[str, tuple[str, ...]] = {
    operator.functions[0]: operator.parameters
    for operator in OPERATORS.values()
    if operator.functions
}


# The name in the graph, and the name of the function, where they differ.
SAME = {
    ("relu6", "hardtanh"),
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


def options_as_called(graph: SiteGraph, site: Site, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the unit's options with the numbers that the site's activation was called with.

    Args:
        graph: The model's graph.
        site: The activation that is replaced by the unit of the same name.
        given: The options that the user passed.

    Raises:
        Refusal: The unit has no option for one of the numbers, does not accept it, or the user
            passed another value.
    """
    options = dict(given)
    unit_options = get_operator(site.op).unit_options
    for name, called, default in _numbers(graph, site):
        option = unit_options.get(name)
        if option is None and called != default:
            raise Refusal(Reason.NOT_PRESERVED, f"{site.op} with {name}={called!r}")
        if option is not None and options.setdefault(option, called) != called:
            detail = f"{site.op} with {name}={called!r} by {option}={options[option]!r}"
            raise Refusal(Reason.NOT_PRESERVED, detail)
    if unit_options:
        try:
            create_unit(site.op, **options)
        except ArgumentError as problem:
            if given:
                raise  # the user's options are wrong, not the site
            raise Refusal(Reason.NOT_PRESERVED, str(problem)) from problem
    return options


def check_plain_call(graph: SiteGraph, site: Site) -> None:
    """Refuse a functional call with arguments other than torch's defaults.

    A module with the default arguments takes the place of such a call.
    """
    if site.kind != "functional":
        return
    for name, called, default in _numbers(graph, site):
        if called != default:
            raise Refusal(Reason.NOT_PRESERVED, f"{site.op} with {name}={called!r}")


def _numbers(graph: SiteGraph, site: Site) -> Iterator[tuple[str, Any, Any]]:
    """Yield name, value and default of every optional argument of the call, in every mode."""
    for reading in graph.readings.values():
        if site.name not in reading.site_nodes:
            continue
        node = reading.site_nodes[site.name].output
        for argument in node.overload._schema.arguments if node.overload is not None else ():
            if argument.has_default_value():
                default = argument.default_value
                yield argument.name, node.arguments.get(argument.name, default), default
