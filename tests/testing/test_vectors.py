"""Reference vectors against the exact values of other libraries' arithmetic."""

import math

import pytest
import torch

import gatewise as gw
from gatewise.testing import reference_vectors


@pytest.mark.parametrize("dtype", ["bfloat16", "float16"])
def test_values_and_derivatives_are_rounded_once(dtype: str):
    tensors, about = reference_vectors("silu", dtype)
    x = tensors["x"]
    assert about["unit"] == "silu" and x.numel() == 1 << 16
    assert torch.equal(
        x.view(torch.int16), torch.arange(1 << 16).to(torch.uint16).view(torch.int16)
    )
    for place in (0x3C00, 0x4000, 0xBF80, 0x0001):
        z = float(x[place])
        gate = 1 / (1 + math.exp(-z))
        rounded = torch.tensor([z * gate, gate + z * gate * (1 - gate)]).double().to(x.dtype)
        assert float(tensors["value"][place]) == float(rounded[0])
        assert float(tensors["derivative"][place]) == float(rounded[1])
    assert bool(tensors["value"][x.isnan()].isnan().all())
    assert bool(tensors["derivative"][~x.isfinite()].isnan().all())


def test_what_has_no_vectors_is_an_error():
    with pytest.raises(gw.errors.ArgumentError, match="dtype"):
        reference_vectors("relu", "float32")
    with pytest.raises(gw.errors.ArgumentError, match="single output"):
        reference_vectors("crelu", "bfloat16")
