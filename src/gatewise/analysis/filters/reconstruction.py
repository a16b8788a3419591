"""What a convolution layer's features still know of their input.

The linear reconstruction of paper 002.
"""

import math
from dataclasses import dataclass
from html import escape
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.filters.conv_operator import KnownResponses, winners
from gatewise.analysis.filters.filter_rows import CONVOLUTIONS, check_real
from gatewise.analysis.filters.invertible_features import GivenBack
from gatewise.analysis.filters.least_squares import (
    circular_solve,
    conjugate_gradients,
    solves_by_fft,
)
from gatewise.analysis.filters.theorem_pooling import pooling_bound
from gatewise.errors import ArgumentError

METHODS = ("auto", "fft", "cg")


@dataclass(frozen=True, eq=False)
class Reconstruction:
    """The answer of :func:`reconstruct`."""

    image: Tensor  # x', of the shape of the input, in float64
    ratio: Tensor  # (n,) |x - x'| / |x|: 0 is everything kept, 1 nothing
    equations: Tensor  # (n,) responses that the features give back
    unknowns: int  # numbers in one input
    method: str
    iterations: int  # 0 for the closed form
    given: Tensor  # the input
    eigenvalues: Tensor | None = (
        None  # (n, 2) of theorem 2.2: least of the shifts present, largest of those that won
    )
    bound: Tensor | None = None  # (n,) on the ratio; NaN where a phase that is needed is not active

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file."""
        return {
            "ratio": self.ratio.tolist(),
            "mean_ratio": float(self.ratio.mean()),
            "unknowns": self.unknowns,
            "equations": self.equations.tolist(),
            "method": self.method,
            "iterations": self.iterations,
            "eigenvalues": _plain(self.eigenvalues),
            "bound": _plain(self.bound),
        }

    def plot(self, axes: Any = None, *, most: int = 8) -> Any:
        """Inputs over their reconstructions, for colour or grey images.

        A new figure unless ``axes`` is (2, n).
        """
        count = min(most, len(self.given))
        if axes is None:
            from matplotlib.figure import Figure

            figure = Figure(figsize=(1.4 * count, 3.2), layout="constrained")
            axes = figure.subplots(2, count, squeeze=False)
        for row, images in zip(axes, (self.given, self.image), strict=True):
            for panel, one, ratio in zip(
                row, _pictures(images[:count], self.given[:count]), self.ratio, strict=False
            ):
                panel.imshow(one, cmap="gray")
                panel.set_axis_off()
                panel.set_title(
                    "input" if images is self.given else f"{float(ratio):.3f}", fontsize=7
                )
        return axes

    def __repr__(self) -> str:
        share = float(self.equations.double().mean()) / self.unknowns
        how = self.method if not self.iterations else f"{self.method}, {self.iterations} iterations"
        return f"Reconstruction(mean ratio {float(self.ratio.mean()):.4f}, {share:.2f} equations an unknown, {how})"

    def _repr_html_(self) -> str:
        return f"<code>{escape(repr(self))}</code>"


def reconstruct(
    conv: nn.Module,
    x: Tensor,
    *,
    pool: nn.Module | None = None,
    unit: str | nn.Module = "crelu",
    method: str = "auto",
    tolerance: float = 1e-10,
    most_iterations: int = 10_000,
    coefficients: Tensor | None = None,
) -> Reconstruction:
    r"""The input of least length that has the responses which the features give back.

    :math:`x' = (W^T)^+ z`.

    Args: conv: the convolution; its bias is known and taken off. x: inputs (n, C, *size). pool: a
        max-pooling after the unit; then only the shifts that won are known, for each phase
        (Algorithm 2),
            otherwise every response is (Algorithm 1). unit: the name of a unit as it starts, or a
            module of one. A response is known where no other has the same feature: by ``"crelu"``
            and ``"leaky_relu"`` everywhere, by ``"relu"`` and ``"silu"`` where it is positive; a
            unit that gives none back (``"abs"``), or that looks at several responses at once, is
            refused.
        method: ``"fft"`` is a closed form for circular convolutions of stride 1 without pooling;
            ``"cg"`` works for all; ``"auto"`` takes the first that fits. tolerance: at which
            conjugate gradients stop, relative to the first residual. most_iterations: an error
            beyond.
        coefficients: where the input is known to be a sum of shifted filters, with at most one
            shift of a filter in a pooling region, their factors (n, K, *responses): then the record
            has the bound of theorem 2.2, :math:`\sqrt{(\tilde\lambda_{\max} - \lambda_{\min}) /
            \lambda_{\min}}`, and its eigenvalues.

    Conjugate gradients start from zero and are not preconditioned: so they end at the
    pseudo-inverse's solution, which a preconditioner would not where responses are fewer than
    unknowns. Nothing is ever held as a matrix: memory is a few copies of the input and the
    features.

    Shang et al., 2016, arXiv:1603.05201, sections 2.2 and 4.3. Corrections: the two algorithms'
    titles mean without and with max-pooling, and :math:`x - x'` lies in the kernel of :math:`W^T`.
    A step in the proof of theorem 2.2 is not always true (a response may have another sign than its
    coefficient), though no case is known that breaks the bound.
    """
    conv, x, back = _check(conv, x, unit, method)
    image = x.detach().double()
    eigenvalues, bound = (
        (None, None) if coefficients is None else pooling_bound(conv, image, pool, coefficients)
    )
    keep = winners(conv, image, pool, back)
    closed = keep is None and solves_by_fft(conv, image)
    if method == "fft" and not closed:
        raise ArgumentError(
            "reconstruct: method='fft' needs a circular convolution that keeps the size, all responses known",
            got=f"{conv}, pool={pool}, unit={back.name}",
            fix="method='cg'",
        )
    if closed and method != "cg":
        found, iterations, used = circular_solve(conv, image), 0, "fft"
        count = torch.full((len(image),), back.channels * image[0, 0].numel())
    else:
        known = KnownResponses(conv, image, keep)
        found, iterations = conjugate_gradients(known, tolerance, most_iterations)
        count, used = known.count, "cg"
    lengths = image.flatten(1).norm(dim=1).clamp(min=torch.finfo(image.dtype).tiny)
    ratio = (image - found).flatten(1).norm(dim=1) / lengths
    return Reconstruction(
        found, ratio, count, image[0].numel(), used, iterations, image, eigenvalues, bound
    )


def random_ratio(kept: int, dimension: int) -> float:
    r"""The mean of :math:`|x - Px| / |x|` for a random ``kept``-dimensional subspace of ``dimension`` dimensions.

    Exactly :math:`\Gamma(\frac{m+1}{2})\Gamma(\frac D2) / (\Gamma(\frac m2)\Gamma(\frac{D+1}{2}))` with
    :math:`m = D - k`; the paper's :math:`\sqrt{(D-k)/D}` (theorem A.6) is the root of the mean square, slightly larger.
    """
    if not 0 <= kept <= dimension or dimension < 1:
        raise ArgumentError(
            "random_ratio: kept must be a part of the dimension", got=(kept, dimension)
        )
    rest = dimension - kept
    if rest == 0:
        return 0.0
    terms = math.lgamma((rest + 1) / 2) + math.lgamma(dimension / 2)
    return math.exp(terms - math.lgamma(rest / 2) - math.lgamma((dimension + 1) / 2))


def _plain(values: Tensor | None) -> Any:
    if values is None:
        return None
    return [
        _plain(each) if each.dim() else None if each.isnan() else float(each) for each in values
    ]


def _check(
    conv: nn.Module, x: Tensor, unit: str | nn.Module, method: str
) -> tuple[Any, Tensor, GivenBack]:
    if not isinstance(conv, CONVOLUTIONS):
        raise ArgumentError(
            "reconstruct: conv must be a convolution",
            got=type(conv).__name__,
            allowed="Conv1d to Conv3d",
        )
    if method not in METHODS:
        raise ArgumentError(
            "reconstruct: no such method", got=method, allowed=", ".join(map(repr, METHODS))
        )
    check_real("reconstruct", conv.weight, "the convolution's weights")
    dims = conv.weight.dim()
    if not isinstance(x, Tensor) or x.dim() != dims or x.shape[1] != conv.in_channels or not len(x):
        got = tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__
        raise ArgumentError(
            "reconstruct: x does not fit the convolution",
            got=got,
            allowed=f"(n, {conv.in_channels}, *size)",
        )
    if not x.is_floating_point() or not _is_finite(x):
        raise ArgumentError("reconstruct: x must be finite floating-point numbers", got=x.dtype)
    if not _is_finite(conv.weight):
        raise ArgumentError("reconstruct: the convolution's weights are not finite")
    _check_size(conv, x)
    return conv, x, GivenBack(unit, conv.out_channels)


def _check_size(conv: Any, x: Tensor) -> None:
    """Refuse inputs that the layer itself would refuse, though a closed form could answer.

    Too small for the kernel.
    """
    reaches = (
        step * (length - 1) for step, length in zip(conv.dilation, conv.kernel_size, strict=True)
    )
    if all(size > reach for size, reach in zip(x.shape[2:], reaches, strict=True)):
        return  # without any padding, too
    try:
        conv._conv_forward(
            x[:1].to("meta"), conv.weight.detach().to("meta", x.dtype), None
        )  # shapes alone
    except RuntimeError as problem:
        raise ArgumentError(
            f"reconstruct: the convolution cannot be applied to x ({str(problem).splitlines()[0]})",
            got=tuple(x.shape),
            fix="larger inputs",
        ) from None


def _is_finite(values: Tensor) -> bool:
    """One call where the sum is finite, as it nearly always is: then so is every number."""
    return math.isfinite(values.detach().sum().item()) or bool(values.isfinite().all())


def _pictures(images: Tensor, scale_of: Tensor) -> list[Any]:
    if images.dim() != 4 or images.shape[1] not in (1, 3):
        raise ArgumentError("only colour or grey images can be shown", got=tuple(images.shape))
    low = scale_of.flatten(1).amin(1)[:, None, None, None]
    high = scale_of.flatten(1).amax(1)[:, None, None, None]
    scaled = ((images - low) / (high - low).clamp(min=1e-12)).clamp(0, 1)
    return [one.permute(1, 2, 0).squeeze(-1).numpy() for one in scaled]
