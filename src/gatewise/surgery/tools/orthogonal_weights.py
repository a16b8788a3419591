"""Orthogonal filters in chosen layers of a model: exactly, or as a term of the loss."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize

from gatewise.checks import selects
from gatewise.errors import ArgumentError
from gatewise.graph import (
    Example,
    check_not_lazy,
    check_readable,
    parameter_count,
    split_example,
)
from gatewise.layers import as_rows, filter_groups, orthogonal, orthogonality_penalty
from gatewise.surgery.proof import Proof, Receipt, difference, outputs_after, outputs_before
from gatewise.surgery.rewrite import Transaction, check_not_swapped
from gatewise.surgery.tools.recorded_changes import change_recorded
from gatewise.surgery.tools.shallow_copies import shallow_copy

FILTER_LAYERS = (nn.Linear, nn.Conv1d, nn.Conv2d, nn.Conv3d)

Layers = str | Callable[[str, nn.Module], bool] | Sequence[str] | None


@dataclass(frozen=True)
class OrthogonalReceipt(Receipt):
    """What :func:`gatewise.surgery.orthogonalize` did.

    ``sites`` are the layers, and ``refused`` are those that cannot be orthogonal, with the reason.

    Attributes:
        exact: Whether the weights are parametrised, instead of a penalty in the loss.
        moved: The largest change of a filter, relative to its length.
        weight: The factor of the penalty.
    """

    exact: bool = True
    moved: float = 0.0
    weight: float = 1.0

    def penalty(self, model: nn.Module) -> Tensor:
        """Return a term for the loss: how far the chosen filters are from orthogonal."""
        total = torch.zeros(())
        for number, path in enumerate(self.sites):
            term = orthogonality_penalty(model.get_submodule(path), weight=self.weight)
            total = total + term.to(total.device) if number else term
        return total

    def __str__(self) -> str:
        how = "are orthogonal" if self.exact else "have a penalty"
        lines = [f"{len(self.sites)} layers {how}, {len(self.refused)} not changed"]
        if self.exact:
            lines.append(f"filters moved by at most {self.moved:.3g} of their length")
        if self.proof is not None and self.proof.output_float32 is not None:
            lines.append(f"relative difference of the output {self.proof.output_float32:.3g}")
        lines += [f"{path} not changed: {reason}" for path, reason in self.refused.items()]
        return "\n".join(lines)


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
    """Make the filters of linear layers and convolutions orthogonal.

    A layer with more filters than a filter has weights cannot be orthogonal. Such layers, tied
    weights and parametrised weights are not changed, and the receipt (:func:`gatewise.receipt`)
    names them. :func:`gatewise.undo` restores the model. :func:`gatewise.surgery.deploy` replaces
    the parametrised layers by plain layers with the current weights.

    Args:
        model: Any model. Only the weights of the chosen layers change. Classes, names and all other
            parameters stay.
        example: An input of the model. If given, the receipt has the difference of the outputs.
        layers: The layers to change: a glob over paths, several globs, or a function of path and
            module. All by default.
        exact: Parametrise the weights, as :func:`gatewise.nn.orthogonal` does. If ``False``,
            nothing is changed, and ``gw.receipt(model).penalty(model)`` is a term for the loss.
        method: See :func:`gatewise.nn.orthogonal`.
        gain: See :func:`gatewise.nn.orthogonal`. With a gain, filters keep their lengths.
        weight: The factor of the penalty.
        inplace: Change ``model`` itself instead of a copy.

    Returns:
        The changed model.
    """
    check_readable(model)
    check_not_lazy(model)
    check_not_swapped(model)
    if isinstance(model, FILTER_LAYERS):
        raise ArgumentError(
            "orthogonalize: the model is a single layer", fix="gatewise.nn.orthogonal(model)"
        )
    chosen = _chosen(model, layers)
    paths = []
    refused = {}
    for path, module in chosen.items():
        reason = _why_not(model, module)
        if reason:
            refused[path] = reason
        else:
            paths.append(path)
    if not paths:
        raise ArgumentError(
            f"orthogonalize: none of the {len(chosen)} layers can be orthogonal",
            got="; ".join(f"{path}: {reason}" for path, reason in list(refused.items())[:3]),
        )
    size = parameter_count(model)
    before = None if example is None else outputs_before(model, split_example(example))

    def make(work: Transaction) -> OrthogonalReceipt:
        moved = _parametrize(work, paths, method, gain) if exact else 0.0
        proof = None
        if example is not None and before is not None:
            after = outputs_after(work.model, split_example(example), "orthogonalize")
            proof = Proof(output_float32=difference(before, after))
        receipt = OrthogonalReceipt(
            unit="orthogonal weights",
            preserve=False,
            sites=tuple(paths),
            refused=refused,
            parameters=(size, parameter_count(work.model)),
            operations=(0, 0),
            proof=proof,
            exact=exact,
            moved=moved,
            weight=weight,
        )
        receipt.penalty(work.model)  # raises now if the weight is not allowed
        return receipt

    return change_recorded(model, make, inplace=inplace)


def _chosen(model: nn.Module, layers: Layers) -> dict[str, nn.Module]:
    """Return the layers with filters that ``layers`` names. Raises if there are none."""
    every: dict[str, nn.Module] = {}
    chosen: dict[str, nn.Module] = {}
    for path, module in model.named_modules():
        if not isinstance(module, FILTER_LAYERS):
            continue
        every[path] = module
        if layers(path, module) if callable(layers) else selects(layers, path):
            chosen[path] = module
    if not chosen:
        allowed = ", ".join(list(every)[:8]) or "the model has no linear layer or convolution"
        raise ArgumentError("orthogonalize: no layer matches", got=layers, allowed=allowed)
    return chosen


def _why_not(model: nn.Module, module: nn.Module) -> str:
    """Return why the filters of a layer cannot be made orthogonal, or an empty string."""
    if parametrize.is_parametrized(module):
        return "its weight is parametrised already"
    weight = module._parameters.get("weight")
    if weight is None:
        return "its weight is computed, not stored"
    parameters = model.named_parameters(remove_duplicate=False)
    if sum(parameter is weight for _, parameter in parameters) > 1:
        return "its weight is tied to another layer's"
    rows, columns = as_rows(weight, filter_groups(module)).shape[-2:]
    if rows > columns:
        return f"{rows} filters of {columns} weights: at most {columns} can be orthogonal"
    return ""


def _parametrize(work: Transaction, paths: Sequence[str], method: str, gain: bool) -> float:
    """Replace the layers by parametrised copies, and return the largest change of a filter."""
    moved = 0.0
    for path in paths:
        old = work.model.get_submodule(path)
        # Parametrising changes the class of a module, which must not happen to the user's layer.
        new = orthogonal(shallow_copy(old), method=method, gain=gain)
        with torch.no_grad():
            before = getattr(old, "weight").flatten(1).double()  # noqa: B009  any layer has one
            after = getattr(new, "weight").flatten(1).double()  # noqa: B009
            lengths = before.norm(dim=1).clamp(min=torch.finfo(torch.float64).tiny)
            moved = max(moved, float(((after - before).norm(dim=1) / lengths).max()))
        home, _, name = path.rpartition(".")
        work.replace(home, name, new, "module")
    return moved
