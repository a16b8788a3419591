"""The kernel of a plain model from a single pass over all samples, without a probe."""

import math

import torch
from torch import Tensor
from torch.autograd.graph import saved_tensors_hooks

from gatewise.analysis.tangent_kernel.arguments import run
from gatewise.analysis.tangent_kernel.execution_plan import (
    Probe,
    SavedBytes,
    decide,
    hookable_layers,
)
from gatewise.analysis.tangent_kernel.gram import KernelBlock, accumulator
from gatewise.analysis.tangent_kernel.hooks import Recorder
from gatewise.analysis.tangent_kernel.layerwise import Backward
from gatewise.analysis.tangent_kernel.memory import MemoryBudget, layerwise_bytes
from gatewise.analysis.tangent_kernel.model_state import Subject
from gatewise.analysis.tangent_kernel.sample_blocks import Samples
from gatewise.errors import ArgumentError


def kernel_in_one_pass(subject: Subject, samples: Samples, memory: int) -> Tensor | None:
    """Return the kernel of a plain model, ``(n, o, m, o)``, if one pass is enough.

    Returns:
        None if the model needs a Jacobian, or does not fit in memory at once.
    """
    inputs, first, second = samples.whole()
    recorder = Recorder(inputs, copied=())
    try:
        output, saved_bytes = _run(subject, inputs, recorder, most=memory)
    except ArgumentError:
        # Too much to save, or the model fails: the general way finds the right message.
        return None
    graph = recorder.read_graph(output)
    probe = Probe(output.detach(), recorder.calls, graph, False, saved_bytes)
    plan = decide(subject, probe)
    outputs = output.shape[1]
    budget = MemoryBudget(memory, samples.rows, samples.columns, outputs, samples.symmetric)
    if plan.rest or not plan.rows_stay or layerwise_bytes(plan) > budget.sample_bytes:
        return None
    if not math.isfinite(probe.output.sum()):
        return None
    shape = (samples.rows, outputs, samples.columns, outputs)
    total = torch.zeros(shape, dtype=accumulator(output), device=output.device)
    block = KernelBlock(total, first, second, limit=budget.workspace, symmetric=samples.symmetric)
    Backward(block, plan, plan.calls, recorder).run(output)
    return total


def _run(
    subject: Subject,
    inputs: tuple[Tensor, ...],
    recorder: Recorder,
    most: int,
) -> tuple[Tensor, int]:
    """The output, and the bytes that its graph holds, which must be at ``most`` so many."""
    subject.require_grad_only(subject.chosen.values())
    counter = SavedBytes({t.untyped_storage().data_ptr() for t in subject.tensors}, most)
    saved = saved_tensors_hooks(counter.pack, lambda packed: packed)
    with recorder.on(hookable_layers(subject)), saved:
        output = run(subject.model, inputs, subject.like)
    return output, counter.bytes
