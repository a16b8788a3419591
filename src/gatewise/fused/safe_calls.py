"""Which calls compiled code may take.

Eager, on the CPU, in float32, with nobody watching the operations.
"""

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.overrides import _get_current_function_mode_stack


def is_watched() -> bool:
    """Whether something would see or change torch's operations here.

    A transform, a trace, a mode, a dual level.
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
    """Modes of ours that have nothing to do with units say so.

    What is proved under them must be what runs.
    """
    return not all(
        getattr(mode, "leaves_units_alone", False) for mode in _get_current_function_mode_stack()
    )


def is_readable(x: Tensor) -> bool:
    """Whether the numbers of ``x`` lie in memory as they are.

    No subclass, no negation or zero that is only noted.
    """
    return (
        (type(x) is Tensor or type(x) is nn.Parameter)
        and x.dtype is torch.float32
        and x.is_cpu
        and x.layout is torch.strided
        and torch._C._has_storage(x)
        and not x.is_neg()
        and not x._is_zerotensor()
    )


def dense(x: Tensor) -> Tensor:
    """``x`` itself if it fills its memory without gaps or overlaps, whatever the order.

    Else a copy that does.
    """
    return x if x.is_contiguous() or _fills_its_memory(x) else x.clone()


def _fills_its_memory(x: Tensor) -> bool:
    step = 1
    for stride, size in sorted(
        (stride, size) for stride, size in zip(x.stride(), x.shape, strict=True) if size != 1
    ):
        if stride != step:
            return False
        step *= size
    return True
