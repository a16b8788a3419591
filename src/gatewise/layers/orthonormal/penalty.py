"""A loss term that favours orthogonal filters.

What the paper trained with before it made them exactly so.
"""

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.layers.maso import MASO
from gatewise.layers.orthonormal.filters import as_rows, check_filters, filter_groups
from gatewise.layers.orthonormal.gram_schmidt_forms import full_precision
from gatewise.layers.pooling import ApodizedConv1d, ApodizedConv2d
from gatewise.units import check_input, check_number, to_compute_dtype

# Slopes of the regions of a unit, in parts of its filter: relu is max(0, wx), abs is max(-wx, wx).
PIECES = {"relu": (0.0, 1.0), "abs": (-1.0, 1.0), "leaky_relu": (0.01, 1.0), "linear": (1.0,)}
COUNTED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d, ApodizedConv1d, ApodizedConv2d)

Pieces = str | tuple[float, ...]


def orthogonality_penalty(
    model: nn.Module, *, weight: float = 1.0, pieces: Pieces = "relu"
) -> Tensor:
    r"""How far the filters of a model are from orthogonal, summed over its linear and convolution layers; a scalar.

    .. math:: \lambda \sum_\ell \sum_k \sum_{k' \ne k} \sum_{r, r'}
        \langle A^{(\ell)}_{k,r}, A^{(\ell)}_{k',r'} \rangle^2

    where :math:`A_{k,r}` is the slope of unit ``k`` in its region ``r`` and :math:`\lambda` is ``weight`` (1 in the
    paper, not tuned). Each pair of units appears twice, as ``(k, k')`` and ``(k', k)``. Filters are flattened, patches
    of a convolution do not count as units of their own, and units of different groups have no input in common.

    Args:
        model: any module. Counted in it are ``nn.Linear``, ``nn.Conv1d`` to ``nn.Conv3d``, apodized convolutions, and
            ``MASO``, which has slopes of its own: ``pieces`` is not about those.
        weight: the factor :math:`\lambda`.
        pieces: what follows the filters: the slopes of a unit's regions in parts of its filter, or their name. It
            multiplies the sum over pairs of filters by :math:`(\sum_r s_r^2)^2`: 1 for ``"relu"``, whose slopes are the
            filter and 0, so that only the active row counts; 4 for ``"abs"``, whose slopes are the filter and its
            negative, so that every pair counts four times; :math:`(1 + \nu^2)^2` for ``(nu, 1.0)``, of which
            ``"leaky_relu"`` is ``(0.01, 1.0)``. A penalty tuned under one convention needs its ``weight`` converted.

    Balestriero and Baraniuk, 2019, "From Hard to Soft", arXiv:1810.09274, section 5. The paper does not say what it
    counted; the default is the count for its ReLU network.

    >>> layer = nn.Linear(2, 2)
    >>> layer.weight.data = torch.tensor([[1.0, 0.0], [3.0, 4.0]])
    >>> orthogonality_penalty(layer).item(), orthogonality_penalty(layer, pieces="abs").item()
    (18.0, 72.0)
    """
    if not isinstance(model, nn.Module):
        raise ArgumentError(
            "orthogonality_penalty: a model is needed",
            got=type(model).__name__,
            allowed="nn.Module",
        )
    factor, counted = (
        check_number("orthogonality_penalty", "weight", weight),
        _times_counted(pieces),
    )
    terms = [
        _overlap(module, counted)
        for module in model.modules()
        if isinstance(module, (MASO, *COUNTED))
    ]
    if not terms:
        names = ", ".join(kind.__name__ for kind in (*COUNTED, MASO))
        raise ArgumentError(
            "orthogonality_penalty: the model has no filters",
            got=type(model).__name__,
            allowed=names,
        )
    return factor * sum((term.to(terms[0].device) for term in terms[1:]), terms[0])


def slope_overlap(slopes: Tensor) -> Tensor:
    r"""The sum over pairs of different units of all squared products of their slopes; a scalar.

    .. math:: \sum_k \sum_{k' \ne k} \sum_{r, r'} \langle A_{k,r}, A_{k',r'} \rangle^2

    Shape: ``(*, K, R, D) -> ()`` for ``K`` units of ``R`` regions on ``D`` inputs, as in a
    max-affine spline operator. Zero exactly when condition (11) of the paper holds.
    """
    if to_compute_dtype(check_input("slope_overlap", slopes)).dim() < 3:
        raise ArgumentError(
            "slope_overlap: slopes of units by regions are needed",
            got=f"shape {tuple(slopes.shape)}",
            allowed="(*, K, R, D)",
        )
    units, regions = slopes.shape[-3:-1]
    rows = to_compute_dtype(slopes).flatten(-3, -2)
    with full_precision(rows.device):
        gram = (rows @ rows.mT).unflatten(-1, (units, regions)).unflatten(-3, (units, regions))
    other = torch.ones(units, units, dtype=torch.bool, device=rows.device).tril(-1)
    # The lower triangle, twice: the whole less the diagonal would be rounding errors, once rows are
    # orthogonal.
    return 2 * torch.where(other[:, None, :, None], gram, 0.0).square().sum()


def _overlap(module: nn.Module, counted: float) -> Tensor:
    if isinstance(module, MASO):
        return slope_overlap(module.slopes)
    rows = as_rows(check_filters("orthogonality_penalty", module, "weight"), filter_groups(module))
    return counted * slope_overlap(rows.unsqueeze(-2))


def _times_counted(pieces: Pieces) -> float:
    """What a pair of filters is multiplied by when each filter has these slopes."""
    known = (
        pieces in PIECES
        if isinstance(pieces, str)
        else isinstance(pieces, tuple | list) and len(pieces) > 0
    )
    if not known:
        raise ArgumentError(
            "orthogonality_penalty: option pieces is not allowed",
            got=pieces,
            allowed=f"{', '.join(map(repr, PIECES))}, or a tuple of slopes",
        )
    slopes = PIECES[pieces] if isinstance(pieces, str) else pieces
    return sum(check_number("orthogonality_penalty", "pieces", slope) ** 2 for slope in slopes) ** 2
