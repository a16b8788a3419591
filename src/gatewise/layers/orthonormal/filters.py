"""The filters of a layer as rows of a matrix, with one matrix per group of channels."""

from torch import Tensor, nn
from torch.nn.parameter import UninitializedParameter

from gatewise.errors import ArgumentError
from gatewise.units import FLOATS

TRANSPOSED = (nn.ConvTranspose1d, nn.ConvTranspose2d, nn.ConvTranspose3d)


def filter_groups(module: nn.Module) -> int:
    """Return the number of groups of a convolution, 1 for any other module.

    Filters of different groups see different channels.
    """
    return int(getattr(module, "groups", 1))


def as_rows(weight: Tensor, groups: int) -> Tensor:
    """Return ``(C, *)`` as ``(C, n)``, or as ``(groups, C / groups, n)`` for several groups."""
    rows = weight.flatten(1)
    if groups == 1:
        return rows
    return rows.unflatten(0, (groups, -1))


def check_filters(what: str, module: nn.Module, name: str) -> Tensor:
    """Return ``module``'s tensor ``name`` if it holds filters, with the outputs first."""
    if not isinstance(module, nn.Module):
        raise ArgumentError(
            f"{what}: a module is needed",
            got=type(module).__name__,
            allowed="nn.Linear, nn.Conv2d, ...",
        )
    if not isinstance(name, str):
        raise ArgumentError(
            f"{what}: name must be a string",
            got=name,
            allowed="the name of a tensor of the module",
        )
    weight = getattr(module, name, None)
    if not isinstance(weight, Tensor):
        raise ArgumentError(
            f"{what}: the module has no tensor {name!r}",
            got=type(module).__name__,
            fix="name=...",
        )
    if isinstance(weight, UninitializedParameter):
        raise ArgumentError(
            f"{what}: the shape of {name!r} is not known yet",
            got=type(module).__name__,
            fix="run one batch first",
        )
    if isinstance(module, TRANSPOSED):
        raise ArgumentError(
            f"{what}: the first dimension of a transposed convolution's weight counts inputs",
            got=type(module).__name__,
            allowed="a linear layer, a convolution, or a module with outputs in that dimension",
        )
    if weight.dim() < 2 or weight.numel() == 0 or weight.dtype not in FLOATS:
        raise ArgumentError(
            f"{what}: {name!r} does not hold filters",
            got=f"shape {tuple(weight.shape)}, {weight.dtype}",
            allowed="two dimensions or more, none of size 0, real floating point",
        )
    return weight
