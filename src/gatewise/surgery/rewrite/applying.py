"""Do what a plan says, prove it, and keep what is needed to undo it. All of it, or nothing."""

import copy
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.graph import parameter_count, split_example
from gatewise.layers import PSConv1d, PSConv2d, PSLinear
from gatewise.surgery.binding.additions import ADDITION
from gatewise.surgery.binding.bindings import Binding
from gatewise.surgery.binding.bound_units import bound_unit
from gatewise.surgery.binding.install import install_bound
from gatewise.surgery.calls.call_site import CallSite
from gatewise.surgery.planning.plans import Entry, Plan, signature_of
from gatewise.surgery.proof.proving import check_proof, prove
from gatewise.surgery.proof.receipts import Receipt, SwapRecord, make_receipt
from gatewise.surgery.propagate.edits import Edit, Setting, edited
from gatewise.surgery.rewrite.checkpoint import LoadOriginal, negative_weight
from gatewise.surgery.rewrite.optimizer import carry_over, check_carried, check_optimizer, give_back
from gatewise.surgery.rewrite.rewriting import restore_calls, rewrite_calls
from gatewise.surgery.rewrite.transaction import (
    DEPLOYED,
    RECORD,
    Transaction,
    check_not_swapped,
    place_of,
)
from gatewise.surgery.swaps.galu import GALU, TAP, add_twin, remove_hooks
from gatewise.surgery.swaps.paired_units import build_unit

FORMS: dict[type[nn.Module], Any] = {nn.Conv1d: PSConv1d, nn.Conv2d: PSConv2d, nn.Linear: PSLinear}


def apply_plan(
    plan: Plan, model: nn.Module, *, inplace: bool, example: Any, optimizer: Any = None
) -> nn.Module:
    """See :meth:`gatewise.surgery.Plan.apply`."""
    check_not_swapped(model)
    plan.check_fits(model)
    check_optimizer(optimizer, model, inplace)
    before = dict(model.named_parameters())
    original = copy.deepcopy(model) if inplace and example is not None else model
    changed = model if inplace else copy.deepcopy(model)
    work = Transaction(changed)
    try:
        carry_out(plan, work)
        proof = None
        if example is not None:
            proof = prove(plan, original, changed, work.units, split_example(example))
            check_proof(plan, proof)
        _keep(plan, work, make_receipt(plan, parameter_count(changed), proof))
        if optimizer is not None:
            carry_over(optimizer, before, changed, by_name(plan.edits))
    except BaseException:
        work.roll_back()
        raise
    return changed


def carry_out(plan: Plan, work: Transaction) -> None:
    """Every edit, setting, layer and unit of ``plan``."""
    model = work.model
    like = next((each for each in model.parameters() if each.is_floating_point()), None)
    twin = copy.deepcopy(model) if plan.unit == GALU else None
    apply_edits(work, plan.edits, plan.settings)
    for path, slopes in plan.layers.items():
        home, _, own = path.rpartition(".")
        work.replace(home, own, _phase_selective(model.get_submodule(path), slopes), "module")
    _install(plan, work, like)
    if twin is not None:
        _install(replace(plan, unit=TAP), Transaction(twin), like)
        work.others.append(partial(remove_hooks, model))
        add_twin(model, twin, plan.swapped[0].options)


def apply_edits(work: Transaction, edits: Iterable[Edit], settings: Iterable[Setting]) -> None:
    """Edit parameters and sizes, in this order."""
    model = work.model
    names: dict[int, list[str]] = {}  # every name of each parameter and buffer
    for name, value in (
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    ):
        names.setdefault(id(value), []).append(name)
    for name, mine in by_name(edits).items():
        _edit(work, name, mine, names)
    for setting in settings:
        work.replace(setting.path, setting.attribute, setting.after, "attribute")


def by_name(edits: Iterable[Edit]) -> dict[str, tuple[Edit, ...]]:
    """The edits of each parameter."""
    found: dict[str, tuple[Edit, ...]] = {}
    for edit in edits:
        found[edit.name] = (*found.get(edit.name, ()), edit)
    return found


def _edit(
    work: Transaction, name: str, edits: tuple[Edit, ...], names: Mapping[int, list[str]]
) -> None:
    """Replace a parameter under every name it has."""
    _, _, kind, old = place_of(work.model, name)
    value = edited(old, edits)
    new: Tensor = (
        nn.Parameter(value, requires_grad=old.requires_grad) if kind == "parameter" else value
    )
    for alias in names[id(old)]:
        path, _, own = alias.rpartition(".")
        work.replace(path, own, new, kind)


