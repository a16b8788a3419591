"""What the paper's theorems say of the kernel at the start, and the variance that it bounds, exactly."""

from torch import Tensor


def expected_kernel(x: Tensor, overlap: Tensor, *, depth: int, sigma: float) -> Tensor:
    r"""Theorem 2.3: :math:`\mathbb{E}[K_0] = d \sigma^{2(d-1)} (x x^\top \circ \lambda)`, inputs ``x`` (n, d_in).

    ``overlap`` (n, n) is lambda. Also E[K^w] of Lemma 3.1 (ii), which the paper prints without the factor d.
    """
    return depth * sigma ** (2 * (depth - 1)) * (x @ x.T) * overlap


def expected_gate_kernel(x: Tensor, delta: Tensor, *, depth: int, sigma: float) -> Tensor:
    r"""Lemma 3.1 (iii): :math:`\mathbb{E}[K^a_0] = \sigma^{2d} (x x^\top \circ \delta)`."""
    return sigma ** (2 * depth) * (x @ x.T) * delta


def expected_overlap(*, mu: float, width: int, depth: int) -> tuple[float, float]:
    """Lemma 2.4: the expected lambda(s, s) and lambda(s, s') of random gates."""
    return (mu * width) ** (depth - 1), (mu**2 * width) ** (depth - 1)


def expected_linear_kernel(*, width: int, depth: int, sigma: float) -> float:
    """Corollary 8.1: the expected kernel of a deep linear network at its one input x = 1."""
    return depth * (width * sigma**2) ** (depth - 1)


def linear_kernel_variance(*, width: int, depth: int, sigma: float) -> float:
    r"""The exact variance of the kernel of Corollary 8.1.

    Note [Variance of the kernel]

    Layer l adds :math:`|f_{l-1}|^2 |b_l|^2`, forward and backward vectors, to K. For l < m the
    expected product of two such terms is :math:`\sigma^4 F_{l-1} F_{d-m} C_{m-l-1}`: what lies
    before both, after both, and between them; ``F_j`` is the fourth moment of a vector's length
    after j layers, ``C_k`` that of the Frobenius norm of a product of k square matrices. Entries of
    +-sigma give both by recursions in a few sums of fourth powers.

    It grows like d^3 / w (for sigma^2 = 1/w): two paths may exchange their ends at a unit they
    share, not only at a weight. The bound of Theorem 2.3, max(d^2 / w, d^3 / w^2), counts shared
    weights alone and is exceeded.
    """
    lengths, norms = _vector_moments(width, depth, sigma), _matrix_moments(width, depth, sigma)
    same = sum(lengths[layer] * lengths[depth - 1 - layer] for layer in range(depth))
    different = sum(
        sigma**4 * lengths[first] * lengths[depth - 1 - second] * norms[second - first - 1]
        for second in range(depth)
        for first in range(second)
    )
    return same + 2 * different - expected_linear_kernel(width=width, depth=depth, sigma=sigma) ** 2


def _vector_moments(width: int, depth: int, sigma: float) -> list[float]:
    """E|f_j|^4 for f_0 = 1 and f_j = W_j f_(j-1).

    A recursion in |f|^4 and the sum of fourth powers.
    """
    square, fourth = 1.0, 1.0
    found = [square]
    for _ in range(depth - 1):
        row = width * sigma**4 * (3 * square - 2 * fourth)
        square, fourth = width * (width - 1) * sigma**4 * square + row, row
        found.append(square)
    return found


def _matrix_moments(width: int, depth: int, sigma: float) -> list[float]:
    """E|C_k|_F^4 for C_0 = 1 and C_k = W_k C_(k-1), columns c_j.

    A recursion in |C|^4, the sum of (c_i . c_j)^2, and the sum over rows of their squared length
    squared.
    """
    square, products, rows = float(width**2), float(width), float(width)
    found = [square]
    for _ in range(depth):
        row = width * sigma**4 * (square + 2 * products - 2 * rows)
        apart = width * (width - 1) * sigma**4
        square, products, rows = apart * square + row, apart * products + row, row
        found.append(square)
    return found
