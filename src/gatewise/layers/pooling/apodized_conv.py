"""Apodized convolution.

Patches weighted by a window, so that overlapping patches add up to the input again.
"""

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.layers.response import ConvolutionResponse, layer_options
from gatewise.layers.windows import Sizes, read_sizes
from gatewise.units import Device, DType, allocating, check_choice

# Of a place t in a patch, from -1 to 1, edge to edge.
WINDOWS = {
    "box": lambda t: 1.0,
    "triangle": lambda t: 1.0 - abs(t),
    "hann": lambda t: math.cos(math.pi * t / 2) ** 2,
    "gaussian": lambda t: math.exp(-2.0 * t * t),
}

Window = str | Tensor


def partition_deviation(window: Tensor, stride: Sizes = 1, dilation: Sizes = 1) -> float:
    r"""How far shifted copies of ``window`` are from adding up to 1 everywhere.

    0 for a partition of unity.

    .. math:: \max_i \Bigl| 1 - \sum_p h(i - p) \Bigr|

    over all positions ``i`` of an endless input, where :math:`p` runs over the multiples of
    ``stride`` and ``h`` is ``window``, its places ``dilation`` apart.

    >>> partition_deviation(torch.full((4, 4), 0.25), stride=2), partition_deviation(torch.ones(4, 4), stride=2)
    (0.0, 3.0)
    """
    strides, gaps = _sizes(window, "stride", stride), _sizes(window, "dilation", dilation)
    with allocating("partition_deviation"):
        sums = _class_sums(window.detach().to("cpu", torch.float64), strides, gaps)
    return float((sums - 1).abs().max())


class _ApodizedConv(ConvolutionResponse):
    plain: ClassVar[type[nn.Module]]
    window: Tensor
    bias: Tensor | None

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
        window: Window = "hann",
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__(
            in_channels, out_channels, kernel_size, stride, padding, dilation, groups, padding_mode
        )
        self._check_reach()
        self.profile = self._check_window(window)
        self.add_weight("weight", self.weight_shape, device, dtype)
        self.add_bias(bias, device, dtype)
        values = torch.empty(1, 1, *self.kernel_size, device=device, dtype=dtype)
        # Not part of the state, because it follows from the options: a plain layer's state fits.
        self.register_buffer("window", values, persistent=False)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weight and bias as torch's convolution does, an input counting by the square of its window."""
        with torch.no_grad():
            exact = self._normalised()
            self.window.copy_(exact)
            seen = float(exact.square().sum()) * self.weight_shape[1]
            nn.init.uniform_(self.weight, -(seen**-0.5), seen**-0.5)
            self.reset_uniform("bias")

    def apodized_weight(self) -> Tensor:
        """The filters times the window.

        What a plain convolution needs to do what this layer does.
        """
        return self.weight * self.window

    def forward(self, x: Tensor) -> Tensor:
        ready, weight, *bias = self.prepare(
            x, self.apodized_weight(), *(() if self.bias is None else (self.bias,))
        )
        return self.plain_response(ready, weight, bias[0] if bias else None).to(x.dtype)

    def partition_deviation(self) -> float:
        """:func:`partition_deviation` of this layer's window, as it is stored.

        Within its dtype's rounding of 0.
        """
        return partition_deviation(self.window[0, 0], self.stride, self.dilation)

    def coverage(self, *size: int) -> Tensor:
        """The total weight with which each position of an input of that ``size`` enters patches.

        Shape ``size``.

        1 in the interior. At borders it is less, where patches that would stick out are not there.
        """
        x = torch.zeros(
            1, 1, *size, device=self.window.device, dtype=self.window.dtype, requires_grad=True
        )
        with torch.enable_grad():
            total = self.respond(self.pad(x), self.window, groups=1).sum()
        return torch.autograd.grad(total, x)[0][0, 0]

    def deploy(self) -> nn.Module:
        """The plain convolution with the same output, bit for bit."""
        place = {"device": self.window.device, "dtype": self.window.dtype}
        plain: Any = self.plain(**layer_options(self), **place)
        with torch.no_grad():
            plain.weight.copy_(self.apodized_weight())
            if self.bias is not None:
                plain.bias.copy_(self.bias)
        return plain.train(self.training)

    def extra_repr(self) -> str:
        return (
            super().extra_repr()
            + f", window={self.profile if isinstance(self.profile, str) else 'given'!r}"
        )

    def _check_reach(self) -> None:
        """Every input must lie in some patch: for a window to sum to 1 there, it must be there."""
        for kernel, stride, dilation in zip(
            self.kernel_size, self.stride, self.dilation, strict=True
        ):
            if (
                kernel < stride or math.gcd(dilation, stride) > 1
            ):  # then its places leave out a class modulo the stride
                raise ArgumentError(
                    f"{self.layer}: some inputs lie in no patch",
                    got=f"kernel_size={self.kernel_size}, stride={self.stride}, dilation={self.dilation}",
                    allowed="a stride of at most the kernel size, without a common factor with the dilation",
                )

    def _check_window(self, window: Window) -> str | tuple[float, ...]:
        """A known name, or the numbers of a window of the kernel's shape that can be made a partition of unity."""
        if not isinstance(window, Tensor):
            return check_choice(self.layer, "window", window, tuple(WINDOWS))
        values = window.detach().to("cpu", torch.float64)
        usable = tuple(values.shape) == self.kernel_size
        usable = usable and bool(values.isfinite().all() and (values >= 0).all())
        if not usable or not bool((_class_sums(values, self.stride, self.dilation) > 0).all()):
            raise ArgumentError(
                f"{self.layer}: option window is not allowed",
                got=f"shape {tuple(window.shape)}, {window.tolist()}",
                allowed=f"{', '.join(map(repr, WINDOWS))}, or a tensor of shape {self.kernel_size}, finite, never "
                "negative, and positive somewhere for every input",
            )
        return tuple(values.flatten().tolist())

    def _normalised(self) -> Tensor:
        """The window, divided by the sum of its copies at each place; exact to float64."""
        if isinstance(self.profile, str):
            raw = _outer([_profile(self.profile, size) for size in self.kernel_size])
        else:
            raw = torch.tensor(self.profile, dtype=torch.float64, device="cpu").reshape(
                self.kernel_size
            )
        sums = _class_sums(raw, self.stride, self.dilation)
        return raw / sums[tuple(_classes(raw, self.stride, self.dilation))]


