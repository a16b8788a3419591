"""The way back: a model for use, without what only training needs."""

import copy
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import torch
from torch import nn
from torch.nn.utils import parametrize

from gatewise.errors import ArgumentError
from gatewise.graph import (
    Example,
    SiteGraph,
    check_readable,
    find_sites,
    parameter_count,
    split_example,
)
from gatewise.layers import OrthonormalFilters, StaticPhaseSelective
from gatewise.surgery.proof import (
    MOST,
    Arguments,
    Proof,
    Receipt,
    SwapFailed,
    difference,
    outputs_after,
    outputs_of,
)
from gatewise.surgery.propagate import operations
from gatewise.surgery.rewrite import DEPLOYED, RECORD, LoadOriginal, without_parametrizations
from gatewise.surgery.swaps import (
    BETA_FORMS,
    count_pieces,
    distance_to_maximum,
    hard_unit,
    has_reached,
    least_eta,
)
from gatewise.surgery.tools.batch_norm_folding import Foldable, find_foldable, fold

ROUNDED = 1e-4  # relative, in float32: a folded norm is another rounding of every number behind it


@dataclass(frozen=True)
class DeployReceipt(Receipt):
    """What :func:`gatewise.deploy` did; ``refused`` has what stays as it is, and why.

    ``hardened``: beta forms that became hard units, each with the most its output can differ by.
    """

    pruned: tuple[str, ...] = ()
    hardened: Mapping[str, float] = field(default_factory=dict)
    baked: tuple[str, ...] = ()
    folded: Mapping[str, str] = field(default_factory=dict)  # norm: layer

    def __str__(self) -> str:
        lines = [
            f"{len(self.folded)} batch norms folded, {len(self.pruned)} static layers pruned, "
        ]
        lines[0] += (
            f"{len(self.hardened)} beta forms hardened, {len(self.baked)} parametrisations baked"
        )
        lines.append(f"parameters {self.parameters[0]:,} to {self.parameters[1]:,}")
        lines.append(f"operations {self.operations[0]:,} to {self.operations[1]:,}")
        lines += [
            f"{path}: within {distance:.3g} of what it was"
            for path, distance in self.hardened.items()
            if distance
        ]
        lines += [f"{path} stays: {why}" for path, why in self.refused.items()]
        if self.proof is not None:
            shown = (
                f"{value:.2g}"
                for value in (self.proof.output_float64, self.proof.output_float32)
                if value is not None
            )
            lines.append("relative difference in float64 and as it is: " + ", ".join(shown))
        return "\n".join([*lines, *self.notes])


@dataclass
class _Work:
    """A model on its way to use, and what was done to it."""

    model: nn.Module
    pruned: list[str] = field(default_factory=list)
    hardened: dict[str, float] = field(default_factory=dict)
    baked: list[str] = field(default_factory=list)
    folded: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    def replace(self, path: str, new: nn.Module) -> None:
        """Put ``new`` in place of the module at ``path``, wherever else it is registered too."""
        old = self.model.get_submodule(path)
        if old is self.model:
            self.model = new
            return
        for parent in list(self.model.modules()):
            for name, child in parent._modules.items():
                if child is old:
                    parent._modules[name] = new


def deploy(model: nn.Module, example: Example, *, harden: float = 1.0) -> nn.Module:
    """A copy of ``model`` for evaluation, that computes the same and has nothing left that only training needs.

    - Static phase selective layers are pruned to a plain layer's weights.
    - Beta forms at the end of their range become the hard unit: ReLU, leaky ReLU, abs, maxout, max pooling.
    - Orthogonal parametrisations are replaced by the weights they compute.
    - Batch norms are folded into the convolution or linear layer before them.

    Args:
        model: trained; it is not changed. Units put in by :func:`gatewise.swap` stay.
        example: what the model is run on, to read it and to compare both.
        harden: the beta from which a form counts as hard. At 1, the default, those with ``beta = 1``, or trained until
            it cannot be told from 1 in its own precision. Below, the receipt states how far the outputs of such a unit
            can be from what they were.

    In float64 the outputs are equal to 1e-12, else it is an error. :func:`gatewise.receipt` has the differences and
    names what stayed as it was, with the reason.
    """
    if isinstance(harden, bool) or not isinstance(harden, int | float) or not 0.5 < harden <= 1:
        raise ArgumentError(
            "deploy: harden is not allowed", got=harden, allowed="0.5 < harden <= 1"
        )
    check_readable(model)
    arguments = split_example(example)
    work = _simplified(model, harden)
    graph = find_sites(work.model, example, modes=("eval",))
    foldable, left = find_foldable(work.model, graph)
    work.left |= left
    _fold(work, foldable)
    made = work.model
    receipt = DeployReceipt(
        unit="deployed",
        preserve=not any(work.hardened.values()),
        sites=(),
        refused=work.left,
        parameters=(parameter_count(model), parameter_count(made)),
        operations=_operations(model, example, work, graph, foldable),
        proof=_prove(model, work, foldable, arguments, harden),
        notes=graph.notes,
        pruned=tuple(work.pruned),
        hardened=work.hardened,
        baked=tuple(work.baked),
        folded=work.folded,
    )
    made.__dict__[DEPLOYED] = receipt
    return made


