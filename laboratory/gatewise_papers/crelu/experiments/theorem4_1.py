"""Theorem 4.1: the Rademacher complexity of CReLU and a linear map, against its bound.

Classes of a few functions are drawn on a few samples, so that complexities are exact. They are
computed twice: by `gatewise.analysis.rademacher`, which uses a closed form, and by going through
all signs and all choices of functions for the layer.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

import torch

from gatewise.analysis import rademacher
from gatewise.studies import CellCall, FunctionCell
from gatewise_papers.common import (
    CellValues,
    Claim,
    Experiment,
    Findings,
    Line,
    Panel,
    Row,
    column,
    counted,
)
from gatewise_papers.crelu.experiments.shared import published

COUNTER_EXAMPLE = "one function with the values 1 and -1"
UNITS = ("base", "relu", "crelu")
# Sums of at most 2^samples numbers of size 1 in float64, in two orders.
ROUNDING = 1e-12
NOTES = (
    "Step S3 to S4 of the proof replaces the two phases of a function by the function itself, "
    "which is no equality. With the factor 3 / sqrt(2) the bound is proved "
    "(`gatewise.analysis.rademacher`).",
    "Classes are drawn with normal values; complexities are exact, over all signs.",
)


@dataclass(frozen=True)
class CreluTheorem41Settings:
    """The paper proves the theorem and measures nothing."""

    reduced: str = ""
    classes: int = 20  # drawn for each size and seed
    sizes: tuple[tuple[int, int, int], ...] = (
        (1, 2, 1),
        (1, 5, 1),
        (2, 5, 2),
        (3, 6, 2),
        (3, 6, 3),
    )  # functions, samples, width


def cells(settings: CreluTheorem41Settings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return the counter-example, and one cell per size and seed."""
    declared = [FunctionCell(COUNTER_EXAMPLE, measure_counter_example)]
    for size in settings.sizes:
        for seed in seeds:
            values = {"size": list(size), "classes": settings.classes, "seed": seed}
            declared.append(FunctionCell(_cell_name(size, seed), measure_classes, values))
    return declared


def measure_counter_example(cell: CellCall) -> dict[str, Any]:
    """Compute the complexities of the smallest class that violates the printed bound."""
    return _both_ways([[1.0, -1.0]], width=1)


def measure_classes(cell: CellCall) -> list[dict[str, Any]]:
    """Draw classes of the size in the cell's settings and compute their complexities."""
    functions, samples, width = cell.settings["size"]
    generator = torch.Generator().manual_seed(cell.settings["seed"])
    shape = (cell.settings["classes"], functions, samples)
    drawn = torch.randn(shape, generator=generator, dtype=torch.float64)
    return [_both_ways(values, width) for values in drawn.tolist()]


def enumerated(values: Sequence[Sequence[float]], width: int) -> dict[str, float]:
    """Return exact complexities by going through all signs and all functions of the layer.

    Args:
        values: of each function on each sample.
        width: the number of functions of the layer, chosen freely and with repetition.

    Returns:
        Of the class (``base``), and of a linear map of norm 1 after ReLU and after CReLU.
    """
    samples = len(values[0])
    totals = dict.fromkeys(UNITS, 0.0)
    for signs in product((-1.0, 1.0), repeat=samples):
        sums = []
        for function in values:
            positive = sum(s * max(v, 0.0) for s, v in zip(signs, function, strict=True))
            negative = sum(s * max(-v, 0.0) for s, v in zip(signs, function, strict=True))
            sums.append((positive, negative))
        layers = list(product(sums, repeat=width))
        # A linear map of norm 1 reaches the length of the vector that it multiplies.
        totals["base"] += max(abs(p - n) for p, n in sums)
        totals["relu"] += max(math.hypot(*column(layer, 0)) for layer in layers)
        totals["crelu"] += max(math.hypot(*(x for pair in layer for x in pair)) for layer in layers)
    return {name: 2 / samples * total / 2**samples for name, total in totals.items()}


def _both_ways(values: Sequence[Sequence[float]], width: int) -> dict[str, Any]:
    """Return the complexities by enumeration and by the library, and the printed bound."""
    found = rademacher(torch.tensor(values, dtype=torch.float64), width=width)
    return {
        "enumerated": enumerated(values, width),
        "library": {name: getattr(found, name) for name in UNITS},
        "exact": found.exact,
        "printed": found.printed_bound,
        "corrected": found.bound,
    }


def findings(values: CellValues) -> Findings:
    """Compare complexities with the printed and the corrected bound."""
    settings: CreluTheorem41Settings = values.settings
    smallest = values[COUNTER_EXAMPLE]
    over = smallest["enumerated"]["crelu"] / smallest["printed"]
    words = f"complexity with CReLU over the printed bound, {COUNTER_EXAMPLE}"
    rows = [Row(words, over, None, 1, closed_form=math.sqrt(2), within=ROUNDING)]
    every = [smallest]
    lines = []
    for size in settings.sizes:
        drawn = [one for seed in values.seeds for one in values[_cell_name(size, seed)]]
        over_printed = sorted(one["enumerated"]["crelu"] / one["printed"] for one in drawn)
        rows.append(_agreement(size, drawn))
        rows.append(
            Row(
                f"largest complexity over the printed bound, {_words(size)}",
                over_printed[-1],
                None,
                1,
            )
        )
        shares = [(place + 1) / len(drawn) for place in range(len(drawn))]
        lines.append(Line(_words(size), over_printed, shares))
        every += drawn
    panel = Panel("complexity over the printed bound", "quotient", "share of classes", lines)
    return Findings([panel], rows, [claim(every)], NOTES)


def claim(measured: Sequence[dict[str, Any]]) -> Claim:
    """Judge the theorem by every class.

    Args:
        measured: complexities and bounds of each class.
    """

    def above(bound: str, unit: str = "crelu") -> int:
        """Count the classes whose complexity is above a bound."""
        return sum(one["enumerated"][unit] > one[bound] * (1 + ROUNDING) for one in measured)

    evidence = (
        f"with CReLU {above('printed'):,} of {len(measured):,} classes are above the printed "
        f"bound, with ReLU {above('printed', 'relu'):,}; {above('corrected'):,} are above the "
        f"bound with the factor 3 / sqrt(2); {COUNTER_EXAMPLE} is above by a factor of sqrt(2)"
    )
    return counted(published.COMPLEXITY_BOUND, not above("printed"), evidence)


def _agreement(size: tuple[int, int, int], drawn: Sequence[dict[str, Any]]) -> Row:
    """Return the largest difference between both computations."""
    apart = 0.0
    for one in drawn:
        for name in UNITS:
            apart = max(apart, abs(one["library"][name] - one["enumerated"][name]))
    words = f"largest difference from going through all choices, {_words(size)}"
    return Row(words, apart, None, 1, closed_form=0.0, within=ROUNDING)


def _words(size: tuple[int, int, int]) -> str:
    """Return a size as the rows name it."""
    functions, samples, width = size
    return f"|F|={functions}, L={samples}, d={width}"


def _cell_name(size: tuple[int, int, int], seed: int) -> str:
    """Return the name of a cell."""
    return f"{_words(size)}, seed {seed}"


EXPERIMENT = Experiment(
    name="crelu/theorem4_1",
    title="the bound on the complexity of CReLU",
    scales={
        "tiny": CreluTheorem41Settings("two sizes, 3 classes a seed", 3, ((1, 2, 1), (2, 5, 2))),
        "desk": CreluTheorem41Settings(),
        "full": CreluTheorem41Settings(classes=100),
    },
    cells=cells,
    findings=findings,
    seeds=5,
)
