"""Scale the widths inside a model, so that the swapped model costs as much as the original.

Note [What is scaled]. The input of a site becomes narrower or wider wherever the rules can follow
the change. Its layers lose their last filters or gain new ones, and the layers that read it lose or
gain the matching columns. Residual streams are scaled if everything that is added to them can be
scaled alike. The model's input and output keep their widths. The new filters of a layer are copies,
and the weights that read them are random.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from gatewise.errors import ArgumentError, unknown_name
from gatewise.graph import GATES, SiteGraph, copied, parameter_count
from gatewise.surgery.installing import execute_plan
from gatewise.surgery.planning import PlanData, find_swap, present_settings
from gatewise.surgery.propagate import (
    BUDGETS,
    Edit,
    Setting,
    Sweep,
    cost,
    follow,
    growth,
    operations,
)
from gatewise.surgery.reasons import Refusal
from gatewise.surgery.rewrite import Transaction, apply_edits

TRIES = 12  # candidates for which a plan is made
GUESSES = 16  # ratios whose cost is estimated before each of these
NARROWEST = 1 / 16  # ratios
WIDEST = 8.0
Edits = dict[tuple[str, int], Edit]
Settings = dict[tuple[str, str], Setting]


class UnmatchedError(ArgumentError):
    """No widths are within the tolerance.

    Attributes:
        nearest: The plan whose cost is closest to the original's. That of :func:`gatewise.plan` can
            be applied.
    """

    nearest: Any


@dataclass
class Scaling:
    """Sites whose inputs are scaled, with their new widths and the edits for that."""

    widths: dict[str, int] = field(default_factory=dict)
    edits: Edits = field(default_factory=dict)
    settings: Settings = field(default_factory=dict)
    sweeps: tuple[Sweep, ...] = ()


def match_plan(
    make: Callable[[nn.Module], PlanData], model: nn.Module, match: str, tolerance: float = 0.01
) -> PlanData:
    """Return a plan with widths at which the swapped model costs as much as the original.

    Args:
        make: Makes the plan of the swap for a model.
        model: The original model.
        match: ``"parameters"`` or ``"flops"``.
        tolerance: The largest relative difference of the cost.

    Raises:
        UnmatchedError: No widths are within the tolerance.
        ArgumentError: The plan preserves the function.
    """
    if match not in BUDGETS:
        raise unknown_name("budget", match, BUDGETS)
    first = _counted(make(model), model, match)
    if first.preserve:
        raise ArgumentError(
            "match: a model of other widths cannot compute the same function",
            got="preserve=True",
            fix="leave out match or preserve",
        )
    if first.graph is None or abs(_error(first, match)) <= tolerance:
        return first
    search = _Search(first, model, match, first.graph, scalable_sites(first.graph), tolerance)
    while (candidate := search.next_candidate()) is not None:
        plan = _scaled_plan(make, model, first, candidate, match)
        if abs(_error(plan, match)) <= tolerance:
            return plan
        search.tried.append((candidate, plan))
    _, nearest = min(search.tried, key=lambda pair: abs(_error(pair[1], match)))
    problem = UnmatchedError(
        f"match: no widths are within {tolerance:.0%} of the original's {match}",
        got=f"closest is {_error(nearest, match):+.1%}, with {len(search.names)} widths to choose",
        fix="build the original at another width: gw.surgery.match(factory, target) finds it",
    )
    problem.nearest = nearest
    raise problem


@dataclass(frozen=True)
class _Candidate:
    """Widths that might fit.

    Attributes:
        ratio: The new widths relative to the old ones.
        scaling: The widths, and the edits for them.
        estimate: The estimated cost of the swapped model.
        refined: Whether some widths are rounded differently than the ratio says.
    """

    ratio: float
    scaling: Scaling
    estimate: int
    refined: bool = False


@dataclass
class _Search:
    """The candidates that were planned so far, and the choice of the next one.

    Making a plan reads the scaled model, which takes as long as everything else together. So
    candidates are chosen by an estimate on the graph of the original, which leaves out parameters
    of the units. Each plan shows the error of its estimate, which corrects estimates close to it.
    """

    first: PlanData
    model: nn.Module
    match: str
    graph: SiteGraph
    names: Sequence[str]
    tolerance: float
    tried: list[tuple[_Candidate, PlanData]] = field(default_factory=list)
    by_ratio: dict[float, _Candidate] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.tried.append((self._at(1.0), self.first))

    def next_candidate(self) -> _Candidate | None:
        """Return the best candidate without a plan, or ``None`` if nothing is left to try."""
        if not self.names or len(self.tried) > TRIES:
            return None
        left = [candidate for candidate in self._near_the_root() if self._is_new(candidate)]
        best = min(left, key=self._distance, default=None)
        if best is None or self._distance(best) > self.tolerance / 2:
            best = self._refined(best or self.tried[-1][0])
        return best if self._is_new(best) else None

    def _near_the_root(self) -> list[_Candidate]:
        """Return candidates at ratios that approach the one that fits."""
        errors = {}
        for candidate, plan in self.tried:
            if not candidate.refined:
                errors[candidate.ratio] = _error(plan, self.match)
        for _ in range(GUESSES):
            ratio = _next_ratio(errors)
            if ratio in errors:
                break
            errors[ratio] = self._expected_error(self._at(ratio))
            if abs(errors[ratio]) <= self.tolerance / 10:
                break
        return [self._at(ratio) for ratio in errors]

    def _refined(self, candidate: _Candidate) -> _Candidate:
        """Return ``candidate`` with single widths a step up or down, if that fits better.

        With few or small widths, one ratio cannot come close to the target.
        """
        best = candidate
        for name, width in candidate.scaling.widths.items():
            for step in (-_step(width), _step(width)):
                widths = best.scaling.widths | {name: max(1, width + step)}
                scaling = _follow_all(self.graph, widths)
                other = self._candidate(candidate.ratio, scaling, refined=True)
                if self._is_new(other) and self._distance(other) < self._distance(best):
                    best = other
        return best

    def _is_new(self, candidate: _Candidate) -> bool:
        widths = candidate.scaling.widths
        return all(widths != other.scaling.widths for other, _ in self.tried)

    def _distance(self, candidate: _Candidate) -> float:
        return abs(self._expected_error(candidate))

    def _expected_error(self, candidate: _Candidate) -> float:
        """Return the expected error: the estimate, corrected by the closest plan."""
        near, plan = min(self.tried, key=lambda pair: abs(pair[0].estimate - candidate.estimate))
        return (1 + _error(plan, self.match)) * candidate.estimate / near.estimate - 1

    def _at(self, ratio: float) -> _Candidate:
        """Return the candidate at ``ratio``, computed once."""
        if ratio not in self.by_ratio:
            self.by_ratio[ratio] = self._candidate(ratio, scaled(self.graph, self.names, ratio))
        return self.by_ratio[ratio]

    def _candidate(self, ratio: float, scaling: Scaling, *, refined: bool = False) -> _Candidate:
        return _Candidate(ratio, scaling, self._estimated_cost(scaling), refined)

    def _estimated_cost(self, scaling: Scaling) -> int:
        """Estimate the cost of the swapped model at other widths.

        The swap is assumed to grow each parameter of the scaled model as it does in the original.
        """
        first = self.first
        factors = growth([*scaling.edits.values(), *first.edits], first.signature)
        if self.match == "flops":
            graph = next(iter(self.graph.readings.values())).graph
            maps = scaling.sweeps[0].maps if scaling.sweeps else {}
            return operations(graph, maps, factors, twice=set(first.layers))
        for path in first.layers:
            factors[f"{path}.weight"] = 2 * factors.get(f"{path}.weight", 1.0)
        return parameter_count(self.model, factors)


def _counted(plan: PlanData, model: nn.Module, match: str) -> PlanData:
    """Return ``plan`` with all operations counted, on the changed model if necessary.

    Planning leaves out the operations of bound units.
    """
    counted = all(find_swap(entry.unit).counts_operations for entry in plan.swapped)
    if match != "flops" or counted:
        return plan
    work = Transaction(copied(model))
    execute_plan(plan, work)
    return replace(plan, operations=(plan.operations[0], cost(work.model, match, plan.examples[0])))


def _error(plan: PlanData, match: str) -> float:
    """Return the relative difference of the cost after the swap."""
    before, after = plan.parameters if match == "parameters" else plan.operations
    return after / before - 1


def _next_ratio(errors: Mapping[float, float]) -> float:
    """Return the next ratio to try, by linear interpolation between too small and too large.

    Until there is one of each, the ratio is halved or doubled.
    """
    small = max((ratio for ratio in errors if errors[ratio] < 0), default=None)
    large = min((ratio for ratio in errors if errors[ratio] > 0), default=None)
    if small is None:
        return max(min(errors) / 2, NARROWEST)
    if large is None:
        return min(max(errors) * 2, WIDEST)
    share = -errors[small] / (errors[large] - errors[small])
    return small + min(max(share, 0.1), 0.9) * (large - small)


def _scaled_plan(
    make: Callable[[nn.Module], PlanData],
    model: nn.Module,
    first: PlanData,
    candidate: _Candidate,
    match: str,
) -> PlanData:
    """Return the plan for ``model`` that scales its widths and then swaps."""
    scaling = candidate.scaling
    edits = tuple(map(_fresh, scaling.edits.values()))
    settings = present_settings(model, scaling.settings.values())
    work = Transaction(copied(model))
    apply_edits(work, edits, settings)
    plan = _counted(make(work.model), work.model, match)
    note = f"{len(scaling.widths)} widths scaled by {candidate.ratio:.3f}"
    if candidate.refined:
        note += ", some of them slightly more or less"
    if any(bool(edit.new.any()) for edit in edits):
        note += "; new filters are copies, and the weights that read them are random"
    return replace(
        plan,
        edits=(*edits, *plan.edits),
        settings=(*settings, *plan.settings),
        parameters=(first.parameters[0], plan.parameters[1]),
        operations=(first.operations[0], plan.operations[1]),
        signature=first.signature,
        notes=(*plan.notes, note),
        graph=None,  # it would be that of the scaled model
        scaled=True,
    )


def _fresh(edit: Edit) -> Edit:
    """Return the edit with random new columns. New rows, norms and biases stay copies."""
    drawn = edit.name.endswith("weight") and bool(edit.new.any()) and edit.fill == "zero"
    return Edit(edit.name, edit.dim, edit.index, edit.new, "fresh") if drawn else edit


def scalable_sites(graph: SiteGraph) -> list[str]:
    """Return sites whose inputs can be scaled together, chosen greedily in graph order.

    Halving is the test.
    """
    halves = {}
    for site in graph:
        if site.op not in GATES and (site.channels or 0) > 1:
            halves[site.name] = (site.channels or 0) // 2
    return list(follow_each(graph, halves).widths)


def scaled(graph: SiteGraph, names: Sequence[str], ratio: float) -> Scaling:
    """Return the edits that scale the inputs of the sites ``names`` by ``ratio``.

    Sites that cannot be scaled are left out.
    """
    widths = {name: _scaled_width(graph[name].channels or 1, ratio) for name in names}
    return _follow_all(graph, widths)


def _follow_all(graph: SiteGraph, widths: Mapping[str, int]) -> Scaling:
    """Scale all sites at once, which almost always works, or else one after the other."""
    try:
        return _follow(graph, widths, ())
    except Refusal:
        return follow_each(graph, widths)


def follow_each(graph: SiteGraph, widths: Mapping[str, int]) -> Scaling:
    """Scale one site after the other. Sites that conflict with earlier ones are left out."""
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
    """Return the step between widths: 2 for an even width, which may have to be halved."""
    return 2 if width % 2 == 0 else 1


def _follow(graph: SiteGraph, widths: Mapping[str, int], before: Sequence[Sweep]) -> Scaling:
    widening = follow(graph, {}, "gates", before, widths=widths)
    return Scaling(dict(widths), widening.edits, widening.settings, widening.sweeps)
