"""The header and the records of a study, checked. Verdicts, pages and tables read nothing else."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationError,
    field_validator,
    model_validator,
)

from gatewise.errors import DamagedFileError, shorten
from gatewise.stats import FEWEST_RATES, FactorialRuns, grid_steps, planned_steps
from gatewise.studies.engine import DIVERGED, DONE, FAILED

MOST_RUNS = 1_000_000
MOST_RATES = 64
# Numbers whose squares and quotients are finite.
Moderate = Annotated[float, Field(ge=-1e100, le=1e100)]
Positive = Annotated[float, Field(ge=1e-30, le=1e30)]


class Facts(BaseModel):
    """A checked part of a study. Fields that are not known are ignored."""

    model_config = ConfigDict(extra="ignore", frozen=True, strict=True, allow_inf_nan=False)


class MetricFacts(Facts):
    """The judged metric.

    Attributes:
        name: Of the metric.
        higher_is_better: Whether larger values are better.
        unit: Of shown values.
        scale: What a recorded value is multiplied with to be shown: 100 for a share in percent.
        images: Test examples, if the metric is a share of them.
        step: The smallest step of recorded values where ``images`` is not known.
    """

    name: str = Field(min_length=1, max_length=200)
    higher_is_better: bool = True
    unit: str = Field("", max_length=40)
    scale: Positive = 1.0
    images: int | None = Field(None, ge=1)
    step: float = Field(0.0, ge=0, le=1e100)

    @property
    def floor(self) -> float:
        """The smallest step of recorded values; 0 if it is not known."""
        return 1 / self.images if self.images else self.step

    @property
    def sign(self) -> float:
        """What recorded values are multiplied with so that larger is better."""
        return 1.0 if self.higher_is_better else -1.0


class UnitFacts(Facts):
    """A unit of a study.

    Attributes:
        label: How records and pages name it.
        name: Of the unit in the catalogue.
        parameters_ratio: Parameters of the network divided by the baseline's.
        matched: How the parameters were matched, in words.
    """

    label: str = Field(min_length=1, max_length=200)
    name: str = ""
    parameters_ratio: Positive | None = None
    matched: str = ""


class RateGrid(Facts):
    """The learning rates of a study, at equal ratios.

    A rate has a place in half steps of the grid, counted from the middle.

    Attributes:
        center: The rate at step 0.
        ratio: Of two neighbouring planned rates, which are two steps apart.
        count: The number of planned rates: 1, or 4 and more.
    """

    center: Positive
    ratio: float = Field(default=10**0.5, gt=1, le=1e6)
    count: int = Field(5, ge=1, le=MOST_RATES)

    @field_validator("count")
    @classmethod
    def _enough(cls, count: int) -> int:
        if 1 < count < FEWEST_RATES:
            raise ValueError("2 and 3 rates cannot be judged together")
        return count

    def rate(self, step: float) -> float:
        """Return the learning rate at a number of half steps, to four digits."""
        return float(f"{self.center * self.ratio ** (step / 2):.4g}")

    @property
    def steps(self) -> list[int]:
        """The steps of the planned rates."""
        return [int(step) for step in planned_steps(self.count)]

    @property
    def rates(self) -> list[float]:
        """The planned rates."""
        return [self.rate(step) for step in self.steps]


class StudyHeader(Facts):
    """What a study says about itself.

    Attributes:
        format: ``"gatewise study"``.
        name: Of the study.
        title: Of its page.
        metric: The judged metric.
        models: The networks or tasks. Each has verdicts of its own.
        baseline: The label of the unit that others are compared with.
        units: All units.
        rates: The learning rates; None if they are not known.
        seeds: The number of planned seeds.
        first_seed: The seeds are this one and those after it.
        margin: Differences smaller than this are equivalent, in recorded values.
        validation: Whether the place of the peak comes from validation data.
        chance: What the best constant prediction reaches, in recorded values.
        origin: ``"table"`` for runs made elsewhere, to which no rates can be added.
        paired: None to pair runs by seed where they overlap, False to pair none.
        comparisons: How many comparisons share the level; by default one per unit.
        left_out: Units that were not compared, with reasons.
        as_written: Activations that the code of a model writes out, so that they stay as they are
            with every unit.
        notes: How a table was read.
        settings: Everything else that is shown.
    """

    format: Literal["gatewise study"] = "gatewise study"
    name: str = "study"
    title: str = ""
    metric: MetricFacts
    models: list[str] = Field(min_length=1, max_length=1000)
    baseline: str
    units: list[UnitFacts] = Field(min_length=1, max_length=1000)
    rates: RateGrid | None = None
    seeds: int = Field(ge=1, le=100_000)
    first_seed: int = Field(0, ge=0, le=10**9)
    margin: Positive | None = None
    validation: bool = False
    chance: Moderate | None = None
    origin: str = ""
    paired: bool | None = None
    comparisons: int | None = Field(None, ge=1)
    left_out: list[dict[str, str]] = []
    as_written: list[dict[str, str]] = []
    notes: list[str] = []
    settings: dict[str, Any] = {}

    @model_validator(mode="after")
    def _consistent(self) -> "StudyHeader":
        labels = [unit.label for unit in self.units]
        if self.baseline not in labels:
            raise ValueError(f"the baseline {self.baseline!r} is not among the units")
        if len(set(labels)) < len(labels) or len(set(self.models)) < len(self.models):
            raise ValueError("two units or two models have one name")
        rates = self.rates.count if self.rates else 1
        if len(self.models) * len(labels) * rates * self.seeds > MOST_RUNS:
            raise ValueError(f"the study has more than {MOST_RUNS:,} runs")
        return self

    @property
    def labels(self) -> list[str]:
        """The units' labels, the baseline first."""
        return sorted((unit.label for unit in self.units), key=lambda name: name != self.baseline)

    @property
    def family(self) -> int:
        """How many comparisons share the level."""
        return self.comparisons or max(1, len(self.units) - 1)


