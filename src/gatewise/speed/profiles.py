"""Why a line is missed: where the time goes, measured when it is missed."""

import os
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.profiler import ProfilerActivity, profile

from gatewise.speed.measuring import forward_and_backward
from gatewise.speed.placing import place, seconds_of

Step = Callable[[], object]
STEPS = 5  # that are profiled
SHOWN = 3  # operators
REPEATS = 15
OUTSIDE = "outside of operators"
LEAST = 0.02  # of a step: operators below this share are not named
# Maps of two sizes that stay in the second cache. Their difference has no cost of calls or rows.
CACHED = ((1, 64, 16, 16), (1, 64, 32, 32))
MOSTLY = 0.6  # of the time: from here on the arithmetic is the reason


def operators_in_words(ours: Step, theirs: Step) -> str:
    """Return the operators that take most of the time of both sides, in ms for one step.

    The time outside of torch's operators is that of compiled passes and of Python.

    Args:
        ours: a step of what is measured.
        theirs: a step of what it is compared with.
    """
    return f"ours {_operators(ours)}; theirs {_operators(theirs)}"


def _operators(step: Step) -> str:
    os.environ.setdefault("KINETO_LOG_LEVEL", "99")  # the profiler would write lines of its own
    step()
    total = 1000 * _least([step], STEPS)[0]
    with profile(activities=[ProfilerActivity.CPU]) as profiled:
        for _ in range(STEPS):
            step()
    times: dict[str, float] = {}
    for event in profiled.key_averages():
        name = event.key.removeprefix("aten::").removeprefix("autograd::engine::")
        if not name.startswith("evaluate_function"):
            took = event.self_cpu_time_total / STEPS / 1000
            times[name] = times.get(name, 0.0) + took
    times[OUTSIDE] = total - sum(times.values())
    longest = sorted(times, key=lambda name: -times[name])[:SHOWN]
    shown = [f"{name} {times[name]:.1f}" for name in longest if times[name] > LEAST * total]
    return f"{total:.1f} ms ({', '.join(shown)})"


def cache_in_words(
    ours: Callable[[Tensor], Tensor],
    theirs: Callable[[Tensor], Tensor],
    target: float,
    shape: tuple[int, ...],
    dtype: torch.dtype = torch.float32,
) -> str:
    """Return whether arithmetic or memory takes the time of an elementwise function.

    Both sides run forward and backward on maps that stay in the second cache, and on the maps of
    the line.

    Args:
        ours: what is measured.
        theirs: what it is compared with.
        target: the time of ours over theirs that was asked for.
        shape: of the maps of the line.
        dtype: of the maps.
    """
    cached = [_nanoseconds_in_cache(function, dtype) for function in (ours, theirs)]
    elements = torch.Size(shape).numel()
    whole = []
    for function in (ours, theirs):
        step = _step(function, shape, dtype)
        step()
        whole.append(_least([step], 5)[0] / elements * 1e9)
    kind = "arithmetic" if cached[0] >= MOSTLY * whole[0] else "memory and calls"
    if whole[0] <= target * whole[1]:
        kind = "within the target in the profile, which does not show why it was missed"
    return (
        f"{kind}: in the cache {cached[0]:.2f} ns an element forward and backward, the other "
        f"side {cached[1]:.2f}; on these maps {whole[0]:.2f} and {whole[1]:.2f}"
    )


def _step(function: Callable[[Tensor], Tensor], shape: tuple[int, ...], dtype: torch.dtype) -> Step:
    x = place(torch.randn(shape, generator=torch.Generator().manual_seed(0)).to(dtype))
    parameters = list(function.parameters()) if isinstance(function, nn.Module) else []
    return forward_and_backward(function, x, parameters)


def _nanoseconds_in_cache(function: Callable[[Tensor], Tensor], dtype: torch.dtype) -> float:
    """Return the time for one element more, forward and backward."""
    steps = [_step(function, shape, dtype) for shape in CACHED]
    small, large = _least([_repeated(step) for step in steps], REPEATS)
    more = torch.Size(CACHED[1]).numel() - torch.Size(CACHED[0]).numel()
    return max(0.0, large - small) / REPEATS / more * 1e9


def _repeated(step: Step) -> Step:
    def run() -> None:
        for _ in range(REPEATS):
            step()

    return run


def _least(steps: list[Step], rounds: int) -> list[float]:
    """Return the least seconds of each step, taken in turns: other work only adds to them."""
    taken: list[list[float]] = [[] for _ in steps]
    for _ in range(rounds):
        for place_of, step in enumerate(steps):
            taken[place_of].append(seconds_of(step))
    return [min(times) for times in taken]
