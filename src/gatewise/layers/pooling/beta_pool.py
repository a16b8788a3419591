"""Beta pooling: one layer from average over softmax-weighted to max pooling, with a beta that can be trained."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from gatewise.errors import ArgumentError
from gatewise.layers.beta import BetaLayer, soft_maximum
from gatewise.layers.windows import Sizes, Windows, read_sizes
from gatewise.units import (
    Device,
    DType,
    check_channels,
    check_flag,
    check_input,
    per_channel,
    replace_infinities,
    to_compute_dtype,
)


class BetaPoolNd(BetaLayer):
    """What the 1-d and the 2-d form share."""

    AXES: ClassVar[int]
    MAXIMUM: ClassVar[Callable[..., Tensor]]
    AVERAGE: ClassVar[Callable[..., Tensor]]

    def __init__(
        self,
        kernel_size: Sizes,
        stride: Sizes | None = None,
        *,
        beta: float = 0.5,
        learn_beta: bool = False,
        channels: int | None = None,
        padding: Sizes = 0,
        dilation: Sizes = 1,
        ceil_mode: bool = False,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        name = type(self).__name__
        count = check_channels(name, channels) or 1
        super().__init__(name, beta, learn_beta=learn_beta, count=count, device=device, dtype=dtype)
        self.channels = channels
        kernel = read_sizes(name, "kernel_size", kernel_size, self.AXES, least=1)
        self.windows = Windows(
            kernel,
            kernel if stride is None else read_sizes(name, "stride", stride, self.AXES, least=1),
            read_sizes(name, "padding", padding, self.AXES, least=0),
            read_sizes(name, "dilation", dilation, self.AXES, least=1),
            check_flag(name, "ceil_mode", ceil_mode),
        )
        _check_padding(name, self.windows)
        self.reset_parameters()

    def forward(self, x: Tensor) -> Tensor:
        self.windows.check(self.layer_name, check_input(self.layer_name, x))
        self._check_channels(x)
        eta = per_channel(self.layer_name, "beta", self.steepness(), x, -1 - self.AXES)
        if isinstance(eta, float) and eta == math.inf:
            return self._maximum(x)
        w = to_compute_dtype(x)
        return (self._average(w) if isinstance(eta, float) and eta == 0 else self._soft(w, eta)).to(
            x.dtype
        )

    def _check_channels(self, x: Tensor) -> None:
        found = x.shape[-1 - self.AXES]
        if self.channels is not None and self.channels != found:
            raise ArgumentError(
                f"{self.layer_name}: the input has another channel count than the layer",
                got=f"{found} in shape {tuple(x.shape)}",
                allowed=self.channels,
            )

    def _maximum(self, x: Tensor) -> Tensor:
        at = self.windows
        return type(self).MAXIMUM(x, at.kernel, at.stride, at.padding, at.dilation, at.ceil_mode)

    def _average(self, w: Tensor) -> Tensor:
        at = self.windows
        if set(at.dilation) == {1}:
            return type(self).AVERAGE(
                w, at.kernel, at.stride, at.padding, at.ceil_mode, count_include_pad=False
            )
        values, inside = (at.taps(each, 0.0) for each in (w, torch.ones_like(w)))
        return sum(values[1:], values[0]) / sum(inside[1:], inside[0])

    def _soft(self, w: Tensor, eta: float | Tensor) -> Tensor:
        outside = -torch.finfo(w.dtype).max  # has no share: see `soft_maximum`
        return soft_maximum(
            self.windows.taps(replace_infinities(w), outside), self._maximum(w), eta
        )

    def extra_repr(self) -> str:
        at = self.windows
        shown: dict[str, Any] = {"kernel_size": at.kernel, "stride": at.stride, "beta": self.start}
        optional = {
            "learn_beta": self.learn_beta,
            "channels": self.channels,
            "ceil_mode": at.ceil_mode,
        }
        optional["padding"] = at.padding if any(at.padding) else None
        optional["dilation"] = at.dilation if set(at.dilation) != {1} else None
        return ", ".join(
            f"{k}={v}" for k, v in (shown | {k: v for k, v in optional.items() if v}).items()
        )


class BetaPool1d(BetaPoolNd):
    """:class:`BetaPool2d` over one dimension. Shape: ``(N, C, L)`` or ``(C, L)``."""

    AXES, MAXIMUM, AVERAGE = 1, F.max_pool1d, F.avg_pool1d


class BetaPool2d(BetaPoolNd):
    r"""Pool each window by the beta-VQ selection among its values.

    .. math:: y = \sum_r T_r x_r, \qquad
        T = \arg\max_{T \in \Delta}\ \beta \langle T, x \rangle + (1 - \beta) H(T) = \mathrm{softmax}(\eta x), \quad
        \eta = \frac{\beta}{1 - \beta}

    over the positions :math:`r` of a window. ``beta = 1`` is max pooling to the bit, ``beta = 1/2``
    softmax pooling, ``beta = 0`` average pooling. Shape: ``(N, C, H, W)`` or ``(C, H, W)``, sizes
    as in :class:`torch.nn.MaxPool2d`. Padded positions are not part of a window, for any beta: they
    never win, and an average is over the positions inside the input, as with torch's
    ``count_include_pad=False``. The printed range of beta is the open interval in one place and the
    closed one in another; the end points are limits, and exact here.

    Args: kernel_size, stride, padding, dilation: one number, or one per dimension. ``stride`` is
        ``kernel_size`` unless
            given.
        beta: from 0 to 1; the start value if it is trained, and then strictly between.
        learn_beta: train it, through its logit (parameter ``beta_logit``).
        channels: with ``learn_beta``, one beta per channel instead of one for all; inputs must then
            have as many.
        ceil_mode: also pool windows that reach over the far edge.

    Balestriero and Baraniuk, 2019, "From Hard to Soft: Understanding Deep Network Nonlinearities
    via Vector Quantization and Statistical Inference", arXiv:1810.09274, Proposition 4 and Theorem
    3; softmax pooling is of Boureau, Ponce and LeCun, 2010, "A Theoretical Analysis of Feature
    Pooling in Visual Recognition".
    """

    AXES, MAXIMUM, AVERAGE = 2, F.max_pool2d, F.avg_pool2d


def _check_padding(layer: str, windows: Windows) -> None:
    most = tuple(size // 2 for size in windows.kernel)
    if any(padding > half for padding, half in zip(windows.padding, most, strict=True)):
        allowed = f"at most half of kernel_size, {most}"
        raise ArgumentError(
            f"{layer}: option padding is not allowed", got=windows.padding, allowed=allowed
        )
