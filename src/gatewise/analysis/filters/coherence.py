"""How far the filters of each layer are from orthogonal: coherence, Gram spectrum, frame bounds."""

from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.filters.filter_rows import Filters, find_filters


@dataclass(frozen=True, eq=False)
class LayerOrthogonality:
    """What the filters of one layer are to each other, taken at unit length and as they are."""

    name: str
    filters: int  # K
    length: int  # D
    coherence: float  # the largest |cosine| between two filters
    least_coherence: (
        float  # the smallest that K directions in D dimensions can have (Welch's bound)
    )
    spectrum: (
        Tensor  # (min(K, D),) squared singular values of the unit-length filters, largest first
    )
    frame_bounds: tuple[
        float, float
    ]  # least and largest of |W x|^2 / |x|^2, over the span and over everything
    # sum of squared cosines over ordered pairs of different filters: 0 where all are orthogonal
    overlap: float
    zero_filters: int

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file."""
        return {
            **self.__dict__,
            "spectrum": self.spectrum.tolist(),
            "frame_bounds": list(self.frame_bounds),
        }


@dataclass(frozen=True, eq=False)
class Orthogonality:
    """The answer of :func:`orthogonality`, one entry a layer."""

    layers: tuple[LayerOrthogonality, ...]

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file."""
        return {"layers": [layer.to_dict() for layer in self.layers]}

    def plot(self, axes: Any = None) -> Any:
        """The Gram spectra, one line a layer: flat at 1 is orthogonal. Returns the axes."""
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(figsize=(5.5, 3.6), layout="constrained").subplots()
        for layer in self.layers:
            place = torch.linspace(0, 1, len(layer.spectrum)).tolist()
            axes.plot(place, layer.spectrum.tolist(), label=layer.name, linewidth=1)
        axes.axhline(1, color="grey", linewidth=0.7, linestyle=":")
        axes.set(xlabel="share of the directions", ylabel="squared singular value", yscale="symlog")
        if len(self.layers) <= 12:
            axes.legend(fontsize=6)
        return axes

    def __repr__(self) -> str:
        lines = [f"{'layer':32} filters  length  coherence (least)  frame bounds"]
        for layer in self.layers:
            low, high = layer.frame_bounds
            facts = f"{layer.filters:7} {layer.length:7}  {layer.coherence:9.3f} ({layer.least_coherence:.3f})"
            lines.append(f"{layer.name[:32]:32} {facts}    {low:.3g} to {high:.3g}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


def orthogonality(
    model: nn.Module, *, where: str | Callable[[str], bool] | None = None
) -> Orthogonality:
    r"""Coherence, Gram spectrum and frame bounds of the filters of every convolution, or of every linear layer.

    Linear layers are looked at where there is no convolution. Filters are flattened, as in the experiments of
    Balestriero and Baraniuk, 2019 (arXiv:1810.09274): orthogonal filters are not an orthogonal convolution.

    The frame bounds :math:`a |x|^2 \le |Wx|^2 \le b |x|^2` are for the filters as
    they are; ``a`` is over the span of the filters where they are fewer than their length. Welch's bound says how
    incoherent K directions in D dimensions can be at all.
    """
    return Orthogonality(
        tuple(_look(layer) for layer in find_filters("orthogonality", model, where))
    )


def welch_bound(count: int, dimension: int) -> float:
    """The least coherence that ``count`` directions in ``dimension`` dimensions can have."""
    if count <= dimension:
        return 0.0
    return ((count - dimension) / (dimension * (count - 1))) ** 0.5


def _look(layer: Filters) -> LayerOrthogonality:
    rows = layer.rows
    lengths = rows.norm(dim=1)
    unit = rows[lengths > 0] / lengths[lengths > 0, None]
    cosines = unit @ unit.T
    cosines.fill_diagonal_(0)
    own = torch.linalg.svdvals(rows).square()
    least = own[own > own[:1].max(torch.tensor(0.0)) * len(rows) * torch.finfo(torch.float64).eps]
    return LayerOrthogonality(
        name=layer.name,
        filters=len(rows),
        length=rows.shape[1],
        coherence=float(cosines.abs().max()) if len(unit) > 1 else 0.0,
        least_coherence=welch_bound(len(rows), rows.shape[1]),
        spectrum=torch.linalg.svdvals(unit).square() if len(unit) else torch.zeros(0),
        frame_bounds=(float(least.min()), float(least.max())) if len(least) else (0.0, 0.0),
        overlap=float(cosines.square().sum()),
        zero_filters=int((lengths == 0).sum()),
    )
