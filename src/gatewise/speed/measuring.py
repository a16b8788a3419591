"""Times of two functions taken in turns, and the bytes that autograd keeps."""

import statistics
from collections.abc import Callable
from dataclasses import dataclass, field

import torch
from torch import Tensor, nn

from gatewise.speed.placing import clock, place, seconds_of

WARM_UP = 2  # rounds before times count


@dataclass(frozen=True)
class Timing:
    """Time of one function over that of another, by rounds in which both ran.

    Attributes:
        ratio: the median of the rounds' ratios.
        low: the first quartile.
        high: the third quartile.
        rounds: how many rounds.
        steps: both functions, if there are two.
    """

    ratio: float
    low: float
    high: float
    rounds: int
    steps: tuple[Callable[[], object], ...] = field(default=(), repr=False, compare=False)


def compare_times(
    ours: Callable[[], object],
    theirs: Callable[[], object],
    *,
    seconds: float,
    least: int = 5,
) -> Timing:
    """Return the time of ``ours`` over that of ``theirs``: of the processor, or of the GPU.

    Both run once per round, and the order changes from round to round. So a machine that becomes
    slower or busier changes both.

    Args:
        ours: what is measured.
        theirs: what it is compared with.
        seconds: time after which no further round begins.
        least: the least number of rounds.
    """
    ratios: list[float] = []
    began = clock()
    turn = 0
    while len(ratios) < least or clock() - began < seconds:
        order = (ours, theirs) if turn % 2 else (theirs, ours)
        taken = {}
        for function in order:
            taken[function] = seconds_of(function)
        if turn >= WARM_UP and taken[theirs] > 0:
            ratios.append(taken[ours] / taken[theirs])
        turn += 1
        if len(ratios) >= 1001:
            break
    low, middle, high = statistics.quantiles(ratios, n=4, method="inclusive")
    return Timing(middle, low, high, len(ratios), (ours, theirs))


def kept_bytes(function: Callable[[], Tensor], *without: Tensor) -> int:
    """Return how many bytes of distinct storages autograd keeps for the backward pass.

    Args:
        function: runs the forward pass.
        *without: tensors whose storages do not count, such as parameters.
    """
    ignored = {tensor.untyped_storage().data_ptr() for tensor in without}
    storages: dict[int, int] = {}
    kept: list[Tensor] = []

    def keep(tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in ignored:
            storages[storage.data_ptr()] = storage.nbytes()
            kept.append(tensor)  # no other storage may get the same address
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        function()
    return sum(storages.values())


def forward_and_backward(
    function: Callable[[Tensor], Tensor],
    x: Tensor,
    parameters: list[nn.Parameter],
) -> Callable[[], object]:
    """Return a step: forward, and gradients to the input and the parameters.

    Args:
        function: of the input.
        x: the input.
        parameters: of the function.
    """
    with torch.no_grad():
        gradient = torch.randn_like(function(x))

    def step() -> object:
        leaf = x.detach().requires_grad_()
        return torch.autograd.grad(function(leaf), [leaf, *parameters], gradient)

    return step


def memory_floor(seconds: float) -> Timing:
    """Return the time of copying and adding maps, over native relu forward and backward.

    Args:
        seconds: time to spend.
    """
    x = place(torch.randn(32, 64, 56, 56))
    out = torch.empty_like(x)
    other = torch.empty_like(x)

    def floor() -> None:
        out.copy_(x)
        torch.add(x, out, out=other)

    return compare_times(floor, forward_and_backward(torch.relu, x, []), seconds=seconds)
