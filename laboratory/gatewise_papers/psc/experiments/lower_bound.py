"""Supplement B's bound on fitting |x| after a rectifier, and supplement A's rule for ranks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

from gatewise.graph import parameter_count
from gatewise.stats import mean, standard_deviation
from gatewise.studies import CellCall, FunctionCell
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
from gatewise_papers.psc.experiments import published
from gatewise_papers.psc.experiments.absolute_value import Fit, error, least_squares, train_fit
from gatewise_papers.psc.layers import LowRankPSConv2d, equal_parameter_rank

BOUND = float(published.LOWER_BOUND)
# The error is quadratic. Weights that are 0.01 off, as trained ones may be, change it by at most
# 2 (1/3 + 1 + 1) 0.01^2.
NEAR = 5e-4
ROUNDING = 1e-12
ONE = "one weight after a rectifier"
BOTH = "a weight for each phase"
MODELS = {ONE: False, BOTH: True}
RANKS = "ranks"
NOTES = (
    "the error is the integral over [-1, 1], of length 2: the mean square is half of it, 1/15",
    "the rank is rounded down, which the paper leaves out: at the next one two compressed weights "
    "are larger than a plain one; N counts inputs times the kernel's area; biases are not counted",
    "networks are trained on a thousand points by Adam; "
    "their errors are computed exactly from the weights they found",
)


@dataclass(frozen=True)
class PscLowerBoundSettings:
    """Nothing here is smaller than in the paper, which trains nothing."""

    reduced: str = ""
    epochs: int = 30
    layers: tuple[tuple[int, int, int], ...] = (
        (16, 16, 3),
        (64, 64, 3),
        (128, 128, 3),
        (256, 256, 3),
        (256, 64, 1),
        (64, 256, 1),
        (64, 64, 1),
    )  # channels in, channels out, kernel


def cells(settings: PscLowerBoundSettings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return one training per model and seed, and the counting of ranks."""
    declared = []
    for name, phases in MODELS.items():
        for seed in seeds:
            values = {"seed": seed, "phases": phases, "epochs": settings.epochs}
            declared.append(FunctionCell(_cell_name(name, seed), train_fit, values))
    declared.append(FunctionCell(RANKS, count_ranks, {"layers": settings.layers}))
    return declared


def count_ranks(cell: CellCall) -> list[dict[str, Any]]:
    """Count parameters of each layer in the cell's settings at the rule's rank and at the next."""
    return [_rank(*layer) for layer in cell.settings["layers"]]


def findings(values: CellValues) -> Findings:
    """Compare the three fits of either model with the bound, and the ranks with the rule."""
    fits: dict[str, list[Fit]] = {}
    for name in MODELS:
        fits[name] = [values[_cell_name(name, seed)] for seed in values.seeds]
    ranks = values[RANKS]
    exact = error(published.BEST_WEIGHT, published.BEST_WEIGHT * 0, published.BEST_BIAS)
    best = _exact_row(f"error at w = b = 2/5, {ONE}", float(exact), BOUND)
    rows = [
        replace(best, published=BOUND),
        *_fit_rows(ONE, fits[ONE], BOUND),
        *_fit_rows(BOTH, fits[BOTH], 0.0),
    ]
    for layer in ranks:
        what = f"parameters over a plain layer's, {layer['layer']}"
        rows.append(_exact_row(what, layer["ours"], layer["rule"]))
    claims = [*_fit_claims(fits), *_rank_claims(ranks)]
    return Findings([_panel(fits)], rows, claims, NOTES)


def _cell_name(name: str, seed: int) -> str:
    """Return the name of the cell of one training."""
    return f"train {name}, seed {seed}"


def _exact_row(what: str, value: float, closed_form: float) -> Row:
    """Return the row of a number that must equal its closed form."""
    return Row(what, value, None, 1, closed_form=closed_form, within=ROUNDING)


def _fit_rows(name: str, fits: Sequence[Fit], bound: float) -> list[Row]:
    """Return the rows of least squares and of training for one model."""
    errors = [error(*fit) for fit in fits]
    solved = error(*least_squares(phases=MODELS[name]))
    trained = Row(
        what=f"error after training, {name}",
        ours=mean(errors),
        spread=standard_deviation(errors) if len(errors) > 1 else None,
        seeds=len(errors),
        closed_form=bound,
        within=NEAR,
    )
    return [_exact_row(f"error by least squares, {name}", solved, bound), trained]


