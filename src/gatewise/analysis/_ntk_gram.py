"""Sums of inner products between samples, in bounded memory, with sums over long vectors carried in float64."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

LONGEST = 1 << 14  # terms that are summed in the tensor's own precision before the sum is carried in float64

Windows = Callable[[], Iterator[Tensor]]


def accumulator(like: Tensor) -> torch.dtype:
    """The precision in which parts of a kernel are summed: float64 where the device has it."""
    return like.dtype if like.device.type == "mps" else torch.float64


def inner(a: Tensor, b: Tensor) -> Tensor:
    """Inner products of the rows of ``a`` with those of ``b``. Shape: ``(r, k), (c, k) -> (r, c)``."""
    if a.shape[1] <= LONGEST or a.dtype == torch.float64:
        return a @ b.mT
    total = torch.zeros(a.shape[0], b.shape[0], dtype=accumulator(a), device=a.device)
    for left, right in zip(a.split(LONGEST, 1), b.split(LONGEST, 1), strict=True):
        total += left @ right.mT
    return total


@dataclass(frozen=True)
class Linear:
    """What a layer's weight gradients are made of: sums over ``P`` positions of a slope times a window of the input.

    ``windows()`` yields parts of the windows, ``(N, g, P, q)`` each, for ``N`` samples and ``g`` groups of channels;
    ``slopes`` is ``(N, g, o, c, P)`` for ``o`` outputs of the model and ``c`` channels of a group.
    """

    windows: Windows
    slopes: Tensor
    reach: int  # numbers in a window, over all parts
    weight: bool  # which of the two parameters count
    bias: bool


class Pairs:
    """A block of a kernel between the samples ``first`` and ``second`` of one batch, summed part by part.

    ``total`` is ``(r, o, c, o)`` for ``r`` and ``c`` samples and ``o`` outputs. Parts take about ``limit`` bytes.
    """

    def __init__(self, total: Tensor, first: slice, second: slice, limit: int) -> None:
        self.total, self.first, self.second, self.limit = total, first, second, limit

    def add_features(self, features: Tensor) -> None:
        """Add the inner products of per-sample gradients. Shape: ``(N, o, k)``."""
        self.add_between(features[self.first], features[self.second])

    def add_between(self, rows: Tensor, columns: Tensor) -> None:
        """The same for gradients of the two sets of samples. Shape: ``(r, o, k), (c, o, k)``."""
        self.total += inner(rows.flatten(0, 1), columns.flatten(0, 1)).view(self.total.shape)

    def add_linear(self, layer: Linear) -> None:
        """Add a linear or convolution layer by whichever of the two ways takes fewer operations."""
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
        return groups * pairs * positions**2 * (layer.reach + outputs**2 * (channels + 1)) < gradients

    def _add_weight_gradients(self, layer: Linear) -> None:
        """Gradients of each sample, some channels at a time, then their inner products."""
        samples, groups, outputs, channels, _ = layer.slopes.shape
        for window in layer.windows():
            each = samples * groups * outputs * window.shape[-1] * window.element_size()
            for slopes in layer.slopes.split(max(1, min(channels, self.limit // (2 * each))), dim=3):
                gradients = slopes.flatten(2, 3) @ window  # (N, g, o * some channels, q)
                self.add_features(gradients.unflatten(2, (outputs, -1)).transpose(1, 2).flatten(2))

    def _add_pair_by_pair(self, layer: Linear) -> None:
        """Products of windows times products of slopes, summed over pairs of positions, some samples at a time."""
        windows = list(layer.windows())
        window = windows[0] if len(windows) == 1 else torch.cat(windows, -1)
        _, groups, outputs, _, positions = layer.slopes.shape
        each = self.total.shape[2] * positions**2 * (outputs**2 + 1) * window.element_size()
        for group in range(groups):
            z, d = window[:, group], layer.slopes[:, group].movedim(-1, 2)  # (N, P, q), (N, o, P, c)
            some = max(1, self.limit // (3 * each))
            parts = zip(z[self.first].split(some), d[self.first].split(some), self.total.split(some), strict=True)
            for z_some, d_some, total in parts:
                total += self._products(z_some, z[self.second], d_some, d[self.second], bias=layer.bias)

    @staticmethod
    def _products(z: Tensor, z2: Tensor, d: Tensor, d2: Tensor, *, bias: bool) -> Tensor:
        """Shape: ``(r, P, q), (c, P, q), (r, o, P, k), (c, o, P, k) -> (r, o, c, o)``."""
        (rows, outputs, positions, _), columns = d.shape, d2.shape[0]
        inputs = inner(z.flatten(0, 1), z2.flatten(0, 1))
        if bias:
            inputs += 1
        slopes = inner(d.flatten(0, 2), d2.flatten(0, 2))
        if outputs == positions == 1:
            return inputs.mul_(slopes).view(rows, 1, columns, 1)
        slopes = slopes.view(rows, outputs, positions, columns, outputs, positions)
        product = slopes * inputs.view(rows, 1, positions, columns, 1, positions)
        return product.sum((2, 5)) if positions > 1 else product.view(rows, outputs, columns, outputs)
