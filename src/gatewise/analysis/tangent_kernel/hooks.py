"""Record the input of each layer, and the derivatives at its output during the backward pass.

Note [Output hooks]. An output hook is an identity placed after a layer. It returns a new tensor
with the same storage. An activation that works in place may follow, and the hook's position in
the graph stays the same. The hook also depends on an anchor, a scalar that requires a gradient.
So the backward pass reaches the first layer, although neither the input nor any parameter is part
of the graph.

Note [A call must read the layer's parameters]. The calls of a layer say something about its
parameters only if the layer reads them itself. It must not read a tensor that was put in their
place, or a copy made by autocast, and nothing may be between the layer's output and the hook.
"""

from collections import Counter
from collections.abc import Callable, Container, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.tangent_kernel.row_checks import ROWWISE, can_record, keeps_rows, shares_rows
from gatewise.errors import Limitation, NotApplicableError

# Layers, each with those of its parameters that count.
HookedLayers = Mapping[nn.Module, Mapping[str, Tensor]]

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


class OutputHook(torch.autograd.Function):
    """The identity; calls ``receive`` with the derivative in the backward pass."""

    @staticmethod
    def forward(
        ctx: Any,
        output: Tensor,
        anchor: Tensor,
        receive: Callable[[Tensor], None],
    ) -> Tensor:
        ctx.receive = receive
        return output.data

    @staticmethod
    def backward(ctx: Any, *slopes: Tensor) -> tuple[Tensor, None, None]:
        ctx.receive(slopes[0])
        return slopes[0], None, None


@dataclass
class Call:
    """One call of a layer.

    Attributes:
        module: the layer.
        input: its input, or a copy of it.
        source: the input itself.
        version: the input's version; torch counts changes in place.
        output_shape: the shape of the output.
        unusable: why the call says nothing about the layer's parameters, or None.
        input_traced: whether the input is part of the graph, or of the model's input.
        settings: the layer's settings at the time of the call.
        reached: whether the model's output depends on the call.
        slopes: for each output of the model so far, its derivative at the layer's output.
    """

    module: nn.Module
    input: Tensor
    source: Tensor
    version: int
    output_shape: torch.Size
    unusable: str | None
    input_traced: bool
    settings: tuple[Any, ...]
    reached: bool = True
    slopes: dict[int, Tensor] = field(default_factory=dict)

    @property
    def overwritten(self) -> bool:
        """Whether the input was changed in place after the layer had read it."""
        return self.source._version != self.version

    @property
    def reconfigured(self) -> bool:
        """Whether the layer's settings, for example its dilation, changed after the call."""
        return _settings(self.module) != self.settings

    def release(self) -> None:
        """Free the tensors: the graph keeps this object alive longer than they are needed."""
        self.slopes.clear()
        self.input = self.source = self.input.new_empty(0)


class Recorder:
    """Records the calls of some layers in one forward pass, and their slopes in backward passes."""

    def __init__(self, inputs: tuple[Tensor, ...], *, copied: Container[nn.Module]) -> None:
        """Create a recorder.

        Args:
            inputs: the model's inputs.
            copied: layers whose input is kept as a copy, because it is overwritten later.
        """
        self.inputs = inputs
        self.anchor = torch.zeros((), device=inputs[0].device, requires_grad=True)
        self.hooked: HookedLayers = {}
        self.calls: list[Call] = []
        self.nodes: list[Any] = []  # the output hooks in the graph, one for each call
        self.copied = copied
        self.output = 0  # which output of the model the backward pass is for
        self.listening = True  # off while a checkpointed part is run again
        self.on_slope: Callable[[Call], None] | None = None

    @contextmanager
    def on(self, hooked: HookedLayers) -> Iterator["Recorder"]:
        """Record the calls of the layers ``hooked`` inside the context."""
        self.hooked = hooked
        handles = [module.register_forward_hook(self._record, prepend=True) for module in hooked]
        try:
            yield self
        finally:
            self.listening = False
            for handle in handles:
                handle.remove()

    def _record(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> Tensor | None:
        if not self.listening or not can_record(args):
            return None
        source = args[0].detach()
        call = Call(
            module,
            input=source.clone() if module in self.copied else source,
            source=source,
            version=source._version,
            output_shape=output.shape,
            unusable=_why_unusable(module, self.hooked[module], self.anchor.device.type),
            input_traced=not args[0].is_leaf or shares_rows(source, self.inputs),
            settings=_settings(module),
        )

        def receive(slope: Tensor) -> None:
            if self.on_slope is None:
                call.unusable = "its layer is differentiated in the forward pass"
                return
            call.slopes[self.output] = slope
            self.on_slope(call)

        hooked: Tensor = OutputHook.apply(output, self.anchor, receive)  # pyright: ignore[reportAssignmentType] (untyped)
        self.calls.append(call)
        self.nodes.append(hooked.grad_fn)
        return hooked

    def read_graph(self, output: Tensor) -> "GraphFacts":
        """Read the graph of ``output``, and mark the calls that it depends on."""
        nodes, facts = _walk(output)
        for call, node in zip(self.calls, self.nodes, strict=True):
            call.reached = node in nodes
        self.nodes = []  # they refer to the graph, and the graph to them
        return facts


@dataclass(frozen=True)
class GraphFacts:
    """What the operations that lead to an output show.

    Attributes:
        uses: how often each leaf, by its id, is used.
        rows_stay: whether none of the operations can move a row.
    """

    uses: Counter[int]
    rows_stay: bool


def _settings(module: nn.Module) -> tuple[Any, ...]:
    return tuple(map(vars(module).get, SETTINGS))


def _why_unusable(module: nn.Module, parameters: Mapping[str, Tensor], device: str) -> str | None:
    """Why a call of ``module`` says nothing about its ``parameters``, or None."""
    everywhere = nn.modules.module
    for name, parameter in parameters.items():
        if getattr(module, name, None) is not parameter:
            return "its layer is run with another tensor in its place"
    if torch.is_autocast_enabled(device):
        return "its layer runs in autocast"
    if everywhere._global_forward_hooks:
        return "a hook on all modules may change its layer's output"
    has_old_hook = module._backward_hooks and not module._is_full_backward_hook
    if everywhere._global_backward_hooks and not everywhere._global_is_full_backward_hook:
        has_old_hook = True
    if has_old_hook:
        return "its layer has a backward hook of torch's old kind"
    return None


def _walk(output: Tensor) -> tuple[set[Any], GraphFacts]:
    """The nodes that ``output``, ``(N, o)``, depends on, and what they show."""
    uses: Counter[int] = Counter()
    rows_stay = True
    samples = output.shape[0]
    waiting = [output.grad_fn] if output.grad_fn is not None else []
    nodes = set(waiting)
    while waiting:
        node = waiting.pop()
        name = node.name()
        if rows_stay and name not in ROWWISE:
            rows_stay = keeps_rows(node, name, samples)
        if name == "CheckpointFunctionBackward":
            raise NotApplicableError(
                Limitation.UNSUPPORTED_MODEL,
                "ntk: a reentrant checkpoint hides the parameters inside it",
                fix="torch.utils.checkpoint.checkpoint(..., use_reentrant=False)",
            )
        for child, _ in node.next_functions:
            leaf = getattr(child, "variable", None)
            if leaf is not None:
                uses[id(leaf)] += 1
            elif child is not None and child not in nodes:
                nodes.add(child)
                waiting.append(child)
    return nodes, GraphFacts(uses, rows_stay)
