"""Compiled steps over feature maps: patch lengths, means, values and derivatives of IIEU-B."""

import ctypes
import math
from collections.abc import Sequence
from enum import IntEnum
from functools import cache
from typing import Any, NamedTuple

import torch
from torch import Tensor

from gatewise.fused.kernels import compiled
from gatewise.native import COUNT, HERE, NUMBER, POINTER, handle_or_warning, struct_fields

KINDS = 5  # sums per channel
END_OF_FUNCTIONS = "/* ---- the loops of one function"
_POINTERS = (
    "source z above out source_gradient scale offset centre filter eta shift constant slope patch "
    "positions space sums far"
)


class _Call(ctypes.Structure):
    _fields_ = [
        *struct_fields(
            (POINTER, _POINTERS),
            (COUNT, "samples inputs channels height width out_height out_width"),
        ),
        ("kernel", COUNT * 2),
        ("stride", COUNT * 2),
        ("padding", COUNT * 2),
        ("dilation", COUNT * 2),
        *struct_fields((COUNT, "source_last last squares adds threads"), (NUMBER, "eps more")),
    ]


class _Step(IntEnum):
    """The steps, in the order of the C source."""

    LENGTHS = 0
    MEANS = 1
    VALUES = 2
    SLOPES = 3
    FINISH = 4
    LENGTHS_BACK = 5


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


class Factors(NamedTuple):
    """What the values are made from besides the responses, all contiguous float32.

    Attributes:
        scale: by which a response is multiplied, ``(C,)``.
        offset: that is then added, ``(C,)``.
        centre: that is subtracted from responses in sums, ``(C,)``.
        filters: the inverse lengths of the filters, ``(C,)``.
        shift: Term-B, ``(N, C)``.
        eta: the threshold, ``(C,)``.
    """

    scale: Tensor
    offset: Tensor
    centre: Tensor
    filters: Tensor
    shift: Tensor
    eta: Tensor


