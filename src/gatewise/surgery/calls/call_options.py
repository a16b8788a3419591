"""The numbers that an activation is called with, as options of the unit of its name."""

from collections.abc import Iterator, Mapping
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.graph import Site, SiteGraph
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.units import create_unit

OPTIONS = {  # torch's names, and ours
    "leaky_relu": {"negative_slope": "slope"},
    "elu": {"alpha": "alpha"},
    "softplus": {"beta": "beta"},
}


def options_as_called(graph: SiteGraph, site: Site, given: Mapping[str, Any]) -> dict[str, Any]:
    """``given`` with the site's own numbers.

    A :class:`Refusal`, if the unit does not take them or others are given.
    """
    made = dict(given)
    for name, called, default in _numbers(graph, site):
        option = OPTIONS.get(site.op, {}).get(name)
        if option is None and called != default:
            raise Refusal(Reason.NOT_PRESERVED, f"{site.op} with {name}={called!r}")
        if option is not None and made.setdefault(option, called) != called:
            raise Refusal(
                Reason.NOT_PRESERVED,
                f"{site.op} with {name}={called!r} by {option}={made[option]!r}",
            )
    if site.op in OPTIONS:
        try:
            create_unit(site.op, **made)
        except ArgumentError as problem:
            if given:
                raise  # not the site's fault
            raise Refusal(Reason.NOT_PRESERVED, str(problem)) from problem
    return made


def check_plain_call(graph: SiteGraph, site: Site) -> None:
    """Refuse a functional call with numbers of its own where a module with torch's defaults would stand in for it."""
    for name, called, default in _numbers(graph, site) if site.kind == "functional" else ():
        if called != default:
            raise Refusal(Reason.NOT_PRESERVED, f"{site.op} with {name}={called!r}")


def _numbers(graph: SiteGraph, site: Site) -> Iterator[tuple[str, Any, Any]]:
    """What the call, in every mode, may be told besides tensors.

    Torch's name, what it was told, and the default.
    """
    for reading in graph.readings.values():
        if site.name in reading.found:
            node = reading.found[site.name].output
            for each in node.overload._schema.arguments if node.overload is not None else ():
                if each.has_default_value():
                    yield (
                        each.name,
                        node.arguments.get(each.name, each.default_value),
                        each.default_value,
                    )
