"""Beta pooling: from average over softmax-weighted to max pooling, with a trainable beta."""

import math
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional as F

from gatewise.checks import check_flag
from gatewise.errors import ArgumentError
from gatewise.layers.beta import BetaLayer, soft_maximum
from gatewise.layers.windows import Sizes, Windows, read_sizes
from gatewise.units import (
    Device,
    DType,
    check_channels,
    check_input,
    per_channel,
    replace_infinities,
    to_compute_dtype,
)


class BetaPoolNd(BetaLayer):
    """The base of the 1-d and the 2-d form."""

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
        super().__init__(
            name,
            beta,
            learn_beta=learn_beta,
            count=count,
            device=device,
            dtype=dtype,
        )
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
        if isinstance(eta, float) and eta == 0:
            return self._average(w).to(x.dtype)
        return self._soft(w, eta).to(x.dtype)

    def _check_channels(self, x: Tensor) -> None:
        count = x.shape[-1 - self.AXES]
        if self.channels is not None and self.channels != count:
            raise ArgumentError(
                f"{self.layer_name}: wrong number of input channels",
                got=f"{count} in shape {tuple(x.shape)}",
                allowed=self.channels,
            )

    def _maximum(self, x: Tensor) -> Tensor:
        at = self.windows
        return type(self).MAXIMUM(x, at.kernel, at.stride, at.padding, at.dilation, at.ceil_mode)

    def _average(self, w: Tensor) -> Tensor:
        at = self.windows
        # Torch's average pools have no dilation.
        if set(at.dilation) == {1}:
            return type(self).AVERAGE(
                w,
                at.kernel,
                at.stride,
                at.padding,
                at.ceil_mode,
                count_include_pad=False,
            )
        values = at.positions(w, 0.0)
        inside = at.positions(torch.ones_like(w), 0.0)
        return sum(values[1:], values[0]) / sum(inside[1:], inside[0])

    def _soft(self, w: Tensor, eta: float | Tensor) -> Tensor:
        # A score without a share: see `soft_maximum`.
        outside = -torch.finfo(w.dtype).max
        scores = self.windows.positions(replace_infinities(w), outside)
        return soft_maximum(scores, self._maximum(w), eta)

    def extra_repr(self) -> str:
        at = self.windows
        shown: dict[str, Any] = {
            "kernel_size": at.kernel,
            "stride": at.stride,
            "beta": self.start,
        }
        optional = {
            "learn_beta": self.learn_beta,
            "channels": self.channels,
            "ceil_mode": at.ceil_mode,
        }
        optional["padding"] = at.padding if any(at.padding) else None
        optional["dilation"] = at.dilation if set(at.dilation) != {1} else None
        for name, value in optional.items():
            if value:
                shown[name] = value
        return ", ".join(f"{name}={value}" for name, value in shown.items())


class BetaPool1d(BetaPoolNd):
    """:class:`BetaPool2d` over one dimension.

    Args:
        kernel_size: the size of a window.
        stride: the step from window to window; ``kernel_size`` by default.
        beta: from 0 to 1. A trainable beta starts here, strictly between 0 and 1.
        learn_beta: whether to train beta, through its logit (parameter ``beta_logit``).
        channels: with ``learn_beta``, the number of channels for one beta per channel; ``None`` for
            one beta in all.
        padding: the padding on both sides, at most half of ``kernel_size``.
        dilation: the distance between positions of a window.
        ceil_mode: whether to pool windows that exceed the far edge.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(N, C, L) -> (N, C, L')``, with or without ``N``.
    """

    AXES = 1
    MAXIMUM = F.max_pool1d
    AVERAGE = F.avg_pool1d


class BetaPool2d(BetaPoolNd):
    r"""Pool each window by the beta-VQ selection among its values.

    .. math:: y = \sum_r T_r x_r, \qquad
        T = \arg\max_{T \in \Delta}\ \beta \langle T, x \rangle + (1 - \beta) H(T)
        = \mathrm{softmax}(\eta x), \quad \eta = \frac{\beta}{1 - \beta}

    over the positions :math:`r` of a window. ``beta = 1`` is max pooling to the bit, ``beta = 1/2``
    softmax pooling, ``beta = 0`` average pooling. Padded positions are not part of a window, for
    any beta: they never win, and an average is over the positions inside the input, as with torch's
    ``count_include_pad=False``. The printed range of beta is the open interval in one place and the
    closed one in another; the end points are limits, and exact here.

    Args:
        kernel_size: the size of a window, one integer or one per dimension.
        stride: the step from window to window; ``kernel_size`` by default.
        beta: from 0 to 1. A trainable beta starts here, strictly between 0 and 1.
        learn_beta: whether to train beta, through its logit (parameter ``beta_logit``).
        channels: with ``learn_beta``, the number of channels for one beta per channel; ``None`` for
            one beta in all.
        padding: the padding on both sides, at most half of ``kernel_size``.
        dilation: the distance between positions of a window.
        ceil_mode: whether to pool windows that exceed the far edge.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(N, C, H, W) -> (N, C, H', W')``, with or without ``N``, with the sizes of
    :class:`torch.nn.MaxPool2d`.

    Balestriero and Baraniuk, 2019, "From Hard to Soft: Understanding Deep Network Nonlinearities
    via Vector Quantization and Statistical Inference", arXiv:1810.09274, Proposition 4 and Theorem
    3; softmax pooling is of Boureau, Ponce and LeCun, 2010, "A Theoretical Analysis of Feature
    Pooling in Visual Recognition".
    """

    AXES = 2
    MAXIMUM = F.max_pool2d
    AVERAGE = F.avg_pool2d


def _check_padding(layer: str, windows: Windows) -> None:
    most = tuple(size // 2 for size in windows.kernel)
    if any(padding > half for padding, half in zip(windows.padding, most, strict=True)):
        allowed = f"at most half of kernel_size, {most}"
        raise ArgumentError(
            f"{layer}: option padding is not allowed",
            got=windows.padding,
            allowed=allowed,
        )
