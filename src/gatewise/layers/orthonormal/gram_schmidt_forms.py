"""Maps from a matrix to one with orthonormal rows: Gram-Schmidt, and faster ways to it.

Throughout, ``w`` has shape ``(*, m, n)`` with ``m <= n`` and is float32 or float64. ``w = L q``
with ``L`` lower triangular of positive diagonal, and ``p`` is the inverse of ``L``, so ``q = p w``.

Note [The derivative]. ``p dw = dq + F q`` where ``F`` is lower triangular and ``dq q'``
antisymmetric. Hence with ``X = p dw q'``: ``F = tril(X) + triu(X, 1)'``, ``dq = p dw - F q`` and
``dp = -F p``. The pair ``(q, p)`` is closed under differentiation: matrix products of ``q`` and
``p`` suffice, without a solve, in any order and in both modes. The adjoint of ``X -> F`` is
``Y -> tril(Y) + tril(Y, -1)'``.

Note [When one pass is enough]. The Gram matrix squares the condition. Let ``s_i`` be the length of
row ``i`` of ``p`` after the rows of ``w`` are scaled to length 1. An entry of ``q q' - 1`` is wrong
by about ``s_i s_j`` roundings. Up to ``ENOUGH`` roundings one Cholesky factor is as good as
Householder's QR. Otherwise a second factor repairs the first, but ``p``, and so the gradient, stays
wrong by a condition number of roundings. Beyond ``REPAIRABLE`` everything is in float64.

Note [Rows without a direction]. A row that depends on earlier rows up to rounding has no direction
of its own. QR completes the basis in some way, and the row gets no gradient, because the true
gradient would be infinite.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor
from torch.autograd.forward_ad import _set_fwd_grad_enabled

ENOUGH = 4.0
# The longest row of q q' - 1 after the first pass that a second pass can repair.
REPAIRABLE = {
    torch.float32: 1e-5,
    torch.float64: 1e-1,
}
NEWTON_SCHULZ_STEPS = 30


def full_precision(device: torch.device) -> AbstractContextManager:
    """Switch autocast off: products in bfloat16 would be orthonormal to two digits only."""
    if torch.amp.is_autocast_available(device.type):
        return torch.autocast(device.type, enabled=False)
    return nullcontext()


def gram_schmidt(w: Tensor) -> Tensor:
    """Return each row minus its part along all earlier ones, scaled to length 1.

    This is the classical form of textbooks.
    """
    rows: list[Tensor] = []
    for row in _scaled(w).unbind(-2):
        if rows:
            basis = torch.stack(rows, -2)
            row = row - (basis.mT @ (basis @ row.unsqueeze(-1))).squeeze(-1)
        rows.append(_unit(row))
    return torch.stack(rows, -2)


def modified_gram_schmidt(w: Tensor) -> Tensor:
    """Return the same, where each new row is subtracted from all later ones at once.

    This has less rounding error and takes less time.
    """
    rows: list[Tensor] = []
    rest = _scaled(w)
    for _ in range(w.shape[-2]):
        rows.append(_unit(rest[..., 0, :]))
        rest = rest[..., 1:, :]
        rest = rest - (rest @ rows[-1].unsqueeze(-1)) * rows[-1].unsqueeze(-2)
    return torch.stack(rows, -2)


def _scaled(w: Tensor) -> Tensor:
    """Return ``w`` with rows of size about 1.

    The result does not depend on the length of a row, so neither do its derivatives.
    """
    size = w.detach().abs().amax(-1, keepdim=True)
    return _unless_short(w, size) / torch.where(size > 0, size, 1.0)


def _unless_short(w: Tensor, size: Tensor) -> Tensor:
    """Return ``w``, detached where it is so short that its gradient would overflow.

    The gradient is divided by the length.
    """
    return torch.where(size < torch.finfo(w.dtype).tiny * 2.0**10, w.detach(), w)


def _unit(row: Tensor) -> Tensor:
    """Return ``row`` scaled to length 1. A row of zeros stays one, and gets no gradient."""
    square = row.square().sum(-1, keepdim=True)
    some = square > torch.finfo(row.dtype).tiny
    return torch.where(some, row, 0.0) / torch.where(some, square, 1.0).sqrt()


def newton_schulz(w: Tensor) -> Tensor:
    """Return the orthonormal matrix nearest to ``w``, its polar factor.

    All rows move alike, whatever their order. The inverse square root of the Gram matrix is found
    by products alone, in float64. A small singular value grows by half in each step until all are
    1, which the number of steps allows for conditions up to 10,000.
    """
    dtype = _wide(w)
    size = w.detach().abs().amax((-2, -1), keepdim=True).to(dtype)
    # The result does not depend on the size of the whole.
    wide = _unless_short(w, size).to(dtype) / torch.where(size > 0, size, 1.0)
    gram = wide @ wide.mT
    size = gram.detach().abs().sum(-1, keepdim=True).amax(-2, keepdim=True)
    size = torch.where(size > 0, size, 1.0)
    three = 3 * torch.eye(w.shape[-2], dtype=wide.dtype, device=w.device)
    root, inverse = gram / size, three / 3
    for _ in range(NEWTON_SCHULZ_STEPS):
        step = (three - inverse @ root) / 2
        root, inverse = root @ step, step @ inverse
    return ((inverse * size.rsqrt()) @ wide).to(w.dtype)


def qr(w: Tensor) -> Tensor:
    """Return Gram-Schmidt's matrix by Householder's QR, without a branch on values."""
    return _apply(w, "qr")


def cholesky(w: Tensor) -> Tensor:
    """Return Gram-Schmidt's matrix by Cholesky factors where they are accurate, by QR elsewhere."""
    return _apply(w, "cholesky")


