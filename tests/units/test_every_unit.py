"""The contract (N1 to N9, I3), check by check.

A new unit is covered once it is imported; nothing is edited here.
"""

import os

import pytest

import gatewise as gw
from gatewise.testing import CHECKS
from gatewise.units.contract import registered_units

FULL = os.environ.get("GATEWISE_FULL") == "1"
CASES = []
for unit in registered_units().values():
    for number, options in enumerate(unit.samples):
        # The first sample has the default options. The others repeat the checks with other options.
        marks = [pytest.mark.slow] if number else []
        CASES.append(pytest.param(unit, options, id=f"{unit.name}-{number}", marks=marks))
# These checks take seconds, and a mistake in the code that units share shows in any of them.
HEAVY = (
    "threads_do_not_matter",
    "compiles_whole_and_once",
    "traces_through_aot_autograd",
    "exports",
)
QUICK = ("relu", "crelu", "swish", "prelu", "pau", "iieu_b")  # one unit of each kind of code


def marks_of(name: str, number: int, check: str) -> list[pytest.MarkDecorator]:
    if check == "exports_to_onnx":  # half of the time, and what torch.export takes almost always is
        return [pytest.mark.onnx, pytest.mark.slow]
    thorough = number > 0 or (check in HEAVY and name not in QUICK)
    return [pytest.mark.slow] if thorough else []


CONTRACT = []
for unit in registered_units().values():
    for number, options in enumerate(unit.samples):
        for check in CHECKS:
            marks = marks_of(unit.name, number, check)
            name = f"{unit.name}-{number}-{check}"
            CONTRACT.append(pytest.param(unit, options, check, id=name, marks=marks))


@pytest.mark.parametrize("unit, options, check", CONTRACT)
def test_the_contract_holds(unit, options, check):
    receipt = gw.testing.check_unit(unit, sample=options, only=[check])
    assert [o.check for o in receipt.outcomes] == [check]
    assert not receipt.outcomes[0].left_out


@pytest.mark.slow
@pytest.mark.parametrize("unit, options", CASES)
def test_ten_million_float32_inputs_keep_the_promise_and_inductor_agrees(unit, options):
    only = ["float32_is_within_the_promise", "compiles_with_inductor"]
    receipt = gw.testing.check_unit(unit, sample=options, only=only, full=True)
    assert len(receipt.outcomes) == 2
