"""Make a model for deployment, without everything that only training needs."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn.utils import parametrize

from gatewise.checks import check_number
from gatewise.errors import ArgumentError
from gatewise.graph import (
    Example,
    SiteGraph,
    check_readable,
    copied,
    find_sites,
    parameter_count,
    split_example,
)
from gatewise.layers import OrthonormalFilters, PhaseLayer
from gatewise.surgery.planning import float_dtypes
from gatewise.surgery.proof import (
    MOST,
    Arguments,
    Proof,
    Receipt,
    check_difference,
    difference,
    outputs_after,
    outputs_of,
)
from gatewise.surgery.propagate import cost, operations
from gatewise.surgery.rewrite import DEPLOYED, RECORD, LoadOriginal
from gatewise.surgery.saving import follow_transformers
from gatewise.surgery.swaps import (
    BETA_FORMS,
    count_pieces,
    distance_to_maximum,
    hard_unit,
    has_reached,
    least_eta,
)
from gatewise.surgery.tools.batch_norm_folding import Foldable, find_foldable, fold
from gatewise.surgery.tools.shallow_copies import without_parametrizations

# Relative, in float32. A folded norm rounds every number after it differently.
ROUNDED = 1e-4


@dataclass(frozen=True)
class DeployReceipt(Receipt):
    """What :func:`gatewise.surgery.deploy` did. ``refused`` has what was not changed, and why.

    Attributes:
        pruned: The static phase selective layers that were pruned.
        hardened: The beta forms that became hard units, with the largest change of an output.
        baked: The layers whose parametrisation was replaced by its weights.
        folded: For each folded batch norm, the layer that it was folded into.
    """

    pruned: tuple[str, ...] = ()
    hardened: Mapping[str, float] = field(default_factory=dict)
    baked: tuple[str, ...] = ()
    folded: Mapping[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [
            f"{len(self.folded)} batch norms folded, {len(self.pruned)} static layers pruned, "
            f"{len(self.hardened)} beta forms hardened, {len(self.baked)} parametrisations removed",
            f"parameters {self.parameters[0]:,} to {self.parameters[1]:,}",
            f"operations {self.operations[0]:,} to {self.operations[1]:,}",
        ]
        for path, distance in self.hardened.items():
            if distance:
                lines.append(f"{path}: outputs differ by at most {distance:.3g}")
        lines += [f"{path} not changed: {reason}" for path, reason in self.refused.items()]
        if self.proof is not None:
            differences = (self.proof.output_float64, self.proof.output_float32)
            shown = [f"{value:.2g}" for value in differences if value is not None]
            lines.append("relative difference in float64 and in its own type: " + ", ".join(shown))
        return "\n".join([*lines, *self.notes])


@dataclass
class _Work:
    """A model that is being deployed, and what was done to it so far."""

    model: nn.Module
    pruned: list[str] = field(default_factory=list)
    hardened: dict[str, float] = field(default_factory=dict)
    baked: list[str] = field(default_factory=list)
    folded: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    def replace(self, path: str, new: nn.Module) -> None:
        """Replace the module at ``path`` by ``new``, at all paths where it is registered."""
        old = self.model.get_submodule(path)
        if old is self.model:
            self.model = new
            return
        for parent in list(self.model.modules()):
            for name, child in parent._modules.items():
                if child is old:
                    parent._modules[name] = new


def deploy(model: nn.Module, example: Example, *, harden: float = 1.0) -> nn.Module:
    """Return a copy of ``model`` for evaluation, without everything that only training needs.

    - Static phase selective layers are pruned to the weights of a plain layer.
    - Beta forms at the end of their range become the hard unit: ReLU, leaky ReLU, abs, maxout or
      max pooling.
    - Orthogonal parametrisations are replaced by the weights they compute.
    - Batch norms are folded into the convolution or linear layer before them.

    :func:`gatewise.receipt` of the copy has the differences of the outputs, and names what was not
    changed, with the reason.

    Args:
        model: A trained model. It is not changed. Units from :func:`gatewise.swap` stay.
        example: An input, used to read the model and to compare both models.
        harden: The beta from which a form counts as hard. With the default 1, these are forms whose
            beta equals 1 in its precision. With less, the receipt has the largest possible change
            of each hardened unit's outputs.

    Raises:
        SwapFailed: In float64, the outputs differ by more than 1e-12 relative.
    """
    check_number("deploy", "harden", harden, above=0.5, most=1)
    check_readable(model)
    arguments = split_example(example)
    # Norms are folded last: the graph must be that of the model without parametrisations.
    work = _simplified(model, harden)
    graph = find_sites(work.model, example, modes=("eval",))
    foldable, left = find_foldable(work.model, graph)
    work.left |= left
    _fold(work, foldable)
    deployed = work.model
    receipt = DeployReceipt(
        unit="deployed",
        preserve=not any(work.hardened.values()),
        sites=(),
        refused=work.left,
        parameters=(parameter_count(model), parameter_count(deployed)),
        operations=_operations(model, example, work, graph, foldable),
        proof=_prove(model, work, foldable, arguments, harden),
        notes=graph.notes,
        pruned=tuple(work.pruned),
        hardened=work.hardened,
        baked=tuple(work.baked),
        folded=work.folded,
    )
    deployed.__dict__[DEPLOYED] = receipt
    follow_transformers(deployed)
    return deployed


def _simplified(model: nn.Module, harden: float) -> _Work:
    """Return a copy with all changes that need no graph: all but the folding of norms."""
    work = _Work(copied(model).eval())
    _forget(work.model)
    for path, module in list(work.model.named_modules()):
        _bake(work, path, module)
        _prune(work, path, module)
        _harden(work, path, module, harden)
    return work


def _fold(work: _Work, foldable: Sequence[Foldable]) -> None:
    """Fold all foldable batch norms."""
    for pair in foldable:
        work.replace(pair.norm, fold(work.model, pair))
        work.folded[pair.norm] = pair.layer


def _operations(
    model: nn.Module, example: Example, work: _Work, graph: SiteGraph, foldable: Sequence[Foldable]
) -> tuple[int, int]:
    """Return the operations before and after.

    ``graph`` was read before norms were folded. The original is read only if it differs from that.
    """
    unfolded = operations(graph.readings["eval"].graph)
    before = unfolded
    if work.pruned or work.hardened or work.baked:
        before = cost(model, "flops", example)
    return before, unfolded - sum(pair.size for pair in foldable)


def _forget(model: nn.Module) -> None:
    """Remove the record of a swap: a deployed model cannot be undone or load the original state."""
    model.__dict__.pop(RECORD, None)
    LoadOriginal.set_steps(model, ())


def _bake(work: _Work, path: str, module: nn.Module) -> None:
    """Replace a parametrised layer by a plain one."""
    if not parametrize.is_parametrized(module):
        return
    for parametrizations in module.get_submodule("parametrizations").children():
        for parametrization in parametrizations.children():
            if not isinstance(parametrization, OrthonormalFilters):
                work.left[path] = "it has a parametrisation that gatewise does not know"
                return
    work.replace(path, without_parametrizations(module))
    work.baked.append(path)


def _prune(work: _Work, path: str, module: nn.Module) -> None:
    """Replace a phase selective layer by its form for evaluation, if that is another."""
    if not isinstance(module, PhaseLayer):
        return
    try:
        plain = module.freeze()
    except ArgumentError as error:
        work.left[path] = str(error)
        return
    if plain is not module:
        work.replace(path, plain)
        work.pruned.append(path)


def _harden(work: _Work, path: str, module: nn.Module, least: float) -> None:
    """Replace a beta form whose beta is at least ``least`` by the hard unit."""
    if not isinstance(module, BETA_FORMS):
        return
    eta = least_eta(module)  # beta / (1 - beta)
    shannon = getattr(module, "penalty", "shannon") == "shannon"
    if not has_reached(module, least):
        work.left[path] = f"its beta is {eta / (1 + eta):.6g}, below {least:g}"
    elif not shannon and eta < math.inf:
        work.left[path] = "the distance of a sparse gate from the maximum has no closed form"
    else:
        work.hardened[path] = distance_to_maximum(count_pieces(module), eta)
        work.replace(path, hard_unit(module))


def _prove(
    model: nn.Module, work: _Work, foldable: Sequence[Foldable], arguments: Arguments, harden: float
) -> Proof:
    """Compare original and deployed model, in float64 and in the model's type.

    If units were hardened before beta reached 1, the outputs may differ. Then the differences are
    only measured.
    """
    outputs = outputs_after(work.model, arguments, "deploy")
    float32 = difference(outputs_of(model, arguments), outputs)
    wide = copied(model).double()
    exact = _simplified(wide, harden)
    _fold(exact, foldable)
    exact_outputs = outputs_after(exact.model, arguments, "deploy")
    float64 = difference(outputs_of(wide, arguments), exact_outputs)
    if not any(work.hardened.values()):
        dtype = next(iter(float_dtypes(model)), torch.float32)
        bound = max(ROUNDED, 100 * torch.finfo(dtype).eps)
        check_difference("deploy", "output float32", float32, bound)
        check_difference("deploy", "output float64", float64, MOST[torch.float64])
    return Proof(output_float32=float32, output_float64=float64)
