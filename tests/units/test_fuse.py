"""Fused units: the same values and derivatives, one tensor kept, and the unit itself elsewhere."""

import copy
import io
import pickle
import shutil
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.fx.experimental.proxy_tensor import make_fx
from torch.utils.flop_counter import FlopCounterMode

import gatewise as gw
from gatewise.units.contract import fusing

HAS_COMPILER = any(map(shutil.which, ("g++", "clang++", "c++")))
pytestmark = pytest.mark.skipif(not HAS_COMPILER, reason="no C++ compiler")

# One of each kind of code: trained numbers, a form of its own for the compiler, options.
FUSED = ["swish", "mish", "crelu"]
MORE = [
    "acon_c",
    "pau",
    "pserf",
    "smu",
    "xielu",
    "swiglu",
    "maxout",
    "frelu",
    "meta_acon",
    "jump_relu",
    "dyt",
]
MARKED = [*FUSED, *(pytest.param(name, marks=pytest.mark.slow) for name in MORE)]


def unit(name: str) -> nn.Module:
    torch.manual_seed(0)
    options: dict[str, Any] = {"dim": 1} if name in ("dyt", "swiglu") else {}
    return gw.create_unit(name, channels=6, **options)


def results(module: nn.Module, x: Tensor) -> list[Tensor]:
    leaf = x.detach().requires_grad_()
    y = module(leaf)
    above = torch.linspace(-1, 1, y.numel(), dtype=y.dtype).reshape(y.shape)
    return [y.detach(), *torch.autograd.grad(y, [leaf, *module.parameters()], above)]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Count the calls of kernels."""
    found: list[int] = []
    run = fusing._Kernel.__call__
    monkeypatch.setattr(
        fusing._Kernel, "__call__", lambda self, *given: (found.append(1), run(self, *given))[1]
    )
    return found


@pytest.mark.parametrize("name", MARKED)
def test_values_and_gradients_are_those_of_the_unit(name: str, calls: list[int]):
    module = unit(name)
    x = torch.randn(3, 6, 5, 4)
    wide = results(copy.deepcopy(module).double(), x.double())
    assert "0.2 s" in repr(gw.fuse(module))
    got = results(module, x)
    assert calls
    for ours, theirs in zip(got, wide, strict=True):
        torch.testing.assert_close(ours.double(), theirs, rtol=1e-4, atol=1e-4)


def test_half_types_are_computed_in_float32(calls: list[int]):
    module = unit("swish")
    x = torch.randn(3, 6, 5, 4).bfloat16()
    want = module(x)
    gw.fuse(module)
    got = module(x)
    assert calls and got.dtype == torch.bfloat16
    torch.testing.assert_close(got, want, rtol=2**-7, atol=0)


def test_one_tensor_is_kept():
    module = unit("swish").requires_grad_(False)
    kept: list[Tensor] = []
    x = torch.randn(3, 6, 5, 4, requires_grad=True)

    def keep(tensor: Tensor) -> Tensor:
        kept.append(tensor)
        return tensor

    def count() -> int:
        kept.clear()
        with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
            module(x)
        return len({each.data_ptr() for each in kept if each.shape == x.shape})

    assert count() > 1
    gw.fuse(module)
    assert count() == 1


def test_it_is_in_place_and_undone():
    model = nn.Sequential(nn.Conv2d(3, 6, 1), unit("swish"), gw.create_unit("relu"))
    names = set(model.state_dict())
    said = gw.fuse(model)
    assert said.compiled == {"Swish": 1} and said.left == {"ReLU": 1}
    assert model[1].fused and not model[2].fused
    assert set(model.state_dict()) == names
    gw.unfuse(model)
    assert not model[1].fused


def test_copies_pickles_and_state_dicts_keep_working(calls: list[int]):
    model = nn.Sequential(unit("swish"))
    gw.fuse(model)
    x = torch.randn(2, 6, 4, 4)
    want = model(x)
    file = io.BytesIO()
    torch.save(model, file)
    file.seek(0)
    for other in (
        copy.deepcopy(model),
        pickle.loads(pickle.dumps(model)),
        torch.load(file, weights_only=False),
    ):
        calls.clear()
        torch.testing.assert_close(other(x), want)
        assert other[0].fused and calls
    fresh = nn.Sequential(unit("swish"))
    fresh.load_state_dict(model.state_dict())
    assert not fresh[0].fused


def test_the_unit_runs_where_something_watches(calls: list[int]):
    module = unit("swish")
    x = torch.randn(2, 6, 4, 4)
    want = module(x)
    gw.fuse(module)
    torch.testing.assert_close(torch.vmap(module)(x[:, None])[:, 0], want)
    torch.func.jvp(module, (x,), (torch.ones_like(x),))
    torch.func.grad(lambda x: module(x).sum())(x)
    with FlopCounterMode(display=False):
        module(x)

    class Mode(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):
            return function(*args, **(kwargs or {}))

    with Mode():
        module(x)
    make_fx(module)(x)
    torch.compile(module, backend="eager", fullgraph=True)(x)
    assert not calls


def test_second_derivatives_are_those_of_the_unit(calls: list[int]):
    module = unit("swish").double()
    x = torch.randn(2, 6, 3, 2, dtype=torch.float64, requires_grad=True)
    gw.fuse(module)
    assert torch.autograd.gradgradcheck(module, (x,), fast_mode=True)
    assert calls


def test_hooks_of_the_input_run_once():
    module = unit("swish")
    gw.fuse(module)
    x = torch.randn(2, 6, 4, 4, requires_grad=True)
    inner = x * 1.0
    seen = []
    inner.register_hook(lambda gradient: seen.append(1))
    module(inner).sum().backward()
    assert seen == [1]


def test_without_a_compiler_it_says_so_and_stays_eager(monkeypatch: pytest.MonkeyPatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("CXX", raising=False)
    module = unit("swish")
    said = gw.fuse(module)
    assert "no C++ compiler" in repr(said) and not module.fused


def test_a_compiler_that_fails_is_said_once(monkeypatch: pytest.MonkeyPatch):
    def fail(*_: object, **__: object) -> None:
        raise RuntimeError("the compiler is broken")

    def broken(function, **_):
        return fail

    monkeypatch.setattr(torch, "compile", broken)
    fusing._kernel.cache_clear()
    module = unit("star_relu")
    x = torch.randn(2, 6, 4, 4)
    want = module(x)
    gw.fuse(module)
    with pytest.warns(RuntimeWarning, match="the compiler is broken"):
        torch.testing.assert_close(module(x), want)
    torch.testing.assert_close(module(x), want)
    fusing._kernel.cache_clear()


def test_what_is_no_model_is_refused():
    with pytest.raises(gw.errors.ArgumentError, match="a model is needed"):
        gw.fuse(lambda x: x)  # pyright: ignore[reportArgumentType]


def test_compiled_crelu_is_right_at_zero_and_infinities():
    module = torch.compile(gw.create_unit("crelu"), backend="aot_eager", fullgraph=True)
    x = torch.tensor([0.0, -0.0, torch.inf, -torch.inf, 1.0, -2.0, torch.nan])
    x = x.reshape(1, -1, 1).transpose(0, 1).contiguous().requires_grad_()
    y = module(x)
    want = gw.create_unit("crelu")(x)
    assert torch.equal(y.nan_to_num(nan=7.0), want.nan_to_num(nan=7.0))
    (slope,) = torch.autograd.grad(y[:6].sum(), x)
    assert slope.flatten()[:6].tolist() == [0.0, 0.0, 1.0, -1.0, 1.0, -1.0]
