"""Low-rank phase selective convolution and linear layer.

Both phases at no more parameters than one plain layer.
"""

import math
from typing import ClassVar, TypeVar

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.layers.phase.phase_layer import PhaseLayer
from gatewise.layers.phase.ps_conv import PSConv2d, PSLinear
from gatewise.layers.response import ConvolutionResponse, LinearResponse, layer_options
from gatewise.layers.windows import Sizes
from gatewise.units import Device, DType, check_count, to_compute_dtype

Self = TypeVar("Self", bound="LowRank")
FACTORS = ("reduce", "expand", "reduce_neg", "expand_neg")


def equal_parameter_rank(inputs: int, outputs: int) -> int:
    r"""The largest rank at which two factor pairs of an ``outputs`` by ``inputs`` matrix cost no more than it.

    .. math:: r = \left\lfloor \frac{N M}{2 (N + M)} \right\rfloor

    with ``N`` inputs (for a convolution: times the kernel's area) and ``M`` outputs. The paper leaves out the rounding.

    >>> equal_parameter_rank(64 * 9, 64)
    28
    """
    for name, count in (("inputs", inputs), ("outputs", outputs)):
        check_count("equal_parameter_rank", name, count, least=1)
    return inputs * outputs // (2 * (inputs + outputs))


class LowRank(PhaseLayer):
    """A response to two phases, each through a bottleneck of ``rank`` channels per group."""

    dense_kind: ClassVar[type[PSLinear] | type[PSConv2d]]
    reduce: Tensor
    expand: Tensor
    reduce_neg: Tensor
    expand_neg: Tensor

    def build(self, rank: int | None, bias: bool, device: Device, dtype: DType) -> None:
        """Choose the rank, then make and fill the factors."""
        rows = self.outputs // self.groups
        self.rank = self._check_rank(rank, rows)
        inner = self.rank * self.groups
        reduce = (inner, *self.weight_shape[1:])
        expand = (self.outputs, self.rank, *[1] * self.spatial)
        for name, shape in zip(FACTORS, (reduce, expand) * 2, strict=True):
            self.add_weight(name, shape, device, dtype)
        self.add_bias(bias, device, dtype)
        self.reset_parameters()

    def _check_rank(self, rank: int | None, rows: int) -> int:
        largest = min(rows, self.fan_in)
        if rank is None and not (rank := equal_parameter_rank(self.fan_in, rows)):
            what = f"{self.layer}: at equal parameters no rank is left"
            got = f"{self.fan_in} inputs and {rows} outputs per group"
            raise ArgumentError(
                what, got=got, fix="rank=1, at more parameters than a plain layer, or PSConv2d"
            )
        if check_count(self.layer, "rank", rank, least=1) > largest:
            raise ArgumentError(
                f"{self.layer}: option rank is not allowed", got=rank, allowed=f"1 to {largest}"
            )
        return rank

    def reset_parameters(self) -> None:
        """Draw the factors so that their products have variance ``1 / fan_in``, and the bias as torch does."""
        for name, fan in zip(FACTORS, (self.fan_in, self.rank) * 2, strict=True):
            nn.init.uniform_(self.get_parameter(name), -math.sqrt(3 / fan), math.sqrt(3 / fan))
        self.reset_uniform("bias")

    def forward(self, x: Tensor) -> Tensor:
        ready, reduce, expand, reduce_neg, expand_neg = self.prepare(
            x, self.reduce, self.expand, self.reduce_neg, self.expand_neg
        )
        self.warn_if_rectified(x)

        def respond(x: Tensor, bias: Tensor | None) -> Tensor:
            positive = self.widen(self.respond(x.relu(), reduce), expand, bias)
            return positive - self.widen(self.respond(x.neg().relu(), reduce_neg), expand_neg, None)

        return self.at_any_size(respond, ready, self.bias).to(x.dtype)

    def widen(self, x: Tensor, expand: Tensor, bias: Tensor | None) -> Tensor:
        """From the bottleneck to the outputs, position by position."""
        raise NotImplementedError

    def dense(self) -> tuple[Tensor, Tensor]:
        """The two full weights, W+ and W-, that the factors stand for."""
        return self._product(self.reduce, self.expand), self._product(
            self.reduce_neg, self.expand_neg
        )

    def _product(self, reduce: Tensor, expand: Tensor) -> Tensor:
        left = expand.reshape(self.groups, -1, self.rank)
        right = reduce.reshape(self.groups, self.rank, -1)
        return (left @ right).reshape(self.weight_shape)

    @torch.no_grad()
    def copy_nearest(self, weight: Tensor, names: tuple[str, str]) -> None:
        """Set the factors ``names`` to the best approximation of ``weight``.

        Its largest singular values, halved.
        """
        matrices = to_compute_dtype(weight).reshape(self.groups, self.outputs // self.groups, -1)
        left, values, right = torch.linalg.svd(matrices, full_matrices=False)
        root = values[:, : self.rank].sqrt()
        reduce, expand = (self.get_parameter(name) for name in names)
        reduce.copy_((root.unsqueeze(-1) * right[:, : self.rank]).reshape(reduce.shape))
        expand.copy_((left[..., : self.rank] * root.unsqueeze(-2)).reshape(expand.shape))

    @classmethod
    def from_dense(cls: type[Self], layer: PSLinear | PSConv2d, *, rank: int | None = None) -> Self:
        """Return the nearest low-rank form of ``layer``, by truncated singular value decompositions.

        Args:
            layer: a phase selective layer with full weights.
            rank: the rank per group; by default the rank of :func:`equal_parameter_rank`.
        """
        if not isinstance(layer, cls.dense_kind):
            raise ArgumentError(
                f"{cls.__name__}: this layer has no low-rank form",
                got=type(layer).__name__,
                allowed=cls.dense_kind.__name__,
            )
        options = layer_options(layer) | {"device": "meta", "dtype": layer.weight.dtype}
        low_rank = cls(**options, rank=rank)
        return low_rank.to_empty(device=layer.weight.device).copy_dense(layer)

    def copy_dense(self: Self, layer: PSLinear | PSConv2d) -> Self:
        """Take over what ``layer`` computes, as nearly as the rank allows; return this layer."""
        self.copy_nearest(layer.weight, ("reduce", "expand"))
        self.copy_nearest(layer.weight_neg, ("reduce_neg", "expand_neg"))
        if self.bias is not None and layer.bias is not None:
            with torch.no_grad():
                self.bias.copy_(layer.bias)
        return self.train(layer.training)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, rank={self.rank}"


class LowRankPSLinear(LowRank, LinearResponse):
    r"""Phase selective linear layer with both weights factored.

    .. math:: y = A^+ B^+ x^+ + A^- B^- x^- + b

    Shape: ``(*, N) -> (*, M)``. Everything else as :class:`LowRankPSConv2d`, whose linear form it
        is.
    """

    dense_kind: ClassVar[type[PSLinear] | type[PSConv2d]] = PSLinear

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        rank: int | None = None,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__(in_features, out_features)
        self.build(rank, bias, device, dtype)

    def widen(self, x: Tensor, expand: Tensor, bias: Tensor | None) -> Tensor:
        """From the bottleneck to the outputs, position by position."""
        return self.respond(x, expand, bias)


class LowRankPSConv2d(LowRank, ConvolutionResponse):
    r"""Phase selective convolution with both weights factored, at no more parameters than a plain convolution.

    .. math:: y = A^+ (B^+ * x^+) + A^- (B^- * x^-) + b, \qquad r = \left\lfloor \frac{N M}{2 (N + M)} \right\rfloor

    with :math:`x^+ = \max(x, 0)`, :math:`x^- = \min(x, 0)`; each ``B`` is a convolution to ``r`` channels, each ``A`` a
    1x1 convolution, ``N`` the input channels times the kernel's area, ``M`` the output channels. With ``groups``, all
    of this holds within each group. Shape: ``(N, C, H, W) -> (N, M, H', W')``, the ``N`` optional.

    The parameters are ``reduce`` (B+), ``expand`` (A+), ``reduce_neg``, ``expand_neg`` and ``bias``.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias, padding_mode: as in
            ``torch.nn.Conv2d``.
        rank: per group; by default the rule above, which is an error where it leaves 0 (depthwise layers).

    Lin, Noorzad, Yang, Kwak and Porikli, 2021, "Phase Selective Convolution", CVPR Workshops, supplement A. Corrected:
    the printed shapes of the decomposition do not multiply, and the rank need not be whole; this is the thin
    decomposition, with the rank rounded down.
    """

    spatial: ClassVar[int] = 2
    dense_kind: ClassVar[type[PSLinear] | type[PSConv2d]] = PSConv2d

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Sizes,
        stride: Sizes = 1,
        padding: Sizes | str = 0,
        dilation: Sizes = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        *,
        rank: int | None = None,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode
        )
        self.build(rank, bias, device, dtype)

    def widen(self, x: Tensor, expand: Tensor, bias: Tensor | None) -> Tensor:
        """From the bottleneck to the outputs, position by position."""
        return nn.functional.conv2d(x, expand, bias, groups=self.groups)
