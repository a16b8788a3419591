"""Responses to inputs of any size, without overflow in between.

Without this, a sum of large numbers could be infinity minus infinity.

Note [Small scale]. A response is proportional to its input and bias. If a sample holds a number
beyond ``far_from`` (1.3e30 in float32), the response is computed 2^28 times smaller and scaled
back. This is exact, because the scale is a power of two. Sums stay finite as long as the magnitudes
of the weights of one output add up to less than 2^28. A value that is itself out of range becomes
the largest number, because infinity would turn into NaN at a closed gate or another infinity.

Note [No gradient]. The gradient of a weight is a sum over samples and positions of numbers as large
as the input. It overflows in the same way, and no scale helps. Such a sample passes no gradient;
the other samples of the batch do.

Note [Two forms]. On a CPU the range is checked first, and usual inputs take the plain path: the
same bits at the cost of one pass that only reads. Where values cannot be read (compile, export,
vmap) or reading makes the host wait (an accelerator), scale and choice are part of the computation,
and the scale is 1 for usual inputs. Float16 is left alone: its products fit into float32, in which
they are summed.
"""

from collections.abc import Callable

import torch
from torch import Tensor

# The factor of the small scale, a power of two. See Note [Small scale].
MARGIN = 2.0**28

Respond = Callable[[Tensor, Tensor | None], Tensor]


def far_from(dtype: torch.dtype) -> float:
    """Return the magnitude beyond which responses are computed on a small scale."""
    return torch.finfo(dtype).max / MARGIN


def at_any_size(
    respond: Respond,
    x: Tensor,
    bias: Tensor | None = None,
    *,
    dims: int = 1,
    limit: float | None = None,
) -> Tensor:
    """Return ``respond(x, bias)`` for finite ``x``, without overflow in between.

    Args:
        respond: a function that is linear in ``x`` and ``bias`` together.
        x: the input, with one sample along the last ``dims`` dimensions.
        bias: the bias, or ``None``.
        dims: the number of dimensions of a sample.
        limit: the bound of responses to samples far out; by default the largest finite number.

    See the notes above.
    """
    if x.dtype == torch.float16 or _is_near(x):
        return respond(x, bias)
    far_out = _far_out(x, dims)
    # One scale for the whole batch, 1 if no sample is far out.
    scale = torch.where(far_out.any(), 1 / MARGIN, 1.0)
    out = respond(x * scale, None if bias is None else bias * scale) / scale
    bound = torch.finfo(out.dtype).max if limit is None else limit
    return torch.where(far_out, out.detach().clamp(-bound, bound), out)


def _is_near(x: Tensor) -> bool:
    """Return whether no number is far out; ``False`` also if that cannot be read.

    See Note [Two forms].
    """
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()  # pyright: ignore[reportPrivateImportUsage] - public
    if traced or x.device.type != "cpu":
        return False
    if not x.numel():
        return True
    values = x.detach()
    bound = far_from(x.dtype)
    try:
        low = values.amin().item()
        high = values.amax().item()
    except RuntimeError:  # on meta, or batched by vmap
        return False
    # A tracer's symbol is no float.
    return isinstance(low, float) and isinstance(high, float) and -bound <= low and high <= bound


def _far_out(x: Tensor, dims: int) -> Tensor:
    """Return which samples hold a number that is far out, but none that is infinite or NaN.

    The last ``dims`` dimensions of the result have size 1.
    """
    size = x.detach().abs().amax(list(range(-dims, 0)), keepdim=True)
    return (size > far_from(x.dtype)) & size.isfinite()
