"""Tables 1 and 2 in a small network: IIEU-B against ReLU at every rate of a grid, on CIFAR-100."""

from gatewise.studies import CheckedStudy
from gatewise_papers.common import (
    IN_ANY_ORDER,
    RELU,
    UNIT_TABLE_IN_WORDS,
    Claim,
    Level,
    UnitTableSettings,
    judge_over_rates,
    unit_table_experiment,
    unit_with,
)
from gatewise_papers.iieu.experiments import published

BEHIND = "ReLU, pool behind it"
IIEU = "IIEU-B"
# IIEU-B reads the layer before it, so that no pool can stand between. The control has ReLU there.
DESK = UnitTableSettings(
    (unit_with(BEHIND, pool="behind"), unit_with(IIEU, unit="iieu_b")),
    UNIT_TABLE_IN_WORDS.format("CIFAR-100"),
    {"name": "cifar100", "options": IN_ANY_ORDER},
    # The compiled code of IIEU-B computes in float32. In bfloat16 it takes three times as long.
    recipe=('precision = "float32"',),
)
FITTED = 0.4  # the test accuracy of ReLU from which claims are judged
NOTES = (
    "IIEU-B reads the layer before it, so that the first pool of a block stands behind it; ReLU "
    "with the pool at the same place is the control",
    "IIEU-DC needs an addition, which the network has not: it is in iieu/table1",
)


def claims(study: CheckedStudy) -> list[Claim]:
    """Judge whether IIEU-B is better than ReLU, and than ReLU at its place."""
    return [judge_over_rates(published.BETTER_IN_SMALL, study, [IIEU], [RELU, BEHIND])]


EXPERIMENT = unit_table_experiment(
    "iieu/cifar100",
    "IIEU-B in a small network on CIFAR-100, at every rate of a grid",
    DESK,
    claims,
    NOTES,
    level=Level("test accuracy, ReLU", published.RELU_TOP_1[14], at_least=FITTED),
    needs="CIFAR-100",
)
