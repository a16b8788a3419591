"""A phase selective convolution in one response, which keeps only its input."""

import pytest
import torch
from torch import Tensor

import gatewise as gw
from gatewise.layers.phase import ps_conv

SHAPES = [
    dict(kernel_size=1),
    dict(kernel_size=3, padding=1),
    dict(kernel_size=3, stride=2, padding=1, bias=False),
    dict(kernel_size=(1, 3), padding=(0, 2), dilation=(1, 2)),
    dict(kernel_size=2, padding="same"),
    dict(kernel_size=3, padding=1, padding_mode="reflect"),
]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each call, whether it was one convolution of both halves."""
    found: list[bool] = []
    convolve = ps_conv.convolve_halves

    def watched(*given):
        y = convolve(*given)
        found.append(y is not None)
        return y

    monkeypatch.setattr(ps_conv, "convolve_halves", watched)
    return found


def kept_bytes(run, *weights: Tensor) -> int:
    """Bytes of the storages that a call keeps for the backward pass, without those of weights."""
    kept: dict[int, int] = {}

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        y = run()
    for weight in weights:
        kept.pop(weight.untyped_storage().data_ptr(), None)
    del y
    return sum(kept.values())


def layer_and_input(options: dict, layout: torch.memory_format) -> tuple[torch.nn.Module, Tensor]:
    torch.manual_seed(0)
    layer = gw.nn.PSConv2d(5, 4, **options).to(memory_format=layout)  # pyright: ignore[reportCallIssue]
    return layer, torch.randn(3, 5, 7, 6).contiguous(memory_format=layout)


def results(layer: torch.nn.Module, x: Tensor) -> list[Tensor]:
    leaf = x.detach().requires_grad_()
    y = layer(leaf)
    above = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape)
    return [y, *torch.autograd.grad(y, [leaf, *layer.parameters()], above)]


@pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])
@pytest.mark.parametrize("options", SHAPES)
def test_values_and_gradients_are_those_of_two_convolutions_in_float64(options, layout, calls):
    layer, x = layer_and_input(options, layout)
    got = results(layer, x)
    assert calls == [True]
    with torch.no_grad():
        assert torch.equal(layer(x), got[0])
    layer.double()
    want = results(layer, x.double())
    assert calls[-1] is False
    for ours, theirs in zip(got, want, strict=True):
        # Sums of up to 3 * 7 * 6 products of numbers up to 4.
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=126 * 2.0**-22)
    assert all(each.is_contiguous(memory_format=layout) for each in got[:2])


def test_only_the_input_and_the_weights_are_kept():
    layer = gw.nn.PSConv2d(8, 8, 1, bias=False)
    x = torch.randn(2, 8, 9, 9, requires_grad=True)
    stacked = 2 * layer.weight.nbytes
    assert kept_bytes(lambda: layer(x), *layer.parameters()) == x.nbytes + stacked


def test_signs_and_special_numbers():
    layer = gw.nn.PSConv2d(1, 1, 1, bias=False)
    with torch.no_grad():
        layer.weight.fill_(2.0)
        layer.weight_neg.fill_(3.0)
    x = torch.tensor([1.0, -1.0, 0.0, -0.0, torch.inf, -torch.inf, torch.nan])
    x = x.reshape(-1, 1, 1, 1).requires_grad_()
    y = layer(x)
    y.sum().backward()
    want = torch.tensor([2.0, -3.0, 0.0, 0.0, torch.inf, -torch.inf, torch.nan])
    torch.testing.assert_close(y.flatten(), want, equal_nan=True)
    assert x.grad is not None
    assert x.grad.flatten()[:6].tolist() == [2.0, 3.0, 0.0, 0.0, 2.0, 3.0]


def test_second_derivatives_and_many_gradients_are_those_of_torch():
    layer, x = layer_and_input(dict(kernel_size=3, padding=1), torch.contiguous_format)
    found = []
    for dtype in (torch.float32, torch.float64):
        layer.to(dtype)
        leaf = x.to(dtype).requires_grad_()
        (slope,) = torch.autograd.grad(layer(leaf).square().sum(), leaf, create_graph=True)
        found.append(torch.autograd.grad(slope.sum(), [leaf, *layer.parameters()])[0].double())
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-4)
    layer.float()
    leaf = x.clone().requires_grad_()
    y = layer(leaf)
    above = torch.stack([torch.ones_like(y), torch.randn_like(y)])
    (many,) = torch.autograd.grad(y, leaf, above, is_grads_batched=True, retain_graph=True)
    (one,) = torch.autograd.grad(y, leaf, above[1])
    torch.testing.assert_close(many[1], one, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("what", ["autocast", "groups", "vmap"])
def test_elsewhere_it_is_two_convolutions(what: str, calls: list[bool]):
    layer = gw.nn.PSConv2d(4, 4, 3, groups=2 if what == "groups" else 1)
    x = torch.randn(2, 4, 5, 5)
    if what == "autocast":
        with torch.autocast("cpu", dtype=torch.bfloat16):
            assert layer(x).shape == (2, 4, 3, 3)
    elif what == "vmap":
        torch.testing.assert_close(
            torch.vmap(layer)(x[:, None])[:, 0],
            layer.double()(x.double()).float(),
            rtol=1e-4,
            atol=1e-5,
        )
    else:
        layer(x)
    assert not any(calls)


def test_only_wanted_gradients_are_given():
    layer, x = layer_and_input(dict(kernel_size=1), torch.contiguous_format)
    layer(x).sum().backward()
    assert layer.weight.grad is not None
    layer.requires_grad_(False)
    leaf = x.clone().requires_grad_()
    layer(leaf).sum().backward()
    assert leaf.grad is not None
    assert not layer(x).requires_grad
