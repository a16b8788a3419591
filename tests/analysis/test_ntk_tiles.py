"""Convolutions by tiles: weight gradients, and the way back to the inputs.

Each against its definition in float64.
"""

from collections.abc import Callable

import pytest
import torch
from tangent_kernels import error, explicit_ntk
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.analysis.tangent_kernel import (
    WinogradConv,
    layer_rules,
    winograd_backward,
    winograd_forwards,
)
from gatewise.analysis.tangent_kernel.compiled import (
    compiled_multiplications,
    input_slopes,
    products,
    weight_gradients,
    winograd,
    winograd_native,
)

ROUNDING = torch.finfo(torch.float32).eps / 2
compiled = pytest.mark.skipif(
    products.native_library("tiles") is None, reason="no compiler, or no AVX-512"
)
# samples, channels, filters, height, width, zeros: partly filled tiles and vectors, and more zeros
# than a kernel needs
SHAPES = [
    (1, 1, 1, 3, 3, (0, 0)),
    (2, 5, 3, 7, 10, (1, 1)),
    (2, 17, 33, 9, 6, (0, 2)),
    (1, 16, 20, 8, 30, (3, 1)),
]


@pytest.fixture(autouse=True)
def one_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


def case(
    samples: int, channels: int, filters: int, height: int, width: int, zeros: tuple[int, int]
):
    """Inputs, weight and slopes, not contiguous in memory where that is allowed."""
    x = torch.randn(samples, channels + 1, height + 2, width + 3)[:, 1:, 1:-1, 2:-1]
    weight = torch.randn(filters, channels, 3, 3)
    d = torch.randn_like(F.conv2d(x, weight, padding=zeros)).repeat(1, 2, 1, 1)[:, filters:]
    return x, weight, d


def transforms() -> tuple[Tensor, Tensor, Tensor]:
    """Sizes of the numbers of A (9, 36), G (36, 16) and B (36, 36)."""
    a, g, b = (each.abs() for each in winograd._transforms(torch.float64, torch.device("cpu")))
    return a / 15**2, g.flatten(1), b.flatten(1)


