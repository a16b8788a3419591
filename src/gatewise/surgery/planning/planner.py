"""Make a plan: read the model, choose sites, follow what each change takes."""

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import nn
from torch.utils.flop_counter import FlopCounterMode

from gatewise.errors import ArgumentError, RectifiedInputWarning, unknown_name
from gatewise.graph import (
    GATES,
    Example,
    Site,
    SiteGraph,
    find_sites,
    is_never_negative,
    parameter_count,
    split_example,
)
from gatewise.surgery.calls.call_options import check_plain_call, options_as_called
from gatewise.surgery.calls.call_site import CallSite
from gatewise.surgery.calls.matching import check_call, record_sites, split_shared
from gatewise.surgery.planning.plans import Entry, Plan, check_changes_something, signature_of
from gatewise.surgery.planning.selection import Where, select
from gatewise.surgery.propagate.edits import Edit, Setting
from gatewise.surgery.propagate.growth import growth, operations
from gatewise.surgery.propagate.sizes import expected_sizes
from gatewise.surgery.propagate.sweep import POLICIES, Maps
from gatewise.surgery.propagate.widen import widen
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.surgery.rewrite.transaction import check_not_swapped
from gatewise.surgery.swaps.paired_units import PAIRED, PLAIN, find_swap
from gatewise.surgery.swaps.put_back import PutBack
from gatewise.surgery.swaps.put_back_planner import Calls, defer_with_readers, find_readers
from gatewise.units import Unit, create_unit

WIDTHS = ("half", "same")


@dataclass
class Draft:
    """What the swap of some sites takes, while it is being worked out."""

    options: dict[str, dict[str, Any]] = field(default_factory=dict)  # of each site that changes
    after: dict[str, int | None] = field(default_factory=dict)
    refused: dict[str, Refusal] = field(default_factory=dict)
    edits: dict[tuple[str, int], Edit] = field(default_factory=dict)
    settings: dict[tuple[str, str], Setting] = field(default_factory=dict)
    layers: dict[str, tuple[float, ...]] = field(default_factory=dict)
    put_back: tuple[PutBack, ...] = ()
    further: int = 0  # operations of what is put back
    maps: Mapping[Any, Maps] = field(default_factory=dict)  # of the first graph's nodes


@dataclass(frozen=True)
class Request:
    """What was asked for."""

    unit: str
    spec: Unit | None  # None: a swap that is more than a unit
    width: str
    preserve: bool
    policy: str
    options: Mapping[str, Any]
    readers: Calls = field(default_factory=dict)  # before which an activation may be put back


def make_plan(
    model: nn.Module,
    unit: str,
    example: Example,
    *,
    where: Where = None,
    width: str | None = None,
    preserve: bool = False,
    policy: str = "gates",
    gates: bool = False,
    options: Mapping[str, Any] | None = None,
) -> Plan:
    """See :func:`gatewise.plan`."""
    width = _check_choices(unit, width, preserve, policy)
    request = Request(unit, find_swap(unit), width, preserve, policy, dict(options or {}))
    _check_put_back(request)
    check_not_swapped(model)
    graph = find_sites(model, example)
    chosen = select(graph.sites, where, dict(model.named_modules()))
    wanted = [site for site in chosen if gates or site.op not in GATES]
    calls = record_sites(model, graph, *split_example(example))
    if request.options.get("put_back") and unit == "psc":
        readers = find_readers(
            model, graph, [site.name for site in wanted], *split_example(example)
        )
        request = replace(request, readers=readers)
    draft = _draft_calls(model, graph, wanted, request, calls)
    refused = {
        site.name: Refusal(Reason.GATE) for site in chosen if site not in wanted
    } | draft.refused
    entries = tuple(
        entry_of(site, site in wanted, draft, refused.get(site.name), calls) for site in graph.sites
    )
    return check_changes_something(finish(model, graph, entries, draft, request, example))


def _draft_calls(
    model: nn.Module,
    graph: SiteGraph,
    sites: Sequence[Site],
    request: Request,
    calls: Mapping[str, CallSite],
) -> Draft:
    """The draft without the sites whose calls cannot be replaced.

    Calls that share a unit change all or none.
    """
    modules, barred = dict(model.named_modules()), {}
    for site in sites:
        try:
            check_call(site, calls)
        except Refusal as refusal:
            barred[site.name] = refusal
    while True:
        draft = _draft(graph, [site for site in sites if site.name not in barred], request, modules)
        layouts = {name: str(options.get("layout")) for name, options in draft.options.items()}
        torn = split_shared(graph.sites, calls, set(draft.options), layouts)
        if not torn:
            draft.refused |= barred
            return draft
        barred |= {
            name: Refusal(Reason.SHARED, "a call that shares its unit stays as it is")
            for name in torn
        }


