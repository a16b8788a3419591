"""Whether the filters of a layer come in opposite pairs, more than random filters do."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.filters.filter_rows import Filters, find_filters
from gatewise.analysis.filters.random_phases import excess, excess_by_chance, p_of_excess
from gatewise.analysis.record import AnalysisResult
from gatewise.checks import is_size
from gatewise.errors import ArgumentError, Limitation, NotApplicableError, unknown_name
from gatewise.stats import holm, p_at_most

SIGN_DRAWS = 300  # how often the signs of a layer's filters are drawn


@dataclass(frozen=True, eq=False)
class LayerPairing(AnalysisResult):
    """The pairing of one layer's filters, and that of random filters of the same shape and number.

    Attributes:
        name: the name of the layer.
        weight: (K, ...), the layer's weight.
        partner: (K,), the filter that each filter correlates with most negatively.
        correlation: (K,), the correlation with that partner; NaN for a filter that is all zero.
        chance: (draws, K), the correlations of random unit-norm Gaussian filters.
        p_value: the probability that random filters have so negative a mean, before correction.
        similar: (K,), the correlation with the most similar filter.
        p_phases: the probability that the same filters with random signs are so much more opposite
            than similar, before correction.
    """

    name: str
    weight: Tensor
    partner: Tensor
    correlation: Tensor
    chance: Tensor
    p_value: float
    similar: Tensor
    p_phases: float

    _renamed = MappingProxyType({"name": "layer", "p_value": "p"})
    _omitted = ("weight", "chance")
    _properties = ("filters", "length", "mean", "chance_mean", "similar_mean", "zero_filters")
    _finite = True

    @property
    def filters(self) -> int:
        """The number of filters."""
        return len(self.partner)

    @property
    def length(self) -> int:
        """The number of weights of a filter."""
        return self.weight[0].numel()

    @property
    def mean(self) -> float:
        """The mean correlation with the partner; NaN unless two filters are not zero."""
        return float(self.correlation.nanmean())

    @property
    def chance_mean(self) -> float:
        """The mean correlation of random filters with their partners."""
        return float(self.chance.mean())

    @property
    def similar_mean(self) -> float:
        """The mean correlation with the most similar filter; ``-chance_mean`` if random."""
        return float(self.similar.nanmean())

    @property
    def zero_filters(self) -> int:
        """The number of filters that are all zero."""
        return int(self.correlation.isnan().sum())


@dataclass(frozen=True, eq=False)
class Pairing(AnalysisResult):
    """The result of :func:`pairing`.

    Attributes:
        layers: one entry per layer.
        p_values: compared with random filters, with Holm's correction over the layers.
        p_phases: compared with the same filters with random signs, with the same correction.
        left_out: layers with fewer than three filters, which cannot be paired.
        seed: the seed of the random filters and signs.
    """

    layers: tuple[LayerPairing, ...]
    p_values: tuple[float, ...]
    p_phases: tuple[float, ...]
    left_out: tuple[str, ...]
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a file."""
        rows = []
        for layer, p, phases in zip(self.layers, self.p_values, self.p_phases, strict=True):
            rows.append(layer.to_dict() | {"p_corrected": p, "p_phases_corrected": phases})
        return {"layers": rows, "left_out": list(self.left_out), "seed": self.seed}

    def plot(self, axes: Any = None) -> Any:
        """Draw histograms of the correlations (blue) and those of random filters (red).

        Each layer has one panel. Returns the axes.
        """
        if axes is None:
            from matplotlib.figure import Figure

            columns = min(len(self.layers), 4)
            rows = math.ceil(len(self.layers) / columns)
            figure = Figure(figsize=(3 * columns, 2.3 * rows), layout="constrained")
            axes = list(figure.subplots(rows, columns, squeeze=False, sharex=True).flat)
        for layer, panel in zip(self.layers, axes, strict=False):
            _histogram(layer, panel)
        for panel in axes[len(self.layers) :]:
            panel.set_visible(False)
        return axes

    def picture(self, layer: str | None = None) -> Any:
        """Return a figure of filters next to their partners, the most opposite pairs first.

        Args:
            layer: the name of a layer with filters of colour or grey images; the first if None.
        """
        by_name = {entry.name: entry for entry in self.layers}
        if layer is None:
            return _picture(self.layers[0])
        if layer not in by_name:
            raise unknown_name("layer", layer, by_name)
        return _picture(by_name[layer])

    def __str__(self) -> str:
        lines = [f"{'layer':32} filters   mean  chance  p (Holm)  similar  p of phases (Holm)"]
        for layer, p, phases in zip(self.layers, self.p_values, self.p_phases, strict=True):
            means = f"{layer.mean:+.2f}   {layer.chance_mean:+.2f}  {p:<8.2g}"
            signs = f"{layer.similar_mean:+.2f}  {phases:.2g}"
            lines.append(f"{layer.name[:32]:32} {len(layer.partner):7}  {means}    {signs}")
        lines += [f"{name}: left out, fewer than three filters" for name in self.left_out]
        return "\n".join(lines)


