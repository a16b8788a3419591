"""Scale the widths inside a model's blocks, so that a swap costs what the original did.

Note [What is scaled]. The tensor that a site reads is made narrower or wider wherever the rules can
follow that: its layers lose their last filters or gain some, and their readers the columns that go
with them. Streams of residual blocks are scaled where all that is added to them can be scaled
alike. The model's input and output keep their widths. Where a layer grows, its new filters are
copies, and what reads them is drawn anew.
"""

import copy
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import torch
from torch import nn

from gatewise.errors import ArgumentError, unknown_name
from gatewise.graph import GATES, SiteGraph, parameter_count
from gatewise.surgery.applying import execute_plan
from gatewise.surgery.planning import Plan, find_swap, present_settings
from gatewise.surgery.propagate import (
    BACKWARD_RULES,
    BUDGETS,
    FORWARD_RULES,
    ChannelMap,
    Edit,
    Setting,
    Sweep,
    cost,
    growth,
    operations,
)
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.surgery.rewrite import Transaction, apply_edits

TRIES, GUESSES = 12, 16  # widths planned for, and for each of these, widths whose cost is estimated
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


def match_plan(
    make: Callable[[nn.Module], Plan], model: nn.Module, match: str, tolerance: float = 0.01
) -> Plan:
    """The plan of ``make``, for widths at which the swapped model costs as much as ``model``, within ``tolerance``."""
    if match not in BUDGETS:
        raise unknown_name("budget", match, BUDGETS)
    first = _counted(make(model), model, match)
    if first.preserve:
        raise ArgumentError(
            "match: other widths cannot compute the same function", got="preserve=True"
        )
    if first.graph is None or abs(_error(first, match)) <= tolerance:
        return first
    search = _Search(first, model, match, _scalable(first.graph), tolerance)
    while (candidate := search.next_candidate()) is not None:
        plan = _scaled_plan(make, model, first, candidate, match)
        if abs(_error(plan, match)) <= tolerance:
            return plan
        search.tried.append((candidate, plan))
    nearest = min((_error(plan, match) for _, plan in search.tried), key=abs)
    raise ArgumentError(
        f"match: no widths come within {tolerance:.0%} of the original's {match}",
        got=f"nearest is {nearest:+.1%}, with {len(search.names)} widths to choose",
        fix="build the original at another width: gw.match(factory, target) finds it",
    )


@dataclass(frozen=True)
class _Candidate:
    """Widths that might fit, and what the swap is estimated to cost at them."""

    ratio: float
    scaling: Scaling
    estimate: int
    refined: bool = False  # some widths are rounded otherwise than the ratio has it


@dataclass
class _Search:
    """Widths planned for so far, and the next ones to plan for.

    Planning reads the scaled model, which takes as long as all else together. So widths are looked
    for by an estimate on the graph that is there, which leaves out what units add of their own;
    each plan says how far the estimate was off, and those near it are corrected by that.
    """

    first: Plan
    model: nn.Module
    match: str
    names: Sequence[str]
    tolerance: float
    tried: list[tuple[_Candidate, Plan]] = field(default_factory=list)
    by_ratio: dict[float, _Candidate] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tried.append((self._at(1.0), self.first))

    def next_candidate(self) -> _Candidate | None:
        """What should fit best of all that was not planned for; ``None``.

        Nothing is left to try.
        """
        if not self.names or len(self.tried) > TRIES:
            return None
        left = [each for each in self._near_the_root() if self._is_new(each)]
        best = min(left, key=self._distance, default=None)
        if best is None or self._distance(best) > self.tolerance / 2:
            best = self._refined(best or self.tried[-1][0])
        return best if self._is_new(best) else None

    def _near_the_root(self) -> list[_Candidate]:
        """Candidates at ratios that come nearer and nearer to the one that fits."""
        errors = {
            each.ratio: _error(plan, self.match) for each, plan in self.tried if not each.refined
        }
        for _ in range(GUESSES):
            ratio = _next_ratio(errors)
            if ratio in errors:
                break
            errors[ratio] = self._expected_error(self._at(ratio))
            if abs(errors[ratio]) <= self.tolerance / 10:
                break
        return [self._at(ratio) for ratio in errors]

    def _refined(self, candidate: _Candidate) -> _Candidate:
        """``candidate`` with single widths a step up or down, where few widths make the steps of the ratio long."""
        best = candidate
        for name in candidate.scaling.widths:
            for step in (
                -_step(candidate.scaling.widths[name]),
                _step(candidate.scaling.widths[name]),
            ):
                widths = best.scaling.widths | {name: max(1, candidate.scaling.widths[name] + step)}
                each = self._candidate(
                    candidate.ratio, _follow_all(self._graph, widths), refined=True
                )
                if self._is_new(each) and self._distance(each) < self._distance(best):
                    best = each
        return best

    def _is_new(self, candidate: _Candidate) -> bool:
        return all(candidate.scaling.widths != each.scaling.widths for each, _ in self.tried)

    def _distance(self, candidate: _Candidate) -> float:
        return abs(self._expected_error(candidate))

    def _expected_error(self, candidate: _Candidate) -> float:
        """By the estimate, corrected by how far off the nearest one was that was planned for."""
        near, plan = min(self.tried, key=lambda each: abs(each[0].estimate - candidate.estimate))
        return (1 + _error(plan, self.match)) * candidate.estimate / near.estimate - 1

    def _at(self, ratio: float) -> _Candidate:
        if ratio not in self.by_ratio:
            self.by_ratio[ratio] = self._candidate(ratio, scaled(self._graph, self.names, ratio))
        return self.by_ratio[ratio]

    def _candidate(self, ratio: float, scaling: Scaling, *, refined: bool = False) -> _Candidate:
        return _Candidate(
            ratio, scaling, _estimated_cost(self.first, self.model, scaling, self.match), refined
        )

    @property
    def _graph(self) -> SiteGraph:
        assert self.first.graph is not None  # noqa: S101  match_plan has looked
        return self.first.graph