def _rank(inputs: int, outputs: int, kernel: int) -> dict[str, Any]:
    """Return parameters at the rule's rank and at the next, over those of a plain layer.

    They are counted on layers.
    """
    area = inputs * kernel**2
    plain = area * outputs
    rank = equal_parameter_rank(area, outputs)
    exact = Fraction(area * outputs, 2 * (area + outputs))

    def share(rank: int) -> float:
        """Return the parameters at a rank over those of a plain layer."""
        layer = LowRankPSConv2d(inputs, outputs, kernel, bias=False, rank=rank)
        return parameter_count(layer) / plain

    return {
        "layer": f"{inputs} to {outputs} channels, {kernel}x{kernel}",
        "rank": rank,
        "ours": share(rank),
        "above": share(rank + 1),
        "rule": 2 * rank * (area + outputs) / plain,
        "exact_rank": float(exact),
        "is_identity": 2 * exact * (area + outputs) == area * outputs,
        "full_rank": min(area, outputs),
    }


def _fit_claims(fits: dict[str, list[Fit]]) -> list[Claim]:
    """Judge the lower bound, and that two weights fit exactly."""
    one = [error(*fit) for fit in fits[ONE]]
    both = [error(*fit) for fit in fits[BOTH]]
    solved_one = error(*least_squares(phases=False))
    solved_both = error(*least_squares(phases=True))
    lowest = min([*one, solved_one])
    return [
        counted(
            published.BOUND_HOLDS,
            lowest >= BOUND - ROUNDING,
            f"2/15 = {BOUND:.6f}; least squares {solved_one:.6f}, "
            f"the best trained network {min(one):.6f}",
        ),
        counted(
            published.PHASES_FIT,
            solved_both <= ROUNDING and max(both) <= NEAR,
            f"least squares {solved_both:.1e}, the worst trained network {max(both):.1e}",
        ),
    ]


def _rank_claims(ranks: list[dict[str, Any]]) -> list[Claim]:
    """Judge the rule for ranks."""
    shares = []
    freedom = []
    for layer in ranks:
        rank = f"rank {layer['rank']} of {layer['exact_rank']:.2f}"
        shares.append(f"{layer['layer']}: {layer['ours']:.3f} ({rank})")
        total = 2 * layer["exact_rank"]
        freedom.append(f"{layer['layer']}: {total:.1f} and {layer['full_rank']}")
    return [
        counted(
            published.EQUAL_PARAMETERS,
            all(layer["is_identity"] and layer["ours"] <= 1 < layer["above"] for layer in ranks),
            "2 r (N + M) = NM is an identity at the rank as printed; at the rank rounded down, of "
            f"the parameters of a plain one: {', '.join(shares)}; at the next whole rank always "
            "more",
        ),
        counted(
            published.LESS_FREEDOM,
            all(2 * layer["exact_rank"] < layer["full_rank"] for layer in ranks),
            ", ".join(freedom),
        ),
    ]


def _panel(fits: dict[str, list[Fit]]) -> Panel:
    """Return the plot of |x| and the first seed's fits."""
    x = [place / 20 - 1 for place in range(41)]
    lines = [Line("|x|", x, [abs(value) for value in x], theory=True)]
    for name, by_seed in fits.items():
        w, v, b = by_seed[0]
        lines.append(Line(name, x, [w * max(u, 0) + v * min(u, 0) + b for u in x]))
    return Panel("trained, seed 0", "x", "fit of |x|", lines)


EXPERIMENT = Experiment(
    name="psc/lower_bound",
    title="|x| after a rectifier and with both phases; ranks at equal parameters",
    scales={
        "tiny": PscLowerBoundSettings(
            "12 epochs, three layers",
            epochs=12,
            layers=((16, 16, 3), (64, 64, 1), (256, 64, 1)),
        ),
        "desk": PscLowerBoundSettings(),
        "full": PscLowerBoundSettings(),
    },
    cells=cells,
    findings=findings,
    own_loop=True,
    seeds=5,
)
