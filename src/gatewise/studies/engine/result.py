"""What a study found: its records read back, and what they show."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, is_dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from gatewise.errors import ArgumentError, unknown_name
from gatewise.stats import Comparison, Ranking, compare_paired, rank, seeds_needed
from gatewise.studies.engine.config import METRICS
from gatewise.studies.engine.folder import StudyFolder
from gatewise.studies.engine.table import as_text

Block = tuple[str, str, str]  # backbone, data set, recipe
COSTS = ("parameters", "flops", "saved_bytes", "seconds")
EFFECT = {"test_accuracy": 0.01, "test_loss": 0.01}  # what "seeds needed" asks for
EQUAL = 1e-9  # relative; times are never equal, and a twentieth of them is noise
TIME_NOISE = 0.05


def read_study(folder: str | Path) -> "StudyResult":
    """The study in ``folder``, with the records of all cells that are done."""
    place = StudyFolder(folder)
    content = place.read()
    found = (place.record(cell["key"]) for cell in content["cells"])
    return StudyResult(
        str(folder), content, tuple(record for record in found if record is not None)
    )


@dataclass(frozen=True)
class StudyResult:
    """A study as far as it has come.

    ``cells`` is what was planned, ``records`` what is done, each a plain table. Cells that diverged
    or failed are records too, and are left out of comparisons, which say how many pairs they have.
    """

    folder: str
    content: Mapping[str, Any]
    records: tuple[Mapping[str, Any], ...]

    @property
    def cells(self) -> Sequence[Mapping[str, Any]]:
        """Planned: key, unit, backbone, data, recipe, seed and config of each."""
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
        """Where units are compared with each other.

        Every backbone on every data set with every recipe.
        """
        return list(
            dict.fromkeys((cell["backbone"], cell["data"], cell["recipe"]) for cell in self.cells)
        )

    def values(self, block: Block, metric: str = "test_accuracy") -> dict[str, dict[int, float]]:
        """Unit to {seed: value} of the finished cells in the block.

        Units without any are left out.
        """
        if metric not in METRICS:
            raise unknown_name("metric", metric, METRICS)
        found: dict[str, dict[int, float]] = {unit: {} for unit in self.units}
        for record in self._in(block):
            value = (record["metrics"] or {}).get(metric)
            if record["status"] == "finished" and value is not None and math.isfinite(value):
                found[record["unit"]][record["seed"]] = value
        return {unit: values for unit, values in found.items() if values}

    def compare(
        self,
        backbone: str | None = None,
        metric: str = "test_accuracy",
        *,
        data: str | None = None,
        recipe: str | None = None,
    ) -> Comparison:
        """Every unit against the baseline on one backbone.

        Data set and recipe are needed where there are several.
        """
        return self._compared(self._block(backbone, data, recipe), metric)

    def ranking(self, metric: str = "test_accuracy") -> Ranking | None:
        """Mean ranks over the blocks that have results of all units.

        None if there is no such block.
        """
        means = [
            {
                unit: sum(values.values()) / len(values)
                for unit, values in self.values(block, metric).items()
            }
            for block in self.blocks
        ]
        whole = [block for block in means if set(block) == set(self.units)]
        if not whole or len(self.units) < 2:
            return None
        return rank(whole, higher_is_better=metric == "test_accuracy")

    def seeds_for(
        self, block: Block, effect: float, metric: str = "test_accuracy"
    ) -> dict[str, int | None]:
        """Seeds with which a difference of ``effect`` to the baseline would be shown, by the spread seen here."""
        values = self.values(block, metric)
        base, others = (
            values.get(self.baseline, {}),
            [unit for unit in values if unit != self.baseline],
        )
        found: dict[str, int | None] = {}
        for unit in others:
            gaps = [values[unit][seed] - base[seed] for seed in values[unit] if seed in base]
            spread = _deviation(gaps)
            known = spread is not None
            found[unit] = seeds_needed(effect, spread, comparisons=len(others)) if known else None
        return found

    @cached_property
    def costs(self) -> list[dict[str, Any]]:
        """Unit x block: parameters, operations, bytes and mean seconds, each with its ratio to the baseline's.

        ``unequal`` names the costs that are not the baseline's: what a difference in results may be due to.
        """
        seconds = {
            (unit, block): _mean(
                [
                    r["seconds"]
                    for r in self._in(block)
                    if r["unit"] == unit and r["status"] == "finished"
                ]
            )
            for block in self.blocks
            for unit in self.units
        }
        groups = {
            (g["unit"], (g["backbone"], g["data"], g["recipe"])): g
            for g in self.content.get("groups", [])
        }
        found = []
        for (unit, block), group in groups.items():
            base = {
                **groups.get((self.baseline, block), {}),
                "seconds": seconds.get((self.baseline, block)),
            }
            mine = {**group, "seconds": seconds[unit, block]}
            numbers = {name: mine.get(name) for name in COSTS}
            ratios = {name: _ratio(mine.get(name), base.get(name)) for name in COSTS}
            unequal = [name for name, ratio in ratios.items() if _differs(name, ratio)]
            about = {"unit": unit, "backbone": block[0], "data": block[1], "recipe": block[2]}
            found.append(
                {
                    **about,
                    **numbers,
                    "ratios": ratios,
                    "unequal": unequal,
                    "matched": group["matched"],
                }
            )
        return found

    def __str__(self) -> str:
        return as_text(self)

    def to_dict(self) -> dict[str, Any]:
        """Everything in plain values: what was planned, what is done, and what it shows."""
        metric = self.content["metric"]
        return plain(
            {
                "folder": self.folder,
                **self.content,
                "records": list(self.records),
                "costs": self.costs,
                "blocks": [self._shown(block, metric) for block in self.blocks],
                "ranking": self.ranking(metric),
                "not_finished": [r for r in self._brief() if r["status"] != "finished"],
                "missing": len(self.cells) - len(self.records),
            }
        )

    def _shown(self, block: Block, metric: str) -> dict[str, Any]:
        values = self.values(block, metric)
        comparison = self._compared(block, metric) if self.baseline in values else None
        effect = EFFECT[metric]
        return {
            "backbone": block[0],
            "data": block[1],
            "recipe": block[2],
            "metric": metric,
            "comparison": comparison,
            "values": {
                unit: {str(seed): value for seed, value in each.items()}
                for unit, each in values.items()
            },
            "seeds_needed": {"effect": effect, "seeds": self.seeds_for(block, effect, metric)},
        }

    def _compared(self, block: Block, metric: str) -> Comparison:
        values, base = self.values(block, metric), self.baseline
        if base not in values:
            raise ArgumentError(
                "compare: the baseline has no finished cell here", got=f"{base} in {block[0]}"
            )
        shared = {
            unit: each
            for unit, each in values.items()
            if unit == base or each.keys() & values[base].keys()
        }
        return compare_paired(shared, base, higher_is_better=metric == "test_accuracy")

    def _block(self, backbone: str | None, data: str | None, recipe: str | None) -> Block:
        asked = (backbone, data, recipe)
        fitting = [
            each
            for each in self.blocks
            if all(a in (None, b) for a, b in zip(asked, each, strict=True))
        ]
        if len(fitting) != 1:
            names = " | ".join(", ".join(each) for each in self.blocks)
            raise ArgumentError(
                "compare: one backbone, data set and recipe is needed", got=asked, allowed=names
            )
        return fitting[0]

    def _in(self, block: Block) -> list[Mapping[str, Any]]:
        return [r for r in self.records if (r["backbone"], r["data"], r["recipe"]) == block]

    def _brief(self) -> Iterator[dict[str, Any]]:
        names = ("key", "unit", "backbone", "data", "recipe", "seed", "status", "reason")
        return ({name: record[name] for name in names} for record in self.records)


def plain(value: Any) -> Any:
    """``value`` in the types JSON has; numbers that are not finite are None."""
    if is_dataclass(value) and not isinstance(value, type):
        return plain(asdict(value))
    if isinstance(value, Mapping):
        return {str(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def _mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def _deviation(values: Sequence[float]) -> float | None:
    if len(values) < 2:
        return None
    mean = sum(values) / len(values)
    return math.sqrt(sum((value - mean) ** 2 for value in values) / (len(values) - 1))


def _ratio(mine: float | None, base: float | None) -> float | None:
    return mine / base if mine is not None and base else None


def _differs(name: str, ratio: float | None) -> bool:
    return ratio is not None and abs(ratio - 1) > (TIME_NOISE if name == "seconds" else EQUAL)
