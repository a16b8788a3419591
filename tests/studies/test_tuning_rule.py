"""How often the whole rule of tuning, final runs and confirmation names a false difference.

Runs are simulated, everything else is the code of a study: rounds, widening of the grid, choice of
rates, confirmation and verdicts. The ordinary tests draw few studies, the full form
(``GATEWISE_FULL=1``) many.
"""

import math

import numpy as np
import pytest

from gatewise.stats import compare_runs, compare_tuned_runs
from gatewise.studies.older import Group, Place, RateSearch
from gatewise.studies.older.config import Tune
from gatewise.studies.older.tuning import values_by_rate
from gatewise.train import run_config

UNITS = ("relu", *(f"unit {place}" for place in range(7)))
BLOCK = ("net", "digits", "recipe")
IMAGES = 1500  # of the test set
HELD_OUT = 0.01  # standard deviation of a tuning run
FINAL = 0.005  # and of a final run
ERRORS = 3.9  # standard errors of a share above its bound: a right rate fails once in 20,000


def parabola(bend: float):
    """The accuracy lost at a distance from the best rate, in decades; ``bend`` points a decade²."""
    return lambda decades: bend / 100 * decades**2


def cliff(decades: float) -> float:
    """Little is lost below the best rate; above it training breaks down."""
    return 0.003 * abs(decades) if decades <= 0 else min(0.6, 0.8 * decades**2)


class SimulatedStudy:
    """A study of units whose accuracy is a function of the learning rate.

    Args:
        random: Of all draws.
        lost: Decades from the best rate to the accuracy that is lost there.
        gain: Of all units but the baseline, at their best rates.
        mode: Of tuning.
        offset: The largest distance of a best rate from the middle of the grid, in decades.
    """

    def __init__(self, random, lost, *, gain=0.0, mode="quick", offset=0.25) -> None:
        self.random = random
        self.lost = lost
        self.best = {unit: random.uniform(-offset, offset) - 2.5 for unit in UNITS}
        self.gain = {unit: gain if unit != "relu" else 0.0 for unit in UNITS}
        self.search = RateSearch(
            GROUPS, Tune(mode=mode), seeds=range(10), examples={"digits": 5 * IMAGES}
        )
        self.search._cells = CELLS  # their digests are slow; they are the same in every study
        self.records: list[dict] = []

    def accuracy(self, unit: str, lr: float) -> float:
        """The true accuracy at a rate. All units have 0.9 and their gain at the best grid rate."""
        least = min(self.lost(math.log10(rate) - self.best[unit]) for rate in ALL_RATES)
        lost = self.lost(math.log10(lr) - self.best[unit])
        return 0.9 + self.gain[unit] + least - lost

    def tune(self) -> None:
        """Choose the rates."""
        while cells := self.search.batch():
            records = {}
            for cell in cells:
                value = self.random.normal(self.accuracy(cell.place.unit, cell.lr), HELD_OUT)
                metrics = {"held_accuracy": value, "held_loss": 1 - value}
                records[cell.key] = {"status": "finished", "metrics": metrics}
            self.search.take(records)

    def run(self, unit: str, lr: float) -> None:
        """Add the ten final runs of a unit at a rate."""
        accuracy = self.accuracy(unit, lr)
        labels = dict(zip(("backbone", "data", "recipe"), BLOCK, strict=True))
        for seed, noise in enumerate(self.random.normal(0, FINAL, 10)):
            value = round((accuracy + noise) * IMAGES) / IMAGES
            record = {"unit": unit, **labels, "seed": seed, "lr": lr, "status": "finished"}
            self.records.append(record | {"metrics": {"test_accuracy": value}, "examples": IMAGES})

    def confirm(self) -> int:
        """Run what verdicts depend on, and return how many groups of runs that were."""
        wanted = self.search.confirmations(self.records, baseline="relu", metric="test_accuracy")
        for place, lr in wanted:
            self.run(place.unit, lr)
        return len(wanted)

    def verdicts(self) -> tuple[list[str], list[str]]:
        """The verdicts by the chosen rates alone, and those of the study."""
        self.tune()
        chosen = {place.unit: lr for place, lr in self.search.blocks[BLOCK].chosen.items()}
        for unit in UNITS:
            self.run(unit, chosen[unit])
        self.confirm()
        assert self.search.tune.mode == "full" or not self.confirm()
        values = values_by_rate(self.records, "test_accuracy")
        final = {unit: values[unit][chosen[unit]] for unit in UNITS}
        options = {"resolution": 1 / IMAGES}
        alone = compare_runs(final, "relu", **options)
        rates = self.search.blocks[BLOCK].rates
        compared = compare_tuned_runs(values, chosen, "relu", grid=rates, **options)
        return [row.verdict for row in alone.differences], [
            row.verdict for row in compared.differences
        ]


def _groups() -> list[Group]:
    recipe = {"epochs": 2, "optimiser": {"name": "adamw", "lr": 10**-2.5}}
    made = []
    for place, unit in enumerate(UNITS):
        options = {"widths": [4 + place]}  # so that no two groups are the same run
        config = run_config(model="mlp", unit="relu", recipe=recipe, model_options=options)
        made.append(Group(Place(unit, *BLOCK), config, None))
    return made


GROUPS = _groups()
CELLS: dict = {}
ALL_RATES = [10 ** (-2.5 + place / 2) for place in range(-5, 6)]

SETTINGS = {
    "falls by 1 point": ("quick", parabola(1), 0.25),
    "falls by 5 points": ("quick", parabola(5), 0.25),
    "a cliff above the best rate": ("quick", cliff, 0.25),
    "best rates anywhere": ("quick", parabola(2), 1.5),
    "full": ("full", parabola(2), 0.25),
}


@pytest.mark.parametrize("setting", SETTINGS)
def test_units_that_equal_the_baseline_get_a_verdict_in_few_studies(setting: str, full: bool):
    mode, lost, offset = SETTINGS[setting]
    random = np.random.default_rng(90)
    count = 400 if full else 12
    without = 0
    wrong = 0
    for _ in range(count):
        alone, compared = SimulatedStudy(random, lost, mode=mode, offset=offset).verdicts()
        without += set(alone) != {"undecided"}
        wrong += set(compared) != {"undecided"}
    print(f"{setting}: of {count} studies {without} without and {wrong} with confirmation")
    assert wrong / count <= 0.05 + ERRORS * math.sqrt(0.05 * 0.95 / count)
    if full and setting == "falls by 5 points":
        assert without / count > 0.2  # what confirmation is for


def test_a_unit_that_is_better_is_found(full: bool):
    """By 1.5 points, three times the standard deviation of a run."""
    random = np.random.default_rng(91)
    count = 200 if full else 6
    shown = 0
    for _ in range(count):
        _, compared = SimulatedStudy(random, parabola(2), gain=0.015).verdicts()
        shown += compared.count("better") / len(compared)
        assert "worse" not in compared
    assert shown / count > 0.7
