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
        marks = [pytest.mark.thorough] if number else []
        CASES.append(pytest.param(unit, options, id=f"{unit.name}-{number}", marks=marks))
# ONNX takes half of the time, and a unit that torch.export takes almost always exports.
MARKS = {"exports_to_onnx": (pytest.mark.onnx, pytest.mark.thorough)}


@pytest.mark.parametrize("check", [pytest.param(c, id=c, marks=MARKS.get(c, ())) for c in CHECKS])
@pytest.mark.parametrize("unit, options", CASES)
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
