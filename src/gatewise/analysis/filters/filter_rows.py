"""The filters of a model's layers, as rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from gatewise.errors import ArgumentError, Limitation, NotApplicableError

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)


@dataclass(frozen=True, eq=False)
class Filters:
    """The filters of one layer."""

    name: str
    weight: Tensor  # as the layer holds it, detached: (K, C / groups, *kernel) or (K, features)

    @property
    def rows(self) -> Tensor:
        """One filter a row, in float64 (K, D)."""
        return self.weight.flatten(1).double()


def find_filters(
    question: str, model: nn.Module, where: str | Callable[[str], bool] | None
) -> list[Filters]:
    """The convolutions of ``model`` in order, or its linear layers if it has no convolution, filtered by ``where``."""
    if not isinstance(model, nn.Module):
        raise ArgumentError(
            f"{question}: model must be a module", got=type(model).__name__, allowed="nn.Module"
        )
    if not (where is None or isinstance(where, str) or callable(where)):
        allowed = "a pattern of layer names, or a function of the name"
        raise ArgumentError(
            f"{question}: where is not a choice of layers", got=where, allowed=allowed
        )
    found = list(_weights(model, CONVOLUTIONS)) or list(_weights(model, (nn.Linear,)))
    if not found:
        raise NotApplicableError(
            Limitation.NO_FILTERS,
            f"{question}: the model has no convolution and no linear layer",
            got=type(model).__name__,
        )
    kept = [(name, weight) for name, weight in found if _matches(name, where)]
    if not kept:
        names = ", ".join(name for name, _ in found)
        raise ArgumentError(f"{question}: where matches no layer", got=where, allowed=names)
    for name, weight in kept:
        check_real(question, weight, f"the weights of {name!r}")
        if not torch.isfinite(weight).all():
            raise ArgumentError(
                f"{question}: the weights of {name!r} are not finite",
                fix="look at the training run",
            )
    return [Filters(name, weight.detach().cpu()) for name, weight in kept]


def check_real(question: str, weight: Tensor, what: str) -> None:
    """Refuse weights that hold no numbers yet, or complex ones."""
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


def _weights(model: nn.Module, kinds: tuple[type[nn.Module], ...]) -> Iterator[tuple[str, Tensor]]:
    for name, module in model.named_modules():
        if isinstance(module, kinds):
            weight = module.weight
            assert isinstance(weight, Tensor)  # noqa: S101 - so of all these kinds
            yield name, weight


def _matches(name: str, where: str | Callable[[str], bool] | None) -> bool:
    if where is None:
        return True
    return fnmatchcase(name, where) if isinstance(where, str) else bool(where(name))
