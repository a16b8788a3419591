"""Triton forms of all elementwise units, run on the CPU by Triton's interpreter.

The interpreter fuses products and sums as a GPU does. It rounds float32 to bfloat16 wrongly, so the
kernels do that with integers, and every bit can be compared.
"""

import math

import pytest
import torch
from torch import Tensor
from torch.autograd import forward_ad
from torch.nn import functional

import gatewise as gw
from gatewise.fused import dispatch, start_recording, stop_recording
from gatewise.fused.gpu import GpuKernel, building, launching
from gatewise.testing import Case, every_16_bit_value, sweep_backward, sweep_forward

pytestmark = [
    pytest.mark.interpreter,
    pytest.mark.filterwarnings("ignore:.*encountered in:RuntimeWarning"),  # of numpy
]
NAMES = (
    "silu",
    "swish",
    "soft_relu",
    "beta_vq",
    "softplus",
    "gelu",
    "mish",
    "elu",
    "acon_c",
    "pserf",
    "erfact",
    "smu",
    "smu1",
    "prelu",
    "pau",
    "meta_acon",
    "iieu_b",
)
CHANNELS = ("acon_c", "meta_acon", "iieu_b")  # units that need their number
CASES = [
    pytest.param(Case(gw.get_unit(name), options), id=f"{name}-{i}")
    for name in NAMES
    for i, options in enumerate(gw.get_unit(name).samples)
    if options.get("beta") not in (0.0, 1.0)
    or name != "beta_vq"  # hard and mean forms have no gate to compile
    if "penalty" not in options and not isinstance(options.get("pieces"), tuple)
    if "channels" not in options or name in CHANNELS  # the same number for every channel
]
each_case = pytest.mark.parametrize("case", CASES)
each_layout = pytest.mark.parametrize("layout", [torch.contiguous_format, torch.channels_last])