METHODS = {
    "gram_schmidt": gram_schmidt,
    "modified_gram_schmidt": modified_gram_schmidt,
    "qr": qr,
    "cholesky": cholesky,
    "newton_schulz": newton_schulz,
}


class _TracedRows(torch.autograd.Function):
    """``w -> (q, p)`` with the derivative of Note [The derivative], for torch.compile."""

    @staticmethod
    def forward(w: Tensor, method: str) -> tuple[Tensor, Tensor]:
        if method == "qr" or torch.compiler.is_compiling() or not _can_be_read(w):
            return _by_qr(w)
        return _by_cholesky(w)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, str], output: tuple[Tensor, Tensor]) -> None:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(*output)
        ctx.save_for_forward(*output)

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor | None, None]:
        q, p = ctx.saved_tensors
        with full_precision(q.device):
            return _pull_back(q, p, *gradients), None


class _Rows(_TracedRows):
    """The same, with forward mode, which torch.compile refuses."""

    @staticmethod
    def jvp(ctx: Any, *tangents: Tensor) -> tuple[Tensor, Tensor]:
        q, p = ctx.saved_tensors
        # Torch switches forward mode off here, which would lose the tangents of q and p of an
        # outer forward mode.
        with full_precision(q.device), _set_fwd_grad_enabled(True):
            moved = p @ tangents[0]
            x = moved @ q.mT
            f = x.tril() + x.triu(1).mT
            return moved - f @ q, -f @ p

    @staticmethod
    def vmap(
        info: Any,
        in_dims: tuple[int | None, ...],
        *inputs: Any,
    ) -> tuple[tuple[Tensor, Tensor], tuple]:
        # Leading dimensions are a batch, so one more needs no work.
        w, method = inputs
        if in_dims[0] is None:
            return _Rows.apply(w, method), (None, None)
        return _Rows.apply(w.movedim(in_dims[0], 0), method), (0, 0)


def _apply(w: Tensor, method: str) -> Tensor:
    function = _TracedRows if torch.compiler.is_compiling() else _Rows
    return function.apply(w, method)[0]


def _pull_back(
    q: Tensor,
    p: Tensor,
    to_q: Tensor | None,
    to_p: Tensor | None,
) -> Tensor | None:
    """Return the gradient to ``w`` from those to ``q`` and ``p``; one may be missing."""
    parts = []
    if to_q is not None:
        parts.append(to_q @ q.mT)
    if to_p is not None:
        parts.append(to_p @ p.mT)
    if not parts:
        return None
    y = parts[0] if len(parts) == 1 else parts[0] + parts[1]
    f = y.tril() + y.tril(-1).mT
    if to_q is None:
        return p.mT @ (-f @ q)
    # In one pass where there is a kernel for it: the subtraction is a tenth of the whole.
    return p.mT @ (torch.addmm(to_q, f, q, alpha=-1) if to_q.dim() == 2 else to_q - f @ q)


def _can_be_read(w: Tensor) -> bool:
    """Return whether there are numbers to branch on.

    There are none on the meta device or under a tracer.
    """
    try:
        return isinstance(w.reshape(-1)[0].item(), float)
    except RuntimeError:
        return False


