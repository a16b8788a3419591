"""How much of its input can be reconstructed from the features of a convolution layer."""

import math
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.filters.conv_operator import KnownResponses, known_mask, read_places
from gatewise.analysis.filters.filter_rows import CONVOLUTIONS, check_real
from gatewise.analysis.filters.invertible_features import InvertibleFeatures
from gatewise.analysis.filters.least_squares import (
    circular_solve,
    conjugate_gradients,
    solves_by_fft,
)
from gatewise.analysis.filters.theorem_pooling import pooling_bound
from gatewise.analysis.record import AnalysisResult
from gatewise.checks import check_count
from gatewise.errors import ArgumentError

METHODS = ("auto", "fft", "cg")


@dataclass(frozen=True, eq=False)
class Reconstruction(AnalysisResult):
    """The result of :func:`reconstruct`.

    Attributes:
        image: the reconstruction x', of the shape of the input, in float64.
        ratio: (n,), |x - x'| / |x|, a ratio of norms over the places that the layer reads: 0 if
            everything is kept, 1 if nothing is.
        equations: (n,), the number of responses that are known from the features.
        unknowns: the number of values of one input that the layer reads.
        method: ``"fft"`` or ``"cg"``.
        iterations: of conjugate gradients; 0 for the closed form.
        x: the input.
        read: the places of the input that reach the output of the layer. A stride may leave out
            a border or leave gaps.
        eigenvalues: (n, 2), of theorem 2.2: the smallest of the shifts in the input, and the
            largest of the shifts that pooling keeps.
        bound: (n,), the theorem's bound on the ratio; NaN where a shift that it needs is outside of
            all pooling regions, or is hidden by a bias.
        tighter_bound: (n,), the bound that the proof gives, sqrt(1 - smallest / largest).
        tolerance: at which conjugate gradients stopped; 0 for the closed form.
    """

    image: Tensor
    ratio: Tensor
    equations: Tensor
    unknowns: int
    method: str
    iterations: int
    x: Tensor
    read: Tensor
    eigenvalues: Tensor | None = None
    bound: Tensor | None = None
    tighter_bound: Tensor | None = None
    tolerance: float = 0.0

    _omitted = ("image", "x", "read", "tolerance")
    _properties = ("mean_ratio",)
    _finite = True

    @property
    def mean_ratio(self) -> float:
        """The mean of the ratios."""
        return float(self.ratio.mean())

    def plot(self, axes: Any = None, *, most: int = 8) -> Any:
        """Draw inputs over their reconstructions, for colour or grey images.

        Args:
            axes: matplotlib's axes, (2, n), or None for a new figure.
            most: the largest number of inputs to draw.

        Returns:
            The axes.
        """
        count = min(most, len(self.x))
        if axes is None:
            from matplotlib.figure import Figure

            figure = Figure(figsize=(1.4 * count, 3.2), layout="constrained")
            axes = figure.subplots(2, count, squeeze=False)
        inputs = self.x[:count]
        titles = [f"{ratio:.3f}" for ratio in self.ratio.tolist()]
        _draw_row(axes[0], _pictures(inputs, inputs), ["input"] * count)
        _draw_row(axes[1], _pictures(self.image[:count], inputs), titles)
        return axes

    def __str__(self) -> str:
        share = float(self.equations.double().mean()) / self.unknowns
        method = self.method
        if self.iterations:
            method = f"{method}, {self.iterations} iterations"
        ratio = f"mean ratio {self.mean_ratio:.4f}"
        return f"Reconstruction({ratio}, {share:.2f} equations per unknown, {method})"


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
    r"""Reconstruct inputs from the features of a convolution layer: :math:`x' = (W^T)^+ z`.

    The reconstruction is the shortest input with the responses that are known from the features.

    Args:
        conv: the convolution. Its bias is known and subtracted.
        x: inputs (n, C, *size).
        pool: a max-pooling after the unit. Only the responses that it keeps are known, for each
            sign (Algorithm 2). Without it every response may be known (Algorithm 1).
        unit: the name of a unit with its default options, or a module of one. A response is known
            if no other response has the same feature: everywhere with ``"crelu"`` and
            ``"leaky_relu"``, where it is positive with ``"relu"`` and ``"silu"``. A unit that
            determines no response (``"abs"``), or that combines several responses, is refused.
        method: ``"fft"`` is a closed form for circular convolutions of stride 1 without pooling,
            ``"cg"`` (conjugate gradients) works for all, ``"auto"`` uses the first that fits.
        tolerance: at which conjugate gradients stop, relative to the first residual.
        most_iterations: more iterations are an error.
        coefficients: for inputs that are sums of shifted filters, with at most one shift of a
            filter in a pooling region, the factors (n, K, *responses). Then the result has the
            bound of theorem 2.2,
            :math:`\sqrt{(\tilde\lambda_{\max} - \lambda_{\min}) / \lambda_{\min}}`, the tighter
            :math:`\sqrt{1 - \lambda_{\min} / \tilde\lambda_{\max}}`, and its eigenvalues.

    Conjugate gradients start from zero and are not preconditioned. So they converge to the
    solution of the pseudo-inverse. With a preconditioner they would not, if there are fewer
    responses than unknowns. No matrix is ever stored: the memory is that of a few copies of the
    input and the features.

    Shang et al., 2016, arXiv:1603.05201, sections 2.2 and 4.3. Corrections: the titles of the two
    algorithms mean without and with max-pooling, and :math:`x - x'` is in the kernel of
    :math:`W^T`. The printed proof of theorem 2.2 takes a response to have the sign of its
    coefficient. That is not always true, but the bound holds without it.
    """
    conv, x, features = _check(conv, x, unit, method)
    x = x.detach().double()
    eigenvalues = bound = tighter = None
    if coefficients is not None:
        eigenvalues, bound, tighter = pooling_bound(conv, x, pool, coefficients)
    keep = known_mask(conv, x, pool, features)
    has_closed_form = keep is None and solves_by_fft(conv, x)
    if method == "fft" and not has_closed_form:
        raise ArgumentError(
            "reconstruct: method='fft' needs a circular convolution that keeps the size, "
            "with all responses known",
            got=f"{conv}, pool={pool}, unit={features.name}",
            fix="method='cg'",
        )
    if has_closed_form and method != "cg":
        method = "fft"
        iterations = 0
        image = circular_solve(conv, x)
        count = torch.full((len(x),), features.channels * x[0, 0].numel())
    else:
        method = "cg"
        known = KnownResponses(conv, x, keep)
        image, iterations = conjugate_gradients(known, tolerance, most_iterations)
        count = known.count
    read = read_places(conv, tuple(x.shape[2:]), pool).to(x.device)
    lengths = (x * read).flatten(1).norm(dim=1).clamp(min=torch.finfo(x.dtype).tiny)
    return Reconstruction(
        image=image,
        ratio=((x - image) * read).flatten(1).norm(dim=1) / lengths,
        equations=count,
        unknowns=x.shape[1] * int(read.sum()),
        method=method,
        iterations=iterations,
        tolerance=tolerance if method == "cg" else 0.0,
        x=x,
        read=read,
        eigenvalues=eigenvalues,
        bound=bound,
        tighter_bound=tighter,
    )


