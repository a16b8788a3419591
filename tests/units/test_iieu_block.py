"""IIEU-B with its convolution and batch norm in compiled passes: against the modules in float64."""

import copy
from contextlib import contextmanager

import pytest
import torch
from torch import Tensor, nn

from gatewise.layers import ConvIIEU
from gatewise.units import run_block
from gatewise.units.block import map_steps
from gatewise.units.block.map_steps import MapSteps, map_library

pytestmark = pytest.mark.skipif(map_library() is None, reason="no compiled code")

GEOMETRIES = (
    {"kernel_size": 3, "padding": 1},
    {"kernel_size": 1, "stride": 2},
    {"kernel_size": (3, 2), "stride": (2, 1), "padding": (2, 1), "dilation": (1, 2)},
    {"kernel_size": 5, "stride": 3, "padding": 2, "groups": 2},
)
NORMS = ("none", "training", "evaluation")
LAYOUTS = (torch.contiguous_format, torch.channels_last)


def made(geometry: dict, norm: str, layout: torch.memory_format, **options) -> ConvIIEU:
    """A layer with every number moved off its start, so that none can be left out unnoticed."""
    torch.manual_seed(3)
    conv = nn.Conv2d(6, 10, bias=norm != "training", **geometry)
    layer = ConvIIEU(conv, None if norm == "none" else nn.BatchNorm2d(10), **options)
    with torch.no_grad():
        for value in (*layer.parameters(), *layer.buffers()):
            if value.is_floating_point():
                value.add_(0.3 * torch.rand(value.shape))
        layer.unit.eta.add_(0.4)  # so that responses fall on both sides
    return layer.to(memory_format=layout).train(norm != "evaluation")  # pyright: ignore[reportCallIssue]


@contextmanager
def modules_only(monkeypatch: pytest.MonkeyPatch):
    with monkeypatch.context() as patch:
        patch.setattr("gatewise.layers.iieu.iieu_layer.run_block", lambda *_: None)
        patch.setattr("gatewise.units.catalogue.iieu_b.run_block", lambda *_: None)
        yield


@contextmanager
def block_runs(monkeypatch: pytest.MonkeyPatch):
    """Fail unless the block runs within the context."""
    calls = []
    begin = MapSteps.begin
    with monkeypatch.context() as patch:
        patch.setattr(map_steps.MapSteps, "begin", lambda *given: (calls.append(1), begin(*given)))
        yield
    assert calls


def output_and_gradients(layer: nn.Module, x: Tensor, above: Tensor) -> list[Tensor]:
    leaf = x.detach().requires_grad_()
    y = layer(leaf)
    return [y.detach(), *torch.autograd.grad(y, [leaf, *layer.parameters()], above)]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("norm", NORMS)
@pytest.mark.parametrize("geometry", range(len(GEOMETRIES)))
def test_values_and_gradients_are_those_of_the_modules_in_float64(
    geometry: int, norm: str, layout: torch.memory_format, monkeypatch: pytest.MonkeyPatch
):
    layer = made(GEOMETRIES[geometry], norm, layout)
    wide = copy.deepcopy(layer).double()
    x = torch.randn(3, 6, 13, 11).contiguous(memory_format=layout)
    above = torch.randn(copy.deepcopy(layer)(x).shape)
    with block_runs(monkeypatch):
        got = output_and_gradients(layer, x, above)
    with modules_only(monkeypatch):
        want = output_and_gradients(wide, x.double(), above.double())
    for ours, theirs in zip(got, want, strict=True):
        # A sum of up to 150 products, then a dozen roundings, each 2^-24 of the largest.
        bound = 2.0**-18 * float(theirs.abs().max())
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=bound)
    for ours, theirs in zip(layer.buffers(), wide.buffers(), strict=True):
        torch.testing.assert_close(ours.double(), theirs.double(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("options", [{"term_b": "group", "groups": 5}, {"term_b": "affine"}])
def test_the_other_kinds_of_term_b(options: dict, monkeypatch: pytest.MonkeyPatch):
    layer = made(GEOMETRIES[0], "training", torch.contiguous_format, **options)
    wide = copy.deepcopy(layer).double()
    x, above = torch.randn(3, 6, 7, 5), torch.randn(3, 10, 7, 5)
    with block_runs(monkeypatch):
        got = output_and_gradients(layer, x, above)
    with modules_only(monkeypatch):
        want = output_and_gradients(wide, x.double(), above.double())
    for ours, theirs in zip(got, want, strict=True):
        bound = 2.0**-18 * float(theirs.abs().max())
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=bound)


def test_a_response_that_is_given_gets_its_gradient_and_so_do_source_and_filters(
    monkeypatch: pytest.MonkeyPatch,
):
    layer = made(GEOMETRIES[0], "none", torch.channels_last)
    conv, unit = layer.conv, layer.unit
    source = torch.randn(2, 6, 8, 9).contiguous(memory_format=torch.channels_last)
    response = (2 * torch.randn(2, 10, 8, 9)).contiguous(memory_format=torch.channels_last)
    above = torch.randn_like(response)

    def gradients(kind: torch.dtype) -> list[Tensor]:
        module, layer = copy.deepcopy(unit).to(kind), copy.deepcopy(conv).to(kind)
        leaves = [each.detach().to(kind).requires_grad_() for each in (response, source)]
        y = module(leaves[0], leaves[1], conv=layer)
        inputs = [*leaves, layer.weight, *module.parameters()]
        return [y.detach(), *torch.autograd.grad(y, inputs, above.to(kind))]

    with block_runs(monkeypatch):
        got = gradients(torch.float32)
    with modules_only(monkeypatch):
        want = gradients(torch.float64)
    for ours, theirs in zip(got, want, strict=True):
        bound = 2.0**-18 * float(theirs.abs().max())
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=bound)


