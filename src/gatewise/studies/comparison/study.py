"""A comparison as cells of the engine: unit x learning rate x seed, and what is still asked for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np
import torch

from gatewise.devices import describe_device, describe_processor
from gatewise.graph import known_activations
from gatewise.stats import grid_steps
from gatewise.studies.answer import CheckedStudy, RateGrid, missing_runs
from gatewise.studies.comparison.user_models import OTHER_SEEDS, LeftOut, UserModel, Variant
from gatewise.studies.engine import DIVERGED, DONE, Cell, CellCall, Record, plain_config
from gatewise.train import NUMERICS, Pace, Recipe, RunConfig, check, environment, resolve_precision
from gatewise.words import joined

EXPERIMENT = "compare"
MACHINE = ("torch", "threads", "cpu_capability", "device")


@dataclass(frozen=True)
class Subject:
    """A model with the units that are compared in it.

    Attributes:
        model: of the user.
        weights: a digest of the weights and of what it computes.
        variants: by the label of the unit, the baseline first.
        left_out: units that are not compared in it.
    """

    model: UserModel
    weights: str
    variants: Mapping[str, Variant]
    left_out: Sequence[LeftOut] = ()

    @property
    def as_written(self) -> Sequence[str]:
        """The activations that the model's code writes out, which no unit replaces."""
        notes = [note for each in self.variants.values() if each.plan for note in each.plan.notes]
        return known_activations(dict.fromkeys(notes))

    def config(self, unit: str, rate: float, seed: int) -> RunConfig:
        """Return the configuration of a run.

        Args:
            unit: its label.
            rate: of learning.
            seed: of the record; a unit of another stream gets another one.
        """
        variant = self.variants[unit]
        table = self.model.recipe.model_dump(exclude_unset=True)
        table["optimiser"] = {**table.get("optimiser", {}), "lr": rate}
        recipe = check(Recipe, table, "recipe")
        return RunConfig(
            model=self.model.name,
            unit=unit,
            model_options={
                "model_sha256": self.weights,
                "drawn": self.model.drawn,
                "training_sha256": self.model.training.identity,
                **variant.identity,
            },
            data=self.model.data.name,
            data_options={"sha256": self.model.data.digest},
            recipe=recipe,
            seed=seed + OTHER_SEEDS * variant.unit.stream,
            evaluate_every=recipe.epochs,
        )


@dataclass(frozen=True)
class ComparisonWork:
    """Trains one cell, in any process that it is sent to."""

    subjects: Mapping[str, Subject]
    device: str

    def __call__(self, call: CellCall) -> dict[str, Any]:
        """Train one cell and return the fields of its record."""
        subject = self.subjects[call.labels["model"]]
        variant = subject.variants[call.labels["unit"]]
        config = check(RunConfig, call.settings["config"], "run")
        result = call.train(
            config,
            setup=lambda device: subject.model.setup(variant, config, device),
            device=self.device,
            pace=Pace(),
        )
        training = subject.model.training
        last = result.metrics or {}
        metrics = {name[5:]: value for name, value in last.items() if name.startswith("test_")}
        value = metrics.get(training.metric)
        ended = result.status == "finished" and value is not None and np.isfinite(value)
        now = environment(device=torch.device(self.device))
        return {
            "status": DONE if ended else DIVERGED,
            "value": value if ended else None,
            "validation": last.get(f"val_{training.metric}") if ended else None,
            "metrics": metrics,
            "epochs": result.epochs,
            "seconds": result.seconds,
            "starts": result.starts,
            "parameters": variant.parameters,
            "precision": resolve_precision(config.recipe.precision, torch.device(self.device)),
            "machine": {
                **{name: now[name] for name in MACHINE},
                "processor": describe_processor(),
            },
        }


