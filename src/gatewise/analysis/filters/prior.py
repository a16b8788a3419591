"""The prior probability of each region of a unit, before any input is seen."""

from collections.abc import Callable
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.filters.filter_rows import Filters, find_filters
from gatewise.analysis.record import AnalysisResult, new_axes
from gatewise.checks import check_count, check_number


@dataclass(frozen=True, eq=False)
class LayerPrior(AnalysisResult):
    """The prior of the region where a unit of a layer is positive, now and at initialisation.

    Attributes:
        name: the name of the layer.
        active: (K,), the prior for each filter, with the layer's weights and offsets.
        length: the number of weights of a filter.
        xavier: the mean for filters of normal numbers with variance 1 / length.
        he: the same with variance 2 / length.
        own: the mean over draws of the user's initialiser, or None.
    """

    name: str
    active: Tensor
    length: int
    xavier: float
    he: float
    own: float | None

    _renamed = MappingProxyType({"name": "layer"})
    _properties = ("mean",)

    @property
    def mean(self) -> float:
        """The mean over filters."""
        return float(self.active.mean())


@dataclass(frozen=True, eq=False)
class RegionPrior(AnalysisResult):
    """The result of :func:`region_prior`, one entry per layer."""

    layers: tuple[LayerPrior, ...]
    slope: float

    def plot(self, axes: Any = None) -> Any:
        """Draw the priors of each layer as points, and the means at initialisation as lines.

        Returns the axes.
        """
        axes = new_axes((6, 3.5)) if axes is None else axes
        for place, layer in enumerate(self.layers):
            places = [place] * len(layer.active)
            axes.plot(places, layer.active.numpy(), ".", color="tab:blue", alpha=0.3)
        for rule, colour in (("xavier", "tab:orange"), ("he", "tab:green"), ("own", "tab:red")):
            values = [getattr(layer, rule) for layer in self.layers]
            if None not in values:
                label = f"at start: {rule}"
                axes.plot(range(len(values)), values, "_", markersize=14, color=colour, label=label)
        names = [layer.name for layer in self.layers]
        axes.set_xticks(range(len(names)), names, rotation=60, fontsize=7)
        axes.set_ylabel("prior of the active region")
        axes.legend(fontsize=7)
        return axes

    def __str__(self) -> str:
        lines = [f"{'layer':32} filters  now   Xavier  He    own"]
        for layer in self.layers:
            own = "" if layer.own is None else f"{layer.own:.3f}"
            initial = f"{layer.xavier:.3f}   {layer.he:.3f} {own}"
            lines.append(f"{layer.name[:32]:32} {len(layer.active):7}  {layer.mean:.3f} {initial}")
        return "\n".join(lines)


def region_prior(
    model: nn.Module,
    *,
    slope: float = 0.0,
    where: str | Callable[[str], bool] | None = None,
    own: Callable[[Tensor], object] | None = None,
    draws: int = 20,
    seed: int = 0,
) -> RegionPrior:
    r"""The prior of each unit's active region, for a max-affine layer as a mixture of Gaussians.

    A unit with pieces :math:`\langle A_r, z\rangle + B_r` has regions of prior
    :math:`\pi_r \propto e^{B_r + \|A_r\|^2 / 2}`. With the pieces :math:`\langle a, z\rangle + b`
    and ``slope`` times that, the active region has the prior

    .. math:: \pi = \sigma\bigl((1 - s^2)\,\|a\|^2 / 2 + (1 - s)\,b\bigr)

    so :math:`\sigma(\|a\|^2/2 + b)` for ReLU and :math:`\sigma(2b)` for the absolute value.

    Args:
        model: the model. Its convolutions are used, or its linear layers if it has none.
        slope: the slope of the other piece: 0 for ReLU, -1 for the absolute value.
        where: a pattern of layer names, a function of the name, or None for the convolutions,
            or the linear layers of a model without one.
        own: an initialiser that works in place, for example ``nn.init.orthogonal_``.
        draws: how often it is drawn.
        seed: the seed of the draws.

    Correction: the paper gives (0.62, 0.38) for Xavier and says that this favours the inactive
    region, the more so the smaller the weights. But 0.62 belongs to the active region. Without
    offsets it is never below 1/2, its limit for small weights.

    Balestriero and Baraniuk, 2019, arXiv:1810.09274, appendix C and theorem 2.
    """
    check_number("region_prior", "slope", slope, fix="0 for ReLU, -1 for absolute value")
    check_count("region_prior", "draws", draws)
    layers = []
    for filters in find_filters("region_prior", model, where):
        drawn = None if own is None else _mean_over_draws(filters.weight, slope, own, draws, seed)
        bias = getattr(model.get_submodule(filters.name), "bias", None)
        layers.append(_layer_prior(filters, bias, slope, drawn))
    return RegionPrior(tuple(layers), float(slope))


def expected_prior(length: int, variance: float, slope: float = 0.0) -> float:
    """The mean prior of random filters without offset.

    The squared norm of a filter is ``variance`` times a chi-squared variable. The mean is one
    integral over its distribution.

    Args:
        length: the number of normal weights of a filter.
        variance: the variance of a weight.
        slope: the slope of the other piece.
    """
    import numpy as np
    from scipy import stats

    share = (np.arange(4096) + 0.5) / 4096  # equal steps of probability
    squared = variance * stats.chi2(length).ppf(share)
    return float(np.mean(1 / (1 + np.exp(-(1 - slope**2) * squared / 2))))


def _layer_prior(
    filters: Filters, bias: Tensor | None, slope: float, drawn: float | None
) -> LayerPrior:
    offset = torch.zeros(len(filters.weight)) if bias is None else bias.detach().cpu()
    length = filters.rows.shape[1]
    return LayerPrior(
        name=filters.name,
        active=_prior(filters.rows, offset.double(), slope),
        length=length,
        xavier=expected_prior(length, 1.0 / length, slope),
        he=expected_prior(length, 2.0 / length, slope),
        own=drawn,
    )


def _prior(rows: Tensor, offset: Tensor, slope: float) -> Tensor:
    return torch.sigmoid((1 - slope**2) * rows.square().sum(1) / 2 + (1 - slope) * offset)


def _mean_over_draws(
    weight: Tensor, slope: float, initialise: Callable[[Tensor], object], draws: int, seed: int
) -> float:
    with torch.random.fork_rng(devices=()), torch.no_grad():
        torch.manual_seed(seed)
        total = 0.0
        no_offset = torch.zeros(len(weight), dtype=torch.float64)
        for _ in range(draws):
            initial = torch.empty_like(weight, dtype=torch.float64)
            initialise(initial)
            total += float(_prior(initial.flatten(1), no_offset, slope).mean())
    return total / draws
