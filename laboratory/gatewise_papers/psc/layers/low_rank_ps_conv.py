"""Low-rank phase selective layers: both signs at no more parameters than one plain layer."""

import math
from typing import ClassVar, TypeVar

import torch
from torch import Tensor, nn

from gatewise.checks import check_count
from gatewise.errors import ArgumentError
from gatewise.layers import PhaseLayer, PSConv2d, PSLinear
from gatewise.layers.response import ConvolutionResponse, LinearResponse, layer_options
from gatewise.units import Device, DType, to_compute_dtype

Self = TypeVar("Self", bound="LowRank")
FACTORS = ("reduce", "expand", "reduce_neg", "expand_neg")


def equal_parameter_rank(inputs: int, outputs: int) -> int:
    r"""Return the largest rank at which two pairs of factors are no larger than the full matrix.

    .. math:: r = \left\lfloor \frac{N M}{2 (N + M)} \right\rfloor

    The paper leaves out the rounding.

    Args:
        inputs: ``N``, the number of inputs, for a convolution times the area of the kernel.
        outputs: ``M``, the number of outputs.

    >>> equal_parameter_rank(64 * 9, 64)
    28
    """
    check_count("equal_parameter_rank", "inputs", inputs, least=1)
    check_count("equal_parameter_rank", "outputs", outputs, least=1)
    return inputs * outputs // (2 * (inputs + outputs))


