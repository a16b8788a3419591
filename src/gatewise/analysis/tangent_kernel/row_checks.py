"""Whether row ``s`` of what enters a layer belongs to sample ``s``.

Read from the graph where possible, else tried out.

Note [Rows stay, or are tried out]. A closed form pairs row ``s`` of a layer with sample ``s``. A
model may sort its samples before a layer and put them back after it, and move only some rows, in
only some batches. Putting them back is an operation in the graph, after the layer. So if every
operation there is known to leave rows where they are, and what enters the first layers is the
model's own input, nothing has moved. Otherwise the batch is also run in two halves, each turned on
by one row, and everything that enters a layer, and the output, must be the same row by row. A fixed
permutation of rows that this cannot tell from none is a rotation, which moves the row that is also
run alone.
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

_UNARY = "Abs Cos Elu Erf Exp Gelu Hardsigmoid Hardswish Hardtanh LeakyRelu LogSigmoid Mish Neg PreluKernel Relu Sigmoid"
_UNARY += " Silu Sin Softplus Sqrt Tanh Threshold Where Clone"
_BINARY = "Add Sub Mul Div Pow"
_NORMS = "NativeBatchNorm NativeLayerNorm NativeGroupNorm"
ROWWISE = frozenset(
    {f"{name}Backward0" for name in f"{_UNARY} {_BINARY} {_NORMS}".split()} | {"LayerTapBackward"}
)
VIEWS = frozenset({"ViewBackward0", "ReshapeAliasBackward0", "UnsafeViewBackward0"})
SUMS = frozenset({"SumBackward1", "MeanBackward1"})
POOLS = frozenset({"MaxPool2DWithIndicesBackward0", "AvgPool2DBackward0"})
WEIGHTED = {
    "MmBackward0": 1,
    "AddmmBackward0": 2,
    "ConvolutionBackward0": 1,
    "EmbeddingBackward0": 0,
}  # which argument
WEIGHTED |= {"FewRowsBackward": 1, "BackByTilesBackward": 1}


def keeps_rows(node: Any, name: str, samples: int) -> bool:
    """Whether an operation that is not ``ROWWISE`` leaves the rows of ``samples`` samples where they are, for sure."""
    if name in WEIGHTED:
        return _is_weight(node.next_functions[WEIGHTED[name]][0])
    if name == "TBackward0":
        return _is_leaf(node.next_functions[0][0])
    if name in VIEWS:
        return bool(node._saved_self_sym_sizes) and node._saved_self_sym_sizes[0] == samples
    if name in POOLS:  # one that covers as many places as there are samples may choose among them
        return samples == 1 or max(node._saved_kernel_size) < samples
    return name in SUMS and _sums_within_rows(node._saved_dim, node._saved_self_sym_sizes, samples)


def _is_leaf(node: Any) -> bool:
    return node is None or hasattr(node, "variable")


def _is_weight(node: Any) -> bool:
    return _is_leaf(node) or (node.name() == "TBackward0" and _is_leaf(node.next_functions[0][0]))


def _sums_within_rows(axes: Iterable[int], sizes: tuple[int, ...], samples: int) -> bool:
    """Not along the samples, nor along anything of their number.

    A product with a permutation may be summed there.
    """
    if not sizes or sizes[0] != samples:
        return False
    summed = [
        (axis - 2**64 if axis >= 2**63 else axis) % len(sizes) for axis in axes
    ]  # torch has 2**64 - 1 for -1
    return bool(summed) and all(
        axis != 0 and (samples == 1 or sizes[axis] != samples) for axis in summed
    )


def lies_in(tensor: Tensor, inputs: Iterable[Tensor]) -> bool:
    """Whether the rows of ``tensor`` are those of one of ``inputs``, in the same memory."""
    return any(
        tensor.untyped_storage().data_ptr() == x.untyped_storage().data_ptr()
        and tensor.storage_offset() == x.storage_offset()
        and tensor.shape[:1] == x.shape[:1]
        and (x.shape[0] == 1 or tensor.stride(0) == x.stride(0))
        for x in inputs
    )


@dataclass(frozen=True)
class Digest:
    """A number for each row of a tensor, ``(N,)``; what rounding may do to it."""

    values: Tensor
    noise: float

    def tells_apart(self, other: "Digest") -> bool:
        """Whether rows differ from those of ``other``.

        Rows that are all alike cannot be told to be in order.
        """
        if self.values.shape != other.values.shape:
            return True
        spread = (self.values.amax() - self.values.amin()).item()
        far = (self.values - other.values).abs().amax().item()
        tolerance = torch.finfo(self.values.dtype).eps ** 0.5 * spread + self.noise
        return not (spread > self.noise and far <= tolerance)  # also if there is a NaN


def digest(rows: Tensor) -> Digest:
    """Each row of ``rows``, ``(N, *)``, along one direction that no model has a reason to be blind to."""
    flat = rows.detach().reshape(rows.shape[0], -1) if rows.dim() else rows.detach().reshape(1, 1)
    flat = flat if flat.is_floating_point() else flat.double()
    along = (
        torch.arange(1, flat.shape[1] + 1, dtype=torch.float64, device=flat.device)
        .mul_(math.sqrt(2))
        .sin_()
    )
    along = along.to(flat.dtype)
    length = torch.linalg.vector_norm(flat, dim=1).amax().item() if flat.numel() else 0.0
    # Errors of a few eps in each number, of either sign, add up to a few eps times the length of
    # the row.
    return Digest(flat @ along, 16 * torch.finfo(flat.dtype).eps * length)


@dataclass(frozen=True)
class Apart:
    """What a batch looks like if its samples are run in other company.

    Its output, and what entered its layers.
    """

    output: Tensor  # (N, o)
    entered: (
        list[tuple[nn.Module, Digest]] | None
    )  # by call; None if the two halves called different layers

    def moved(self, calls: Iterable[tuple[nn.Module, Tensor]]) -> list[nn.Module] | None:
        """The layers that rows entered in another order; None if it cannot be said."""
        calls = list(calls)
        if self.entered is None or [module for module, _ in calls] != [
            module for module, _ in self.entered
        ]:
            return None
        pairs = zip(calls, self.entered, strict=True)
        return [module for (module, rows), (_, before) in pairs if digest(rows).tells_apart(before)]


def run_apart(subject: Subject, inputs: tuple[Tensor, ...], modules: Iterable[nn.Module]) -> Apart:
    """Run a batch of at least two samples in two halves, each turned on by one row.

    Nothing is kept but digests.
    """
    samples = inputs[0].shape[0]
    subject.require_grad_only(())
    halves = (slice(0, samples // 2), slice(samples // 2, samples))
    seen = [
        _run_turned(subject, tuple(x[half].roll(1, 0) for x in inputs), list(modules))
        for half in halves
    ]
    output = torch.cat([half.output for half in seen])
    first, second = (half.entered or [] for half in seen)
    if [module for module, _ in first] != [module for module, _ in second]:
        return Apart(output, None)
    pairs = zip(first, second, strict=True)
    return Apart(output, [(module, _joined(one, other)) for (module, one), (_, other) in pairs])


def _joined(first: Digest, second: Digest) -> Digest:
    return Digest(torch.cat((first.values, second.values)), max(first.noise, second.noise))


def _run_turned(subject: Subject, turned: tuple[Tensor, ...], modules: list[nn.Module]) -> Apart:
    entered: list[tuple[nn.Module, Digest]] = []

    def record(module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        if is_recorded(args):
            seen = digest(args[0])
            entered.append((module, Digest(seen.values.roll(-1, 0), seen.noise)))

    handles = [module.register_forward_hook(record, prepend=True) for module in modules]
    try:
        output = run(subject.model, turned, subject.like).detach()
    finally:
        for handle in handles:
            handle.remove()
    return Apart(output.roll(-1, 0), entered)


def is_recorded(args: tuple[Any, ...]) -> bool:
    """Whether a call with these arguments may have a closed form.

    One tensor, and a graph in plain autograd.
    """
    plain = maybe_current_level() is None  # taps cannot be set inside torch.func's transforms
    return plain and len(args) == 1 and isinstance(args[0], Tensor) and torch.is_grad_enabled()
