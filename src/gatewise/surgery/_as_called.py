"""The numbers that an activation is called with, as options of the unit of its name."""

from collections.abc import Mapping
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.sites._node import Node
from gatewise.sites._reading import SiteGraph
from gatewise.sites._site import Site
from gatewise.surgery._reasons import Reason, Refusal
from gatewise.units import create

OPTIONS = {  # torch's names, and ours
    "leaky_relu": {"negative_slope": "slope"},
    "elu": {"alpha": "alpha"},
    "softplus": {"beta": "beta"},
}
FIXED: dict[str, dict[str, Any]] = {  # what a unit has no option for
    "elu": {"scale": 1, "input_scale": 1},
    "gelu": {"approximate": "none"},
    "softplus": {"threshold": 20},
}


def options_as_called(graph: SiteGraph, site: Site, given: Mapping[str, Any]) -> dict[str, Any]:
    """``given`` with the site's own numbers; a :class:`Refusal`, if the unit does not take them or others are given."""
    made = dict(given)
    for reading in graph.readings.values():
        if site.name in reading.found:
            _take(site.op, reading.found[site.name].output, made)
    if site.op in OPTIONS:
        try:
            create(site.op, **made)
        except ArgumentError as problem:
            if given:
                raise  # not the site's fault
            raise Refusal(Reason.NOT_PRESERVED, str(problem)) from problem
    return made


def check_plain_call(graph: SiteGraph, site: Site) -> None:
    """Refuse a functional call with numbers of its own where a module with torch's defaults would stand in for it."""
    if site.kind != "functional":
        return
    for reading in graph.readings.values():
        if site.name in reading.found:
            node = reading.found[site.name].output
            for each in node.overload._schema.arguments if node.overload is not None else ():
                called = node.arguments.get(each.name, each.default_value)
                if each.has_default_value() and called != each.default_value:
                    raise Refusal(Reason.NOT_PRESERVED, f"{site.op} with {each.name}={called!r}")


def _take(op: str, node: Node, made: dict[str, Any]) -> None:
    for name, value in FIXED.get(op, {}).items():
        if (called := node.arguments.get(name, value)) != value:
            raise Refusal(Reason.NOT_PRESERVED, f"{op} with {name}={called!r}")
    for name, option in OPTIONS.get(op, {}).items():
        called = node.arguments.get(name)
        if called is not None and made.setdefault(option, called) != called:
            raise Refusal(Reason.NOT_PRESERVED, f"{op} with {name}={called!r} by {option}={made[option]!r}")
