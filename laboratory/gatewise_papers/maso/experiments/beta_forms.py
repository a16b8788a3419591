"""Section 6: beta forms of leaky ReLU and the absolute value against swish."""

from collections.abc import Mapping

from gatewise_papers.common import (
    TINY,
    ByRate,
    CellValues,
    Claim,
    Experiment,
    Findings,
    Level,
    UnitTableSettings,
    judge_over_rates,
    unit_cells,
    unit_findings,
    unit_runs,
)
from gatewise_papers.maso.experiments import published

SWISH = "swish"
ABS = "beta form of abs"
LEAKY = "beta form of leaky ReLU"
ARMS = {
    SWISH: {"unit": "swish"},
    ABS: {"unit": {"name": "beta_vq", "pieces": "abs", "learn_beta": True}},
    LEAKY: {"unit": {"name": "beta_vq", "pieces": "leaky_relu", "learn_beta": True}},
    "beta form of ReLU": {"unit": {"name": "beta_vq", "pieces": "relu", "learn_beta": True}},
    "ReLU": {"unit": "relu"},
    "leaky ReLU": {"unit": "leaky_relu"},
    "abs": {"unit": "abs"},
}
NOTES = (
    "every beta starts at 1/2 and is trained, one for each channel; swish trains its own number",
    "ReLU, leaky ReLU and abs are the limits beta = 1. The beta form of ReLU is swish in another "
    "parametrisation",
)


def findings(values: CellValues) -> Findings:
    """Compare the beta forms with swish."""
    return unit_findings(values, claims, NOTES)


def claims(test: Mapping[str, ByRate], chance: float) -> list[Claim]:
    """Judge whether the beta forms are better than swish.

    Args:
        test: accuracies by arm and rate, one per seed.
        chance: the accuracy of a guess.
    """
    return [
        judge_over_rates(published.BETA_BEATS_SWISH, test, [ABS, LEAKY], [SWISH], chance=chance)
    ]


EXPERIMENT = Experiment(
    name="maso/beta_forms",
    title="beta forms of abs and leaky ReLU against swish",
    scales={
        "tiny": UnitTableSettings(ARMS, "25 images of CIFAR-10, 1 epoch", TINY, rates=(0.5,)),
        "desk": UnitTableSettings(ARMS),
    },
    cells=unit_cells,
    findings=findings,
    trainings=unit_runs,
    seeds=5,
    levels=(Level("test accuracy, ReLU"),),
    needs=("CIFAR-10",),
)
