"""Whether row ``s`` of a layer's input belongs to sample ``s``.

Note [Rows stay, or the batch is run again]. A closed form pairs row ``s`` of a layer with sample
``s``. A model may sort its samples before a layer and restore their order after it, and it may
move only some rows, in only some batches. Restoring the order is an operation in the graph, after
the layer. So nothing has moved if every operation there is known to leave rows in place, and the
first layers read the model's own input. Otherwise the batch is also run in two halves, each
rotated by one row. The input of every layer, and the output, must be the same row by row. The
only fixed permutation of rows that this cannot notice is a rotation, and a rotation moves the row
that is also run alone.
"""

import math
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch._C._functorch import maybe_current_level

from gatewise.analysis.tangent_kernel.arguments import run
from gatewise.analysis.tangent_kernel.model_state import Subject

# Names of autograd nodes whose operations never move a row.
ROWWISE = frozenset(
    {
        "AbsBackward0",
        "AddBackward0",
        "CloneBackward0",
        "CosBackward0",
        "DivBackward0",
        "EluBackward0",
        "ErfBackward0",
        "ExpBackward0",
        "GeluBackward0",
        "HardsigmoidBackward0",
        "HardswishBackward0",
        "HardtanhBackward0",
        "LeakyReluBackward0",
        "LogSigmoidBackward0",
        "MishBackward0",
        "MulBackward0",
        "NativeBatchNormBackward0",
        "NativeGroupNormBackward0",
        "NativeLayerNormBackward0",
        "NegBackward0",
        "OutputHookBackward",
        "PowBackward0",
        "PreluKernelBackward0",
        "ReluBackward0",
        "SigmoidBackward0",
        "SiluBackward0",
        "SinBackward0",
        "SoftplusBackward0",
        "SqrtBackward0",
        "SubBackward0",
        "TanhBackward0",
        "ThresholdBackward0",
        "WhereBackward0",
    }
)
VIEWS = frozenset({"ViewBackward0", "ReshapeAliasBackward0", "UnsafeViewBackward0"})
SUMS = frozenset({"SumBackward1", "MeanBackward1"})
POOLS = frozenset({"MaxPool2DWithIndicesBackward0", "AvgPool2DBackward0"})
# Operations with a weight, and which of their arguments it is.
WEIGHT_ARGUMENT = {
    "AddmmBackward0": 2,
    "ConvolutionBackward0": 1,
    "EmbeddingBackward0": 0,
    "MmBackward0": 1,
}


def keeps_rows(node: Any, name: str, samples: int) -> bool:
    """Whether an operation that is not ``ROWWISE`` certainly leaves all rows in place.

    Args:
        node: its node in the autograd graph.
        name: the name of the node.
        samples: the number of rows.
    """
    if name in WEIGHT_ARGUMENT:
        return _is_weight(node.next_functions[WEIGHT_ARGUMENT[name]][0])
    if name == "TBackward0":
        return _is_leaf(node.next_functions[0][0])
    if name in VIEWS:
        return bool(node._saved_self_sym_sizes) and node._saved_self_sym_sizes[0] == samples
    if name in POOLS:
        # A window that covers as many places as there are samples may choose among samples.
        return samples == 1 or max(node._saved_kernel_size) < samples
    return name in SUMS and _sums_within_rows(node._saved_dim, node._saved_self_sym_sizes, samples)


def _is_leaf(node: Any) -> bool:
    return node is None or hasattr(node, "variable")


def _is_weight(node: Any) -> bool:
    return _is_leaf(node) or (node.name() == "TBackward0" and _is_leaf(node.next_functions[0][0]))


def _sums_within_rows(axes: Iterable[int], sizes: tuple[int, ...], samples: int) -> bool:
    """Whether a sum runs along neither the samples nor any axis of the same size.

    A product with a permutation matrix may be summed along such an axis.
    """
    if not sizes or sizes[0] != samples:
        return False
    summed = []
    for axis in axes:
        # torch stores a negative axis as an unsigned 64-bit number.
        signed = axis - 2**64 if axis >= 2**63 else axis
        summed.append(signed % len(sizes))
    if 0 in summed or not summed:
        return False
    return samples == 1 or all(sizes[axis] != samples for axis in summed)


def shares_rows(tensor: Tensor, inputs: Iterable[Tensor]) -> bool:
    """Whether the rows of ``tensor`` are those of one of ``inputs``, in the same memory."""
    return any(_same_rows(tensor, x) for x in inputs)


def _same_rows(tensor: Tensor, x: Tensor) -> bool:
    return (
        tensor.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        and tensor.storage_offset() == x.storage_offset()
        and tensor.shape[:1] == x.shape[:1]
        and (x.shape[0] == 1 or tensor.stride(0) == x.stride(0))
    )


