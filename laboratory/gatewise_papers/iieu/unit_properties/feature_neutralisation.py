"""Whether an unimportant feature can undo what an important one teaches a filter.

Appendix A of the IIEU paper.
"""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gatewise.analysis.record import PlottedResult
from gatewise.checks import check_number
from gatewise.errors import ArgumentError

ROUNDINGS = 64  # of the largest entry, by which a computed covariance may be asymmetric


@dataclass(frozen=True, eq=False)
class Neutralisation(PlottedResult):
    """The result of :func:`neutralisation`: how strongly two features pull at a filter.

    Attributes:
        responses: ``<w, x> = kappa_x > 0`` and ``<w, y> = -kappa_y < 0``.
        influence: The root mean square lengths of x and of y, in closed form.
        margin: The left side of (10) of the paper. Where it is not negative, y outweighs x.
        sampled: The influences by sampling. NaN if nothing was sampled.
        outweighed: The share of sampled pairs with ``|y| >= |x|``.
        samples: The number of samples.
    """

    responses: tuple[float, float]
    influence: tuple[float, float]
    margin: float
    sampled: tuple[float, float]
    outweighed: float
    samples: int

    @property
    def neutralises(self) -> bool:
        """Whether the unimportant feature pulls at least as strongly on average."""
        return self.margin >= 0

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a file."""
        values = super().to_dict() | {"neutralises": self.neutralises}
        if not self.samples:
            del values["sampled"], values["outweighed"]
        return values

    def _figure_size(self) -> tuple[float, float]:
        return 3.2, 2.8

    def _draw(self, axes: Any) -> None:
        """Draw both influences as bars."""
        axes.bar(("important", "unimportant"), self.influence)
        axes.set(ylabel="influence on the filter")

    def __str__(self) -> str:
        verdict = "neutralises" if self.neutralises else "does not neutralise"
        important, unimportant = self.influence
        return (
            f"Neutralisation({verdict}: influence {unimportant:.4g} of the unimportant feature, "
            f"{important:.4g} of the important one, margin {self.margin:.4g})"
        )


def neutralisation(
    w: Tensor,
    mean: Tensor,
    covariance: Tensor,
    kappa_x: float,
    kappa_y: float,
    *,
    samples: int = 0,
    seed: int = 0,
) -> Neutralisation:
    r"""Compute the influence of two normally distributed features with given responses.

    The gradient of :math:`\langle w, x\rangle` with respect to the filter is :math:`x`, so the root
    mean square length of a feature is its influence. Let :math:`x, y \sim N(\mu, \Sigma)` with
    :math:`\langle w, x\rangle = \kappa_x` and :math:`\langle w, y\rangle = -\kappa_y`,
    :math:`0 < \kappa_x \le \kappa_y`. The mean given the response t is
    :math:`\mu + \Sigma w (t - \langle w, \mu\rangle) / \langle w, \Sigma w\rangle`, and the
    remaining variance is the same for both. So :math:`y` outweighs :math:`x` exactly where the
    mean of :math:`y` is longer.

    Cai, 2023 (ICCV), supplement, appendix A. Correction: the mean square length also includes the
    remaining variance, which (10) of the paper leaves out. It cancels in the comparison.

    Args:
        w: The filter, of shape (C,).
        mean: The mean of the features, of shape (C,).
        covariance: Their covariance, of shape (C, C).
        kappa_x: The response of the important feature.
        kappa_y: The size of the negative response of the unimportant feature.
        samples: How many samples check the same by simulation. 0 for none.
        seed: The seed of the samples.
    """
    w, mean, covariance = _check(w, mean, covariance, kappa_x, kappa_y)
    along = covariance @ w
    spread = w @ along
    variance = float(covariance.trace() - along @ along / spread)  # given the response
    responses = (float(kappa_x), -float(kappa_y))
    squares = []
    for response in responses:
        conditional = mean + along * (response - w @ mean) / spread
        squares.append(float(conditional @ conditional))
    sampled = (torch.nan, torch.nan)
    outweighed = torch.nan
    if samples:
        # A covariance that is only semidefinite has no Cholesky factor.
        jitter = 1e-12 * covariance.trace() * torch.eye(len(w), dtype=w.dtype)
        root = torch.linalg.cholesky(covariance + jitter)
        sampled, outweighed = _sample(w, mean, root, responses, samples, seed)
    return Neutralisation(
        responses=responses,
        influence=((squares[0] + variance) ** 0.5, (squares[1] + variance) ** 0.5),
        margin=squares[1] - squares[0],
        sampled=sampled,
        outweighed=outweighed,
        samples=samples,
    )


def _sample(
    w: Tensor,
    mean: Tensor,
    root: Tensor,
    responses: tuple[float, float],
    samples: int,
    seed: int,
) -> tuple[tuple[float, float], float]:
    """Return both influences by sampling, and the share of pairs in which the second outweighs.

    Samples are drawn without a condition and then moved along the regression on the response until
    they have the given response.
    """
    generator = torch.Generator().manual_seed(seed)
    along = root @ (root.T @ w)
    lengths = []
    for response in responses:
        drawn = mean + torch.randn(samples, len(w), generator=generator, dtype=w.dtype) @ root.T
        moved = drawn + (response - drawn @ w)[:, None] * along / (w @ along)
        lengths.append(moved.norm(dim=1))
    first, second = lengths
    influence = float(first.square().mean().sqrt()), float(second.square().mean().sqrt())
    return influence, float((second >= first).double().mean())


def _check(
    w: Tensor,
    mean: Tensor,
    covariance: Tensor,
    kappa_x: float,
    kappa_y: float,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the tensors in float64, if they fit together."""
    for name, tensor in (("w", w), ("mean", mean), ("covariance", covariance)):
        if not isinstance(tensor, Tensor):
            raise ArgumentError(
                f"neutralisation: {name} is not a tensor", got=type(tensor).__name__
            )
    check_number("neutralisation", "kappa_x", kappa_x, above=0)
    check_number("neutralisation", "kappa_y", kappa_y, above=0)
    size = len(w) if w.dim() == 1 else -1
    if size < 1 or mean.shape != (size,) or covariance.shape != (size, size):
        raise ArgumentError(
            "neutralisation: the shapes do not fit together",
            got=[tuple(tensor.shape) for tensor in (w, mean, covariance)],
            allowed="(C,), (C,) and (C, C)",
        )
    if not 0 < kappa_x <= kappa_y:
        raise ArgumentError(
            "neutralisation: the responses must be 0 < kappa_x <= kappa_y",
            got=(kappa_x, kappa_y),
        )
    w = w.double()
    # A computed covariance is symmetric only up to rounding.
    rounding = ROUNDINGS * torch.finfo(covariance.dtype).eps * float(covariance.abs().max())
    symmetric = float((covariance - covariance.T).abs().max()) <= rounding
    covariance = (covariance + covariance.T).double() / 2
    smallest = float(torch.linalg.eigvalsh(covariance)[0])
    if not symmetric or smallest < -max(rounding, 1e-9) or float(w @ covariance @ w) <= 0:
        raise ArgumentError(
            "neutralisation: covariance must be symmetric, positive semidefinite, and not zero "
            "along w",
            got=f"smallest eigenvalue {smallest:.3g}",
        )
    return w, mean.double(), covariance
