"""Decide, from one sample's forward pass, which parameters have a closed form and how many samples fit in memory.

Note [Every use is seen]. A closed form is right only if every use of its parameter is a recorded call of its layer.
A graph shows all of them: each use is an edge to the parameter's node, and each call in which the layer reads the
parameter itself makes one. A parameter with another number of edges than its layer had calls (read by a function, tied,
computed from another) goes the way of the Jacobian, as does one whose layer reads another tensor. Batches are looked at
like the probe: other samples may take other ways through the model.

Note [Rows are samples]. A closed form also needs row ``s`` of a layer's input to come from sample ``s`` alone. In the
probe, with one sample, the input must have one row; in every batch that holds that sample, its row must be the same
numbers again, up to rounding, and so must the model's output. Other rows: see the note in `_ntk_rows`.
"""

import math
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks
from torch.utils._python_dispatch import TorchDispatchMode

from gatewise.analysis.tangent_kernel.arguments import run
from gatewise.analysis.tangent_kernel.hooks import Call, Graph, Recorder, Tapped
from gatewise.analysis.tangent_kernel.layer_rules import axes_of, kind_of
from gatewise.analysis.tangent_kernel.model_state import Subject
from gatewise.errors import ArgumentError

LAYERWISE = "layerwise"
NOTHING: Mapping[str, str] = MappingProxyType({})


@dataclass(frozen=True)
class Plan:
    """Which parameters go which way, and what a sample of the model takes."""

    chosen: dict[str, Tensor]
    output: Tensor  # of the pass it was made from, (1, o) or (N, o)
    routes: dict[str, str]  # parameter name: layerwise, or why not
    covered: dict[
        nn.Module, dict[str, str]
    ]  # layer: its own names for its parameters, and the model's
    calls: list[Call]  # of covered layers, in order
    changes_input: bool  # the model works in place on x
    rows_stay: bool  # no row can have moved on its way through the model
    tape: int  # bytes a sample leaves in the graph

    @property
    def rest(self) -> dict[str, Tensor]:
        """The parameters without a closed form."""
        return {
            name: self.chosen[name] for name, route in self.routes.items() if route != LAYERWISE
        }

    @property
    def tapped(self) -> Tapped:
        """The covered layers and parameters."""
        return {
            module: {own: self.chosen[name] for own, name in names.items()}
            for module, names in self.covered.items()
        }

    @property
    def overwritten(self) -> set[nn.Module]:
        """The layers whose input is changed in place after they have read it."""
        return {call.module for call in self.calls if call.overwritten}


@dataclass
class Tape:
    """Counts the bytes that a forward pass saves for the backward pass."""

    own: set[int]  # storages of the model itself
    most: float = math.inf  # bytes that may be saved
    seen: dict[int, torch.UntypedStorage] = field(
        default_factory=dict
    )  # held, or another would come to the same place
    bytes: int = 0

    def pack(self, tensor: Tensor) -> Tensor:
        """Count a tensor, once, and keep it.

        The model may differentiate inside its forward pass.
        """
        storage = tensor.untyped_storage()
        place = storage.data_ptr()
        if place not in self.own and place not in self.seen:
            self.seen[place] = storage
            self.bytes += storage.nbytes()
            if self.bytes > self.most:
                raise MemoryError("more than may be saved")
        return tensor.detach()


