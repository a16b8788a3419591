"""Section 6: beta forms of leaky ReLU and the absolute value against swish."""

from gatewise.studies import CheckedStudy
from gatewise_papers.common import (
    Claim,
    Level,
    UnitTableSettings,
    judge_over_rates,
    unit_table_experiment,
    unit_with,
)
from gatewise_papers.maso.experiments import published

SWISH = "swish"
ABS = "beta form of abs"
LEAKY = "beta form of leaky ReLU"


def _beta_form(label: str, pieces: str) -> dict:
    """Return a unit with a trained beta for each channel."""
    return unit_with(label, unit={"name": "beta_vq", "pieces": pieces, "learn_beta": True})


DESK = UnitTableSettings(
    (
        unit_with(SWISH, unit="swish"),
        _beta_form(ABS, "abs"),
        _beta_form(LEAKY, "leaky_relu"),
        _beta_form("beta form of ReLU", "relu"),
        unit_with("leaky ReLU", unit="leaky_relu"),
        unit_with("abs", unit="abs"),
    )
)
NOTES = (
    "every beta starts at 1/2 and is trained, one for each channel; so is the number of swish, "
    "which starts at 1",
    "ReLU, leaky ReLU and abs are the limits beta = 1. The beta form of ReLU is swish in another "
    "parametrisation",
)


def claims(study: CheckedStudy) -> list[Claim]:
    """Judge whether the beta forms are better than swish."""
    return [judge_over_rates(published.BETA_BEATS_SWISH, study, [ABS, LEAKY], [SWISH])]


EXPERIMENT = unit_table_experiment(
    "maso/beta_forms",
    "beta forms of abs and leaky ReLU against swish",
    DESK,
    claims,
    NOTES,
    level=Level("test accuracy, ReLU"),
    needs="CIFAR-10",
)
