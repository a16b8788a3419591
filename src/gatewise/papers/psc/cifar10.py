"""Phase selective layers on real data, beside ReLU and CReLU."""

from collections.abc import Mapping

from gatewise.papers.common import (
    TINY,
    CellValues,
    Claim,
    Experiment,
    Findings,
    Level,
    Numbers,
    UnitTableSettings,
    judge,
    tuned_unit_cells,
    unit_cells,
    unit_findings,
    unit_runs,
)
from gatewise.papers.psc import published

RELU = "ReLU"
CRELU = "CReLU, narrower"
DYNAMIC = "PSC, narrower"
FIXED = "static PSC, half and half"
LEARNED = "static PSC, learned split"
LOW_RANK = "PSC of low rank"
# At these widths both networks have the parameters of ReLU's within 1 %. A static split has 3 %
# fewer, and factors of low rank have 6 % fewer, since ranks are whole numbers.
NARROWER = [8, 22, 22]
ARMS = {
    RELU: {"unit": "relu"},
    CRELU: {"unit": "crelu", "widths": NARROWER},
    DYNAMIC: {"unit": "psc", "widths": NARROWER},
    FIXED: {"unit": {"name": "static_psc", "split": 0.5}},
    LEARNED: {"unit": "static_psc"},
    LOW_RANK: {"unit": "low_rank_psc"},
    "CReLU, as wide": {"unit": "crelu"},
    "PSC, as wide": {"unit": "psc"},
}
EQUAL = (DYNAMIC, FIXED, LEARNED, LOW_RANK)
NOTES = (
    "a learned split has about twice the parameters while it is trained, and those of ReLU's "
    "network when it is deployed",
    "networks as wide as ReLU's have about twice its parameters; they stand in no claim",
    "splits are cooled by the trainer, from 1 to 0.001 in three quarters of the training",
)


def findings(values: CellValues) -> Findings:
    """Compare the phase selective networks with ReLU and CReLU."""
    return unit_findings(values, claims, NOTES)


def claims(test: Mapping[str, Numbers]) -> list[Claim]:
    """Judge the questions at equal parameters.

    Args:
        test: accuracies by arm, one per seed.
    """
    return [
        judge(published.BETTER_THAN_RELU, test, EQUAL, [RELU]),
        judge(published.BETTER_THAN_CRELU, test, EQUAL, [CRELU]),
        judge(published.LEARNED_BETTER_THAN_FIXED, test, [LEARNED], [FIXED]),
    ]


EXPERIMENT = Experiment(
    name="psc/cifar10",
    title="dynamic, static and low-rank phase selection on CIFAR-10",
    scales={
        "tiny": UnitTableSettings(ARMS, "25 images of CIFAR-10, 1 epoch", TINY, rates=()),
        "desk": UnitTableSettings(ARMS),
    },
    cells=unit_cells,
    then=tuned_unit_cells,
    findings=findings,
    trainings=unit_runs,
    seeds=8,
    levels=(Level(f"test accuracy, {RELU}"),),
    needs=("CIFAR-10",),
)
