"""Outputs that pass the caches by: the bits of ordinary stores, and only where it pays."""

import pytest
import torch

import gatewise as gw
from gatewise.fused import crelu_pass, kernels, safe_calls
from gatewise.native import allocator, library

pytestmark = pytest.mark.skipif(library("crelu").handle is None, reason="no compiled code")

OPTIONS = {
    "crelu": {},
    "gelu": {},
    "prelu": {},
    "swish": {"channels": 5},
}
# Lengths that are no multiple of a cache line, so that rows begin anywhere in one.
SHAPES = ((3, 5, 7, 11), (2, 5), (1, 5, 1), (4, 5, 33, 17))


def _run(name: str, x: torch.Tensor) -> list[torch.Tensor]:
    """Return the output and all gradients."""
    unit = gw.create_unit(name, **OPTIONS[name])
    leaf = x.clone().requires_grad_()
    out = unit(leaf)
    above = torch.linspace(-1, 1, out.numel()).reshape(out.shape)
    return [out, *torch.autograd.grad(out, [leaf, *unit.parameters()], above)]


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("last", [False, True])
def test_no_bit_depends_on_the_kind_of_store(name, shape, last, monkeypatch):
    x = torch.randn(shape)
    if last and x.dim() == 4:
        x = x.contiguous(memory_format=torch.channels_last)
    want = _run(name, x)
    asked = []

    def always(out: torch.Tensor) -> bool:
        asked.append(out)
        return True

    for module in (kernels, crelu_pass):
        monkeypatch.setattr(module, "passes_caches", always)
    for ours, theirs in zip(_run(name, x), want, strict=True):
        assert torch.equal(ours, theirs)
    assert asked


@pytest.mark.parametrize("threads", [1, 3])
def test_every_thread_finishes_its_stores(threads, monkeypatch):
    monkeypatch.setattr(kernels, "passes_caches", lambda out: True)
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        x = torch.randn(1 << 19)
        assert torch.equal(gw.functional.gelu(x)[::4097], gw.functional.gelu(x[::4097]))
    finally:
        torch.set_num_threads(before)


def test_only_large_outputs_in_reused_memory_pass_the_caches_by(monkeypatch):
    small, large = torch.empty(1000), torch.empty(safe_calls.STREAMED // 4)
    monkeypatch.setattr(allocator, "_tuned", [])
    assert not safe_calls.passes_caches(large)
    monkeypatch.setattr(allocator, "_tuned", [False])  # another C library
    assert not safe_calls.passes_caches(large)
    monkeypatch.setattr(allocator, "_tuned", [True])
    assert safe_calls.passes_caches(large)
    assert not safe_calls.passes_caches(small)
