"""Decide, from one sample's forward pass, which parameters have a closed form and how many samples fit in memory.

Note [Every use is seen]. A closed form is right only if every use of its parameter is a recorded call of its layer.
The probe's graph shows all of them: each use is an edge to the parameter's node. A parameter with another number of
edges than its layer had calls (used by a function, tied, computed from another) goes the way of the Jacobian.

Note [Rows are samples]. A closed form also needs row ``s`` of a layer's input to come from sample ``s`` alone. In the
probe, with one sample, the input must have one row; in every batch that holds that sample, its row must be the same
numbers again, up to rounding, and so must the model's output.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from gatewise.analysis._ntk_arguments import run
from gatewise.analysis._ntk_layers import axes_of, kind_of
from gatewise.analysis._ntk_state import require_gradients
from gatewise.analysis._ntk_taps import Call, Recorder
from gatewise.errors import ArgumentError

LAYERWISE = "layerwise"


@dataclass(frozen=True)
class Plan:
    """Which parameters go which way, and what a sample of the model takes."""

    chosen: dict[str, Tensor]
    output: Tensor  # of the probe, (1, o)
    routes: dict[str, str]  # parameter name: layerwise, or why not
    covered: dict[nn.Module, set[str]]  # layer: which of its own parameters
    calls: list[Call]  # of covered layers, in order
    changes_input: bool  # the model works in place on x
    tape: int  # bytes a sample leaves in the graph

    @property
    def rest(self) -> dict[str, Tensor]:
        """The parameters without a closed form."""
        return {name: self.chosen[name] for name, route in self.routes.items() if route != LAYERWISE}

    @property
    def overwritten(self) -> set[nn.Module]:
        """The layers whose input is changed in place after they have read it."""
        return {call.module for call in self.calls if call.overwritten}


@dataclass
class Tape:
    """Counts the bytes that a forward pass saves for the backward pass, and saves nothing."""

    own: set[int]  # storages of the model itself
    bytes: int = 0
    seen: set[int] = field(default_factory=set)

    def pack(self, tensor: Tensor) -> None:
        """Count a tensor, once."""
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self.own and storage.data_ptr() not in self.seen:
            self.seen.add(storage.data_ptr())
            self.bytes += storage.nbytes()

    def unpack(self, packed: Any) -> Tensor:
        """Nothing was saved: the probe has no backward pass."""
        raise NotImplementedError


@dataclass(frozen=True)
class Probe:
    """One sample's forward pass."""

    output: Tensor  # (1, o)
    calls: list[Call]  # of layers that may have a closed form
    uses: Counter[Tensor]  # how often each parameter is used
    changes_input: bool
    tape: int


def plan(
    model: nn.Module, chosen: dict[str, Tensor], sample: tuple[Tensor, ...], *, method: str, unfit: dict[nn.Module, str]
) -> Plan:
    """Run the model on one ``sample`` and read the graph; ``unfit`` layers, with the reason, are not taken as covered."""
    owners = _owners(model) if method != "jacobian" else {}
    seen = _probe(model, chosen, sample, {owner for own in owners.values() for owner, _ in own if kind_of(owner)})
    counts = Counter(call.module for call in seen.calls if call.reached)
    reasons = unfit | {call.module: reason for call in seen.calls if (reason := _misshapen(call)) is not None}
    routes: dict[str, str] = {}
    covered: dict[nn.Module, set[str]] = {}
    for name, parameter in chosen.items():
        routes[name] = _route(owners.get(parameter, []), seen.uses[parameter], counts, reasons)
        if routes[name] == LAYERWISE and counts[owners[parameter][0][0]]:
            owner, own_name = owners[parameter][0]
            covered.setdefault(owner, set()).add(own_name)
    calls = [call for call in seen.calls if call.module in covered]
    return Plan(chosen, seen.output, routes, covered, calls, seen.changes_input, seen.tape)


def _probe(model: nn.Module, chosen: dict[str, Tensor], sample: tuple[Tensor, ...], tapped: set[nn.Module]) -> Probe:
    like = next(iter(chosen.values()))
    sample = tuple(each.clone() for each in sample)
    versions = [each._version for each in sample]
    recorder = Recorder(like.device, copied=tapped)
    recorder.nodes = nodes = []
    tape = Tape({each.untyped_storage().data_ptr() for each in (*model.parameters(), *model.buffers())})
    require_gradients(model, chosen.values())
    with recorder.on(tapped), saved_tensors_hooks(tape.pack, tape.unpack):
        output = run(model, sample, like)
    recorder.nodes = None  # which would hold on to the graph
    graph, uses = _read_graph(output)
    for call, node in zip(recorder.calls, nodes, strict=True):
        call.reached = node in graph
    changes_input = [each._version for each in sample] != versions
    return Probe(output.detach(), recorder.calls, uses, changes_input, tape.bytes)


def _read_graph(output: Tensor) -> tuple[set[Any], Counter[Tensor]]:
    """The nodes that ``output`` depends on, and the number of edges to each leaf."""
    uses: Counter[Tensor] = Counter()
    waiting = [output.grad_fn] if output.grad_fn is not None else []
    graph = set(waiting)
    while waiting:
        node = waiting.pop()
        if node.name() == "CheckpointFunctionBackward":
            fix = "torch.utils.checkpoint.checkpoint(..., use_reentrant=False)"
            raise ArgumentError("ntk: a reentrant checkpoint hides the parameters inside it", fix=fix)
        for child, _ in node.next_functions:
            if hasattr(child, "variable"):
                uses[child.variable] += 1
            elif child is not None and child not in graph:
                graph.add(child)
                waiting.append(child)
    return graph, uses


def _owners(model: nn.Module) -> dict[Tensor, list[tuple[nn.Module, str]]]:
    """For each parameter the modules that hold it, and its name there."""
    owners: dict[Tensor, list[tuple[nn.Module, str]]] = {}
    for module in model.modules():
        for name, parameter in module._parameters.items():
            if parameter is not None:
                owners.setdefault(parameter, []).append((module, name))
    return owners


def _route(
    owners: list[tuple[nn.Module, str]], uses: int, counts: Counter[nn.Module], reasons: dict[nn.Module, str]
) -> str:
    if not owners:
        return "jacobian: asked for"
    if len({module for module, _ in owners}) > 1 or len(owners) > 1:
        return f"jacobian: shared by {len(owners)} layers"
    module = owners[0][0]
    if module in reasons:
        return f"jacobian: {reasons[module]}"
    if kind_of(module) is None:
        return f"jacobian: no closed form for {type(module).__name__}" if uses else LAYERWISE
    if uses != counts[module]:
        return f"jacobian: used {uses} times in {counts[module]} calls of its layer"
    return LAYERWISE  # also when it is not used at all: its part is zero


def _misshapen(call: Call) -> str | None:
    """Why the rows of a layer's input cannot be samples, if they cannot."""
    axes = axes_of(call.module)
    if call.entered.dim() < 2 and call.entered.is_floating_point() or axes not in (None, call.entered.dim()):
        return "its layer has an input without a batch dimension"
    if call.entered.shape[0] != 1 or call.left[0] != 1:
        return "the first dimension of its layer's input is not that of the samples"
    return None
