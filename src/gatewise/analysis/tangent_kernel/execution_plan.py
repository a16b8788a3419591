"""Decide, from one sample's forward pass, which parameters have a closed form.

Note [Count every use]. A closed form is right only if every use of its parameter is a recorded
call of its layer. The autograd graph shows all uses: each use is an edge to the parameter's node,
and each call in which the layer itself reads the parameter makes one. A parameter whose number of
edges differs from the number of calls of its layer (read by a function, tied, computed from
another) is handled by its Jacobian. So is a parameter whose layer reads another tensor in its
place. Batches are checked like the probe, because other samples may take other branches.

Note [Rows are samples]. A closed form also needs row ``s`` of a layer's input to come from sample
``s`` alone. In the probe, which has one sample, the input must have one row. In every batch that
holds that sample, its row must have the same numbers again, up to rounding, and so must the
model's output. For the other rows see the note in ``row_checks.py``.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

from gatewise.analysis.tangent_kernel.arguments import run
from gatewise.analysis.tangent_kernel.hooks import Call, GraphFacts, HookedLayers, Recorder
from gatewise.analysis.tangent_kernel.layer_rules import closed_form_class, input_dims
from gatewise.analysis.tangent_kernel.model_state import Subject
from gatewise.errors import ArgumentError

LAYERWISE = "layerwise"


@dataclass(frozen=True)
class Plan:
    """How each parameter is handled, and the memory that a sample needs.

    Attributes:
        chosen: the parameters to differentiate by, by name.
        output: the output of the pass that the plan was made from, (1, o).
        routes: for each parameter name ``"layerwise"``, or why it has no closed form.
        covered: for each layer with a closed form, its names for its parameters and the model's.
        calls: the calls of covered layers, in order.
        changes_input: whether the model changes ``x`` in place.
        rows_stay: whether no row can have moved on its way through the model.
        saved_bytes: bytes that one sample leaves in the autograd graph.
    """

    chosen: dict[str, Tensor]
    output: Tensor
    routes: dict[str, str]
    covered: dict[nn.Module, dict[str, str]]
    calls: list[Call]
    changes_input: bool
    rows_stay: bool
    saved_bytes: int

    @property
    def rest(self) -> dict[str, Tensor]:
        """The parameters without a closed form."""
        return {
            name: self.chosen[name] for name, route in self.routes.items() if route != LAYERWISE
        }

    @property
    def hooked(self) -> HookedLayers:
        """The covered layers, each with its covered parameters."""
        layers: dict[nn.Module, dict[str, Tensor]] = {}
        for module, names in self.covered.items():
            layers[module] = {local: self.chosen[name] for local, name in names.items()}
        return layers

    @property
    def overwritten(self) -> set[nn.Module]:
        """The layers whose input is changed in place after they have read it."""
        return {call.module for call in self.calls if call.overwritten}


@dataclass
class SavedBytes:
    """Counts the bytes that a forward pass saves for the backward pass.

    Attributes:
        ignored: storages of the model itself, which exist anyway.
        storages: the storages counted so far. They are held so that no new storage can get the
            address of one that was freed.
        bytes: the count.
    """

    ignored: set[int]
    storages: dict[int, torch.UntypedStorage] = field(default_factory=dict)
    bytes: int = 0

    def pack(self, tensor: Tensor) -> Tensor:
        """Count a saved tensor once, and keep it: the forward pass may differentiate by itself."""
        storage = tensor.untyped_storage()
        address = storage.data_ptr()
        if address not in self.ignored and address not in self.storages:
            self.storages[address] = storage
            self.bytes += storage.nbytes()
        return tensor.detach()


class ComputedBytes(TorchDispatchMode):
    """Counts the bytes of every computed tensor.

    This is an upper bound of what is saved, for models where saved tensors cannot be counted.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Run the operator and count its outputs."""
        result = func(*args, **(kwargs or {}))
        tensors = result if isinstance(result, tuple | list) else (result,)
        self.bytes += sum(tensor.nbytes for tensor in tensors if isinstance(tensor, Tensor))
        return result


@dataclass(frozen=True)
class Probe:
    """What a recorded forward pass of one sample shows.

    Attributes:
        output: the model's outputs, (1, o).
        calls: the calls of layers that may have a closed form.
        graph: what the autograd graph of the output shows.
        changes_input: whether the model changed its input in place.
        saved_bytes: bytes saved for the backward pass.
    """

    output: Tensor
    calls: list[Call]
    graph: GraphFacts
    changes_input: bool
    saved_bytes: int


def plan_kernel(
    subject: Subject,
    sample: tuple[Tensor, ...],
    *,
    method: str,
    unfit: dict[str, str],
) -> Plan:
    """Run the model on one sample and decide how each parameter is handled.

    Args:
        subject: the model and its chosen parameters.
        sample: inputs with a batch size of 1.
        method: ``"jacobian"`` gives no parameter a closed form.
        unfit: parameters that are already known to have no closed form, with the reason.
    """
    probe = _probe(subject, sample, _hookable_layers(subject) if method != "jacobian" else {})
    counts = Counter(call.module for call in probe.calls if call.reached)
    unfit_layers: dict[nn.Module, str] = {}
    for call in probe.calls:
        reason = _why_unfit(call)
        if reason is not None:
            unfit_layers[call.module] = reason
    routes = dict.fromkeys(subject.chosen, "jacobian: asked for")
    covered: dict[nn.Module, dict[str, str]] = {}
    for name, parameter in subject.chosen.items() if method != "jacobian" else ():
        owners = subject.owners[id(parameter)]
        module, local_name = owners[0]
        reason = unfit.get(name) or unfit_layers.get(module)
        reason = reason or _why_not_covered(owners, probe.graph.uses[id(parameter)], counts)
        routes[name] = f"jacobian: {reason}" if reason else LAYERWISE
        if not reason and counts[module]:
            covered.setdefault(module, {})[local_name] = name
    if not covered:
        # Without a layerwise pass nothing shows whether other samples use these parameters.
        for name, route in routes.items():
            if route == LAYERWISE:
                routes[name] = "jacobian: not used here"
    calls = [call for call in probe.calls if call.module in covered]
    rows_stay = probe.graph.rows_stay and not probe.changes_input
    return Plan(
        chosen=subject.chosen,
        output=probe.output,
        routes=routes,
        covered=covered,
        calls=calls,
        changes_input=probe.changes_input,
        rows_stay=rows_stay and all(call.input_traced for call in calls),
        saved_bytes=probe.saved_bytes,
    )


def _hookable_layers(subject: Subject) -> HookedLayers:
    """The layers that may have a closed form, each with its chosen parameters."""
    layers: dict[nn.Module, dict[str, Tensor]] = {}
    for parameter in subject.chosen.values():
        for module, local_name in subject.owners[id(parameter)]:
            if closed_form_class(module):
                layers.setdefault(module, {})[local_name] = parameter
    return layers


def _probe(subject: Subject, inputs: tuple[Tensor, ...], hooked: HookedLayers) -> Probe:
    sample = tuple(tensor.clone() for tensor in inputs)
    recorder = Recorder(sample, copied=hooked)
    subject.require_grad_only(subject.chosen.values())
    try:
        counter = SavedBytes({tensor.untyped_storage().data_ptr() for tensor in subject.tensors})
        with recorder.on(hooked), saved_tensors_hooks(counter.pack, lambda packed: packed):
            output = run(subject.model, sample, subject.like)
    except ArgumentError:
        # torch allows no hooks on saved tensors inside the transforms of torch.func, and has no
        # exception of its own for it. A model that fails for another reason fails here again.
        sample = tuple(tensor.clone() for tensor in inputs)
        recorder = Recorder(sample, copied=hooked)
        with recorder.on(hooked), ComputedBytes() as counter:
            output = run(subject.model, sample, subject.like)
    subject.check_not_random()
    graph = recorder.read_graph(output)
    changes_input = not all(map(torch.equal, sample, inputs))
    return Probe(output.detach(), recorder.calls, graph, changes_input, counter.bytes)


def _why_not_covered(
    owners: list[tuple[nn.Module, str]],
    uses: int,
    counts: Counter[nn.Module],
) -> str | None:
    """Why a parameter has no closed form, or None if it has one.

    An unused parameter has one: its part of the kernel is zero.
    """
    module, name = owners[0]
    if len(owners) > 1:
        return f"shared by {len(owners)} layers"
    if uses == 0:
        return None
    if closed_form_class(module) is None or name not in ("weight", "bias"):
        return f"no closed form for {name} of {type(module).__name__}"
    if uses != counts[module]:
        return f"used {uses} times in {counts[module]} calls of its layer"
    return None


def _why_unfit(call: Call) -> str | None:
    """Why a call says nothing of its layer's parameters, or its rows cannot be samples."""
    if call.unusable is not None:
        return call.unusable
    if call.reconfigured:
        return "its layer's settings change after a call"
    dims = call.input.dim()
    is_vector = dims < 2 and call.input.is_floating_point()
    if is_vector or input_dims(call.module) not in (None, dims):
        return "its layer has an input without a batch dimension"
    if call.input.shape[0] != 1 or call.output_shape[0] != 1:
        return "the first dimension of its layer's input is not that of the samples"
    return None
