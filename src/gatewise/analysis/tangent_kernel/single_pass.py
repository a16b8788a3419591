"""The kernel of a plain model from a single pass over all samples: no sample is probed before."""

import math

import torch
from torch import Tensor, nn
from torch.autograd.graph import saved_tensors_hooks

from gatewise.analysis.tangent_kernel.arguments import run
from gatewise.analysis.tangent_kernel.compiled import by_few_rows, run_by
from gatewise.analysis.tangent_kernel.execution_plan import Plan, Probe, Tape, decide, taps
from gatewise.analysis.tangent_kernel.gram import Pairs, accumulator
from gatewise.analysis.tangent_kernel.hooks import Call, Recorder
from gatewise.analysis.tangent_kernel.layerwise import Backward
from gatewise.analysis.tangent_kernel.memory import Room, layerwise_bytes
from gatewise.analysis.tangent_kernel.model_state import Subject
from gatewise.analysis.tangent_kernel.plain_models import is_plain
from gatewise.analysis.tangent_kernel.sample_blocks import Samples
from gatewise.analysis.tangent_kernel.winograd_backward import back_by_tiles
from gatewise.errors import ArgumentError


def kernel_at_once(subject: Subject, samples: Samples, memory: int) -> Tensor | None:
    """The kernel, ``(n, o, m, o)``.

    None if the model is not plain, or has to be taken in blocks or by its Jacobian.
    """
    inputs, first, second = samples.whole()
    if len(inputs) != 1 or not is_plain(subject.modules, inputs[0]):
        return None
    recorder = Recorder(inputs, copied=())
    try:
        output, tape = _run(subject, inputs, recorder, most=memory)
    except (
        ArgumentError
    ):  # too much to save, or the model cannot be run: the usual way finds what there is to say
        return None
    seen = Probe(
        output.detach(), recorder.calls, recorder.read_graph(output), changes_input=False, tape=tape
    )
    plan = decide(subject, seen)
    room = Room(memory, samples.rows, samples.columns, output.shape[1], symmetric=samples.symmetric)
    if (
        plan.rest
        or not plan.rows_stay
        or not room.holds(layerwise_bytes(plan))
        or not math.isfinite(seen.output.sum())
    ):
        return None
    shape = (samples.rows, output.shape[1], samples.columns, output.shape[1])
    total = torch.zeros(shape, dtype=accumulator(output), device=output.device)
    pairs = Pairs(total, first, second, limit=room.workspace, symmetric=samples.symmetric)
    Backward(pairs, plan, _by_layer(plan), recorder).run(output)
    return total


def _run(
    subject: Subject, inputs: tuple[Tensor, ...], recorder: Recorder, most: int
) -> tuple[Tensor, int]:
    """The output, and the bytes that its graph holds, at ``most`` so many."""
    subject.require_grad_only(subject.chosen.values())
    tape = Tape({each.untyped_storage().data_ptr() for each in subject.tensors}, most)
    saved = saved_tensors_hooks(tape.pack, lambda packed: packed)
    quicker = by_few_rows(subject.modules, len(inputs[0])) | back_by_tiles(subject.modules)
    with recorder.on(taps(subject)), saved, run_by(quicker):
        output = run(subject.model, inputs, subject.like)
    return output, tape.bytes


def _by_layer(plan: Plan) -> dict[nn.Module, list[Call]]:
    calls: dict[nn.Module, list[Call]] = {module: [] for module in plan.covered}
    for call in plan.calls:
        if call.reached:
            calls[call.module].append(call)
    return calls
