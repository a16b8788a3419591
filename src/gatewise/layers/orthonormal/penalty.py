"""A loss term that favours orthogonal filters.

The paper trained with it before it made filters exactly orthogonal.
"""

from typing import Any

import torch
from torch import Tensor, nn

from gatewise.checks import check_number
from gatewise.errors import ArgumentError
from gatewise.layers.orthonormal.filters import as_rows, check_filters, filter_groups
from gatewise.layers.orthonormal.gram_schmidt_forms import full_precision
from gatewise.layers.response import Response
from gatewise.units import check_input, to_compute_dtype

# Slopes of a unit's regions, as multiples of its filter: relu is max(0, wx), abs is max(-wx, wx).
PIECES = {
    "relu": (0.0, 1.0),
    "abs": (-1.0, 1.0),
    "leaky_relu": (0.01, 1.0),
    "linear": (1.0,),
}
# Layers of torch whose `weight` holds filters.
COUNTED = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)

Pieces = str | tuple[float, ...]


def orthogonality_penalty(
    model: nn.Module,
    *,
    weight: float = 1.0,
    pieces: Pieces = "relu",
) -> Tensor:
    r"""Return how far the filters of a model are from orthogonal, a scalar.

    .. math:: \lambda \sum_\ell \sum_k \sum_{k' \ne k} \sum_{r, r'}
        \langle A^{(\ell)}_{k,r}, A^{(\ell)}_{k',r'} \rangle^2

    The sum is over linear and convolution layers. :math:`A_{k,r}` is the slope of unit ``k`` in its
    region ``r``, and :math:`\lambda` is ``weight`` (1 in the paper, not tuned). Each pair of units
    counts twice, as ``(k, k')`` and ``(k', k)``. Filters are flattened, patches of a convolution do
    not count as separate units, and units of different groups share no input.

    Args:
        model: any module. Its ``nn.Linear`` and ``nn.Conv1d`` to ``nn.Conv3d`` count, and layers
            that say so: those with ``has_filters``, and those with a method ``filter_slopes()``
            that returns their own slopes, to which ``pieces`` does not apply.
        weight: the factor :math:`\lambda`.
        pieces: the unit after the filters: the slopes of its regions as multiples of its filter, or
            their name. It multiplies the sum over pairs of filters by :math:`(\sum_r s_r^2)^2`.
            That is 1 for ``"relu"``, whose slopes are the filter and 0, so only the active row
            counts. It is 4 for ``"abs"``, whose slopes are the filter and its negative, so every
            pair counts four times. It is :math:`(1 + \nu^2)^2` for ``(nu, 1.0)``, of which
            ``"leaky_relu"`` is ``(0.01, 1.0)``. A penalty tuned with one choice needs its
            ``weight`` converted for another.

    Balestriero and Baraniuk, 2019, "From Hard to Soft", arXiv:1810.09274, section 5. The paper does
    not say what it counted; the default is the count for its ReLU network.

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
    factor = check_number("orthogonality_penalty", "weight", weight)
    counted = _times_counted(pieces)
    terms: list[Tensor] = []
    for module in model.modules():
        own_slopes: Any = getattr(module, "filter_slopes", None)
        if own_slopes is not None:
            terms.append(slope_overlap(own_slopes()))
        elif isinstance(module, COUNTED) or (isinstance(module, Response) and module.has_filters):
            terms.append(counted * slope_overlap(_filters(module).unsqueeze(-2)))
    if not terms:
        names = ", ".join(kind.__name__ for kind in COUNTED)
        raise ArgumentError(
            "orthogonality_penalty: the model has no filters",
            got=type(model).__name__,
            allowed=f"a model with {names}, or layers with filter_slopes()",
        )
    total = terms[0]
    # Layers may be on several devices.
    for term in terms[1:]:
        total = total + term.to(total.device)
    return factor * total


def slope_overlap(slopes: Tensor) -> Tensor:
    r"""Return the sum, over pairs of different units, of all squared products of their slopes.

    .. math:: \sum_k \sum_{k' \ne k} \sum_{r, r'} \langle A_{k,r}, A_{k',r'} \rangle^2

    It is 0 exactly if condition (11) of the paper holds.

    Args:
        slopes: ``(*, K, R, D)`` for ``K`` units of ``R`` regions on ``D`` inputs, as in a
            max-affine spline operator.

    Shape: ``(*, K, R, D) -> ()``.

    Balestriero and Baraniuk, 2019, "From Hard to Soft", arXiv:1810.09274, section 5.
    """
    if to_compute_dtype(check_input("slope_overlap", slopes)).dim() < 3:
        raise ArgumentError(
            "slope_overlap: slopes have a wrong shape",
            got=f"shape {tuple(slopes.shape)}",
            allowed="(*, K, R, D)",
        )
    units, regions = slopes.shape[-3:-1]
    rows = to_compute_dtype(slopes).flatten(-3, -2)
    with full_precision(rows.device):
        gram = (rows @ rows.mT).unflatten(-1, (units, regions)).unflatten(-3, (units, regions))
    other = torch.ones(units, units, dtype=torch.bool, device=rows.device).tril(-1)
    # The lower triangle, twice. The whole minus the diagonal would be rounding errors if the rows
    # are orthogonal.
    return 2 * torch.where(other[:, None, :, None], gram, 0.0).square().sum()


def _filters(module: nn.Module) -> Tensor:
    """Return the filters of a layer as rows, of each of its groups."""
    weight = check_filters("orthogonality_penalty", module, "weight")
    return as_rows(weight, filter_groups(module))


def _times_counted(pieces: Pieces) -> float:
    """Return the factor of a pair of filters if each filter has these slopes."""
    slopes = PIECES.get(pieces) if isinstance(pieces, str) else pieces
    if not isinstance(slopes, tuple | list) or not slopes:
        raise ArgumentError(
            "orthogonality_penalty: option pieces is not allowed",
            got=pieces,
            allowed=f"{', '.join(map(repr, PIECES))}, or a tuple of slopes",
        )
    return sum(check_number("orthogonality_penalty", "pieces", slope) ** 2 for slope in slopes) ** 2
