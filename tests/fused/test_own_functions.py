"""gw.fuse: the user's own elementwise functions as generated code."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

import gatewise as gw
from gatewise.fused import dispatch, kernels, start_recording, stop_recording
from gatewise.native import library
from gatewise.testing import every_16_bit_value

CAPABILITY = torch.backends.cpu.get_cpu_capability()
pytestmark = pytest.mark.skipif(library("elementwise").handle is None, reason="no compiled code")


def squareplus(x: Tensor, b: Tensor | float) -> Tensor:
    return 0.5 * (x + torch.sqrt(x * x + b))


def tanh_exp(x: Tensor) -> Tensor:
    return x * torch.tanh(torch.exp(torch.clamp(x, max=20.0)))


def bent(x: Tensor, slope: Tensor | float, knee: Tensor | float) -> Tensor:
    low = slope * (x - knee) + functional.softplus(knee + 0 * x)
    return torch.where(x < knee, low, functional.softplus(x))


OWN = {"squareplus": (squareplus, (0.7,)), "tanh_exp": (tanh_exp, ()), "bent": (bent, (0.2, -0.5))}
each_function = pytest.mark.parametrize("name", OWN)


def gradients(function, inputs: list[Tensor], above: Tensor) -> list[Tensor]:
    leaves = [each.detach().requires_grad_() for each in inputs]
    return list(torch.autograd.grad(function(*leaves), leaves, above))


@each_function
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_values_and_gradients_are_those_of_float64(name: str, layout: torch.memory_format):
    function, starts = OWN[name]
    x = (2 * torch.randn(3, 5, 4, 6)).contiguous(memory_format=layout)
    numbers = [start + 0.1 * torch.rand(1, 5, 1, 1) for start in starts]
    above = torch.randn_like(x)
    recording = start_recording()
    got = gw.fuse(function)(x, *numbers)
    slopes = gradients(gw.fuse(function), [x, *numbers], above)
    assert stop_recording(recording) == "fused"
    wide = [each.double() for each in (x, *numbers)]
    # A dozen roundings of values of a few units.
    torch.testing.assert_close(got.double(), function(*wide), rtol=2.0**-20, atol=2.0**-20)
    for ours, theirs in zip(slopes, gradients(function, wide, above.double()), strict=True):
        scale = 2.0**-20 * float(above.abs().sum()) if ours.shape != x.shape else 2.0**-19
        torch.testing.assert_close(ours.double(), theirs, rtol=2.0**-19, atol=scale)
        assert ours.shape == theirs.shape


@each_function
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_every_16_bit_value_is_the_float32_value_rounded_once(name: str, dtype: torch.dtype):
    function, starts = OWN[name]
    x = every_16_bit_value(dtype)
    fused = gw.fuse(function)
    assert torch.equal(fused(x, *starts).isnan(), fused(x.float(), *starts).isnan())
    torch.testing.assert_close(
        fused(x, *starts), fused(x.float(), *starts).to(dtype), rtol=0, atol=0, equal_nan=True
    )


def test_float16_is_converted_alike_in_any_length_and_without_the_instruction(monkeypatch):
    x = every_16_bit_value(torch.float16)
    fused = gw.fuse(tanh_exp)
    want = fused(x)
    for start in range(0, len(x), 4099):
        for length in range(1, 18):
            part = slice(start, start + length)
            torch.testing.assert_close(fused(x[part]), want[part], rtol=0, atol=0, equal_nan=True)

    def without_instruction(x: Tensor) -> Tensor:
        return tanh_exp(x)

    fewer = tuple(each for each in kernels.VECTORS.get(CAPABILITY, ()) if each != "-mf16c")
    monkeypatch.setitem(kernels.VECTORS, CAPABILITY, fewer)
    found = gw.fuse(without_instruction)(x)
    torch.testing.assert_close(found, want, rtol=0, atol=0, equal_nan=True)


def test_a_number_per_sample_and_channel_and_one_per_position():
    def weighted(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
        return x * torch.sigmoid(a * x) + b * x

    x = torch.randn(2, 3, 5, 7)
    numbers = [torch.rand(2, 3, 1, 1), torch.rand(2, 1, 5, 7)]
    above = torch.randn_like(x)
    for layout in (torch.contiguous_format, torch.channels_last):
        given = [x.contiguous(memory_format=layout), *numbers]
        got = gradients(gw.fuse(weighted), given, above)
        want = gradients(weighted, [each.double() for each in given], above.double())
        for ours, theirs in zip(got, want, strict=True):
            torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-5)


def test_an_operation_without_a_generated_form_is_named():
    with pytest.raises(gw.errors.ArgumentError, match="cumsum"):
        gw.fuse(lambda x: torch.cumsum(x, 0))
    with pytest.raises(gw.errors.ArgumentError, match=r"Tensor\.mean"):
        gw.fuse(lambda x: x - x.mean())
    with pytest.raises(gw.errors.ArgumentError, match="where"):
        gw.fuse(lambda x: x if x > 0 else -x)


def test_wrong_calls_are_errors():
    fused = gw.fuse(squareplus)
    with pytest.raises(gw.errors.ArgumentError, match="number of arguments"):
        fused(torch.randn(3))
    with pytest.raises(gw.errors.ArgumentError, match="not a function"):
        gw.fuse(3)  # pyright: ignore[reportArgumentType]
    with pytest.raises(gw.errors.ArgumentError, match="one tensor"):
        gw.fuse(lambda x: 3.0)


def test_a_fused_function_can_be_a_unit_and_is_plain_where_it_must_be(monkeypatch):
    x = torch.randn(4, 3)
    fused = gw.fuse(tanh_exp)
    model = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    swapped = gw.swap(model, fused, x)
    torch.testing.assert_close(swapped(x), tanh_exp(model[0](x)), rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(torch.vmap(fused)(x), tanh_exp(x))
    monkeypatch.setattr(dispatch, "kernel_of", lambda *_: None)
    assert torch.equal(fused(x), tanh_exp(x))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
def test_a_function_of_two_elements_and_a_number_per_channel(dtype, layout):
    def gated(x: Tensor, up: Tensor, slope: Tensor) -> Tensor:
        return torch.sigmoid(slope * x) * up

    x = torch.randn(3, 5, 40, 41).to(dtype).contiguous(memory_format=layout)
    up, slope = torch.randn(3, 5, 40, 41).to(dtype), torch.rand(1, 5, 1, 1)
    above = torch.randn(x.shape).to(dtype)
    recording = start_recording()
    value = gw.fuse(gated)(x, up, slope)
    got = gradients(gw.fuse(gated), [x, up, slope], above)
    assert stop_recording(recording) == "fused"
    wide = [each.double() for each in (x, up, slope)]
    want = gradients(gated, wide, above.double())
    # Half types are rounded once; a gradient to a number is a sum of 3 * 40 * 41 float32 terms.
    step = torch.finfo(dtype).eps
    rtol, atol = max(step, 2.0**-20), 2.0**-20
    torch.testing.assert_close(value.double(), gated(*wide), rtol=rtol, atol=atol)
    for ours, theirs in zip(got[:2], want[:2], strict=True):
        assert ours.dtype == dtype
        torch.testing.assert_close(ours.double(), theirs, rtol=rtol, atol=atol)
    torch.testing.assert_close(got[2].double(), want[2], rtol=2.0**-18, atol=2.0**-10)


def test_each_element_gets_its_gradient_only_if_wanted():
    fused = gw.fuse(lambda x, up: x * up)
    x, up = torch.randn(7, requires_grad=True), torch.randn(7)
    fused(x, up).sum().backward()
    assert torch.equal(x.grad, up) and up.grad is None  # pyright: ignore[reportArgumentType]
    fused(up, x.detach().requires_grad_()).sum().backward()


def test_ties_of_a_maximum_are_exact_and_share_the_gradient():
    tiny = [1e-45, -1e-45, 3e-45, 1e-38, 0.0, -2.0, float("inf"), 3e38]
    a = torch.tensor(tiny, requires_grad=True)
    b = torch.tensor(tiny, requires_grad=True)
    larger = gw.fuse(lambda x, other: torch.maximum(x, other))
    smaller = gw.fuse(lambda x, other: torch.minimum(x, other))
    for fused in (larger, smaller):
        y = fused(a, b)
        assert torch.equal(y, a)
        slopes = torch.autograd.grad(y.sum(), (a, b))
        for slope in slopes:
            assert bool((slope[a.isfinite()] == 0.5).all())
        assert bool((slopes[0] + slopes[1] == 1).all())


def test_empty_transposed_elements_have_gradients_of_their_shape():
    a = torch.randn(2, 0, 3).transpose(1, 2).requires_grad_()
    b = torch.randn(2, 0, 3).transpose(1, 2).requires_grad_()
    gw.functional.swiglu(a, b).sum().backward()
    assert a.grad.shape == b.grad.shape == (2, 3, 0)
