"""The contract of an activation of the user, about which nothing is declared."""

from functools import partial
from typing import Any

import torch

from gatewise.errors import ContractError
from gatewise.testing import gradients, layer_checks, modes
from gatewise.testing.case import require
from gatewise.testing.contract import Outcome, Receipt, run
from gatewise.testing.layer import Layer
from gatewise.units import create_unit, get_unit


def keeps_shape_and_dtype(layer: Layer) -> None:
    """The output has the shape and dtype of the input, and ordinary inputs give finite numbers."""
    x = layer.sample()
    out = layer.build()(x)
    require(isinstance(out, torch.Tensor), "the output is not a tensor", got=type(out).__name__)
    require(out.shape == x.shape, "the shape changes", got=tuple(out.shape), allowed=layer.shape)
    require(out.dtype == x.dtype, "the dtype changes", got=out.dtype, allowed=x.dtype)
    require(bool(out.isfinite().all()), "ordinary inputs give NaN or an infinity")


def gradient_reaches_the_input(layer: Layer) -> None:
    """The input receives a gradient that is finite and not zero everywhere."""
    x = layer.sample().requires_grad_()
    out = layer.build().train()(x)
    require(out.requires_grad, "the output does not depend on the input by differentiable steps")
    out.square().sum().backward()
    reached = x.grad is not None and bool(x.grad.isfinite().all()) and bool(x.grad.any())
    require(reached, "the gradient at the input is missing, zero or not finite")


# A unit that fails one of these cannot be compared.
REQUIRED = (keeps_shape_and_dtype, gradient_reaches_the_input, layer_checks.state_survives)
# A unit that fails one of these can be trained; the report says what to expect.
ADVISED = (
    layer_checks.batches_do_not_matter,
    layer_checks.layout_does_not_matter,
    layer_checks.every_parameter_receives_a_gradient,
    layer_checks.finite_input_never_gives_nan,
    gradients.gradients_match_finite_differences,
    layer_checks.half_precision_layers_work,
    modes.autocast_keeps_the_input_dtype,
)


def check_activation(name: str, shape: tuple[int, ...], **context: Any) -> Receipt:
    """Check a unit that is not in the catalogue.

    Args:
        name: of a unit of :func:`gatewise.units.unit_from`.
        shape: of an input, batch first.
        **context: ``channels`` and ``dim``, for units that take them.

    Returns:
        The outcomes. Failures of checks that training does not need are among them.

    Raises:
        ContractError: if the unit cannot be trained; the message names every failed check.
    """
    known = get_unit(name).options
    options = {k: v for k, v in context.items() if k in known and v is not None}
    layer = Layer(partial(create_unit, name, **options), shape)
    required = [run(check.__name__, check, layer) for check in REQUIRED]
    receipt = Receipt(name, tuple(required))
    if receipt.failures:
        raise ContractError(str(receipt))
    advised: list[Outcome] = []
    trains = any(True for _ in layer.build().parameters())
    for check in ADVISED:
        if trains or check is not layer_checks.every_parameter_receives_a_gradient:
            advised.append(run(check.__name__, check, layer))
    return Receipt(name, (*required, *advised))
