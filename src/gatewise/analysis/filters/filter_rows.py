"""The filters of a model's layers, as rows."""

from contextlib import nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from gatewise.checks import NameWhere, selects
from gatewise.errors import ArgumentError, Limitation, NotApplicableError
from gatewise.graph import untouched

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True, eq=False)
class Filters:
    """The filters of one layer.

    Attributes:
        name: the name of the layer.
        weight: the detached weight, (K, C / groups, *kernel) or (K, features).
    """

    name: str
    weight: Tensor

    @property
    def rows(self) -> Tensor:
        """The filters as rows, in float64 (K, D)."""
        return self.weight.flatten(1).double()


def find_filters(question: str, model: nn.Module, where: NameWhere) -> list[Filters]:
    """The filters of the layers that ``where`` selects.

    Without ``where``, those of the convolutions of a model, or of its linear layers if it has none.

    Args:
        question: the name of the caller, for messages.
        model: the model.
        where: a pattern of layer names, a function of the name, or None.

    Raises:
        ArgumentError: if there is no such layer, or its weights are not finite real numbers.
    """
    if not isinstance(model, nn.Module):
        raise ArgumentError(
            f"{question}: model must be a module", got=type(model).__name__, allowed="nn.Module"
        )
    # A weight that is computed may change buffers, as in spectral norm.
    is_shapeless = any(map(is_lazy, model.parameters()))
    with nullcontext() if is_shapeless else untouched(model):
        if where is None:
            weights = _weights(model, CONVOLUTIONS) or _weights(model, (nn.Linear,))
        else:
            weights = _weights(model, (*CONVOLUTIONS, nn.Linear))
    if not weights:
        raise NotApplicableError(
            Limitation.NO_FILTERS,
            f"{question}: the model has no convolution and no linear layer",
            got=type(model).__name__,
        )
    filters = []
    for name, weight in weights.items():
        if not selects(where, name):
            continue
        check_real(question, weight, f"the weights of {name!r}")
        if not torch.isfinite(weight).all():
            raise ArgumentError(
                f"{question}: the weights of {name!r} are not finite",
                fix="check the training run for divergence",
            )
        filters.append(Filters(name, weight.detach().cpu()))
    if not filters:
        raise ArgumentError(
            f"{question}: where matches no layer", got=where, allowed=", ".join(weights)
        )
    return filters


def check_real(question: str, weight: Tensor, what: str) -> None:
    """Raise if a weight has no values yet, or is not real.

    Args:
        question: the name of the caller, for messages.
        weight: the weight.
        what: what the weight is, for messages.
    """
    if is_lazy(weight):
        raise ArgumentError(f"{question}: {what} have no shape yet", fix="run the model once")
    if weight.is_meta:
        raise ArgumentError(
            f"{question}: {what} have no values", got="device meta", fix="load the model's weights"
        )
    if not weight.is_floating_point():
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            f"{question}: {what} are not real numbers",
            got=weight.dtype,
            allowed="floating point",
        )


def _weights(model: nn.Module, classes: tuple[type[nn.Module], ...]) -> dict[str, Tensor]:
    weights: dict[str, Tensor] = {}
    for name, module in model.named_modules():
        if isinstance(module, classes):
            weight = module.weight
            assert isinstance(weight, Tensor)  # noqa: S101 - true of all these classes
            weights[name] = weight
    return weights
