"""Can an unimportant feature undo what an important one teaches a filter? Appendix A of paper 003."""

from dataclasses import dataclass
from html import escape
from typing import Any

import torch
from torch import Tensor

from gatewise.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class Neutralisation:
    """The answer of :func:`neutralisation`.

    How strongly features with given responses pull at a filter.
    """

    responses: tuple[float, float]  # <w, x> = kappa_x > 0 and <w, y> = -kappa_y < 0
    influence: tuple[float, float]  # root mean square lengths of x and of y, in closed form
    margin: float  # the left side of the paper's (10): where it is not negative, y outweighs x
    sampled: tuple[float, float]  # the influences by sampling; NaN where nothing was sampled
    outweighed: float  # share of sampled pairs with |y| >= |x|
    samples: int

    @property
    def neutralises(self) -> bool:
        """Whether the unimportant feature pulls at least as strongly on average."""
        return self.margin >= 0

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file."""
        sampled = (
            {"sampled": list(self.sampled), "outweighed": self.outweighed} if self.samples else {}
        )
        return {
            "responses": list(self.responses),
            "influence": list(self.influence),
            "margin": self.margin,
            "neutralises": self.neutralises,
            "samples": self.samples,
            **sampled,
        }

    def plot(self, axes: Any = None) -> Any:
        """Both influences as bars; returns the axes."""
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(figsize=(3.2, 2.8), layout="constrained").subplots()
        axes.bar(("important", "unimportant"), self.influence)
        axes.set(ylabel="influence on the filter")
        return axes

    def __repr__(self) -> str:
        verdict = "neutralises" if self.neutralises else "does not neutralise"
        pull = f"{self.influence[1]:.4g} against {self.influence[0]:.4g}"
        return f"Neutralisation({verdict}: the unimportant feature pulls with {pull}, margin {self.margin:.4g})"

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>"


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
    r"""The influence of two features of one normal distribution whose responses to a filter are given.

    The gradient of :math:`\langle w, x\rangle` by the filter is :math:`x`, so the root mean square length of a feature
    is its influence. Of :math:`x, y \sim N(\mu, \Sigma)` with :math:`\langle w, x\rangle = \kappa_x` and
    :math:`\langle w, y\rangle = -\kappa_y`, :math:`0 < \kappa_x \le \kappa_y`, the mean given the response is
    :math:`\mu + \Sigma w (t - \langle w, \mu\rangle) / \langle w, \Sigma w\rangle`, and what is left of the variance is
    the same for both; so :math:`y` outweighs :math:`x` exactly where the mean of :math:`y` is longer.

    Args:
        w: the filter (C,). mean, covariance: of the features, (C,) and (C, C). kappa_x, kappa_y: sizes of the
            responses. samples: of the distribution given the responses, to see the same by; 0 for none. seed: theirs.

    Cai, 2023 (ICCV), supplement, appendix A. Correction: the mean square length also has the variance that is left,
    which the paper's (10) leaves out; it cancels in the comparison.
    """
    w, mean, covariance = _check(w, mean, covariance, kappa_x, kappa_y)
    along = covariance @ w
    spread = w @ along
    means = [mean + along * (t - w @ mean) / spread for t in (kappa_x, -kappa_y)]
    left = float(covariance.trace() - along @ along / spread)
    squares = [float(each @ each) for each in means]
    influence = tuple((square + left) ** 0.5 for square in squares)
    sampled, outweighed = (torch.nan, torch.nan), torch.nan
    if samples:
        root = torch.linalg.cholesky(
            covariance + 1e-12 * covariance.trace() * torch.eye(len(w), dtype=w.dtype)
        )
        sampled, outweighed = _sample(w, mean, root, (kappa_x, -kappa_y), samples, seed)
    return Neutralisation(
        (float(kappa_x), -float(kappa_y)),
        (influence[0], influence[1]),
        squares[1] - squares[0],
        sampled,
        outweighed,
        samples,
    )


def _sample(
    w: Tensor, mean: Tensor, root: Tensor, responses: tuple[float, float], samples: int, seed: int
) -> tuple[tuple[float, float], float]:
    """Draw without a condition, then move each draw along the regression on the response until it has the one given."""
    generator = torch.Generator().manual_seed(seed)
    along = root @ (root.T @ w)
    lengths = []
    for response in responses:
        drawn = mean + torch.randn(samples, len(w), generator=generator, dtype=w.dtype) @ root.T
        moved = drawn + (response - drawn @ w)[:, None] * along / (w @ along)
        lengths.append(moved.norm(dim=1))
    first, second = (float(each.square().mean().sqrt()) for each in lengths)
    return (first, second), float((lengths[1] >= lengths[0]).double().mean())


def _check(
    w: Tensor, mean: Tensor, covariance: Tensor, kappa_x: float, kappa_y: float
) -> tuple[Tensor, Tensor, Tensor]:
    size = len(w) if isinstance(w, Tensor) and w.dim() == 1 else -1
    if size < 1 or mean.shape != (size,) or covariance.shape != (size, size):
        got = [tuple(each.shape) for each in (w, mean, covariance)]
        raise ArgumentError(
            "neutralisation: shapes do not fit", got=got, allowed="(C,), (C,) and (C, C)"
        )
    if not 0 < kappa_x <= kappa_y:
        raise ArgumentError(
            "neutralisation: the responses' sizes must be 0 < kappa_x <= kappa_y",
            got=(kappa_x, kappa_y),
        )
    w, mean, covariance = w.double(), mean.double(), covariance.double()
    smallest = float(torch.linalg.eigvalsh(covariance)[0])
    if (
        not torch.equal(covariance, covariance.T)
        or smallest < -1e-9
        or float(w @ covariance @ w) <= 0
    ):
        raise ArgumentError(
            "neutralisation: covariance must be symmetric, not negative, and vary along w",
            got=f"least eigenvalue {smallest:.3g}",
        )
    return w, mean, covariance