def random_ratio(kept: int, dimension: int) -> float:
    r"""The mean of :math:`|x - Px| / |x|` for the projection on a random subspace.

    It is :math:`\Gamma(\frac{m+1}{2})\Gamma(\frac D2) / (\Gamma(\frac m2)\Gamma(\frac{D+1}{2}))`
    with :math:`m = D - k`. The paper's :math:`\sqrt{(D-k)/D}` (theorem A.6) is the root of the
    mean square, which is slightly larger.

    Args:
        kept: the dimension k of the subspace.
        dimension: the dimension D of the space.
    """
    check_count("random_ratio", "dimension", dimension)
    check_count("random_ratio", "kept", kept, least=0, most=dimension)
    rest = dimension - kept
    if rest == 0:
        return 0.0
    terms = math.lgamma((rest + 1) / 2) + math.lgamma(dimension / 2)
    return math.exp(terms - math.lgamma(rest / 2) - math.lgamma((dimension + 1) / 2))


def _draw_row(panels: Any, pictures: list[Any], titles: list[str]) -> None:
    for panel, picture, title in zip(panels, pictures, titles, strict=False):
        panel.imshow(picture, cmap="gray")
        panel.set_axis_off()
        panel.set_title(title, fontsize=7)


def _check(
    conv: nn.Module,
    x: Tensor,
    unit: str | nn.Module,
    method: str,
) -> tuple[Any, Tensor, InvertibleFeatures]:
    if not isinstance(conv, CONVOLUTIONS):
        raise ArgumentError(
            "reconstruct: conv must be a convolution",
            got=type(conv).__name__,
            allowed="Conv1d to Conv3d",
        )
    if method not in METHODS:
        raise ArgumentError(
            "reconstruct: no such method",
            got=method,
            allowed=", ".join(map(repr, METHODS)),
        )
    check_real("reconstruct", conv.weight, "the convolution's weights")
    is_tensor = isinstance(x, Tensor) and x.dim() == conv.weight.dim() and len(x)
    if not is_tensor or x.shape[1] != conv.in_channels:
        raise ArgumentError(
            "reconstruct: x does not fit the convolution",
            got=tuple(x.shape) if isinstance(x, Tensor) else type(x).__name__,
            allowed=f"(n, {conv.in_channels}, *size)",
        )
    if not x.is_floating_point() or not _is_finite(x):
        raise ArgumentError("reconstruct: x must be finite floating-point numbers", got=x.dtype)
    if not _is_finite(conv.weight):
        raise ArgumentError("reconstruct: the convolution's weights are not finite")
    _check_size(conv, x)
    return conv, x, InvertibleFeatures(unit, conv.out_channels)


def _check_size(conv: Any, x: Tensor) -> None:
    """Raise if inputs are too small for the kernel: the layer fails, the closed form would not."""
    fits = True
    for size, step, length in zip(x.shape[2:], conv.dilation, conv.kernel_size, strict=True):
        fits = fits and size > step * (length - 1)
    if fits:  # even without padding
        return
    weight = conv.weight.detach().to("meta", x.dtype)
    try:
        conv._conv_forward(x[:1].to("meta"), weight, None)  # computes only shapes
    except RuntimeError as problem:
        raise ArgumentError(
            f"reconstruct: the convolution cannot be applied to x ({str(problem).splitlines()[0]})",
            got=tuple(x.shape),
            fix="larger inputs",
        ) from None


def _is_finite(values: Tensor) -> bool:
    """Whether all numbers are finite. A finite sum, which is the usual case, is enough to know."""
    return math.isfinite(values.detach().sum().item()) or bool(values.isfinite().all())


def _pictures(images: Tensor, scale_of: Tensor) -> list[Any]:
    """Images as arrays between 0 and 1, on the scale of the images ``scale_of``."""
    if images.dim() != 4 or images.shape[1] not in (1, 3):
        raise ArgumentError("only colour or grey images can be shown", got=tuple(images.shape))
    low = scale_of.flatten(1).amin(1)[:, None, None, None]
    high = scale_of.flatten(1).amax(1)[:, None, None, None]
    scaled = ((images - low) / (high - low).clamp(min=1e-12)).clamp(0, 1)
    return [image.permute(1, 2, 0).squeeze(-1).numpy() for image in scaled]
