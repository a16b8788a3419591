"""Run elementwise code of torch on blocks that stay in the cache.

Note [The same bits]. Some functions of torch compute full vector registers by one formula and the
rest of a row by another. Every block here has a whole number of registers, for each of torch's
threads, so a number has one result whatever surrounds it.
"""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from gatewise.fused.safe_calls import dense

# Elements that torch gives to one thread. Fewer are never divided.
BLOCK = 1 << 15
# A multiple of what torch computes at once, on any processor.
REGISTERS = 64


def run_in_blocks(write: Callable[..., object], x: Tensor, *others: Tensor) -> Tensor:
    """Return what ``write`` computes from ``x`` and tensors of its shape, in the layout of ``x``.

    Args:
        write: gets a block of ``x``, of each other tensor, and of the output, which it fills.
        x: the elements.
        *others: tensors with the shape and dtype of ``x``.
    """
    x = dense(x.detach())
    out = torch.empty_like(x)
    flat = [_flat(x)]
    for other in others:
        if other.stride() != x.stride():
            other = torch.empty_like(x).copy_(other)
        flat.append(_flat(other.detach()))
    flat.append(_flat(out))
    start = 0
    for size in _sizes(x.numel()):
        _run_block(write, [each[start : start + size] for each in flat])
        start += size
    return out


def _flat(x: Tensor) -> Tensor:
    """Return the elements of a dense tensor in the order of its memory."""
    return x.as_strided((x.numel(),), (1,))


def _sizes(count: int) -> list[int]:
    """Return the sizes of the blocks. See Note [The same bits]."""
    sizes = []
    for step in (BLOCK * torch.get_num_threads(), BLOCK):
        sizes += [step] * (count // step)
        count %= step
    return [*sizes, count] if count else sizes


def _run_block(write: Callable[..., object], block: Sequence[Tensor]) -> None:
    size = block[0].numel()
    more = -size % REGISTERS
    if not more:
        write(*block)
        return
    padded = [torch.cat((each, each.new_zeros(more))) for each in block]
    write(*padded)
    block[-1].copy_(padded[-1][:size])
