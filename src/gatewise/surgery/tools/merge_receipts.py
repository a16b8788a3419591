"""What merging pairs of filters saved and cost."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import torch
from torch import Tensor

from gatewise.surgery.proof import Receipt
from gatewise.surgery.tools.opposite_pairs import Pair


@dataclass(frozen=True)
class MergeReceipt(Receipt):
    """What :func:`gatewise.merge_pairs` did.

    ``proof`` compares the merged model with the original one in which each pair of filters was
    replaced by its fit: these must be equal, whatever the tolerance. ``error`` and ``agreement``
    compare it with the original itself.
    """

    tolerance: float = 0.0
    pairs: Mapping[str, tuple[Pair, ...]] = field(default_factory=dict)  # of each site
    filters: tuple[int, int] = (0, 0)  # of the layers that were looked at, before and after
    error: float = 0.0  # of the outputs on the example: root mean square, relative
    agreement: float | None = (
        None  # share of the example's predictions that stay; None where outputs are no scores
    )
    corrected: tuple[str, ...] = ()  # layers whose weights were fitted anew

    def __str__(self) -> str:
        count = sum(len(each) for each in self.pairs.values())
        lines = [
            f"{count} pairs within {self.tolerance:g} merged, {self.filters[0]} filters to {self.filters[1]}"
        ]
        lines.append(f"parameters {self.parameters[0]:,} to {self.parameters[1]:,}")
        lines.append(f"operations {self.operations[0]:,} to {self.operations[1]:,}")
        lines.append(f"relative error of the output {self.error:.3g}")
        if self.agreement is not None:
            lines.append(f"predictions unchanged: {self.agreement:.1%}")
        return "\n".join(
            [*lines, *(f"{site}: {why}" for site, why in self.refused.items()), *self.notes]
        )


@dataclass(frozen=True)
class MergePoint:
    """One tolerance of a :class:`MergeCurve`."""

    tolerance: float
    pairs: int
    filters: tuple[int, int]
    parameters: tuple[int, int]
    operations: tuple[int, int]
    error: float
    agreement: float | None
    measured: float | None = None  # by the function that was given

    @property
    def saving(self) -> float:
        """The share of operations that is saved."""
        return 1 - self.operations[1] / max(1, self.operations[0])


@dataclass(frozen=True)
class MergeCurve:
    """What :func:`gatewise.merge_curve` found: error and saving for each tolerance."""

    points: tuple[MergePoint, ...]

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        return {"points": [{**asdict(point), "saving": point.saving} for point in self.points]}

    def to_json(self) -> str:
        """As text."""
        return json.dumps(self.to_dict())

    def plot(self, axes: Any = None) -> Any:
        """Draw what is lost against what is saved, on matplotlib ``axes`` or new ones.

        Returns the axes.
        """
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(figsize=(5, 3.5), layout="constrained").add_subplot()
        saved = [100 * point.saving for point in self.points]
        scores = [point.agreement for point in self.points]
        if all(score is not None for score in scores):
            axes.plot(saved, scores, marker="o", label="predictions unchanged")
        axes.plot(
            saved,
            [point.error for point in self.points],
            marker="s",
            label="relative error of the output",
        )
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
        from gatewise.surgery.planning import table

        heads = ("tolerance", "pairs", "filters", "operations saved", "error", "unchanged")
        return "\n".join(table(heads, [_row(point) for point in self.points]))


def _row(point: MergePoint) -> tuple[str, ...]:
    share = "" if point.agreement is None else f"{point.agreement:.1%}"
    filters = f"{point.filters[0]} to {point.filters[1]}"
    return (
        f"{point.tolerance:g}",
        str(point.pairs),
        filters,
        f"{point.saving:.2%}",
        f"{point.error:.3g}",
        share,
    )


def relative_error(before: Sequence[Tensor], after: Sequence[Tensor]) -> float:
    """Root mean square difference of the outputs, relative to their root mean square."""
    apart = sum(
        float((a.double() - b.double()).square().sum()) for a, b in zip(before, after, strict=True)
    )
    whole = sum(float(a.double().square().sum()) for a in before)
    return (apart / whole) ** 0.5 if whole else apart**0.5


def agreement(before: Sequence[Tensor], after: Sequence[Tensor]) -> float | None:
    """The share of equal predictions, if the one output is scores ``(N, classes)``."""
    if len(before) != 1 or before[0].dim() != 2 or before[0].shape[1] < 2:
        return None
    return float(torch.eq(before[0].argmax(1), after[0].argmax(1)).double().mean())
