"""Experiments that compare units in one small network at every learning rate of a grid.

Note [Claims over rates]. Such an experiment is a comparison of gatewise: the plan is that of the
preset ``units_cifar10`` with other units, data or rates, and the engine of comparisons runs it. So
runs that ``units_cifar10`` has made already are read and not made again. No rate is chosen. The
difference of two networks has one interval, by the factorial rule of `gatewise.stats`: it spans the
difference at the fitted peaks of the two rate curves and that at their best rates. All networks of
the table decide together which rates count.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from gatewise.stats import FactorialVerdicts, factorial_progress, judge_factorial
from gatewise.studies import CheckedStudy, ComparisonStudy, RunRecord, read_comparison
from gatewise.train import find_recipe, run_config
from gatewise_papers.common.claims import Show, finite_mean, judged, percent
from gatewise_papers.common.experiment import CellValues, Experiment
from gatewise_papers.common.judgements import (
    ClaimEvidence,
    ClaimResult,
    Judgement,
    judge_everywhere,
)
from gatewise_papers.common.levels import Level
from gatewise_papers.common.records import Claim, Findings, Line, Panel, Row, row
from gatewise_papers.common.training import Table

PRESET = "units_cifar10"
RELU = "original"  # the label of the unchanged network, which has ReLU
LEVEL = 0.05
FEWEST_SEEDS = 3
READ = ("ReLU", "crelu", "psc")  # units of the preset that another table reads
PRESET_RECIPE = ("epochs = 8", 'precision = "auto"')
WIDTHS = (16, 64, 64)
RATES = (0.125, 0.25, 0.5, 1.0, 2.0)
UNIT_TABLE_IN_WORDS = (
    "fast_cifar of widths 16-64-64 on all of {}, 8 epochs, at every of the rates 0.125 to 2 by "
    "factors of 2"
)


@dataclass(frozen=True)
class UnitTableSettings:
    """Which units are compared, and what differs from the preset.

    Attributes:
        units: besides ReLU, as tables of a comparison.
        reduced: what is small here.
        data: name and options.
        rates: at which every unit is trained: one, or at least four.
        widths: of the network.
        recipe: lines that change it.
        reads: a file of runs in the folder of all experiments that must be there first; none if
            empty.
    """

    units: tuple[Mapping[str, Any], ...]
    reduced: str = UNIT_TABLE_IN_WORDS.format("CIFAR-10")
    data: Mapping[str, Any] | None = None
    rates: tuple[float, ...] = ()
    widths: tuple[int, ...] = ()
    recipe: tuple[str, ...] = ()
    reads: str = ""

    def tiny(self) -> "UnitTableSettings":
        """Return the same units on 25 images at one rate."""
        return UnitTableSettings(
            self.units,
            "25 images of CIFAR-10, 1 epoch",
            {"name": "cifar10", "options": {"train": 25, "test": 25}},
            (0.5,),
            (8, 32, 32),
            ("epochs = 1", "batch = 25"),
        )


def unit_table_experiment(
    name: str,
    title: str,
    desk: UnitTableSettings,
    claims: Callable[[CheckedStudy], list[Claim]],
    notes: tuple[str, ...],
    *,
    level: Level,
    needs: str,
) -> Experiment:
    """Return the experiment of a table of units; there is no larger scale than ``desk``.

    Args:
        name: ``paper/figure``.
        title: in a few words.
        desk: the units and their data.
        claims: judges the comparison.
        notes: of the findings.
        level: how well the networks must be trained.
        needs: the data set.
    """

    def findings(values: CellValues) -> Findings:
        """Return values of all units at all rates, and the claims about them."""
        study = CheckedStudy(values["header"], values["records"])
        return Findings([_panel(study)], rate_rows(study), claims(study), notes)

    return Experiment(
        name=name,
        title=title,
        scales={"tiny": desk.tiny(), "desk": desk},
        comparison=plan_table,
        findings=findings,
        trainings=table_runs,
        seeds=5,
        levels=(level,),
        needs=(needs,),
    )


def unit_with(label: str, **options: Any) -> dict[str, Any]:
    """Return a unit that the network is built with.

    Args:
        label: its name in the table.
        options: of the network, among them ``unit``.
    """
    return {"name": RELU, "label": label, "model": options}


def plan_table(settings: UnitTableSettings, seeds: tuple[int, ...]) -> ComparisonStudy:
    """Return the plan of a table.

    Args:
        settings: the units, and what differs from the preset.
        seeds: of every unit, from 0 on.
    """
    changes: dict[str, Any] = {"units": list(settings.units), "seeds": len(seeds)}
    if settings.data is not None:
        changes["data"] = settings.data
    if settings.rates:
        changes["rates"] = list(settings.rates)
    if settings.widths:
        name = "-".join(map(str, settings.widths))
        options = {"widths": list(settings.widths)}
        changes["models"] = {"name": name, "model": "fast_cifar", "options": options}
    return read_comparison(PRESET, changes, recipe_changes=settings.recipe, device=None)


def table_runs(settings: UnitTableSettings, seeds: tuple[int, ...]) -> Table:
    """Return the runs of every unit, so that their cost can be timed; those that are read are none.

    Args:
        settings: the units, and what differs from the preset.
        seeds: of every unit.
    """
    recipe = find_recipe("fast_cifar", changes=[*PRESET_RECIPE, *settings.recipe])
    data = settings.data or {"name": "cifar10"}
    table = {}
    for unit in (unit_with("ReLU", unit="relu"), *settings.units):
        options = {"widths": list(settings.widths or WIDTHS), **unit.get("model", {})}
        if settings.reads and (unit["label" if "label" in unit else "name"] in READ):
            continue
        name = options.pop("unit", "relu" if unit["name"] == RELU else unit["name"])
        runs = [
            run_config(
                model="fast_cifar",
                unit=name,
                model_options=options,
                data=data["name"],
                data_options=data.get("options", {}),
                recipe=recipe,
                seed=seed,
            )
            for seed in seeds
        ]
        table[unit.get("label", name)] = runs * len(settings.rates or RATES)
    return table


def judge_over_rates(
    published: str,
    study: CheckedStudy,
    better: Sequence[str],
    others: Sequence[str],
    *,
    show: Show = percent,
) -> Claim:
    """Judge that each of ``better`` is better than every one of ``others``.

    Args:
        published: what the paper says.
        study: the comparison.
        better: the units that the paper calls better.
        others: the units they are compared with.
        show: formats a number.
    """
    among = len(better) * len(others)
    results = []
    for other in others:
        for name in better:
            results.append(_judge_pair(study, name, other, among))
    return judged(published, judge_everywhere(results), show=show)


def rate_rows(study: CheckedStudy) -> list[Row]:
    """Return one row for each unit at its best rate, and one for each of its rates."""
    rows = []
    for unit, by_rate in _by_rate(study).items():
        what = f"test accuracy, {'ReLU' if unit == RELU else unit}"
        best = max(by_rate, key=lambda rate: finite_mean(by_rate[rate]))
        rows.append(row(what, by_rate[best]))
        for rate, numbers in by_rate.items():
            rows.append(row(f"{what}, rate {rate:g}", numbers))
    return rows


def _by_rate(study: CheckedStudy) -> dict[str, dict[float, list[float | None]]]:
    """Return the values by unit and rate, one per seed; those of diverged runs are at chance."""
    found: dict[str, dict[float, dict[int, RunRecord]]] = {}
    for record in sorted(study.records, key=lambda one: (one.step, one.seed)):
        rates = found.setdefault(record.unit, {})
        rates.setdefault(record.rate or 0.0, {})[record.seed] = record
    values: dict[str, dict[float, list[float | None]]] = {}
    for unit in study.header.labels:
        values[unit] = {}
        for rate, by_seed in found.get(unit, {}).items():
            chance = study.header.chance
            values[unit][rate] = [
                chance if one.value is None else one.value for one in by_seed.values()
            ]
    return values


def _judge_pair(study: CheckedStudy, ours: str, theirs: str, among: int) -> ClaimResult:
    """Judge one difference at the level, and a contradiction at the level of all of them."""
    name = f"{ours} and {theirs}"
    seeds = study.header.seeds
    if seeds < FEWEST_SEEDS:
        reason = f"{name}: {seeds} seeds, and at least {FEWEST_SEEDS} are needed"
        return ClaimResult(Judgement.NOT_TESTED, reason=reason)
    turned = CheckedStudy({**study.plain_header, "baseline": theirs}, study.plain_records)
    runs = turned.runs(study.header.models[0])
    state = factorial_progress(runs)
    place = turned.header.labels.index(ours) - 1
    at_level, together = (
        judge_factorial(runs, state, level=level, comparisons=1) for level in (LEVEL, LEVEL / among)
    )
    judgement = Judgement.UNDECIDED
    if at_level.side[0, place] > 0:
        judgement = Judgement.SUPPORTED
    elif together.side[0, place] < 0:
        judgement = Judgement.CONTRADICTED
    evidence = ClaimEvidence(
        name=f"{name}{_trouble(at_level, place)}",
        n=seeds,
        difference=float(at_level.difference[0, place]),
        interval=(float(at_level.low[0, place]), float(at_level.high[0, place])),
        confidence=1 - LEVEL,
    )
    return ClaimResult(judgement, (evidence,))


def _trouble(verdicts: FactorialVerdicts, place: int) -> str:
    """Return why the difference cannot be decided; empty if nothing is wrong with the rates."""
    if verdicts.at_edge[0, place]:
        return " (a best rate is at an end of the grid)"
    if verdicts.too_coarse[0, place]:
        return " (rates too far apart for this noise)"
    return ""


def _panel(study: CheckedStudy) -> Panel:
    """Return the plot of the curves over the rate."""
    lines = []
    for unit, by_rate in _by_rate(study).items():
        lines.append(Line(unit, list(by_rate), [finite_mean(one) for one in by_rate.values()]))
    return Panel("test", "learning rate", "accuracy", lines, log_x=True)
