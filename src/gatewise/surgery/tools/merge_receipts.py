"""The results of merging pairs of filters: what it saves, and the error."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from gatewise.results import Result
from gatewise.surgery.planning import table
from gatewise.surgery.proof import Receipt
from gatewise.surgery.tools.filter_pairs import Pair


@dataclass(frozen=True)
class MergeReceipt(Receipt):
    """What :func:`gatewise.surgery.merge_pairs` did.

    ``proof`` compares the merged model with the original in which each pair of filters was replaced
    by its fit. These must be equal, whatever the tolerance. ``error`` and ``agreement`` compare the
    merged model with the original itself.

    Attributes:
        tolerance: The tolerance of the pairs.
        pairs: The merged pairs of each site.
        filters: The number of filters in the layers that were checked, before and after.
        error: Root mean square error of the outputs on the example, relative to their root mean
            square.
        agreement: Share of the predictions on the example that stay. ``None`` if the outputs are
            not class scores.
        corrected: The layers whose weights were fitted again.
    """

    tolerance: float = 0.0
    pairs: Mapping[str, tuple[Pair, ...]] = field(default_factory=dict)
    filters: tuple[int, int] = (0, 0)
    error: float = 0.0
    agreement: float | None = None
    corrected: tuple[str, ...] = ()

    def __str__(self) -> str:
        count = sum(map(len, self.pairs.values()))
        lines = [
            f"{count} pairs within {self.tolerance:g} merged, "
            f"{self.filters[0]} filters to {self.filters[1]}",
            f"parameters {self.parameters[0]:,} to {self.parameters[1]:,}",
            f"operations {self.operations[0]:,} to {self.operations[1]:,}",
            f"relative error of the output {self.error:.3g}",
        ]
        if self.agreement is not None:
            lines.append(f"predictions unchanged: {self.agreement:.1%}")
        lines += [f"{site} not changed: {reason}" for site, reason in self.refused.items()]
        return "\n".join([*lines, *self.notes])


@dataclass(frozen=True)
class MergePoint(Result):
    """One tolerance of a :class:`MergeCurve`.

    The fields are those of :class:`MergeReceipt`. ``measured`` is the result of the function that
    was passed as ``measure``.
    """

    _properties = ("saving",)

    tolerance: float
    pairs: int
    filters: tuple[int, int]
    parameters: tuple[int, int]
    operations: tuple[int, int]
    error: float
    agreement: float | None
    measured: float | None = None

    @property
    def saving(self) -> float:
        """The share of the operations that is saved."""
        return 1 - self.operations[1] / max(1, self.operations[0])


@dataclass(frozen=True)
class MergeCurve(Result):
    """The result of :func:`gatewise.surgery.merge_curve`: error and saving for each tolerance."""

    points: tuple[MergePoint, ...]

    def to_json(self) -> str:
        """Return the curve as JSON text."""
        return json.dumps(self.to_dict())

    def plot(self, axes: Any = None) -> Any:
        """Plot error and unchanged predictions against the operations saved.

        Args:
            axes: Matplotlib axes. New axes by default.

        Returns:
            The axes.
        """
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(figsize=(5, 3.5), layout="constrained").add_subplot()
        saved = [100 * point.saving for point in self.points]
        scores = [point.agreement for point in self.points]
        if all(score is not None for score in scores):
            axes.plot(saved, scores, marker="o", label="predictions unchanged")
        errors = [point.error for point in self.points]
        axes.plot(saved, errors, marker="s", label="relative error of the output")
        for x, point in zip(saved, self.points, strict=True):
            axes.annotate(
                f"{point.tolerance:g}",
                (x, point.error),
                textcoords="offset points",
                xytext=(3, 5),
                fontsize=7,
            )
        axes.set(xlabel="operations saved (%)", ylim=(0, None))
        axes.legend()
        return axes

    def __str__(self) -> str:
        heads = ("tolerance", "pairs", "filters", "operations saved", "error", "unchanged")
        rows = []
        for point in self.points:
            row = (
                f"{point.tolerance:g}",
                str(point.pairs),
                f"{point.filters[0]} to {point.filters[1]}",
                f"{point.saving:.2%}",
                f"{point.error:.3g}",
                "" if point.agreement is None else f"{point.agreement:.1%}",
            )
            rows.append(row)
        return "\n".join(table(heads, rows))