class MapSteps:
    """The steps for one layer and one size of its maps.

    Args:
        handle: the compiled library.
        source_shape: of the layer's input, ``(N, C_in, H, W)``.
        channels: of the response.
        window: how the layer moves over its input.
        eps: the length up to which a patch has no direction.
    """

    def __init__(
        self,
        handle: ctypes.CDLL,
        source_shape: Sequence[int],
        channels: int,
        window: Window,
        eps: float,
    ) -> None:
        self._run = handle.gw_iieu
        self._run.argtypes = (POINTER, COUNT)
        self._run.restype = None
        samples, inputs, height, width = source_shape
        self.window = window
        self.size = window.size(height, width)
        self.positions = self.size[0] * self.size[1]
        self.samples = samples
        self.channels = channels
        call = _Call()
        call.samples, call.inputs, call.channels = samples, inputs, channels
        call.height, call.width = height, width
        call.out_height, call.out_width = self.size
        for name, values in window._asdict().items():
            getattr(call, name)[:] = values
        call.eps = eps
        call.more = eps * math.sqrt(math.prod(window.kernel))
        self._call = call

    def lengths(self, source: Tensor) -> tuple[Tensor, bool]:
        """Return the inverse lengths of all patches, and whether all are in range.

        Args:
            source: the layer's input, contiguous or with the channels last.
        """
        patch = torch.empty(self.samples, *self.size)
        far = torch.empty(self.samples, dtype=torch.int64)
        self._call.source_last = _has_channels_last(source)
        self._step(_Step.LENGTHS, source=source, patch=patch, far=far, space=self._space())
        return patch, not bool(far.any())

    def lengths_back(self, source: Tensor, patch: Tensor, positions: Tensor, to: Tensor) -> None:
        """Add the gradient through the lengths of patches to ``to``.

        Args:
            source: the layer's input.
            patch: the inverse lengths.
            positions: their gradient, times the inverse lengths.
            to: the gradient to the source so far, laid out as the source.
        """
        self._call.source_last = _has_channels_last(source)
        self._call.adds = 1
        self._step(
            _Step.LENGTHS_BACK,
            source=source,
            patch=patch,
            positions=positions,
            source_gradient=to,
            space=self._space(),
        )

    def means(self, z: Tensor, centre: Tensor, *, squares: bool) -> Tensor:
        """Return the sums of ``z - centre`` and its squares, ``(N, 2, C)`` in float64.

        Args:
            z: the responses.
            centre: one number per channel.
            squares: whether those are wanted.
        """
        sums = torch.zeros(self.samples, KINDS, self.channels, dtype=torch.float64)
        self._call.squares = squares
        self._step(_Step.MEANS, z=z, centre=centre, sums=sums)
        return sums[:, :2]

    def values(self, z: Tensor, patch: Tensor, factors: Factors, out: Tensor) -> None:
        """Write the values to ``out``, which may be ``z``."""
        self._step(_Step.VALUES, z=z, patch=patch, out=out, **_pointers(factors))

    def slopes(
        self,
        z: Tensor,
        above: Tensor,
        patch: Tensor,
        factors: Factors,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Return the gradient to the scaled responses, and what is summed on the way.

        Args:
            z: the responses.
            above: the gradient of the output.
            patch: the inverse lengths of the patches.
            factors: the others.

        Returns:
            The gradient without what comes through the means; five sums per sample and channel:
            the derivative to the threshold below it, the one to the shift above it, to the inverse
            length of the filter times that, the gradient, and the gradient times ``z - centre``;
            the derivative to the inverse lengths of patches, times these.
        """
        out = torch.empty_like(z)
        positions = torch.empty(self.samples, *self.size)
        sums = torch.zeros(self.samples, KINDS, self.channels, dtype=torch.float64)
        self._step(
            _Step.SLOPES,
            z=z,
            above=above,
            patch=patch,
            out=out,
            positions=positions,
            sums=sums,
            **_pointers(factors),
        )
        return out, sums, positions

    def finish(self, z: Tensor, out: Tensor, factors: Factors, to: tuple[Tensor, Tensor]) -> None:
        """Turn the gradient ``out`` into ``scale * out + constant + slope * (z - centre)``.

        Args:
            z: the responses.
            out: the gradient to the scaled responses.
            factors: scale and centre.
            to: ``constant``, ``(N, C)``, and ``slope``, ``(C,)``.
        """
        constant, slope = to
        self._step(
            _Step.FINISH, z=z, out=out, constant=constant, slope=slope, **_pointers(factors)
        )

    def _space(self) -> Tensor:
        call = self._call
        return torch.empty(self.samples * (call.height + call.out_height) * call.width)

    def _step(self, step: _Step, **tensors: Tensor) -> None:
        call = self._call
        for name, tensor in tensors.items():
            setattr(call, name, tensor.data_ptr())
        for name in ("z", "out"):
            if name in tensors:
                call.last = _has_channels_last(tensors[name])
        call.threads = torch.get_num_threads()
        self._run(ctypes.byref(call), step)


def _pointers(factors: Factors) -> dict[str, Tensor]:
    return {
        "scale": factors.scale,
        "offset": factors.offset,
        "centre": factors.centre,
        "filter": factors.filters,
        "shift": factors.shift,
        "eta": factors.eta,
    }


def _has_channels_last(maps: Tensor) -> bool:
    return not maps.is_contiguous()


def is_laid_out(maps: Tensor) -> bool:
    """Return whether maps are contiguous or have their channels last."""
    return maps.is_contiguous() or maps.is_contiguous(memory_format=torch.channels_last)


def laid_out_as(maps: Tensor, other: Tensor) -> Tensor:
    """Return maps in the memory layout of others of the same shape."""
    last = torch.channels_last if _has_channels_last(other) else torch.contiguous_format
    return maps.contiguous(memory_format=last)


def squares_of_rows(handle: ctypes.CDLL, weight: Tensor) -> Tensor:
    """Return the sum of squares of each filter, in float64.

    Args:
        handle: the compiled library.
        weight: of a layer, dense with the filters in the slowest dimension.
    """
    rows = weight.shape[0]
    out = torch.empty(rows, dtype=torch.float64)
    call: Any = handle.gw_squares
    call.argtypes = (POINTER, POINTER, COUNT, COUNT)
    call.restype = None
    call(weight.data_ptr(), out.data_ptr(), rows, weight.numel() // rows)
    return out


def add_scaled_rows(handle: ctypes.CDLL, weight: Tensor, factors: Tensor, to: Tensor) -> None:
    """Add each filter, times its factor, to ``to``.

    Args:
        handle: the compiled library.
        weight: of a layer, dense with the filters in the slowest dimension.
        factors: one per filter, float32.
        to: laid out as the weight.
    """
    rows = weight.shape[0]
    call: Any = handle.gw_add_rows
    call.argtypes = (POINTER, POINTER, POINTER, COUNT, COUNT)
    call.restype = None
    call(weight.data_ptr(), to.data_ptr(), factors.data_ptr(), rows, weight.numel() // rows)


@cache
def map_library() -> ctypes.CDLL | None:
    """Return the compiled steps; ``None``, after a warning, without a compiler."""
    functions = (HERE / "elementwise.c").read_text().partition(END_OF_FUNCTIONS)[0]
    text = functions + (HERE / "iieu.c").read_text()
    return handle_or_warning(compiled("iieu", text))
