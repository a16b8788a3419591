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
    "compiles_whole_and_once",
    "traces_through_aot_autograd",
    "exports",
)
QUICK = ("relu", "crelu", "swish", "iieu_b")  # one unit of each kind of code


LATER = ("exports_to_onnx",)  # almost always is what torch.export takes


def check(unit, options, names) -> None:
    receipt = gw.testing.check_unit(unit, sample=options, only=names)
    assert [outcome.check for outcome in receipt.outcomes] == names
    assert not [outcome for outcome in receipt.outcomes if outcome.left_out]


@pytest.mark.parametrize("unit, options", CASES)
def test_the_contract_holds(unit, options):
    left = LATER if unit.name in QUICK else (*HEAVY, *LATER)
    check(unit, options, [name for name in CHECKS if name not in left])


@pytest.mark.slow
@pytest.mark.parametrize("unit, options", CASES)
def test_the_contract_holds_in_every_mode_of_torch(unit, options):
    check(unit, options, [name for name in CHECKS if name in HEAVY])


@pytest.mark.slow
@pytest.mark.onnx
@pytest.mark.parametrize("unit, options", CASES)
def test_every_unit_exports_to_onnx(unit, options):
    check(unit, options, list(LATER))


@pytest.mark.slow
@pytest.mark.parametrize("unit, options", CASES)
def test_ten_million_float32_inputs_keep_the_promise_and_inductor_agrees(unit, options):
    only = ["float32_is_within_the_promise", "compiles_with_inductor"]
    receipt = gw.testing.check_unit(unit, sample=options, only=only, full=True)
    assert len(receipt.outcomes) == 2
