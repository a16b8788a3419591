"""Theorem 2.2: the error of a reconstruction from CReLU and max-pooling is within its bound.

Inputs are drawn that are sums of shifted filters, one shift of each, as the theorem assumes. Ratio
and bound are computed twice: by `gatewise.analysis.reconstruct`, which stores no matrix, and from
the matrices of the theorem with singular values and pseudo-inverses.
"""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import torch
from torch import nn

from gatewise.analysis import reconstruct
from gatewise.stats import mean
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
    row,
)
from gatewise_papers.crelu.experiments.shared import published

TOLERANCE = 1e-12  # at which the solver of the library stops
# The bound is a difference of eigenvalues under a root: an eigenvalue's rounding error of 1e-15
# becomes 3e-8 where the difference vanishes.
ROUNDING = 1e-7
# Responses this close to the largest one, relative to it, are equal but for rounding: a filter's
# shift by one to the left and by one to the right have the same inner product with the filter.
EQUAL = 1e-12
LARGEST_DIFFERENCE = "largest difference from explicit matrices, {}, {}"
NOTES = (
    "One pooling region holds all shifts of a filter, as the theorem is written.",
    "Where no shift of a filter responds with the sign of its coefficient, the matrix of the "
    "theorem has no column for it; the bound holds with the other columns.",
    "The printed proof takes the response at a coefficient's shift to have the coefficient's sign. "
    "Inputs for which that is false are counted; the proof on the page of this paper does without.",
    "The tighter bound, sqrt(1 - least / largest eigenvalue), is what the proof gives.",
    "Where two shifts of a filter have equal responses, rounding decides which one pooling keeps. "
    "The two computations may then keep different shifts, so such inputs are not compared.",
)


@dataclass(frozen=True)
class FilterSizes:
    """Sizes of one layer: n = (size - length) / stride + 1 shifts of each filter."""

    filters: int
    length: int
    size: int
    stride: int = 1

    @property
    def words(self) -> str:
        """The sizes as the rows name them."""
        return f"K={self.filters}, l={self.length}, D={self.size}, s={self.stride}"


@dataclass(frozen=True)
class CreluTheorem22Settings:
    """The paper proves the theorem and draws nothing."""

    reduced: str = ""
    inputs: int = 100  # of each layer and seed
    layers: tuple[FilterSizes, ...] = (
        FilterSizes(2, 5, 12),
        FilterSizes(4, 5, 20),
        FilterSizes(4, 6, 24, 2),
        FilterSizes(8, 9, 40),
    )


