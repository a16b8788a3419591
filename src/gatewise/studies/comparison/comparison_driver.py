"""Run a comparison of the user on the engine of studies: the same tuning, cells and folder."""

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gatewise.studies.comparison.user_models import UserModel, Variant, model_digest
from gatewise.studies.older import (
    Cell,
    Driver,
    Event,
    Facts,
    Group,
    Place,
    RunOptions,
    StudyFolder,
    StudyPlan,
    StudyProgress,
    Task,
    Tune,
    make_executor,
    remove_inexact_checkpoints,
    thread_share,
    training_content,
)
from gatewise.train import (
    Pace,
    Patience,
    Recipe,
    RunConfig,
    StopSignal,
    check,
    clock,
    describe_device,
    train,
)

TUNING = "tuning"
RECIPE = "recipe"  # the label of the one recipe
NO_FACTS = Facts(0, (0, 0, 0))  # only networks of the catalogue are built from them
ENDED = ("finished", "diverged", "failed", "lost")


@dataclass(frozen=True)
class UserStudy:
    """What a comparison asks of the engine, in place of the table of a study's file."""

    title: str
    seeds: tuple[int, ...]
    baseline: str
    margin: float | None
    match: str
    tune: Tune
    why_untuned: str  # if rates would have been tuned, and could not be
    patience: Patience | None
    evaluate_every: int
    device: torch.device


@dataclass(frozen=True)
class ComparisonTable:
    """A comparison in the form in which the driver reads a study."""

    study: UserStudy
    model: UserModel
    units: tuple[Mapping[str, str], ...]
    name: str

    @property
    def table(self) -> "ComparisonTable":
        """Itself."""
        return self

    @property
    def title(self) -> str:
        """The title of the page."""
        return self.study.title

    @property
    def seeds(self) -> tuple[int, ...]:
        """Of the final runs."""
        return self.study.seeds

    @property
    def baseline(self) -> str:
        """Label of the unit that all others are compared with."""
        return self.study.baseline

    @property
    def metric(self) -> str:
        """The judged metric, on the test set."""
        return f"test_{self.model.training.metric}"

    @property
    def higher_is_better(self) -> bool:
        """The direction of the metric."""
        return self.model.training.mode == "max"

    @property
    def margin(self) -> float | None:
        """The largest difference that does not matter to the user."""
        return self.study.margin

    @property
    def match(self) -> str:
        """The cost that widths are matched to."""
        return self.study.match

    @property
    def tune(self) -> Tune:
        """How learning rates are chosen."""
        return self.study.tune

    @property
    def plain(self) -> dict[str, Any]:
        """The comparison in plain values."""
        data = self.model.data
        return {
            "title": self.title,
            "units": [dict(unit) for unit in self.units],
            "baseline": self.baseline,
            "seeds": list(self.seeds),
            "backbones": [{"name": self.model.name, "model": self.model.name}],
            "data": [{"name": data.name, "label": data.name}],
            "recipe": self.model.recipe.model_dump(mode="json", exclude_unset=True),
            "match": self.match,
        }


@dataclass(frozen=True)
class CellTraining:
    """Trains a cell of a comparison, in any process that it is sent to."""

    model: UserModel
    variants: Mapping[str, Variant]
    device: str
    pace: Pace

    def __call__(self, task: Task, stop: StopSignal) -> dict[str, Any] | None:
        """Train one cell and return the fields of its record; None if stopped."""
        config = check(RunConfig, task.cell["config"], "run")
        variant = self.variants[task.cell["unit"]]
        remove_inexact_checkpoints(task.place, self.device)
        result = train(
            config,
            task.place,
            setup=lambda device: self.model.setup(variant, config, device),
            device=self.device,
            pace=self.pace,
            stop=stop,
        )
        content = training_content(result, task.place)
        if content is not None:
            content["paired"] = not self.model.data.unpaired
        return content


