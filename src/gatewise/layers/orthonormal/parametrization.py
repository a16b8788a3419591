"""Layers whose filters are orthonormal, exactly and at every step of training."""

from torch import Tensor, nn
from torch.nn.utils import parametrize

from gatewise.errors import ArgumentError
from gatewise.layers.orthonormal.filters import as_rows, check_filters, filter_groups
from gatewise.layers.orthonormal.gram_schmidt_forms import METHODS, full_precision
from gatewise.units import check_choice, to_compute_dtype

ROWS_EXCEED = ("error", "columns")


def orthogonal(
    module: nn.Module,
    *,
    method: str = "cholesky",
    name: str = "weight",
    rows_exceed: str = "error",
    gain: bool = False,
) -> nn.Module:
    r"""Make the filters of ``module`` orthonormal, by parametrising its ``weight``.

    Returns ``module``.

    .. math:: \langle w_k, w_{k'} \rangle = [k = k'], \qquad W = L Q, \quad
        L \text{ lower triangular}, \ L_{kk} > 0

    where row :math:`w_k` of ``Q`` is filter ``k``, flattened. Training moves ``W``, which may be
    any matrix; the layer works with ``Q``, what the Gram-Schmidt process makes of the rows of ``W``
    in their order. This is the condition under which the units of a layer can be inferred one by
    one (Theorem 4 of the paper). In a convolution it makes filters orthonormal within a patch, not
    the operator: patches that overlap remain correlated, see
    :class:`~gatewise.layers.ApodizedConv2d`. Filters of different groups have no input in common,
    so each group is a matrix of its own.

    A parametrisation of torch:
    ``torch.nn.utils.parametrize.remove_parametrizations(module, "weight")`` leaves a plain layer
    with the weight ``Q``, which is what to export; ``parametrize.cached()`` computes ``Q`` once for
    several uses.

    Args: module: a linear layer or a convolution, or any module with a tensor whose first dimension
        counts outputs. method: how ``Q`` is computed. All but the last give the same matrix.

            - ``"cholesky"``: from the Gram matrix, with a closed derivative; in float64 where the
              rows are nearly dependent, by QR where they are more so. Right to 1e-6, and its
              gradient to 1e-5, at any condition up to 1e6. It branches on values, so compiled and
              exported it is ``"qr"``.
            - ``"qr"``: Householder. Orthonormal to 1e-6 always; gradient right to condition times
              rounding.
            - ``"gram_schmidt"``: as in the paper, row after row; slow, and no longer orthogonal
              once rows are nearly dependent. ``"modified_gram_schmidt"`` bears a little more.
            - ``"newton_schulz"``: the orthonormal matrix nearest to ``W``, which does not depend on
              the order of the rows, by matrix products alone. For conditions up to 1e4.
        name: the tensor to parametrise.
        rows_exceed: more than ``n`` vectors of ``n`` numbers cannot be orthogonal (the paper's own
            first layer has 96 filters of 27 numbers). ``"error"`` says so; ``"columns"`` makes the
            columns orthonormal there instead.
        gain: train a length for each filter besides; it starts at the present length.

    A row that depends on the rows before it (a row of zeros, a copy) has no direction of its own:
    ``"cholesky"`` and ``"qr"`` give it some, and no gradient. State:
    ``parametrizations.weight.original``; with ``gain``, ``original0`` is the gain and ``original1``
    the matrix, as in torch's ``weight_norm``.

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
    if not isinstance(gain, bool):
        raise ArgumentError(
            "orthogonal: option gain is not allowed", got=gain, allowed="True, False"
        )
    _check_fresh(module, name)
    groups = filter_groups(module)
    columns = _exceeds(weight, groups, rows_exceed)
    kind = ScaledOrthonormalFilters if gain else OrthonormalFilters
    parametrize.register_parametrization(
        module, name, kind(method=method, groups=groups, columns=columns)
    )
    return module


class OrthonormalFilters(nn.Module):
    """The parametrisation that :func:`orthogonal` puts on a weight."""

    def __init__(self, *, method: str, groups: int = 1, columns: bool = False) -> None:
        super().__init__()
        self.method, self.groups, self.columns = method, groups, columns

    def forward(self, weight: Tensor) -> Tensor:
        with full_precision(weight.device):
            rows = as_rows(to_compute_dtype(weight), self.groups)
            compute = METHODS[self.method]
            rows = compute(rows.mT).mT if self.columns else compute(rows)
        return rows.reshape(weight.shape).to(weight.dtype)

    def right_inverse(self, weight: Tensor) -> Tensor:
        """What to store so that the filters are those of ``weight``, made orthonormal.

        ``weight`` itself.
        """
        return weight

    def extra_repr(self) -> str:
        """The options."""
        return f"method={self.method!r}, groups={self.groups}, columns={self.columns}"


class ScaledOrthonormalFilters(OrthonormalFilters):
    """The same, times a trained length per filter."""

    def forward(self, gain: Tensor, weight: Tensor) -> Tensor:  # type: ignore[override]
        return gain * super().forward(weight)

    def right_inverse(self, weight: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
        """The filters' lengths, and the filters."""
        length = to_compute_dtype(weight).flatten(1).norm(dim=1).to(weight.dtype)
        return length.reshape(-1, *[1] * (weight.dim() - 1)), weight


def _check_fresh(module: nn.Module, name: str) -> None:
    held = getattr(module, "parametrizations", {})
    if name in held and any(isinstance(each, OrthonormalFilters) for each in held[name]):
        raise ArgumentError(
            f"orthogonal: {name!r} is orthogonal already",
            got=type(module).__name__,
            fix=f"torch.nn.utils.parametrize.remove_parametrizations(module, {name!r})",
        )


def _exceeds(weight: Tensor, groups: int, rows_exceed: str) -> bool:
    """Whether columns are to be orthonormal because there are more rows.

    An error where that was not asked for.
    """
    rows, columns = as_rows(weight, groups).shape[-2:]
    if rows > columns and rows_exceed == "error":
        raise ArgumentError(
            f"orthogonal: {rows} filters of {columns} numbers cannot be orthogonal",
            got=f"weight of shape {tuple(weight.shape)}"
            + (f" in {groups} groups" if groups > 1 else ""),
            allowed=f"at most {columns} filters" + (" per group" if groups > 1 else ""),
            fix="rows_exceed='columns' for orthonormal columns, or leave this layer out",
        )
    return rows > columns
