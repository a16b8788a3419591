"""Layers whose filters are orthonormal, exactly and at every step of training."""

from torch import Tensor, nn
from torch.nn.utils import parametrize

from gatewise.checks import check_choice, check_flag
from gatewise.errors import ArgumentError
from gatewise.layers.orthonormal.filters import as_rows, check_filters, filter_groups
from gatewise.layers.orthonormal.gram_schmidt_forms import METHODS, full_precision
from gatewise.units import to_compute_dtype

ROWS_EXCEED = ("error", "columns")


def orthogonal(
    module: nn.Module,
    *,
    method: str = "cholesky",
    name: str = "weight",
    rows_exceed: str = "error",
    gain: bool = False,
) -> nn.Module:
    r"""Make the filters of ``module`` orthonormal, by a parametrisation of its weight.

    .. math:: \langle w_k, w_{k'} \rangle = [k = k'], \qquad W = L Q, \quad
        L \text{ lower triangular}, \ L_{kk} > 0

    where row :math:`w_k` of ``Q`` is filter ``k``, flattened. Training moves ``W``, which may be
    any matrix. The layer uses ``Q``, which the Gram-Schmidt process makes of the rows of ``W`` in
    their order. This is the condition under which the units of a layer can be inferred one by one
    (Theorem 4 of the paper). In a convolution it makes filters orthonormal within a patch, not the
    operator: overlapping patches remain correlated, see :class:`~gatewise.layers.ApodizedConv2d`.
    Filters of different groups share no input, so each group has its own matrix.

    This is a parametrisation of torch. ``torch.nn.utils.parametrize.remove_parametrizations(module,
    "weight")`` leaves a plain layer with the weight ``Q``, which can be exported.
    ``parametrize.cached()`` computes ``Q`` once for several uses. The state is
    ``parametrizations.weight.original``; with ``gain``, ``original0`` is the gain and ``original1``
    the matrix, as in torch's ``weight_norm``.

    A row that depends on the rows before it (a row of zeros, a copy) has no direction of its own:
    ``"cholesky"`` and ``"qr"`` give it some direction, and no gradient.

    Args:
        module: a linear layer or a convolution, or any module with a tensor whose first dimension
            counts outputs.
        method: how ``Q`` is computed. All but the last give the same matrix. ``"cholesky"`` uses
            the Gram matrix and a closed derivative, in float64 if the rows are nearly dependent,
            and QR if they are even more so. It is right to 1e-6, and its gradient to 1e-5, at any
            condition up to 1e6. It branches on values, so compiled and exported it is ``"qr"``.
            ``"qr"`` (Householder) is orthonormal to 1e-6 always, and its gradient is right to
            condition times rounding. ``"gram_schmidt"`` goes row by row, as in the paper: slow, and
            no longer orthogonal if rows are nearly dependent. ``"modified_gram_schmidt"`` is a
            little more robust. ``"newton_schulz"`` gives the orthonormal matrix nearest to ``W``,
            which does not depend on the order of the rows, by matrix products alone, for conditions
            up to 1e4.
        name: the tensor to parametrise.
        rows_exceed: what to do with more than ``n`` filters of ``n`` numbers, which cannot be
            orthogonal (the paper's first layer has 96 filters of 27 numbers). ``"error"`` raises an
            error; ``"columns"`` makes the columns orthonormal instead.
        gain: whether to train a length for each filter, which starts at the present length.

    Returns:
        ``module``.

    Balestriero and Baraniuk, 2019, "From Hard to Soft: Understanding Deep Network Nonlinearities
    via Vector Quantization and Statistical Inference", arXiv:1810.09274, section 5.

    >>> import torch
    >>> layer = orthogonal(nn.Linear(9, 4))
    >>> bool((layer.weight @ layer.weight.T - torch.eye(4)).abs().max() < 1e-6)
    True
    """
    weight = check_filters("orthogonal", module, name)
    check_choice("orthogonal", "method", method, tuple(METHODS))
    check_choice("orthogonal", "rows_exceed", rows_exceed, ROWS_EXCEED)
    check_flag("orthogonal", "gain", gain)
    _check_fresh(module, name)
    groups = filter_groups(module)
    columns = _exceeds(weight, groups, rows_exceed)
    filters_type = ScaledOrthonormalFilters if gain else OrthonormalFilters
    filters = filters_type(method=method, groups=groups, columns=columns)
    parametrize.register_parametrization(module, name, filters)
    return module


class OrthonormalFilters(nn.Module):
    """The parametrisation that :func:`orthogonal` registers.

    Args:
        method: how the orthonormal matrix is computed.
        groups: the number of groups of filters.
        columns: whether columns are made orthonormal instead of rows.
    """

    def __init__(self, *, method: str, groups: int = 1, columns: bool = False) -> None:
        super().__init__()
        self.method = method
        self.groups = groups
        self.columns = columns

    def forward(self, weight: Tensor) -> Tensor:
        with full_precision(weight.device):
            rows = as_rows(to_compute_dtype(weight), self.groups)
            compute = METHODS[self.method]
            rows = compute(rows.mT).mT if self.columns else compute(rows)
        return rows.reshape(weight.shape).to(weight.dtype)

    def right_inverse(self, weight: Tensor) -> Tensor:
        """Return what to store for the filters of ``weight``: ``weight`` itself."""
        return weight

    def extra_repr(self) -> str:
        """Return the options."""
        return f"method={self.method!r}, groups={self.groups}, columns={self.columns}"


class ScaledOrthonormalFilters(OrthonormalFilters):
    """:class:`OrthonormalFilters` times a trained length per filter."""

    def forward(self, gain: Tensor, weight: Tensor) -> Tensor:  # type: ignore[override]
        return gain * super().forward(weight)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """Return the filters' lengths, and the filters."""
        length = to_compute_dtype(weight).flatten(1).norm(dim=1).to(weight.dtype)
        return length.reshape(-1, *[1] * (weight.dim() - 1)), weight


def _check_fresh(module: nn.Module, name: str) -> None:
    present = getattr(module, "parametrizations", {})
    if name in present and any(isinstance(part, OrthonormalFilters) for part in present[name]):
        raise ArgumentError(
            f"orthogonal: {name!r} is orthogonal already",
            got=type(module).__name__,
            fix=f"torch.nn.utils.parametrize.remove_parametrizations(module, {name!r})",
        )


def _exceeds(weight: Tensor, groups: int, rows_exceed: str) -> bool:
    """Return whether columns are made orthonormal because there are more rows.

    Raises:
        ArgumentError: if there are more rows and ``rows_exceed`` is ``"error"``.
    """
    rows, columns = as_rows(weight, groups).shape[-2:]
    if rows > columns and rows_exceed == "error":
        raise ArgumentError(
            f"orthogonal: {rows} filters of {columns} numbers cannot be orthogonal",
            got=f"weight of shape {tuple(weight.shape)} in {groups} group(s)",
            allowed=f"at most {columns} filters" + (" per group" if groups > 1 else ""),
            fix="rows_exceed='columns' for orthonormal columns, or leave this layer out",
        )
    return rows > columns