def _check_choices(unit: str, width: str | None, preserve: bool, policy: str) -> str:
    if policy not in POLICIES:
        raise unknown_name("policy", policy, POLICIES)
    if width is not None and width not in WIDTHS:
        raise unknown_name("width", width, WIDTHS)
    if unit in PAIRED and preserve and width == "half":
        raise ArgumentError(
            "width: half the filters cannot compute the same function",
            got="width='half', preserve=True",
            fix="width='same' keeps the function; merge_pairs finds filters that can be spared",
        )
    return width or ("same" if preserve or unit == "concat_act" else "half")


def _check_put_back(request: Request) -> None:
    options = dict(request.options)
    if request.unit == "psc" and (not isinstance(options.pop("put_back", False), bool) or options):
        got = ", ".join(f"{name}={value!r}" for name, value in request.options.items())
        raise ArgumentError("psc: has one option", got=got, allowed="put_back=True or False")


def _draft(
    graph: SiteGraph, sites: Sequence[Site], request: Request, modules: Mapping[str, nn.Module]
) -> Draft:
    if request.spec is not None:
        return _pointwise(graph, sites, request.spec, request)
    if request.unit == "psc":
        return _phase_selective(graph, sites, request, modules)
    if request.options:
        raise ArgumentError(f"{request.unit}: takes no options", got=", ".join(request.options))
    return _paired(graph, sites, request)


def _pointwise(graph: SiteGraph, sites: Sequence[Site], spec: Unit, request: Request) -> Draft:
    draft = Draft()
    for site in sites:
        try:
            if request.preserve and spec.name != site.op:
                raise Refusal(Reason.NOT_PRESERVED, f"{site.op} by {spec.name}")
            options = (
                options_as_called(graph, site, request.options)
                if request.preserve
                else request.options
            )
            draft.options[site.name] = _unit_options(site, spec, options)
            draft.after[site.name] = site.channels
        except Refusal as refusal:
            draft.refused[site.name] = refusal
    return draft


def _unit_options(site: Site, spec: Unit, options: Mapping[str, Any]) -> dict[str, Any]:
    """``options`` with the site's own channels, for units that have a number for each."""
    made = dict(options)
    if site.channels is None or site.dim is None:
        if spec.needs:
            raise Refusal(Reason.NO_CHANNELS)
        return made
    if "maps" in spec.needs and (len(site.shape) != 4 or site.dim != 1):
        raise Refusal(Reason.NO_CHANNELS, "the unit takes feature maps (N, C, H, W)")
    if "channels" in spec.options:
        made.setdefault("channels", site.channels)
    if "dim" in spec.options:
        made.setdefault("dim", _dim(site))
    return made


def _dim(site: Site) -> int:
    """The channel dimension, from the back where it is the last one.

    Sequences may have more in front.
    """
    last = site.dim == len(site.shape) - 1 and len(site.shape) != 2
    return -1 if last or site.dim is None else site.dim


def _paired(graph: SiteGraph, sites: Sequence[Site], request: Request) -> Draft:
    draft, able = Draft(), []
    for site in sites:
        try:
            _check_able(graph, site, request.unit, request.preserve)
            able.append(site)
        except Refusal as reason:
            draft.refused[site.name] = reason
    tried = ("half",) if request.width == "half" else ("block", "interleaved")
    found = widen(graph, [site.name for site in able], request.policy, tried)
    draft.refused |= found.refused
    draft.edits = (
        found.edits
        if request.preserve
        else {key: _fresh(edit) for key, edit in found.edits.items()}
    )
    draft.settings = found.settings
    draft.maps = found.sweeps[0].maps if found.sweeps else {}
    for site in able:
        if site.name in found.layouts:
            layout = found.layouts[site.name]
            draft.options[site.name] = {
                "dim": _dim(site),
                "layout": "block" if layout == "half" else layout,
            }
            draft.after[site.name] = (site.channels or 0) * (1 if layout == "half" else 2)
    return draft


def _check_able(graph: SiteGraph, site: Site, unit: str, preserve: bool) -> None:
    if unit == "crelu" and preserve and site.op != "relu":
        raise Refusal(Reason.NOT_PRESERVED, f"{site.op}; concat_act does it")
    if unit == "concat_act":
        if site.kind == "functional" and site.op not in PLAIN:
            raise Refusal(Reason.NO_RULE, site.op)
        check_plain_call(graph, site)


def _fresh(edit: Edit) -> Edit:
    return Edit(
        edit.name, edit.dim, edit.index, edit.new, "fresh" if edit.fill == "zero" else edit.fill
    )


