"""How complex is a layer with CReLU and linear weights behind it, beside the layer alone? Theorem 4.1 of paper 002."""

import math
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from html import escape
from typing import Any

import torch
from torch import Tensor

from gatewise.errors import ArgumentError

MOST_EXACT = 14  # samples up to which all signs are gone through
CONSTANT = 3 / math.sqrt(2)
AT_A_TIME = 256


@dataclass(frozen=True)
class Rademacher:
    """The answer of :func:`rademacher`.

    Empirical complexities, each with the standard error of its estimate.
    """

    functions: int
    samples: int
    width: int
    norm: float
    draws: int  # of signs; all there are, where exact
    exact: bool
    base: float  # of the class itself
    base_error: float
    relu: float  # of ReLU and linear weights behind ``width`` of its functions
    relu_error: float
    crelu: float  # the same of CReLU
    crelu_error: float

    @property
    def printed_bound(self) -> float:
        """The theorem's as printed.

        Its proof takes two expectations for equal that are not: it can be broken.
        """
        return math.sqrt(self.width) * self.norm * self.base

    @property
    def bound(self) -> float:
        """What the proof gives with the right constant."""
        return CONSTANT * self.printed_bound

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file."""
        return {
            **asdict(self),
            "printed_bound": self.printed_bound,
            "bound": self.bound,
            "constant": CONSTANT,
        }

    def plot(self, axes: Any = None) -> Any:
        """The complexities as bars, the two bounds as lines; returns the axes."""
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(figsize=(3.6, 2.8), layout="constrained").subplots()
        axes.bar(
            ("ReLU", "CReLU"), (self.relu, self.crelu), yerr=(self.relu_error, self.crelu_error)
        )
        axes.axhline(self.printed_bound, color="grey", linestyle=":", label="as printed")
        axes.axhline(self.bound, color="black", label="bound")
        axes.set(ylabel="Rademacher complexity")
        axes.legend(fontsize=7)
        return axes

    def __repr__(self) -> str:
        values = f"class {self.base:.4g}, ReLU {self.relu:.4g}, CReLU {self.crelu:.4g} +- {self.crelu_error:.1g}"
        return f"Rademacher({values}, bound {self.bound:.4g}, as printed {self.printed_bound:.4g})"

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>"


def rademacher(
    outputs: Tensor, *, width: int = 1, norm: float = 1.0, draws: int = 2000, seed: int = 0
) -> Rademacher:
    r"""The empirical Rademacher complexity of CReLU and a linear map behind a layer, by Monte Carlo, and its bound.

    ``outputs`` (functions, samples) are the values of a finite class F on a sample, such as the responses of a layer's
    filters. A layer is ``width`` functions of F, a linear map with :math:`\|W\|_2 \le B` (``norm``) follows. Over signs
    :math:`\sigma`, with :math:`P_f = \sum_i \sigma_i f(x_i)^+` and :math:`N_f = \sum_i \sigma_i f(x_i)^-`,

    .. math:: \hat R(F) = \mathrm{E} \sup_f \frac2L \Big|\sum_i \sigma_i f(x_i)\Big|, \qquad
        \hat R(H \circ \rho_c \circ G) = \sqrt d\,B\;\mathrm{E} \sup_f \frac2L \sqrt{P_f^2 + N_f^2}

    the latter exactly, since weights and functions are chosen after the signs. Up to 14 samples all signs are gone
    through; beyond, ``draws`` of them.

    Shang et al., 2016, arXiv:1603.05201, theorem 4.1, says :math:`\sqrt d\,B\,\hat R(F)`. Its step S3 to S4 is not an
    equality, and the bound is false as printed: for one function with values 1 and -1 the left side is larger by
    :math:`\sqrt 2`. From :math:`P^2 + N^2 = \frac12 (\sum \sigma f)^2 + \frac12 (\sum \sigma |f|)^2` and the
    contraction principle, :math:`\hat R(|F|) \le 2 \hat R(F)`, the constant is :math:`3 / \sqrt 2`.
    """
    values = _check(outputs, width, norm, draws)
    samples = values.shape[1]
    exact = samples <= MOST_EXACT
    sizes = (
        torch.cat([_sizes(values, signs) for signs in _signs(samples, draws, seed, exact)], 1)
        * 2
        / samples
    )
    factor = math.sqrt(width) * norm
    means = sizes.mean(1) * torch.tensor([1.0, factor, factor], dtype=torch.float64)
    errors = (
        sizes.std(1, correction=0) / math.sqrt(sizes.shape[1]) * torch.tensor([1.0, factor, factor])
    )
    errors = torch.zeros(3) if exact else errors
    pairs = [float(each) for pair in zip(means, errors, strict=True) for each in pair]
    return Rademacher(len(values), samples, width, float(norm), sizes.shape[1], exact, *pairs)


def _signs(samples: int, draws: int, seed: int, exact: bool) -> Iterator[Tensor]:
    """Signs (some, samples), some at a time."""
    if exact:
        numbers = torch.arange(2**samples)
        every = ((numbers[:, None] >> torch.arange(samples)) & 1).double() * 2 - 1
        yield from every.split(AT_A_TIME)
        return
    generator = torch.Generator().manual_seed(seed)
    for start in range(0, draws, AT_A_TIME):
        some = min(AT_A_TIME, draws - start)
        yield torch.randint(0, 2, (some, samples), generator=generator).double() * 2 - 1


def _sizes(values: Tensor, signs: Tensor) -> Tensor:
    """The suprema of the class, of ReLU and of CReLU, for each row of signs: (3, rows)."""
    plain, positive = signs @ values.T, signs @ values.clamp(min=0).T
    negative = positive - plain
    return torch.stack(
        [
            plain.abs().amax(1),
            positive.abs().amax(1),
            (positive.square() + negative.square()).sqrt().amax(1),
        ]
    )


def _check(outputs: Tensor, width: int, norm: float, draws: int) -> Tensor:
    if not isinstance(outputs, Tensor) or outputs.dim() != 2 or not outputs.numel():
        got = tuple(outputs.shape) if isinstance(outputs, Tensor) else type(outputs).__name__
        raise ArgumentError(
            "rademacher: outputs must be a table", got=got, allowed="a tensor (functions, samples)"
        )
    if not bool(outputs.isfinite().all()):
        raise ArgumentError("rademacher: outputs hold NaN or infinity")
    for name, value in (("width", width), ("draws", draws)):
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ArgumentError(
                f"rademacher: {name} must be a number of them", got=value, allowed="an integer >= 1"
            )
    if not isinstance(norm, int | float) or not 0 < norm < math.inf:
        raise ArgumentError("rademacher: norm must be a length", got=norm, allowed="a number > 0")
    return outputs.detach().double()