class RunRecord(Facts):
    """One run.

    Attributes:
        model: Of the header.
        unit: The label of a unit.
        step: Half steps of the grid from the recipe's rate.
        rate: The learning rate.
        seed: One of the planned seeds.
        status: ``"done"``, ``"diverged"`` or ``"failed"``.
        value: Of the judged metric; None if there is none.
        validation: The same on validation data.
        metrics: All metrics by name.
        error: Why the run failed.
        seconds: Of training.
        processor_seconds: Of training.
        parameters: Of the network.
        machine: What the run was made on.
    """

    model: str
    unit: str
    step: int = 0
    rate: Positive | None = None
    seed: int = Field(ge=0)
    status: Literal["done", "diverged", "failed"]
    value: Moderate | None = None
    validation: Moderate | None = None
    metrics: dict[str, Moderate | None] = {}
    error: str | None = None
    seconds: Moderate | None = None
    processor_seconds: Moderate | None = None
    parameters: int | None = Field(None, ge=0, le=10**18)
    machine: dict[str, Any] = {}

    @model_validator(mode="after")
    def _has_value(self) -> "RunRecord":
        if self.status == DONE and self.value is None:
            raise ValueError("a run that is done has a value")
        return self


class CheckedStudy:
    """A checked study: its header and its records.

    Args:
        header: What the study says about itself.
        records: One mapping per run, in any order.

    Raises:
        DamagedFileError: If something is missing or has the wrong form.
    """

    def __init__(
        self,
        header: Mapping[str, Any],
        records: Sequence[Mapping[str, Any]],
    ) -> None:
        self.header = _checked(StudyHeader, header, "the header of the study")
        self.records = [
            _checked(RunRecord, record, f"record {place}")
            for place, record in enumerate(records, 1)
        ]
        self.plain_header = dict(header)
        self.plain_records = [dict(record) for record in records]
        self._check_places()

    @cached_property
    def steps(self) -> list[int]:
        """All steps that the study may have, in order."""
        rates = self.header.rates
        return [int(step) for step in grid_steps(rates.count if rates else 1)]

    @property
    def planned(self) -> list[int]:
        """The steps of the planned rates."""
        return self.header.rates.steps if self.header.rates else [0]

    def rate(self, step: float) -> float | None:
        """Return the learning rate at a step, as it was recorded; None if it is not known."""
        recorded = self._recorded_rates.get(step)
        if recorded is not None:
            return recorded
        return self.header.rates.rate(step) if self.header.rates else None

    @cached_property
    def _recorded_rates(self) -> dict[float, float]:
        """The learning rates of the records by step."""
        if self.header.rates is None:
            return {}
        return {float(one.step): one.rate for one in self.records if one.rate is not None}

    def of_model(self, model: str) -> list[RunRecord]:
        """Return the records of one model."""
        return self._by_model.get(model, [])

    @cached_property
    def _by_model(self) -> dict[str, list[RunRecord]]:
        records: dict[str, list[RunRecord]] = {}
        for record in self.records:
            records.setdefault(record.model, []).append(record)
        return records

    def has_collapsed(self, record: RunRecord) -> bool:
        """Return whether a run ended no better than the best constant prediction."""
        chance = self.header.chance
        if record.status != DONE or chance is None or record.value is None:
            return False
        sign = self.header.metric.sign
        return sign * record.value <= sign * chance

    def runs(self, model: str) -> FactorialRuns:
        """Return the runs of one model as arrays, the baseline first.

        A run that collapsed counts as diverged. Of a table, a rate at which a unit lacks a seed is
        lost for that unit.

        Args:
            model: Of the header.
        """
        header = self.header
        metric = header.metric
        units = {label: place for place, label in enumerate(header.labels)}
        steps = {step: place for place, step in enumerate(self.steps)}
        shape = (1, len(units), len(steps), header.seeds)
        values = np.full(shape, np.nan)
        validation = np.full(shape, np.nan)
        diverged = np.zeros(shape, bool)
        lost = np.zeros(shape, bool)
        for record in self.of_model(model):
            place = (0, units[record.unit], steps[record.step], record.seed - header.first_seed)
            diverged[place] = record.status == DIVERGED or self.has_collapsed(record)
            lost[place] = record.status == FAILED
            if record.status == DONE and record.value is not None:
                values[place] = metric.sign * record.value
                if record.validation is not None:
                    validation[place] = metric.sign * record.validation
                else:
                    lost[place] |= header.validation
        if header.origin:
            planned = np.isin(self.steps, self.planned)[:, None]
            lost |= planned & ~diverged & ~np.isfinite(values)
        return FactorialRuns.of(
            values,
            header.rates.count if header.rates else 1,
            diverged=diverged,
            lost=lost,
            chance=None if header.chance is None else metric.sign * header.chance,
            floor=metric.floor,
            validation=validation if header.validation else None,
        )

    def _check_places(self) -> None:
        """Raise if a record is not of this study, or two are of one place."""
        header = self.header
        models = set(header.models)
        units = set(header.labels)
        steps = set(self.steps)
        seeds = range(header.first_seed, header.first_seed + header.seeds)
        known = set()
        for number, record in enumerate(self.records, 1):
            place = (record.model, record.unit, record.step, record.seed)
            fits = record.model in models and record.unit in units and record.step in steps
            if not fits or record.seed not in seeds or place in known:
                problem = "is there twice" if place in known else "is not of this study"
                raise DamagedFileError(
                    f"record {number} {problem}",
                    got=f"model {record.model!r}, unit {record.unit!r}, step {record.step}, "
                    f"seed {record.seed}",
                )
            known.add(place)


def _checked(kind: type[Any], content: Any, what: str) -> Any:
    """Return checked content, or raise an error that names the field."""
    try:
        return kind.model_validate(content)
    except ValidationError as problem:
        first = problem.errors(include_url=False)[0]
        field = ".".join(map(str, first["loc"]))
        given = shorten(repr(first.get("input")), 80)
        raise DamagedFileError(
            f"{what} cannot be used: {field or 'it'}: {first['msg']}", got=given
        ) from None
    except RecursionError:
        raise DamagedFileError(f"{what} is nested too deeply") from None
