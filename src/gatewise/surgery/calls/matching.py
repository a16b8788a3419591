"""Where functional and reused calls stand in the source.

What the recorder saw, matched with the sites of the graph.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from torch import nn

from gatewise.graph import COMPOSITE, Reading, Site, SiteGraph, untouched
from gatewise.surgery.calls.call_site import CallSite
from gatewise.surgery.calls.record import record_calls
from gatewise.surgery.reasons import Reason, Refusal

REWRITTEN = ("functional", "reused", "addition")
SAME = {
    ("hardtanh", "relu6"),
    ("log_sigmoid", "logsigmoid"),
}  # the graph's name, the function's name


def record_sites(
    model: nn.Module, graph: SiteGraph, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> dict[str, CallSite]:
    """The recorded call of each site, by name.

    Empty for a mode in which recorder and graph disagree.

    Nothing is recorded for a model that has activation modules alone, each called once: they are
    replaced by path.
    """
    found: dict[str, CallSite] = {}
    if all(site.kind not in REWRITTEN for site in graph.sites):
        return found
    for mode, reading in graph.readings.items():
        names = [name for name in reading.found if name not in found]
        if not names:
            continue
        with untouched(model, buffers=True):
            model.train(mode == "train")
            calls = record_calls(model, args, kwargs)
        found = match_calls(reading, calls) | found
    return found


def match_calls(reading: Reading, calls: Sequence[CallSite]) -> dict[str, CallSite]:
    """The recorded call of each site of one graph; none at all where the two disagree."""
    units = {call.module for call in calls if call.module is not None}
    sites = [
        name
        for name, found in reading.found.items()
        if found.kind != "functional" or found.path not in units  # inside a unit: one call
    ]
    sites.sort(key=lambda name: reading.found[name].order)
    if len(calls) != len(sites):  # units that are no sites, such as maxout
        paths = {reading.found[name].path for name in sites}
        calls = [call for call in calls if call.module is None or call.module in paths]
    ops = [reading.found[name].op for name in sites]
    if len(calls) != len(sites) or not all(
        _agree(op, call) for op, call in zip(ops, calls, strict=True)
    ):
        return {}
    return dict(zip(sites, calls, strict=True))


def _agree(op: str, call: CallSite) -> bool:
    return op in (call.op, COMPOSITE) or (op, call.op) in SAME or call.module is not None


def check_call(site: Site, calls: Mapping[str, CallSite]) -> CallSite | None:
    """The call to rewrite for ``site``; ``None`` for a module that is replaced by its path.

    Or a Refusal.
    """
    call = calls.get(site.name)
    if call is not None and call.refused == "aliased":
        raise Refusal(Reason.SOURCE, call.reason or "")
    if site.kind not in REWRITTEN:
        return None
    if call is None:
        raise Refusal(Reason.SOURCE, "what ran and what was read do not agree on the calls")
    if call.refused:
        raise Refusal(Reason.SOURCE, call.reason or "")
    return call


def split_shared(
    sites: Sequence[Site],
    calls: Mapping[str, CallSite],
    kept: set[str],
    layouts: Mapping[str, str] | None = None,
) -> set[str]:
    """Sites that must not change.

    A call that shares their unit does not, or has other channels or another layout.
    """
    layouts = layouts or {}
    slots: dict[Any, list[Site]] = {}
    for site in sites:
        if site.kind not in REWRITTEN:
            slots.setdefault(site.path, []).append(
                site
            )  # one module, called in several calls of what is around it
        elif site.name in calls:
            slots.setdefault(calls[site.name].slot, []).append(site)
    torn: set[str] = set()
    for group in slots.values():
        facts = {
            (site.name in kept, site.channels, site.dim, layouts.get(site.name)) for site in group
        }
        if len(facts) > 1:
            torn |= {site.name for site in group if site.name in kept}
    return torn
