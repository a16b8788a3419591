"""Which readers an activation is put back before, and where their calls stand in the source."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.graph import Node, SiteGraph, untouched
from gatewise.surgery.calls import CallSite, match_readers, record_run, with_operands
from gatewise.surgery.planning import PutBack
from gatewise.surgery.propagate import Takeover, defer
from gatewise.surgery.reasons import Reason, Refusal

Calls = Mapping[Node, CallSite]


def find_readers(
    model: nn.Module,
    graph: SiteGraph,
    names: Iterable[str],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> dict[Node, CallSite]:
    """The calls before which the activation of some of the sites might be put back.

    Args:
        model: the model, which is run once for each mode.
        graph: its graph.
        names: the sites.
        args: positional arguments of the run.
        kwargs: keyword arguments of the run.
    """
    modules = dict(model.named_modules())
    nodes = {node for reading in graph.readings.values() for node in reading.graph}
    ops: set[str] = set()
    for name in names:
        try:
            ops |= {node.op for node in defer(graph, [name], modules, nodes).put_back}
        except Refusal:
            continue
    readers: dict[Node, CallSite] = {}
    for mode, reading in graph.readings.items() if ops else ():
        with untouched(model, buffers=True):
            model.train(mode == "train")
            calls = record_run(model, args, kwargs, ops=ops).readers
        readers |= match_readers([node for node in reading.graph if node.op in ops], calls)
    return readers


def defer_with_readers(
    graph: SiteGraph,
    names: Sequence[str],
    modules: Mapping[str, nn.Module],
    calls: Calls,
    refused: dict[str, Refusal],
    changed: Collection[Node],
) -> tuple[list[str], Takeover, tuple[PutBack, ...]]:
    """Choose sites greedily: one is kept if it can be left out together with those before it.

    Args:
        graph: the model's graph.
        names: the sites, in the order of the graph.
        modules: the model's modules by path.
        calls: readers that the activation can be put back before. If empty, none is put back.
        refused: takes the refusals of the other sites.
        changed: nodes whose channels another swap changes.

    Returns:
        The sites that are kept, what takes them over, and where activations are put back.
    """
    within_reach = {node for node, call in calls.items() if not call.refused}
    taken = Takeover()
    put_back: tuple[PutBack, ...] = ()
    alone: dict[str, Takeover] = {}  # of the sites that are kept
    for name in names:
        try:
            by_itself = defer(graph, [name], modules, within_reach) if calls else Takeover()
            by_itself.check_gain()
            together = defer(graph, [*alone, name], modules, within_reach)
            _check_unchanged(graph, together, changed)
            put_back = _edges(together, calls, alone | {name: by_itself})
        except Refusal as refusal:
            refused[name] = refusal
            continue
        taken = together
        alone[name] = by_itself
    return list(alone), taken, put_back


def _check_unchanged(graph: SiteGraph, taken: Takeover, changed: Collection[Node]) -> None:
    """Refuse if another swap changes the channels that a layer or a reader has slopes for."""
    if not changed:
        return
    for reading in graph.readings.values():
        for node in reading.graph:
            if node.scope[0] in taken.layers or node in taken.put_back:
                if any(source in changed for source in node.inputs):
                    raise Refusal(Reason.DIFFERENT, "another swap changes its channels")


def _edges(taken: Takeover, calls: Calls, alone: Mapping[str, Takeover]) -> tuple[PutBack, ...]:
    """One for each place in the source.

    Raises:
        Refusal: calls that share a place would need different units.
    """
    places: dict[Any, PutBack] = {}
    for node, reads in taken.put_back.items():
        sites = tuple(name for name, takeover in alone.items() if node in takeover.put_back)
        edge = _edge(node, reads, calls[node], sites)
        known = places.setdefault(calls[node].slot, edge)
        if (known.slopes, known.shape, known.call.form) != (
            edge.slopes,
            edge.shape,
            edge.call.form,
        ):
            raise Refusal(Reason.SHARED, f"{node.op} in {edge.owner}")
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
    slopes = tuple(first.flatten().tolist())
    return PutBack(node.op, call.owner, sites, written, slopes, tuple(first.shape))
