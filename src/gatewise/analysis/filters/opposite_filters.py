"""Do the filters of a layer come in pairs of opposite phase, more than chance would have it?"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.filters.filter_rows import Filters, find_filters
from gatewise.analysis.filters.random_phases import excess, excess_by_chance, p_of_excess
from gatewise.errors import ArgumentError, Limitation, NotApplicableError, unknown_name
from gatewise.stats import holm, p_at_most

PHASES = 300  # times that the signs of a layer's filters are drawn


@dataclass(frozen=True, eq=False)
class LayerPairing:
    """The pairing of one layer's filters, beside that of random filters of the same shape and number."""

    name: str
    weight: Tensor  # (K, ...) as the layer holds it
    partner: Tensor  # (K,) the filter each correlates with most negatively
    correlation: Tensor  # (K,) with that partner; NaN for a filter that is all zero
    chance: Tensor  # (draws, K) correlations of random unit-norm Gaussian filters
    p_value: float  # that random filters have a mean as negative as this, before correction
    similar: Tensor  # (K,) correlation with the filter that each is most like
    # that the same filters with random signs are as much more opposite than alike, before
    # correction
    p_phases: float

    @property
    def mean(self) -> float:
        """The mean correlation with the partner; NaN where no two filters have a direction."""
        return float(self.correlation.nanmean())

    @property
    def chance_mean(self) -> float:
        """What random filters give on average."""
        return float(self.chance.mean())

    @property
    def similar_mean(self) -> float:
        """The mean correlation with the most similar filter.

        Of random ones it would be ``-chance_mean``.
        """
        return float(self.similar.nanmean())

    @property
    def zero_filters(self) -> int:
        """How many filters are all zero, and so have no direction."""
        return int(self.correlation.isnan().sum())


@dataclass(frozen=True, eq=False)
class Pairing:
    """The answer of :func:`pairing`.

    One entry a layer, and the p-values corrected for their number.
    """

    layers: tuple[LayerPairing, ...]
    p_values: tuple[float, ...]  # against random filters, with Holm's correction over the layers
    p_phases: tuple[float, ...]  # against the same filters with random signs, likewise
    left_out: tuple[str, ...]  # layers with fewer than three filters: nothing to pair
    seed: int

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file."""
        rows = []
        for layer, p, phases in zip(self.layers, self.p_values, self.p_phases, strict=True):
            rows.append(
                {
                    "layer": layer.name,
                    "filters": len(layer.partner),
                    "length": layer.weight[0].numel(),
                    "mean": _number(layer.mean),
                    "chance_mean": layer.chance_mean,
                    "p": layer.p_value,
                    "p_corrected": p,
                    "similar_mean": _number(layer.similar_mean),
                    "p_phases": layer.p_phases,
                    "p_phases_corrected": phases,
                    "zero_filters": layer.zero_filters,
                    "partner": layer.partner.tolist(),
                    "correlation": _numbers(layer.correlation),
                    "similar": _numbers(layer.similar),
                }
            )
        return {"layers": rows, "left_out": list(self.left_out), "seed": self.seed}

    def plot(self, axes: Any = None) -> Any:
        """Histograms of the correlations (blue) and of random filters' (red), a panel a layer.

        Returns the axes.
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
        """Each filter of a layer of colour or grey images beside its partner, the most opposite pairs first: a figure.

        ``layer`` is the first one unless named.
        """
        chosen = (
            self.layers[0]
            if layer is None
            else next((one for one in self.layers if one.name == layer), None)
        )
        if chosen is None:
            raise unknown_name("layer", layer, [one.name for one in self.layers])
        return _picture(chosen)

    def __repr__(self) -> str:
        lines = [f"{'layer':32} filters   mean  chance  p (Holm)  similar  p of phases (Holm)"]
        for layer, p, phases in zip(self.layers, self.p_values, self.p_phases, strict=True):
            facts = (
                f"{len(layer.partner):7}  {layer.mean:+.2f}   {layer.chance_mean:+.2f}  {p:<8.2g}"
            )
            facts += f"    {layer.similar_mean:+.2f}  {phases:.2g}"
            lines.append(f"{layer.name[:32]:32} {facts}")
        lines += [f"{name}: left out, fewer than three filters" for name in self.left_out]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


