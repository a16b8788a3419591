"""Choose the learning rate of every unit on every backbone, with the same budget for all.

Note [How a rate is chosen]. Within a block (backbone, data set, recipe) all units try the same
rates, half a decade apart, around the recipe's. Each run has a seed that no final run has, holds
out one fold of the training set, and is judged by the reported metric on that fold, to which the
transforms of the test set are applied. The test set is not evaluated. After each round only the
best rates get more seeds. Differences of less than one example are decided by the loss. A run that
diverged or failed is worse than any other. While the best rate of a unit is the smallest or largest
of the grid, one rate beyond it is tried for every unit of the block, at most twice.

Note [Confirmation]. The error of a wrongly chosen rate is shared by all final seeds. So a unit is
called better than the baseline only if it beats the baseline at the baseline's two neighbouring
rates too, and worse only if it is worse at its own two neighbouring rates too. Those runs are made
after the final ones, where a verdict depends on them.

Nothing here reads or writes files: callers run the cells and hand in their records.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from typing import Any

from gatewise.stats import mean, needs_confirmation
from gatewise.studies.older.cells import (
    KEY,
    NEIGHBOUR,
    TRIAL,
    Cell,
    Group,
    Place,
    cells_of,
    rate_of,
    with_rate,
)
from gatewise.studies.older.config import Tune
from gatewise.train import bare_metric

FIRST_SEED = 1000
STEP = math.sqrt(10)  # between neighbouring rates: half a decade
REACH = 2  # rates to either side of the recipe's
WIDENINGS = 2
LARGEST_RATE = 1000.0
ALL = math.inf
# Each round: how many of the best rates go on, and how many more seeds each of them gets.
ROUNDS: dict[str, Sequence[tuple[float, int]]] = {
    "quick": ((ALL, 1), (3, 2), (2, 2)),
    "full": ((ALL, 2), (3, 2), (2, 3)),
}

Record = Mapping[str, Any]
Block = tuple[str, str, str]


@dataclass(frozen=True)
class RateScore:
    """How one group did with one rate."""

    lr: float
    values: dict[int, float | None]  # by tuning seed; None for a run without a result
    losses: tuple[float, ...]

    @property
    def lost(self) -> int:
        """How many runs diverged or failed."""
        return sum(value is None for value in self.values.values())

    @property
    def mean(self) -> float | None:
        """The mean over all runs; None if one of them has no result."""
        if self.lost:
            return None
        return mean([v for v in self.values.values() if v is not None])

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        scores = {str(seed): value for seed, value in self.values.items()}
        return {"lr": self.lr, "runs": len(self.values), "mean": self.mean, "scores": scores}


@dataclass
class _BlockSearch:
    """The groups that are compared with each other, and the rates that they all try."""

    groups: list[Group]
    grid: list[float]
    widened: int = 0
    chosen: dict[Place, float] = field(default_factory=dict)

    @property
    def rates(self) -> list[float]:
        """The grid, and one rate beyond each end: every rate in the grid has two neighbours."""
        rates = [rounded(self.grid[0] / STEP), *self.grid]
        above = rounded(self.grid[-1] * STEP)
        return [*rates, above] if above <= LARGEST_RATE else rates


class RateSearch:
    """Says which runs the choice of learning rates needs; see Note [How a rate is chosen].

    Call :meth:`batch` for cells, run them, hand their records to :meth:`take`, and repeat until a
    batch is empty. The state depends on the records alone, so an interrupted search resumes.

    Args:
        groups: of the study. Those whose recipe has no single learning rate are not tuned.
        tune: the rates and the budget.
        seeds: of the final runs; they are not used here.
        metric: the reported metric. Records of tuning runs hold it as ``held_accuracy`` for
            ``test_accuracy``, and so on.
        higher_is_better: the direction of the metric.
        examples: size of the training set by the label of the data set, if known.
    """

    def __init__(
        self,
        groups: Sequence[Group],
        tune: Tune,
        *,
        seeds: Sequence[int],
        metric: str = "test_accuracy",
        higher_is_better: bool = True,
        examples: Mapping[str, int] | None = None,
    ) -> None:
        self.groups = list(groups)
        self.tune = tune
        self.metric = held_metric(metric)
        self.sign = 1.0 if higher_is_better else -1.0
        self.counted = metric.endswith("accuracy")
        self.examples = examples or {}
        self.rounds = _rounds(tune)
        self.seeds = tuning_seeds(sum(more for _, more in self.rounds), seeds)
        self.records: dict[str, Record] = {}
        self._cells: dict[tuple[Place, float, int], Cell] = {}
        self.blocks: dict[Block, _BlockSearch] = {}
        for group in groups:
            rate = rate_of(group.config)
            if rate is None or tune.mode == "none":
                continue
            block = group.place.block
            if block not in self.blocks:
                self.blocks[block] = _BlockSearch([], sorted(tune.lr or grid_around(rate)))
            self.blocks[block].groups.append(group)

    def runs_of(self, place: Place) -> int:
        """Return how many tuning runs a group takes if its grid is not widened."""
        block = self.blocks.get(place.block)
        if block is None:
            return 0
        return sum(int(min(keep, len(block.grid))) * more for keep, more in self.rounds)

    def tuning_share(self, group: Group) -> float:
        """Return the epochs of a tuning run of a group over those of a final run."""
        recipe = group.config.recipe
        fewer = recipe.epochs - self.tune.epochs if self.tune.epochs else 0
        return (recipe.total_epochs - fewer) / recipe.total_epochs

    def batch(self) -> list[Cell]:
        """Return the cells to run next, a run of each group first; none if all rates are chosen."""
        queues = []
        for block in self.blocks.values():
            queues += self._missing(block)
        rounds = zip_longest(*queues)
        return [cell for cells in rounds for cell in cells if cell is not None]

    def take(self, records: Mapping[str, Record]) -> None:
        """Take in the records of cells, by key."""
        self.records.update(records)

    def tuned_groups(self) -> list[Group]:
        """Return all groups with their chosen rates."""
        tuned = []
        for group in self.groups:
            block = self.blocks.get(group.place.block)
            if block is None:
                tuned.append(group)
            else:
                config = with_rate(group.config, block.chosen[group.place])
                tuned.append(replace(group, config=config))
        return tuned

    def neighbours(self, place: Place) -> list[float]:
        """Return the rates next to the chosen one, in the grid or half a decade beyond it."""
        block = self.blocks[place.block]
        at = block.rates.index(block.chosen[place])
        return block.rates[at - 1 : at] + block.rates[at + 1 : at + 2]

    def confirmations(
        self,
        records: Sequence[Record],
        *,
        baseline: str,
        metric: str,
        margin: float | None = None,
    ) -> list[tuple[Place, float]]:
        """Return the groups and rates to run next; see Note [Confirmation].

        Args:
            records: of all final runs and of those at neighbouring rates so far.
            baseline: label of the unit that the others are compared with.
            metric: the reported metric.
            margin: of equivalence.

        Returns:
            None of them was run before with the same seeds, unless runs failed.
        """
        wanted = []
        for (backbone, data, recipe), block in self.blocks.items():
            if self.tune.mode == "full":
                for group in block.groups:
                    wanted += [(group.place, lr) for lr in self.neighbours(group.place)]
                continue
            known = [one for one in records if _block_of(one) == (backbone, data, recipe)]
            chosen = {place.unit: lr for place, lr in block.chosen.items()}
            results = {}
            for name, by_rate in values_by_rate(known, metric).items():
                if name in chosen and by_rate.get(chosen[name]):
                    results[name] = by_rate
            if baseline not in results or len(results) < 2:
                continue
            needed = needs_confirmation(
                results,
                chosen,
                baseline,
                grid=block.rates,
                higher_is_better=self.sign > 0,
                margin=margin,
                comparisons=len(block.groups) - 1,
                resolution=resolution_of(known, metric),
            )
            for unit, lr in needed:
                wanted.append((Place(unit, backbone, data, recipe), lr))
        return wanted

    def cells_at(self, rates: Sequence[tuple[Place, float]], seeds: Sequence[int]) -> list[Cell]:
        """Return the final runs of some groups at rates next to the chosen ones."""
        groups = {group.place: group for group in self.groups}
        changed = []
        for place, lr in rates:
            config = with_rate(groups[place].config, lr)
            changed.append(replace(groups[place], config=config))
        return cells_of(changed, seeds, NEIGHBOUR)

    def account(self) -> dict[str, Any]:
        """Return what was tried and chosen, in plain values."""
        rates: set[float] = set()
        rows = []
        grids = []
        for (backbone, data, recipe), block in self.blocks.items():
            rates.update(block.grid)
            labels = {"backbone": backbone, "data": data, "recipe": recipe}
            grids.append(
                {**labels, "grid": block.grid, "widened": block.widened, "rates": block.rates}
            )
            for group in block.groups:
                rows.append(self._account(group, block))
        why = "" if self.tune.mode == "none" else self._why_untuned()
        return {
            "mode": self.tune.name if self.blocks else "none",
            "why": why,
            "grid": sorted(rates),
            "widened": max((block.widened for block in self.blocks.values()), default=0),
            "grids": grids,
            "groups": rows,
        }

    def _why_untuned(self) -> str:
        """Return why some groups have no chosen rate."""
        recipes = []
        for group in self.groups:
            if group.place.block not in self.blocks and group.place.recipe not in recipes:
                recipes.append(group.place.recipe)
        if not recipes:
            return ""
        return f"{', '.join(recipes)}: the phases of the recipe have learning rates of their own"

    def _account(self, group: Group, block: _BlockSearch) -> dict[str, Any]:
        """Return the row of one group."""
        chosen = block.chosen.get(group.place)
        tried = []
        for lr in block.grid:
            score = self._score(group, lr, len(self.seeds))
            if score.values:
                tried.append(score.to_dict())
        edge = chosen is not None and chosen in (block.grid[0], block.grid[-1])
        return {**vars(group.place), "lr": chosen, "tried": tried, "at_the_edge": edge}

    def _missing(self, block: _BlockSearch) -> list[list[Cell]]:
        """Return what each group needs next, and widen the grid if a best rate is at an edge."""
        while True:
            queues = [self._advance(group, block) for group in block.groups]
            if any(queues) or not self._widen(block):
                return queues

    def _advance(self, group: Group, block: _BlockSearch) -> list[Cell]:
        """Return the missing cells of the group's current round; choose its rate after the last."""
        rates = block.grid
        used = 0
        for keep, more in self.rounds:
            if len(rates) > keep:
                rates = self._best(group, rates, used)[: int(keep)]
            used += more
            missing = []
            for seed in range(used):
                for lr in rates:
                    cell = self._cell(group, lr, seed)
                    if cell.key not in self.records:
                        missing.append(cell)
            if missing:
                return missing
        block.chosen[group.place] = self._best(group, rates, used)[0]
        return []

    def _widen(self, block: _BlockSearch) -> bool:
        """Add a rate beyond every edge at which a best rate lies; return whether one was added."""
        if self.tune.lr or block.widened == WIDENINGS:
            return False
        beyond = []
        chosen = set(block.chosen.values())
        if block.grid[0] in chosen:
            beyond.append(rounded(block.grid[0] / STEP))
        if block.grid[-1] in chosen and block.grid[-1] * STEP <= LARGEST_RATE:
            beyond.append(rounded(block.grid[-1] * STEP))
        if beyond:
            block.grid = sorted([*block.grid, *beyond])
            block.widened += 1
        return bool(beyond)

    def _cell(self, group: Group, lr: float, place: int) -> Cell:
        """Return the tuning run of a group with a rate and the seed at ``place``."""
        wanted = group.place, lr, place
        if wanted not in self._cells:
            fold = {
                "fold": place % self.tune.folds + 1,
                "folds": self.tune.folds,
                "in_place_of_test": True,
            }
            changes = {"seed": self.seeds[place], "hold_out": fold}
            config = with_rate(group.config, lr, **changes)
            if self.tune.epochs:
                recipe = config.recipe.model_dump(exclude_unset=True) | {"epochs": self.tune.epochs}
                config = with_rate(config, lr, recipe=recipe)
            last = {"evaluate_every": config.recipe.total_epochs}  # the curve is not needed
            config = config.model_copy(update=last)
            self._cells[wanted] = Cell(config.digest[:KEY], group.place, config, TRIAL)
        return self._cells[wanted]

    def _score(self, group: Group, lr: float, count: int) -> RateScore:
        """Return the results of the runs with the first ``count`` seeds that have a record."""
        values: dict[int, float | None] = {}
        losses = []
        for place in range(count):
            record = self.records.get(self._cell(group, lr, place).key)
            if record is None:
                continue
            metrics = record["metrics"] or {}
            value = metrics.get(self.metric)
            usable = record["status"] == "finished" and value is not None and math.isfinite(value)
            values[self.seeds[place]] = value if usable else None
            loss = metrics.get("held_loss")
            losses.append(loss if usable and loss is not None else math.inf)
        return RateScore(lr, values, tuple(losses))

    def _best(self, group: Group, rates: Sequence[float], count: int) -> list[float]:
        """Return the rates, the best first, by the runs with the first ``count`` seeds."""
        remaining = [self._score(group, lr, count) for lr in sorted(rates)]
        held = self.examples.get(group.place.data, 0) // self.tune.folds
        # A tie is a difference of less than one example of a fold, however many folds were used:
        # in the demo, ties of less than one of all held-out examples chose worse rates for three
        # of 16 units and networks, by 0.1 to 1.0 points. The factor allows for rounding.
        tie = (1 - 1e-9) / held if self.counted and held else 0.0
        ordered = []
        while remaining:
            best = self._top(remaining, tie)
            ordered.append(best.lr)
            remaining.remove(best)
        return ordered

    def _top(self, scores: Sequence[RateScore], tie: float) -> RateScore:
        """Return the best score; the loss decides among those that differ by at most ``tie``."""
        fewest = min(score.lost for score in scores)
        scores = [score for score in scores if score.lost == fewest]
        top = max(self._worth(score) for score in scores)
        tied = [score for score in scores if self._worth(score) >= top - tie]
        return min(tied, key=lambda score: sum(score.losses))

    def _worth(self, score: RateScore) -> float:
        """Return the mean of the runs with a result, in the direction that is better."""
        known = [value for value in score.values.values() if value is not None]
        if known:
            return self.sign * mean(known)
        return -math.inf


