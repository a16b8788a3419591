"""IIEU units, which see the layer before them, and couplers in place of additions."""

import inspect
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from gatewise.errors import unknown_name
from gatewise.graph import Node, Reading, Replace, Site, SiteGraph, parameter_count
from gatewise.layers import Coupler
from gatewise.surgery.binding import (
    ADDITION,
    Binding,
    Branch,
    Recorded,
    addition_sites,
    bind_calls,
    branch_of,
    branches_before,
    is_sum,
    record_bound,
)
from gatewise.surgery.calls import check_call
from gatewise.surgery.planning import (
    Assigned,
    Draft,
    Entry,
    PlanningContext,
    Request,
    Swap,
    factory_arguments,
)
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.surgery.rewrite import Transaction, no_fast_path
from gatewise.surgery.swaps.bound_units import bound_replacements, unit_name
from gatewise.units import create_unit, get_unit

PLACEMENTS = ("after", "before")
COUPLER = ("reduction", "variant")  # options of the coupler
FROM_SITE = ("channels", "conv", "dim", "device", "dtype")  # options that the site determines
NOT_COUNTED = (
    "a unit counts as one operation per element; patch lengths and means, a few per cent, are "
    "left out"
)

Branches = dict[str, list[Branch]]


class IIEUSwap(Swap):
    """``iieu_b``, bound to the layer before it; ``iieu_dc`` also puts couplers for additions."""

    names = ("iieu_b", "iieu_dc")
    counts_operations = False

    def check(self, request: Request) -> Request:
        """Check ``placement`` and the names of the options."""
        options = dict(request.options)
        default = "before" if self.name == "iieu_dc" else "after"
        placement = options.pop("placement", None) or default
        if placement not in PLACEMENTS:
            raise unknown_name("placement", placement, PLACEMENTS)
        known = [name for name in get_unit("iieu_b").options if name not in FROM_SITE]
        if self.name == "iieu_dc":
            known += COUPLER
        for name in options:
            if name not in known:
                raise unknown_name("option", name, [*known, "placement"])
        return replace(request, width="same", options={**options, "placement": placement})

    def extra_sites(self, context: PlanningContext) -> Iterable[Site]:
        """Additions, for ``iieu_dc``."""
        if self.name != "iieu_dc":
            return ()
        return context.first("additions", lambda: addition_sites(context.graph))

    def draft(self, context: PlanningContext, assigned: Assigned, draft: Draft) -> None:
        """Find the layer of each site in the graph, and where both are called in the source."""
        branches: Branches = {}
        able: list[tuple[Site, Request]] = []
        for request, sites in assigned:
            for site in sites:
                try:
                    _check_site(context, site, request, draft)
                    if site.kind != ADDITION:
                        branches[site.name] = _branches(context, site, request, draft)
                    able.append((site, request))
                except Refusal as refusal:
                    draft.refuse(site.name, refusal)
        recorded = self._record(context, branches)
        draft.calls.update(recorded.sites)
        for site, request in able:
            try:
                check_call(site, recorded.sites)
                bindings = []
                for branch in branches.get(site.name, ()):
                    moved = site.name in draft.moved
                    bind = recorded.bind_end if moved else recorded.bind
                    bindings.append(bind(site.name, branch))
                options = _unit_options(site, request, branches.get(site.name, ()))
            except Refusal as refusal:
                draft.refuse(site.name, refusal)
                continue
            draft.put(site, request.unit, options)
            draft.bindings[site.name] = tuple(bindings)

    def _record(self, context: PlanningContext, branches: Branches) -> Recorded:
        """The calls of activations, additions, layers, and what ends their branches."""
        nodes: list[Node] = []
        for ends in branches.values():
            for branch in ends:
                nodes += [branch.layer, branch.end]
        hiding = _norms_with_activations(context.graph)
        also = {node.scope[0] for node in nodes} | hiding
        key = f"bound calls of {sorted(also)}"
        return context.first(
            key,
            lambda: record_bound(
                context.model, context.graph, *context.only_arguments(self.name), also=also
            ),
        )

    def add_cost(self, context: PlanningContext, assigned: Assigned, draft: Draft) -> None:
        """Count the parameters of each unit once, less those of the modules they replace."""
        seen: set[Any] = set()
        for _, site in draft.changing(assigned):
            slots: list[Any] = [binding.slot for binding in draft.bindings[site.name]]
            for slot in slots or [draft.calls[site.name].slot]:
                if slot not in seen:
                    seen.add(slot)
                    unit = _bound_unit(site.kind, draft.options[site.name], device="meta")
                    draft.parameters += parameter_count(unit)
            if site.kind not in (ADDITION, "functional"):
                draft.parameters -= parameter_count(context.modules[site.path])
        if seen:
            draft.notes.append(NOT_COUNTED)

    def build(self, entry: Entry, old: nn.Module | None, like: Tensor | None) -> nn.Module:
        """A coupler for an addition; nothing remains at a site whose units are in branches."""
        if entry.moved:
            return nn.Identity()
        return _bound_unit(entry.kind, entry.options, **factory_arguments(like))

    def install(
        self, work: Transaction, entries: Sequence[Entry], like: Tensor | None, prepared: Any
    ) -> None:
        """Install every unit that sees the layer before it."""
        bindings: list[Binding] = []
        units: list[nn.Module] = []
        slots: dict[Any, nn.Module] = {}
        for entry in entries:
            for number, binding in enumerate(entry.bindings):
                if binding.slot not in slots:
                    slots[binding.slot] = _bound_unit(
                        entry.kind, entry.options, **factory_arguments(like)
                    )
                unit = slots[binding.slot]
                work.units[unit_name(entry, number)] = unit
                bindings.append(binding)
                units.append(unit)
                if not entry.moved:
                    no_fast_path(work, binding.call.owner)
        if not bindings:
            return
        bind_calls(
            work,
            [binding.source for binding in bindings],
            [binding.call for binding in bindings],
            units,
            silenced=[binding.silenced for binding in bindings if binding.silenced],
        )

    def replacements(
        self,
        entries: Sequence[Entry],
        reading: Reading,
        model: nn.Module,
        units: Mapping[str, nn.Module],
    ) -> Replace:
        """See :func:`bound_replacements`."""
        return bound_replacements(entries, reading, model, units)