def pairing(
    model: nn.Module,
    *,
    where: str | Callable[[str], bool] | None = None,
    draws: int = 30,
    seed: int = 0,
) -> Pairing:
    r"""Find the most opposite filter of every filter, and test whether pairs are due to chance.

    For unit-length filters :math:`\phi_i` of a layer, the partner is
    :math:`\arg\min_j \langle\phi_i, \phi_j\rangle`, and the correlation is that minimum. It is -1
    for a filter whose exact negative is in the layer. Random filters have negative minima as well,
    the more so the shorter and the more numerous they are. So the layer is compared with ``draws``
    sets of random filters of the same shape and number.

    The p-value is Student's, for the layer's mean as one more draw of the means of the sets. The
    correlations of one layer are not independent (partners are mutual), so they do not count
    separately. Holm's correction is over the layers.

    Filters near a few directions also differ from random filters, without being pairs: they are
    as similar as they are opposite. So the most similar filter,
    :math:`\max_j \langle\phi_i, \phi_j\rangle`, is used as well. The difference between the two
    means is compared with that of the same filters with random signs, :math:`\pm\phi_i`, which is
    0 on average: ``p_phases``. Filters are pairs if both p-values are small.

    Args:
        model: any module.
        where: a pattern of layer names such as ``"features.*"``, a function of the name, or None
            for the convolutions, or the linear layers of a model without one.
        draws: the number of random sets per layer.
        seed: the seed of the random filters and signs.

    Shang et al., 2016, arXiv:1603.05201, section 2.1 and figures 1, 2 and 5.
    """
    if not is_size(draws, 3, math.inf):
        raise ArgumentError(
            "pairing: draws must be a number of random sets",
            got=draws,
            allowed="an integer >= 3",
        )
    if not is_size(seed, -(2**63), 2**63 - 1):
        raise ArgumentError(
            "pairing: seed must be a whole number",
            got=seed,
            allowed="-2^63 to 2^63 - 1",
        )
    random_filters = torch.Generator().manual_seed(seed)
    random_signs = torch.Generator().manual_seed(seed)
    layers = []
    left_out = []
    for filters in find_filters("pairing", model, where):
        if len(filters.weight) > 2 and filters.weight[0].numel() > 1:
            layers.append(_pair(filters, draws, random_filters, random_signs))
        else:
            left_out.append(filters.name)
    if not layers:
        raise NotApplicableError(
            Limitation.NO_FILTERS,
            "pairing: no layer has three filters of two numbers or more",
            got=left_out[0],
        )
    return Pairing(
        layers=tuple(layers),
        p_values=tuple(holm([layer.p_value for layer in layers])),
        p_phases=tuple(holm([layer.p_phases for layer in layers])),
        left_out=tuple(left_out),
        seed=seed,
    )


def partners(rows: Tensor) -> tuple[Tensor, Tensor]:
    """For each of the rows (..., K, D) the row it correlates with most negatively.

    Returns:
        The indices of those rows, and the correlations, (..., K) each.
    """
    return _lowest(_cosines(rows))