def _simplified(model: nn.Module, harden: float) -> _Work:
    """A copy in which everything is done that a module needs no graph for."""
    work = _Work(copy.deepcopy(model).eval())
    _forget(work.model)
    for path, module in list(work.model.named_modules()):
        _bake(work, path, module)
        _prune(work, path, module)
        _harden(work, path, module, harden)
    return work


def _fold(work: _Work, foldable: Sequence[Foldable]) -> None:
    for each in foldable:
        work.replace(each.norm, fold(work.model, each))
        work.folded[each.norm] = each.layer


def _operations(
    model: nn.Module, example: Example, work: _Work, graph: SiteGraph, foldable: Sequence[Foldable]
) -> tuple[int, int]:
    """Before and after; the original is read only if it differs from what was read."""
    counted = operations(next(iter(graph.readings.values())).graph)
    before = counted
    if work.pruned or work.hardened or work.baked:
        before = operations(
            next(iter(find_sites(model, example, modes=("eval",)).readings.values())).graph
        )
    return before, counted - sum(each.size for each in foldable)


def _forget(model: nn.Module) -> None:
    """A deployed model is no longer a swapped one.

    It cannot be undone, nor be given the original's checkpoint.
    """
    model.__dict__.pop(RECORD, None)
    LoadOriginal.set_steps(model, ())


def _bake(work: _Work, path: str, module: nn.Module) -> None:
    if not parametrize.is_parametrized(module):
        return
    held = module.get_submodule("parametrizations")
    if all(
        isinstance(each, OrthonormalFilters) for part in held.children() for each in part.children()
    ):
        work.replace(path, without_parametrizations(module))
        work.baked.append(path)
    else:
        work.left[path] = "a parametrisation that is not ours"


def _prune(work: _Work, path: str, module: nn.Module) -> None:
    if isinstance(module, StaticPhaseSelective) and module.split == "learned":
        if module.data_dependent:
            work.left[path] = "its split depends on the data, so every row may be needed"
        else:
            work.replace(path, module.deploy())
            work.pruned.append(path)


def _harden(work: _Work, path: str, module: nn.Module, least: float) -> None:
    if not isinstance(module, BETA_FORMS):
        return
    eta = least_eta(module)
    shannon = getattr(module, "penalty", "shannon") == "shannon"
    if not has_reached(module, least):
        work.left[path] = f"its beta is {eta / (1 + eta):.6g}, below {least:g}"
    elif not shannon and eta < math.inf:
        work.left[path] = "how far a sparse gate is from the maximum is not known in closed form"
    else:
        work.hardened[path] = distance_to_maximum(count_pieces(module), eta)
        work.replace(path, hard_unit(module))


def _prove(
    model: nn.Module, work: _Work, foldable: Sequence[Foldable], arguments: Arguments, harden: float
) -> Proof:
    """Both compared: deployed in float64, and as it was deployed.

    Where units were hardened early, only stated.
    """
    made = outputs_after(work.model, arguments, "deploy")
    found = {"output_float32": difference(outputs_of(model, arguments), made)}
    dtype = next(
        (each.dtype for each in model.parameters() if each.is_floating_point()), torch.float32
    )
    wide = copy.deepcopy(model).double()
    exact = _simplified(wide, harden)
    _fold(exact, foldable)
    found["output_float64"] = difference(
        outputs_of(wide, arguments), outputs_after(exact.model, arguments, "deploy")
    )
    bounds = {
        "output_float32": max(ROUNDED, 100 * torch.finfo(dtype).eps),
        "output_float64": MOST[torch.float64],
    }
    for name, most in bounds.items():
        if not any(work.hardened.values()) and not found[name] <= most:
            raise SwapFailed(
                f"deploy: the deployed model computes something else ({name.replace('_', ' ')})",
                got=f"relative difference {found[name]:.3g}",
                allowed=f"at most {most:g}",
            )
    return Proof(output_float32=found["output_float32"], output_float64=found["output_float64"])