def padded(x: Tensor, d: Tensor, zeros: tuple[int, int]) -> tuple[Tensor, Tensor]:
    """In float64, up to whole tiles."""
    down, across = (-(-size // 4) * 4 for size in d.shape[-2:])
    (height, width), (above, left) = x.shape[-2:], zeros
    x = F.pad(x.double(), (left, across + 2 - left - width, above, down + 2 - above - height))
    return x, F.pad(d.double(), (0, across - d.shape[-1], 0, down - d.shape[-2]))


def tiles(images: Tensor, size: int) -> Tensor:
    """``(n, c, h, w) -> (n, c, size * size, tiles)``."""
    return F.unfold(images, size, stride=4).unflatten(1, (images.shape[1], -1))


def test_the_numbers_of_the_transforms_are_exact_in_single_precision():
    """Rounded numbers would bias all gradients alike: inner products would not average it out."""
    double, single = (
        winograd._transforms(dtype, torch.device("cpu")) for dtype in (torch.float64, torch.float32)
    )
    assert all(torch.equal(a, b.double()) for a, b in zip(double, single, strict=True))
    assert not double[0].frac().any()


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("threads", [pytest.param(1, marks=compiled), 2])
def test_weight_gradients_are_right_to_what_rounding_can_do(
    shape: tuple, threads: int, monkeypatch
):
    x, _, d = case(*shape)
    zeros = shape[-1]
    taken = counted(monkeypatch, winograd, "compiled_weight_gradients")
    torch.set_num_threads(threads)
    got = weight_gradients(x[:, None], d[:, None], zeros)[:, 0]
    assert len(taken) == (threads == 1)
    big, slopes = padded(x, d, zeros)
    windows = F.unfold(big, 3).unflatten(1, (x.shape[1], 9))
    want = torch.einsum("ncp,nqkp->nkcq", slopes.flatten(2), windows)
    a, g, b = transforms()
    sizes = torch.einsum(
        "kp,ncpt,nqpt->nkcq", a, g @ tiles(slopes.abs(), 4), b @ tiles(big.abs(), 6)
    )
    # Of the two transforms, 15 and 35 sums at most by torch, a product, a sum over tiles, and 35
    # more with a division.
    roundings = 16 + 36 + 1 + (slopes[0, 0].numel() // 16) + 37
    assert bool(((got - want).abs() <= roundings * ROUNDING * sizes).all())
    assert error(got, want) < 5e-6  # in fact far less


@compiled
@pytest.mark.parametrize("shape", SHAPES)
def test_slopes_at_the_inputs_are_right_to_what_rounding_can_do(shape: tuple):
    x, weight, d = case(*shape)
    zeros = shape[-1]
    got = input_slopes(d, weight, zeros, x.shape)
    want = torch.nn.grad.conv2d_input(x.shape, weight.double(), d.double(), padding=zeros)
    a, g, b = transforms()
    big, slopes = padded(x, d, zeros)
    weights = torch.einsum("kp,cqk->pcq", a, weight.double().abs().flatten(2))
    met = torch.einsum("pcq,ncpt->nqpt", weights, g @ tiles(slopes.abs(), 4))
    sizes = F.fold((b.mT @ met).flatten(1, 2), big.shape[-2:], 6, stride=4)
    sizes = sizes[..., zeros[0] :, zeros[1] :][..., : x.shape[2], : x.shape[3]]
    # Of the weights' transform and its division, that of slopes, a product, a sum over channels,
    # and that back, twice along an axis of at most five sums and a product, with three more where
    # four tiles meet.
    roundings = 10 + 8 + 1 + d.shape[1] + 12 + 3
    assert bool(((got - want).abs() <= roundings * ROUNDING * sizes).all())
    assert error(got, want) < 5e-6


@compiled
def test_the_forward_pass_is_torchs_own_to_the_bit_and_slopes_may_be_expanded():
    x, weight, _ = case(2, 5, 3, 7, 10, (1, 1))
    x.requires_grad_()
    y = WinogradConv.apply(x, weight, torch.ones(3), (1, 1))
    assert torch.equal(y, F.conv2d(x, weight, torch.ones(3), padding=1))
    (got,) = torch.autograd.grad(y.sum(), x)
    assert (
        error(got, torch.autograd.grad(F.conv2d(x, weight, padding=1).sum(), x)[0].double()) < 5e-6
    )


def counted(monkeypatch: pytest.MonkeyPatch, place: object, name: str) -> list[tuple]:
    """The calls of a function from now on."""
    calls, function = [], getattr(place, name)
    monkeypatch.setattr(place, name, lambda *given: calls.append(given) or function(*given))
    return calls


@compiled
@pytest.mark.parametrize("outputs", [1, 3])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("padding", [0, 2, "same"])
def test_kernels_with_the_way_winograd_forwards_equal_the_jacobian(
    outputs: int, bias: bool, padding, monkeypatch
):
    for place in (winograd_backward, layer_rules):
        monkeypatch.setattr(place, "compiled_multiplications", lambda *given: 0)
    taken = counted(monkeypatch, winograd_backward, "input_slopes")
    first, second = nn.Conv2d(4, 6, 3, padding=1), nn.Conv2d(6, 5, 3, padding=padding, bias=bias)
    model = nn.Sequential(first, nn.Tanh(), second, nn.Tanh(), nn.Flatten(), nn.LazyLinear(outputs))
    x = torch.randn(5, 4, 7, 10)
    model(x)
    before = {name: value.clone() for name, value in model.state_dict().items()}
    got, own = gw.ntk(model, x), gw.ntk(model, x, parameters="0.*")
    assert (
        len(taken) == 2 * outputs
    )  # the second layer alone: nothing asks for slopes at the model's input
    assert not any("forward" in vars(module) for module in model)
    assert all(torch.equal(value, before[name]) for name, value in model.state_dict().items())
    assert error(got, explicit_ntk(model.double(), x.double())) < 1e-6
    # In the whole kernel other layers may hide it; what comes back shows in the first layer's part
    # alone.
    assert error(own, explicit_ntk(model, x.double(), parameters=first.parameters())) < 1e-6
    taken.clear()
    assert error(gw.ntk(model, x.double()), explicit_ntk(model, x.double())) < 1e-12
    assert not taken


@compiled
def test_a_layer_that_fails_is_left_as_it_was_too(monkeypatch):
    monkeypatch.setattr(winograd_backward, "compiled_multiplications", lambda *given: 0)
    model = nn.Sequential(
        nn.Conv2d(4, 6, 3), nn.ReLU(), nn.Conv2d(6, 5, 3), nn.Flatten(), nn.Linear(7, 1)
    )
    with pytest.raises(gw.errors.ArgumentError):
        gw.ntk(model, torch.randn(5, 4, 7, 10))
    assert not any("forward" in vars(module) for module in model)


class Own(nn.Conv2d):
    """A convolution of somebody else's."""


SIMPLE: dict[str, Callable[[], nn.Module]] = {
    "plain": lambda: nn.Conv2d(4, 4, 3),
    "padded": lambda: nn.Conv2d(4, 4, 3, padding=(2, 1), bias=False),
    "same": lambda: nn.Conv2d(4, 4, 3, padding="same"),
}
OTHERS: dict[str, Callable[[], nn.Module]] = {
    "stride": lambda: nn.Conv2d(4, 4, 3, stride=2),
    "dilation": lambda: nn.Conv2d(4, 4, 3, dilation=2),
    "groups": lambda: nn.Conv2d(4, 4, 3, groups=2),
    "mode": lambda: nn.Conv2d(4, 4, 3, padding=1, padding_mode="circular"),
    "kernel": lambda: nn.Conv2d(4, 4, (3, 1)),
    "precision": lambda: nn.Conv2d(4, 4, 3).double(),
    "subclass": lambda: Own(4, 4, 3),
    "other layer": lambda: nn.Linear(4, 4),
}


@compiled
def test_layers_that_may_go_winograd_forwards():
    assert all(winograd_forwards([make()]) for make in SIMPLE.values())
    assert [name for name, make in OTHERS.items() if winograd_forwards([make()])] == []
    torch.set_num_threads(2)
    assert not winograd_forwards([SIMPLE["plain"]()])


def test_without_compiled_code_layers_run_as_they_are(monkeypatch):
    monkeypatch.setattr(winograd_native, "native_library", lambda name: None)
    assert not winograd_forwards([SIMPLE["plain"]()])


@compiled
def test_compiled_tiles_are_taken_both_ways_where_they_are_quicker(monkeypatch):
    assert compiled_multiplications(64, 64, (32, 32)) < 9 * 32 * 32 * 64 * 64
    assert compiled_multiplications(8, 8, (32, 32)) > 9 * 32 * 32 * 8 * 8
    assert compiled_multiplications(64, 64, (4, 4)) > 9 * 4 * 4 * 64 * 64
    back = counted(monkeypatch, winograd_backward, "input_slopes")
    weights = counted(monkeypatch, layer_rules, "weight_gradients")
    for channels, size, taken in ((8, 12, False), (32, 24, True)):
        layers = (
            nn.Conv2d(1, channels, 3),
            nn.ReLU(),
            nn.Conv2d(channels, channels, 3),
            nn.AdaptiveAvgPool2d(1),
        )
        gw.ntk(
            nn.Sequential(*layers, nn.Flatten(), nn.Linear(channels, 1)),
            torch.randn(3, 1, size, size),
        )
        assert bool(back) == bool(weights) == taken
