"""Do filters that fire on an image still fire when it is flipped, turned or shifted? Appendix C of paper 002."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis.gating.activity import by_channel
from gatewise.analysis.gating.gate_calls import GateSite
from gatewise.analysis.gating.size_histogram import SizeHistogram
from gatewise.analysis.gating.stream import Progress, SiteStream, each_batch
from gatewise.analysis.gating.warps import check_warps, standard_warps, warp
from gatewise.errors import ArgumentError, Limitation, NotApplicableError, unknown_name

LOCATIONS = ("moved", "same")
TWO_PHASE = ("crelu", "abs")  # fire at either sign


@dataclass(frozen=True, eq=False)
class LayerInvariance:
    """The filters before one unit."""

    name: str
    unit: str
    threshold: Tensor  # (C,) above which a filter fires
    global_rate: Tensor  # (C,) how often it does
    local_rate: (
        Tensor  # (transforms, C) how often again on the transformed image; NaN where it never fired
    )
    score: Tensor  # (C,) mean local over global rate: 1 is chance, 1 / rate all there can be

    @property
    def mean(self) -> float:
        """The mean score of the filters that fire."""
        return float(self.score.nanmean())

    @property
    def silent(self) -> int:
        """Filters that never fired, or never where the transformed image can be looked at."""
        return int(self.score.isnan().sum())

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file."""
        return {
            "layer": self.name,
            "unit": self.unit,
            "mean": self.mean,
            "silent": self.silent,
            "score": _plain(self.score),
            "threshold": self.threshold.tolist(),
            "global_rate": self.global_rate.tolist(),
            "local_rate": [_plain(row) for row in self.local_rate],
        }


