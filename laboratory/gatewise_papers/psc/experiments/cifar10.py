"""Phase selective layers on real data, beside ReLU and CReLU."""

from gatewise.studies import CheckedStudy
from gatewise_papers.common import (
    RELU,
    Claim,
    Level,
    UnitTableSettings,
    judge_over_rates,
    unit_table_experiment,
    unit_with,
)
from gatewise_papers.psc.experiments import published

CRELU = "crelu"
DYNAMIC = "psc"
LEARNED = "static PSC, learned split"
LOW_RANK = "PSC of low rank"
# ReLU, CReLU and PSC as units_cifar10 has them, at equal parameters. Factors of low rank have 4 %
# fewer, since ranks are whole numbers.
DESK = UnitTableSettings(
    (
        {"name": CRELU, "model": {"whitening": "once"}},
        {"name": DYNAMIC, "model": {"pool": "behind", "whitening": "once"}},
        unit_with(LEARNED, unit="static_psc"),
        unit_with(LOW_RANK, unit="low_rank_psc"),
    ),
    reads="units_cifar10.jsonl",
)
EQUAL = (DYNAMIC, LEARNED, LOW_RANK)
NOTES = (
    "runs of ReLU, CReLU and PSC are those of the comparison units_cifar10",
    "a learned split has about twice the parameters while it is trained, and those of ReLU's "
    "network when it is deployed",
    "splits are cooled by the trainer, from 1 to 0.001 in three quarters of the training",
)


def claims(study: CheckedStudy) -> list[Claim]:
    """Judge the questions at equal parameters."""
    return [
        judge_over_rates(published.BETTER_THAN_RELU, study, EQUAL, [RELU]),
        judge_over_rates(published.BETTER_THAN_CRELU, study, EQUAL, [CRELU]),
    ]


EXPERIMENT = unit_table_experiment(
    "psc/cifar10",
    "dynamic, static and low-rank phase selection on CIFAR-10",
    DESK,
    claims,
    NOTES,
    level=Level("test accuracy, ReLU"),
    needs="CIFAR-10",
)
