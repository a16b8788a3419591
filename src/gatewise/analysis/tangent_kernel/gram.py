"""Sums of inner products between samples, in bounded memory.

Float32 products are summed in float32 over at most ``LONGEST_SUM`` terms. Longer sums are
accumulated in float64, so that the rounding error does not grow with the size of a layer.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from torch import Tensor

from gatewise.analysis.tangent_kernel.compiled_products import add_products

# A symmetric block is computed in stripes of rows, each up to the diagonal. More are no faster.
STRIPES = 3
# Terms that are summed in the tensor's own precision before they are added in float64.
LONGEST_SUM = 1 << 12
# Bytes of convolution windows that are copied out at a time: about the size of a processor cache.
CACHE_BYTES = 1 << 21

Windows = Callable[[slice], Iterator[Tensor]]


def accumulator(like: Tensor) -> torch.dtype:
    """The dtype in which parts of a kernel are summed: float64 where the device has it."""
    if like.device.type == "mps":
        return like.dtype
    return torch.float64


def inner_products(a: Tensor, b: Tensor) -> Tensor:
    """Inner products of the rows of ``a`` with those of ``b``.

    Shape: ``(r, k), (c, k) -> (r, c)``.
    """
    if a.shape[1] <= LONGEST_SUM or a.dtype == torch.float64:
        return a @ b.mT
    total = torch.zeros(a.shape[0], b.shape[0], dtype=accumulator(a), device=a.device)
    for left, right in zip(a.split(LONGEST_SUM, 1), b.split(LONGEST_SUM, 1), strict=True):
        total += left @ right.mT
    return total


def same_numbers(a: Tensor, b: Tensor, scale: Tensor | None = None) -> bool:
    """Whether ``a`` and ``b`` are equal up to the effects of summation order.

    Args:
        a: a tensor.
        b: the tensor to compare with.
        scale: the size of numbers that the tolerance is relative to; the largest of ``b`` if None.
    """
    if a.shape != b.shape:
        return False
    if not a.is_floating_point():
        return torch.equal(a, b)
    if not a.numel():
        return True
    # 2e-3 in float32 and 6e-7 in float64. Mixing samples changes numbers by far more.
    tolerance = torch.finfo(a.dtype).eps ** 0.4
    return bool((a - b).abs().amax() <= tolerance * (b.abs().amax() if scale is None else scale))


@dataclass(frozen=True)
class LinearForm:
    """The factors of a layer's weight gradients.

    The gradient is the sum over ``P`` positions of a slope times a window of the layer's input.

    Attributes:
        windows: ``windows(some)`` yields parts of the windows of some samples, ``(N, g, P, q)``,
            for ``N`` samples and ``g`` groups of channels.
        slopes: derivatives at the layer's output, ``(N, g, o, c, P)`` for ``o`` outputs of the
            model and ``c`` channels of a group.
        window_size: numbers in a window, over all parts.
        weight: whether the weight is one of the chosen parameters.
        bias: whether the bias is.
    """

    windows: Windows
    slopes: Tensor
    window_size: int
    weight: bool
    bias: bool

    def all_windows(self) -> Tensor:
        """The windows of all samples. Shape: ``(N, g, P, q)``."""
        windows = list(self.windows(slice(None)))
        if len(windows) == 1:
            return windows[0]
        return torch.cat(windows, -1)


class KernelBlock:
    """A block of a kernel between two slices of the samples of one batch.

    Parts are added one layer at a time. Of a symmetric block only the lower half is correct.
    """

    def __init__(
        self,
        total: Tensor,
        first: slice,
        second: slice,
        *,
        limit: int,
        symmetric: bool,
    ) -> None:
        """Create a block.

        Args:
            total: the sums, ``(r, o, c, o)`` for ``r`` and ``c`` samples and ``o`` outputs.
            first: which samples of the batch belong to the rows.
            second: which belong to the columns.
            limit: about how many bytes an intermediate result may take.
            symmetric: whether rows and columns are the same samples.
        """
        self.total = total
        self.first = first
        self.second = second
        self.limit = limit
        self.symmetric = symmetric

    def add_features(self, features: Tensor) -> None:
        """Add the inner products of per-sample gradients of the batch. Shape: ``(N, o, k)``."""
        self.add_between(features[self.first], features[self.second])

    def add_between(self, first: Tensor, second: Tensor) -> None:
        """Add those of row gradients and column gradients. Shape: ``(r, o, k), (c, o, k)``."""
        for rows, columns in self._stripes(self.total.shape[0]):
            part = self.total[rows, :, columns]
            left = first[rows].flatten(0, 1)
            right = second[columns].flatten(0, 1)
            part += inner_products(left, right).view(part.shape)

    def _stripes(self, most: int) -> Iterator[tuple[slice, slice]]:
        """Yield slices of at most ``most`` rows, with the columns that are needed of them."""
        rows = self.total.shape[0]
        columns = self.total.shape[2]
        step = min(most, -(-rows // (8 * STRIPES)) * 8) if self.symmetric else most
        for start in range(0, rows, step):
            stop = min(start + step, rows)
            yield slice(start, stop), slice(0, stop if self.symmetric else columns)

    def add_linear(self, layer: LinearForm) -> None:
        """Add a linear or convolution layer, in the way that takes the fewest operations."""
        if layer.weight and self._is_added_by_compiled_code(layer):
            return
        if layer.weight and self._pairs_are_cheaper(layer):
            self._add_pairs_of_positions(layer)
            return
        if layer.weight:
            self._add_weight_gradients(layer)
        if layer.bias:
            self.add_features(layer.slopes.sum(-1).transpose(1, 2).flatten(2))

    def _pairs_are_cheaper(self, layer: LinearForm) -> bool:
        """Whether pairs of positions take fewer operations than the gradients of each sample."""
        samples, groups, outputs, channels, positions = layer.slopes.shape
        pairs = self.total.shape[0] * self.total.shape[2]
        numbers = outputs * channels * layer.window_size
        by_gradients = groups * (samples * positions * numbers + pairs * outputs * numbers)
        per_pair = positions**2 * (layer.window_size + outputs**2 * (channels + 1))
        return groups * pairs * per_pair < by_gradients

    def _is_added_by_compiled_code(self, layer: LinearForm) -> bool:
        """Add a layer with one group, one position and one output of the model, if C code can."""
        if layer.slopes.shape[1:3].numel() > 1 or layer.slopes.shape[4] > 1:
            return False
        z = layer.all_windows()[:, 0, 0]
        d = layer.slopes[:, 0, 0, :, 0]
        # The compiled form sums in float32 alone.
        return max(z.shape[1], d.shape[1]) <= LONGEST_SUM and add_products(
            self.total[:, 0, :, 0],
            (z[self.first], z[self.second]),
            (d[self.first], d[self.second]),
            bias=layer.bias,
            symmetric=self.symmetric,
        )

    def _add_weight_gradients(self, layer: LinearForm) -> None:
        """Add inner products of the gradients of each sample, some channels at a time."""
        samples, groups, outputs, channels, positions = layer.slopes.shape
        size = layer.slopes.element_size()
        most = self.limit // (2 * samples * groups * outputs * layer.window_size * size)
        step = max(1, CACHE_BYTES // (groups * positions * layer.window_size * size))
        chunks = [slice(start, start + step) for start in range(0, samples, step)]
        for slopes in layer.slopes.split(max(1, min(channels, most)), dim=3):
            parts = [_window_gradients(layer, slopes, some) for some in chunks]
            for part in zip(*parts, strict=True):
                self.add_features(torch.cat(part))

    def _add_pairs_of_positions(self, layer: LinearForm) -> None:
        """Add products of windows times products of slopes, summed over pairs of positions."""
        window = layer.all_windows()
        _, groups, outputs, _, positions = layer.slopes.shape
        pair_bytes = positions**2 * (outputs**2 + 1) * window.element_size()
        row_bytes = 3 * self.total.shape[2] * pair_bytes
        for group in range(groups):
            z = window[:, group]  # (N, P, q)
            d = layer.slopes[:, group].movedim(-1, 2)  # (N, o, P, c)
            z1, z2 = z[self.first], z[self.second]
            d1, d2 = d[self.first], d[self.second]
            for rows, columns in self._stripes(max(1, self.limit // row_bytes)):
                part = self.total[rows, :, columns]
                part += _position_products(
                    z1[rows],
                    z2[columns],
                    d1[rows],
                    d2[columns],
                    bias=layer.bias,
                )


def _window_gradients(layer: LinearForm, slopes: Tensor, some: slice) -> list[Tensor]:
    """The gradients of some samples for some channels, in parts. Shape: ``(N, o, k)`` each."""
    d = slopes[some].flatten(2, 3)  # (N, g, o * channels, P)
    parts = []
    for window in layer.windows(some):
        gradients = (d @ window).unflatten(2, (slopes.shape[2], -1))
        parts.append(gradients.transpose(1, 2).flatten(2))
    return parts


def _position_products(z: Tensor, z2: Tensor, d: Tensor, d2: Tensor, *, bias: bool) -> Tensor:
    """Shape: ``(r, P, q), (c, P, q), (r, o, P, k), (c, o, P, k) -> (r, o, c, o)``."""
    rows, outputs, positions, _ = d.shape
    columns = d2.shape[0]
    inputs = inner_products(z.flatten(0, 1), z2.flatten(0, 1))
    if bias:
        inputs += 1
    slopes = inner_products(d.flatten(0, 2), d2.flatten(0, 2))
    slopes = slopes.view(rows, outputs, positions, columns, outputs, positions)
    product = slopes * inputs.view(rows, 1, positions, columns, 1, positions)
    if positions == 1:
        return product.view(rows, outputs, columns, outputs)
    return product.sum((2, 5))
