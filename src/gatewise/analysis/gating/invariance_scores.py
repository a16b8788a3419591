"""Whether filters that fire on an image also fire when it is flipped, rotated or shifted.

Appendix C of the CReLU paper.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.gating.channels import ChannelSums, by_channel
from gatewise.analysis.gating.gate_calls import GateSite
from gatewise.analysis.gating.size_histogram import SizeHistogram
from gatewise.analysis.gating.stream import SiteStream
from gatewise.analysis.gating.warps import check_warps, standard_warps, warp
from gatewise.analysis.record import AnalysisResult, PlottedResult, label_places
from gatewise.batches import Progress, read_batches
from gatewise.checks import check_number
from gatewise.errors import ArgumentError, Limitation, NotApplicableError, unknown_name

LOCATIONS = ("moved", "same")
TWO_SIDED = ("crelu", "abs")  # they fire at either sign


@dataclass(frozen=True, eq=False)
class LayerInvariance(AnalysisResult):
    """The C filters before one unit.

    Attributes:
        name: The name of the site.
        unit: The unit.
        threshold: The response above which a filter fires, (C,).
        global_rate: How often a filter fires, (C,).
        local_rate: How often it fires again on the transformed image, (transforms, C). NaN where
            it never fired.
        score: The mean of local over global rate, (C,). 1 is chance; 1 / rate is the most possible.
    """

    name: str
    unit: str
    threshold: Tensor
    global_rate: Tensor
    local_rate: Tensor
    score: Tensor

    _renamed = MappingProxyType({"name": "layer"})
    _properties = ("mean", "silent")
    _finite = True

    @property
    def mean(self) -> float:
        """The mean score of the filters that fire."""
        return float(self.score.nanmean())

    @property
    def transform_means(self) -> list[float]:
        """The mean score of the filters that fire, for each transform."""
        return (self.local_rate / self.global_rate).nanmean(1).tolist()

    @property
    def silent(self) -> int:
        """Filters that never fired, or never at a position that the transform keeps."""
        return int(self.score.isnan().sum())


@dataclass(frozen=True, eq=False)
class Invariance(PlottedResult):
    """The result of :func:`invariance`.

    Attributes:
        layers: One entry for each layer.
        transforms: The names of the transforms.
        rate: The global firing rate that was asked for.
        location: Where a filter must fire again.
        left_out: Sites that are not maps of an image.
    """

    layers: tuple[LayerInvariance, ...]
    transforms: tuple[str, ...]
    rate: float
    location: str
    left_out: tuple[str, ...]

    def _figure_size(self) -> tuple[float, float]:
        return max(4.5, 0.4 * len(self.layers)), 3.2

    def _draw(self, axes: Any) -> None:
        """Draw the mean score over the layers, and that of each transform."""
        by_layer = [layer.transform_means for layer in self.layers]
        for name, means in zip(self.transforms, zip(*by_layer, strict=True), strict=True):
            axes.plot(means, linewidth=0.7, label=name)
        axes.plot([layer.mean for layer in self.layers], "ko-", label="mean")
        label_places(axes, self.layers)
        axes.set(ylabel="invariance score")
        axes.legend(fontsize=6)

    def __str__(self) -> str:
        names = "  ".join(f"{name[:12]:>8}" for name in self.transforms)
        lines = [f"{'layer':32} filters  silent   score  {names}"]
        for layer in self.layers:
            line = f"{layer.name[:32]:32} {len(layer.score):7}  {layer.silent:6}  {layer.mean:6.2f}"
            for name, mean in zip(self.transforms, layer.transform_means, strict=True):
                line += f"  {mean:{max(8, min(len(name), 12))}.2f}"
            lines.append(line)
        lines += [f"left out: {reason}" for reason in self.left_out]
        return "\n".join(lines)


def invariance(
    model: nn.Module,
    batches: Iterable[Any],
    *,
    transforms: Mapping[str, Tensor] | None = None,
    rate: float = 0.01,
    location: str = "moved",
    progress: Progress | None = None,
) -> Invariance:
    r"""Compute the invariance score of every filter.

    A filter fires where its response exceeds its threshold. The threshold is set so that the filter
    fires at a share ``rate`` of all positions of all images (the global rate G). The local rate L
    is the share of these positions at which it also fires on the transformed image. The score is
    :math:`L / G`: 1 for a filter that fires by chance, :math:`1 / G` for an invariant one. For most
    units the positive part of a response counts, for a two-sided unit (CReLU) its absolute value.

    Shang et al., 2016, arXiv:1603.05201, section 4.2 and appendix C, after Goodfellow et al., 2009.
    Thresholds come from counts by size, in buckets of 0.8 %; the global rate is the measured one.

    Args:
        model: Any model that takes images (n, C, h, w).
        batches: A list or a data loader. It is read twice, once for the thresholds, so an iterator
            that can be used only once is refused.
        transforms: Affine maps by name, each of shape (2, 3) as
            :func:`torch.nn.functional.affine_grid` takes it. By default a flip, a rotation by 15
            degrees, and shifts by 3 pixels. :func:`corner_crops` returns those for larger images.
        rate: The global firing rate.
        location: Where the filter must fire again. ``"moved"``: where the transform moves the
            position to; positions that leave the image do not count. ``"same"``: at the same
            position, as the paper says, so that invariance to shifts depends on pooling.
        progress: Called after each batch with the number of batches done, in both passes.

    Raises:
        NotApplicableError: No unit follows a convolution of images.
    """
    _check_arguments(batches, rate, location)
    known = None if transforms is None else check_warps("invariance", transforms)
    stream = SiteStream("invariance", model)
    passes = _Passes(model, batches, progress)
    thresholds, left_out = _thresholds(stream, passes, rate)
    fired = {name: ChannelSums() for name in thresholds}
    again: dict[str, dict[str, ChannelSums]] = {name: {} for name in thresholds}
    warps: dict[str, Tensor] = known or {}
    for images in passes.images():
        # Shifts by pixels depend on the size of the images.
        warps = known or standard_warps(*images.shape[2:])
        maps = _firing_maps(stream, images, thresholds)
        for name, firing in maps.items():
            fired[name].add(fired=by_channel(firing, 1))
        for transform, theta in warps.items():
            moved = _firing_maps(stream, warp(images, theta, "bilinear"), thresholds)
            for name, after in moved.items():
                before = maps[name]
                if location == "moved":  # positions from outside of the image are 0: not fired
                    before = warp(before.to(images.dtype), theta, "nearest") > 0.5
                total = again[name].setdefault(transform, ChannelSums())
                total.add(before=by_channel(before, 1), both=by_channel(before & after, 1))
    units: dict[str, str] = {}
    for graph in stream.readings:
        units |= {site.name: site.unit for site in stream.sites(graph)}
    layers = []
    for name, threshold in thresholds.items():
        local = torch.stack([again[name][key].ratio("both", "before") for key in warps])
        global_rate = fired[name].mean("fired")
        score = local.nanmean(0) / global_rate
        layers.append(LayerInvariance(name, units[name], threshold, global_rate, local, score))
    return Invariance(tuple(layers), tuple(warps), rate, location, left_out)


def _thresholds(
    stream: SiteStream,
    passes: "_Passes",
    rate: float,
) -> tuple[dict[str, Tensor], tuple[str, ...]]:
    """Return the thresholds (C,) of each layer of maps, and the sites that have no maps."""
    histograms: dict[str, SizeHistogram] = {}
    left_out: dict[str, None] = {}  # a set in the order of the calls

    def count(site: GateSite, response: Tensor) -> None:
        if response.dim() != 4 or site.dim != 1:
            left_out[f"{site.name}: its responses are not maps of an image"] = None
            return
        rows = by_channel(_strength(site, response), 1)
        if site.name not in histograms:
            histograms[site.name] = SizeHistogram(len(rows))
        histograms[site.name].add(rows)

    for images in passes.images():
        stream.responses(images, count)
    if not histograms:
        raise NotApplicableError(
            Limitation.NO_MAPS,
            "invariance: no unit follows a convolution of images",
            got="; ".join(left_out),
        )
    thresholds = {name: counts.exceeded_by(rate) for name, counts in histograms.items()}
    return thresholds, tuple(left_out)


def _strength(site: GateSite, response: Tensor) -> Tensor:
    if site.unit in TWO_SIDED:
        return response.abs()
    return response.clamp(min=0)


def _firing_maps(
    stream: SiteStream,
    images: Tensor,
    thresholds: Mapping[str, Tensor],
) -> dict[str, Tensor]:
    """Return where every filter fires, as truth values (n, C, h, w) for each layer."""
    maps: dict[str, Tensor] = {}

    def keep(site: GateSite, response: Tensor) -> None:
        if site.name in thresholds:
            limit = thresholds[site.name].to(response)[:, None, None]
            maps[site.name] = _strength(site, response) > limit

    stream.responses(images, keep)
    return maps


class _Passes:
    """Two passes over the batches, with one progress for both."""

    def __init__(self, model: nn.Module, batches: Iterable[Any], progress: Progress | None) -> None:
        self.model = model
        self.batches = batches
        self.progress = progress
        self.done = 0

    def images(self) -> Iterator[Tensor]:
        before = self.done

        def report(done: int, total: int | None) -> None:
            self.done = before + done
            if self.progress is not None:
                self.progress(self.done, None if total is None else 2 * total)

        for call in read_batches("invariance", self.model, self.batches, report):
            inputs = call.example
            if (
                not isinstance(inputs, Tensor)
                or inputs.dim() != 4
                or not inputs.is_floating_point()
            ):
                got = tuple(inputs.shape) if isinstance(inputs, Tensor) else type(inputs).__name__
                raise ArgumentError(
                    "invariance: batches must be images",
                    got=got,
                    allowed="floating-point tensors of shape (n, C, h, w)",
                )
            yield inputs


def _check_arguments(batches: Iterable[Any], rate: float, location: str) -> None:
    check_number("invariance", "rate", rate, above=0, below=1)
    if not isinstance(location, str) or location not in LOCATIONS:
        raise unknown_name("location", location, LOCATIONS)
    if isinstance(batches, Iterator):
        raise ArgumentError(
            "invariance: batches are read twice, and an iterator can be read only once",
            got=type(batches).__name__,
            fix="pass the data loader or a list",
        )
