"""Count what a network costs, and find widths at which two networks cost the same.

Costs are counted before training: parameters, operations and bytes kept for the backward pass. The
time of a whole study is estimated from the first runs.

Note [How widths are matched]. A network whose cost is close enough at its own widths keeps them, so
that its weights start as the baseline's do. Otherwise all widths are scaled by one factor, found by
bisection. If rounding to whole widths leaves the cost too far off, single widths are moved by one
step, the best move first. A step is 2 if odd widths are refused, as when a unit halves the filters.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import nn

from gatewise.errors import ArgumentError
from gatewise.graph import Example, parameter_count, split_example
from gatewise.models import get_model
from gatewise.surgery import cost as count
from gatewise.surgery import match as nearest
from gatewise.surgery import run
from gatewise.train import RunConfig, build_model, clock, example_inputs, outline
from gatewise.words import plural

# Examples run at once. Work that is done once per batch, on weights for example, is divided among
# them.
EXAMPLES = 16
SCALES = (1 / 16, 8.0)  # bounds of the factor on the widths
MOVES = 40
ONE_NUMBER = ("scale", "width")  # options of networks that have one number for all their widths

Widths = tuple[int, ...]


@dataclass(frozen=True)
class Facts:
    """What a network must know about its data."""

    classes: int
    shape: tuple[int, ...]


@dataclass(frozen=True)
class Cost:
    """Trained numbers of a network, and operations and saved bytes for one example.

    The last two are None if they cannot be counted.
    """

    parameters: int
    flops: int | None  # a multiply-add counts 2; each element of an activation counts 1
    saved_bytes: int | None

    def to_dict(self) -> dict[str, int | None]:
        """Return plain values by name."""
        return asdict(self)


@dataclass(frozen=True)
class RunCounts:
    """How many runs a study has."""

    tuning: int  # if no grid is widened
    final: int
    confirmation: int  # at most

    @property
    def words(self) -> str:
        """The counts in words."""
        if not self.tuning:
            return plural(self.final, "run")
        return (
            f"{self.tuning} runs to choose learning rates, {self.final} final runs, "
            f"and at most {self.confirmation} to confirm differences"
        )

    def to_dict(self) -> dict[str, int]:
        """Return plain values by name."""
        return asdict(self)


@dataclass(frozen=True)
class TimeEstimate:
    """How long a study takes, in seconds, from the first run of each unit.

    ``left`` and ``confirmation`` (at most, if differences need to be confirmed) are for this study.
    The others are what it would take from the beginning without tuning, and with fewer seeds.
    """

    left: float
    confirmation: float
    untuned: float
    fewer_seeds: int
    with_fewer_seeds: float

    def words(self, *, untuned: str, seeds: str, state: str = "left") -> str:
        """Return how long the study takes, and what shorter ones would take.

        Args:
            untuned: how to ask for a study without tuning.
            seeds: how to ask for a number of seeds; the number follows.
            state: what the time is: left, or needed.
        """
        parts = [f"about {clock(self.left)} {state}"]
        shorter = f"{clock(self.with_fewer_seeds)} with {seeds}{self.fewer_seeds}"
        if self.confirmation:
            parts.append(f"and at most {clock(self.confirmation)} to confirm differences")
            shorter = f"{clock(self.untuned)} with {untuned}, {shorter}"
        return f"{' '.join(parts)}. From the start it would take {shorter}"

    def to_dict(self) -> dict[str, float]:
        """Return plain values by name, seconds rounded."""
        return {name: round(value, 1) for name, value in asdict(self).items()}


class RunTimes:
    """Estimates the time of a study, once every group has a run that ended.

    Args:
        runs: tuning, final and confirmation runs of every group.
        seeds: of every group.
        workers: runs at once.
        tuning_shares: epochs of a tuning run over those of a final run, by group.
    """

    def __init__(
        self,
        runs: Mapping[Hashable, RunCounts],
        seeds: int,
        workers: int,
        tuning_shares: Mapping[Hashable, float],
    ) -> None:
        self.runs = runs
        self.seeds = seeds
        self.workers = workers
        self.tuning_shares = tuning_shares
        self.seconds: dict[Hashable, float] = {}  # of a final run
        self.ended: Counter[tuple[Hashable, bool]] = Counter()

    @property
    def complete(self) -> bool:
        """Whether the time of every group is known."""
        return len(self.seconds) == len(self.runs)

    def count(self, group: Hashable, *, tuning: bool) -> None:
        """Take in that a run of a group has ended."""
        self.ended[group, tuning] += 1

    def measured(self, group: Hashable, seconds: float, *, tuning: bool = False) -> None:
        """Take in how long a run took; later ones count more, as the first includes a warm-up."""
        if tuning:
            seconds /= self.tuning_shares[group]
        self.seconds[group] = (self.seconds.get(group, seconds) + seconds) / 2

    def estimate(self) -> TimeEstimate | None:
        """Return the time left and alternatives; None until every group has a time."""
        if not self.complete:
            return None
        fewer = max(1, self.seeds // 2)
        left = confirmation = untuned = with_fewer = 0.0
        for group, runs in self.runs.items():
            seconds = self.seconds[group] / self.workers
            share = self.tuning_shares[group]
            tuning_left = max(0, runs.tuning - self.ended[group, True])
            final_left = max(0, runs.final - self.ended[group, False])
            left += seconds * (share * tuning_left + final_left)
            confirmation += seconds * runs.confirmation
            untuned += seconds * runs.final
            with_fewer += seconds * (share * runs.tuning + runs.final * fewer / self.seeds)
        return TimeEstimate(left, confirmation, untuned, fewer, with_fewer)


def measure(config: RunConfig, facts: Facts) -> Cost:
    """Return the cost of the configuration's network, in float32."""
    network = build_model(config, classes=facts.classes, shape=facts.shape)
    return cost_of(network, example_for(config, facts))


