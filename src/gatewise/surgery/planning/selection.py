"""Select sites by name, class, role, depth or a function."""

import re
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from fnmatch import fnmatchcase
from typing import TypeAlias

from torch import nn

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
    if where is None:
        return True
    if isinstance(where, str):
        return _matches_text(site, where, modules)
    if isinstance(where, re.Pattern):
        return where.search(site.name) is not None
    if isinstance(where, type):
        return site.kind != "functional" and isinstance(modules.get(site.path), where)
    if callable(where):
        return bool(where(site))
    if isinstance(where, Sequence):
        return any(matches(site, part, modules) for part in where)
    raise ArgumentError("where: cannot select sites", got=where, allowed=ALLOWED)


def _matches_text(site: Site, where: str, modules: Mapping[str, nn.Module]) -> bool:
    kind, colon, value = where.partition(":")
    if colon and kind == "re":
        return re.search(_pattern(value), site.name) is not None
    if colon and kind == "class":
        return site.kind != "functional" and type(modules.get(site.path)).__name__ == value
    if colon and kind == "role":
        if value == "*":
            return True
        if value not in ROLES:
            raise ArgumentError("where: there is no such role", got=value, allowed=", ".join(ROLES))
        return site.role == value
    if colon and kind == "depth":
        first, last = _depths(value)
        return first <= site.depth <= last
    return fnmatchcase(site.name, where) or fnmatchcase(site.path, where)


def _pattern(text: str) -> str:
    try:
        re.compile(text)
    except re.error as problem:
        raise ArgumentError(f"where: is not a regular expression ({problem})", got=text) from None
    return text


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