class LowRank(PhaseLayer):
    """A response to two phases, each through a bottleneck of ``rank`` channels per group."""

    dense_type: ClassVar[type[PSLinear] | type[PSConv2d]]
    reduce: Tensor  # B+, (rank * groups, in / groups, *kernel)
    expand: Tensor  # A+, (out, rank, 1, ...)
    reduce_neg: Tensor  # B-, as `reduce`
    expand_neg: Tensor  # A-, as `expand`

    def build(
        self,
        bias: bool = True,
        *,
        rank: int | None = None,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        """Choose the rank, and create and draw the factors."""
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
            raise ArgumentError(
                f"{self.layer}: no rank has as few parameters as a plain layer",
                got=f"{self.fan_in} inputs and {rows} outputs per group",
                fix="rank=1, with more parameters than a plain layer, or PSConv2d",
            )
        if check_count(self.layer, "rank", rank, least=1) > largest:
            raise ArgumentError(
                f"{self.layer}: option rank is not allowed",
                got=rank,
                allowed=f"1 to {largest}",
            )
        return rank

    def reset_parameters(self) -> None:
        """Draw the factors, so that their products have variance ``1 / fan_in``, and the bias."""
        for name, fan in zip(FACTORS, (self.fan_in, self.rank) * 2, strict=True):
            bound = math.sqrt(3 / fan)
            nn.init.uniform_(self.get_parameter(name), -bound, bound)
        self.reset_uniform("bias")

    def forward(self, x: Tensor) -> Tensor:
        ready, reduce, expand, reduce_neg, expand_neg = self.prepare(
            x,
            self.reduce,
            self.expand,
            self.reduce_neg,
            self.expand_neg,
        )
        self.warn_if_rectified(x)

        def respond(x: Tensor, bias: Tensor | None) -> Tensor:
            positive = self.respond(x.relu(), reduce)
            negative = self.respond(x.neg().relu(), reduce_neg)
            out = self.expand_channels(positive, expand, bias)
            return out - self.expand_channels(negative, expand_neg, None)

        return self.at_any_size(respond, ready, self.bias).to(x.dtype)

    def expand_channels(self, x: Tensor, expand: Tensor, bias: Tensor | None) -> Tensor:
        """Map the bottleneck to the outputs, position by position."""
        raise NotImplementedError

    def dense(self) -> tuple[Tensor, Tensor]:
        """Return the two full weights, W+ and W-, which are the products of the factors."""
        positive = self._product(self.reduce, self.expand)
        negative = self._product(self.reduce_neg, self.expand_neg)
        return positive, negative

    def _product(self, reduce: Tensor, expand: Tensor) -> Tensor:
        left = expand.reshape(self.groups, -1, self.rank)
        right = reduce.reshape(self.groups, self.rank, -1)
        return (left @ right).reshape(self.weight_shape)

    @torch.no_grad()
    def copy_nearest(self, weight: Tensor, names: tuple[str, str]) -> None:
        """Set the factors ``names`` to the best approximation of ``weight``.

        They are its largest singular values and vectors, with the root of each value in both
        factors.
        """
        matrices = to_compute_dtype(weight).reshape(self.groups, self.outputs // self.groups, -1)
        left, values, right = torch.linalg.svd(matrices, full_matrices=False)
        # Each factor gets the root of the singular values, so both have the same size.
        root = values[:, : self.rank].sqrt()
        reduce = self.get_parameter(names[0])
        expand = self.get_parameter(names[1])
        reduce.copy_((root.unsqueeze(-1) * right[:, : self.rank]).reshape(reduce.shape))
        expand.copy_((left[..., : self.rank] * root.unsqueeze(-2)).reshape(expand.shape))

    @classmethod
    def from_dense(cls: type[Self], layer: PSLinear | PSConv2d, *, rank: int | None = None) -> Self:
        """Return the nearest low-rank form of ``layer``, by singular value decompositions.

        Args:
            layer: a phase selective layer with full weights.
            rank: the rank per group; by default the rank of :func:`equal_parameter_rank`.
        """
        if not isinstance(layer, cls.dense_type):
            raise ArgumentError(
                f"{cls.__name__}: this layer has no low-rank form",
                got=type(layer).__name__,
                allowed=cls.dense_type.__name__,
            )
        options = layer_options(layer) | {"device": "meta", "dtype": layer.weight.dtype}
        low_rank = cls(**options, rank=rank)
        return low_rank.to_empty(device=layer.weight.device).copy_dense(layer)

    def copy_dense(self: Self, layer: PSLinear | PSConv2d) -> Self:
        """Copy the function of ``layer``, as nearly as the rank allows, and return this layer."""
        self.copy_nearest(layer.weight, ("reduce", "expand"))
        self.copy_nearest(layer.weight_neg, ("reduce_neg", "expand_neg"))
        if self.bias is not None and layer.bias is not None:
            with torch.no_grad():
                self.bias.copy_(layer.bias)
        return self.train(layer.training)

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, rank={self.rank}"


class LowRankPSLinear(LowRank, LinearResponse):
    """Phase selective linear layer with both weights factored: the linear :class:`LowRankPSConv2d`.

    .. math:: y = A^+ B^+ x^+ + A^- B^- x^- + b

    Args:
        in_features: the number of input features.
        out_features: the number of output features.
        bias: whether every output has a trainable bias.
        rank: the rank; by default that of :func:`equal_parameter_rank`.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(*, N) -> (*, M)``.
    """

    dense_type: ClassVar[type[PSLinear] | type[PSConv2d]] = PSLinear

    def expand_channels(self, x: Tensor, expand: Tensor, bias: Tensor | None) -> Tensor:
        """Map the bottleneck to the outputs."""
        return self.respond(x, expand, bias)


class LowRankPSConv2d(LowRank, ConvolutionResponse):
    r"""Phase selective convolution with both weights factored.

    It has no more parameters than a plain convolution.

    .. math:: y = A^+ (B^+ * x^+) + A^- (B^- * x^-) + b, \qquad
        r = \left\lfloor \frac{N M}{2 (N + M)} \right\rfloor

    with :math:`x^+ = \max(x, 0)`, :math:`x^- = \min(x, 0)`. Each ``B`` is a convolution to ``r``
    channels, each ``A`` a 1x1 convolution, ``N`` the input channels times the area of the kernel,
    ``M`` the output channels. With ``groups``, all of this holds within each group. The parameters
    are ``reduce`` (B+), ``expand`` (A+), ``reduce_neg``, ``expand_neg`` and ``bias``.

    Args:
        in_channels: the number of input channels.
        out_channels: the number of output channels.
        kernel_size: the size of the kernel, one integer or one per dimension.
        stride: the step from patch to patch, one integer or one per dimension.
        padding: the padding on both sides, one integer or one per dimension, or ``"same"`` or
            ``"valid"``.
        dilation: the distance between elements of the kernel, one integer or one per dimension.
        groups: the number of groups; outputs of a group see only the inputs of that group.
        bias: whether every output has a trainable bias.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        rank: the rank per group; by default the rule above, which is an error if it gives 0
            (depthwise layers).
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(N, C, H, W) -> (N, M, H', W')``, with or without ``N``.

    Lin, Noorzad, Yang, Kwak and Porikli, 2021, "Phase Selective Convolution", CVPR Workshops,
    supplement A. Corrected: the printed shapes of the decomposition do not multiply, and the rank
    need not be whole; this is the thin decomposition, with the rank rounded down.
    """

    spatial: ClassVar[int] = 2
    dense_type: ClassVar[type[PSLinear] | type[PSConv2d]] = PSConv2d

    def expand_channels(self, x: Tensor, expand: Tensor, bias: Tensor | None) -> Tensor:
        """Map the bottleneck to the outputs by a 1x1 convolution."""
        return nn.functional.conv2d(x, expand, bias, groups=self.groups)