def cost_of(network: nn.Module, example: Example) -> Cost:
    """Return the cost of ``network``, in float32, by running it on an example.

    Args:
        network: changed to evaluation mode.
        example: a tensor (n, ...), a tuple of arguments or a mapping of keyword arguments.
    """
    flops = saved = None
    args, kwargs = split_example(example)
    tensors = [value for value in (*args, *kwargs.values()) if isinstance(value, torch.Tensor)]
    rows = len(tensors[0]) if tensors and tensors[0].dim() else 1
    try:
        saved = run(network, (args, kwargs), training=True).saved // rows
        flops = round(count(network.eval(), "flops", example) / rows)
    except Exception:  # noqa: S110 - whatever a network of the user raises
        pass  # a network that cannot be read as a graph can still be trained
    return Cost(parameter_count(network), flops, saved)


def example_for(config: RunConfig, facts: Facts) -> torch.Tensor:
    """Return random inputs of the shape that the network reads."""
    generator = torch.Generator().manual_seed(0)
    return example_inputs(
        config, EXAMPLES, classes=facts.classes, shape=facts.shape, generator=generator
    )


def budget(config: RunConfig, facts: Facts, by: str) -> int:
    """Return the parameters of the configuration's network, or its operations.

    Args:
        config: the run.
        facts: about its data.
        by: ``"parameters"``, or ``"flops"`` of a pass over :data:`EXAMPLES` examples.
    """
    if by == "parameters":
        return parameter_count(outline(config, classes=facts.classes, shape=facts.shape))
    network = build_model(config, classes=facts.classes, shape=facts.shape)
    return count(network.eval(), by, example_for(config, facts))


def with_matched_widths(
    config: RunConfig,
    facts: Facts,
    target: int,
    *,
    by: str,
    within: float,
) -> RunConfig:
    """Return ``config`` with widths at which its network costs ``target``.

    Args:
        config: the run.
        facts: about its data.
        target: the cost to reach.
        by: ``"parameters"`` or ``"flops"``.
        within: the relative error that is accepted.

    Raises:
        ArgumentError: if no widths come close enough.
    """
    if abs(budget(config, facts, by) / target - 1) <= within:
        return config
    options = get_model(config.model).options
    if "widths" in options:
        widths = config.model_options.get("widths", options["widths"].default)
        matched = _match_widths(config, facts, tuple(widths), target, by, within)
        return _with(config, "widths", list(matched))
    for option in ONE_NUMBER:
        if option in options:
            value = _match_one_number(config, facts, option, target, by, within)
            return _with(config, option, value)
    raise ArgumentError(
        f"match: {config.model} has no option for its width",
        got=f"{budget(config, facts, by):,} {by}",
        allowed=f"{target:,} within {within:.1%}",
        fix='match = "none", or another network',
    )


