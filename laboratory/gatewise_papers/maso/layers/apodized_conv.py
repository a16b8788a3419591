"""Apodized convolution: patches weighted by a window, so that they add up to the input."""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gatewise.checks import check_choice
from gatewise.errors import ArgumentError
from gatewise.layers.response import ConvolutionResponse, layer_options
from gatewise.layers.windows import Sizes, read_sizes
from gatewise.units import Device, DType, allocating, axes_of

# Functions of the place t in a patch, from -1 at one edge to 1 at the other.
WINDOWS = {
    "box": lambda t: 1.0,
    "triangle": lambda t: 1.0 - abs(t),
    "hann": lambda t: math.cos(math.pi * t / 2) ** 2,
    "gaussian": lambda t: math.exp(-2.0 * t * t),
}

Window = str | Tensor


def partition_deviation(window: Tensor, stride: Sizes = 1, dilation: Sizes = 1) -> float:
    r"""Return how far shifted copies of ``window`` are from adding up to 1 everywhere.

    .. math:: \max_i \Bigl| 1 - \sum_p h(i - p) \Bigr|

    The maximum is over all positions ``i`` of an endless input, :math:`p` runs over the multiples
    of ``stride``, and ``h`` is ``window``. The result is 0 for a partition of unity.

    Args:
        window: a floating point tensor with one dimension per axis.
        stride: the step between copies, one integer or one per dimension.
        dilation: the distance between places of the window, one integer or one per dimension.

    >>> partition_deviation(torch.full((4, 4), 0.25), stride=2)
    0.0
    >>> partition_deviation(torch.ones(4, 4), stride=2)
    3.0
    """
    strides = _sizes(window, "stride", stride)
    gaps = _sizes(window, "dilation", dilation)
    with allocating("partition_deviation"):
        sums = _class_sums(window.detach().to("cpu", torch.float64), strides, gaps)
    return float((sums - 1).abs().max())


