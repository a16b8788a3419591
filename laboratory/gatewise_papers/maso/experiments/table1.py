"""Table 1: which nonlinearities hard, soft and beta vector quantisation give.

Each row of the table names a function for two sets of parameters: those of ReLU and those of
max-pooling. The weights that maximise the row's objective are found by a search, and the output
with them is compared with PyTorch's own function of that name.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from gatewise.layers import BetaPool2d
from gatewise.studies import CellCall, FunctionCell
from gatewise.units import create_unit
from gatewise_papers.common import CellValues, Experiment, Findings, Line, Panel, Row, counted
from gatewise_papers.maso.experiments import published
from gatewise_papers.maso.experiments.simplex_maximum import NEAR, best_mean

HARD = 1.0
SOFT = 0.5
LARGEST = 6.0  # of the inputs
WITHIN = 10 * NEAR * LARGEST
ROUNDING = 1e-14 * LARGEST
NOTES = (
    "Hard is beta 1, soft is beta 1/2. For beta in between, the steepness of swish is "
    "beta / (1 - beta) (Proposition 7).",
    "The search moves weight between two places at a time and uses no formula of the solution.",
)


@dataclass(frozen=True)
class MasoTable1Settings:
    """The paper proves the table and draws nothing."""

    reduced: str = ""
    inputs: int = 61  # numbers, and as many pooling regions of four numbers
    betas: tuple[float, ...] = (0.2, 0.4, 0.6, 0.8, 0.9)


def cells(settings: MasoTable1Settings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return one cell per beta and seed."""
    declared = []
    for beta in _all_betas(settings):
        for seed in seeds:
            values = {"beta": beta, "inputs": settings.inputs, "seed": seed}
            declared.append(FunctionCell(_cell_name(beta, seed), compare_forms, values))
    return declared


def compare_forms(cell: CellCall) -> dict[str, Any]:
    """Compute ReLU's form and the pooling form at one beta in three ways.

    The settings of the cell are ``beta``, ``inputs`` and ``seed``.

    Returns:
        For each of the two: the largest differences of the search and of this library from
        PyTorch's own functions, and the curve of ReLU's form.
    """
    beta, count = cell.settings["beta"], cell.settings["inputs"]
    generator = torch.Generator().manual_seed(cell.settings["seed"])
    x = torch.linspace(-LARGEST, LARGEST, count, dtype=torch.float64)
    regions = torch.randn(count, 4, dtype=torch.float64, generator=generator).clamp(-6, 6)
    by_torch = _unit_of_torch(beta)(x)
    pooled = _pooling_of_torch(beta)(regions)
    pool = BetaPool2d(2, beta=beta, dtype=torch.float64)
    with torch.no_grad():
        by_layer = pool(regions.reshape(count, 1, 2, 2)).flatten()
    by_unit = create_unit("beta_vq", pieces="relu", beta=beta)(x)
    searched = x.new_tensor([best_mean((0.0, u), beta) for u in x.tolist()])
    searched_pool = x.new_tensor([best_mean(region, beta) for region in regions.tolist()])
    return {
        "unit": float((by_unit - by_torch).abs().max()),
        "unit_search": float((searched - by_torch).abs().max()),
        "pool": float((by_layer - pooled).abs().max()),
        "pool_search": float((searched_pool - pooled).abs().max()),
        "x": x.tolist(),
        "y": by_unit.tolist(),
    }


def findings(values: CellValues) -> Findings:
    """Compare the three computations, and judge each row of the table."""
    settings: MasoTable1Settings = values.settings
    rows = []
    lines = []
    claims = []
    kinds = {
        published.HARD_ROW: (HARD,),
        published.SOFT_ROW: (SOFT,),
        published.BETA_ROW: settings.betas,
    }
    for sentence, betas in kinds.items():
        kind_rows = []
        for beta in betas:
            by_seed = [values[_cell_name(beta, seed)] for seed in values.seeds]
            kind_rows += _rows(beta, by_seed)
            lines.append(Line(f"beta {beta:g}", by_seed[0]["x"], by_seed[0]["y"]))
        agreeing = sum(row.agrees is True for row in kind_rows)
        words = f"{agreeing} of {len(kind_rows)} comparisons within their tolerance"
        claims.append(counted(sentence, agreeing == len(kind_rows), words))
        rows += kind_rows
    panel = Panel("the forms that ReLU's parameters give", "x", "output", lines)
    return Findings([panel], rows, claims, NOTES)


def _rows(beta: float, by_seed: Sequence[dict[str, Any]]) -> list[Row]:
    """Return the largest differences at one beta."""
    unit, pooling = _names(beta)
    rows = []
    for key, what, within in (
        ("unit_search", f"{unit}: search and PyTorch", WITHIN),
        ("unit", f"{unit}: beta_vq and PyTorch", ROUNDING),
        ("pool_search", f"{pooling}: search and PyTorch", WITHIN),
        ("pool", f"{pooling}: BetaPool2d and PyTorch", ROUNDING),
    ):
        apart = max(seed[key] for seed in by_seed)
        named = f"{what}, beta {beta:g}, largest difference"
        rows.append(Row(named, apart, None, len(by_seed), closed_form=0.0, within=within))
    return rows


def _names(beta: float) -> tuple[str, str]:
    """Return the two examples in the table's row of a beta."""
    if beta == HARD:
        return "ReLU", "max-pooling"
    if beta == SOFT:
        return "SiLU", "softmax-pooling"
    return "swish", "beta-softmax-pooling"


def _unit_of_torch(beta: float) -> Callable[[Tensor], Tensor]:
    """Return the function of one variable, made of PyTorch's functions."""
    if beta == HARD:
        return F.relu
    if beta == SOFT:
        return F.silu
    steepness = beta / (1 - beta)
    return lambda x: x * torch.sigmoid(steepness * x)


def _pooling_of_torch(beta: float) -> Callable[[Tensor], Tensor]:
    """Return the pooling of the last dimension, made of PyTorch's functions."""
    if beta == HARD:
        return lambda x: x.amax(1)
    steepness = beta / (1 - beta)
    return lambda x: (x * torch.softmax(steepness * x, 1)).sum(1)


def _all_betas(settings: MasoTable1Settings) -> tuple[float, ...]:
    """Return every beta, the hard and the soft one first."""
    return (HARD, SOFT, *settings.betas)


def _cell_name(beta: float, seed: int) -> str:
    """Return the name of a cell."""
    return f"beta {beta:g}, seed {seed}"


EXPERIMENT = Experiment(
    name="maso/table1",
    title="the functions that hard, soft and beta vector quantisation give",
    scales={
        "tiny": MasoTable1Settings("9 inputs and one beta", inputs=9, betas=(0.8,)),
        "desk": MasoTable1Settings(),
        "full": MasoTable1Settings(inputs=601),
    },
    cells=cells,
    findings=findings,
    seeds=3,
)
