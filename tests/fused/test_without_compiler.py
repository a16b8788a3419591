"""Units without a compiler: few operations of torch, within the bound, the same bits everywhere."""

import math

import pytest
import torch
from torch import Tensor

import gatewise as gw
from gatewise.fused import dispatch
from gatewise.testing import (
    Case,
    check_unit,
    every_16_bit_value,
    float32_values,
    sweep_backward,
    sweep_forward,
)
from gatewise.units import FEW_PASSES
from gatewise.units.contract import forms

NAMES = ("silu", "gelu", "mish", "elu", "softplus")
CASES = [
    pytest.param(Case(gw.get_unit(name), options), id=f"{name}-{options}")
    for name in NAMES
    for options in gw.get_unit(name).samples
]


@pytest.fixture(autouse=True)
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """No function has a kernel; the names of those that ran in blocks."""
    monkeypatch.setattr(dispatch, "kernel_of", lambda function, numbers: None)
    made: list[str] = []
    real = dispatch.run_in_blocks

    def spy(write, x, *others):
        made.append("slopes" if others else "values")
        return real(write, x, *others)

    monkeypatch.setattr(dispatch, "run_in_blocks", spy)
    return made


@pytest.mark.parametrize("case", CASES)
def test_values_and_slopes_are_within_the_float32_promise(case: Case, ran: list[str]):
    values = torch.cat(
        (
            every_16_bit_value(torch.float16).float(),
            float32_values(1 << 15, seed=3),
            torch.linspace(-20.0, 20.0, 1 << 15),
        )
    )
    assert bool(sweep_forward(case, values).within(case.unit.error["float32"].forward).all())
    sweep = sweep_backward(case, values[values.isfinite()])
    assert bool(sweep.within(case.unit.error["float32"].backward).all())
    assert {"values", "slopes"} <= set(ran)


@pytest.mark.parametrize("name", NAMES)
def test_the_contract_holds(name: str):
    report = check_unit(
        name,
        only=[
            "layout_does_not_matter",
            "channels_last_is_kept",
            "batches_do_not_matter",
            "every_length_gives_the_same_bits",
            "a_single_number_is_an_input",
            "threads_do_not_matter",
        ],
    )
    assert not report.failures, str(report)


@pytest.mark.parametrize("name", NAMES)
def test_special_inputs_and_gradients_are_those_of_the_plain_form(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    inputs = [0.0, -0.0, 1e-45, -1e-38, 90.0, -90.0, -105.0, 3e38, -3e38, math.inf, -math.inf]
    x = torch.tensor([*inputs, math.nan])

    def value_and_gradient(above: Tensor) -> tuple[Tensor, Tensor]:
        leaf = x.clone().requires_grad_()
        y = gw.get_unit(name).function(leaf)
        return y.detach(), torch.autograd.grad(y, leaf, above)[0]

    with monkeypatch.context() as patch:
        patch.setattr(forms, "FORMS", [])
        value, slope = value_and_gradient(torch.ones_like(x))
    for number in (1.0, math.nan, math.inf, -2.5):
        above = torch.full_like(x, number)
        # Far out the slope is rounded to 0 or not, which an infinite gradient shows.
        clear = ~slope.isnan() & ((slope.abs() > 1e-30) | math.isfinite(number))
        got = value_and_gradient(above)
        close = {"rtol": 2.0**-20, "atol": 2.0**-22, "equal_nan": True}
        torch.testing.assert_close(got[0], value, **close)
        torch.testing.assert_close(got[1][clear], (above * slope)[clear], **close)


@pytest.mark.parametrize("name", NAMES)
def test_second_derivatives_are_those_of_the_plain_form(name: str):
    x = torch.linspace(-3.0, 3.0, 50).requires_grad_()
    (slope,) = torch.autograd.grad(gw.get_unit(name).function(x).sum(), x, create_graph=True)
    (got,) = torch.autograd.grad(slope.sum(), x)
    wide = x.detach().double().requires_grad_()
    (slope,) = torch.autograd.grad(gw.get_unit(name).function(wide).sum(), wide, create_graph=True)
    (want,) = torch.autograd.grad(slope.sum(), wide)
    torch.testing.assert_close(got.double(), want, rtol=1e-4, atol=1e-5)


def test_only_the_input_is_kept():
    x = torch.randn(1000, requires_grad=True)
    kept: list[int] = []
    with torch.autograd.graph.saved_tensors_hooks(
        lambda tensor: (kept.append(tensor.data_ptr()), tensor)[1], lambda tensor: tensor
    ):
        gw.get_unit("silu").function(x)
    assert kept == [x.data_ptr()]


def test_numbers_that_are_tensors_get_the_plain_form(ran: list[str]):
    from gatewise.units.contract import arithmetic

    beta = torch.tensor(2.0, requires_grad=True)
    assert arithmetic.softplus in FEW_PASSES
    y = dispatch.elementwise(arithmetic.softplus, torch.randn(100), [beta])
    y.sum().backward()
    assert beta.grad is not None
    assert ran == []