class ComparisonDriver(Driver):
    """Runs the cells of a comparison; see :class:`gatewise.studies.older.Driver`.

    Args:
        model: of the user.
        variants: the model with each unit in it.
        study: what is asked.
        folder: of the study.
        options: how to run.
        progress: whether to print what happens.
    """

    def __init__(
        self,
        model: UserModel,
        variants: Sequence[Variant],
        study: UserStudy,
        folder: StudyFolder,
        options: RunOptions,
        *,
        progress: bool,
    ) -> None:
        self.model = model
        self.variants = {variant.unit.label: variant for variant in variants}
        self.request = study
        self.weights = model_digest(model)
        units = []
        for variant in variants:
            units.append({"name": variant.unit.name or "none", "label": variant.unit.label})
        data = model.data
        name = f"{model.name} {self.weights[:8]} on {data.name} {data.digest[:8]}"
        table: Any = ComparisonTable(study, model, tuple(units), name)
        work = CellTraining(model, self.variants, str(study.device), options.pace)
        here = options.on in ("here", "local")
        threads = torch.get_num_threads() if here else options.threads or thread_share(options)
        super().__init__(
            table,
            folder,
            options,
            _PrintedProgress(self) if progress else None,
            StopSignal(),
            make_executor(options, threads, work),
        )
        self.cell_threads = threads

    def _plan(self) -> StudyPlan:
        """Return a group for each unit."""
        groups = []
        for variant in self.variants.values():
            config = self._config(variant)
            groups.append(Group(self._place(variant), config, NO_FACTS, variant.cost))
        return StudyPlan(groups, [])

    def _thread_count(self, before: dict[str, Any]) -> int:
        """Return the threads of this process, or of a worker elsewhere."""
        return self.cell_threads

    def _costed(self, groups: Sequence[Group], before: dict[str, Any]) -> list[Group]:
        """Return the groups: their costs were counted when units were put in."""
        return list(groups)

    def _load_data(self) -> dict[str, int]:
        """Return how many examples a learning rate is judged by, times the folds."""
        data = self.model.data
        self.data = {data.name: data.digest}
        if data.validation is not None:
            return {data.name: (data.validation.examples or 0) * self.request.tune.folds}
        return {data.name: data.train.examples or 0}

    def _place(self, variant: Variant) -> Place:
        """Return the labels of a variant."""
        return Place(variant.unit.label, self.model.name, self.model.data.name, RECIPE)

    def _config(self, variant: Variant) -> RunConfig:
        """Return the configuration that names a run; its digest is the key of the cell."""
        identity = {
            "model_sha256": self.weights,
            "drawn": self.model.drawn,
            "training_sha256": self.model.training.identity,
            **variant.identity,
        }
        return RunConfig(
            model=self.model.name,
            unit=variant.unit.label,
            model_options=identity,
            data=self.model.data.name,
            data_options={"sha256": self.model.data.digest},
            recipe=Recipe(**self.model.recipe.model_dump(exclude_unset=True)),
            seed=self.request.seeds[0],
            patience=self.request.patience,
            evaluate_every=self.request.evaluate_every,
        )

    def _content(self, cells: Sequence[Cell]) -> dict[str, Any]:
        """Return the content of ``study.json``."""
        content = super()._content(cells)
        for group in content["groups"]:
            variant = self.variants[group["unit"]]
            group["receipt"] = variant.receipt
            group["checked"] = variant.checked
        if self.request.why_untuned:
            content["tuning"]["why"] = self.request.why_untuned
        unpaired = self.model.data.unpaired
        return {
            **content,
            "origin": "gw.compare",
            "task": self.model.training.task,
            "device": describe_device(self.request.device),
            "batches": {"paired": not unpaired, "why": unpaired},
        }


class _PrintedProgress:
    """Prints how many runs there are, how long they take, and a line for each that has ended."""

    def __init__(self, driver: ComparisonDriver) -> None:
        self.driver = driver
        self.told: set[str] = set()

    def __call__(self, progress: StudyProgress, event: Event | None) -> None:
        planned = progress.planned
        if planned is not None and self._first("planned"):
            _print(f"planned: {planned.words}")
        estimate = progress.estimate
        if estimate is not None and progress.ended_now and self._first("estimate"):
            _print(f"time: {estimate.words(untuned='tune=False', seeds='seeds=')}")
        ended = progress.done + progress.failed
        if event is None or event.kind not in ENDED:
            return
        if progress.stage == TUNING and event.kind == "finished" and ended < progress.total:
            return  # one line for each round is enough
        cell = self.driver.cells[event.key]
        left = estimate.left if estimate is not None else progress.seconds_left
        time = f", {clock(left)} left" if left else ""
        rate = "" if cell.lr is None or not self.driver.search.blocks else f", rate {cell.lr:g}"
        run = f"{cell.place.unit}{rate}, seed {cell.config.seed} {event.kind}"
        reason = f" ({event.reason})" if event.kind != "finished" and event.reason else ""
        _print(f"{progress.stage} {ended} of {progress.total}: {run}{reason}{time}")

    def _first(self, what: str) -> bool:
        """Return whether this is told for the first time."""
        if what in self.told:
            return False
        self.told.add(what)
        return True


def _print(line: str) -> None:
    """Print a line of progress."""
    print(line, file=sys.stderr, flush=True)
