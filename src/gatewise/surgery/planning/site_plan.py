"""Plans of swaps that change units and nothing else: no width, no weight."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from gatewise.graph import (
    GATES,
    Example,
    Site,
    SiteGraph,
    find_sites,
    parameter_count,
    split_example,
)
from gatewise.surgery.calls.call_site import CallSite
from gatewise.surgery.calls.matching import check_call, record_sites, split_shared
from gatewise.surgery.planning.plans import Entry, Plan, check_changes_something, signature_of
from gatewise.surgery.planning.selection import Where, select
from gatewise.surgery.propagate.growth import operations
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.surgery.rewrite.transaction import check_not_swapped

Choose = Callable[[Site, SiteGraph], dict[str, Any]]  # the unit's options for a site, or a Refusal


@dataclass
class _Choice:
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    refused: dict[str, Refusal] = field(default_factory=dict)


def plan_units(
    model: nn.Module,
    unit: str,
    example: Example,
    choose: Choose,
    *,
    where: Where = None,
    gates: bool = False,
    preserve: bool = False,
    further: Callable[[nn.Module, SiteGraph], Iterable[Site]] = lambda model, graph: (),
    added: Callable[[Mapping[str, dict[str, Any]]], int] = lambda options: 0,
    notes: Callable[[Mapping[str, dict[str, Any]]], Sequence[str]] = lambda options: (),
) -> Plan:
    """A plan that puts ``unit`` at every site that ``choose`` has options for.

    ``further`` are sites besides activations, ``added`` counts the parameters that units bring,
    ``notes`` are for the receipt; both are given the options of the sites that change.
    """
    check_not_swapped(model)
    graph = find_sites(model, example)
    sites = (*graph.sites, *further(model, graph))
    chosen = select(sites, where, dict(model.named_modules()))
    calls = record_sites(model, graph, *split_example(example))
    choice = _choose_all(
        graph, [site for site in chosen if gates or site.op not in GATES], calls, choose
    )
    choice.refused |= {
        site.name: Refusal(Reason.GATE) for site in chosen if site.op in GATES and not gates
    }
    first = next(iter(graph.readings.values())).graph
    before, cost = parameter_count(model), operations(first)
    plan = Plan(
        unit=unit,
        width="same",
        preserve=preserve,
        policy="consumers",
        entries=tuple(_entry(site, site in chosen, choice, calls) for site in sites),
        edits=(),
        settings=(),
        layers={},
        parameters=(before, before + added(choice.options)),
        operations=(cost, cost),
        signature=signature_of(model),
        notes=(*graph.notes, *notes(choice.options)),
        example=example,
        graph=graph,
    )
    return check_changes_something(plan)


def _choose_all(
    graph: SiteGraph, sites: Sequence[Site], calls: Mapping[str, CallSite], choose: Choose
) -> _Choice:
    """Options or a refusal for each; calls that share a unit change all or none."""
    choice = _Choice()
    for site in sites:
        try:
            check_call(site, calls)
            choice.options[site.name] = choose(site, graph)
        except Refusal as refusal:
            choice.refused[site.name] = refusal
    while torn := split_shared(graph.sites, calls, set(choice.options)):
        for name in torn:
            del choice.options[name]
            choice.refused[name] = Refusal(
                Reason.SHARED, "a call that shares its unit stays as it is"
            )
    return choice


def _entry(site: Site, chosen: bool, choice: _Choice, calls: Mapping[str, CallSite]) -> Entry:
    swapped, refusal = site.name in choice.options, choice.refused.get(site.name)
    call = check_call(site, calls) if swapped else None
    told = {
        name: getattr(site, name)
        for name in ("path", "kind", "op", "role", "order", "channels", "shared")
    }
    return Entry(
        site=site.name,
        change="swap" if swapped else "refuse" if chosen else "leave",
        after=site.channels,
        producers=site.producers,
        consumers=site.consumers,
        options=choice.options.get(site.name, {}),
        reason=refusal.reason.name if refusal else "",
        detail=refusal.detail if refusal else "",
        call=call.to_dict() if call else None,
        **told,
    )
