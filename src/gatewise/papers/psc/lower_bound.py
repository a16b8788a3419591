"""Supplement B's lower bound on fitting |x| after a rectifier, and supplement A's rule for ranks."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from gatewise.layers import LowRankPSConv2d, equal_parameter_rank
from gatewise.papers.common import (
    Claim,
    Experiment,
    Findings,
    Line,
    Panel,
    Row,
    Run,
    deviation,
    mean,
)
from gatewise.papers.psc import published
from gatewise.papers.psc.absolute_value import Fit, error, least_squares, trained

BOUND = float(published.LOWER_BOUND)
# The error is quadratic: with weights 0.01 off, which trained ones may be, by 2 (1/3 + 1 + 1)
# 0.01^2 at most.
NEAR = 5e-4
ROUNDING = 1e-12
ONE, BOTH = "one weight after a rectifier", "a weight for each phase"


@dataclass(frozen=True)
class Settings:
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


def measure(run: Run) -> Findings:
    """The three fits of either model, and the parameters at the rule's rank."""
    sizes: Settings = run.settings
    fits = {
        name: [
            run.cell(
                f"train {name}, seed {seed}",
                lambda seed=seed, phases=phases: trained(seed, phases=phases, epochs=sizes.epochs),
            )
            for seed in run.seeds
        ]
        for name, phases in ((ONE, False), (BOTH, True))
    }
    ranks = run.cell("ranks", lambda: [_rank(*layer) for layer in sizes.layers])
    exact = error(published.BEST_WEIGHT, published.BEST_WEIGHT * 0, published.BEST_BIAS)
    rows = [
        replace(_exactly(f"error at w = b = 2/5, {ONE}", float(exact), BOUND), published=BOUND),
        *_fitted(ONE, fits[ONE], BOUND, phases=False),
        *_fitted(BOTH, fits[BOTH], 0.0, phases=True),
        *(
            _exactly(
                f"parameters over a plain layer's, {each['layer']}", each["ours"], each["rule"]
            )
            for each in ranks
        ),
    ]
    return Findings(_panels(fits), rows, [*_fit_claims(fits), *_rank_claims(ranks)], NOTES)


NOTES = (
    "the error is the integral over [-1, 1], of length 2: the mean square is half of it, 1/15",
    "the rank is rounded down, which the paper leaves out: at the next one two compressed weights are larger than a "
    "plain one; N counts inputs times the kernel's area; biases are not counted",
    "networks are trained on a thousand points by Adam; their errors are computed exactly from the weights they found",
)


def _exactly(what: str, value: float, closed_form: float) -> Row:
    return Row(what, value, None, 1, closed_form=closed_form, within=ROUNDING)


def _fitted(name: str, fits: Sequence[Fit], bound: float, *, phases: bool) -> list[Row]:
    errors = [error(*fit) for fit in fits]
    spread = deviation(errors) if len(errors) > 1 else None
    return [
        _exactly(f"error by least squares, {name}", error(*least_squares(phases=phases)), bound),
        Row(
            f"error after training, {name}",
            mean(errors),
            spread,
            len(errors),
            closed_form=bound,
            within=NEAR,
        ),
    ]


def _rank(inputs: int, outputs: int, kernel: int) -> dict[str, float | str]:
    """Parameters at the rule's rank and at the next, over those of a plain layer.

    Counted on layers.
    """
    area, plain = inputs * kernel**2, inputs * outputs * kernel**2
    rank = equal_parameter_rank(area, outputs)
    ours, above = (
        sum(
            each.numel()
            for each in LowRankPSConv2d(inputs, outputs, kernel, bias=False, rank=r).parameters()
        )
        / plain
        for r in (rank, rank + 1)
    )
    name = f"{inputs} to {outputs} channels, {kernel}x{kernel}"
    return {
        "layer": name,
        "rank": rank,
        "ours": ours,
        "above": above,
        "rule": 2 * rank * (area + outputs) / plain,
        "exact_rank": area * outputs / (2 * (area + outputs)),
        "full_rank": min(area, outputs),
    }


def _fit_claims(fits: dict[str, list[Fit]]) -> list[Claim]:
    one, both = ([error(*fit) for fit in fits[name]] for name in (ONE, BOTH))
    solved = {phases: error(*least_squares(phases=phases)) for phases in (False, True)}
    lowest = min([*one, solved[False]])
    return [
        Claim(
            published.BOUND_HOLDS,
            lowest >= BOUND - ROUNDING,
            f"2/15 = {BOUND:.6f}; least squares {solved[False]:.6f}, the best trained network {min(one):.6f}",
        ),
        Claim(
            published.PHASES_FIT,
            solved[True] <= ROUNDING and max(both) <= NEAR,
            f"least squares {solved[True]:.1e}, the worst trained network {max(both):.1e}",
        ),
    ]


def _rank_claims(ranks: list[dict]) -> list[Claim]:
    shares = ", ".join(
        f"{each['layer']}: {each['ours']:.3f} (rank {each['rank']} of {each['exact_rank']:.2f})"
        for each in ranks
    )
    freedom = ", ".join(
        f"{each['layer']}: {2 * each['exact_rank']:.1f} and {each['full_rank']}" for each in ranks
    )
    return [
        Claim(
            published.EQUAL_PARAMETERS,
            all(each["ours"] == 1 for each in ranks),
            f"never more, and less where the rank is not whole: {shares}",
        ),
        Claim(
            published.LESS_FREEDOM,
            all(2 * each["exact_rank"] < each["full_rank"] for each in ranks),
            freedom,
        ),
    ]


def _panels(fits: dict[str, list[Fit]]) -> list[Panel]:
    x = [place / 20 - 1 for place in range(41)]

    def drawn(w: float, v: float, b: float) -> list[float]:
        return [w * max(each, 0) + v * min(each, 0) + b for each in x]

    lines = [Line("|x|", x, [abs(each) for each in x], theory=True)]
    lines += [Line(name, x, drawn(*found[0])) for name, found in fits.items()]
    return [Panel("trained, seed 0", "x", "fit of |x|", lines)]


EXPERIMENT = Experiment(
    name="psc/lower_bound",
    title="|x| after a rectifier and with both phases; ranks at equal parameters",
    scales={
        "tiny": Settings(
            "12 epochs, three layers", epochs=12, layers=((16, 16, 3), (64, 64, 1), (256, 64, 1))
        ),
        "cpu": Settings(),
        "full": Settings(),
    },
    measure=measure,
    seeds=5,
)