def values_by_rate(
    records: Sequence[Record],
    metric: str,
) -> dict[str, dict[float, dict[int, float]]]:
    """Return unit to {learning rate: {seed: value}} of runs in one block.

    Args:
        records: of final runs and of those at neighbouring rates.
        metric: the reported metric.

    Returns:
        NaN for a run that diverged. A run that failed has no value.
    """
    values: dict[str, dict[float, dict[int, float]]] = {}
    for record in records:
        metrics = record["metrics"] or {}
        value = metrics.get(metric)
        if record["status"] == "diverged" or (metric in metrics and value is None):
            value = math.nan
        if value is None:
            continue
        by_rate = values.setdefault(record["unit"], {})
        by_rate.setdefault(record["lr"], {})[record["seed"]] = value
    return values


def resolution_of(records: Sequence[Record], metric: str) -> float:
    """Return the smallest step of an accuracy, 1 / test examples; 0 if it is not known."""
    for record in records:
        if metric.endswith("accuracy") and record.get("examples"):
            return 1 / record["examples"]
    return 0.0


def _block_of(record: Record) -> Block:
    """Return the block of a record."""
    return record["backbone"], record["data"], record["recipe"]


def held_metric(metric: str) -> str:
    """Return the name of a metric on held-out examples, ``held_accuracy`` for ``test_accuracy``."""
    return f"held_{bare_metric(metric)}"


def tuning_seeds(count: int, final: Sequence[int]) -> list[int]:
    """Return ``count`` seeds from 1000 on that are not among the final ones."""
    taken = set(final)
    seeds: list[int] = []
    seed = FIRST_SEED
    while len(seeds) < count:
        if seed not in taken:
            seeds.append(seed)
        seed += 1
    return seeds


def grid_around(rate: float) -> list[float]:
    """Return five rates half a decade apart with ``rate`` in the middle."""
    grid = [
        rate if power == 0 else rounded(rate * STEP**power) for power in range(-REACH, REACH + 1)
    ]
    return [lr for lr in grid if lr <= LARGEST_RATE]


def rounded(rate: float) -> float:
    """Return the rate to three digits."""
    return float(f"{rate:.3g}")


def _rounds(tune: Tune) -> Sequence[tuple[float, int]]:
    """Return the rounds of a plan; a plan of the user has one."""
    if tune.mode == "none":
        return ()
    if tune.seeds:
        return ((ALL, tune.seeds),)
    return ROUNDS[tune.mode]