def _check_site(context: PlanningContext, site: Site, request: Request, draft: Draft) -> None:
    if request.preserve:
        raise Refusal(Reason.NOT_PRESERVED, f"{site.op} by {request.unit}")
    if draft.changes_channels(site, context.graph):
        raise Refusal(Reason.DIFFERENT, "another swap changes its channels")


def _branches(context: PlanningContext, site: Site, request: Request, draft: Draft) -> list[Branch]:
    """The layer that makes what ``site`` reads, or those of the branches that are added there."""
    place = context.graph.readings[site.modes[0]].site_nodes[site.name]
    if request.options["placement"] == "before" and is_sum(place.input):
        branches = branches_before(place, context.modules)
        draft.moved.add(site.name)
        return branches
    return [branch_of(place.input, context.modules)]


def _norms_with_activations(graph: SiteGraph) -> set[str]:
    paths = {site.path.rpartition(".")[0] for site in graph.sites if site.kind == "hidden-in-norm"}
    return paths - {""}


def _unit_options(site: Site, request: Request, branches: Sequence[Branch]) -> dict[str, Any]:
    """The options of the unit or coupler at ``site``, or a :class:`Refusal`."""
    options = dict(request.options)
    del options["placement"]
    coupler = {name: options.pop(name) for name in COUPLER if name in options}
    if site.kind != ADDITION:
        linear = branches[0].layer.op == "linear"
        return {"channels": site.channels, "dim": -1 if linear else 1, **options}
    default = inspect.signature(Coupler).parameters["reduction"].default
    reduction = coupler.get("reduction", default)
    if site.dim != 1 or len(site.shape) < 3:
        raise Refusal(Reason.NO_CHANNELS, "a coupler takes feature maps (N, C, *)")
    if isinstance(reduction, int) and (site.channels or 0) < reduction:
        raise Refusal(Reason.NARROW, f"{site.channels} < {reduction}")
    return {"channels": site.channels, **coupler}


def _bound_unit(kind: str, options: Mapping[str, Any], **place: Any) -> nn.Module:
    """The unit for one site; ``place`` is its device and dtype."""
    if kind == ADDITION:
        return Coupler(**options, **place)
    return create_unit("iieu_b", **options, **place)
