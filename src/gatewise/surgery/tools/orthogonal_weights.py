"""Orthogonal weights on chosen layers of a model: exactly, or as a term of the loss."""

import copy
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from gatewise.errors import ArgumentError
from gatewise.graph import Example, check_readable, parameter_count, split_example
from gatewise.layers import as_rows, filter_groups, orthogonal, orthogonality_penalty
from gatewise.surgery.proof import (
    Proof,
    Receipt,
    difference,
    outputs_after,
    outputs_before,
)
from gatewise.surgery.rewrite import (
    RECORD,
    SwapRecord,
    Transaction,
    check_not_swapped,
    shallow_copy,
)

LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)

Layers = str | Callable[[str, nn.Module], bool] | Sequence[str] | None


@dataclass(frozen=True)
class OrthogonalReceipt(Receipt):
    """What :func:`gatewise.orthogonalize` did.

    ``refused`` has the layers that cannot be orthogonal, and why.

    ``sites`` are the layers. ``moved`` is the largest change of a filter, relative to its length.
    """

    exact: bool = True
    moved: float = 0.0
    weight: float = 1.0  # of the penalty

    def penalty(self, model: nn.Module) -> Tensor:
        """A term for the loss: how far the filters of the chosen layers of ``model`` are from orthogonal."""
        terms = [
            orthogonality_penalty(model.get_submodule(path), weight=self.weight)
            for path in self.sites
        ]
        return sum((term.to(terms[0].device) for term in terms[1:]), terms[0])

    def __str__(self) -> str:
        how = "are orthogonal" if self.exact else "have a penalty"
        lines = [f"{len(self.sites)} layers {how}, {len(self.refused)} refused"]
        if self.exact:
            lines.append(f"filters moved by at most {self.moved:.3g} of their length")
        if self.proof is not None and self.proof.output_float32 is not None:
            lines.append(f"relative difference of the output {self.proof.output_float32:.3g}")
        return "\n".join([*lines, *(f"{path}: {why}" for path, why in self.refused.items())])


def orthogonalize(
    model: nn.Module,
    example: Example | None = None,
    *,
    layers: Layers = None,
    exact: bool = True,
    method: str = "cholesky",
    gain: bool = False,
    weight: float = 1.0,
    inplace: bool = False,
) -> nn.Module:
    """Make the filters of linear layers and convolutions orthogonal; a copy, or in place.

    Args: model: any model; its own classes, names and parameter objects stay, but the weights of
        chosen layers. example: if given, the receipt has how far the outputs on it moved. layers:
        which: a glob over paths, several of them, or a function of path and module. By default all.
        exact: parametrise the weights, as :func:`gatewise.nn.orthogonal` does. If not, nothing is
        changed, and
            ``gw.receipt(model).penalty(model)`` is a term for the loss over the chosen layers.
        method, gain: as in :func:`gatewise.nn.orthogonal`; with ``gain`` filters keep their
        lengths.
        weight: the factor of the penalty.

    A layer with more filters than a filter has numbers cannot be orthogonal: it is left as it is
    and named in the receipt (:func:`gatewise.receipt`), as are tied and parametrised weights.
    :func:`gatewise.undo` takes it back, :func:`gatewise.deploy` leaves plain layers with the
    weights that were reached.
    """
    check_readable(model)
    check_not_swapped(model)
    if isinstance(model, LAYERS):
        raise ArgumentError(
            "orthogonalize: the model is a layer itself", fix="gatewise.nn.orthogonal(model)"
        )
    chosen = _chosen(model, layers)
    refused = {path: why for path, module in chosen.items() if (why := _why_not(model, module))}
    able = {path: module for path, module in chosen.items() if path not in refused}
    if not able:
        raise ArgumentError(
            f"orthogonalize: none of the {len(chosen)} layers can be orthogonal",
            got="; ".join(f"{path}: {why}" for path, why in list(refused.items())[:3]),
        )
    changed, size = model if inplace else copy.deepcopy(model), parameter_count(model)
    work = Transaction(changed)
    before = None if example is None else outputs_before(model, split_example(example))
    try:
        moved = _parametrize(work, able, method, gain) if exact else 0.0
        proof = None
        if example is not None and before is not None:
            after = outputs_after(changed, split_example(example), "orthogonalize")
            proof = Proof(output_float32=difference(before, after))
        facts = {
            "sites": tuple(able),
            "refused": refused,
            "proof": proof,
            "exact": exact,
            "moved": moved,
        }
        receipt = OrthogonalReceipt(
            unit="orthogonal weights",
            preserve=False,
            parameters=(size, parameter_count(changed)),
            operations=(0, 0),
            weight=weight,
            **facts,
        )
        receipt.penalty(changed)  # so that an impossible weight is said now
        changed.__dict__[RECORD] = SwapRecord(receipt, list(work.changes))
    except BaseException:
        work.roll_back()
        raise
    return changed


def _chosen(model: nn.Module, layers: Layers) -> dict[str, nn.Module]:
    """Every layer with filters that ``layers`` names; none is an error."""
    named: dict[str, nn.Module] = dict(model.named_modules())
    every = [path for path, module in named.items() if isinstance(module, LAYERS)]
    if callable(layers):
        paths = [path for path in every if layers(path, named[path])]
    elif layers is not None:
        globs = [layers] if isinstance(layers, str) else list(layers)
        paths = [path for path in every if any(fnmatchcase(path, glob) for glob in globs)]
    else:
        paths = every
    if not paths:
        allowed = ", ".join(every[:8]) or "the model has no linear layer or convolution"
        raise ArgumentError("orthogonalize: no layer matches", got=layers, allowed=allowed)
    return {path: named[path] for path in paths}


def _why_not(model: nn.Module, module: nn.Module) -> str:
    """Why the filters of a layer cannot be made orthogonal; empty if they can."""
    if parametrize.is_parametrized(module):
        return "its weight is parametrised already"
    held = module._parameters.get("weight")
    if held is None:
        return "its weight is computed, not stored"
    if sum(each is held for _, each in model.named_parameters(remove_duplicate=False)) > 1:
        return "its weight is tied to another layer's"
    rows, columns = as_rows(held, filter_groups(module)).shape[-2:]
    return (
        f"{rows} filters of {columns} numbers: more than can be orthogonal"
        if rows > columns
        else ""
    )


def _parametrize(work: Transaction, able: dict[str, nn.Module], method: str, gain: bool) -> float:
    """Put parametrised copies of the layers in their places, and return the largest change of a filter."""
    moved = 0.0
    for path in able:
        old = work.model.get_submodule(path)
        new = orthogonal(shallow_copy(old), method=method, gain=gain)
        with torch.no_grad():
            before, after = (getattr(each, "weight").flatten(1).double() for each in (old, new))  # noqa: B009
            lengths = before.norm(dim=1).clamp(min=torch.finfo(torch.float64).tiny)
            moved = max(moved, float(((after - before).norm(dim=1) / lengths).max()))
        home, _, own = path.rpartition(".")
        work.replace(home, own, new, "module")
    return moved