@pytest.mark.parametrize("norm", NORMS)
def test_second_derivatives_are_those_of_the_modules(norm: str, monkeypatch: pytest.MonkeyPatch):
    layer = made(GEOMETRIES[0], norm, torch.contiguous_format)
    wide = copy.deepcopy(layer).double()
    x = torch.randn(2, 6, 5, 4)

    def second(module: nn.Module, x: Tensor) -> list[Tensor]:
        leaf = x.detach().requires_grad_()
        (slope,) = torch.autograd.grad(module(leaf).square().sum(), leaf, create_graph=True)
        return list(torch.autograd.grad(slope.square().sum(), [leaf, *module.parameters()]))

    got = second(layer, x)
    with modules_only(monkeypatch):
        want = second(wide, x.double())
    for ours, theirs in zip(got, want, strict=True):
        bound = 1e-4 * float(theirs.abs().max())
        torch.testing.assert_close(ours.double(), theirs, rtol=0, atol=bound)


def test_no_bit_depends_on_the_number_of_threads():
    layer = made(GEOMETRIES[0], "training", torch.channels_last)
    x = torch.randn(5, 6, 40, 41).contiguous(memory_format=torch.channels_last)
    above = torch.randn(5, 10, 40, 41)
    before = torch.get_num_threads()
    results = []
    try:
        for threads in (1, 2, 3):
            torch.set_num_threads(threads)
            y = run_block(layer.conv, layer.norm, layer.unit, x)
            assert y is not None
            assert layer.norm is not None
            parameters = [layer.unit.eta, layer.unit.shift.weight, layer.norm.weight]
            results.append([y, *torch.autograd.grad(y, parameters, above)])
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        for one, same in zip(results[0], other, strict=True):
            # The convolution of torch may add in another order.
            torch.testing.assert_close(one, same, rtol=1e-5, atol=1e-4)


def test_the_modules_run_where_something_observes_them():
    layer = made(GEOMETRIES[0], "evaluation", torch.contiguous_format)
    x = torch.randn(2, 6, 5, 5)
    parts = (layer.conv, layer.norm, layer.unit)
    assert run_block(*parts, x) is not None
    assert run_block(*parts, x.double()) is None
    assert run_block(*parts, 1e20 * x) is None and layer(1e20 * x).isfinite().all()
    assert run_block(*parts, x[:, :5]) is None
    seen = []
    for part in filter(None, parts):
        handle = part.register_forward_hook(lambda *_: seen.append(1))
        assert run_block(*parts, x) is None
        handle.remove()
    want = layer(x)
    torch.testing.assert_close(torch.vmap(layer)(x[:, None])[:, 0], want, rtol=1e-5, atol=1e-6)
    tangent = torch.func.jvp(layer, (x,), (torch.ones_like(x),))[0]
    torch.testing.assert_close(tangent, want, rtol=1e-5, atol=1e-6)


def test_a_norm_that_is_folded_gives_the_same_output(monkeypatch: pytest.MonkeyPatch):
    layer = made(GEOMETRIES[0], "evaluation", torch.channels_last)
    x = torch.randn(2, 6, 9, 9).contiguous(memory_format=torch.channels_last)
    with torch.no_grad(), block_runs(monkeypatch):
        folded = layer.fold()(x)
    torch.testing.assert_close(folded, layer(x).detach(), rtol=1e-5, atol=1e-5)


def test_under_autocast_the_modules_run():
    layer = made(GEOMETRIES[0], "training", torch.contiguous_format)
    x = torch.randn(2, 6, 5, 5)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert run_block(layer.conv, layer.norm, layer.unit, x) is None
        assert layer(x).isfinite().all()