@dataclass(frozen=True, eq=False)
class Invariance:
    """The answer of :func:`invariance`, one entry a layer."""

    layers: tuple[LayerInvariance, ...]
    transforms: tuple[str, ...]
    rate: float
    location: str
    left_out: tuple[str, ...]  # sites that are not maps of an image

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file."""
        return {
            "layers": [layer.to_dict() for layer in self.layers],
            "transforms": list(self.transforms),
            "rate": self.rate,
            "location": self.location,
            "left_out": list(self.left_out),
        }

    def plot(self, axes: Any = None) -> Any:
        """The mean score over the layers, and that of each transform; returns the axes."""
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(
                figsize=(max(4.5, 0.4 * len(self.layers)), 3.2), layout="constrained"
            ).subplots()
        for number, name in enumerate(self.transforms):
            means = [
                float((layer.local_rate[number] / layer.global_rate).nanmean())
                for layer in self.layers
            ]
            axes.plot(means, linewidth=0.7, label=name)
        axes.plot([layer.mean for layer in self.layers], "ko-", label="mean")
        axes.set_xticks(
            range(len(self.layers)), [layer.name for layer in self.layers], rotation=90, fontsize=6
        )
        axes.set(ylabel="invariance score")
        axes.legend(fontsize=6)
        return axes

    def __repr__(self) -> str:
        shown = "  ".join(f"{name[:12]:>8}" for name in self.transforms)
        lines = [f"{'layer':32} filters  silent   score  {shown}"]
        for layer in self.layers:
            means = [float((row / layer.global_rate).nanmean()) for row in layer.local_rate]
            facts = "  ".join(
                f"{mean:{max(8, min(len(name), 12))}.2f}"
                for mean, name in zip(means, self.transforms, strict=True)
            )
            lines.append(
                f"{layer.name[:32]:32} {len(layer.score):7}  {layer.silent:6}  {layer.mean:6.2f}  {facts}"
            )
        lines += [f"left out: {reason}" for reason in self.left_out]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        return f"<pre>{escape(repr(self))}</pre>"


def invariance(
    model: nn.Module,
    batches: Iterable[Any],
    *,
    transforms: Mapping[str, Tensor] | None = None,
    rate: float = 0.01,
    location: str = "moved",
    progress: Progress | None = None,
) -> Invariance:
    r"""The invariance score of every filter.

    How often it fires on a transformed image, given that it did on the image.

    A filter fires where its response exceeds a threshold, its own, set so that it does at a share
    ``rate`` of all places of all images (the global rate G). The local rate L is the share of these
    places at which it also fires on the transformed image; the score is :math:`L / G`: 1 for a
    filter that fires by chance, :math:`1 / G` for one that does not mind. Of a response its
    positive part counts, of a two-phase unit (CReLU) its absolute value.

    Args: model: any that takes images (n, C, h, w). batches: a list or a loader: it is gone through
        twice, once for the
            thresholds, so an iterator that can only be used once will not do.
        transforms: affine maps by name, each (2, 3) as :func:`torch.nn.functional.affine_grid`
            takes it. A flip, 15 degrees, and shifts by 3 pixels unless given; :func:`corner_crops`
            has those for larger images.
        rate: the global firing rate. location: where the filter must fire again: at the place that
            the map ``"moved"`` the first to (places moved out of the image do not count), or at the
            ``"same"`` place, to the letter of the paper: then shifts are the matter of pooling.
            progress: called after each batch with how many of both passes are done.

    Shang et al., 2016, arXiv:1603.05201, section 4.2 and appendix C, after Goodfellow et al., 2009.
    Thresholds are from counts by size, in buckets of 0.8 %; the global rate is what they come to.
    """
    _check(batches, rate, location)
    stream = SiteStream("invariance", model)
    known = None if transforms is None else check_warps("invariance", transforms)
    steps = _Steps(batches, progress)
    histograms: dict[str, SizeHistogram] = {}
    skipped: dict[str, None] = {}

    def count(site: GateSite, response: Tensor) -> None:
        if response.dim() != 4 or site.dim != 1:
            skipped[f"{site.name}: its responses are no maps of an image"] = None
            return
        rows = by_channel(_strength(site, response), 1)
        histograms.setdefault(site.name, SizeHistogram(len(rows))).add(rows)

    for images in steps.images():
        stream.responses(images, count)
    if not histograms:
        raise NotApplicableError(
            Limitation.NO_MAPS,
            "invariance: no unit stands behind a convolution of images",
            got="; ".join(skipped),
        )
    thresholds = {name: each.exceeded_by(rate) for name, each in histograms.items()}
    totals = {name: _Total(len(each)) for name, each in thresholds.items()}
    warps: dict[str, Tensor] = known or {}
    for images in steps.images():
        warps = known or standard_warps(*images.shape[2:])
        fired = _fired(stream, images, thresholds)
        for name, maps in fired.items():
            totals[name].see(maps)
        for number, theta in enumerate(warps.values()):
            again = _fired(stream, warp(images, theta, "bilinear"), thresholds)
            for name, maps in again.items():
                before = (
                    warp(fired[name].to(images.dtype), theta, "nearest") > 0.5
                    if location == "moved"
                    else fired[name]
                )
                totals[name].compare(number, before, maps)
    sites = {site.name: site.unit for graph in stream.readings for site in stream.sites(graph)}
    layers = tuple(
        total.result(name, sites[name], thresholds[name], len(warps))
        for name, total in totals.items()
    )
    return Invariance(layers, tuple(warps), rate, location, tuple(skipped))


def _strength(site: GateSite, response: Tensor) -> Tensor:
    return response.abs() if site.unit in TWO_PHASE else response.clamp(min=0)


def _fired(
    stream: SiteStream, images: Tensor, thresholds: Mapping[str, Tensor]
) -> dict[str, Tensor]:
    """Where every filter fires, (n, C, h, w) truth values a layer."""
    found: dict[str, Tensor] = {}

    def tell(site: GateSite, response: Tensor) -> None:
        if site.name in thresholds:
            limit = thresholds[site.name].to(response)[:, None, None]
            found[site.name] = _strength(site, response) > limit

    stream.responses(images, tell)
    return found


class _Total:
    """Counts of one layer: places, those that fired, and by transform those looked at again and those fired again."""

    def __init__(self, filters: int) -> None:
        self.seen, self.fired = 0, torch.zeros(filters, dtype=torch.float64)
        self.looked: dict[int, Tensor] = {}
        self.again: dict[int, Tensor] = {}

    def see(self, maps: Tensor) -> None:
        self.seen += maps[:, 0].numel()
        self.fired += maps.sum((0, 2, 3)).double()

    def compare(self, number: int, before: Tensor, after: Tensor) -> None:
        zero = torch.zeros_like(self.fired)
        self.looked[number] = self.looked.get(number, zero) + before.sum((0, 2, 3))
        self.again[number] = self.again.get(number, zero) + (before & after).sum((0, 2, 3))

    def result(self, name: str, unit: str, threshold: Tensor, transforms: int) -> LayerInvariance:
        local = torch.stack(
            [self.again[number] / self.looked[number] for number in range(transforms)]
        )
        rate = self.fired / self.seen
        return LayerInvariance(name, unit, threshold, rate, local, local.nanmean(0) / rate)


class _Steps:
    """Two passes over the batches, told as one."""

    def __init__(self, batches: Iterable[Any], progress: Progress | None) -> None:
        self.batches, self.progress, self.done = batches, progress, 0

    def images(self) -> Iterator[Tensor]:
        before = self.done

        def tell(done: int, total: int | None) -> None:
            self.done = before + done
            if self.progress is not None:
                self.progress(self.done, None if total is None else 2 * total)

        for inputs, _ in each_batch("invariance", self.batches, tell):
            if (
                not isinstance(inputs, Tensor)
                or inputs.dim() != 4
                or not inputs.is_floating_point()
            ):
                got = tuple(inputs.shape) if isinstance(inputs, Tensor) else type(inputs).__name__
                raise ArgumentError(
                    "invariance: batches must be images", got=got, allowed="(n, C, h, w) in numbers"
                )
            yield inputs


def _check(batches: Iterable[Any], rate: float, location: str) -> None:
    if isinstance(rate, bool) or not isinstance(rate, int | float) or not 0 < rate < 1:
        raise ArgumentError("invariance: rate must be a share", got=rate, allowed="0 < rate < 1")
    if location not in LOCATIONS:
        raise unknown_name("location", location, LOCATIONS)
    if isinstance(batches, Iterator):
        raise ArgumentError(
            "invariance: batches are gone through twice, and an iterator can be used once",
            got=type(batches).__name__,
            fix="pass the loader or a list",
        )


def _plain(values: Tensor) -> list[float | None]:
    return [None if value != value else value for value in values.tolist()]