def _wide(w: Tensor) -> torch.dtype:
    return w.dtype if w.device.type == "mps" else torch.float64  # which has no float64


def _by_cholesky(w: Tensor) -> tuple[Tensor, Tensor]:
    """Return the first accurate result of Cholesky factors, the same in float64, and QR."""
    factors = _cholesky_passes(w)
    if factors is not None:
        return factors
    wide = w.to(_wide(w))
    q, p = (_cholesky_passes(wide) if wide.dtype != w.dtype else None) or _by_qr(wide)
    return q.to(w.dtype), _finite_columns(p.to(w.dtype))


def _cholesky_passes(w: Tensor) -> tuple[Tensor, Tensor] | None:
    """Return the result of one pass or two, or ``None`` where they are not enough.

    See Note [When one pass is enough].
    """
    gram = _lower_gram(w)
    lengths = gram.diagonal(dim1=-2, dim2=-1)
    comfortable = torch.finfo(w.dtype).max ** 0.5
    if not bool(((lengths > 1 / comfortable) & (lengths < comfortable)).all()):
        return None
    first = _inverse_factor(gram)
    if first is None:
        return None
    q = _lower_product(first, w)
    roundings = first.square() @ lengths.unsqueeze(-1)
    if bool((roundings <= ENOUGH).all()):
        return q, first
    gram = q @ q.mT
    error = gram - torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device)
    if not bool((error.norm(dim=-1) <= REPAIRABLE[w.dtype]).all()):
        return None
    second = _inverse_factor(gram)
    if second is None:
        return None
    return (second @ q, second @ first)


def _lower_gram(w: Tensor) -> Tensor:
    """Return ``w w'`` without a quarter of it above the diagonal, which Cholesky does not read.

    This saves a quarter of the time.
    """
    half = w.shape[-2] // 2
    gram = w.new_zeros(*w.shape[:-1], w.shape[-2])
    gram[..., :half, :half] = w[..., :half, :] @ w[..., :half, :].mT
    gram[..., half:, :] = w[..., half:, :] @ w.mT
    return gram


def _lower_product(p: Tensor, w: Tensor) -> Tensor:
    """Return ``p w`` for a lower triangular ``p``, without a quarter of its zeros."""
    half = w.shape[-2] // 2
    product = torch.empty_like(w)
    torch.matmul(p[..., :half, :half], w[..., :half, :], out=product[..., :half, :])
    torch.matmul(p[..., half:, :], w, out=product[..., half:, :])
    return product


def _inverse_factor(gram: Tensor) -> Tensor | None:
    """Return the inverse of the Cholesky factor, or ``None`` if there is none."""
    factor, failed = torch.linalg.cholesky_ex(gram)
    if bool(failed.any()):
        return None
    eye = torch.eye(gram.shape[-1], dtype=gram.dtype, device=gram.device).expand_as(gram)
    return torch.linalg.solve_triangular(factor, eye, upper=False)


def _by_qr(w: Tensor) -> tuple[Tensor, Tensor]:
    """Return QR with the signs of Gram-Schmidt, of rows scaled to one size.

    See Note [Rows without a direction].
    """
    size = w.abs().amax(-1, keepdim=True)
    size = torch.where(size > 0, size, 1.0)
    w = w / size
    columns, upper = torch.linalg.qr(w.mT)
    sign = torch.where(upper.diagonal(dim1=-2, dim2=-1) < 0, -1.0, 1.0)
    sign = sign.to(w.dtype).unsqueeze(-1)
    lower = upper.mT * sign.mT
    diagonal = lower.diagonal(dim1=-2, dim2=-1)
    lost = diagonal <= 8 * torch.finfo(w.dtype).eps * lower.norm(dim=-1)
    lower = lower + torch.diag_embed(lost.to(w.dtype) * torch.finfo(w.dtype).max ** 0.5)
    eye = torch.eye(w.shape[-2], dtype=w.dtype, device=w.device).expand_as(lower)
    inverse = torch.linalg.solve_triangular(lower, eye, upper=False)
    return columns.mT * sign, _finite_columns(inverse / size.mT)


def _finite_columns(p: Tensor) -> Tensor:
    """Return ``p`` with 0 in columns that are not finite.

    A row that is so short that its gradient would overflow gets none.
    """
    return torch.where(p.isfinite().all(-2, keepdim=True), p, 0.0)