def _phase_selective(layer: nn.Module, slopes: tuple[float, ...]) -> nn.Module:
    """The layer with a second weight for negative inputs.

    Its own parameters stay the same objects.
    """
    form = FORMS[type(layer)]
    weight = layer._parameters["weight"]
    if weight is None:
        raise ArgumentError("plan: a layer has no weight of its own", got=type(layer).__name__)
    made = form.like(layer, 0.0, device="meta", dtype=weight.dtype)
    made._parameters["weight"], made._parameters["bias"] = weight, layer._parameters["bias"]
    made._parameters["weight_neg"] = nn.Parameter(
        negative_weight(weight, slopes), weight.requires_grad
    )
    return made.train(layer.training)


def _install(plan: Plan, work: Transaction, like: Tensor | None) -> None:
    """Modules by their path, other calls by rewriting the methods that make them."""
    model, calls, units = work.model, [], []
    slots: dict[Any, nn.Module] = {}
    for entry in plan.swapped:
        if entry.bindings and not entry.moved:
            _no_fast_path(work, Binding.from_dict(entry.bindings[0]).call.owner)
            continue
        if entry.call is None:
            old = model.get_submodule(entry.path)
            home, _, own = entry.path.rpartition(".")
            work.units[entry.site] = _unit(plan, entry, old, like)
            work.replace(home, own, work.units[entry.site], "module")
            continue
        call = CallSite.from_dict(entry.call)
        if call.slot not in slots:
            old = (
                model.get_submodule(entry.path)
                if entry.kind not in ("functional", ADDITION)
                else None
            )
            slots[call.slot] = _unit(plan, entry, old, like)
        work.units[entry.site] = slots[call.slot]
        calls.append(call)
        units.append(slots[call.slot])
        _no_fast_path(work, call.owner)
    for edge in plan.put_back:
        calls.append(CallSite.from_dict(edge.call))
        units.append(edge.unit(like))
        _no_fast_path(work, edge.owner)
    if calls:
        work.others.append(rewrite_calls(model, calls, units))
    install_bound(plan, work, like)


def _unit(plan: Plan, entry: Entry, old: nn.Module | None, like: Tensor | None) -> nn.Module:
    if entry.moved:
        return nn.Identity()
    if entry.kind == ADDITION:
        return bound_unit(
            entry, **({} if like is None else {"device": like.device, "dtype": like.dtype})
        )
    return build_unit(plan.unit, dict(entry.options), old, entry.op, like)


def _no_fast_path(work: Transaction, owner: str) -> None:
    """Torch's own transformer layers have a fused kernel for evaluation that knows two activations and no others."""
    if getattr(work.model.get_submodule(owner), "activation_relu_or_gelu", 0):
        work.replace(owner, "activation_relu_or_gelu", 0, "attribute")


def _keep(plan: Plan, work: Transaction, receipt: Receipt) -> None:
    model = work.model
    now, saved = signature_of(model).keys(), model.state_dict().keys()
    hook = LoadOriginal(
        by_name(plan.edits),
        plan.signature,
        plan.layers,
        gone=tuple(sorted(plan.signature.keys() - now)),
        added=tuple(
            sorted(
                (now & saved)
                - plan.signature.keys()
                - {f"{path}.weight_neg" for path in plan.layers}
            )
        ),
    )
    model.register_load_state_dict_pre_hook(hook)
    model.__dict__[RECORD] = SwapRecord(receipt, list(work.changes))


def receipt(model: nn.Module) -> Receipt:
    """The receipt of what was done to ``model`` last."""
    if isinstance(model, nn.Module) and DEPLOYED in model.__dict__ and RECORD not in model.__dict__:
        return model.__dict__[DEPLOYED]
    return _record(model).receipt


def undo(model: nn.Module, *, optimizer: Any = None) -> nn.Module:
    """Give ``model`` back as it was before the swap, in place.

    Weights that were replaced are those of then.

    An ``optimizer`` that the swap carried over is given back too: its groups, and the state of
    replaced weights.
    """
    record = _record(model)
    if optimizer is not None:
        check_carried(optimizer, model)
    restore_calls(model, children=False)
    for change in reversed(record.changes):
        change.take_back(model)
    remove_hooks(model)
    hooks = model._load_state_dict_pre_hooks
    for key in [
        key for key, hook in hooks.items() if isinstance(getattr(hook, "hook", hook), LoadOriginal)
    ]:
        del hooks[key]
    del model.__dict__[RECORD]
    if optimizer is not None:
        give_back(optimizer)
    return model


def _record(model: nn.Module) -> SwapRecord:
    if isinstance(model, nn.Module) and DEPLOYED in model.__dict__ and RECORD not in model.__dict__:
        raise ArgumentError(
            "model: was deployed, which cannot be undone",
            fix="gw.deploy made a copy: go on with the model it was given",
        )
    if not isinstance(model, nn.Module) or RECORD not in model.__dict__:
        raise ArgumentError(
            "model: no units were put into it",
            got=type(model).__name__,
            fix="pass what gw.swap(...) returned",
        )
    return model.__dict__[RECORD]
