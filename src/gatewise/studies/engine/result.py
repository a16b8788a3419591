"""The result of a study: its records read back, compared, ranked and set against costs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gatewise.errors import ArgumentError, unknown_name
from gatewise.stats import (
    Comparison,
    Ranking,
    compare_paired,
    mean,
    paired_difference,
    rank,
    seeds_needed,
)
from gatewise.studies.engine.cell_work import plain
from gatewise.studies.engine.config import METRICS
from gatewise.studies.engine.folder import StudyFolder
from gatewise.studies.engine.table import as_text

Block = tuple[str, str, str]  # backbone, data set, recipe
COSTS = ("parameters", "flops", "saved_bytes", "seconds")
EFFECT = 0.01  # the difference that "seeds needed" asks for
# Relative differences of costs that count as equal. Times are never equal, and 5 % is noise.
EQUAL = 1e-9
TIME_NOISE = 0.05
BRIEF = ("key", "unit", "backbone", "data", "recipe", "seed", "status", "reason")


def read_study(folder: str | Path) -> "StudyResult":
    """Return the study in ``folder``, with the records of all cells that are done."""
    study = StudyFolder(folder)
    content = study.read()
    records = []
    for cell in content["cells"]:
        record = study.record(cell["key"])
        if record is not None:
            records.append(record)
    return StudyResult(str(folder), content, tuple(records))


@dataclass(frozen=True)
class StudyResult:
    """A study, finished or not.

    ``cells`` is what was planned, ``records`` what is done; both are plain tables. Cells that
    diverged or failed have records too. They are left out of comparisons, which say how many pairs
    they have.
    """

    folder: str
    content: Mapping[str, Any]
    records: tuple[Mapping[str, Any], ...]

    @property
    def cells(self) -> Sequence[Mapping[str, Any]]:
        """The planned cells: key, unit, backbone, data, recipe, seed and config of each."""
        return self.content["cells"]

    @property
    def baseline(self) -> str:
        """The unit that all others are compared with."""
        return self.content["baseline"]

    @property
    def units(self) -> list[str]:
        """Labels, in the order of the study."""
        return list(dict.fromkeys(cell["unit"] for cell in self.cells))

    @property
    def blocks(self) -> list[Block]:
        """Every backbone on every data set with every recipe: units are compared within one."""
        return list(dict.fromkeys(_block_of(cell) for cell in self.cells))

    def values(self, block: Block, metric: str = "test_accuracy") -> dict[str, dict[int, float]]:
        """Return unit to {seed: value} of the finished cells in the block.

        Args:
            block: backbone, data set and recipe.
            metric: ``"test_accuracy"`` or ``"test_loss"``.

        Returns:
            Only units that have a finite value.
        """
        if metric not in METRICS:
            raise unknown_name("metric", metric, METRICS)
        values: dict[str, dict[int, float]] = {unit: {} for unit in self.units}
        for record in self._records_in(block):
            value = (record["metrics"] or {}).get(metric)
            if record["status"] == "finished" and value is not None and math.isfinite(value):
                values[record["unit"]][record["seed"]] = value
        return {unit: by_seed for unit, by_seed in values.items() if by_seed}

    def compare(
        self,
        backbone: str | None = None,
        metric: str = "test_accuracy",
        *,
        data: str | None = None,
        recipe: str | None = None,
    ) -> Comparison:
        """Compare every unit with the baseline on one backbone.

        Args:
            backbone: its name; needed if there are several.
            metric: ``"test_accuracy"`` or ``"test_loss"``.
            data: label of the data set; needed if there are several.
            recipe: its name; needed if there are several.
        """
        return self._compare(self._block(backbone, data, recipe), metric)

    def ranking(self, metric: str = "test_accuracy") -> Ranking | None:
        """Return mean ranks over the blocks with results of all units; None if there is none."""
        complete = []
        for block in self.blocks:
            values = self.values(block, metric)
            means = {unit: mean(list(by_seed.values())) for unit, by_seed in values.items()}
            if set(means) == set(self.units):
                complete.append(means)
        if not complete or len(self.units) < 2:
            return None
        return rank(complete, higher_is_better=metric == "test_accuracy")

    def seeds_for(
        self, block: Block, effect: float, metric: str = "test_accuracy"
    ) -> dict[str, int | None]:
        """Return how many seeds would show a difference to the baseline, by the spread seen here.

        Args:
            block: backbone, data set and recipe.
            effect: the difference to show.
            metric: ``"test_accuracy"`` or ``"test_loss"``.

        Returns:
            By unit; None for a unit with fewer than two pairs.
        """
        values = self.values(block, metric)
        base = values.pop(self.baseline, {})
        needed: dict[str, int | None] = {}
        for unit, by_seed in values.items():
            gap = paired_difference(list(by_seed.values()), [base.get(seed) for seed in by_seed])
            needed[unit] = None
            if gap.n > 1:
                needed[unit] = seeds_needed(effect, gap.spread, comparisons=len(values))
        return needed

    @cached_property
    def costs(self) -> list[dict[str, Any]]:
        """Unit x block: parameters, operations, bytes and mean seconds, and ratios to the baseline.

        ``unequal`` names the costs that differ from the baseline's. A difference in results may be
        due to them.
        """
        groups: dict[tuple[str, Block], dict[str, Any]] = {}
        for group in self.content.get("groups", []):
            place = group["unit"], _block_of(group)
            groups[place] = {**group, "seconds": self._mean_seconds(*place)}
        rows = []
        for (unit, block), group in groups.items():
            base = groups.get((self.baseline, block), {})
            ratios = {name: _ratio(group.get(name), base.get(name)) for name in COSTS}
            row = {
                "unit": unit,
                "backbone": block[0],
                "data": block[1],
                "recipe": block[2],
                **{name: group.get(name) for name in COSTS},
                "ratios": ratios,
                "unequal": [name for name, ratio in ratios.items() if _differs(name, ratio)],
                "matched": group["matched"],
            }
            rows.append(row)
        return rows

    def __str__(self) -> str:
        return as_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Return everything in plain values: what was planned, what is done, and what it shows."""
        metric = self.content["metric"]
        brief = []
        for record in self.records:
            if record["status"] != "finished":
                brief.append({name: record[name] for name in BRIEF})
        return plain(
            {
                "folder": self.folder,
                **self.content,
                "records": list(self.records),
                "costs": self.costs,
                "blocks": [self._block_content(block, metric) for block in self.blocks],
                "ranking": self.ranking(metric),
                "not_finished": brief,
                "missing": len(self.cells) - len(self.records),
            }
        )

    def _block_content(self, block: Block, metric: str) -> dict[str, Any]:
        """Return what one block shows, in plain values."""
        values = self.values(block, metric)
        comparison = self._compare(block, metric) if self.baseline in values else None
        return {
            "backbone": block[0],
            "data": block[1],
            "recipe": block[2],
            "metric": metric,
            "comparison": comparison,
            "values": values,
            "seeds_needed": {"effect": EFFECT, "seeds": self.seeds_for(block, EFFECT, metric)},
        }

    def _compare(self, block: Block, metric: str) -> Comparison:
        """Compare the units that share a seed with the baseline."""
        values = self.values(block, metric)
        if self.baseline not in values:
            raise ArgumentError(
                "compare: the baseline has no finished run here",
                got=f"{self.baseline} in {block[0]}",
            )
        seeds = values[self.baseline].keys()
        shared = {unit: by_seed for unit, by_seed in values.items() if by_seed.keys() & seeds}
        return compare_paired(shared, self.baseline, higher_is_better=metric == "test_accuracy")

    def _block(self, backbone: str | None, data: str | None, recipe: str | None) -> Block:
        """Return the one block that fits, or raise."""
        asked = (backbone, data, recipe)
        fitting = []
        for block in self.blocks:
            if all(want in (None, have) for want, have in zip(asked, block, strict=True)):
                fitting.append(block)
        if len(fitting) != 1:
            names = " | ".join(", ".join(block) for block in self.blocks)
            raise ArgumentError(
                "compare: one backbone, data set and recipe is needed", got=asked, allowed=names
            )
        return fitting[0]

    def _records_in(self, block: Block) -> list[Mapping[str, Any]]:
        """Return the records of one block."""
        return [record for record in self.records if _block_of(record) == block]

    def _mean_seconds(self, unit: str, block: Block) -> float | None:
        """Return the mean training time of a unit; None if no run has finished."""
        seconds = []
        for record in self._records_in(block):
            if record["unit"] == unit and record["status"] == "finished":
                seconds.append(record["seconds"])
        return mean(seconds) if seconds else None


def _block_of(labels: Mapping[str, Any]) -> Block:
    """Return the block of a cell, record or group."""
    return labels["backbone"], labels["data"], labels["recipe"]


def _ratio(value: float | None, base: float | None) -> float | None:
    """Return the ratio to the baseline; None if either is unknown."""
    return value / base if value is not None and base else None


def _differs(name: str, ratio: float | None) -> bool:
    """Return whether a cost differs from the baseline's by more than noise."""
    return ratio is not None and abs(ratio - 1) > (TIME_NOISE if name == "seconds" else EQUAL)