def _match_widths(
    config: RunConfig,
    facts: Facts,
    widths: Widths,
    target: int,
    by: str,
    within: float,
) -> Widths:
    """Return widths that cost ``target``, or raise; see Note [How widths are matched]."""
    known: dict[Widths, int] = {}

    def cost_at(widths: Widths) -> int:
        """Return the cost at some widths, counted once."""
        if widths not in known:
            known[widths] = budget(_with(config, "widths", list(widths)), facts, by)
        return known[widths]

    def error(widths: Widths) -> float:
        """Return the relative distance from the target."""
        return abs(cost_at(widths) / target - 1)

    step = _step(widths, cost_at)
    best = _move_widths(_scale_widths(widths, step, target, cost_at), step, error, within)
    if error(best) > within:
        raise ArgumentError(
            f"match: no widths of {config.model} come within {within:.1%}",
            got=f"{cost_at(best):,} {by} at widths {list(best)}",
            allowed=f"{target:,}",
            fix="a larger match_within",
        )
    return best


def _step(widths: Widths, cost_at: Callable[[Widths], int]) -> int:
    """Return 1, or 2 if the network refuses odd widths."""
    try:
        cost_at(tuple(width | 1 for width in widths))
    except ArgumentError:
        return 2
    return 1


def _scale_widths(
    widths: Widths,
    step: int,
    target: int,
    cost_at: Callable[[Widths], int],
) -> Widths:
    """Scale all widths by the factor whose cost is closest to the target.

    Bisection works because costs do not fall as the factor grows.
    """
    low, high = SCALES
    candidates = {scaled(widths, low, step), scaled(widths, high, step)}
    while high - low > 1e-3 * low:
        middle = (low + high) / 2
        candidate = scaled(widths, middle, step)
        candidates.add(candidate)
        if cost_at(candidate) <= target:
            low = middle
        else:
            high = middle
    return min(candidates, key=lambda widths: abs(cost_at(widths) - target))


def _move_widths(
    widths: Widths,
    step: int,
    error: Callable[[Widths], float],
    within: float,
) -> Widths:
    """Change single widths by one step, the best change first, until the cost is close enough."""
    for _ in range(MOVES):
        if error(widths) <= within:
            break
        candidates = []
        for place, width in enumerate(widths):
            for change in (-step, step):
                if width + change >= step:
                    candidates.append((*widths[:place], width + change, *widths[place + 1 :]))
        best = min(candidates, key=error)
        if error(best) >= error(widths):
            break
        widths = best
    return widths


def scaled(widths: Sequence[int], scale: float, step: int) -> Widths:
    """Return every width times ``scale``, as a positive multiple of ``step``."""
    return tuple(max(1, round(width * scale / step)) * step for width in widths)


def _match_one_number(
    config: RunConfig,
    facts: Facts,
    option: str,
    target: int,
    by: str,
    within: float,
) -> float:
    """Return the value of a network's single width option."""
    default = get_model(config.model).options[option].default
    start = config.model_options.get(option, default)
    if isinstance(start, int):
        between = (max(1, start // 8), start * 8)
    else:
        between = (start * SCALES[0], start * SCALES[1])

    def build(**values: Any) -> nn.Module:
        """Build the network with a value of the option."""
        changed = _with(config, option, values[option])
        return build_model(changed, classes=facts.classes, shape=facts.shape)

    example = example_for(config, facts)
    match = nearest(build, target, example, by=by, option=option, between=between, tolerance=within)
    return match.value


def _with(config: RunConfig, option: str, value: Any) -> RunConfig:
    """Return the configuration with one option changed."""
    return config.model_copy(update={"model_options": {**config.model_options, option: value}})