@dataclass(frozen=True)
class RowDigests:
    """One number for each row of a tensor, ``(N,)``, and the size of its rounding error."""

    values: Tensor
    noise: float

    def differ_from(self, other: "RowDigests") -> bool:
        """Whether rows differ from those of ``other``, or cannot be distinguished by number."""
        if self.values.shape != other.values.shape:
            return True
        spread = (self.values.amax() - self.values.amin()).item()
        difference = (self.values - other.values).abs().amax().item()
        tolerance = torch.finfo(self.values.dtype).eps ** 0.5 * spread + self.noise
        # Rows that are all alike do not show their order. A NaN makes both comparisons False.
        same = spread > self.noise and difference <= tolerance
        return not same

    def rotated_back(self) -> "RowDigests":
        """The numbers of a rotated batch, in the order before the rotation."""
        return RowDigests(self.values.roll(-1, 0), self.noise)

    def followed_by(self, other: "RowDigests") -> "RowDigests":
        """The numbers of two halves of a batch."""
        return RowDigests(torch.cat((self.values, other.values)), max(self.noise, other.noise))


def digest_rows(rows: Tensor) -> RowDigests:
    """Project each row of ``rows``, ``(N, *)``, on one direction that suits no model by chance."""
    flat = rows.detach().reshape(rows.shape[0], -1) if rows.dim() else rows.detach().reshape(1, 1)
    if not flat.is_floating_point():
        flat = flat.double()
    steps = torch.arange(1, flat.shape[1] + 1, dtype=torch.float64, device=flat.device)
    direction = steps.mul_(math.sqrt(2)).sin_().to(flat.dtype)
    length = torch.linalg.vector_norm(flat, dim=1).amax().item() if flat.numel() else 0.0
    # Errors of a few eps in each number, of either sign, add up to a few eps times the length of
    # the row.
    return RowDigests(flat @ direction, 16 * torch.finfo(flat.dtype).eps * length)


@dataclass(frozen=True)
class RotatedRun:
    """A batch that was run with its samples in other positions.

    Attributes:
        output: the outputs in the order of the samples, (N, o).
        inputs: the digested input of each layer call; None if the halves called other layers.
    """

    output: Tensor
    inputs: list[tuple[nn.Module, RowDigests]] | None

    def reordered_layers(self, calls: list[tuple[nn.Module, Tensor]]) -> list[nn.Module] | None:
        """The layers whose input has its rows in another order; None if that is unknown."""
        if self.inputs is None or _modules(calls) != _modules(self.inputs):
            return None
        reordered = []
        for (module, rows), (_, before) in zip(calls, self.inputs, strict=True):
            if digest_rows(rows).differ_from(before):
                reordered.append(module)
        return reordered


def _modules(calls: Iterable[tuple[nn.Module, Any]]) -> list[nn.Module]:
    return [module for module, _ in calls]


def run_rotated_halves(
    subject: Subject,
    inputs: tuple[Tensor, ...],
    modules: Iterable[nn.Module],
) -> RotatedRun:
    """Run a batch of at least two samples in two halves, each rotated by one row.

    Only digests of the layer inputs are kept, to save memory.

    Args:
        subject: the model.
        inputs: the batch.
        modules: the layers whose inputs are recorded.
    """
    modules = list(modules)
    middle = inputs[0].shape[0] // 2
    subject.require_grad_only(())
    first_output, first = _run_rotated(subject, tuple(x[:middle] for x in inputs), modules)
    second_output, second = _run_rotated(subject, tuple(x[middle:] for x in inputs), modules)
    output = torch.cat((first_output, second_output))
    if _modules(first) != _modules(second):
        return RotatedRun(output, None)
    digests = []
    for (module, one), (_, other) in zip(first, second, strict=True):
        digests.append((module, one.followed_by(other)))
    return RotatedRun(output, digests)


def _run_rotated(
    subject: Subject,
    inputs: tuple[Tensor, ...],
    modules: list[nn.Module],
) -> tuple[Tensor, list[tuple[nn.Module, RowDigests]]]:
    """The outputs and digests of a rotated batch, in the order before the rotation."""
    digests: list[tuple[nn.Module, RowDigests]] = []

    def record(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if can_record(args):
            digests.append((module, digest_rows(args[0]).rotated_back()))

    handles = [module.register_forward_hook(record, prepend=True) for module in modules]
    try:
        output = run(subject.model, tuple(x.roll(1, 0) for x in inputs), subject.like).detach()
    finally:
        for handle in handles:
            handle.remove()
    return output.roll(-1, 0), digests


def can_record(args: tuple[Any, ...]) -> bool:
    """Whether a layer call with these arguments may have a closed form.

    It needs one tensor argument and a graph in plain autograd. Output hooks do not work inside the
    transforms of ``torch.func``.
    """
    if maybe_current_level() is not None or not torch.is_grad_enabled():
        return False
    return len(args) == 1 and isinstance(args[0], Tensor)
