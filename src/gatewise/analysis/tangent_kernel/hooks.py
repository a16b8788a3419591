"""Record what enters a layer, and receive the derivatives at its output as the backward pass comes by.

Note [Taps]. A tap is an identity set after a layer. It hands on a tensor of its own with the same storage: activations
that work in place may follow, and the tap's place in the graph stays what it was. It is also tied to an anchor, a
number that needs a gradient, so that the backward pass reaches the first layer although neither the input nor any
parameter is part of the graph.

Note [A layer may be another's]. The calls of a layer say something of its parameters only if it reads them itself:
not a tensor that was put in their place, nor a copy that autocast made, with nothing between its output and the tap.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.tangent_kernel.row_checks import ROWWISE, is_recorded, keeps_rows, lies_in
from gatewise.errors import Limitation, NotApplicableError

Tapped = Mapping[
    nn.Module, Mapping[str, Tensor]
]  # layers, and those of their parameters that count

SETTINGS = (
    "stride",
    "padding",
    "dilation",
    "groups",
    "padding_mode",
    "padding_idx",
    "eps",
    "num_groups",
    "training",
)


class LayerTap(torch.autograd.Function):
    """The identity; tells ``receive`` the derivative that passes."""

    @staticmethod
    def forward(
        ctx: Any, output: Tensor, anchor: Tensor, receive: Callable[[Tensor], None]
    ) -> Tensor:
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
    oddity: str | None  # why it shows nothing of its layer's parameters, if so
    given: bool  # its input is part of the graph, or of the model's input
    settings: tuple[Any, ...]  # the layer's own, at that time
    reached: bool = True  # whether the model's output depends on it
    slopes: dict[int, Tensor] = field(default_factory=dict)

    @property
    def overwritten(self) -> bool:
        """Whether something changed the input in place after the layer had read it."""
        return self.source._version != self.version

    @property
    def set_anew(self) -> bool:
        """Whether the layer's settings, such as a dilation, are no longer those of the call."""
        return _settings(self.module) != self.settings

    def forget(self) -> None:
        """Free what is no longer needed: the graph holds on to this call for longer."""
        self.slopes.clear()
        self.entered = self.source = self.entered.new_empty(0)


class Recorder:
    """The calls of some layers in one forward pass, and their slopes in the backward passes that follow."""

    def __init__(self, inputs: tuple[Tensor, ...], *, copied: Container[nn.Module]) -> None:
        self.inputs = inputs
        self.anchor = torch.zeros((), device=inputs[0].device, requires_grad=True)
        self.tapped: Tapped = {}
        self.calls: list[Call] = []
        self.nodes: list[Any] = []  # the taps in the graph, one for each call
        self.copied = (
            copied  # layers whose input is kept as a copy, because it is overwritten later on
        )
        self.output = 0  # which output of the model the backward pass is for
        self.listening = True  # not while a checkpointed part is run again
        self.received: Callable[[Call], None] | None = None

    @contextmanager
    def on(self, tapped: Tapped) -> Iterator["Recorder"]:
        """Record the calls of the layers ``tapped`` inside."""
        self.tapped = tapped
        handles = [module.register_forward_hook(self._record, prepend=True) for module in tapped]
        try:
            yield self
        finally:
            self.listening = False
            for handle in handles:
                handle.remove()

    def _record(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> Tensor | None:
        if not self.listening or not is_recorded(args):
            return None
        source = args[0].detach()
        entered = source.clone() if module in self.copied else source
        given = not args[0].is_leaf or lies_in(source, self.inputs)
        oddity = _oddity(module, self.tapped[module], self.anchor.device.type)
        call = Call(
            module, entered, source, source._version, output.shape, oddity, given, _settings(module)
        )

        def receive(slope: Tensor) -> None:
            if self.received is None:
                call.oddity = "its layer is differentiated in the forward pass"
                return
            call.slopes[self.output] = slope
            self.received(call)

        tapped: Tensor = LayerTap.apply(output, self.anchor, receive)  # pyright: ignore[reportAssignmentType] (untyped)
        self.calls.append(call)
        self.nodes.append(tapped.grad_fn)
        return tapped

    def read_graph(self, output: Tensor) -> "Graph":
        """Read the graph of ``output``, and mark the calls that it depends on."""
        nodes, graph = _walk(output)
        for call, node in zip(self.calls, self.nodes, strict=True):
            call.reached = node in nodes
        self.nodes = []  # which hold on to the graph, and are held by it
        return graph


@dataclass(frozen=True)
class Graph:
    """What the operations that lead to an output show."""

    uses: Counter[int]  # how often each leaf, by its id, is used
    rows_stay: bool  # none of them can move a row


def _settings(module: nn.Module) -> tuple[Any, ...]:
    return tuple(map(vars(module).get, SETTINGS))


def _oddity(module: nn.Module, parameters: Mapping[str, Tensor], device: str) -> str | None:
    """Why a call of ``module`` shows nothing of its ``parameters``, if so."""
    everywhere = nn.modules.module
    if any(getattr(module, name, None) is not parameter for name, parameter in parameters.items()):
        return "its layer is run with another tensor in its place"
    if torch.is_autocast_enabled(device):
        return "its layer runs in autocast"
    if everywhere._global_forward_hooks:
        return "a hook on all modules may change its layer's output"
    old_hooks = module._backward_hooks and not module._is_full_backward_hook
    if old_hooks or (
        everywhere._global_backward_hooks and not everywhere._global_is_full_backward_hook
    ):
        return "its layer has a backward hook of torch's old kind"
    return None


def _walk(output: Tensor) -> tuple[set[Any], Graph]:
    """The nodes that ``output``, ``(N, o)``, depends on, and what they show."""
    uses: Counter[int] = Counter()
    rows_stay, samples = True, output.shape[0]
    waiting = [output.grad_fn] if output.grad_fn is not None else []
    graph = set(waiting)
    while waiting:
        node = waiting.pop()
        name = node.name()
        if rows_stay and name not in ROWWISE:
            rows_stay = keeps_rows(node, name, samples)
        if name == "CheckpointFunctionBackward":
            fix = "torch.utils.checkpoint.checkpoint(..., use_reentrant=False)"
            raise NotApplicableError(
                Limitation.UNSUPPORTED_MODEL,
                "ntk: a reentrant checkpoint hides the parameters inside it",
                fix=fix,
            )
        for child, _ in node.next_functions:
            if (leaf := getattr(child, "variable", None)) is not None:
                uses[id(leaf)] += 1
            elif child is not None and child not in graph:
                graph.add(child)
                waiting.append(child)
    return graph, Graph(uses, rows_stay)
