"""Tables 1 and 2 in a small network: IIEU-B against ReLU at every rate of a grid, on CIFAR-100."""

from collections.abc import Mapping
from dataclasses import replace

from gatewise_papers.common import (
    IN_ANY_ORDER,
    TINY,
    UNIT_TABLE,
    UNIT_TABLE_IN_WORDS,
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
from gatewise_papers.iieu.experiments import published

RELU = "ReLU"
BEHIND = "ReLU, pool behind it"
IIEU = "IIEU-B"
# IIEU-B reads the layer before it, so that no pool can stand between. The control has ReLU there.
ARMS = {
    RELU: {"unit": "relu"},
    BEHIND: {"unit": "relu", "pool": "behind"},
    IIEU: {"unit": "iieu_b"},
}
FITTED = 0.4  # the test accuracy of ReLU from which claims are judged
NOTES = (
    "IIEU-B reads the layer before it, so that the first pool of a block stands behind it; ReLU "
    "with the pool at the same place is the control",
    "IIEU-DC needs an addition, which the network has not: it is in iieu/table1",
)


def findings(values: CellValues) -> Findings:
    """Compare IIEU-B with ReLU at both places of the pool."""
    return unit_findings(values, claims, NOTES)


def claims(test: Mapping[str, ByRate], chance: float) -> list[Claim]:
    """Judge whether IIEU-B is better than ReLU, and than ReLU at its place.

    Args:
        test: accuracies by arm and rate, one per seed.
        chance: the accuracy of a guess.
    """
    return [
        judge_over_rates(published.BETTER_IN_SMALL, test, [IIEU], [RELU, BEHIND], chance=chance)
    ]


EXPERIMENT = Experiment(
    name="iieu/cifar100",
    title="IIEU-B in a small network on CIFAR-100, at every rate of a grid",
    scales={
        "tiny": UnitTableSettings(ARMS, "25 images of CIFAR-10, 1 epoch", TINY, rates=(0.5,)),
        "desk": UnitTableSettings(
            ARMS,
            UNIT_TABLE_IN_WORDS.format("CIFAR-100"),
            replace(UNIT_TABLE, data="cifar100", data_options=IN_ANY_ORDER),
            classes=100,
        ),
    },
    cells=unit_cells,
    findings=findings,
    trainings=unit_runs,
    seeds=5,
    levels=(Level(f"test accuracy, {RELU}", published.RELU_TOP_1[14], at_least=FITTED),),
    needs=("CIFAR-100",),
)
