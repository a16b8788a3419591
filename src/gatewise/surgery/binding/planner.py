"""Plan for units that see the layer before them.

IIEU-B, and with it a Coupler for each addition (IIEU-DC).

Note [Placement]. After a residual addition no one layer makes what the activation reads.
``placement="after"`` leaves such a site as it is, with that reason. ``"before"`` is how the IIEU
networks have it: the activation after the addition becomes the identity, and each branch that ends
in a layer gets a unit of its own at its end.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from gatewise.errors import unknown_name
from gatewise.graph import (
    GATES,
    Example,
    Node,
    Site,
    SiteGraph,
    find_sites,
    parameter_count,
    split_example,
)
from gatewise.surgery.binding.additions import ADDITION, addition_sites
from gatewise.surgery.binding.bindings import PLACEMENTS, Binding, slot_of
from gatewise.surgery.binding.bound_units import bound_unit, check_options, unit_options
from gatewise.surgery.binding.branches import Branch, branch_of, branches_before, is_sum
from gatewise.surgery.binding.record import Recorded, record_bound
from gatewise.surgery.calls.matching import check_call
from gatewise.surgery.planning.planner import Draft, Request, entry_of, finish
from gatewise.surgery.planning.plans import Entry, Plan, check_changes_something
from gatewise.surgery.planning.selection import Where, select
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.surgery.rewrite.transaction import check_not_swapped

NOT_COUNTED = "a unit counts as one operation per element; patch lengths and means, a few per cent, are left out"


@dataclass
class BoundDraft(Draft):
    """A draft with the branches and bindings of each site."""

    branches: dict[str, list[Branch]] = field(default_factory=dict)
    bindings: dict[str, tuple[Binding, ...]] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)

    def refuse(self, site: str, refusal: Refusal) -> None:
        """Leave ``site`` as it is."""
        self.refused[site] = refusal
        self.options.pop(site, None)
        self.bindings.pop(site, None)
        self.moved.discard(site)


def make_bound_plan(
    model: nn.Module,
    unit: str,
    example: Example,
    *,
    where: Where = None,
    preserve: bool = False,
    gates: bool = False,
    placement: str | None = None,
    options: Mapping[str, Any] | None = None,
) -> Plan:
    """See :func:`gatewise.plan`."""
    placement = placement or ("before" if unit == "iieu_dc" else "after")
    if placement not in PLACEMENTS:
        raise unknown_name("placement", placement, PLACEMENTS)
    check_options(unit, options or {})
    check_not_swapped(model)
    graph = find_sites(model, example)
    sites = (*graph.sites, *(addition_sites(graph) if unit == "iieu_dc" else ()))
    chosen = select(sites, where, dict(model.named_modules()))
    wanted = [site for site in chosen if gates or site.op not in GATES]
    draft = BoundDraft(
        refused={site.name: Refusal(Reason.GATE) for site in chosen if site not in wanted}
    )
    if preserve:
        draft.refused |= {
            site.name: Refusal(Reason.NOT_PRESERVED, f"{site.op} by {unit}") for site in wanted
        }
    _find_branches(draft, graph, wanted, dict(model.named_modules()), placement)
    recorded = record_bound(
        model, graph, *split_example(example), also=_modules_to_record(draft, graph)
    )
    _bind(draft, wanted, recorded)
    _choose_options(draft, wanted, unit, options or {})
    _keep_shared_together(draft, sites, recorded)
    return _finished(
        model,
        graph,
        sites,
        wanted,
        draft,
        recorded,
        Request(unit, None, "same", preserve, "gates", {}),
        example,
    )


def _find_branches(
    draft: BoundDraft,
    graph: SiteGraph,
    sites: Iterable[Site],
    modules: Mapping[str, nn.Module],
    placement: str,
) -> None:
    for site in sites:
        if site.kind == ADDITION or site.name in draft.refused:
            continue
        found = graph.readings[site.modes[0]].found[site.name]
        try:
            if placement == "before" and is_sum(found.input):
                draft.branches[site.name] = branches_before(found, modules)
                draft.moved.add(site.name)
            else:
                draft.branches[site.name] = [branch_of(found.input, modules)]
        except Refusal as refusal:
            draft.refused[site.name] = refusal


def _modules_to_record(draft: BoundDraft, graph: SiteGraph) -> set[str]:
    """The layers, what ends their branches, and norms that hide an activation."""
    nodes: list[Node] = [
        node for made in draft.branches.values() for each in made for node in (each.layer, each.end)
    ]
    hiding = {site.path.rpartition(".")[0] for site in graph.sites if site.kind == "hidden-in-norm"}
    return {node.scope[0] for node in nodes} | hiding - {""}


def _bind(draft: BoundDraft, sites: Iterable[Site], recorded: Recorded) -> None:
    for site in sites:
        if site.name in draft.refused:
            continue
        try:
            check_call(site, recorded.sites)
            if site.kind == ADDITION:
                continue
            bind = recorded.bind_end if site.name in draft.moved else recorded.bind
            draft.bindings[site.name] = tuple(
                bind(site.name, branch) for branch in draft.branches[site.name]
            )
        except Refusal as refusal:
            draft.refuse(site.name, refusal)


def _choose_options(
    draft: BoundDraft, sites: Iterable[Site], unit: str, options: Mapping[str, Any]
) -> None:
    for site in sites:
        if site.name in draft.refused:
            continue
        try:
            linear = site.kind != ADDITION and draft.branches[site.name][0].layer.op == "linear"
            draft.options[site.name] = unit_options(site, unit, options, linear=linear)
            draft.after[site.name] = site.channels
        except Refusal as refusal:
            draft.refuse(site.name, refusal)


def _keep_shared_together(draft: BoundDraft, sites: Sequence[Site], recorded: Recorded) -> None:
    """Calls that one unit serves are changed alike, or none of them is."""
    slots: dict[Any, list[Site]] = {}
    for site in sites:
        if site.name in recorded.sites:
            slots.setdefault(slot_of(recorded.sites[site.name]), []).append(site)
    for group in slots.values():
        layers = {tuple(each.layer for each in draft.bindings.get(site.name, ())) for site in group}
        kept = {(site.name in draft.options, site.channels) for site in group}
        if len(layers) > 1 or len(kept) > 1:
            for site in group:
                if site.name in draft.options:
                    draft.refuse(
                        site.name,
                        Refusal(Reason.SHARED, "a call that shares its unit is changed otherwise"),
                    )


def _finished(
    model: nn.Module,
    graph: SiteGraph,
    sites: Sequence[Site],
    wanted: Sequence[Site],
    draft: BoundDraft,
    recorded: Recorded,
    request: Request,
    example: Example,
) -> Plan:
    entries = tuple(_entry(site, site in wanted, draft, recorded) for site in sites)
    plan = check_changes_something(finish(model, graph, entries, draft, request, example))
    added = sum(map(parameter_count, _units(plan)))
    gone = sum(
        _size(model, entry) for entry in plan.swapped if entry.kind not in (ADDITION, "functional")
    )
    parameters = (plan.parameters[0], plan.parameters[1] + added - gone)
    return replace(plan, parameters=parameters, notes=(*plan.notes, NOT_COUNTED))


def _entry(site: Site, wanted: bool, draft: BoundDraft, recorded: Recorded) -> Entry:
    entry = entry_of(site, wanted, draft, draft.refused.get(site.name), recorded.sites)
    bindings = tuple(each.to_dict() for each in draft.bindings.get(site.name, ()))
    moved = site.name in draft.moved
    call = None if bindings and not moved else entry.call  # a bound unit's call is in its binding
    return replace(entry, bindings=bindings, moved=moved, call=call)


def _units(plan: Plan) -> Iterable[nn.Module]:
    """Each unit that the plan asks for, once, without values."""
    seen: set[Any] = set()
    for entry in plan.swapped:
        calls = [Binding.from_dict(each).slot for each in entry.bindings] or [str(entry.call)]
        for slot in calls:
            if slot not in seen:
                seen.add(slot)
                yield bound_unit(entry, device="meta")


def _size(model: nn.Module, entry: Entry) -> int:
    return parameter_count(model.get_submodule(entry.path))