@dataclass(frozen=True)
class ComparisonStudy:
    """Everything that is compared, and the plan.

    Attributes:
        name: of the study.
        title: of its page.
        subjects: by the name of the model.
        baseline: the label of the unit that all are compared with.
        grid: of learning rates.
        seeds: of every unit and rate.
        margin: the largest difference that does not matter to the user.
        chance: what the best constant prediction reaches, if that is known.
        device: where cells are trained.
        shard: this part and the number of parts of the plain grid; None for the whole study.
        plans: numbers of seeds that were planned before.
        first_seed: the seeds are this one and those after it.
    """

    name: str
    title: str
    subjects: Mapping[str, Subject]
    baseline: str
    grid: RateGrid
    seeds: int
    margin: float | None
    chance: float | None
    device: torch.device
    shard: tuple[int, int] | None = None
    plans: Sequence[int] = ()
    first_seed: int = 0
    _cells: dict[tuple[str, str, int, int], Cell] = field(default_factory=dict, init=False)

    @property
    def first(self) -> Subject:
        """The first model, which all share task, data and metric with."""
        return next(iter(self.subjects.values()))

    @cached_property
    def units(self) -> list[str]:
        """The units that every model has, the baseline first."""
        common = [set(subject.variants) for subject in self.subjects.values()]
        names = [unit for unit in self.first.variants if all(unit in each for each in common)]
        return sorted(names, key=lambda unit: unit != self.baseline)

    @property
    def work(self) -> ComparisonWork:
        """What a cell does."""
        return ComparisonWork(self.subjects, str(self.device))

    def header(self) -> dict[str, Any]:
        """Return what the study says about itself."""
        model = self.first.model
        training = model.training
        images = model.data.test.examples
        is_share = training.metric in ("accuracy", "error")
        return {
            "format": "gatewise study",
            "numerics": NUMERICS,
            "name": self.name,
            "title": self.title,
            "metric": {
                "name": training.metric,
                "higher_is_better": training.mode == "max",
                "unit": "%" if is_share else "",
                "scale": 100 if is_share else 1,
                "images": images if is_share else None,
            },
            "models": list(self.subjects),
            "baseline": self.baseline,
            "units": [self._unit_facts(unit) for unit in self.units],
            "left_out": [
                {"unit": each.unit, "model": name, "reason": each.reason}
                for name, subject in self.subjects.items()
                for each in subject.left_out
            ],
            "as_written": [
                {"model": name, "activations": joined(subject.as_written)}
                for name, subject in self.subjects.items()
                if subject.as_written
            ],
            "rates": self.grid.model_dump(),
            "seeds": self.seeds,
            "first_seed": self.first_seed,
            "margin": self.margin,
            "validation": model.data.validation is not None,
            "chance": self.chance,
            "settings": {
                "task": training.task,
                "data": model.data.name,
                "train_examples": model.data.train.examples,
                "test_examples": images,
                "data_sha256": model.data.digest,
                "model_sha256": [subject.weights for subject in self.subjects.values()],
                "recipe": model.recipe.model_dump(mode="json", exclude_unset=True),
                "device": describe_device(self.device),
                "unpaired": model.data.unpaired,
                "plans": [*self.plans, self.seeds],
            },
        }

    def cell(self, model: str, unit: str, step: int, seed: int) -> Cell:
        """Return a cell, which is made once."""
        place = (model, unit, step, seed)
        if place not in self._cells:
            self._cells[place] = self._new_cell(*place)
        return self._cells[place]

    def _new_cell(self, model: str, unit: str, step: int, seed: int) -> Cell:
        """Make a cell."""
        rate = self.grid.rate(step)
        config = self.subjects[model].config(unit, rate, seed)
        settings = {"numerics": NUMERICS, "config": plain_config(config)}
        labels = {"model": model, "unit": unit, "step": step, "rate": rate, "seed": seed}
        return Cell(EXPERIMENT, settings, labels)

    def wanted(self, records: Mapping[str, Record]) -> list[Cell]:
        """Return all cells that the study consists of, as far as the records say.

        These are the cells that have a record and those that the rule still asks for, seed by seed.
        """
        if self.shard is not None:
            part, parts = self.shard
            return list(self._planned())[part - 1 :: parts]
        found: list[Cell] = []
        known: list[Record] = []
        steps = grid_steps(self.grid.count)
        for place in product(self.subjects, self.units, map(int, steps), self._seeds):
            cell = self.cell(*place)
            record = records.get(cell.key)
            if record is not None:
                found.append(cell)
                known.append(record)
        study = CheckedStudy(self.header(), known)
        for model in self.subjects:
            found += [self.cell(model, *place) for place in missing_runs(study, model)]
        found.sort(key=lambda cell: (cell.labels["seed"], cell.labels["step"]))
        return found

    def missing(self, records: Mapping[str, Record]) -> list[Cell]:
        """Return the cells that the rule still asks for."""
        return [cell for cell in self.wanted(records) if cell.key not in records]

    def _planned(self) -> Iterator[Cell]:
        """Yield the cells of the plain grid, seed by seed."""
        for seed in self._seeds:
            for step in self.grid.steps:
                for model in self.subjects:
                    for unit in self.units:
                        yield self.cell(model, unit, step, seed)

    @property
    def _seeds(self) -> range:
        """The planned seeds."""
        return range(self.first_seed, self.first_seed + self.seeds)

    def _unit_facts(self, unit: str) -> dict[str, Any]:
        """Return what the study says about a unit."""
        variants = [subject.variants[unit] for subject in self.subjects.values()]
        base = [subject.variants[self.baseline].parameters for subject in self.subjects.values()]
        first = variants[0]
        ratios = [v.parameters / b for v, b in zip(variants, base, strict=True) if b]
        return {
            "name": first.unit.name or unit,
            "label": unit,
            "parameters": [variant.parameters for variant in variants],
            "parameters_ratio": max(ratios, key=lambda ratio: abs(ratio - 1)) if ratios else 1.0,
            "matched": "; ".join(sorted({variant.matched for variant in variants} - {""})),
            "stream": first.unit.stream,
            "options": {key: str(value) for key, value in first.unit.options.items()},
            "model_options": dict(first.unit.model),
            "checked": first.checked,
            "sites": [len(v.plan.swapped) if v.plan else 0 for v in variants],
        }
