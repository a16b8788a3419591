"""Bind units to the layer before them, so that they receive its input and its weights.

Layer and activation must be called by one method of one module, or be children of one Sequential.
The method then keeps the layer's input in a local variable and calls ``self.gw.s0(y, x,
self.conv)``; the Sequential does the same for its children. So nothing is stored on a module
between two calls, no layer is registered twice, and every name in the state dict stays.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.surgery.calls import AROUND, HOLDER, CallSite, CallUnits, Position
from gatewise.surgery.rewrite import (
    CallEdit,
    Change,
    OwnerChange,
    Transaction,
    base_and_recipe,
    owner_of,
    planned,
    put,
    rewritten_class,
)

SEQUENTIAL = "torch.nn.modules.container:Sequential"

Bound = tuple[CallSite, CallSite, nn.Module]


class BoundPair(NamedTuple):
    """A layer's call, and the call that a unit bound to the layer replaces.

    ``silenced`` is the path of an activation that becomes the identity.
    """

    producer: CallSite
    call: CallSite
    silenced: str | None = None


def pair_calls(calls: Sequence[CallSite], layer: str, activation: CallSite) -> BoundPair:
    """Which of the recorded ``calls`` to bind.

    An activation inside a norm (``bn1.act``) cannot see the layer before the norm. Then the unit
    goes around the norm's call, and the norm's own activation is silenced. Record with ``also``
    naming the layers and, for such activations, their owners.

    Args:
        calls: all recorded calls, in order.
        layer: the path of the layer.
        activation: the call that the unit replaces.
    """
    before = list(calls[: list(calls).index(activation)])
    producer = _last(before, layer, activation)
    if (producer.owner, producer.code) == (
        activation.owner,
        activation.code,
    ) or activation.module is None:
        return BoundPair(producer, activation)
    inside_norm = activation.module.rpartition(".")[0] == activation.owner
    if not inside_norm or not any(call.module == activation.owner for call in before):
        return BoundPair(producer, activation)
    return BoundPair(
        producer,
        replace(_last(before, activation.owner, activation), form=AROUND),
        activation.module,
    )


def _last(calls: list[CallSite], module: str, activation: CallSite) -> CallSite:
    matching = [call for call in calls if call.module == module]
    if not matching:
        raise _refused(activation, f"{module} is not called before it")
    return matching[-1]


def bind_calls(
    work: Transaction,
    producers: Sequence[CallSite],
    calls: Sequence[CallSite],
    units: Sequence[nn.Module],
    *,
    silenced: Iterable[str] = (),
) -> None:
    """Put ``units[i]`` in place of ``calls[i]``, with the input and the layer of ``producers[i]``.

    A unit is called as ``unit(y, x, layer)``, where ``y`` is ``layer(x)``, or what norms made of
    it. In a Sequential the unit takes the place of the activation, and so its name in the state
    dict; elsewhere units are under the owner's ``gw.``.

    Args:
        work: changes the model, and keeps what is needed to roll back.
        producers: calls of layers, recorded by ``record_calls(model, ..., also=paths_of_layers)``.
        calls: the calls to replace; :func:`pair_calls` finds what belongs together.
        units: one for each call.
        silenced: paths of activation modules that become identities.
    """
    if not calls or not len(producers) == len(calls) == len(units):
        got = f"{len(producers)} producers, {len(calls)} calls, {len(units)} units"
        raise ArgumentError(
            "bind_calls: needs one producer and one unit for each call, and at least one", got=got
        )
    owners: dict[str, list[Bound]] = {}
    for bound in zip(producers, calls, units, strict=True):
        owners.setdefault(_check(*bound), []).append(bound)
    changes = {
        path: _change(owner_of(work.model, path), path, bound) for path, bound in owners.items()
    }
    for path in dict.fromkeys(silenced):
        home, _, name = path.rpartition(".")
        if home in owners:
            raise ArgumentError(
                "bind_calls: an activation of an owner of calls cannot be silenced", got=path
            )
        work.changes.append(Change(home, name, owner_of(work.model, path), "module"))
        put(owner_of(work.model, home), name, nn.Identity(), "module")
    for path, change in changes.items():
        for name in change.children.keys() - {HOLDER}:
            work.changes.append(Change(path, name, change.owner._modules[name], "module"))
        change.make()


def _check(producer: CallSite, call: CallSite, unit: nn.Module) -> str:
    """The owner of both calls."""
    if not isinstance(unit, nn.Module):
        raise ArgumentError("bind_calls: a unit is not a module", got=type(unit).__name__)
    if why := why_not(producer, call):
        raise _refused(call, why)
    return call.owner


def why_not(producer: CallSite, call: CallSite) -> str | None:
    """Why a unit in place of ``call`` cannot be given the input of ``producer``; None if it can."""
    if (producer.owner, producer.defined_in) != (call.owner, call.defined_in):
        return "the layer and the activation are not called by the same method of one module"
    if producer.through is None and producer.method != call.method:
        return "the layer and the activation are not called by the same method of one module"
    if producer.through is None and producer.code != call.code:
        return "the layer and the activation are not called by the same function"
    if call.form == AROUND and call.iterations not in (None, 1):
        return "its norm is called in a loop"
    in_sequential = (
        producer.refused == call.refused == "container" and call.defined_in == SEQUENTIAL
    )
    if not in_sequential and (producer.refused or call.refused):
        return str(producer.reason or call.reason)
    if in_sequential and (call.module is None or call.reused or producer.reused):
        return "a Sequential calls one module in several places"
    if not in_sequential and producer.attribute is None:
        return "the layer is not an attribute of its owner"
    return None


def _refused(call: CallSite, why: str) -> ArgumentError:
    where = f"{call.file}:{call.position[0]}"
    return ArgumentError(
        f"bind_calls: {call.owner or 'the model'}: a unit cannot be bound: {why} ({where})"
    )


def _change(owner: nn.Module, path: str, bound: list[Bound]) -> OwnerChange:
    if bound[0][1].defined_in == SEQUENTIAL:
        return _sequential_change(owner, path, bound)
    producers: dict[Position, CallSite] = {}
    for producer, call, _ in bound:
        first = producers.setdefault(call.position, producer)
        if (first.position, first.form) != (producer.position, producer.form):
            raise _refused(call, "it is bound to two layers")
    through = [producer.through for producer in producers.values() if producer.through]
    if len(set(through)) < len(through):
        raise _refused(bound[0][1], "one call of another method makes the inputs of two units")
    return planned(owner, [(call, unit) for _, call, unit in bound], producers)


def _sequential_change(owner: nn.Module, path: str, bound: list[Bound]) -> OwnerChange:
    base, old = base_and_recipe(type(owner))
    edits: list[CallEdit] = []
    children: dict[str, nn.Module] = {}
    order, holder = list(owner._modules), CallUnits()
    for producer, call, unit in bound:
        layer, name = _child(owner, path, producer), _child(owner, path, call)
        if order.index(layer) > order.index(name):
            raise _refused(call, "the layer comes after the activation")
        around = call.form == AROUND
        slot = f"s{len(list(holder.children()))}" if around else name
        source = ((0, 0, 0, 0), name) if around else None
        edits.append(
            CallEdit(slot, SEQUENTIAL, "forward", "", (0, 0, 0, 0), layer, False, None, (), source)
        )
        if around:
            holder.add_module(slot, unit)
        else:
            children[name] = unit.train(owner.training)
    if next(holder.children(), None) is not None:
        if HOLDER in order:
            raise _refused(bound[0][1], f"the Sequential has a child {HOLDER!r} already")
        children[HOLDER] = holder.train(owner.training)
    return OwnerChange(owner, rewritten_class(base, old + tuple(edits)), children)


def _child(owner: nn.Module, path: str, call: CallSite) -> str:
    """The name in ``owner`` of the module that was called."""
    home, _, name = (call.module or "").rpartition(".")
    if home != path or name not in owner._modules:
        raise _refused(call, "a module is registered in several places")
    return name
