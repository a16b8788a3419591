"""Scale the widths inside a model's blocks, so that a swap costs what the original did.

Note [What is scaled]. The tensor that a site reads is made narrower or wider wherever the rules can follow that: its
layers lose their last filters or gain some, and their readers the columns that go with them. Streams of residual blocks
are scaled where all that is added to them can be scaled alike. The model's input and output keep their widths. Where a
layer grows, its new filters are copies, and what reads them is drawn anew.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from gatewise.errors import ArgumentError, unknown_name
from gatewise.sites._ops import GATES
from gatewise.sites._reading import SiteGraph
from gatewise.surgery._binding import BOUND
from gatewise.surgery._edits import Edit, Setting
from gatewise.surgery._maps import ChannelMap
from gatewise.surgery._match import BUDGETS, cost
from gatewise.surgery._plan import Plan
from gatewise.surgery._reasons import Reason, Refusal
from gatewise.surgery._rules import MAKERS, RULES
from gatewise.surgery._sweep import Sweep
from gatewise.surgery._transaction import Transaction

TRIES = 12
NARROWEST, WIDEST = 1 / 16, 8.0
Edits = dict[tuple[str, int], Edit]
Settings = dict[tuple[str, str], Setting]


@dataclass
class Scaling:
    """Sites whose inputs are scaled, with their new widths, and what that takes."""

    widths: dict[str, int] = field(default_factory=dict)
    edits: Edits = field(default_factory=dict)
    settings: Settings = field(default_factory=dict)
    sweeps: tuple[Sweep, ...] = ()


def match_plan(make: Callable[[nn.Module], Plan], model: nn.Module, match: str, tolerance: float = 0.01) -> Plan:
    """The plan of ``make``, for widths at which the swapped model costs as much as ``model``, within ``tolerance``."""
    if match not in BUDGETS:
        raise unknown_name("budget", match, BUDGETS)
    first = _counted(make(model), model, match)
    if first.preserve:
        raise ArgumentError("match: other widths cannot compute the same function", got="preserve=True")
    if first.graph is None or abs(_error(first, match)) <= tolerance:
        return first
    names = _scalable(first.graph)
    tried: dict[float, Plan] = {1.0: first}
    for _ in range(TRIES):
        ratio = _next_ratio({each: _error(plan, match) for each, plan in tried.items()})
        if ratio in tried:
            break
        tried[ratio] = _scaled_plan(make, model, first, names, ratio, match)
        if abs(_error(tried[ratio], match)) <= tolerance:
            return tried[ratio]
    best = min(tried.values(), key=lambda plan: abs(_error(plan, match)))
    raise ArgumentError(
        f"match: no widths come within {tolerance:.0%} of the original's {match}",
        got=f"nearest is {_error(best, match):+.1%}, with {len(names)} widths to choose",
        fix="build the original at another width: gw.match(factory, target) finds it",
    )


def _counted(plan: Plan, model: nn.Module, match: str) -> Plan:
    """``plan`` with the operations of bound units in it, which planning leaves out: counted on the changed model."""
    from gatewise.surgery._swap import carry_out

    if match != "flops" or plan.unit not in BOUND:
        return plan
    work = Transaction(copy.deepcopy(model))
    carry_out(plan, work)
    return replace(plan, operations=(plan.operations[0], cost(work.model, match, plan.example)))


def _error(plan: Plan, match: str) -> float:
    before, after = plan.parameters if match == "parameters" else plan.operations
    return after / before - 1


def _next_ratio(errors: Mapping[float, float]) -> float:
    """Between the nearest ratios that are too small and too large, on a line; a halving or doubling until both are."""
    small = max((each for each in errors if errors[each] < 0), default=None)
    large = min((each for each in errors if errors[each] > 0), default=None)
    if small is None:
        return max(min(errors) / 2, NARROWEST)
    if large is None:
        return min(max(errors) * 2, WIDEST)
    share = -errors[small] / (errors[large] - errors[small])
    return small + min(max(share, 0.1), 0.9) * (large - small)


def _scaled_plan(
    make: Callable[[nn.Module], Plan], model: nn.Module, first: Plan, names: Sequence[str], ratio: float, match: str
) -> Plan:
    """The plan for ``model`` scaled by ``ratio``, with the scaling in it: it is made for ``model`` as it is."""
    from gatewise.surgery._planner import present_settings
    from gatewise.surgery._swap import apply_edits

    assert first.graph is not None  # noqa: S101  match_plan has looked
    scaling = scaled(first.graph, names, ratio)
    edits = tuple(_fresh(edit) for edit in scaling.edits.values())
    settings = present_settings(model, scaling.settings.values())
    work = Transaction(copy.deepcopy(model))
    apply_edits(work, edits, settings)
    plan = _counted(make(work.model), work.model, match)
    note = f"{len(scaling.widths)} widths scaled by {ratio:.3f}"
    if ratio > 1:
        note += "; new filters are copies, and the weights that read them are drawn anew"
    return replace(
        plan,
        edits=(*edits, *plan.edits),
        settings=(*settings, *plan.settings),
        parameters=(first.parameters[0], plan.parameters[1]),
        operations=(first.operations[0], plan.operations[1]),
        signature=first.signature,
        notes=(*plan.notes, note),
        graph=None,  # it is the scaled model's, which nobody has
    )


def _fresh(edit: Edit) -> Edit:
    """New entries of weights are drawn anew; those of norms and biases are copies."""
    drawn = edit.name.endswith("weight") and bool(edit.new.any()) and edit.fill == "zero"
    return Edit(edit.name, edit.dim, edit.index, edit.new, "fresh") if drawn else edit


def _scalable(graph: SiteGraph) -> list[str]:
    """Sites whose inputs can be scaled together, found greedily in the order of the graph."""
    kept = Scaling()
    for site in graph.sites:
        if site.op in GATES or not site.channels or site.channels < 2:
            continue
        try:
            kept = _follow(graph, kept.widths | {site.name: site.channels // 2}, kept.sweeps)
        except Refusal:
            continue
    return list(kept.widths)


def scaled(graph: SiteGraph, names: Sequence[str], ratio: float) -> Scaling:
    """What it takes to scale the inputs of the sites ``names`` by ``ratio``; what cannot be done at it is left."""
    kept = Scaling()
    for name in names:
        width = _scaled_width(graph[name].channels or 1, ratio)
        try:
            kept = _follow(graph, kept.widths | {name: width}, kept.sweeps)
        except Refusal:
            continue
    return kept


def _scaled_width(width: int, ratio: float) -> int:
    """An even width stays even, so that it can still be halved."""
    step = 1 + (width % 2 == 0)
    return max(1, round(width * ratio / step)) * step


def _follow(graph: SiteGraph, widths: Mapping[str, int], before: Sequence[Sweep]) -> Scaling:
    found = Scaling(widths=dict(widths))
    sweeps = []
    for place, reading in enumerate(graph.readings.values()):
        sweep = Sweep(reading, {}, "gates", lambda name: graph.aliases.get(name, (name,))[0], RULES, MAKERS, True)
        if before:
            sweep.sources.update(before[place].sources)
            sweep.maps.update(before[place].maps)
        for name, width in widths.items():
            if name in reading.found:
                source = reading.found[name].input
                dim, old = sweep.channels(source)
                sweep.make(source, _to_width(old, width, dim))
        sweeps.append(sweep.run())
        for key, edit in sweep.edits().items():
            if not found.edits.setdefault(key, edit).same_as(edit):
                raise Refusal(Reason.SHARED, edit.name)
        found.settings.update(sweep.settings)
    found.sweeps = tuple(sweeps)
    return found


def _to_width(old: int, width: int, dim: int) -> ChannelMap:
    """The first channels; beyond those there are, copies of the first ones that count as new."""
    index = torch.arange(width)
    return ChannelMap(dim, index % old, index >= old)
