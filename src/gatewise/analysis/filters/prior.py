"""How probable is each region of a unit before any input is seen?"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.filters.filter_rows import Filters, find_filters
from gatewise.errors import ArgumentError


@dataclass(frozen=True, eq=False)
class LayerPrior:
    """Of one layer: the prior of the region where a unit is positive, for each filter and at initialisation."""

    name: str
    active: Tensor  # (K,) with the layer's weights and offsets as they are
    length: int  # numbers of one filter
    xavier: float  # expected for filters of normal numbers with variance 1 / length
    he: float  # the same with 2 / length
    own: float | None  # mean over draws of the user's own rule

    @property
    def mean(self) -> float:
        """The mean over filters."""
        return float(self.active.mean())


@dataclass(frozen=True, eq=False)
class RegionPrior:
    """The answer of :func:`region_prior`: one entry a layer."""

    layers: tuple[LayerPrior, ...]
    slope: float

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file."""
        rows = [
            {
                "layer": each.name,
                "length": each.length,
                "mean": each.mean,
                "active": each.active.tolist(),
                "xavier": each.xavier,
                "he": each.he,
                "own": each.own,
            }
            for each in self.layers
        ]
        return {"slope": self.slope, "layers": rows}

    def plot(self, axes: Any = None) -> Any:
        """Each layer's priors as points, and what the initialisations expect as lines.

        Returns the axes.
        """
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(figsize=(6, 3.5), layout="constrained").subplots()
        for place, layer in enumerate(self.layers):
            axes.plot(
                [place] * len(layer.active), layer.active.numpy(), ".", color="tab:blue", alpha=0.3
            )
        for kind, colour in (("xavier", "tab:orange"), ("he", "tab:green"), ("own", "tab:red")):
            values = [getattr(layer, kind) for layer in self.layers]
            if None not in values:
                axes.plot(
                    range(len(values)),
                    values,
                    "_",
                    markersize=14,
                    color=colour,
                    label=f"at start: {kind}",
                )
        axes.set_xticks(
            range(len(self.layers)), [layer.name for layer in self.layers], rotation=60, fontsize=7
        )
        axes.set_ylabel("prior of the active region")
        axes.legend(fontsize=7)
        return axes

    def __repr__(self) -> str:
        lines = [f"{'layer':32} filters  now   Xavier  He    own"]
        for layer in self.layers:
            own = "" if layer.own is None else f"{layer.own:.3f}"
            facts = (
                f"{len(layer.active):7}  {layer.mean:.3f} {layer.xavier:.3f}   {layer.he:.3f} {own}"
            )
            lines.append(f"{layer.name[:32]:32} {facts}")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


def region_prior(
    model: nn.Module,
    *,
    slope: float = 0.0,
    where: str | Callable[[str], bool] | None = None,
    own: Callable[[Tensor], object] | None = None,
    draws: int = 20,
    seed: int = 0,
) -> RegionPrior:
    r"""The prior of each unit's active region under the mixture of Gaussians that a max-affine layer is.

    A unit with pieces :math:`\langle A_r, z\rangle + B_r` has regions of prior
    :math:`\pi_r \propto e^{B_r + \|A_r\|^2 / 2}`. With the pieces :math:`\langle a, z\rangle + b` and ``slope`` times
    it, the active one has

    .. math:: \pi = \sigma\bigl((1 - s^2)\,\|a\|^2 / 2 + (1 - s)\,b\bigr)

    so :math:`\sigma(\|a\|^2/2 + b)` for ReLU and :math:`\sigma(2b)` for the absolute value.

    Args:
        model: its convolutions are looked at, or its linear layers if it has none. slope: of the other piece: 0 for
            ReLU, -1 for the absolute value. where: a pattern or function of layer names. own: an initialiser in place,
            such as ``nn.init.orthogonal_``. draws: of it. seed: theirs.

    Corrected: the paper gives (0.62, 0.38) for Xavier and says that this favours the inactive region, the more so the
    smaller the weights. 0.62 belongs to the active one; without offsets it is never below 1/2, its limit for small
    weights.

    Balestriero and Baraniuk, 2019, arXiv:1810.09274, appendix C and theorem 2.
    """
    if isinstance(slope, bool) or not isinstance(slope, int | float) or not math.isfinite(slope):
        raise ArgumentError(
            "region_prior: slope must be a number",
            got=slope,
            fix="0 for ReLU, -1 for absolute value",
        )
    if isinstance(draws, bool) or not isinstance(draws, int) or draws < 1:
        raise ArgumentError(
            "region_prior: draws must be a number of draws", got=draws, allowed="an integer >= 1"
        )
    found = find_filters("region_prior", model, where)
    return RegionPrior(
        tuple(_layer(model, each, slope, own, draws, seed) for each in found), float(slope)
    )


def expected_prior(length: int, variance: float, slope: float = 0.0) -> float:
    """The mean prior of filters of ``length`` normal numbers of ``variance`` each, without offset.

    The squared norm is ``variance`` times a chi-squared variable: one integral over its
    distribution.
    """
    import numpy as np
    from scipy import stats

    share = (np.arange(4096) + 0.5) / 4096  # equal steps of probability
    squared = variance * stats.chi2(length).ppf(share)
    return float(np.mean(1 / (1 + np.exp(-(1 - slope**2) * squared / 2))))


def _layer(
    model: nn.Module,
    filters: Filters,
    slope: float,
    own: Callable[[Tensor], object] | None,
    draws: int,
    seed: int,
) -> LayerPrior:
    bias = getattr(model.get_submodule(filters.name), "bias", None)
    offset = torch.zeros(len(filters.weight)) if bias is None else bias.detach().cpu()
    length = filters.rows.shape[1]
    drawn = None if own is None else _drawn(filters.weight, slope, own, draws, seed)
    xavier, he = (expected_prior(length, gain / length, slope) for gain in (1.0, 2.0))
    return LayerPrior(
        filters.name, _prior(filters.rows, offset.double(), slope), length, xavier, he, drawn
    )


def _prior(rows: Tensor, offset: Tensor, slope: float) -> Tensor:
    return torch.sigmoid((1 - slope**2) * rows.square().sum(1) / 2 + (1 - slope) * offset)


def _drawn(
    weight: Tensor, slope: float, own: Callable[[Tensor], object], draws: int, seed: int
) -> float:
    with torch.random.fork_rng(devices=()), torch.no_grad():
        torch.manual_seed(seed)
        total = 0.0
        for _ in range(draws):
            fresh = torch.empty_like(weight, dtype=torch.float64)
            own(fresh)
            total += float(
                _prior(fresh.flatten(1), torch.zeros(len(fresh), dtype=torch.float64), slope).mean()
            )
    return total / draws
