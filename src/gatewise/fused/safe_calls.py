"""Which calls compiled code may take over, and how it reads and writes their memory.

It takes over eager calls, up to float32. Nothing may observe the torch operations that a compiled
call leaves out.
"""

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.overrides import _get_current_function_mode_stack

from gatewise.native import is_allocator_tuned

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
STREAMED = 8 << 20  # bytes of an output that the next operation does not find in a cache of its own


def is_watched() -> bool:
    """Return whether something observes or changes torch's operations here.

    That is a transform, a compilation, a trace, a mode, or a level of forward differentiation.
    """
    return (
        torch.compiler.is_compiling()
        or torch._C._are_functorch_transforms_active()
        or torch._C._len_torch_dispatch_stack() > 0
        or (torch._C._len_torch_function_stack() > 0 and _is_mode_watching())
        or torch._C._get_tracing_state() is not None
        or forward_ad._current_level >= 0
    )


def _is_mode_watching() -> bool:
    """Return whether a mode may look at units.

    Modes of this library that have nothing to do with units say so in ``leaves_units_alone``: what
    is proved under them must be what runs later.
    """
    modes = _get_current_function_mode_stack()
    return not all(getattr(mode, "leaves_units_alone", False) for mode in modes)


def is_readable(x: Tensor) -> bool:
    """Return whether ``x`` is on the CPU, and its memory holds its numbers as they are."""
    return x.is_cpu and holds_its_numbers(x)


def holds_its_numbers(x: Tensor) -> bool:
    """Return whether the memory of ``x``, on any device, holds its numbers as they are.

    That is not so for subclasses, and for tensors that torch has only marked as negated or zero.
    """
    return (
        (type(x) is Tensor or type(x) is nn.Parameter)
        and x.dtype in DTYPES
        and x.layout is torch.strided
        and torch._C._has_storage(x)
        and not x.is_neg()
        and not x._is_zerotensor()
    )


def is_on_gpu(x: Tensor) -> bool:
    """Return whether ``x`` is on a GPU for which Triton compiles, of NVIDIA or AMD."""
    return x.is_cuda


def dense(x: Tensor) -> Tensor:
    """Return ``x`` if it fills its memory without gaps and overlaps, in any order; else a copy."""
    if x.is_contiguous() or _fills_its_memory(x):
        return x
    return x.clone()


def _fills_its_memory(x: Tensor) -> bool:
    steps = [pair for pair in zip(x.stride(), x.shape, strict=True) if pair[1] != 1]
    expected = 1
    for stride, size in sorted(steps):
        if stride != expected:
            return False
        expected *= size
    return True


def passes_caches(out: Tensor) -> bool:
    """Return whether an output is written by stores that pass the caches by.

    They save the reading of what is overwritten. In memory that is new to the process they cost
    more than they save.

    Args:
        out: the output.
    """
    return out.numel() * out.element_size() >= STREAMED and is_allocator_tuned()
