"""Select sites by name, class, role, depth or a function."""

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import TypeAlias

from torch import nn

from gatewise.checks import check_choice, is_sequence, selects
from gatewise.errors import ArgumentError
from gatewise.graph import ROLES, Site

Where: TypeAlias = "str | re.Pattern[str] | type | Callable[[Site], bool] | Sequence[Where] | None"
ALLOWED = (
    "a glob, 're:PATTERN', 'class:NAME', 'role:NAME', 'depth:FROM-TO', a compiled pattern, "
    "a class, a function"
)


def select(sites: Sequence[Site], where: Where, modules: Mapping[str, nn.Module]) -> list[Site]:
    """The sites that ``where`` matches.

    Raises:
        ArgumentError: none matches; it lists the sites that there are.
    """
    chosen = [site for site in sites if matches(site, where, modules)]
    if not chosen:
        names = ", ".join(site.name for site in sites[:8]) + (", ..." if len(sites) > 8 else "")
        raise ArgumentError(
            "where: no activation site matches",
            got=where,
            allowed=names or "the model has no sites",
            fix=_nearest(sites, where) or "a glob such as 'layer1.*'; gw.find_sites has all names",
        )
    return chosen


def _nearest(sites: Sequence[Site], where: Where) -> str:
    """A question with the site's name that is most similar to a single text."""
    text = where[0] if isinstance(where, list | tuple) and len(where) == 1 else where
    if not isinstance(text, str):
        return ""
    near = get_close_matches(text, [site.name for site in sites], n=1)
    return f"did you mean {near[0]!r}?" if near else ""


def matches(site: Site, where: Where, modules: Mapping[str, nn.Module]) -> bool:
    """Whether ``where`` matches ``site``; a sequence matches if one of its members does."""
    if isinstance(where, str):
        kind, _, value = where.partition(":")
        if kind == "class":
            return site.kind != "functional" and type(modules.get(site.path)).__name__ == value
        if kind == "role":
            return value == "*" or site.role == check_choice("where", "role", value, ROLES)
        if kind == "depth":
            first, last = _depths(value)
            return first <= site.depth <= last
        return selects(where, site.name) or (kind != "re" and selects(where, site.path))
    if isinstance(where, type):
        return site.kind != "functional" and isinstance(modules.get(site.path), where)
    if is_sequence(where):
        return any(matches(site, part, modules) for part in where)
    if callable(where):
        return bool(where(site))
    if where is None or isinstance(where, re.Pattern):
        return selects(where, site.name)
    raise ArgumentError("where: cannot select sites", got=where, allowed=ALLOWED)


def _depths(text: str) -> tuple[float, float]:
    try:
        first, last = (float(part) for part in text.split("-"))
    except ValueError:
        raise ArgumentError(
            "where: is not a range of depths",
            got=text,
            allowed="'depth:FROM-TO', 0 is the first site and 1 the last",
        ) from None
    return first, last