@pytest.fixture(autouse=True)
def calls(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Let the interpreter take tensors on the CPU; what kernels were asked for, as it is asked."""
    made: list[str] = []
    monkeypatch.setattr(dispatch, "is_on_gpu", lambda x: True)
    for name in ("values", "slopes"):
        real = getattr(GpuKernel, name)

        def spy(*args, real=real, name=name):
            made.append(name)
            return real(*args)

        monkeypatch.setattr(GpuKernel, name, spy)
    return made


@pytest.fixture
def wide_tiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tiles so wide that the interpreter has little to do per element."""
    monkeypatch.setattr(launching, "ELEMENTS", 1 << 16)


def value_and_slope(case: Case, x: Tensor) -> tuple[Tensor, Tensor]:
    leaf = x.detach().requires_grad_()
    y = case.function(leaf)
    return y.detach(), torch.autograd.grad(y, leaf, torch.ones_like(y))[0]


def gradients(function, inputs: list[Tensor], above: Tensor) -> list[Tensor]:
    leaves = [each.detach().requires_grad_() for each in inputs]
    return list(torch.autograd.grad(function(*leaves), leaves, above))


@each_case
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_every_16_bit_value(case: Case, dtype: torch.dtype, calls: list[str], wide_tiles):
    every = every_16_bit_value(dtype)
    wide = every.float()
    promise = case.unit.error["float32"]
    assert bool(sweep_forward(case, wide).within(promise.forward).all())
    sweep = sweep_backward(case, wide[wide.isfinite()])
    assert bool(sweep.within(promise.backward).all())
    x = case.spread(every)
    values, slopes = value_and_slope(case, x.float())
    calls.clear()
    got, got_slopes = value_and_slope(case, x)
    assert calls == ["values", "slopes"]
    assert got.dtype == got_slopes.dtype == dtype
    exact = {"rtol": 0, "atol": 0, "equal_nan": True}
    torch.testing.assert_close(got, values.to(dtype), **exact)
    torch.testing.assert_close(got_slopes, slopes.to(dtype), **exact)


TRAINED = {
    "swish": {},
    "acon_c": {"p1": 1.2, "p2": -0.3, "beta": 2.0},
    "pserf": {},
    "erfact": {},
    "smu": {"mu": 1.0},
    "smu1": {"mu": 0.5},
    "prelu": {"slope": 0.1},
    "beta_vq": {"learn_beta": True, "beta": 0.7},
    "meta_acon": {"reduction": 2},
    "pau": {},
}


@each_layout
@pytest.mark.parametrize("name", TRAINED)
def test_gradients_to_numbers_per_channel_are_those_of_float64(name: str, layout, calls: list[str]):
    channels = {} if name == "pau" else {"channels": 6}
    module = gw.create_unit(name, **channels, **TRAINED[name]).eval()
    x = (2 * torch.randn(3, 6, 9, 31)).contiguous(memory_format=layout)
    above = torch.randn_like(x)
    got = _module_gradients(module, x, above)
    assert calls[-2:] == ["values", "slopes"]
    want = _module_gradients(module.double(), x.double(), above)
    for ours, theirs in zip(got, want, strict=True):
        # Some roundings of 2^-24 in each term, which are at most a few units; then of the sum.
        terms = float((above.abs() * (1 + x.square())).sum()) if ours.shape != x.shape else 32.0
        torch.testing.assert_close(ours.double(), theirs, rtol=2.0**-19, atol=terms * 2.0**-22)


def _module_gradients(module, x: Tensor, above: Tensor) -> list[Tensor]:
    leaf = x.detach().requires_grad_()
    inputs = [leaf, *(each for each in module.parameters() if each.requires_grad)]
    y = module(leaf)
    found = torch.autograd.grad(y, inputs, above.to(y.dtype), allow_unused=True)
    return [each for each in found if each is not None]


@each_layout
def test_gradients_of_iieu_are_those_of_float64(layout, calls: list[str]):
    x = torch.randn(2, 6, 5, 7).contiguous(memory_format=layout)
    patch = x.square().sum(1, keepdim=True).sqrt()
    numbers = [patch, torch.linspace(0.5, 2.0, 6), torch.full((2, 6), 0.5), torch.full((6,), 0.05)]
    above = torch.randn_like(x)
    got = gradients(gw.functional.iieu_b, [x, *numbers], above)
    assert calls[-2:] == ["values", "slopes"]
    wide = [each.double() for each in (x, *numbers)]
    for ours, theirs in zip(got, gradients(gw.functional.iieu_b, wide, above), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-4)


def weighted(x: Tensor, a: Tensor, b: Tensor) -> Tensor:
    return x * torch.sigmoid(a * x) + b * functional.softplus(x)


@pytest.mark.parametrize(
    "shapes",
    [
        ((1, 3, 1, 1), (1, 1, 1, 1)),
        ((2, 3, 1, 1), (2, 1, 5, 7)),
        ((1, 1, 5, 7), (2, 3, 5, 7)),
        ((2, 1, 1, 1), (1, 3, 1, 1)),
        ((), (1, 3, 5, 7)),
    ],
)
@each_layout
def test_numbers_of_every_kind(shapes, layout):
    x = torch.randn(2, 3, 5, 7).contiguous(memory_format=layout)
    numbers = [torch.rand(shape) for shape in shapes]
    above = torch.randn_like(x)
    got = gradients(gw.fuse(weighted), [x, *numbers], above)
    wide = [x.double(), *(number.double() for number in numbers)]
    for ours, theirs in zip(got, gradients(weighted, wide, above.double()), strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-4)
    values = gw.fuse(weighted)(x, *numbers)
    torch.testing.assert_close(values.double(), weighted(*wide), rtol=1e-6, atol=1e-6)
    assert values.stride() == x.stride()


def test_more_rows_and_columns_than_a_tile_and_not_a_power_of_two(monkeypatch):
    monkeypatch.setattr(launching, "ELEMENTS", 64)
    beta = torch.rand(1, 9, 1)
    x = torch.randn(2, 9, 77)
    for given in (x, x.transpose(1, 2).contiguous().transpose(1, 2), x[:, :, ::3]):
        above = torch.randn_like(given)
        got = gradients(gw.fuse(weighted), [given, beta, beta], above)
        wide = [given.double(), beta.double(), beta.double()]
        for ours, theirs in zip(got, gradients(weighted, wide, above.double()), strict=True):
            torch.testing.assert_close(ours.double(), theirs, rtol=1e-5, atol=1e-3)


def test_only_the_gradients_that_are_asked_for_are_given():
    x, beta = torch.randn(2, 3).requires_grad_(), torch.ones(3).requires_grad_()
    gw.functional.swish(x.detach(), beta).sum().backward()
    assert x.grad is None and beta.grad is not None
    beta.grad = None
    gw.functional.swish(x, beta.detach()).sum().backward()
    assert x.grad is not None and beta.grad is None


def test_nothing_is_nothing():
    for shape in ((0,), (2, 0, 3)):
        x = torch.empty(shape, requires_grad=True)
        gw.functional.silu(x).sum().backward()
        assert x.grad is not None and x.grad.shape == shape
    x, beta = torch.empty(0, 3, requires_grad=True), torch.ones(3, requires_grad=True)
    gw.functional.swish(x, beta).sum().backward()
    assert beta.grad is not None and beta.grad.tolist() == [0.0] * 3


def test_the_form_that_ran_is_named_fused():
    recording = start_recording()
    gw.functional.silu(torch.randn(3))
    assert stop_recording(recording) == "fused"


def forward_mode(x: Tensor) -> Tensor:
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, torch.ones_like(x))
        return forward_ad.unpack_dual(gw.functional.silu(dual)).primal


