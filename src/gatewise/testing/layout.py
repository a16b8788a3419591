"""Contract: memory layout and batch size change a value by its error only.

Two results of one input differ by at most twice the unit's error bound. So a unit that is exact has
the same bits.
"""

import torch
from torch import Tensor

from gatewise.testing.case import SHAPE, Case, require
from gatewise.testing.ulps import ulps_apart


def agree(case: Case, a: Tensor, b: Tensor) -> bool:
    """Return whether two float32 results of one input are within twice the unit's error bound.

    Args:
        case: the unit and its options.
        a: a result.
        b: another one.
    """
    bound = case.unit.error["float32"].forward
    close = (ulps_apart(a, b) <= 2 * bound.ulps) | ((a - b).abs() <= 2 * bound.absolute)
    return a.shape == b.shape and bool(close.all())


def layout_does_not_matter(case: Case) -> None:
    """N8: strided, transposed, channels-last and expanded inputs give the same values."""
    x = case.sample()
    want = case.function(x)
    wide = torch.empty(*SHAPE[:-1], 2 * SHAPE[-1])
    views = {
        "strided": wide[..., ::2].copy_(x),
        "transposed": x.transpose(2, 3).contiguous().transpose(2, 3),
        "channels_last": x.contiguous(memory_format=torch.channels_last),
        "batch-last": x.movedim(0, -1).contiguous().movedim(-1, 0),
    }
    for name, view in views.items():
        same = agree(case, case.function(view), want)
        require(same, f"{name} input gives other values than contiguous")
    # Expanded dimensions have stride 0.
    row = x[:1].expand(3, -1, -1, -1)
    require(
        agree(case, case.function(row), case.function(row.contiguous())),
        "expanded input gives other values than contiguous",
    )


def channels_last_is_kept(case: Case) -> None:
    """N8: a channels-last input gives a channels-last output."""
    out = case.build()(case.sample().contiguous(memory_format=torch.channels_last))
    require(
        out.is_contiguous(memory_format=torch.channels_last),
        "channels_last is lost",
        got=f"strides {out.stride()}",
    )


def batches_do_not_matter(case: Case) -> None:
    """N8: one sample at a time gives the values of the whole batch.

    An empty batch gives an empty result.
    """
    x = case.sample(shape=(5, *SHAPE[1:]))
    whole = case.function(x)
    singly = torch.cat([case.function(row) for row in x.split(1)])
    require(agree(case, whole, singly), "a batch of one gives other values than a batch of five")
    module = case.build()
    empty = module(x[:0])
    require(
        empty.shape == (0, *module(x).shape[1:]),
        "an empty batch gives the wrong shape",
        got=tuple(empty.shape),
    )


def a_single_number_is_an_input(case: Case) -> None:
    """N8: 0-dimensional tensors work if no channel dimension is needed."""
    if not case.takes_any_shape:
        return
    x = case.sample(shape=(5,))
    want = case.function(x[None, None])[0, 0]
    module = case.build()
    got = torch.stack([module(v) for v in x])
    require(agree(case, got, want), "0-dimensional inputs give other values")
