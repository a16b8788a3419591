"""Phase selective layers on real data, beside ReLU and CReLU."""

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
from gatewise_papers.psc.experiments import published

RELU = "ReLU"
CRELU = "CReLU, narrower"
DYNAMIC = "PSC, narrower"
LEARNED = "static PSC, learned split"
LOW_RANK = "PSC of low rank"
# At these widths both networks have the parameters of ReLU's within 1 %. Factors of low rank have
# 4 % fewer, since ranks are whole numbers.
NARROWER = [16, 44, 44]
ARMS = {
    RELU: {"unit": "relu"},
    CRELU: {"unit": "crelu", "widths": NARROWER},
    DYNAMIC: {"unit": "psc", "widths": NARROWER},
    LEARNED: {"unit": "static_psc"},
    LOW_RANK: {"unit": "low_rank_psc"},
}
EQUAL = (DYNAMIC, LEARNED, LOW_RANK)
NOTES = (
    "a learned split has about twice the parameters while it is trained, and those of ReLU's "
    "network when it is deployed",
    "splits are cooled by the trainer, from 1 to 0.001 in three quarters of the training",
)


def findings(values: CellValues) -> Findings:
    """Compare the phase selective networks with ReLU and CReLU."""
    return unit_findings(values, claims, NOTES)


def claims(test: Mapping[str, ByRate], chance: float) -> list[Claim]:
    """Judge the questions at equal parameters.

    Args:
        test: accuracies by arm and rate, one per seed.
        chance: the accuracy of a guess.
    """
    return [
        judge_over_rates(published.BETTER_THAN_RELU, test, EQUAL, [RELU], chance=chance),
        judge_over_rates(published.BETTER_THAN_CRELU, test, EQUAL, [CRELU], chance=chance),
    ]


EXPERIMENT = Experiment(
    name="psc/cifar10",
    title="dynamic, static and low-rank phase selection on CIFAR-10",
    scales={
        "tiny": UnitTableSettings(ARMS, "25 images of CIFAR-10, 1 epoch", TINY, rates=(0.5,)),
        "desk": UnitTableSettings(ARMS),
    },
    cells=unit_cells,
    findings=findings,
    trainings=unit_runs,
    seeds=5,
    levels=(Level(f"test accuracy, {RELU}"),),
    needs=("CIFAR-10",),
)
