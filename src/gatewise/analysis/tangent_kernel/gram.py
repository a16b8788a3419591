"""Sums of inner products between samples, in bounded memory, with sums over long vectors carried in float64."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gatewise.analysis.tangent_kernel.compiled import add_products

# a symmetric block is computed in stripes of rows, each up to the diagonal; more are no faster
STRIPES = 3
LONGEST = (
    1 << 12
)  # terms that are summed in the tensor's own precision before the sum is carried in float64

NEAR = 1 << 21  # bytes of windows that are laid out at a time: what a processor keeps near
TRANSFORMED = (
    6  # times the room of a sample's gradients, for what the quicker way to them is made from
)

Windows = Callable[[slice], Iterator[Tensor]]
Gradients = Callable[[slice, Tensor, Tensor], None]


def accumulator(like: Tensor) -> torch.dtype:
    """The precision in which parts of a kernel are summed: float64 where the device has it."""
    return like.dtype if like.device.type == "mps" else torch.float64


def inner(a: Tensor, b: Tensor) -> Tensor:
    """Inner products of the rows of ``a`` with those of ``b``.

    Shape: ``(r, k), (c, k) -> (r, c)``.
    """
    if a.shape[1] <= LONGEST or a.dtype == torch.float64:
        return a @ b.mT
    total = torch.zeros(a.shape[0], b.shape[0], dtype=accumulator(a), device=a.device)
    for left, right in zip(a.split(LONGEST, 1), b.split(LONGEST, 1), strict=True):
        total += left @ right.mT
    return total


def same_numbers(a: Tensor, b: Tensor, sizes: Tensor | None = None) -> bool:
    """Equal up to what the order of summation can do, relative to ``b`` or to numbers of size ``sizes``."""
    if a.shape != b.shape:
        return False
    if not a.is_floating_point():
        return torch.equal(a, b)
    tolerance = (
        torch.finfo(a.dtype).eps ** 0.4
    )  # 2e-3 in float32, 6e-7 in float64; mixing samples does far more
    if not a.numel():
        return True
    return bool((a - b).abs().amax() <= tolerance * (b.abs().amax() if sizes is None else sizes))


@dataclass(frozen=True)
class Linear:
    """What a layer's weight gradients are made of.

    Sums over ``P`` positions of a slope times a window of the input.

    ``windows(some)`` yields parts of the windows of some samples, ``(N, g, P, q)`` each, for ``N``
    samples and ``g`` groups of channels; ``slopes`` is ``(N, g, o, c, P)`` for ``o`` outputs of the
    model and ``c`` channels of a group.
    """

    windows: Windows
    slopes: Tensor
    reach: int  # numbers in a window, over all parts
    weight: bool  # which of the two parameters count
    bias: bool
    gradients: Gradients | None = (
        None  # a quicker way: writes those of some samples, from their slopes, ``(N, o, k)``
    )


class Pairs:
    """A block of a kernel between the samples ``first`` and ``second`` of one batch, summed part by part.

    ``total`` is ``(r, o, c, o)`` for ``r`` and ``c`` samples and ``o`` outputs. Parts take about ``limit`` bytes. Of a
    ``symmetric`` block only the lower half is right.
    """

    def __init__(
        self, total: Tensor, first: slice, second: slice, *, limit: int, symmetric: bool
    ) -> None:
        self.total, self.first, self.second, self.limit, self.symmetric = (
            total,
            first,
            second,
            limit,
            symmetric,
        )

    def add_features(self, features: Tensor) -> None:
        """Add the inner products of per-sample gradients. Shape: ``(N, o, k)``."""
        self.add_between(features[self.first], features[self.second])

    def add_between(self, first: Tensor, second: Tensor) -> None:
        """The same for gradients of the two sets of samples. Shape: ``(r, o, k), (c, o, k)``."""
        for rows, columns in self._stripes(self.total.shape[0]):
            part = self.total[rows, :, columns]
            part += inner(first[rows].flatten(0, 1), second[columns].flatten(0, 1)).view(part.shape)

    def _stripes(self, most: int) -> Iterator[tuple[slice, slice]]:
        """Rows, at most ``most`` at a time, and the columns that are wanted of them."""
        rows, columns = self.total.shape[0], self.total.shape[2]
        step = min(most, -(-rows // (8 * STRIPES)) * 8) if self.symmetric else most
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            yield slice(start, stop), slice(0, stop if self.symmetric else columns)

    def add_linear(self, layer: Linear) -> None:
        """Add a linear or convolution layer by whichever of the two ways takes fewer operations."""
        if layer.weight and layer.slopes.shape[1:3].numel() == layer.slopes.shape[4] == 1:
            self._add_plain(layer)
            return
        if layer.weight and self._by_pairs(layer):
            self._add_pair_by_pair(layer)
            return
        if layer.weight:
            self._add_weight_gradients(layer)
        if layer.bias:
            self.add_features(layer.slopes.sum(-1).transpose(1, 2).flatten(2))

    def _by_pairs(self, layer: Linear) -> bool:
        samples, groups, outputs, channels, positions = layer.slopes.shape
        pairs = self.total.shape[0] * self.total.shape[2]
        numbers = outputs * channels * layer.reach
        gradients = groups * (samples * positions * numbers + pairs * outputs * numbers)
        return (
            groups * pairs * positions**2 * (layer.reach + outputs**2 * (channels + 1)) < gradients
        )

    def _add_plain(self, layer: Linear) -> None:
        """The usual case, with nothing in the way.

        One group, one position, one output of the model.
        """
        window = self._whole(layer)
        z, d = window[:, 0, 0], layer.slopes[:, 0, 0, :, 0]
        z1, z2, d1, d2 = z[self.first], z[self.second], d[self.first], d[self.second]
        total = self.total[:, 0, :, 0]
        short = max(z.shape[1], d.shape[1]) <= LONGEST
        if short and add_products(
            total, (z1, z2), (d1, d2), bias=layer.bias, symmetric=self.symmetric
        ):
            return
        for rows, columns in self._stripes(max(1, self.limit // (6 * len(z2) * z.element_size()))):
            part = inner(z1[rows], z2[columns])
            if layer.bias:
                part += 1
            part *= inner(d1[rows], d2[columns])
            total[rows, columns] += part

    def _add_weight_gradients(self, layer: Linear) -> None:
        """Gradients of each sample, some channels at a time, then their inner products."""
        samples, groups, outputs, channels, positions = layer.slopes.shape
        size = layer.slopes.element_size()
        copies = 2 * samples if layer.gradients is None else 2 * samples + TRANSFORMED
        most = self.limit // (copies * groups * outputs * layer.reach * size)
        near = max(1, NEAR // (groups * positions * layer.reach * size))
        for slopes in layer.slopes.split(max(1, min(channels, most)), dim=3):
            if layer.gradients is not None:
                features = slopes.new_empty(
                    samples, outputs, groups * slopes.shape[3] * layer.reach
                )
                for start in range(0, samples, near):
                    some = slice(start, start + near)
                    layer.gradients(some, slopes[some], features[some])
                self.add_features(features)
                continue
            parts = zip(
                *(
                    self._gradients(layer, slopes, start, start + near)
                    for start in range(0, samples, near)
                ),
                strict=True,
            )
            for part in parts:
                self.add_features(torch.cat(part))

    @staticmethod
    def _gradients(layer: Linear, slopes: Tensor, start: int, stop: int) -> list[Tensor]:
        """The gradients of some samples for some channels, in parts. Shape: ``(N, o, k)`` each."""
        d = slopes[start:stop].flatten(2, 3)  # (N, g, o * channels, P)
        parts = (
            (d @ window).unflatten(2, (slopes.shape[2], -1))
            for window in layer.windows(slice(start, stop))
        )
        return [part.transpose(1, 2).flatten(2) for part in parts]

    def _add_pair_by_pair(self, layer: Linear) -> None:
        """Products of windows times products of slopes, summed over pairs of positions, some samples at a time."""
        window = self._whole(layer)
        _, groups, outputs, _, positions = layer.slopes.shape
        each = 3 * self.total.shape[2] * positions**2 * (outputs**2 + 1) * window.element_size()
        for group in range(groups):
            z, d = (
                window[:, group],
                layer.slopes[:, group].movedim(-1, 2),
            )  # (N, P, q), (N, o, P, c)
            z1, z2, d1, d2 = z[self.first], z[self.second], d[self.first], d[self.second]
            for rows, columns in self._stripes(max(1, self.limit // each)):
                part = self.total[rows, :, columns]
                part += self._products(
                    z1[rows], z2[columns], d1[rows], d2[columns], bias=layer.bias
                )

    @staticmethod
    def _whole(layer: Linear) -> Tensor:
        windows = list(layer.windows(slice(None)))
        return windows[0] if len(windows) == 1 else torch.cat(windows, -1)

    @staticmethod
    def _products(z: Tensor, z2: Tensor, d: Tensor, d2: Tensor, *, bias: bool) -> Tensor:
        """Shape: ``(r, P, q), (c, P, q), (r, o, P, k), (c, o, P, k) -> (r, o, c, o)``."""
        (rows, outputs, positions, _), columns = d.shape, d2.shape[0]
        inputs = inner(z.flatten(0, 1), z2.flatten(0, 1))
        if bias:
            inputs += 1
        slopes = inner(d.flatten(0, 2), d2.flatten(0, 2))
        slopes = slopes.view(rows, outputs, positions, columns, outputs, positions)
        product = slopes * inputs.view(rows, 1, positions, columns, 1, positions)
        return (
            product.sum((2, 5)) if positions > 1 else product.view(rows, outputs, columns, outputs)
        )
