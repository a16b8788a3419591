"""The ruler itself: distances in ulp, and inputs that leave nothing out."""

import math

import torch

from gatewise.testing import Sweep, every_16_bit_value, float32_values, ulps_apart
from gatewise.units.contract import Bound


def test_every_16_bit_value_is_there_once():
    for dtype in (torch.float16, torch.bfloat16):
        bits = every_16_bit_value(dtype).view(torch.int16)
        assert bits.unique().numel() == 65536


def test_neighbours_are_one_apart_and_the_two_zeros_are_one_value():
    for dtype in (torch.float16, torch.bfloat16, torch.float32):
        one = torch.ones(1, dtype=dtype)
        up = (
            torch.nextafter(one.double(), 2 * one.double())
            if dtype == torch.float64
            else one + torch.finfo(dtype).eps
        )
        assert ulps_apart(one, up).item() == 1
        zero = torch.tensor([0.0, -0.0], dtype=dtype)
        assert ulps_apart(zero[:1], zero[1:]).item() == 0
        tiny = torch.tensor([torch.finfo(dtype).smallest_normal], dtype=dtype)
        assert ulps_apart(-tiny, tiny).item() == 2 * ulps_apart(zero[:1], tiny).item() > 0


def test_float32_values_have_every_exponent_and_the_special_ones():
    x = float32_values(1 << 14)
    exponents = (x.view(torch.int32).to(torch.int64) >> 23) & 0x1FF
    assert exponents.unique().numel() == 512
    assert x.isnan().any() and (x == math.inf).any() and (x == -math.inf).any() and (x == 0).any()


def test_a_bound_is_few_ulps_or_a_small_absolute_error_and_never_a_hidden_nan():
    x = torch.zeros(4)
    want = torch.tensor([1.0, 1e-30, math.nan, math.inf], dtype=torch.float64)
    got = torch.tensor([1.0 + 3e-7, 0.0, 0.0, math.inf])
    sweep = Sweep(x, got, want)
    assert sweep.within(Bound(2, 1e-20)).tolist() == [False, True, False, True]
    assert sweep.within(Bound(3, 0.0)).tolist() == [True, False, False, True]
