r"""Deep gated networks of convolutions: circular or not, pooled at the end or not."""

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.layers import Flatten, GlobalAverage, Step
from gatewise.models.gated.base import DeepGated, Layer
from gatewise.models.gated.dense_network import dense_layers
from gatewise.units import Device, DType, check_choice, check_count, is_sequence

NAME = "DeepGatedConvNetwork"


class DeepGatedConvNetwork(DeepGated):
    r""":class:`DeepGatedNetwork` with convolutions before its dense layers, over sequences or maps.

    Convolutions with ``channels`` output channels, all gated; then a head; then dense layers with
    ``dense`` units, all gated; then a linear map to ``d_out``. The default head flattens, as in the
    network the paper trains on CIFAR-10:
    ``DeepGatedConvNetwork((3, 32, 32), (64, 64, 128, 128), dense=(256, 256), d_out=10)``. Its
    section 4 has ``padding="circular", head="average"``: then a rotated input has the same output,
    gates that are set by responses rotating along.

    Shape: ``(N, *in_shape) -> (N, d_out)``, the N optional.

    Args:
        in_shape: ``(C, L)`` or ``(C, H, W)``.
        channels: output channels of each convolution.
        kernel_size: of every convolution, along every axis.
        padding: ``"zeros"`` or ``"circular"``, both of which keep the size, or ``"none"``.
        head: ``"flatten"``, or ``"average"`` over all positions of each channel.
        dense: units of the gated dense layers behind the head.

    The other arguments are those of :class:`DeepGatedNetwork`. Random gates are one coin per
    position and channel.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996.
    """

    def __init__(
        self,
        in_shape: Sequence[int],
        channels: Sequence[int],
        kernel_size: int = 3,
        *,
        padding: str = "zeros",
        head: str = "flatten",
        dense: Sequence[int] = (),
        d_out: int = 1,
        gate: str = "relu",
        beta: float = 4.0,
        eps: float = 0.1,
        mu: float = 0.5,
        init: str = "bernoulli",
        sigma: float | None = None,
        trains: str | None = None,
        examples: int | None = None,
        gates_from: nn.Module | None = None,
        same_start: bool = False,
        generator: torch.Generator | None = None,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        self.in_shape = _check_shape(in_shape)
        self.channels = _counts("channels", channels, least=1)
        self.padding = _check_padding(padding, kernel_size, self.in_shape)
        self.d_out = check_count(NAME, "d_out", d_out, least=1)
        self.head = check_choice(NAME, "head", head, ("flatten", "average"))
        maps = _maps(self.in_shape, self.channels, kernel_size if padding == "none" else 1)
        widths = _counts("dense", dense, least=0)
        features = self.channels[-1] if head == "average" else math.prod(maps[-1])
        super().__init__(
            self._convolutions(kernel_size) + dense_layers([features, *widths, self.d_out]),
            [*maps, *((width,) for width in widths)],
            gate=gate,
            beta=beta,
            eps=eps,
            mu=mu,
            init=init,
            sigma=sigma,
            trains=trains,
            examples=examples,
            gates_from=gates_from,
            same_start=same_start,
            generator=generator,
            device=device,
            dtype=dtype,
        )

    def _convolutions(self, kernel_size: int) -> list[Layer]:
        kind = nn.Conv1d if len(self.in_shape) == 2 else nn.Conv2d
        options = {
            "kernel_size": kernel_size,
            "bias": False,
            "padding": "valid" if self.padding == "none" else "same",
        }
        if self.padding == "circular":
            options["padding_mode"] = "circular"
        pairs = itertools.pairwise((self.in_shape[0], *self.channels))
        return [(kind, {"in_channels": a, "out_channels": b, **options}) for a, b in pairs]

    def enter(self, i: int, z: Tensor) -> Tensor:
        """``z`` itself; behind the last convolution, what the head makes of it."""
        if i != len(self.channels):
            return z
        flat = z.flatten(-len(self.in_shape) + 1)  # (N, C, P)
        return flat.mean(-1) if self.head == "average" else flat.flatten(-2)

    def steps_before(self, i: int) -> tuple[Step, ...]:
        """The head, behind the last convolution."""
        if i != len(self.channels):
            return ()
        return (GlobalAverage() if self.head == "average" else Flatten(),)

    def check_shape(self, x: Tensor) -> None:
        """An error if ``x`` is not a batch of ``in_shape``, or one of them."""
        axes = len(self.in_shape)
        if x.dim() not in (axes, axes + 1) or tuple(x.shape[-axes:]) != self.in_shape:
            what = f"{NAME}: the input has another shape"
            raise ArgumentError(
                what,
                got=f"shape {tuple(x.shape)}",
                allowed=f"(N, {', '.join(map(str, self.in_shape))})",
            )


def _counts(name: str, values: Sequence[int], *, least: int) -> tuple[int, ...]:
    if not is_sequence(values) or len(values) < least:
        allowed = "a sequence of integers" + (", at least one" if least else "")
        raise ArgumentError(f"{NAME}: option {name} is not allowed", got=values, allowed=allowed)
    return tuple(check_count(NAME, name, each, least=1) for each in values)


def _check_shape(in_shape: Sequence[int]) -> tuple[int, ...]:
    sizes = _counts("in_shape", in_shape, least=1)
    if len(sizes) not in (2, 3):
        raise ArgumentError(
            f"{NAME}: option in_shape is not allowed", got=in_shape, allowed="(C, L) or (C, H, W)"
        )
    return sizes


def _check_padding(padding: str, kernel_size: int, in_shape: tuple[int, ...]) -> str:
    check_choice(NAME, "padding", padding, ("zeros", "circular", "none"))
    check_count(NAME, "kernel_size", kernel_size, least=1)
    if padding == "zeros" and kernel_size % 2 == 0:
        what = f"{NAME}: an even kernel has no middle, so zeros cannot be added evenly"
        raise ArgumentError(
            what, got=f"kernel_size={kernel_size}", fix="padding='circular', or an odd kernel"
        )
    if kernel_size > min(in_shape[1:]):
        what = f"{NAME}: the kernel is larger than the input"
        raise ArgumentError(
            what, got=f"kernel_size={kernel_size}", allowed=f"at most {min(in_shape[1:])}"
        )
    return padding


def _maps(
    in_shape: tuple[int, ...], channels: tuple[int, ...], kernel_size: int
) -> list[tuple[int, ...]]:
    """The shape behind each convolution; each takes ``kernel_size - 1`` off every axis."""
    lost = [(kernel_size - 1) * layer for layer in range(1, len(channels) + 1)]
    maps = [
        (c, *(size - less for size in in_shape[1:])) for c, less in zip(channels, lost, strict=True)
    ]
    if min(min(each) for each in maps) < 1:
        what = f"{NAME}: the convolutions use the input up"
        raise ArgumentError(
            what,
            got=f"in_shape {in_shape}, shapes behind {maps}",
            fix="padding='zeros' or 'circular'",
        )
    return maps
