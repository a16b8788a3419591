"""Phase selective layers on sign bits and magnitudes: the form for hardware."""

import torch
from torch import Tensor

from gatewise.errors import ArgumentError
from gatewise.layers.phase.ps_conv import PhaseSelective
from gatewise.units import check_input


def sign_and_magnitude(x: Tensor) -> tuple[Tensor, Tensor]:
    """Return sign bits, true for negative numbers, and magnitudes of ``x``.

    ``where(sign, -magnitude, magnitude)`` is ``x``. A negative zero has its sign bit set, which
    changes no product.

    Args:
        x: the input, a real floating point tensor.

    Shape: ``(*) -> (*), (*)``.
    """
    check_input("sign_and_magnitude", x)
    return torch.signbit(x), x.abs()


def respond_to_signs(layer: PhaseSelective, sign: Tensor, magnitude: Tensor) -> Tensor:
    r"""Return the output of ``layer`` from the sign bits and magnitudes of its input.

    It is ``layer(x)``, up to the order in which products are added.

    .. math:: y_i = \sum_j |x_j|\,\tilde W^{\pm}_{ij} + b_i, \qquad
        \tilde W^+ = W^+, \quad \tilde W^- = -W^-

    The sign bit of :math:`x_j` chooses between the two stored weights. The negative one is stored
    negated because :math:`x^- = -|x|`. Hardware multiplies each magnitude once, by the chosen
    weight. Here each magnitude is multiplied by one weight and 0 by the other, which gives the same
    sum. Split the output with :func:`sign_and_magnitude` for the next layer.

    Args:
        layer: a :class:`PSConv2d`, :class:`PSConv1d` or :class:`PSLinear`.
        sign: the sign bits, a boolean tensor of the input's shape.
        magnitude: the magnitudes, of the input's shape.

    This follows the hardware scheme that Lin et al., 2021, "Phase Selective Convolution", CVPR
    Workshops, announce; its details are reconstructed.
    """
    if not isinstance(layer, PhaseSelective):
        raise ArgumentError(
            "respond_to_signs: not a phase selective layer",
            got=type(layer).__name__,
            allowed="PSConv2d, PSConv1d or PSLinear",
        )
    _check_signs(sign, check_input("respond_to_signs", magnitude))
    stored, stored_neg = layer.weight, -layer.weight_neg
    ready, weight, weight_neg = layer.prepare(magnitude, stored, stored_neg)
    # Padding of the signs must follow that of the magnitudes.
    negative = layer.pad(sign.to(ready.dtype)).bool()

    def respond(size: Tensor, bias: Tensor | None) -> Tensor:
        positive = layer.respond(torch.where(negative, 0.0, size), weight, bias)
        return positive + layer.respond(torch.where(negative, size, 0.0), weight_neg)

    return layer.at_any_size(respond, ready, layer.bias).to(magnitude.dtype)


def _check_signs(sign: Tensor, magnitude: Tensor) -> None:
    if not isinstance(sign, Tensor) or sign.dtype != torch.bool or sign.shape != magnitude.shape:
        got = (
            f"{sign.dtype} {tuple(sign.shape)}" if isinstance(sign, Tensor) else type(sign).__name__
        )
        allowed = f"torch.bool {tuple(magnitude.shape)}"
        raise ArgumentError(
            "respond_to_signs: sign must be a boolean tensor like magnitude",
            got=got,
            allowed=allowed,
        )