def pairing(
    model: nn.Module,
    *,
    where: str | Callable[[str], bool] | None = None,
    draws: int = 30,
    seed: int = 0,
) -> Pairing:
    r"""The pairing filter of every filter, and whether pairs are closer to opposite than chance would have them.

    For unit-length filters :math:`\phi_i` of a layer, the partner is :math:`\arg\min_j \langle\phi_i, \phi_j\rangle`
    and the correlation is that minimum: -1 for a filter whose exact negative is there too. Random filters have negative
    minima as well, the more so the shorter and the more numerous they are: ``draws`` sets of them, of the same shape
    and number, say how negative.

    Args:
        model: any module; its convolutions are looked at, or its linear layers if it has none. where: a pattern of
            layer names such as ``"features.*"``, or a function of the name. draws: random sets a layer. seed: theirs.

    The p-value is Student's for the layer's mean as one more draw of the set means: the correlations of one layer are
    not independent (partners are mutual), so they are not counted one by one. Holm's correction is over the layers.

    Filters near a few directions are far from random too, and no pairs: they are as alike as they are opposite. So the
    most similar filter is looked at as well, :math:`\max_j \langle\phi_i, \phi_j\rangle`. How much further the
    partners' mean is from 0 than the mean of those is compared with the same filters under random signs,
    :math:`\pm\phi_i`, which leave every line where it is and are 0 on average: ``p_phases``. Pairs are both.

    Shang et al., 2016, arXiv:1603.05201, section 2.1 and figures 1, 2 and 5.
    """
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 3:
        raise ArgumentError(
            "pairing: draws must be a number of random sets", got=draws, allowed="an integer >= 3"
        )
    if isinstance(seed, bool) or not isinstance(seed, int) or not -(2**63) <= seed < 2**63:
        raise ArgumentError(
            "pairing: seed must be a whole number", got=seed, allowed="-2^63 to 2^63 - 1"
        )
    found = find_filters("pairing", model, where)
    enough = [layer for layer in found if len(layer.weight) > 2 and layer.weight[0].numel() > 1]
    if not enough:
        raise NotApplicableError(
            Limitation.NO_FILTERS,
            "pairing: no layer has three filters of two numbers or more",
            got=found[0].name,
        )
    filters, signs = (torch.Generator().manual_seed(seed) for _ in range(2))
    layers = tuple(_pair(layer, draws, filters, signs) for layer in enough)
    left_out = tuple(layer.name for layer in found if layer not in enough)
    corrected, phases = (
        tuple(holm(each))
        for each in zip(*((one.p_value, one.p_phases) for one in layers), strict=True)
    )
    return Pairing(layers, corrected, phases, left_out, seed)


def partners(rows: Tensor) -> tuple[Tensor, Tensor]:
    """For rows (..., K, D).

    The index of the row that each correlates with most negatively, and that correlation.
    """
    return _lowest(_cosines(rows))


def _cosines(rows: Tensor) -> Tensor:
    """Of every two rows (..., K, D); NaN for a row that is all zero."""
    largest = rows.abs().amax(-1, keepdim=True)
    far = (
        torch.finfo(rows.dtype).max ** 0.25
    )  # whose square is far from overflow, and its inverse's from 0
    strange = (largest > far) | ((largest < 1 / far) & (largest > 0))
    unit = nn.functional.normalize(torch.where(strange, rows / largest, rows), dim=-1, eps=0.0)
    return unit @ unit.mT


def _lowest(gram: Tensor) -> tuple[Tensor, Tensor]:
    """Where the lowest cosine with another row is, and that.

    NaN for a row that is all zero, or has no other.
    """
    zero = gram.diagonal(dim1=-2, dim2=-1).isnan()
    others = gram.nan_to_num(nan=torch.inf)
    others.diagonal(dim1=-2, dim2=-1).fill_(torch.inf)
    lowest, where = others.min(-1)
    return where, lowest.masked_fill(zero | lowest.isinf(), torch.nan)


def _pair(
    layer: Filters, draws: int, filters: torch.Generator, signs: torch.Generator
) -> LayerPairing:
    rows = layer.rows
    gram = _cosines(rows)
    partner, correlation = _lowest(gram)
    random = (partners(torch.randn(rows.shape, generator=filters))[1] for _ in range(draws))
    chance = torch.stack(list(random)).double()
    p_value = p_at_most(float(correlation.nanmean()), chance.mean(1))
    similar, p_phases = -_lowest(-gram)[1], _p_phases(gram, signs)
    return LayerPairing(
        layer.name, layer.weight, partner, correlation, chance, p_value, similar, p_phases
    )


def _p_phases(gram: Tensor, generator: torch.Generator) -> float:
    known = ~gram.diagonal().isnan()
    lines = gram[known][:, known]
    if len(lines) < 2:
        return 1.0
    return p_of_excess(excess(lines), excess_by_chance(lines, PHASES, generator))


def _numbers(values: Tensor) -> list[float | None]:
    return [_number(each) for each in values.tolist()]


def _number(value: float) -> float | None:
    return None if math.isnan(value) else value


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
    for panel, place in zip(
        figure.subplots(rows, columns, squeeze=False).flat, order, strict=False
    ):
        pair = weight[[place, int(layer.partner[place])]].float()
        scale = pair.flatten(1).abs().amax(1).clamp(min=1e-12)[:, None, None, None]
        shown = (0.5 + pair / (2 * scale)).permute(0, 2, 3, 1)
        panel.imshow(
            torch.cat((shown[0], torch.ones_like(shown[0][:, :1]), shown[1]), 1)
            .squeeze(-1)
            .numpy(),
            cmap="gray",
        )
        panel.set_title(f"{float(layer.correlation[place]):+.2f}", fontsize=6, pad=1)
    for panel in figure.axes:
        panel.set_axis_off()
    return figure


def _histogram(layer: LayerPairing, panel: Any) -> None:
    bins = [edge / 20 for edge in range(-20, 11)]
    shown = layer.correlation[~layer.correlation.isnan()].tolist()
    panel.hist(
        layer.chance.flatten().tolist(),
        bins,
        density=True,
        color="tab:red",
        alpha=0.55,
        label="random",
    )
    if shown:
        panel.hist(shown, bins, density=True, color="tab:blue", alpha=0.65, label="filters")
    panel.set_title(
        f"{layer.name}: {layer.mean:+.2f} ({layer.chance_mean:+.2f} by chance)", fontsize=8
    )
    panel.set_xlabel("correlation with the partner", fontsize=7)