def _phase_selective(
    graph: SiteGraph, sites: Sequence[Site], request: Request, modules: Mapping[str, nn.Module]
) -> Draft:
    draft, names = Draft(), [site.name for site in sites]
    kept, taken, draft.put_back = defer_with_readers(
        graph, names, modules, request.readers, draft.refused
    )
    draft.further = taken.elements_put_back(next(iter(graph.readings.values())).graph)
    draft.layers = {path: tuple(slopes.tolist()) for path, slopes in taken.layers.items()}
    for site in sites:
        if site.name in kept:
            draft.options[site.name], draft.after[site.name] = {}, site.channels
    return draft


def finish(
    model: nn.Module,
    graph: SiteGraph,
    entries: tuple[Entry, ...],
    draft: Draft,
    request: Request,
    example: Example,
) -> Plan:
    """The plan that a finished draft comes to."""
    shapes = signature_of(model)
    factors = growth(draft.edits.values(), shapes)
    added = sum(model.get_parameter(f"{path}.weight").numel() for path in draft.layers)
    further = draft.further
    if request.spec is not None and request.spec.learns:
        units = {
            name: create_unit(request.unit, **{**options, "device": "meta"})
            for name, options in draft.options.items()
        }
        added += sum(map(parameter_count, units.values()))
        further += sum(_work(units[site.name], site) for site in graph.sites if site.name in units)
    first = next(iter(graph.readings.values())).graph
    return Plan(
        unit=request.unit,
        width=request.width,
        preserve=request.preserve,
        policy=request.policy,
        entries=entries,
        edits=tuple(draft.edits.values()),
        settings=present_settings(model, draft.settings.values()),
        layers=draft.layers,
        put_back=draft.put_back,
        parameters=(parameter_count(model), parameter_count(model, factors) + added),
        operations=(
            operations(first),
            operations(first, draft.maps, factors, twice=set(draft.layers)) + further,
        ),
        signature=shapes,
        notes=(*graph.notes, *_useless(graph, entries, request)),
        example=example,
        graph=graph,
        sizes=expected_sizes(first, draft.maps),
    )


def _useless(graph: SiteGraph, entries: Sequence[Entry], request: Request) -> list[str]:
    """Sites whose negative phase is always zero, as a note; they are warned of as well."""
    if request.unit not in (*PAIRED, "psc"):
        return []
    swapped = [
        each
        for each in entries
        if each.change == "swap" and (request.unit != "concat_act" or each.op == "relu")
    ]
    found = [entry.site for entry in swapped if _is_rectified(graph, entry.site)]
    if not found:
        return []
    note = f"the input of {', '.join(found)} is never negative: the weights for negative inputs would stay unused"
    warnings.warn(note, RectifiedInputWarning, stacklevel=5)
    return [note]


def _is_rectified(graph: SiteGraph, name: str) -> bool:
    return all(
        is_never_negative(each.found[name].input)
        for each in graph.readings.values()
        if name in each.found
    )


def _work(unit: nn.Module, site: Site) -> int:
    """Operations of the convolutions and products inside a unit, besides the one an element that each unit counts."""
    if not any(isinstance(layer, nn.Conv2d | nn.Linear) for layer in unit.modules()):
        return 0
    with FlopCounterMode(display=False) as count, torch.no_grad():
        unit.eval()(torch.empty(site.shape, device="meta"))
    return count.get_total_flops()


def entry_of(
    site: Site, wanted: bool, draft: Draft, refusal: Refusal | None, calls: Mapping[str, CallSite]
) -> Entry:
    """What the plan says about one site."""
    swapped = site.name in draft.options
    call = check_call(site, calls) if swapped else None
    return Entry(
        site=site.name,
        path=site.path,
        kind=site.kind,
        op=site.op,
        role=site.role,
        order=site.order,
        change="swap" if swapped else "refuse" if wanted else "leave",
        channels=site.channels,
        after=draft.after.get(site.name, site.channels),
        producers=site.producers,
        consumers=site.consumers,
        options=draft.options.get(site.name, {}),
        reason=refusal.reason.name if refusal and not swapped else "",
        detail=refusal.detail if refusal and not swapped else "",
        call=call.to_dict() if call else None,
        shared=site.shared,
    )


def present_settings(model: nn.Module, settings: Any) -> tuple[Setting, ...]:
    """Those whose attribute is there with the value expected.

    A required one that is not cannot be planned.
    """
    made = []
    for setting in settings:
        if getattr(model.get_submodule(setting.path), setting.attribute, None) == setting.before:
            made.append(setting)
        elif setting.required:
            raise ArgumentError(
                f"plan: {setting.path} does not keep its {setting.attribute} where it can be changed",
                fix=f"leave out the sites before {setting.path} with where=",
            )
    return tuple(made)
