"""Which calls compiled code may take over.

It takes over eager calls, up to float32. Nothing may observe the torch operations that a compiled
call leaves out.
"""

import torch
from torch import Tensor, nn
from torch.autograd import forward_ad
from torch.overrides import _get_current_function_mode_stack

DTYPES = (torch.float32, torch.bfloat16, torch.float16)


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
    """Return whether ``x`` is on the CPU, and its memory holds its numbers as they are.

    That is not so for subclasses, and for tensors that torch has only marked as negated or zero.
    """
    return (
        x.is_cpu
        and (type(x) is Tensor or type(x) is nn.Parameter)
        and x.dtype in DTYPES
        and x.layout is torch.strided
        and torch._C._has_storage(x)
        and not x.is_neg()
        and not x._is_zerotensor()
    )