def _estimated_cost(first: Plan, model: nn.Module, scaling: Scaling, match: str) -> int:
    """What the swap would cost if it grew each parameter of the scaled model as it grows those of ``model``."""
    assert first.graph is not None  # noqa: S101  match_plan has looked
    factors = growth([*scaling.edits.values(), *first.edits], first.signature)
    if match == "flops":
        graph = next(iter(first.graph.readings.values())).graph
        return operations(
            graph,
            scaling.sweeps[0].maps if scaling.sweeps else {},
            factors,
            twice=set(first.layers),
        )
    for weight in (f"{path}.weight" for path in first.layers):
        factors[weight] = 2 * factors.get(weight, 1.0)
    return parameter_count(model, factors)


def _counted(plan: Plan, model: nn.Module, match: str) -> Plan:
    """``plan`` with the operations of bound units in it, which planning leaves out.

    Counted on the changed model.
    """
    counted = all(find_swap(entry.unit).counts_operations for entry in plan.swapped)
    if match != "flops" or counted:
        return plan
    work = Transaction(copy.deepcopy(model))
    execute_plan(plan, work)
    return replace(plan, operations=(plan.operations[0], cost(work.model, match, plan.example)))


def _error(plan: Plan, match: str) -> float:
    before, after = plan.parameters if match == "parameters" else plan.operations
    return after / before - 1


def _next_ratio(errors: Mapping[float, float]) -> float:
    """Between the nearest ratios that are too small and too large, on a line.

    A halving or doubling until both are.
    """
    small = max((each for each in errors if errors[each] < 0), default=None)
    large = min((each for each in errors if errors[each] > 0), default=None)
    if small is None:
        return max(min(errors) / 2, NARROWEST)
    if large is None:
        return min(max(errors) * 2, WIDEST)
    share = -errors[small] / (errors[large] - errors[small])
    return small + min(max(share, 0.1), 0.9) * (large - small)


def _scaled_plan(
    make: Callable[[nn.Module], Plan],
    model: nn.Module,
    first: Plan,
    candidate: _Candidate,
    match: str,
) -> Plan:
    """The plan for ``model`` at the widths of ``candidate``, with the scaling in it.

    Made for ``model`` as it is.
    """
    scaling = candidate.scaling
    edits = tuple(_fresh(edit) for edit in scaling.edits.values())
    settings = present_settings(model, scaling.settings.values())
    work = Transaction(copy.deepcopy(model))
    apply_edits(work, edits, settings)
    plan = _counted(make(work.model), work.model, match)
    note = f"{len(scaling.widths)} widths scaled by {candidate.ratio:.3f}"
    note += ", some of them a little more or less" if candidate.refined else ""
    if any(bool(edit.new.any()) for edit in edits):
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
    halves = {site.name: (site.channels or 0) // 2 for site in graph if site.op not in GATES}
    return list(
        _follow_each(graph, {name: width for name, width in halves.items() if width}).widths
    )


def scaled(graph: SiteGraph, names: Sequence[str], ratio: float) -> Scaling:
    """What it takes to scale the inputs of the sites ``names`` by ``ratio``.

    What cannot be done at it is left.
    """
    return _follow_all(
        graph, {name: _scaled_width(graph[name].channels or 1, ratio) for name in names}
    )


def _follow_all(graph: SiteGraph, widths: Mapping[str, int]) -> Scaling:
    """At once, as can be done nearly always; else one after the other."""
    try:
        return _follow(graph, widths, ())
    except Refusal:
        return _follow_each(graph, widths)


def _follow_each(graph: SiteGraph, widths: Mapping[str, int]) -> Scaling:
    """One site after the other; those that do not go with the ones before are left."""
    kept = Scaling()
    for name, width in widths.items():
        try:
            kept = _follow(graph, kept.widths | {name: width}, kept.sweeps)
        except Refusal:
            continue
    return kept


def _scaled_width(width: int, ratio: float) -> int:
    step = _step(width)
    return max(1, round(width * ratio / step)) * step


def _step(width: int) -> int:
    """An even width stays even, so that it can still be halved."""
    return 1 + (width % 2 == 0)


def _follow(graph: SiteGraph, widths: Mapping[str, int], before: Sequence[Sweep]) -> Scaling:
    found = Scaling(widths=dict(widths))
    sweeps = []
    for place, reading in enumerate(graph.readings.values()):
        sweep = Sweep(
            reading,
            {},
            "gates",
            lambda name: graph.aliases.get(name, (name,))[0],
            FORWARD_RULES,
            BACKWARD_RULES,
            True,
        )
        if before:
            sweep.sources.update(before[place].sources)
            sweep.maps.update(before[place].maps)
        for name, width in widths.items():
            if name in reading.found:
                source = reading.found[name].input
                dim, old = sweep.channels(source)
                sweep.trace_back(source, _to_width(old, width, dim))
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
