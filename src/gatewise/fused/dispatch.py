"""A smooth unit in one compiled pass forward and one back, chosen call by call."""

from typing import Any

import torch
from torch import Tensor

from gatewise.fused.kernels import Kernel, compiled
from gatewise.fused.safe_calls import is_readable, is_watched
from gatewise.units import KernelConstants, PlainForm


def elementwise(
    number: int, plain: PlainForm, x: Tensor, k: float | Tensor, constants: KernelConstants
) -> Tensor:
    """``plain(x, k)`` by the compiled kernel ``number`` where that is safe, by ``plain`` itself elsewhere."""
    if is_watched() or not _are_readable(x, k) or compiled() is None:
        return plain(x, k)
    kernel = Kernel(number, constants)
    if torch.is_grad_enabled() and (x.requires_grad or (isinstance(k, Tensor) and k.requires_grad)):
        return _Elementwise.apply(x, k, kernel, plain)  # pyright: ignore[reportReturnType] (untyped)
    return kernel.values(x, k)


def _are_readable(x: Tensor, k: float | Tensor) -> bool:
    return is_readable(x) and (not isinstance(k, Tensor) or is_readable(k))


class _Elementwise(torch.autograd.Function):
    """A kernel and its derivative.

    A derivative that is itself to be derived goes through the plain form.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, k: float | Tensor, kernel: Kernel, plain: PlainForm) -> Tensor:
        ctx.kernel, ctx.plain, ctx.k = kernel, plain, None if isinstance(k, Tensor) else k
        ctx.save_for_backward(*((x, k) if isinstance(k, Tensor) else (x,)))
        return kernel.values(x, k)

    @staticmethod
    def backward(ctx: Any, *above: Tensor) -> tuple[Tensor | None, ...]:
        x, *rest = ctx.saved_tensors
        k = rest[0] if rest else ctx.k
        to_x, to_k = ctx.needs_input_grad[:2]
        if (
            torch.is_grad_enabled()
            or is_watched()
            or not (is_readable(above[0]) and _are_readable(x, k))
        ):
            return *_derived(ctx.plain, x, k, above[0], (to_x, to_k)), None, None
        slope, slope_to_k = ctx.kernel.slopes(x, k, above[0], to_k=to_k)
        return slope if to_x else None, slope_to_k, None, None


def _derived(
    plain: PlainForm, x: Tensor, k: float | Tensor, above: Tensor, wanted: tuple[bool, bool]
) -> list[Tensor | None]:
    """The gradients to ``x`` and ``k`` of the plain form, which can be derived again if that is being recorded."""
    again = torch.is_grad_enabled()
    with torch.enable_grad():
        x = _alias(x, again) if wanted[0] else x
        k = _alias(k, again) if wanted[1] and isinstance(k, Tensor) else k
        asked = [
            each
            for each, want in zip((x, k), wanted, strict=True)
            if want and isinstance(each, Tensor)
        ]
        found = iter(torch.autograd.grad(plain(x, k), asked, above, create_graph=again))
    return [next(found) if want else None for want in wanted]


def _alias(given: Tensor, again: bool) -> Tensor:
    """The same numbers under another name.

    Hooks of ``given`` wait for the gradient that the caller gets.
    """
    return given.view_as(given) if again else given.detach().requires_grad_()
