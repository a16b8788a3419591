"""How alike two inputs are to a gated network: the paths that are active for both."""

import math
import warnings
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor, nn

from gatewise.analysis.path_kernels.collapsed import State, flow, overlap, start, told_apart, total
from gatewise.errors import ArgumentError, InexactCountWarning
from gatewise.layers import Convolve, Dense, Flatten, Gate, Step, path_steps
from gatewise.units import check_choice, check_input

KINDS = ("lambda", "log_lambda", "features", "paths")
CHUNK = 2**24  # numbers in one layer's state at a time: 128 MiB in float64
EXACT = 2.0**53  # float64 has every integer up to here

Steps = Sequence[Step]
Pairs = list[tuple[Step, Step]]  # the steps of both inputs, side by side


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

    where :math:`A(x, p)` is the product of the gates on path ``p`` and :math:`\phi(x, p)` is that
    times the input that the path starts from. No path is walked: in a dense network :math:`\lambda
    = \prod_l \langle G_s(l), G_{s'}(l) \rangle` and :math:`M = x^\top x \odot \lambda`, and
    convolutions take one channel with a kernel of ones, whatever their width. Paths to one output
    are counted; with several, each has as many.

    ================
    =================================================================================================
    ``kind``          result ================
    =================================================================================================
    ``"lambda"``      lambda, (n, m); with convolutions it depends on where a path starts: (n, m,
    \*input shape) ``"log_lambda"``  its logarithm, in which nothing overflows; -inf where no path
    is shared. An error where slopes of
                      both signs (abs, leaky ReLU with a negative slope) make lambda negative
    ``"features"``    M, (n, m) ``"paths"``       the paths active for both, from all input nodes
    together, (n, m) ================
    =================================================================================================

    Gates of 0 and 1 give whole numbers, exactly, up to 2^53; beyond, numbers are rounded, and a
    warning says so.

    Args: model: a deep gated network, or an ``nn.Sequential`` of linear layers, convolutions,
        average pools and units
            that multiply by a slope (ReLU, leaky ReLU, abs, soft-ReLU, SiLU), without bias.
        index: which training examples ``x`` are, for random gates; ``index2`` for ``x2``.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996. The paper's activity
    multiplies d gates where a path has d - 1; here it is d - 1.
    """
    check_choice("path_kernel", "kind", kind, KINDS)
    if x2 is None and index2 is not None:
        raise ArgumentError(
            "path_kernel: index2 belongs to x2", got="index2 without x2", fix="leave index2 out"
        )
    with torch.no_grad():
        mine = path_steps(model, check_input("path_kernel", x), index=index)
        theirs = (
            mine if x2 is None else path_steps(model, check_input("path_kernel", x2), index=index2)
        )
    return kernel_of_steps(mine, theirs, x, x if x2 is None else x2, kind=kind)


def kernel_of_steps(mine: Steps, theirs: Steps, x: Tensor, x2: Tensor, *, kind: str) -> Tensor:
    """:func:`path_kernel` of networks that are already steps."""
    if mine and isinstance(mine[0], Flatten):
        x, x2 = x.flatten(1), x2.flatten(1)
    blocks = _check_start(mine, x)
    pairs = list(zip(mine, theirs, strict=True))
    rows, columns = _chunks(pairs, x, x2, blocks)

    def block(i: slice, j: slice) -> Tensor:
        chosen = [(rows_of(one, i), rows_of(other, j)) for one, other in pairs]
        return _READ[kind](
            *_per_node(chosen, x[i], x2[j], blocks, scaled=kind == "log_lambda"), x[i], x2[j]
        )

    kernel = torch.cat([torch.cat([block(i, j) for j in columns], 1) for i in rows])
    _check_exact(kernel, (*mine, *theirs), kind)
    return kernel


def _check_start(steps: Steps, x: Tensor) -> int:
    """How many blocks of input channels the network tells apart.

    An error if ``x`` is no batch of its inputs.
    """
    first = next((step for step in steps if isinstance(step, Dense | Convolve)), None)
    if first is None:
        raise ArgumentError(
            "path_kernel: the network has no layer of weights", got=f"{len(steps)} steps"
        )
    wanted = (
        2
        if isinstance(first, Dense) and not any(isinstance(step, Flatten) for step in steps)
        else None
    )
    if len(x) == 0 or x.dim() < 2 or (wanted and x.dim() != wanted):
        raise ArgumentError(
            "path_kernel: a batch of inputs is needed",
            got=f"shape {tuple(x.shape)}",
            allowed="(N, *)",
        )
    return told_apart(steps, x.shape[1])


def _chunks(pairs: Pairs, x: Tensor, x2: Tensor, blocks: int) -> tuple[list[slice], list[slice]]:
    """Rows and columns of the kernel to do at a time.

    Where states have positions, one pair is run to see how many.
    """
    size = len(pairs)
    if x.dim() > 2 or blocks > 1:
        first = [(rows_of(one, slice(1)), rows_of(other, slice(1))) for one, other in pairs]
        size += sum(state.mass.numel() for state in flow(start(1, 1, blocks, x), first, _as_it_is))
    columns = max(1, min(len(x2), CHUNK // size))
    rows = max(1, CHUNK // (columns * size))
    return slices(len(x), rows), slices(len(x2), columns)


def slices(count: int, at_a_time: int) -> list[slice]:
    """``count`` rows, some at a time."""
    return [slice(i, i + at_a_time) for i in range(0, count, at_a_time)]


def rows_of(step: Step, rows: slice) -> Step:
    """The step for some of the inputs."""
    return Gate(step.values[rows]) if isinstance(step, Gate) else step


def _per_node(
    pairs: Pairs, x: Tensor, x2: Tensor, blocks: int, *, scaled: bool
) -> tuple[Tensor, Tensor]:
    """Paths that both inputs share from each node, (a, b, blocks, *pos), over two to the second result, (a, b).

    The output is linear in what the nodes hold, so the paths from a node are its derivative, and every number on the
    way is a sum of products of gates: exact where they are.
    """
    exponents = [torch.zeros(len(x), len(x2), dtype=torch.int32, device=x.device)]

    def rescale(state: State) -> State:
        _, exponent = torch.frexp(state.mass.detach().abs().flatten(2).amax(2))
        exponents.append(exponent)
        scale = torch.ldexp(torch.ones_like(exponent, dtype=torch.float64), -exponent)
        return replace(state, mass=state.mass * _beside(scale, state.mass))

    alone = x.dim() == 2 and blocks == 1  # one number a pair: what arrives is its derivative
    with torch.set_grad_enabled(not alone):
        first = start(len(x), len(x2), blocks, x)
        last = [first, *flow(first, pairs, rescale if scaled else _as_it_is)][-1]
        found = total(last)
        counts = found.unsqueeze(2) if alone else torch.autograd.grad(found.sum(), first.mass)[0]
    return counts, torch.stack(exponents).sum(0).double()


def _beside(numbers: Tensor, other: Tensor) -> Tensor:
    """One number a pair, (a, b), shaped to be combined with (a, b, *)."""
    return numbers.reshape(*numbers.shape, *[1] * (other.dim() - 2))


def _as_it_is(state: State) -> State:
    return state


def _lambda(counts: Tensor, exponent: Tensor, x: Tensor, x2: Tensor) -> Tensor:
    """One number a pair, (a, b), or one for each input node."""
    if x.dim() == 2 and counts.shape[2] == 1:
        return counts[:, :, 0]
    return counts.repeat_interleave(x.shape[1] // counts.shape[2], dim=2)


def _log_lambda(counts: Tensor, exponent: Tensor, x: Tensor, x2: Tensor) -> Tensor:
    found = _lambda(counts, exponent, x, x2)
    if (found < 0).any():
        what = "path_kernel: lambda is negative for some pairs of inputs, and has no logarithm"
        raise ArgumentError(
            what, got=f"{int((found < 0).sum())} negative numbers", fix="kind='lambda'"
        )
    return found.log() + math.log(2) * _beside(exponent, found)


def _features(counts: Tensor, exponent: Tensor, x: Tensor, x2: Tensor) -> Tensor:
    products = overlap(x.detach().double(), x2.detach().double(), counts.shape[2])
    return (products * counts).flatten(2).sum(2)


def _paths(counts: Tensor, exponent: Tensor, x: Tensor, x2: Tensor) -> Tensor:
    return counts.flatten(2).sum(2) * (x.shape[1] // counts.shape[2])


_READ = {"lambda": _lambda, "log_lambda": _log_lambda, "features": _features, "paths": _paths}


def _check_exact(kernel: Tensor, steps: Steps, kind: str) -> None:
    if kind == "log_lambda":
        return
    if kernel.isinf().any():
        what = "path_kernel: the number of paths is beyond float64"
        raise ArgumentError(what, got=f"kind={kind!r}", fix="kind='log_lambda'")
    whole = all(
        bool((step.values == step.values.round()).all()) for step in steps if isinstance(step, Gate)
    )
    largest = kernel.abs().amax()
    if kind != "features" and whole and largest > EXACT:
        what = f"path_kernel: {largest:.3g} paths are more than float64 counts exactly (2^53); counts are rounded"
        warnings.warn(
            f"{what}; kind='log_lambda' gives their logarithm", InexactCountWarning, stacklevel=4
        )
