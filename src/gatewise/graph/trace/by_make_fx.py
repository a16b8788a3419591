"""Read a model by ``make_fx`` on real tensors.

This works for models whose control flow depends on values, which export refuses. The graph has the
branches that the example takes, and no others.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn

from gatewise.graph.trace.caching import cached
from gatewise.graph.trace.conversion import Leaf, convert
from gatewise.graph.trace.locking import one_at_a_time
from gatewise.graph.trace.nodes import Graph, Scope
from gatewise.graph.trace.whole_slices import WholeSlices
from gatewise.graph.unchanged import untouched


@one_at_a_time
@cached(by_value=True)
def read_by_tracing(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    *,
    mode: str,
) -> Graph:
    """Return the graph of ``model(*args, **kwargs)`` in ``mode``; raise what the model raises."""
    from torch.fx.experimental.proxy_tensor import make_fx
    from torch.utils._pytree import tree_flatten, tree_unflatten

    flat, form = tree_flatten((args, kwargs))
    places = [place for place, value in enumerate(flat) if isinstance(value, torch.Tensor)]

    def run(*tensors: torch.Tensor) -> Any:
        values = list(flat)
        for place, tensor in zip(places, tensors, strict=True):
            values[place] = tensor
        positional, named = tree_unflatten(values, form)
        return model(*positional, **named)

    with untouched(model, buffers=True), torch.no_grad(), _record(model) as record:
        model.train(mode == "train")
        # The model may look at values of real tensors; the flag lets it.
        trace = make_fx(run, pre_dispatch=True, _error_on_data_dependent_ops=False)
        with WholeSlices():
            traced = trace(*(flat[place] for place in places))
    # Nodes have the names they had when they were made, so the marks fit them.
    scopes = record.scopes_by_name()
    leaves = _leaves(model, traced)
    return convert(
        traced,
        leaves,
        lambda node: scopes.get(node.name, ()),
        mode=mode,
        reader="make_fx",
    )


@dataclass
class _Record:
    """Which modules were running when each node was made."""

    running: list[Scope] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)  # number of calls so far, by path
    # The name of the last node so far, and the modules that run from there on.
    marks: list[tuple[str, tuple[Scope, ...]]] = field(default_factory=list)
    graph: fx.Graph | None = None

    def enter(self, path: str) -> None:
        number = self.calls.get(path, 0)
        self.calls[path] = number + 1
        self.running.append((path, number))
        self.mark()

    def leave(self) -> None:
        self.running.pop()
        self.mark()

    def mark(self) -> None:
        from torch.fx.experimental.proxy_tensor import get_proxy_mode

        mode = get_proxy_mode()
        if mode is not None:
            self.graph = mode.tracer.graph
            last = next(iter(reversed(self.graph.nodes)), None)
            self.marks.append((last.name if last else "", tuple(self.running)))

    def scopes_by_name(self) -> dict[str, tuple[Scope, ...]]:
        """Return the modules around each node, by the name of the node."""
        scopes: dict[str, tuple[Scope, ...]] = {}
        marks = iter(self.marks)
        upcoming = next(marks, None)
        running: tuple[Scope, ...] = ()
        names = ["", *(node.name for node in self.graph.nodes)] if self.graph else []
        for name in names:
            scopes[name] = running
            while upcoming is not None and upcoming[0] == name:
                running = upcoming[1]
                upcoming = next(marks, None)
        return scopes


@contextmanager
def _record(model: nn.Module) -> Iterator[_Record]:
    """Record the calls of all modules by hooks; ``untouched`` removes the hooks."""
    record = _Record()
    for path, module in model.named_modules():

        def enter(*_: Any, path: str = path) -> None:
            record.enter(path)

        module.register_forward_pre_hook(enter, prepend=True)
        module.register_forward_hook(lambda *_: record.leave())
    yield record


def _leaves(model: nn.Module, traced: fx.GraphModule) -> dict[str, Leaf]:
    """Return kind and name of each leaf; attributes of ``traced`` are the model's tensors."""
    names: dict[int, Leaf] = {}
    for name, parameter in model.named_parameters():
        names[id(parameter)] = ("parameter", name)
    for name, buffer in model.named_buffers():
        names[id(buffer)] = ("buffer", name)
    leaves: dict[str, Leaf] = {}
    for node in traced.graph.nodes:
        target = str(node.target)
        if node.op == "placeholder":
            leaves[target] = ("input", target)
        elif node.op == "get_attr":
            value = getattr(traced, target, None)
            leaves[target] = names.get(id(value), ("constant", target))
    return leaves
