"""The filters of a model's layers, as rows."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError

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


def find_filters(question: str, model: nn.Module, where: str | Callable[[str], bool] | None) -> list[Filters]:
    """The convolutions of ``model`` in order, or its linear layers if it has no convolution, filtered by ``where``."""
    if not isinstance(model, nn.Module):
        raise ArgumentError(f"{question}: model must be a module", got=type(model).__name__, allowed="nn.Module")
    found = list(_layers(model, CONVOLUTIONS)) or list(_layers(model, (nn.Linear,)))
    if not found:
        raise ArgumentError(f"{question}: the model has no convolution and no linear layer", got=type(model).__name__)
    kept = [layer for layer in found if _matches(layer.name, where)]
    if not kept:
        names = ", ".join(layer.name for layer in found)
        raise ArgumentError(f"{question}: where matches no layer", got=where, allowed=names)
    for layer in kept:
        if not torch.isfinite(layer.weight).all():
            raise ArgumentError(
                f"{question}: the weights of {layer.name!r} are not finite", fix="look at the training run"
            )
    return kept


def _layers(model: nn.Module, kinds: tuple[type[nn.Module], ...]) -> Iterator[Filters]:
    for name, module in model.named_modules():
        if isinstance(module, kinds):
            weight = module.weight
            assert isinstance(weight, Tensor)  # noqa: S101 - so of all these kinds
            yield Filters(name, weight.detach().cpu())


def _matches(name: str, where: str | Callable[[str], bool] | None) -> bool:
    if where is None:
        return True
    return fnmatchcase(name, where) if isinstance(where, str) else bool(where(name))
