"""Which readers an activation is put back before, and where their calls stand in the source."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.graph import Node, Scope, SiteGraph, untouched
from gatewise.surgery.calls.call_site import CallSite
from gatewise.surgery.calls.reads import with_operands
from gatewise.surgery.calls.record import record_readers
from gatewise.surgery.propagate.phases import Taken, defer
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.surgery.swaps.put_back import PutBack

Calls = Mapping[Node, CallSite]


def find_readers(
    model: nn.Module,
    graph: SiteGraph,
    names: Iterable[str],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> dict[Node, CallSite]:
    """Where the calls stand before which the activations of some of the sites ``names`` might be put back."""
    modules, nodes = (
        dict(model.named_modules()),
        {node for each in graph.readings.values() for node in each.graph},
    )
    ops: set[str] = set()
    for name in names:
        try:
            ops |= {node.op for node in defer(graph, [name], modules, nodes).put_back}
        except Refusal:
            continue
    found: dict[Node, CallSite] = {}
    for mode, reading in graph.readings.items() if ops else ():
        with untouched(model, buffers=True):
            model.train(mode == "train")
            calls = record_readers(model, args, kwargs, ops)
        found |= _match([node for node in reading.graph if node.op in ops], calls)
    return found


def _match(nodes: Sequence[Node], calls: Sequence[CallSite]) -> dict[Node, CallSite]:
    """The recorded call of each node.

    Those of a module's run in which the counts disagree are left out.
    """
    read: dict[tuple[Scope, str], list[Node]] = defaultdict(list)
    seen: dict[tuple[Scope, str], list[CallSite]] = defaultdict(list)
    for node in nodes:
        read[node.scope, node.op].append(node)
    for call in calls:
        seen[(call.owner, call.call), call.op].append(call)
    agree = [key for key in read if len(read[key]) == len(seen[key])]
    return {node: call for key in agree for node, call in zip(read[key], seen[key], strict=True)}


def defer_with_readers(
    graph: SiteGraph,
    names: Sequence[str],
    modules: Mapping[str, nn.Module],
    calls: Calls,
    refused: dict[str, Refusal],
) -> tuple[list[str], Taken, tuple[PutBack, ...]]:
    """In the order of the graph.

    A site is kept if it can be left out together with those kept before.

    Without ``calls`` nothing is put back.
    """
    reach = {node for node, call in calls.items() if not call.refused}
    taken, put_back = Taken(), ()
    alone: dict[str, Taken] = {}  # of the sites that are kept
    for name in names:
        try:
            by_itself = defer(graph, [name], modules, reach) if calls else Taken()
            by_itself.check_gain()
            together = defer(graph, [*alone, name], modules, reach)
            put_back = edges(together, calls, alone | {name: by_itself})
        except Refusal as refusal:
            refused[name] = refusal
            continue
        taken, alone[name] = together, by_itself
    return list(alone), taken, put_back


def edges(taken: Taken, calls: Calls, alone: Mapping[str, Taken]) -> tuple[PutBack, ...]:
    """One for each place in the source.

    Calls that share a place must all be given the same, or it is a Refusal.
    """
    places: dict[Any, PutBack] = {}
    for node, reads in taken.put_back.items():
        sites = tuple(name for name, each in alone.items() if node in each.put_back)
        made = _edge(node, reads, calls[node], sites)
        known = places.setdefault(calls[node].slot, made)
        if (known.slopes, known.shape, known.call["form"]) != (
            made.slopes,
            made.shape,
            made.call["form"],
        ):
            raise Refusal(Reason.SHARED, f"{node.op} in {made.owner}")
    for node, call in calls.items():
        if call.slot in places and node not in taken.put_back:
            raise Refusal(Reason.SHARED, f"{node.op} in {call.owner}")
    return tuple(places.values())


def _edge(
    node: Node, reads: Mapping[str, Tensor], call: CallSite, sites: tuple[str, ...]
) -> PutBack:
    names = list(node.arguments)
    numbers = tuple(sorted(names.index(name) for name in reads))
    first = next(iter(reads.values()))
    same = all(torch.equal(first, slopes) for slopes in reads.values())
    too_many = call.iterations is not None and len(numbers) > 1
    if not same or too_many or max(numbers) >= dict(call.arguments)["operands"]:
        raise Refusal(Reason.SOURCE, f"{node.op} in {call.owner}")
    if first.numel() != max(first.shape) or first.shape[0] != 1:
        raise Refusal(Reason.SOURCE, f"{node.op} in {call.owner} reads examples of both kinds")
    written = replace(call, form=with_operands(call.form, numbers), inplace=False)
    slopes = tuple(float(each) for each in first.flatten())
    return PutBack(node.op, call.owner, sites, written.to_dict(), slopes, tuple(first.shape))