def cells(settings: CreluTheorem22Settings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return one cell per layer and seed."""
    declared = []
    for sizes in settings.layers:
        for seed in seeds:
            values = {**asdict(sizes), "inputs": settings.inputs, "seed": seed}
            declared.append(FunctionCell(_cell_name(sizes, seed), measure_layer, values))
    return declared


def measure_layer(cell: CellCall) -> dict[str, Any]:
    """Draw filters and inputs, and compute ratio and bound in both ways.

    The settings of the cell are those of :class:`FilterSizes`, ``inputs`` and ``seed``.
    """
    values = dict(cell.settings)
    count = values.pop("inputs")
    generator = np.random.default_rng(values.pop("seed"))
    sizes = FilterSizes(**values)
    filters = generator.standard_normal((sizes.filters, sizes.length))
    shifts = shifted(filters, sizes)
    coefficients = _one_shift_each(shifts.shape[:2], count, generator)
    x = np.einsum("bkn,knd->bd", coefficients, shifts)
    explicit = []
    for factors, signal in zip(coefficients, x, strict=True):
        explicit.append(from_matrices(shifts, factors, signal))
    return {**_by_library(filters, sizes, coefficients, x), "explicit": explicit}


def shifted(filters: np.ndarray, sizes: FilterSizes) -> np.ndarray:
    """Return the shifts of every filter, (filters, shifts, size): the columns of W by blocks."""
    count = (sizes.size - sizes.length) // sizes.stride + 1
    shifts = np.zeros((sizes.filters, count, sizes.size))
    for j in range(count):
        begin = j * sizes.stride
        shifts[:, j, begin : begin + sizes.length] = filters
    return shifts


def from_matrices(
    shifts: np.ndarray, coefficients: np.ndarray, x: np.ndarray
) -> dict[str, float | bool]:
    """Return ratio, bounds and solver's error of one input, by the matrices of the theorem.

    Args:
        shifts: of every filter, (filters, shifts, size).
        coefficients: of the input, (filters, shifts), one that is not 0 in each row.
        x: the input.
    """
    responses = shifts @ x
    kept = []
    matching = []
    signs_agree = True
    tied = False
    for filter_shifts, response, factors in zip(shifts, responses, coefficients, strict=True):
        place = int(np.flatnonzero(factors)[0])
        wanted = float(np.sign(factors[place]))
        signs_agree &= bool(np.sign(response[place]) == wanted)
        for sign in (1.0, -1.0):
            best = int((sign * response).argmax())
            if sign * response[best] > 0:
                kept.append(filter_shifts[best])
                tied |= bool(np.sum(sign * response > sign * response[best] * (1 - EQUAL)) > 1)
                if sign == wanted:
                    matching.append(filter_shifts[best])
    known = np.stack(kept)  # the shifts that pooling keeps, as rows
    rebuilt = np.linalg.pinv(known) @ (known @ x)
    singular = np.linalg.svd(known, compute_uv=False)
    singular = singular[singular > singular[0] * max(known.shape) * np.finfo(float).eps]
    present = shifts[coefficients != 0]
    least = float(np.linalg.svd(present, compute_uv=False)[-1] ** 2)
    largest = float(np.linalg.svd(np.stack(matching), compute_uv=False)[0] ** 2)
    return {
        "ratio": float(np.linalg.norm(x - rebuilt) / np.linalg.norm(x)),
        "bound": math.sqrt(max(largest - least, 0.0) / least),
        "tighter_bound": math.sqrt(max(1 - least / largest, 0.0)),
        "condition": float(singular[0] / singular[-1]) ** 2,
        "signs_agree": signs_agree,
        "tied": tied,
    }


def findings(values: CellValues) -> Findings:
    """Compare ratios with bounds, and the library with explicit matrices."""
    settings: CreluTheorem22Settings = values.settings
    rows = []
    lines = []
    measured = []
    for sizes in settings.layers:
        by_seed = [values[_cell_name(sizes, seed)] for seed in values.seeds]
        drawn = [one for seed in by_seed for one in seed["explicit"]]
        rows += _rows(sizes, by_seed, drawn)
        lines.append(Line(sizes.words, column(drawn, "bound"), column(drawn, "ratio")))
        measured += drawn
    panel = Panel("reconstruction ratio by bound", "bound", "ratio", _sorted(lines), log_x=True)
    claims = [claim(measured), claim(measured, "tighter_bound")]
    return Findings([panel], rows, claims, NOTES)


def claim(drawn: Sequence[dict[str, Any]], bound: str = "bound") -> Claim:
    """Judge a bound by every drawn input.

    Args:
        drawn: what :func:`from_matrices` returned for each input.
        bound: the printed one, or ``"tighter_bound"``.
    """
    above = [one for one in drawn if one["ratio"] > one[bound] + ROUNDING]
    nearest = max((one["ratio"] / one[bound] for one in drawn if one[bound]), default=0.0)
    other_sign = sum(not one["signs_agree"] for one in drawn)
    evidence = (
        f"proven; {len(drawn) - len(above):,} of {len(drawn):,} drawn inputs are within the bound; "
        f"the largest ratio is {nearest:.3g} of its bound; {other_sign:,} of them break a step of "
        "the printed proof"
    )
    words = published.POOLING_BOUND if bound == "bound" else published.TIGHTER_POOLING_BOUND
    return counted(words, not above, evidence)


def _one_shift_each(
    shape: tuple[int, ...], count: int, generator: np.random.Generator
) -> np.ndarray:
    """Return coefficients (count, filters, shifts), one that is not 0 for each filter."""
    filters, shifts = shape
    coefficients = np.zeros((count, filters, shifts))
    places = generator.integers(shifts, size=(count, filters))
    factors = generator.standard_normal((count, filters))
    np.put_along_axis(coefficients, places[..., None], factors[..., None], axis=2)
    return coefficients


def _by_library(
    filters: np.ndarray, sizes: FilterSizes, coefficients: np.ndarray, x: np.ndarray
) -> dict[str, list[float]]:
    """Return ratios and both bounds by `gatewise.analysis.reconstruct`."""
    conv = nn.Conv1d(1, sizes.filters, sizes.length, sizes.stride, bias=False, dtype=torch.float64)
    conv.weight.data = torch.from_numpy(filters)[:, None]
    result = reconstruct(
        conv,
        torch.from_numpy(x)[:, None],
        pool=nn.MaxPool1d(coefficients.shape[2]),
        tolerance=TOLERANCE,
        coefficients=torch.from_numpy(coefficients),
    )
    assert result.bound is not None and result.tighter_bound is not None  # noqa: S101 - computed with coefficients
    return {
        "ratios": result.ratio.tolist(),
        "bound": result.bound.tolist(),
        "tighter_bound": result.tighter_bound.tolist(),
    }


def _rows(
    sizes: FilterSizes, by_seed: Sequence[dict[str, Any]], drawn: Sequence[dict[str, Any]]
) -> list[Row]:
    """Return the agreement of both computations and the mean ratio of one layer."""
    ratios = [ratio for seed in by_seed for ratio in seed["ratios"]]
    apart = 0.0
    for ratio, one in zip(ratios, drawn, strict=True):
        if one["tied"]:
            continue
        # The solver's residual is relative; an error of the solution is at most the condition of
        # the normal equations times larger.
        apart = max(apart, abs(ratio - one["ratio"]) / (TOLERANCE * one["condition"] + ROUNDING))
    tied = [sum(one["tied"] for one in seed["explicit"]) for seed in by_seed]
    name = sizes.words
    ratio_words = LARGEST_DIFFERENCE.format("ratio over its tolerance", name)
    bound_rows = []
    for kind, words in (("bound", "bound, relative"), ("tighter_bound", "tighter bound")):
        bounds = [bound for seed in by_seed for bound in seed[kind]]
        far = 0.0
        for bound, one in zip(bounds, drawn, strict=True):
            if not one["tied"]:
                far = max(far, abs(bound - one[kind]) / (1 + bound))
        what = LARGEST_DIFFERENCE.format(words, name)
        bound_rows.append(Row(what, far, None, 1, closed_form=0.0, within=ROUNDING))
    return [
        Row(ratio_words, apart, None, 1, closed_form=0.0, within=1.0),
        *bound_rows,
        row(f"inputs with equal responses, not compared, {name}", tied),
        row(f"mean ratio, {name}", [mean(seed["ratios"]) for seed in by_seed]),
    ]


def _sorted(lines: Sequence[Line]) -> list[Line]:
    """Return the lines with their points ordered by x."""
    ordered = []
    for one in lines:
        pairs = sorted(zip(one.x, one.mean, strict=True))
        ordered.append(Line(one.label, column(pairs, 0), column(pairs, 1)))
    return ordered


def _cell_name(sizes: FilterSizes, seed: int) -> str:
    """Return the name of a cell."""
    return f"{sizes.words}, seed {seed}"


EXPERIMENT = Experiment(
    name="crelu/theorem2_2",
    title="the bound on what CReLU and max-pooling lose",
    scales={
        "tiny": CreluTheorem22Settings(
            "two layers, 10 inputs a seed",
            inputs=10,
            layers=(FilterSizes(2, 5, 12), FilterSizes(4, 6, 24, 2)),
        ),
        "desk": CreluTheorem22Settings(),
        "full": CreluTheorem22Settings(inputs=1000),
    },
    cells=cells,
    findings=findings,
    seeds=5,
)
