"""Contract: memory layout, length, batch size and threads change a value by its error only.

Two results of one input differ by at most twice the unit's error bound. So a unit that is exact has
the same bits.
"""

import torch
from torch import Tensor

from gatewise.testing.case import SHAPE, Case, require
from gatewise.testing.ulps import ulps_apart
from gatewise.units import Bound


def agree(case: Case, a: Tensor, b: Tensor, *, backward: bool = False) -> bool:
    """Return whether two float32 results of one input are within twice the unit's error bound.

    Args:
        case: the unit and its options.
        a: a result.
        b: another one.
        backward: whether they are derivatives.
    """
    promise = case.unit.error["float32"]
    bound: Bound = promise.backward if backward else promise.forward
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


def every_length_gives_the_same_values(case: Case) -> None:
    """N8: the first n elements of a long row have the values of a row of n, up to n = 64."""
    if case.probed_ratio < 1:
        return
    x = case.spread(case.sample(shape=(768,)))
    long = _parts(case, x)
    # Lengths up to 64 leave every rest of a vector register, which torch computes in another way.
    for length in range(1, 65):
        short = _parts(case, x[..., :length])
        for part, want in zip(short, long, strict=True):
            same = agree(case, part, want[..., :length])
            require(same, f"a row of {length} gives other values than a long row")


def a_single_number_is_an_input(case: Case) -> None:
    """N8: 0-dimensional tensors work if no channel dimension is needed."""
    if not case.takes_any_shape:
        return
    x = case.sample(shape=(5,))
    want = case.function(x[None, None])[0, 0]
    module = case.build()
    got = torch.stack([module(v) for v in x])
    require(agree(case, got, want), "0-dimensional inputs give other values")


def threads_do_not_matter(case: Case) -> None:
    """N9: 1 to 4 threads give the same values, forward and backward."""
    # Large enough for torch to divide the work between threads.
    x = case.sample(shape=(8, 6, 64, 96))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        want = _value_and_gradient(case, x)
        for count in (2, 3, 4):
            torch.set_num_threads(count)
            value, slope = _value_and_gradient(case, x)
            same = agree(case, value, want[0]) and agree(case, slope, want[1], backward=True)
            require(same, f"{count} threads give other values than one")
    finally:
        torch.set_num_threads(before)


def _value_and_gradient(case: Case, x: Tensor) -> tuple[Tensor, Tensor]:
    leaf = x.clone().requires_grad_()
    y = case.function(leaf)
    return y.detach(), torch.autograd.grad(y, leaf, torch.ones_like(y))[0]


def _parts(case: Case, x: Tensor) -> tuple[Tensor, ...]:
    return case.function(x).chunk(int(case.probed_ratio), case.dim)