class Made(TorchDispatchMode):
    """Counts the bytes of all that is computed.

    More than is kept, where torch cannot say what is.
    """

    def __init__(self) -> None:
        super().__init__()
        self.bytes = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Do what is asked, and count."""
        made = func(*args, **(kwargs or {}))
        tensors = made if isinstance(made, tuple | list) else (made,)
        self.bytes += sum(each.nbytes for each in tensors if isinstance(each, Tensor))
        return made


@dataclass(frozen=True)
class Probe:
    """The forward pass of one sample, or of several."""

    output: Tensor  # (N, o)
    calls: list[Call]  # of layers that may have a closed form
    graph: Graph
    changes_input: bool
    tape: int


def plan(
    subject: Subject, sample: tuple[Tensor, ...], *, method: str, unfit: dict[str, str]
) -> Plan:
    """Run the model on one ``sample`` and read the graph.

    ``unfit`` says what else has no closed form, and why.
    """
    tapped = taps(subject) if method != "jacobian" else {}
    return decide(subject, _probe(subject, sample, tapped), method=method, unfit=unfit)


def taps(subject: Subject) -> Tapped:
    """The layers that may have a closed form, and those of their parameters that count."""
    tapped: dict[nn.Module, dict[str, Tensor]] = {}
    for parameter in subject.chosen.values():
        for module, own_name in subject.owners[id(parameter)]:
            if kind_of(module):
                tapped.setdefault(module, {})[own_name] = parameter
    return tapped


def decide(
    subject: Subject, seen: "Probe", *, method: str = "auto", unfit: Mapping[str, str] = NOTHING
) -> Plan:
    """Which way each parameter goes, from a forward pass of one sample or of several."""
    owners, chosen, samples = subject.owners, subject.chosen, seen.output.shape[0]
    counts = Counter(call.module for call in seen.calls if call.reached)
    odd = {
        call.module: reason for call in seen.calls if (reason := _unfit(call, samples)) is not None
    }
    routes = dict.fromkeys(chosen, "jacobian: asked for")
    covered: dict[nn.Module, dict[str, str]] = {}
    for name, parameter in chosen.items() if method != "jacobian" else ():
        module, own_name = owners[id(parameter)][0]
        reason = (
            unfit.get(name)
            or odd.get(module)
            or _reason(owners[id(parameter)], seen.graph.uses[id(parameter)], counts)
        )
        routes[name] = f"jacobian: {reason}" if reason else LAYERWISE
        if not reason and counts[module]:
            covered.setdefault(module, {})[own_name] = name
    if not covered:  # no pass will show whether other samples use what this one does not
        routes = {
            name: "jacobian: not used here" if way == LAYERWISE else way
            for name, way in routes.items()
        }
    calls = [call for call in seen.calls if call.module in covered]
    rows_stay = (
        seen.graph.rows_stay and not seen.changes_input and all(call.given for call in calls)
    )
    return Plan(
        chosen, seen.output, routes, covered, calls, seen.changes_input, rows_stay, seen.tape
    )


def _probe(subject: Subject, given: tuple[Tensor, ...], tapped: Tapped) -> Probe:
    sample = tuple(each.clone() for each in given)
    recorder = Recorder(sample, copied=tapped)
    subject.require_grad_only(subject.chosen.values())
    try:
        tape = Tape({each.untyped_storage().data_ptr() for each in subject.tensors})
        with recorder.on(tapped), saved_tensors_hooks(tape.pack, lambda packed: packed):
            output = run(subject.model, sample, subject.like)
    except ArgumentError as error:
        if not _forbids_saved_tensor_hooks(error.__cause__):
            raise
        sample = tuple(each.clone() for each in given)
        recorder = Recorder(sample, copied=tapped)
        with recorder.on(tapped), Made() as tape:
            output = run(subject.model, sample, subject.like)
    subject.check_not_random()
    graph = recorder.read_graph(output)
    changes_input = not all(torch.equal(a, b) for a, b in zip(sample, given, strict=True))
    return Probe(output.detach(), recorder.calls, graph, changes_input, tape.bytes)


def _forbids_saved_tensor_hooks(cause: BaseException | None) -> bool:
    """Whether torch refused to run because hooks on saved tensors were active.

    Inside the transforms of ``torch.func`` torch raises a plain RuntimeError for this. Its text is
    the only thing that tells this case from any other error of the model.
    """
    return isinstance(cause, RuntimeError) and "saved tensor hooks" in str(cause)


def _reason(
    owners: list[tuple[nn.Module, str]], uses: int, counts: Counter[nn.Module]
) -> str | None:
    """Why a parameter has no closed form, if it has none.

    One that is not used has: its part is zero.
    """
    module, name = owners[0]
    if len(owners) > 1:
        return f"shared by {len(owners)} layers"
    if uses == 0:
        return None
    if kind_of(module) is None or name not in ("weight", "bias"):
        return f"no closed form for {name} of {type(module).__name__}"
    if uses != counts[module]:
        return f"used {uses} times in {counts[module]} calls of its layer"
    return None


def _unfit(call: Call, samples: int) -> str | None:
    """Why a call shows nothing of its layer's parameters, or the rows of its input cannot be samples, if so."""
    if call.oddity is not None:
        return call.oddity
    if call.set_anew:
        return "its layer is set anew after a call"
    axes = axes_of(call.module)
    if (call.entered.dim() < 2 and call.entered.is_floating_point()) or axes not in (
        None,
        call.entered.dim(),
    ):
        return "its layer has an input without a batch dimension"
    if call.entered.shape[0] != samples or call.left[0] != samples:
        return "the first dimension of its layer's input is not that of the samples"
    return None