def _cosines(rows: Tensor) -> Tensor:
    """The cosines of all pairs of rows (..., K, D); NaN for a row that is all zero."""
    largest = rows.abs().amax(-1, keepdim=True)
    # The square of this limit is far from overflow, and that of its inverse far from 0.
    limit = torch.finfo(rows.dtype).max ** 0.25
    is_extreme = (largest > limit) | ((largest < 1 / limit) & (largest > 0))
    scaled = torch.where(is_extreme, rows / largest, rows)
    unit = nn.functional.normalize(scaled, dim=-1, eps=0.0)
    return unit @ unit.mT


def _lowest(gram: Tensor) -> tuple[Tensor, Tensor]:
    """The index of the lowest cosine with another row, and that cosine.

    The cosine is NaN for a row that is all zero, or has no other row.
    """
    zero = gram.diagonal(dim1=-2, dim2=-1).isnan()
    others = gram.nan_to_num(nan=torch.inf)
    others.diagonal(dim1=-2, dim2=-1).fill_(torch.inf)
    lowest, where = others.min(-1)
    return where, lowest.masked_fill(zero | lowest.isinf(), torch.nan)


def _pair(
    layer: Filters,
    draws: int,
    filters: torch.Generator,
    signs: torch.Generator,
) -> LayerPairing:
    rows = layer.rows
    gram = _cosines(rows)
    partner, correlation = _lowest(gram)
    random = []
    for _ in range(draws):
        _, lowest = partners(torch.randn(rows.shape, generator=filters))
        random.append(lowest)
    chance = torch.stack(random).double()
    return LayerPairing(
        name=layer.name,
        weight=layer.weight,
        partner=partner,
        correlation=correlation,
        chance=chance,
        p_value=p_at_most(float(correlation.nanmean()), chance.mean(1)),
        similar=-_lowest(-gram)[1],
        p_phases=_p_phases(gram, signs),
    )


def _p_phases(gram: Tensor, generator: torch.Generator) -> float:
    nonzero = ~gram.diagonal().isnan()
    gram = gram[nonzero][:, nonzero]
    if len(gram) < 2:
        return 1.0
    return p_of_excess(excess(gram), excess_by_chance(gram, SIGN_DRAWS, generator))


def _picture(layer: LayerPairing) -> Any:
    from matplotlib.figure import Figure

    weight = layer.weight
    if weight.dim() != 4 or weight.shape[1] not in (1, 3):
        raise ArgumentError(
            "pairing: only filters of colour or grey images make a picture",
            got=f"{layer.name!r}: {tuple(weight.shape)}",
            allowed="(K, 1 or 3, height, width)",
        )
    order = layer.correlation.nan_to_num(nan=2.0).argsort().tolist()
    columns = min(8, len(order))
    rows = math.ceil(len(order) / columns)
    figure = Figure(figsize=(1.5 * columns, 0.9 * rows), layout="constrained")
    panels = figure.subplots(rows, columns, squeeze=False).flat
    for panel, place in zip(panels, order, strict=False):
        pair = weight[[place, int(layer.partner[place])]].float()
        scale = pair.flatten(1).abs().amax(1).clamp(min=1e-12)[:, None, None, None]
        left, right = (0.5 + pair / (2 * scale)).permute(0, 2, 3, 1)
        gap = torch.ones_like(left[:, :1])
        panel.imshow(torch.cat((left, gap, right), 1).squeeze(-1).numpy(), cmap="gray")
        panel.set_title(f"{float(layer.correlation[place]):+.2f}", fontsize=6, pad=1)
    for panel in figure.axes:
        panel.set_axis_off()
    return figure


def _histogram(layer: LayerPairing, panel: Any) -> None:
    bins = [edge / 20 for edge in range(-20, 11)]
    shown = layer.correlation[~layer.correlation.isnan()].tolist()
    random = layer.chance.flatten().tolist()
    panel.hist(random, bins, density=True, color="tab:red", alpha=0.55, label="random")
    if shown:
        panel.hist(shown, bins, density=True, color="tab:blue", alpha=0.65, label="filters")
    title = f"{layer.name}: {layer.mean:+.2f} ({layer.chance_mean:+.2f} by chance)"
    panel.set_title(title, fontsize=8)
    panel.set_xlabel("correlation with the partner", fontsize=7)
