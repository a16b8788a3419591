"""Run a smooth unit in one compiled pass forward and one backward, where that is safe."""

from typing import Any

import torch
from torch import Tensor

from gatewise.fused.kernels import Kernel, compiled
from gatewise.fused.safe_calls import is_readable, is_watched
from gatewise.units import KernelConstants, PlainForm


def elementwise(
    number: int, plain: PlainForm, x: Tensor, k: float | Tensor, constants: KernelConstants
) -> Tensor:
    """Return ``plain(x, k)``, by a compiled kernel where that is safe.

    Args:
        number: of the kernel in ``KERNELS``.
        plain: the unit as torch operations. It runs where the kernel may not.
        x: the input.
        k: the unit's number, or one for each channel, of the rank of ``x``.
        constants: further numbers of the unit, for the kernel.
    """
    if is_watched() or not _are_readable(x, k) or compiled() is None:
        return plain(x, k)
    kernel = Kernel(number, constants)
    if torch.is_grad_enabled() and (x.requires_grad or (isinstance(k, Tensor) and k.requires_grad)):
        return _Elementwise.apply(x, k, kernel, plain)  # pyright: ignore[reportReturnType] (untyped)
    return kernel.values(x, k)


def _are_readable(x: Tensor, k: float | Tensor) -> bool:
    return is_readable(x) and (not isinstance(k, Tensor) or is_readable(k))


class _Elementwise(torch.autograd.Function):
    """A kernel and its derivative. Second derivatives are taken of the plain form."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, k: float | Tensor, kernel: Kernel, plain: PlainForm) -> Tensor:
        ctx.kernel = kernel
        ctx.plain = plain
        ctx.k = None if isinstance(k, Tensor) else k
        ctx.save_for_backward(*((x, k) if isinstance(k, Tensor) else (x,)))
        return kernel.values(x, k)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor | None, ...]:
        (gradient,) = gradients
        x, *saved = ctx.saved_tensors
        k = saved[0] if saved else ctx.k
        to_x, to_k = ctx.needs_input_grad[:2]
        readable = is_readable(gradient) and _are_readable(x, k)
        if torch.is_grad_enabled() or is_watched() or not readable:
            return *_plain_gradients(ctx.plain, x, k, gradient, to_x, to_k), None, None
        x_gradient, k_gradient = ctx.kernel.slopes(x, k, gradient, to_k=to_k)
        return x_gradient if to_x else None, k_gradient, None, None


def _plain_gradients(
    plain: PlainForm, x: Tensor, k: float | Tensor, gradient: Tensor, to_x: bool, to_k: bool
) -> tuple[Tensor | None, Tensor | None]:
    """Return the gradients to ``x`` and ``k`` of the plain form; ``None`` if not wanted.

    They can be differentiated again if gradients are being recorded.
    """
    again = torch.is_grad_enabled()
    wanted: list[Tensor] = []
    with torch.enable_grad():
        if to_x:
            x = _alias(x, again)
            wanted.append(x)
        if to_k and isinstance(k, Tensor):
            k = _alias(k, again)
            wanted.append(k)
        results = list(torch.autograd.grad(plain(x, k), wanted, gradient, create_graph=again))
    x_gradient = results.pop(0) if to_x else None
    k_gradient = results.pop(0) if to_k else None
    return x_gradient, k_gradient


def _alias(tensor: Tensor, again: bool) -> Tensor:
    """Return another tensor with the same numbers.

    Hooks of ``tensor`` must run on the gradient that the caller gets, and not on this one.
    """
    return tensor.view_as(tensor) if again else tensor.detach().requires_grad_()
