"""How similar two inputs are to a gated network: sums over the paths that are active for both."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from gatewise.checks import check_choice
from gatewise.errors import ArgumentError, InexactCountWarning
from gatewise.units import check_input
from gatewise_papers.deep_gated.layers import Convolve, Dense, Flatten, Gate, Step, path_steps
from gatewise_papers.deep_gated.path_kernels.collapsed import (
    PathSums,
    distinct_blocks,
    gate_products,
    initial_sums,
    output_sums,
    propagate,
)

KINDS = ("lambda", "log_lambda", "features", "paths")
CHUNK = 2**24  # numbers in the sums of one layer at a time: 128 MiB in float64
EXACT = 2.0**53  # float64 has every integer up to here

StepPairs = list[tuple[Step, Step]]  # the steps of both inputs, side by side


def path_kernel(
    model: nn.Module,
    x: Tensor,
    x2: Tensor | None = None,
    *,
    kind: str = "lambda",
    index: Tensor | None = None,
    index2: Tensor | None = None,
) -> Tensor:
    r"""The kernel of active paths between the inputs ``x`` (n, \*) and ``x2`` (m, \*), in float64.

    .. math:: \lambda(s, s') = \sum_{p \text{ from } i} A(x_s, p)\,A(x_{s'}, p), \qquad
        M(s, s') = \sum_p \phi(x_s, p)\,\phi(x_{s'}, p)

    Here :math:`A(x, p)` is the product of the gates on path ``p``, and :math:`\phi(x, p)` is that
    times the input that the path starts from. No path is enumerated. In a dense network
    :math:`\lambda = \prod_l \langle G_s(l), G_{s'}(l) \rangle` and
    :math:`M = x^\top x \odot \lambda`. A convolution takes one channel with a kernel of ones,
    whatever its width. Paths to one output are counted; with several outputs, each has as many.

    Gates of 0 and 1 give exact whole numbers up to 2^53. Larger numbers are rounded, with a
    warning.

    Args:
        model: a deep gated network, or an ``nn.Sequential`` of linear layers, convolutions,
            average pools and units that multiply by a slope (ReLU, leaky ReLU, abs, soft-ReLU,
            SiLU), without bias.
        x: the first inputs.
        x2: the second inputs; ``x`` itself if None.
        kind: what to return.
            ``"lambda"``: lambda, (n, m). With convolutions it depends on where a path starts:
            (n, m, \*input shape).
            ``"log_lambda"``: its logarithm, in which nothing overflows; -inf where no path is
            shared. Slopes of both signs (abs, leaky ReLU with a negative slope) can make lambda
            negative, which is an error.
            ``"features"``: M, (n, m).
            ``"paths"``: the number of paths active for both inputs, from all input nodes together,
            (n, m).
        index: which training examples ``x`` are, for random gates.
        index2: which training examples ``x2`` are.

    Raises:
        ArgumentError: if the network is not of this form, or a number of paths is beyond float64.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996. The paper's activity
    multiplies d gates where a path has d - 1; here it multiplies d - 1.
    """
    check_choice("path_kernel", "kind", kind, KINDS)
    if x2 is None and index2 is not None:
        raise ArgumentError(
            "path_kernel: index2 belongs to x2",
            got="index2 without x2",
            fix="leave index2 out",
        )
    with torch.no_grad():
        steps = steps2 = path_steps(model, check_input("path_kernel", x), index=index)
        if x2 is not None:
            steps2 = path_steps(model, check_input("path_kernel", x2), index=index2)
    return kernel_of_steps(steps, steps2, x, x if x2 is None else x2, kind=kind)


def kernel_of_steps(
    steps: Sequence[Step],
    steps2: Sequence[Step],
    x: Tensor,
    x2: Tensor,
    *,
    kind: str,
) -> Tensor:
    """Return :func:`path_kernel` of a network that is already a list of steps.

    Args:
        steps: the network, with its gates for ``x``.
        steps2: the network, with its gates for ``x2``.
        x: the first inputs.
        x2: the second inputs.
        kind: as for :func:`path_kernel`.
    """
    if steps and isinstance(steps[0], Flatten):
        x = x.flatten(1)
        x2 = x2.flatten(1)
    blocks = _check_start(steps, x)
    pairs = list(zip(steps, steps2, strict=True))
    rows, columns = _chunks(pairs, x, x2, blocks)
    read_result = READERS[kind]
    parts = []
    for i in rows:
        row = []
        for j in columns:
            counts, exponent = _counts_per_node(
                select_rows(pairs, i, j),
                x[i],
                x2[j],
                blocks,
                scaled=kind == "log_lambda",
            )
            row.append(read_result(counts, exponent, x[i], x2[j]))
        parts.append(torch.cat(row, 1))
    kernel = torch.cat(parts)
    _check_exact(kernel, (*steps, *steps2), kind)
    return kernel


def _check_start(steps: Sequence[Step], x: Tensor) -> int:
    """How many blocks of input channels the network distinguishes; raises if ``x`` is no batch."""
    first = next((step for step in steps if isinstance(step, Dense | Convolve)), None)
    if first is None:
        raise ArgumentError(
            "path_kernel: the network has no layer of weights", got=f"{len(steps)} steps"
        )
    flattens = any(isinstance(step, Flatten) for step in steps)
    needs_vectors = isinstance(first, Dense) and not flattens
    if len(x) == 0 or x.dim() < 2 or (needs_vectors and x.dim() != 2):
        raise ArgumentError(
            "path_kernel: a batch of inputs is needed",
            got=f"shape {tuple(x.shape)}",
            allowed="(N, *)",
        )
    return distinct_blocks(steps, x.shape[1])


def _chunks(
    pairs: StepPairs,
    x: Tensor,
    x2: Tensor,
    blocks: int,
) -> tuple[list[slice], list[slice]]:
    """Rows and columns of the kernel to compute at a time.

    If the sums have positions, one pair of inputs is run to count them.
    """
    size = len(pairs)
    if x.dim() > 2 or blocks > 1:
        first = select_rows(pairs, slice(1), slice(1))
        for state in propagate(initial_sums(1, 1, blocks, x), first, _unchanged):
            size += state.sums.numel()
    columns = max(1, min(len(x2), CHUNK // size))
    rows = max(1, CHUNK // (columns * size))
    return chunk_slices(len(x), rows), chunk_slices(len(x2), columns)


def chunk_slices(count: int, at_a_time: int) -> list[slice]:
    """Slices that cover ``count`` rows, at most ``at_a_time`` each."""
    return [slice(i, i + at_a_time) for i in range(0, count, at_a_time)]


def rows_of(step: Step, rows: slice) -> Step:
    """The step for some of the inputs."""
    if isinstance(step, Gate):
        return Gate(step.values[rows])
    return step


def select_rows(pairs: StepPairs, i: slice, j: slice) -> StepPairs:
    """The steps for the first inputs ``i`` and the second inputs ``j``."""
    return [(rows_of(one, i), rows_of(other, j)) for one, other in pairs]


def _counts_per_node(
    pairs: StepPairs,
    x: Tensor,
    x2: Tensor,
    blocks: int,
    *,
    scaled: bool,
) -> tuple[Tensor, Tensor]:
    """The paths that both inputs share from each input node.

    The output is linear in the sums at the input nodes, so the paths from a node are the
    derivative by its sum. Every intermediate number is a sum of products of gates, and therefore
    exact where the gates are whole.

    Returns:
        Counts (a, b, blocks, *pos) and exponents (a, b). The result is
        ``counts * 2 ** exponents``. Exponents are 0 unless ``scaled``.
    """
    exponents = [torch.zeros(len(x), len(x2), dtype=torch.int32, device=x.device)]

    def rescale(state: PathSums) -> PathSums:
        """Divide by a power of two, which is exact, so that nothing overflows."""
        _, exponent = torch.frexp(state.sums.detach().abs().flatten(2).amax(2))
        exponents.append(exponent)
        scale = torch.ldexp(torch.ones_like(exponent, dtype=torch.float64), -exponent)
        return replace(state, sums=state.sums * _broadcast(scale, state.sums))

    # With one number for each pair, the output is its derivative.
    single = x.dim() == 2 and blocks == 1
    with torch.set_grad_enabled(not single):
        first = last = initial_sums(len(x), len(x2), blocks, x)
        for state in propagate(first, pairs, rescale if scaled else _unchanged):
            last = state
        sums = output_sums(last)
        counts = sums.unsqueeze(2) if single else torch.autograd.grad(sums.sum(), first.sums)[0]
    return counts, torch.stack(exponents).sum(0).double()


def _broadcast(numbers: Tensor, other: Tensor) -> Tensor:
    """One number for each pair, (a, b), in a shape that combines with (a, b, *)."""
    return numbers.reshape(*numbers.shape, *[1] * (other.dim() - 2))


def _unchanged(state: PathSums) -> PathSums:
    return state


def _lambda(counts: Tensor, exponent: Tensor, x: Tensor, x2: Tensor) -> Tensor:
    """One number for each pair, (a, b), or one for each pair and input node."""
    if x.dim() == 2 and counts.shape[2] == 1:
        return counts[:, :, 0]
    return counts.repeat_interleave(x.shape[1] // counts.shape[2], dim=2)


def _log_lambda(counts: Tensor, exponent: Tensor, x: Tensor, x2: Tensor) -> Tensor:
    values = _lambda(counts, exponent, x, x2)
    negative = int((values < 0).sum())
    if negative:
        raise ArgumentError(
            "path_kernel: lambda is negative for some pairs of inputs, and has no logarithm",
            got=f"{negative} negative numbers",
            fix="kind='lambda'",
        )
    return values.log() + math.log(2) * _broadcast(exponent, values)


def _features(counts: Tensor, exponent: Tensor, x: Tensor, x2: Tensor) -> Tensor:
    products = gate_products(x.detach().double(), x2.detach().double(), counts.shape[2])
    return (products * counts).flatten(2).sum(2)


def _paths(counts: Tensor, exponent: Tensor, x: Tensor, x2: Tensor) -> Tensor:
    return counts.flatten(2).sum(2) * (x.shape[1] // counts.shape[2])


READERS = {
    "lambda": _lambda,
    "log_lambda": _log_lambda,
    "features": _features,
    "paths": _paths,
}


def _check_exact(kernel: Tensor, steps: Sequence[Step], kind: str) -> None:
    """Raise if a number of paths overflowed, and warn if one was rounded."""
    if kind == "log_lambda":
        return
    if kernel.isinf().any():
        raise ArgumentError(
            "path_kernel: the number of paths is beyond float64",
            got=f"kind={kind!r}",
            fix="kind='log_lambda'",
        )
    largest = kernel.abs().amax()
    if kind == "features" or not largest > EXACT:
        return
    gates = [step.values for step in steps if isinstance(step, Gate)]
    if all(bool((values == values.round()).all()) for values in gates):
        warnings.warn(
            f"path_kernel: {largest:.3g} paths are more than float64 counts exactly (2^53); "
            "counts are rounded; kind='log_lambda' gives their logarithm",
            InexactCountWarning,
            stacklevel=4,
        )
