"""Closed forms of the initial kernel by the paper's theorems, and its exact variance."""

from collections.abc import Sequence

import torch
from torch import Tensor


def expected_kernel(x: Tensor, overlap: Tensor, *, depth: int, sigma: float) -> Tensor:
    r"""Return :math:`\mathbb{E}[K_0] = d \sigma^{2(d-1)} (x x^\top \circ \lambda)` (Theorem 2.3).

    It is also E[K^w] of Lemma 3.1 (ii), which the paper prints without the factor d.

    Args:
        x: inputs (n, d_in).
        overlap: lambda (n, n).
        depth: layers.
        sigma: size of each weight.
    """
    return depth * sigma ** (2 * (depth - 1)) * (x @ x.T) * overlap


def expected_gate_kernel(x: Tensor, delta: Tensor, *, depth: int, sigma: float) -> Tensor:
    r"""Return :math:`\mathbb{E}[K^a_0] = \sigma^{2d} (x x^\top \circ \delta)` (Lemma 3.1 (iii)).

    Args:
        x: inputs (n, d_in).
        delta: (n, n).
        depth: layers.
        sigma: size of each weight.
    """
    return sigma ** (2 * depth) * (x @ x.T) * delta


def expected_overlap(*, mu: float, width: int, depth: int) -> tuple[float, float]:
    """Return the expected lambda(s, s) and lambda(s, s') of random gates (Lemma 2.4).

    Args:
        mu: the probability that a gate is open.
        width: of each layer.
        depth: layers.
    """
    return (mu * width) ** (depth - 1), (mu**2 * width) ** (depth - 1)


def gate_overlaps(gates: Sequence[Tensor]) -> Tensor:
    r"""Return :math:`\tau(s, s', l) = \sum_i G_{x_s}(l, i) G_{x_{s'}}(l, i)`: (layers, n, n).

    Their product over the layers is lambda(s, s').

    Args:
        gates: of every hidden layer, (n, width).
    """
    return torch.stack([gate @ gate.T for gate in gates])


def largest_gate_overlap(gates: Sequence[Tensor]) -> float:
    r"""Return :math:`\eta = \max_{s, s' \ne s, l} \tau(s, s', l) / \tau(s, s, l)`.

    Then :math:`\lambda(s, s') \le \eta^{d-1} \lambda(s, s)`. The paper's maximum has s' = s too,
    which makes it 1. It is infinite if all gates of a layer are closed for an example.

    Args:
        gates: of every hidden layer, (n, width).
    """
    overlaps = gate_overlaps(gates).double()
    own = overlaps.diagonal(dim1=1, dim2=2)  # (layers, n)
    others = overlaps.masked_fill(torch.eye(overlaps.shape[1], dtype=torch.bool), 0.0)
    return float((others / own[..., None]).nan_to_num(nan=torch.inf).max())


def expected_linear_kernel(*, width: int, depth: int, sigma: float) -> float:
    """Return the expected kernel of a deep linear network at its one input x = 1 (Corollary 8.1).

    Args:
        width: of each layer.
        depth: layers.
        sigma: size of each weight.
    """
    return depth * (width * sigma**2) ** (depth - 1)


def linear_kernel_variance(*, width: int, depth: int, sigma: float) -> float:
    r"""Return the exact variance of the kernel of Corollary 8.1.

    Note [Variance of the kernel]

    Layer l adds :math:`|f_{l-1}|^2 |b_l|^2`, forward and backward vectors, to K. For l < m the
    expected product of two such terms is :math:`\sigma^4 F_{l-1} F_{d-m} C_{m-l-1}`: what lies
    before both, after both, and between them; ``F_j`` is the fourth moment of a vector's length
    after j layers, ``C_k`` that of the Frobenius norm of a product of k square matrices. Entries of
    +-sigma give both by recursions in a few sums of fourth powers.

    It grows like d^3 / w (for sigma^2 = 1/w): two paths may exchange their ends at a unit they
    share, not only at a weight. The bound of Theorem 2.3, max(d^2 / w, d^3 / w^2), counts only
    shared weights and is exceeded.

    Args:
        width: of each layer.
        depth: layers.
        sigma: size of each weight.
    """
    lengths = _vector_moments(width, depth, sigma)
    norms = _matrix_moments(width, depth, sigma)
    same = sum(lengths[layer] * lengths[depth - 1 - layer] for layer in range(depth))
    different = 0.0
    for second in range(depth):
        for first in range(second):
            ends = lengths[first] * lengths[depth - 1 - second]
            different += sigma**4 * ends * norms[second - first - 1]
    expected = expected_linear_kernel(width=width, depth=depth, sigma=sigma)
    return same + 2 * different - expected**2


def _vector_moments(width: int, depth: int, sigma: float) -> list[float]:
    """Return E|f_j|^4 for f_0 = 1 and f_j = W_j f_(j-1).

    A recursion in |f|^4 and the sum of fourth powers.
    """
    square = 1.0
    fourth = 1.0
    moments = [square]
    for _ in range(depth - 1):
        row = width * sigma**4 * (3 * square - 2 * fourth)
        square = width * (width - 1) * sigma**4 * square + row
        fourth = row
        moments.append(square)
    return moments


def _matrix_moments(width: int, depth: int, sigma: float) -> list[float]:
    """Return E|C_k|_F^4 for C_0 = 1 and C_k = W_k C_(k-1), columns c_j.

    A recursion in |C|^4, the sum of (c_i . c_j)^2, and the sum over rows of their squared length
    squared.
    """
    square = float(width**2)
    products = float(width)
    rows = float(width)
    different = width * (width - 1) * sigma**4
    moments = [square]
    for _ in range(depth):
        row = width * sigma**4 * (square + 2 * products - 2 * rows)
        square = different * square + row
        products = different * products + row
        rows = row
        moments.append(square)
    return moments
