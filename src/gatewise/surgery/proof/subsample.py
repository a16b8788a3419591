"""Which part of an example a long proof is carried out on."""

import math
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gatewise.graph import example_tensors
from gatewise.surgery.proof.running import SEED, each_tensor
from gatewise.surgery.proof.small_maps import SmallMaps

MUCH = 2e9  # operations of a pass on the whole example; beyond, most of the proof is on less
# pixels: the last maps of smaller pictures often have one element, on which batch norm cannot train
LEAST = 48


@dataclass(frozen=True)
class Part:
    """Some of an example, and in words which; no words: all of it."""

    example: Any
    words: str = ""

    def quick(self) -> AbstractContextManager[Any]:
        """What to run it in: less than all of the example was taken to be quick, and small maps can be quicker."""
        return SmallMaps() if self.words else nullcontext()


def parts(example: Any, operations: int) -> list[Part]:
    """The parts to try, the least first, all of it last; all of it alone where a pass is short."""
    whole, batch = Part(example), _batch(example)
    if operations <= MUCH or batch is None:
        return [whole]
    one = Part(first_of(example), "the first of the batch")
    steps = _halvings(example, operations / batch)
    if not steps:
        return [one, whole]
    cut = each_tensor(
        one.example, lambda value: _middle(value, 2**steps) if _is_picture(value) else value
    )
    sides = " and ".join(
        dict.fromkeys("x".join(map(str, each.shape[2:])) for each in _pictures(cut))
    )
    return [Part(cut, f"the middle {sides} of the first of the batch"), one, whole]


def first_of(example: Any) -> Any:
    """The first of the batch by itself: another batch size, and less to compute."""
    if _batch(example) is None:
        return example
    return each_tensor(example, lambda value: value[:1] if value.dim() else value)


def random_example(example: Any) -> Any:
    """Random numbers of the spread of the example's.

    Numbers that are not floating stay, for they may be indices.
    """
    generator = torch.Generator().manual_seed(SEED + 1)

    def change(value: Tensor) -> Tensor:
        if not value.is_floating_point():
            return value
        spread = value.float().std() if value.numel() > 1 else torch.ones(())
        return (torch.randn(value.shape, generator=generator) * spread.cpu()).to(value)

    return each_tensor(example, change)


def _batch(example: Any) -> int | None:
    """The size of the batch; ``None`` where the tensors do not agree on one."""
    sizes = {each.shape[0] for each in example_tensors(example) if each.dim()}
    return sizes.pop() if len(sizes) == 1 else None


def _halvings(example: Any, operations: float) -> int:
    """How often pictures are halved until a pass is short, or they are small."""
    least = min((min(each.shape[2:]) for each in _pictures(example)), default=0)
    short = math.ceil(math.log(max(1.0, operations / MUCH), 4))
    return min(short, int(math.log2(max(1.0, least / LEAST))))


def _pictures(example: Any) -> list[Tensor]:
    return [each for each in example_tensors(example) if _is_picture(each)]


def _is_picture(value: Tensor) -> bool:
    return value.is_floating_point() and value.dim() == 4


def _middle(value: Tensor, divisor: int) -> Tensor:
    """``(N, C, H, W) -> (N, C, H / divisor, W / divisor)``."""
    for dim in (2, 3):
        size = max(1, value.shape[dim] // divisor)
        value = value.narrow(dim, (value.shape[dim] - size) // 2, size)
    return value.contiguous()
