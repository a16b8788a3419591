"""Figure 1: how beta turns ReLU, the absolute value and a convex function into soft forms.

Every curve is computed twice: by the unit ``beta_vq``, and by a search for the weights that
maximise the paper's equation (8), which knows no formula of the solution.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch

from gatewise.studies import CellCall, FunctionCell
from gatewise.units import create_unit
from gatewise_papers.common import (
    CellValues,
    Claim,
    Experiment,
    Findings,
    Line,
    Panel,
    Row,
    counted,
)
from gatewise_papers.maso.experiments import published
from gatewise_papers.maso.experiments.simplex_maximum import NEAR, best_mean

HARD = 1.0
SOFT = 0.5
LINEAR = 0.0
# Slopes and offsets. The paper draws a third function and does not say which.
FUNCTIONS: dict[str, tuple[tuple[float, ...], tuple[float, ...]]] = {
    "ReLU": ((0.0, 1.0), (0.0, 0.0)),
    "absolute value": ((-1.0, 1.0), (0.0, 0.0)),
    "a convex function of 4 pieces": ((-1.0, -0.25, 0.5, 2.0), (-1.0, 0.0, 0.0, -2.0)),
}
NOTES = (
    "The paper does not say which convex function it draws. Ours is the maximum of "
    "-x - 1, -x / 4, x / 2 and 2x - 2.",
    "A form counts as nonconvex if a point of its curve lies above the middle of its neighbours "
    "by more than rounding.",
)
# A search finds weights to about NEAR; a curve is a mean of numbers of at most LARGEST.
LARGEST = 8.0
WITHIN = 10 * NEAR * LARGEST
BENT = 1e-9


@dataclass(frozen=True)
class MasoFigure1Settings:
    """Nothing is smaller than in the paper."""

    reduced: str = ""
    points: int = 81  # from -4 to 4
    betas: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)


def cells(settings: MasoFigure1Settings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return one cell per function; nothing is random."""
    del seeds
    betas = (LINEAR, *settings.betas, HARD)
    declared = []
    for name, (slopes, offsets) in FUNCTIONS.items():
        values = {
            "slopes": slopes,
            "offsets": offsets,
            "points": settings.points,
            "betas": betas,
        }
        declared.append(FunctionCell(name, draw_curves, values))
    return declared


def draw_curves(cell: CellCall) -> list[dict[str, Any]]:
    """Return the curve of one function at every beta, computed in both ways.

    The settings of the cell are ``slopes``, ``offsets``, ``points`` and ``betas``.
    """
    slopes, offsets = cell.settings["slopes"], cell.settings["offsets"]
    x = torch.linspace(-4, 4, cell.settings["points"], dtype=torch.float64)
    curves = []
    for beta in cell.settings["betas"]:
        y = create_unit("beta_vq", pieces=(slopes, offsets), beta=beta)(x)
        searched = [best_mean(_pieces(at, slopes, offsets), beta) for at in x.tolist()]
        curves.append({"beta": beta, "x": x.tolist(), "y": y.tolist(), "searched": searched})
    return curves


def is_nonconvex(y: Sequence[float]) -> bool:
    """Return whether a point lies above the middle of its neighbours.

    Args:
        y: values at points of equal distance.
    """
    for before, here, after in zip(y, y[1:], y[2:], strict=False):
        if here > (before + after) / 2 + BENT:
            return True
    return False


def findings(values: CellValues) -> Findings:
    """Compare both computations and the special cases; judge what the caption says."""
    panels = []
    rows = []
    nonconvex = {}
    for name in FUNCTIONS:
        curves = values[name]
        panels.append(Panel(name, "x", "output", _lines(curves)))
        rows += _rows(name, curves)
        inner = [curve for curve in curves if LINEAR < curve["beta"] < HARD]
        nonconvex[name] = [curve["beta"] for curve in inner if is_nonconvex(curve["y"])]
    return Findings(panels, rows, [_claim(nonconvex)], NOTES)


def _claim(nonconvex: dict[str, list[float]]) -> Claim:
    """Judge whether some forms are not convex."""
    counts = [f"{name}: {len(betas)}" for name, betas in nonconvex.items()]
    holds = any(nonconvex.values())
    return counted(published.SOME_NONCONVEX, holds, f"nonconvex forms of {'; '.join(counts)}")


def _rows(name: str, curves: Sequence[dict[str, Any]]) -> list[Row]:
    """Return how far the two computations and the special cases are apart."""
    slopes, offsets = FUNCTIONS[name]
    apart = 0.0
    for curve in curves:
        apart = max(apart, _largest_difference(curve["y"], curve["searched"]))
    x = curves[0]["x"]
    by_beta = {curve["beta"]: curve["y"] for curve in curves}
    pieces = [_pieces(at, slopes, offsets) for at in x]
    hard = _largest_difference(by_beta[HARD], [max(row) for row in pieces])
    means = [sum(row) / len(row) for row in pieces]
    linear = _largest_difference(by_beta[LINEAR], means)
    rounding = 1e-14 * LARGEST
    return [
        Row(f"{name}: unit and search, largest difference", apart, None, 1, None, 0.0, WITHIN),
        Row(f"{name}: beta 1 and the maximum, difference", hard, None, 1, None, 0.0, rounding),
        Row(f"{name}: beta 0 and the mean, difference", linear, None, 1, None, 0.0, rounding),
    ]


def _lines(curves: Sequence[dict[str, Any]]) -> list[Line]:
    """Return a line per beta; the hard and the soft form are named as the paper names them."""
    lines = []
    for curve in curves:
        beta = curve["beta"]
        label = {HARD: "hard, beta 1", SOFT: "soft, beta 0.5"}.get(beta, f"beta {beta:g}")
        lines.append(Line(label, curve["x"], curve["y"], theory=beta == SOFT))
    return lines


def _pieces(x: float, slopes: Sequence[float], offsets: Sequence[float]) -> list[float]:
    """Return the affine pieces at one point."""
    return [slope * x + offset for slope, offset in zip(slopes, offsets, strict=True)]


def _largest_difference(first: Sequence[float], second: Sequence[float]) -> float:
    """Return the largest absolute difference of two curves."""
    return max(abs(a - b) for a, b in zip(first, second, strict=True))


EXPERIMENT = Experiment(
    name="maso/figure1",
    title="soft forms of ReLU, the absolute value and a convex function",
    scales={
        "tiny": MasoFigure1Settings("9 points and 2 betas", points=9, betas=(0.5, 0.8)),
        "desk": MasoFigure1Settings(),
        "full": MasoFigure1Settings(points=401),
    },
    cells=cells,
    findings=findings,
    seeds=1,
)
