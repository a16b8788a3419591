"""CReLU in one compiled pass each way: values and gradients of torch's operations.

Gradients have their bits. Values differ in one bit: torch keeps the sign of 0, and here 0 has none.
"""

import pytest
import torch

from gatewise.functional import crelu
from gatewise.fused import crelu_pass, start_recording, stop_recording
from gatewise.native import library

pytestmark = pytest.mark.skipif(library("crelu").handle is None, reason="no compiled code")

SHAPES = ((3, 4, 5, 7), (2, 3), (5,), (2, 1, 4, 4), (3, 4, 1, 1), (2, 3, 4, 5, 6))


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("last", [False, True])
def test_values_and_gradients_are_those_of_torchs_operations(shape: tuple, last: bool):
    for axis in range(len(shape)):
        x = torch.randn(shape)
        x.view(-1)[:4] = torch.tensor([float("nan"), 0.0, float("-inf"), float("inf")])
        if last and x.dim() == 4:
            x = x.contiguous(memory_format=torch.channels_last)
        x.requires_grad_()
        recording = start_recording()
        y = crelu(x, axis)
        assert stop_recording(recording) == "fused"
        want = torch.cat((x.relu(), x.neg().relu()), axis)
        torch.testing.assert_close(y, want, rtol=0, atol=0, equal_nan=True)
        above = torch.randn_like(want)
        (ours,) = torch.autograd.grad(y, x, above)
        (theirs,) = torch.autograd.grad(want, x, above)
        assert torch.equal(ours, theirs)
        if min(shape) > 1:
            assert y.stride() == want.stride()


def test_second_derivatives_threads_and_tensors_with_gaps():
    x = torch.randn(4, 6, 200, 210)[:, ::2].requires_grad_()
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        y = crelu(x)
    finally:
        torch.set_num_threads(before)
    assert torch.equal(y, torch.cat((x.relu(), x.neg().relu()), 1))
    above = torch.randn_like(y).requires_grad_()
    (slope,) = torch.autograd.grad(y, x, above, create_graph=True)
    (again,) = torch.autograd.grad(slope.sum(), above)
    assert torch.equal(again, torch.cat(((x > 0).float(), -(x < 0).float()), 1))


# Channels of images in channels_last are rows of this length: below, at and above one vector, the
# limit of short rows, and rows of which 100 fill no whole block.
CHANNELS = (1, 3, 7, 8, 9, 12, 15, 16, 23, 64, 127, 128, 129, 300)


@pytest.mark.parametrize("channels", CHANNELS)
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("streams", [False, True])
def test_rows_of_every_length(channels: int, threads: int, streams: bool, monkeypatch):
    monkeypatch.setattr(crelu_pass, "passes_caches", lambda out: streams)
    x = torch.randn(5, channels, 40, 33).contiguous(memory_format=torch.channels_last)
    x[:, 0, :2, :3] = torch.tensor([float("nan"), -0.0, float("-inf")])
    x.requires_grad_()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        y = crelu(x, 1)
        want = torch.cat((x.relu(), x.neg().relu()), 1)
        above = torch.randn_like(want)
        (ours,) = torch.autograd.grad(y, x, above)
    finally:
        torch.set_num_threads(before)
    (theirs,) = torch.autograd.grad(want, x, above)
    torch.testing.assert_close(y, want, rtol=0, atol=0, equal_nan=True)
    assert torch.equal(ours, theirs)
