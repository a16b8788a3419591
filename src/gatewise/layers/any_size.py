"""Responses to inputs of any size.

No sum overflows on the way to a value, so none is infinity minus infinity.

Note [Small scale]. A response is proportional to its input and bias. Where a sample holds a number
beyond ``far_from`` (1.3e30 in float32), the whole is computed 2^28 times smaller and enlarged
again: exact, for it is a power of two. Sums then stay finite as long as the weights of one output
add up to less than 2^28, in magnitude; a value that is itself out of range becomes the largest
number, for the infinity would be NaN once a closed gate or another infinity meets it.

Note [No gradient]. The gradient of a weight is a sum over samples and positions of numbers as large
as the input, which overflows in the same way, and no scale helps. Such a sample passes no gradient;
the other samples of the batch do.

Note [Two forms]. On a processor the range is looked at first, and usual inputs take the plain path:
the same bits at the cost of one pass that only reads. Where nothing can be looked at (compile,
export, vmap) or looking would make the host wait (an accelerator), scale and choice are part of the
computation; the scale is then 1 for usual inputs. Float16 is left alone: its products fit into
float32, in which they are added up.
"""

from collections.abc import Callable

import torch
from torch import Tensor

MARGIN = 2.0**28

Respond = Callable[[Tensor, Tensor | None], Tensor]


def far_from(dtype: torch.dtype) -> float:
    """The magnitude beyond which responses are computed on a small scale."""
    return torch.finfo(dtype).max / MARGIN


def at_any_size(
    respond: Respond,
    x: Tensor,
    bias: Tensor | None = None,
    *,
    dims: int = 1,
    limit: float | None = None,
) -> Tensor:
    """``respond(x, bias)`` without overflow on the way, for finite ``x`` whose samples lie along the last ``dims``.

    ``limit`` bounds the response of samples far out; the largest number by default. See the notes above.
    """
    if x.dtype == torch.float16 or _is_near(x):
        return respond(x, bias)
    far_out = _far_out(x, dims)
    scale = torch.where(far_out.any(), 1 / MARGIN, 1.0)
    out = respond(x * scale, None if bias is None else bias * scale) / scale
    bound = torch.finfo(out.dtype).max if limit is None else limit
    return torch.where(far_out, out.detach().clamp(-bound, bound), out)


def _is_near(x: Tensor) -> bool:
    """Whether no number is far out; ``False`` also where that cannot be read.

    See Note [Two forms].
    """
    traced = torch.compiler.is_compiling() or torch.jit.is_tracing()  # pyright: ignore[reportPrivateImportUsage] - public
    if traced or x.device.type != "cpu":
        return False
    if not x.numel():
        return True
    seen, far = x.detach(), far_from(x.dtype)
    try:
        low, high = seen.amin().item(), seen.amax().item()
    except RuntimeError:  # on meta, or batched by vmap
        return False
    return (
        isinstance(low, float) and isinstance(high, float) and -far <= low and high <= far
    )  # a symbol is no float


def _far_out(x: Tensor, dims: int) -> Tensor:
    """Which samples hold a number that is far out, but none that is infinite or NaN.

    1 along the last ``dims``.
    """
    seen = x.detach().abs()
    size = seen.amax(list(range(-dims, 0)), keepdim=True)
    return (size > far_from(x.dtype)) & size.isfinite()
