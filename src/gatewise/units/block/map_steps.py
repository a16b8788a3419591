"""Compiled steps over feature maps: patch lengths, means, values and derivatives of IIEU-B."""

import ctypes
import math
from collections.abc import Sequence
from enum import IntEnum
from typing import NamedTuple

import torch
from torch import Tensor

from gatewise.native import COUNT, NUMBER, POINTER, struct_fields, vector_library

KINDS = 5  # sums per channel
_POINTERS = (
    "source z above out source_gradient weight stored gamma beta running_mean running_var eta "
    "term_weight term_bias kept wide sums term results positions space far"
)
_SIZES = "samples inputs channels height width out_height out_width"
_CHOICES = "source_last last has_norm takes_batch groups filter_length threads"


class _MapCall(ctypes.Structure):
    _fields_ = [
        *struct_fields((POINTER, _POINTERS), (COUNT, _SIZES)),
        ("kernel", COUNT * 2),
        ("stride", COUNT * 2),
        ("padding", COUNT * 2),
        ("dilation", COUNT * 2),
        *struct_fields((COUNT, _CHOICES), (NUMBER, "eps more norm_eps share")),
    ]


class Step(IntEnum):
    """What is done for every sample, in the order of the C source."""

    START = 0  # lengths of patches and sums of responses
    VALUES = 1  # Term-B and values
    WHOLE = 2  # both
    SLOPES = 3  # gradients to normalised responses, sums, and through Term-B
    FINISH = 4  # gradients to responses
    LENGTHS_BACK = 5  # gradients through the lengths of patches
    GIVEN_VALUES = 6  # values with a given Term-B and given lengths
    GIVEN_SLOPES = 7  # their derivatives


class Result(IntEnum):
    """Gradients per channel, in the order of the C source."""

    GAMMA = 0
    BETA = 1
    ETA = 2
    TERM_WEIGHT = 3
    TERM_BIAS = 4
    FACTORS = 5  # of the filters, through their lengths
    SLOPE = 6


