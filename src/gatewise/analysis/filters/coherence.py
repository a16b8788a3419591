"""How far the filters of each layer are from orthogonal: coherence, Gram spectrum, frame bounds."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.filters.filter_rows import Filters, find_filters
from gatewise.analysis.record import AnalysisResult, new_axes


@dataclass(frozen=True, eq=False)
class LayerOrthogonality(AnalysisResult):
    """Measures of orthogonality of the filters of one layer.

    Attributes:
        name: the name of the layer.
        filters: the number K of filters.
        length: the number D of weights of a filter.
        coherence: the largest absolute cosine between two filters.
        least_coherence: the smallest coherence of K directions in D dimensions (Welch's bound).
        spectrum: (min(K, D),), squared singular values of the unit-length filters, descending.
        frame_bounds: the smallest |W x|^2 / |x|^2 over the span of the filters, and the largest
            over all x. Filters have their own lengths here.
        overlap: the sum of squared cosines over ordered pairs of different filters; 0 if all are
            orthogonal.
        zero_filters: the number of filters that are all zero.
    """

    name: str
    filters: int
    length: int
    coherence: float
    least_coherence: float
    spectrum: Tensor
    frame_bounds: tuple[float, float]
    overlap: float
    zero_filters: int


@dataclass(frozen=True, eq=False)
class Orthogonality(AnalysisResult):
    """The result of :func:`orthogonality`, one entry per layer."""

    layers: tuple[LayerOrthogonality, ...]

    def plot(self, axes: Any = None) -> Any:
        """Draw the Gram spectrum of each layer; flat at 1 is orthogonal. Returns the axes."""
        axes = new_axes((5.5, 3.6)) if axes is None else axes
        for layer in self.layers:
            place = torch.linspace(0, 1, len(layer.spectrum)).tolist()
            axes.plot(place, layer.spectrum.tolist(), label=layer.name, linewidth=1)
        axes.axhline(1, color="grey", linewidth=0.7, linestyle=":")
        axes.set(xlabel="share of the directions", ylabel="squared singular value", yscale="symlog")
        if len(self.layers) <= 12:
            axes.legend(fontsize=6)
        return axes

    def __str__(self) -> str:
        lines = [f"{'layer':32} filters  length  coherence (least)  frame bounds"]
        for layer in self.layers:
            low, high = layer.frame_bounds
            coherence = f"{layer.coherence:9.3f} ({layer.least_coherence:.3f})"
            sizes = f"{layer.filters:7} {layer.length:7}"
            bounds = f"{low:.3g} to {high:.3g}"
            lines.append(f"{layer.name[:32]:32} {sizes}  {coherence}    {bounds}")
        return "\n".join(lines)


def orthogonality(
    model: nn.Module, *, where: str | Callable[[str], bool] | None = None
) -> Orthogonality:
    r"""Measure coherence, Gram spectrum and frame bounds of the filters of every convolution.

    In a model without convolutions, the linear layers are measured. Filters are flattened, as in
    the experiments of Balestriero and Baraniuk, 2019 (arXiv:1810.09274). Orthogonal filters do not
    make an orthogonal convolution.

    The frame bounds :math:`a |x|^2 \le |Wx|^2 \le b |x|^2` hold for the filters with their
    lengths; ``a`` is over the span of the filters if they are fewer than their length. Welch's
    bound is the smallest possible coherence of K directions in D dimensions.

    Args:
        model: the model.
        where: a pattern of layer names, a function of the name, or None for the convolutions,
            or the linear layers of a model without one.
    """
    return Orthogonality(tuple(map(_measure, find_filters("orthogonality", model, where))))


def welch_bound(count: int, dimension: int) -> float:
    """The smallest possible coherence of ``count`` directions in ``dimension`` dimensions."""
    if count <= dimension:
        return 0.0
    return ((count - dimension) / (dimension * (count - 1))) ** 0.5


def _measure(layer: Filters) -> LayerOrthogonality:
    rows = layer.rows
    lengths = rows.norm(dim=1)
    unit = rows[lengths > 0] / lengths[lengths > 0, None]
    cosines = unit @ unit.T
    cosines.fill_diagonal_(0)
    squares = torch.linalg.svdvals(rows).square()
    rounding = squares[:1].max(torch.tensor(0.0)) * len(rows) * torch.finfo(torch.float64).eps
    bounds = squares[squares > rounding]  # over the span of the filters
    return LayerOrthogonality(
        name=layer.name,
        filters=len(rows),
        length=rows.shape[1],
        coherence=float(cosines.abs().max()) if len(unit) > 1 else 0.0,
        least_coherence=welch_bound(len(rows), rows.shape[1]),
        spectrum=torch.linalg.svdvals(unit).square() if len(unit) else torch.zeros(0),
        frame_bounds=(float(bounds.min()), float(bounds.max())) if len(bounds) else (0.0, 0.0),
        overlap=float(cosines.square().sum()),
        zero_filters=int((lengths == 0).sum()),
    )
