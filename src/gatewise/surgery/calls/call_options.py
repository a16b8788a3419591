"""The numbers that an activation is called with, as options of the unit of the same name."""

from collections.abc import Iterator, Mapping
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.graph import Site, SiteGraph, get_operator
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.units import create_unit


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
