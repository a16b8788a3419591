"""Read a model by ``make_fx`` on real tensors.

For models whose control flow depends on values, which export refuses.

It sees the branches this example takes, and no others.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import fx, nn

from gatewise.graph.trace.caching import cached
from gatewise.graph.trace.conversion import Leaf, convert
from gatewise.graph.trace.nodes import Graph, Scope
from gatewise.graph.unchanged import untouched


@cached(by_value=True)
def read_by_tracing(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, mode: str
) -> Graph:
    """The graph of ``model(*args, **kwargs)`` in ``mode``. Whatever torch raises is raised."""
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
        # On real tensors values can be looked at; the flag lets that happen instead of refusing it.
        traced = make_fx(run, pre_dispatch=True, _error_on_data_dependent_ops=False)(
            *(flat[p] for p in places)
        )
    scopes = record.scopes_by_name()
    leaves = _leaves(model, traced)
    return convert(
        traced, leaves, lambda node: scopes.get(node.name, ()), mode=mode, reader="make_fx"
    )


@dataclass
class _Record:
    """Which modules were running when each node was made."""

    running: list[Scope] = field(default_factory=list)
    calls: dict[str, int] = field(default_factory=dict)
    marks: list[tuple[str, tuple[Scope, ...]]] = field(
        default_factory=list
    )  # last node so far, modules from there on
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

        if (tracing := get_proxy_mode()) is not None:
            self.graph = graph = tracing.tracer.graph
            last = next(iter(reversed(graph.nodes)), None)
            self.marks.append((last.name if last else "", tuple(self.running)))

    def scopes_by_name(self) -> dict[str, tuple[Scope, ...]]:
        """Modules around each node, by the node's name."""
        found: dict[str, tuple[Scope, ...]] = {}
        marks, current = iter(self.marks), ()
        ahead = next(marks, None)
        names = ["", *(node.name for node in self.graph.nodes)] if self.graph else []
        for name in names:
            found[name] = current
            while ahead is not None and ahead[0] == name:
                current, ahead = ahead[1], next(marks, None)
        return found


@contextmanager
def _record(model: nn.Module) -> Iterator[_Record]:
    record, handles = _Record(), []
    try:
        for path, module in model.named_modules():
            handles.append(
                module.register_forward_pre_hook(
                    lambda *_, path=path: record.enter(path), prepend=True
                )
            )
            handles.append(module.register_forward_hook(lambda *_: record.leave()))
        yield record
    finally:
        for handle in handles:
            handle.remove()


def _leaves(model: nn.Module, traced: fx.GraphModule) -> dict[str, Leaf]:
    """Attributes of the traced module are the model's own parameter objects."""
    names = {id(value): ("parameter", name) for name, value in model.named_parameters()}
    names |= {id(value): ("buffer", name) for name, value in model.named_buffers()}
    found: dict[str, Leaf] = {}
    for node in traced.graph.nodes:
        if node.op == "placeholder":
            found[str(node.target)] = ("input", str(node.target))
        elif node.op == "get_attr":
            value = getattr(traced, str(node.target), None)
            found[str(node.target)] = names.get(id(value), ("constant", str(node.target)))
    return found