class Window(NamedTuple):
    """How a convolution moves over maps, each along height and width."""

    kernel: tuple[int, int]
    stride: tuple[int, int]
    padding: tuple[int, int]
    dilation: tuple[int, int]

    def size(self, height: int, width: int) -> tuple[int, int]:
        """Return height and width of the output."""
        sizes = []
        for axis, size in enumerate((height, width)):
            extent = (self.kernel[axis] - 1) * self.dilation[axis] + 1
            sizes.append((size + 2 * self.padding[axis] - extent) // self.stride[axis] + 1)
        return sizes[0], sizes[1]


class MapSteps:
    """The steps for one layer and one size of its maps.

    Args:
        handle: the compiled library.
        source_shape: of the layer's input, ``(N, C_in, H, W)``.
        channels: of the response.
        window: how the layer moves over its input.
        groups: of Term-B; 0 if nothing is normalised.
        eps: the length up to which a patch or filter has no direction.
    """

    def __init__(
        self,
        handle: ctypes.CDLL,
        source_shape: Sequence[int],
        channels: int,
        window: Window,
        groups: int,
        eps: float,
    ) -> None:
        self._handle = handle
        samples, inputs, height, width = source_shape
        self.window = window
        self.size = window.size(height, width)
        self.positions = self.size[0] * self.size[1]
        self.samples = samples
        self.channels = channels
        call = _MapCall()
        call.samples, call.inputs, call.channels = samples, inputs, channels
        call.height, call.width = height, width
        call.out_height, call.out_width = self.size
        call.kernel[:], call.stride[:] = window.kernel, window.stride
        call.padding[:], call.dilation[:] = window.padding, window.dilation
        call.groups = groups
        call.eps = eps
        call.more = eps * math.sqrt(math.prod(window.kernel))
        self.call = call
        row = samples * channels
        self.kept = torch.empty(4 * channels + row + samples * self.positions)
        self._wide = torch.empty(2 * channels + 2 * row + samples * groups, dtype=torch.float64)
        call.kept, call.wide = self.kept.data_ptr(), self._wide.data_ptr()

    @property
    def centre(self) -> Tensor:
        """The mean response per channel that the norm subtracts."""
        return self.kept[2 * self.channels : 3 * self.channels]

    @property
    def inverse_deviation(self) -> Tensor:
        """By which the norm multiplies, per channel, without its weight."""
        return self._wide[: self.channels]

    def begin(self, z: Tensor) -> None:
        """Set what does not depend on the batch."""
        self._point(z=z)
        self._call_all("gw_begin")

    def statistics(self) -> None:
        """Set the norm by the sums of the batch."""
        self._call_all("gw_statistics")

    def forward(self, step: Step, source: Tensor, z: Tensor, out: Tensor) -> bool:
        """Run a step forward.

        Args:
            step: ``START``, ``VALUES`` or ``WHOLE``.
            source: the layer's input, contiguous or with the channels last.
            z: the responses, likewise.
            out: gets the values; it may be ``z``.

        Returns:
            Whether the lengths of all patches are in range.
        """
        if step is not Step.VALUES:
            self._sums = _sums(self)
            self._far = torch.empty(self.samples, dtype=torch.int64)
        call = self.call
        space = torch.empty(self.samples * (call.height + call.out_height) * call.width)
        call.source_last = has_channels_last(source)
        self._point(source=source, z=z, out=out, sums=self._sums, far=self._far, space=space)
        self._run(step)
        if step is not Step.START:
            self._sums = torch.empty(0)
        return not bool(self._far.any())

    def slopes(self, z: Tensor, above: Tensor) -> tuple[Tensor, Tensor, Tensor] | None:
        """Return the gradient to the responses, gradients per channel, and those per position.

        It is ``None`` if a sum is not finite.

        Args:
            z: the responses.
            above: the gradient of the output, laid out as the responses.
        """
        out = torch.empty_like(z)
        sums = _sums(self)
        term = torch.empty(self.samples * 3 * self.channels, dtype=torch.float64)
        results = torch.empty(len(Result) + self.samples, self.channels)
        positions = torch.empty(self.samples * self.positions)
        self._point(z=z, above=above, out=out, sums=sums)
        self._point(term=term, results=results, positions=positions)
        self._run(Step.SLOPES)
        if not self._call_all("gw_totals"):
            return None
        self._run(Step.FINISH)
        return out, results, positions

    def lengths_back(self, source: Tensor, positions: Tensor, to: Tensor) -> None:
        """Add the gradient through the lengths of patches to ``to``.

        Args:
            source: the layer's input.
            positions: the sums per position of :meth:`slopes`.
            to: the gradient to the source so far, laid out as the source.
        """
        call = self.call
        space = torch.empty(self.samples * (call.height + call.out_height) * call.width)
        call.source_last = has_channels_last(source)
        self._point(source=source, positions=positions, source_gradient=to, space=space)
        self._run(Step.LENGTHS_BACK)

    def filters_back(self, weight: Tensor, results: Tensor, to: Tensor) -> None:
        """Add the gradient through the lengths of the filters to ``to``.

        Args:
            weight: the filters, dense with one after the other.
            results: the gradients per channel of :meth:`slopes`.
            to: the gradient to the filters so far, laid out as these.
        """
        self._point(weight=weight, results=results)
        self._handle.gw_add_filters(ctypes.byref(self.call), POINTER(to.data_ptr()))

    def _point(self, **tensors: Tensor) -> None:
        for name, tensor in tensors.items():
            setattr(self.call, name, tensor.data_ptr())
        if "z" in tensors:
            self.call.last = has_channels_last(tensors["z"])

    def _call_all(self, name: str) -> int:
        return getattr(self._handle, name)(ctypes.byref(self.call))

    def _run(self, step: Step) -> None:
        self.call.threads = torch.get_num_threads()
        self._handle.gw_iieu(ctypes.byref(self.call), COUNT(step))


def _sums(steps: MapSteps) -> Tensor:
    return torch.zeros(steps.samples, KINDS, steps.channels, dtype=torch.float64)


def has_channels_last(maps: Tensor) -> bool:
    """Return whether the channels of maps lie beside each other."""
    return not maps.is_contiguous()


def is_laid_out(maps: Tensor) -> bool:
    """Return whether maps are contiguous or have their channels last."""
    return maps.is_contiguous() or maps.is_contiguous(memory_format=torch.channels_last)


def laid_out_as(maps: Tensor, other: Tensor) -> Tensor:
    """Return maps in the memory layout of others of the same shape."""
    last = torch.channels_last if has_channels_last(other) else torch.contiguous_format
    return maps.contiguous(memory_format=last)


def map_library() -> ctypes.CDLL | None:
    """Return the compiled steps; ``None``, after a warning, without a compiler."""
    return vector_library("iieu")