class ApodizedConv1d(_ApodizedConv):
    """Apodized convolution of sequences ``(N, C, L)``.

    Everything else as :class:`ApodizedConv2d`.
    """

    spatial: ClassVar[int] = 1
    plain: ClassVar[type[nn.Module]] = nn.Conv1d


class ApodizedConv2d(_ApodizedConv):
    r"""Convolution whose patches are weighted by a window ``h`` that is a partition of unity.

    .. math:: y_k(p) = \langle W_k, h \odot P_p[x] \rangle + b_k = \langle h \odot W_k, P_p[x] \rangle + b_k,
        \qquad \sum_p h(i - p) = 1 \text{ for every position } i

    where :math:`P_p[x]` is the patch at ``p``, a multiple of the stride. So the input is the sum of
    its apodized patches, :math:`x(i) = \sum_p (h \odot P_p[x])(i - p)`, and each patch can be
    modelled by its own sum of filters. With orthonormal filters,
    ``orthogonal(ApodizedConv2d(...))``, the units at one patch are then inferred one by one, which
    without apodization asks for patches that do not overlap. The filters that are orthonormal are
    ``weight``, not the apodized ones. Shape: ``(N, C, H, W) -> (N, M, H', W')``, the ``N``
    optional.

    Any stride up to the kernel size will do; where it equals the kernel size the window is 1 and
    this is the plain convolution. :meth:`partition_deviation` checks the sum, :meth:`coverage`
    shows it for an input with borders, :meth:`deploy` gives the plain convolution of the same
    output. State: ``weight`` and ``bias``, as a convolution.

    Args: in_channels, out_channels, kernel_size, stride, padding, dilation, groups, bias,
        padding_mode: as in
            ``torch.nn.Conv2d``.
        window: ``"hann"``, ``"triangle"``, ``"gaussian"`` (standard deviation a quarter of the
            kernel) or ``"box"``, products of one profile per dimension, or a tensor of the kernel's
            shape. Whatever it is, it is divided by the sum of its shifted copies.

    Balestriero and Baraniuk, 2019, "From Hard to Soft", arXiv:1810.09274, appendix B. Corrections:
    the condition printed, that ``h`` sums to 1, is that of stride 1; in general each residue class
    of places modulo the stride sums to 1; the patches that hold position ``i`` start at
    ``i - K + 1``, not ``i - K``; the bound (18) of the whole error by the sum of the patches'
    errors lacks a factor, the number of patches that overlap.

    >>> layer = ApodizedConv2d(1, 1, 3, padding=1)
    >>> layer.window[0, 0, 1] * 9
    tensor([1., 4., 1.])
    """

    spatial: ClassVar[int] = 2
    plain: ClassVar[type[nn.Module]] = nn.Conv2d


def _profile(name: str, size: int) -> Tensor:
    places = [(2 * place + 1) / size - 1 for place in range(size)]
    return torch.tensor([WINDOWS[name](t) for t in places], dtype=torch.float64, device="cpu")


def _outer(profiles: Sequence[Tensor]) -> Tensor:
    return profiles[0] if len(profiles) == 1 else torch.outer(*profiles)


def _classes(window: Tensor, strides: Sequence[int], gaps: Sequence[int]) -> tuple[Tensor, ...]:
    """For each place of the window, which inputs it meets.

    Those of one class modulo the stride, per dimension.
    """
    classes = (
        torch.arange(size, device="cpu") * gap % stride
        for size, stride, gap in zip(window.shape, strides, gaps, strict=True)
    )
    return torch.meshgrid(*classes, indexing="ij")


def _class_sums(window: Tensor, strides: Sequence[int], gaps: Sequence[int]) -> Tensor:
    """The window's sum over each class of inputs."""
    sums = torch.zeros(tuple(strides), dtype=window.dtype, device="cpu")
    return sums.index_put(_classes(window, strides, gaps), window, accumulate=True)


def _sizes(window: Tensor, name: str, value: Sizes) -> tuple[int, ...]:
    if not isinstance(window, Tensor) or not window.is_floating_point() or window.dim() < 1:
        raise ArgumentError(
            "partition_deviation: the window must be a floating point tensor", got=window
        )
    return read_sizes("partition_deviation", name, value, window.dim(), least=1)
