"""The Rademacher complexity of a layer followed by CReLU and linear weights: theorem 4.1."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from gatewise.analysis.record import AnalysisResult, new_axes
from gatewise.checks import check_count, check_number
from gatewise.errors import ArgumentError

MOST_EXACT = 14  # samples up to which all 2^samples signs are used
CONSTANT = 3 / math.sqrt(2)  # the factor of the corrected bound, see `rademacher`
AT_A_TIME = 256  # rows of signs


@dataclass(frozen=True)
class Rademacher(AnalysisResult):
    """The result of :func:`rademacher`: empirical complexities with their standard errors.

    Attributes:
        functions: the number of functions in the class.
        samples: the number of samples.
        width: the number of functions of the layer.
        norm: the bound on the norm of the linear map.
        draws: the number of sign vectors; all there are, if exact.
        exact: whether all sign vectors were used.
        base: the complexity of the class itself.
        base_error: its standard error.
        relu: that of ReLU and linear weights after ``width`` functions of the class.
        relu_error: its standard error.
        crelu: the same with CReLU.
        crelu_error: its standard error.
    """

    functions: int
    samples: int
    width: int
    norm: float
    draws: int
    exact: bool
    base: float
    base_error: float
    relu: float
    relu_error: float
    crelu: float
    crelu_error: float

    constant = CONSTANT
    _properties = ("printed_bound", "bound", "constant")

    @property
    def printed_bound(self) -> float:
        """The bound of the theorem as printed.

        It can be violated: the proof equates two expectations that differ.
        """
        return math.sqrt(self.width) * self.norm * self.base

    @property
    def bound(self) -> float:
        """The bound of the proof with the right constant."""
        return CONSTANT * self.printed_bound

    def plot(self, axes: Any = None) -> Any:
        """Draw the complexities as bars and the two bounds as lines; returns the axes."""
        axes = new_axes((3.6, 2.8)) if axes is None else axes
        errors = (self.relu_error, self.crelu_error)
        axes.bar(("ReLU", "CReLU"), (self.relu, self.crelu), yerr=errors)
        axes.axhline(self.printed_bound, color="grey", linestyle=":", label="as printed")
        axes.axhline(self.bound, color="black", label="bound")
        axes.set(ylabel="Rademacher complexity")
        axes.legend(fontsize=7)
        return axes

    def __str__(self) -> str:
        crelu = f"CReLU {self.crelu:.4g} +- {self.crelu_error:.1g}"
        bounds = f"bound {self.bound:.4g}, as printed {self.printed_bound:.4g}"
        return f"Rademacher(class {self.base:.4g}, ReLU {self.relu:.4g}, {crelu}, {bounds})"


def rademacher(
    outputs: Tensor,
    *,
    width: int = 1,
    norm: float = 1.0,
    draws: int = 2000,
    seed: int = 0,
) -> Rademacher:
    r"""Estimate the Rademacher complexity of CReLU and a linear map after a layer, and its bound.

    A layer is ``width`` functions of a class F, followed by a linear map with
    :math:`\|W\|_2 \le B` (``norm``). Over signs :math:`\sigma`, with
    :math:`P_f = \sum_i \sigma_i f(x_i)^+` and :math:`N_f = \sum_i \sigma_i f(x_i)^-`,

    .. math:: \hat R(F) = \mathrm{E} \sup_f \frac2L \Big|\sum_i \sigma_i f(x_i)\Big|, \qquad
        \hat R(H \circ \rho_c \circ G) = \sqrt d\,B\;\mathrm{E} \sup_f \frac2L \sqrt{P_f^2 + N_f^2}

    The second equation is exact, since weights and functions are chosen after the signs.

    Args:
        outputs: (functions, samples), the values of the functions of F on a sample, for example
            the responses of a layer's filters.
        width: the number d of functions of the layer.
        norm: the bound B.
        draws: how many sign vectors are drawn. With up to 14 samples all of them are used.
        seed: the seed of the signs.

    Shang et al., 2016, arXiv:1603.05201, theorem 4.1, states the bound
    :math:`\sqrt d\,B\,\hat R(F)`. Its step S3 to S4 is not an equality, and the bound is false as
    printed: for one function with values 1 and -1 the left side is larger by :math:`\sqrt 2`. From
    :math:`P^2 + N^2 = \frac12 (\sum \sigma f)^2 + \frac12 (\sum \sigma |f|)^2` and the contraction
    principle, :math:`\hat R(|F|) \le 2 \hat R(F)`, the constant is :math:`3 / \sqrt 2`.
    """
    values = _check(outputs, width, norm, draws)
    samples = values.shape[1]
    exact = samples <= MOST_EXACT
    parts = [_suprema(values, signs) for signs in _signs(samples, draws, seed, exact)]
    suprema = torch.cat(parts, 1) * 2 / samples  # (3, draws)
    used = suprema.shape[1]
    factor = math.sqrt(width) * norm
    means = suprema.mean(1) * torch.tensor([1.0, factor, factor], dtype=torch.float64)
    errors = torch.zeros(3)
    if not exact:
        spread = suprema.std(1, correction=0) / math.sqrt(used)
        errors = spread * torch.tensor([1.0, factor, factor])
    pairs = torch.stack((means, errors), 1).flatten().tolist()
    return Rademacher(len(values), samples, width, float(norm), used, exact, *pairs)


def _signs(samples: int, draws: int, seed: int, exact: bool) -> Iterator[Tensor]:
    """Yield signs (rows, samples), some rows at a time."""
    if exact:
        numbers = torch.arange(2**samples)
        bits = (numbers[:, None] >> torch.arange(samples)) & 1
        yield from (bits.double() * 2 - 1).split(AT_A_TIME)
        return
    generator = torch.Generator().manual_seed(seed)
    for start in range(0, draws, AT_A_TIME):
        rows = min(AT_A_TIME, draws - start)
        yield torch.randint(0, 2, (rows, samples), generator=generator).double() * 2 - 1


def _suprema(values: Tensor, signs: Tensor) -> Tensor:
    """The suprema of the class, of ReLU and of CReLU, for each row of signs: (3, rows)."""
    plain = signs @ values.T
    positive = signs @ values.clamp(min=0).T
    negative = positive - plain
    both = (positive.square() + negative.square()).sqrt()
    return torch.stack([plain.abs().amax(1), positive.abs().amax(1), both.amax(1)])


def _check(outputs: Tensor, width: int, norm: float, draws: int) -> Tensor:
    if not isinstance(outputs, Tensor) or outputs.dim() != 2 or not outputs.numel():
        got = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise ArgumentError(
            "rademacher: outputs must be a table",
            got=got,
            allowed="a tensor (functions, samples)",
        )
    if not bool(outputs.isfinite().all()):
        raise ArgumentError("rademacher: outputs hold NaN or infinity")
    check_count("rademacher", "width", width)
    check_count("rademacher", "draws", draws)
    check_number("rademacher", "norm", norm, above=0)
    return outputs.detach().double()
