"""Make a plan: read the model, assign sites to requests, draft each swap, write down the result."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NoReturn

from torch import nn

from gatewise.errors import ArgumentError, RectifiedInputWarning, warn_caller
from gatewise.graph import (
    CHANNEL_NORMS,
    CONVOLUTIONS,
    GATES,
    LAST_NORMS,
    NOT_A_SITE,
    POOLER,
    TRANSPOSED,
    Example,
    Graph,
    Node,
    Site,
    holds_both_branches,
    parameter_count,
)
from gatewise.surgery.calls import CallUnits, UnitsOfLoop, check_call, split_shared
from gatewise.surgery.planning.examples import read_model
from gatewise.surgery.planning.plans import Entry, PlanData, check_changes_something, signature_of
from gatewise.surgery.planning.requests import Request
from gatewise.surgery.planning.selection import select
from gatewise.surgery.planning.swap_interface import (
    Assigned,
    Draft,
    PlanningContext,
    Swap,
    is_hidden,
)
from gatewise.surgery.propagate import ChannelMap, Maps, Setting, growth, operations
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.surgery.rewrite import Transaction
from gatewise.units import registered_units

SHARED_CONFLICT = "another call that shares this unit is not swapped, or is swapped differently"
# Layers whose output shape a plan knows, and its proof checks.
CHECKED_OPS = CONVOLUTIONS | TRANSPOSED | CHANNEL_NORMS | LAST_NORMS | {"linear"}
WHOLE = ("gatewise.units.", "gatewise.surgery.")  # where classes of units are defined
Families = list[tuple[Swap, Assigned]]


def make_plan(
    model: nn.Module,
    requests: Sequence[Request],
    examples: Sequence[Example],
    *,
    strict: bool = False,
) -> PlanData:
    """The plan for ``requests``, which :func:`read_requests` has checked.

    Args:
        model: the model.
        requests: which units at which sites.
        examples: what to run the model on, one or more.
        strict: whether parts of the model that no example reaches are an error.

    Raises:
        ArgumentError: no site matches a request, or nothing would change.
    """
    first = requests[0]
    read = read_model(model, examples)
    if strict and read.unreached.parts:
        raise ArgumentError(
            "plan: no example reaches a part of the model",
            got="; ".join(read.unreached.parts[:4]),
            fix="pass more examples as a list, or leave out strict=True",
        )
    context = PlanningContext(
        model, tuple(examples), read.graph, read.calls, first.preserve, first.policy
    )
    sites = _all_sites(context, requests)
    assigned = _assign(context, requests, sites)
    activations = {site.name for site in context.graph.sites}
    refused: dict[str, Refusal] = {}
    wanted: set[str] = set()
    for request, chosen in assigned:
        for site in chosen:
            if site.part_of:
                wanted.add(site.name)
                refused[site.name] = Refusal(Reason.PART, ", ".join(site.part_of))
                continue
            if site.op in GATES and not (request.gates or request.swap.takes_gates):
                refused[site.name] = Refusal(Reason.GATE)
                continue
            wanted.add(site.name)
            if site.written and not request.swap.takes_written:
                calls = ", ".join(site.written)
                refused[site.name] = Refusal(Reason.SEVERAL, f"{site.op}, written as {calls}")
            elif is_hidden(site):
                refused[site.name] = Refusal(Reason.GATE, "it is in a gate network")
            elif site.name in activations and _has_other_width(site):
                refused[site.name] = Refusal(Reason.OTHER_WIDTH, site.op)
            elif path := _unit_around(site, context.modules):
                refused[site.name] = Refusal(Reason.UNIT, path)
    families = _by_family(assigned)
    draft = draft_sites(context, families, sites, refused)
    for swap, parts in families:
        swap.add_cost(context, parts, draft)
    entries = tuple(entry_of(site, site.name in wanted, draft) for site in sites)
    if count := read.unreached.installed:
        draft.notes.append(f"{count} lines in files of installed packages were not reached")
    draft.notes += _poolers_note(requests, sites, draft)
    plan = check_changes_something(finish(context, entries, draft, requests))
    plan = replace(plan, unreached=read.unreached.parts)
    if draft.rectified:
        warn_caller(plan.notes[-1], RectifiedInputWarning)
    return plan


def _poolers_note(requests: Sequence[Request], sites: Sequence[Site], draft: Draft) -> list[str]:
    """A remark about poolers that stay, since they are not what the blocks of a model call."""
    if any(request.where is not None for request in requests):
        return []
    left = [site.name for site in sites if site.role == POOLER and site.name not in draft.units]
    if not left:
        return []
    return [f"{', '.join(left)}: a pooler, left as it is (where='role:*' takes every role)"]


def _all_sites(context: PlanningContext, requests: Sequence[Request]) -> tuple[Site, ...]:
    """The activation sites, then those that swaps add, each once."""
    sites = {site.name: site for site in context.graph.sites}
    for request in requests:
        for site in request.swap.extra_sites(context):
            sites.setdefault(site.name, site)
    return tuple(sites.values())


def _assign(
    context: PlanningContext, requests: Sequence[Request], sites: Sequence[Site]
) -> list[tuple[Request, list[Site]]]:
    """Each site with the first request that matches it. A request that matches none is an error."""
    activations = {site.name for site in context.graph.sites}
    taken: set[str] = set()
    assigned = []
    for request in requests:
        extra = {site.name for site in request.swap.extra_sites(context)}
        offered = [site for site in sites if site.name in activations | extra]
        if not offered:
            _no_sites(context.graph.notes)
        matching = offered
        if request.where is not None:
            matching = select(offered, request.where, context.modules)
        chosen = [site for site in matching if site.name not in taken]
        if request.where is None:
            others = [site for site in chosen if site.role != POOLER]
            chosen = others or chosen
        taken |= {site.name for site in chosen}
        assigned.append((request, chosen))
    return assigned


def _no_sites(notes: Sequence[str]) -> NoReturn:
    """The error for a model without activation calls; it names those that are written out."""
    written = [note for note in notes if note.startswith(NOT_A_SITE)]
    raise ArgumentError(
        "plan: the model calls no activation function",
        got="; ".join(written[:4]) if written else ...,
        fix="call the activation as a function of torch or as a module, such as F.relu or nn.ReLU",
    )


def _unit_around(site: Site, modules: Mapping[str, nn.Module]) -> str:
    """The path of the unit or layer of ours that ``site`` is a part of; empty if there is none."""
    parts = site.path.split(".")
    if site.kind != "functional":
        parts.pop()
    for length in range(len(parts), 0, -1):
        path = ".".join(parts[:length])
        module = modules.get(path)
        if isinstance(module, CallUnits | UnitsOfLoop):
            break
        whole = (*WHOLE, "gatewise.layers.") if path == site.path else WHOLE
        if type(module).__module__.startswith(whole):
            return path
    return ""


def _has_other_width(site: Site) -> bool:
    """Whether ``site`` is a unit such as CReLU, which the layers around it fit."""
    unit = registered_units().get(site.op)
    return unit is not None and unit.channel_ratio != 1 and not holds_both_branches(site.op)


def _by_family(assigned: Assigned) -> Families:
    """The requests of each class of swaps, in the order in which these are drafted."""
    groups: dict[type[Swap], tuple[Swap, list[tuple[Request, Sequence[Site]]]]] = {}
    for request, sites in assigned:
        swap = request.swap
        groups.setdefault(type(swap), (swap, []))[1].append((request, sites))
    return sorted(groups.values(), key=lambda group: group[0].order)


def draft_sites(
    context: PlanningContext,
    families: Families,
    sites: Sequence[Site],
    refused: Mapping[str, Refusal],
) -> Draft:
    """The draft of all swaps.

    Calls that share a unit must all change alike. If some cannot, their sites are refused and the
    rest is drafted again, since edits of the others may depend on them.
    """
    barred = dict(refused)
    while True:
        draft = Draft()
        for swap, assigned in families:
            parts = []
            for request, chosen in assigned:
                parts.append((request, [site for site in chosen if site.name not in barred]))
            swap.draft(context, parts, draft)
        signatures = {name: draft.signature(name) for name in draft.units}
        any_width = {site.name for site in sites if draft.works_on_any_width(site)}
        torn = split_shared(sites, draft.calls, set(draft.units), signatures, any_width)
        if not torn:
            draft.refused |= barred
            return draft
        barred |= {name: Refusal(Reason.SHARED_CALL, SHARED_CONFLICT) for name in torn}


def finish(
    context: PlanningContext,
    entries: tuple[Entry, ...],
    draft: Draft,
    requests: Sequence[Request],
) -> PlanData:
    """The plan that a finished draft comes to."""
    model = context.model
    shapes = signature_of(model)
    factors = growth(draft.edits.values(), shapes)
    graph = context.first_graph
    added = draft.parameters
    added += sum(model.get_parameter(f"{path}.weight").numel() for path in draft.layers)
    cost = operations(graph, draft.maps, factors, twice=set(draft.layers))
    notes = [*context.graph.notes, *draft.notes]
    if draft.rectified:
        notes.append(
            f"the input of {', '.join(draft.rectified)} is never negative: the weights for "
            "negative inputs would stay unused"
        )
    widths = {str(request.width) for request in requests}
    return PlanData(
        unit=", ".join(dict.fromkeys(request.unit for request in requests)),
        width=widths.pop() if len(widths) == 1 else "mixed",
        preserve=context.preserve is True
        or (context.preserve is None and bool(draft.units) and draft.kept.issuperset(draft.units)),
        policy=context.policy,
        entries=entries,
        edits=tuple(draft.edits.values()),
        settings=present_settings(model, draft.settings.values()),
        layers=draft.layers,
        replaced=draft.replaced,
        put_back=draft.put_back,
        parameters=(parameter_count(model), parameter_count(model, factors) + added),
        operations=(operations(graph), cost + draft.operations),
        signature=shapes,
        notes=tuple(notes),
        earlier=Transaction(model).level,
        examples=context.examples,
        graph=context.graph,
        sizes=_expected_sizes(graph, draft.maps),
    )


def _expected_sizes(graph: Graph, maps: Mapping[Node, Maps]) -> dict[str, tuple[int, ...]]:
    """The output shape that a plan expects of layer modules, by path.

    Only a module that runs one operator, and runs once, is listed: the output of any other module
    need not be the output of the operator. Some norms, for example, contain an activation.
    """
    operators = Counter(path for node in graph for path, _ in node.scopes)
    sizes: dict[str, tuple[int, ...]] = {}
    for node in graph:
        path = node.scope[0]
        if not path or operators[path] != 1 or node.op not in CHECKED_OPS or node.shape is None:
            continue
        change = maps.get(node)
        sizes[path] = node.shape
        if isinstance(change, ChannelMap):
            before, after = node.shape[: change.dim], node.shape[change.dim + 1 :]
            sizes[path] = (*before, len(change), *after)
    return sizes


def entry_of(site: Site, wanted: bool, draft: Draft) -> Entry:
    """What the plan says about one site."""
    facts: dict[str, Any] = {}
    for name in ("path", "kind", "op", "role", "order", "channels", "shared"):
        facts[name] = getattr(site, name)
    if site.name in draft.units:
        bindings = draft.bindings.get(site.name, ())
        moved = site.name in draft.moved
        in_place = bindings and not moved  # the binding has the call
        facts |= {
            "change": "swap",
            "unit": draft.units[site.name],
            "options": draft.options[site.name],
            "call": None if in_place else check_call(site, draft.calls),
            "bindings": bindings,
            "moved": moved,
        }
    else:
        facts["change"] = "refuse" if wanted else "leave"
        if refusal := draft.refused.get(site.name):
            facts |= {"reason": refusal.reason.name, "detail": refusal.detail}
    return Entry(
        site=site.name,
        after=draft.after.get(site.name, site.channels),
        producers=site.producers,
        consumers=site.consumers,
        **facts,
    )


def present_settings(model: nn.Module, settings: Iterable[Setting]) -> tuple[Setting, ...]:
    """The settings whose attribute is there with the expected value.

    Raises:
        ArgumentError: a required one is not.
    """
    present = []
    for setting in settings:
        if getattr(model.get_submodule(setting.path), setting.attribute, None) == setting.before:
            present.append(setting)
        elif setting.required:
            raise ArgumentError(
                f"plan: {setting.path} does not keep its {setting.attribute} where it can be "
                "changed",
                fix=f"leave out the sites before {setting.path} with where=",
            )
    return tuple(present)
