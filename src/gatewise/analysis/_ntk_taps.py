"""Record what enters a layer, and receive the derivatives at its output as the backward pass comes by.

Note [Taps]. A tap is an identity set after a layer. It hands on a tensor of its own with the same storage: activations
that work in place may follow, and the tap's place in the graph stays what it was. It is also tied to an anchor, a
number that needs a gradient, so that the backward pass reaches the first layer although neither the input nor any
parameter is part of the graph.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError


class Tap(torch.autograd.Function):
    """The identity; tells ``receive`` the derivative that passes."""

    @staticmethod
    def forward(ctx: Any, output: Tensor, anchor: Tensor, receive: Callable[[Tensor], None]) -> Tensor:
        ctx.receive = receive
        return output.data

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None]:
        ctx.receive(slopes[0])
        return slopes[0], None, None


@dataclass
class Call:
    """One call of a layer: its input, and the derivative at its output of each output of the model so far."""

    module: nn.Module
    entered: Tensor
    source: Tensor  # the input itself, where `entered` may be a copy of it
    version: int  # of the input; torch counts changes in place
    left: torch.Size  # shape of the output
    reached: bool = True  # whether the model's output depends on it
    slopes: dict[int, Tensor] = field(default_factory=dict)

    @property
    def overwritten(self) -> bool:
        """Whether something changed the input in place after the layer had read it."""
        return self.source._version != self.version

    def forget(self) -> None:
        """Free what is no longer needed: the graph holds on to this call for longer."""
        self.slopes.clear()
        self.entered = self.source = self.entered.new_empty(0)


class Recorder:
    """The calls of some layers in one forward pass, and their slopes in the backward passes that follow."""

    def __init__(self, device: torch.device, *, copied: Container[nn.Module]) -> None:
        self.anchor = torch.zeros((), device=device, requires_grad=True)
        self.calls: list[Call] = []
        self.nodes: list[Any] = []  # the taps in the graph, one for each call
        self.copied = copied  # layers whose input is kept as a copy, because it is overwritten later on
        self.output = 0  # which output of the model the backward pass is for
        self.listening = True  # not while a checkpointed part is run again
        self.received: Callable[[Call], None] | None = None

    @contextmanager
    def on(self, modules: Iterable[nn.Module]) -> Iterator["Recorder"]:
        """Record the calls of ``modules`` inside."""
        handles = [module.register_forward_hook(self._record, prepend=True) for module in modules]
        try:
            yield self
        finally:
            self.listening = False
            for handle in handles:
                handle.remove()

    def _record(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> Tensor | None:
        if not self.listening or len(args) != 1 or not isinstance(args[0], Tensor) or not torch.is_grad_enabled():
            return None
        source = args[0].detach()
        entered = source.clone() if module in self.copied else source
        call = Call(module, entered, source, source._version, output.shape)

        def receive(slope: Tensor) -> None:
            call.slopes[self.output] = slope
            if self.received is not None:
                self.received(call)

        tapped: Tensor = Tap.apply(output, self.anchor, receive)  # pyright: ignore[reportAssignmentType] (untyped)
        self.calls.append(call)
        self.nodes.append(tapped.grad_fn)
        return tapped

    def read_graph(self, output: Tensor) -> Counter[int]:
        """Mark the calls that ``output`` depends on; how often each leaf, by its id, is used on the way to it."""
        graph, uses = _walk(output)
        for call, node in zip(self.calls, self.nodes, strict=True):
            call.reached = node in graph
        self.nodes = []  # which hold on to the graph, and are held by it
        return uses


def _walk(output: Tensor) -> tuple[set[Any], Counter[int]]:
    """The nodes that ``output`` depends on, and the number of edges to each leaf."""
    uses: Counter[int] = Counter()
    waiting = [output.grad_fn] if output.grad_fn is not None else []
    graph = set(waiting)
    while waiting:
        node = waiting.pop()
        if node.name() == "CheckpointFunctionBackward":
            fix = "torch.utils.checkpoint.checkpoint(..., use_reentrant=False)"
            raise ArgumentError("ntk: a reentrant checkpoint hides the parameters inside it", fix=fix)
        for child, _ in node.next_functions:
            if (leaf := getattr(child, "variable", None)) is not None:
                uses[id(leaf)] += 1
            elif child is not None and child not in graph:
                graph.add(child)
                waiting.append(child)
    return graph, uses