WAYS = {
    "vmap": lambda x: torch.vmap(gw.functional.silu)(x),
    "forward mode": forward_mode,
    "compile": lambda x: torch.compile(gw.functional.silu, backend="eager")(x),
    "export": lambda x: torch.export.export(gw.nn.SiLU(), (x,)).module()(x),
    "float64": lambda x: gw.functional.silu(x.double()),
}


@pytest.mark.parametrize("way", WAYS)
def test_elsewhere_the_plain_form_runs(way: str, calls: list[str]):
    x = torch.linspace(-3.0, 3.0, 24).reshape(4, 6)
    got = WAYS[way](x)
    assert calls == []
    torch.testing.assert_close(got.float(), functional.silu(x), rtol=1e-5, atol=1e-6)


def test_second_derivatives_are_those_of_the_plain_form(calls: list[str]):
    gw.functional.gelu(torch.randn(3))
    calls.clear()  # of the check before the first use
    found = []
    for dtype in (torch.float32, torch.float64):
        x = torch.linspace(-3.0, 3.0, 20, dtype=dtype, requires_grad=True)
        (slope,) = torch.autograd.grad(gw.functional.gelu(x).sum(), x, create_graph=True)
        found.append(torch.autograd.grad(slope.sum(), x)[0].double())
    torch.testing.assert_close(*found, rtol=1e-4, atol=1e-5)
    assert calls == ["values"]


def plus_one(x: Tensor) -> Tensor:
    return x + 1.0


@pytest.mark.parametrize("fault", ["wrong", "error"])
def test_a_kernel_that_differs_from_the_plain_form_is_not_used(fault: str, monkeypatch):
    def damaged(function, numbers):
        if fault == "error":
            raise RuntimeError("no such GPU")
        return building.kernels_of(torch.neg if function is plus_one else function, numbers)

    monkeypatch.setattr(launching, "kernels_of", damaged)
    launching._checked_kernel.cache_clear()
    fused = gw.fuse(plus_one)
    with pytest.warns(RuntimeWarning, match="no such GPU" if fault == "error" else "off by up to"):
        assert fused(torch.tensor([2.0])).item() == 3.0
    launching._checked_kernel.cache_clear()


def test_special_inputs_are_those_of_the_plain_form(monkeypatch: pytest.MonkeyPatch):
    x = torch.tensor([0.0, -0.0, 1e-45, -1e-38, 90.0, -105.0, 3e38, -3e38, math.inf, -math.inf])
    for name in ("silu", "gelu", "mish", "elu", "softplus"):
        case = Case(gw.get_unit(name), {})
        got = value_and_slope(case, x)
        with monkeypatch.context() as patch:
            patch.setattr(launching, "has_triton", lambda: False)
            launching._checked_kernel.cache_clear()
            want = value_and_slope(case, x)
        launching._checked_kernel.cache_clear()
        for ours, theirs in zip(got, want, strict=True):
            torch.testing.assert_close(ours, theirs, rtol=2.0**-20, atol=2.0**-22, equal_nan=True)
        assert torch.equal(got[0][:2].signbit(), want[0][:2].signbit())