class _ApodizedConv(ConvolutionResponse):
    plain: ClassVar[type[nn.Module]]
    weight: Tensor  # (out, in / groups, *kernel), without the window
    window: Tensor  # (1, 1, *kernel), a partition of unity
    bias: Tensor | None  # (out,)
    has_filters: ClassVar[bool] = True

    def build(
        self,
        bias: bool = True,
        *,
        window: Window = "hann",
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        """Register and draw the weights, and register the window."""
        self._check_reach()
        self.profile = self._check_window(window)
        self.add_weight("weight", self.weight_shape, device, dtype)
        self.add_bias(bias, device, dtype)
        values = torch.empty(1, 1, *self.kernel_size, device=device, dtype=dtype)
        # Not part of the state, because it follows from the options: a plain layer's state fits.
        self.register_buffer("window", values, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias as torch's convolution does.

        Each input counts by the square of its window.
        """
        with torch.no_grad():
            exact = self._normalised()
            self.window.copy_(exact)
            seen = float(exact.square().sum()) * self.weight_shape[1]
            nn.init.uniform_(self.weight, -(seen**-0.5), seen**-0.5)
            self.reset_uniform("bias")

    def apodized_weight(self) -> Tensor:
        """Return the filters times the window: the weight of the equal plain convolution."""
        return self.weight * self.window

    def forward(self, x: Tensor) -> Tensor:
        weights = [self.apodized_weight()]
        if self.bias is not None:
            weights.append(self.bias)
        ready, weight, *bias = self.prepare(x, *weights)
        return self.plain_response(ready, weight, bias[0] if bias else None).to(x.dtype)

    def partition_deviation(self) -> float:
        """Return :func:`partition_deviation` of this layer's window, up to rounding 0."""
        return partition_deviation(self.window[0, 0], self.stride, self.dilation)

    def coverage(self, *size: int) -> Tensor:
        """Return the total weight with which each position of an input enters patches.

        It is 1 in the interior, and less at borders, where patches that would exceed the input are
        missing.

        Args:
            *size: the spatial sizes of the input.
        """
        x = self.window.new_zeros(1, 1, *size).requires_grad_()
        # The derivative of the sum of all outputs is the weight of each input.
        with torch.enable_grad():
            total = self.respond(self.pad(x), self.window, groups=1).sum()
        return torch.autograd.grad(total, x)[0][0, 0]

    def deploy(self) -> nn.Module:
        """Return the plain convolution with the same output, bit for bit."""
        place = {"device": self.window.device, "dtype": self.window.dtype}
        plain: Any = self.plain(**layer_options(self), **place)
        with torch.no_grad():
            plain.weight.copy_(self.apodized_weight())
            if self.bias is not None:
                plain.bias.copy_(self.bias)
        return plain.train(self.training)

    def extra_repr(self) -> str:
        window = self.profile if isinstance(self.profile, str) else "given"
        return f"{super().extra_repr()}, window={window!r}"

    def _check_reach(self) -> None:
        """Raise an error unless every input is in some patch, where the window must sum to 1."""
        for axis in axes_of(self):
            # With a common factor, the places of the kernel miss a class modulo the stride.
            if axis.kernel < axis.stride or math.gcd(axis.dilation, axis.stride) > 1:
                raise ArgumentError(
                    f"{self.layer}: some inputs lie in no patch",
                    got=f"kernel_size={self.kernel_size}, stride={self.stride}, "
                    f"dilation={self.dilation}",
                    allowed="a stride up to the kernel size, without a factor of the dilation",
                )

    def _check_window(self, window: Window) -> str | tuple[float, ...]:
        """Return a known name, or the numbers of a window that can be made a partition of unity."""
        if not isinstance(window, Tensor):
            return check_choice(self.layer, "window", window, tuple(WINDOWS))
        values = window.detach().to("cpu", torch.float64)
        usable = tuple(values.shape) == self.kernel_size
        usable = usable and bool(values.isfinite().all() and (values >= 0).all())
        if not usable or not bool((_class_sums(values, self.stride, self.dilation) > 0).all()):
            raise ArgumentError(
                f"{self.layer}: option window is not allowed",
                got=f"shape {tuple(window.shape)}, {window.tolist()}",
                allowed=f"{', '.join(map(repr, WINDOWS))}, or a tensor of shape "
                f"{self.kernel_size}, finite, not negative, and positive for every input",
            )
        return tuple(values.flatten().tolist())

    def _normalised(self) -> Tensor:
        """Return the window divided by the sum of its copies at each place, exact to float64."""
        if isinstance(self.profile, str):
            raw = _outer([_profile(self.profile, size) for size in self.kernel_size])
        else:
            raw = torch.tensor(self.profile, dtype=torch.float64, device="cpu")
            raw = raw.reshape(self.kernel_size)
        sums = _class_sums(raw, self.stride, self.dilation)
        return raw / sums[tuple(_classes(raw, self.stride, self.dilation))]


class ApodizedConv1d(_ApodizedConv):
    """Apodized convolution of sequences: :class:`ApodizedConv2d` over one dimension.

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
        window: the name of a window or a tensor, as in :class:`ApodizedConv2d`.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(N, C, L) -> (N, M, L')``, with or without ``N``.
    """

    spatial: ClassVar[int] = 1
    plain: ClassVar[type[nn.Module]] = nn.Conv1d


class ApodizedConv2d(_ApodizedConv):
    r"""Convolution whose patches are weighted by a window ``h`` that is a partition of unity.

    .. math:: y_k(p) = \langle W_k, h \odot P_p[x] \rangle + b_k
        = \langle h \odot W_k, P_p[x] \rangle + b_k,
        \qquad \sum_p h(i - p) = 1 \text{ for every position } i

    where :math:`P_p[x]` is the patch at ``p``, a multiple of the stride. So the input is the sum of
    its apodized patches, :math:`x(i) = \sum_p (h \odot P_p[x])(i - p)`, and each patch can be
    modelled by its own sum of filters. With orthonormal filters,
    ``orthogonal(ApodizedConv2d(...))``, the units at one patch can then be inferred one by one;
    without apodization that needs patches that do not overlap. The orthonormal filters are
    ``weight``, not the apodized ones.

    Any stride up to the kernel size is allowed. If it equals the kernel size, the window is 1 and
    this is the plain convolution. :meth:`partition_deviation` checks the sum, :meth:`coverage`
    shows it for an input with borders, :meth:`deploy` returns the plain convolution with the same
    output. The state is ``weight`` and ``bias``, as for a convolution.

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
        window: ``"hann"``, ``"triangle"``, ``"gaussian"`` (standard deviation a quarter of the
            kernel) or ``"box"``, products of one profile per dimension, or a tensor of the kernel's
            shape. It is divided by the sum of its shifted copies.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``(N, C, H, W) -> (N, M, H', W')``, with or without ``N``.

    Balestriero and Baraniuk, 2019, "From Hard to Soft", arXiv:1810.09274, appendix B. Corrections:
    the printed condition, that ``h`` sums to 1, is that of stride 1; in general each residue class
    of places modulo the stride sums to 1; the patches that hold position ``i`` start at ``i - K +
    1``, not ``i - K``; the bound (18) of the whole error by the sum of the patches' errors lacks a
    factor, the number of patches that overlap.

    >>> layer = ApodizedConv2d(1, 1, 3, padding=1)
    >>> layer.window[0, 0, 1] * 9
    tensor([1., 4., 1.])
    """

    spatial: ClassVar[int] = 2
    plain: ClassVar[type[nn.Module]] = nn.Conv2d


def _profile(name: str, size: int) -> Tensor:
    # The centres of ``size`` equal cells between -1 and 1, so that no window is 0 at an edge.
    places = [(2 * place + 1) / size - 1 for place in range(size)]
    return torch.tensor([WINDOWS[name](t) for t in places], dtype=torch.float64, device="cpu")


def _outer(profiles: Sequence[Tensor]) -> Tensor:
    if len(profiles) == 1:
        return profiles[0]
    return torch.outer(*profiles)


def _classes(window: Tensor, strides: Sequence[int], gaps: Sequence[int]) -> tuple[Tensor, ...]:
    """Return, for each place of the window, the class of inputs that it meets, per dimension.

    Inputs of one class have the same index modulo the stride.
    """
    classes = (
        torch.arange(size, device="cpu") * gap % stride
        for size, stride, gap in zip(window.shape, strides, gaps, strict=True)
    )
    return torch.meshgrid(*classes, indexing="ij")


def _class_sums(window: Tensor, strides: Sequence[int], gaps: Sequence[int]) -> Tensor:
    """Return the sum of the window over each class of inputs."""
    sums = torch.zeros(tuple(strides), dtype=window.dtype, device="cpu")
    return sums.index_put(_classes(window, strides, gaps), window, accumulate=True)


def _sizes(window: Tensor, name: str, value: Sizes) -> tuple[int, ...]:
    if not isinstance(window, Tensor) or not window.is_floating_point() or window.dim() < 1:
        raise ArgumentError(
            "partition_deviation: the window must be a floating point tensor", got=window
        )
    return read_sizes("partition_deviation", name, value, window.dim(), least=1)
