"""The result of a comparison, made from its header and records alone."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any

from gatewise.errors import ArgumentError
from gatewise.studies.answer.checked_study import CheckedStudy, StudyHeader
from gatewise.studies.answer.judging import judge_models, missing_runs
from gatewise.studies.answer.metric_display import MetricDisplay, metric_display
from gatewise.studies.answer.rows import ModelAnswer, UnitRow
from gatewise.studies.answer.text import text_lines
from gatewise.studies.engine import plain
from gatewise.words import FitsScreen


class ComparisonResult(FitsScreen):
    """What a study says: one row per unit, with a verdict when all runs have ended.

    ``print(result)`` shows the answer. ``result["gelu"]`` is the row of a unit.

    Args:
        header: What the study says about itself.
        records: One mapping per run, in any order.

    Raises:
        DamagedFileError: If the header or a record has the wrong form.
    """

    def __init__(
        self,
        header: Mapping[str, Any],
        records: Sequence[Mapping[str, Any]],
    ) -> None:
        self.study = CheckedStudy(header, records)

    @property
    def header(self) -> StudyHeader:
        """What the study says about itself."""
        return self.study.header

    @property
    def records(self) -> Sequence[Mapping[str, Any]]:
        """The records as they were given."""
        return self.study.plain_records

    @property
    def title(self) -> str:
        """Of the page."""
        return self.header.title or self.header.name

    @property
    def units(self) -> list[str]:
        """The labels of all units, the baseline first."""
        return self.header.labels

    @property
    def baseline(self) -> str:
        """The label of the baseline."""
        return self.header.baseline

    @cached_property
    def answers(self) -> dict[str, ModelAnswer]:
        """The rows of every model."""
        return judge_models(self.study)

    @cached_property
    def display(self) -> MetricDisplay:
        """How values of the metric are written."""
        return metric_display(self.study, list(self.answers.values()))

    @property
    def has_curves(self) -> bool:
        """Whether there are several learning rates, of which each unit has a best one."""
        return self.header.rates is not None and self.header.rates.count > 1

    @property
    def is_preliminary(self) -> bool:
        """Whether runs are still asked for, so that there are no verdicts."""
        return any(answer.is_preliminary for answer in self.answers.values())

    def missing(self, model: str) -> list[tuple[str, int, int]]:
        """Return the runs that the rule still asks for: unit, step and seed, seed by seed.

        Args:
            model: Of the header.
        """
        self._check_model(model)
        return missing_runs(self.study, model)

    def rows(self, model: str | None = None) -> Sequence[UnitRow]:
        """Return the rows of a model, the baseline first, then from best to worst.

        Args:
            model: Of the header; not needed if there is only one.
        """
        return self.answer(model).rows

    def answer(self, model: str | None = None) -> ModelAnswer:
        """Return what is said about one model.

        Args:
            model: Of the header; not needed if there is only one.
        """
        if model is None and len(self.header.models) == 1:
            model = self.header.models[0]
        self._check_model(model)
        return self.answers[str(model)]

    def __getitem__(self, unit: str) -> UnitRow:
        return self.answer()[unit]

    def __str__(self) -> str:
        return "\n".join(self.lines)

    @property
    def lines(self) -> list[str]:
        """The answer as lines of text."""
        return text_lines(self)

    def to_dict(self) -> dict[str, Any]:
        """Return the result as plain values: header, records, and the verdicts."""
        return {
            "header": self.study.plain_header,
            "records": self.study.plain_records,
            "answers": plain(self.answers),
            "text": self.lines,
        }

    def _check_model(self, model: str | None) -> None:
        """Raise if a model is not of this study."""
        if model not in self.header.models:
            raise ArgumentError(
                "comparison: no such model",
                got=model,
                allowed=", ".join(self.header.models),
            )
