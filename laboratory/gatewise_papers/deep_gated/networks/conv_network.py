"""Deep gated networks of convolutions, with zero or circular padding, pooled at the end or not."""

import itertools
import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from gatewise.checks import check_choice, check_count, is_sequence
from gatewise.errors import ArgumentError
from gatewise.units import Device, DType
from gatewise_papers.deep_gated.layers import Flatten, Gate, GlobalAverage, Step
from gatewise_papers.deep_gated.networks.base import DeepGated, Layer
from gatewise_papers.deep_gated.networks.dense_network import dense_layers

NAME = "DeepGatedConvNetwork"


class DeepGatedConvNetwork(DeepGated):
    """A :class:`DeepGatedNetwork` with convolutions before its dense layers.

    Convolutions with ``channels`` output channels are followed by a head, by dense layers with
    ``dense`` units, and by a linear map to ``d_out``. All but the last are gated. The default head
    flattens, as in the network that the paper trains on CIFAR-10: ``DeepGatedConvNetwork((3, 32,
    32), (64, 64, 128, 128), dense=(256, 256), d_out=10)``. The network of section 4 has
    ``padding="circular", head="average"``: a rotated input has the same output, and gates that are
    set by responses rotate with it. A random gate is drawn for each position and channel.

    With ``head="max"`` a channel's output is its response at the position of the largest gated
    response. Which position that is, is one more gate, which the gating network sets if there is
    one, and otherwise the network itself: on the paths of an average over P positions it is P at
    that position and 0 elsewhere.

    Shape: ``(N, *in_shape) -> (N, d_out)``; N is optional.

    Args:
        in_shape: ``(C, L)`` or ``(C, H, W)``.
        channels: output channels of each convolution.
        kernel_size: of every convolution, along every axis.
        padding: ``"zeros"`` or ``"circular"``, both of which keep the size, or ``"none"``.
        head: ``"flatten"``, or ``"average"`` or ``"max"`` over all positions of each channel.
        dense: units of the gated dense layers after the head.
        d_out: outputs.
        gate: this and the following arguments are those of :class:`DeepGatedNetwork`.
        beta: sharpness of a soft gate.
        eps: how far above 1 a soft gate reaches.
        mu: how likely a random gate is open.
        init: distribution of the initial weights.
        sigma: standard deviation of the initial weights.
        trains: ``"weights"``, ``"gates"`` or ``"both"``.
        examples: number of training examples, for random gates.
        gates_from: a network whose weights are copied into the gating network.
        same_start: whether the gating network starts with the weights of the strength network.
        generator: draws weights and random gates.
        device: of the weights.
        dtype: of the weights.

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
        self.head = check_choice(NAME, "head", head, ("flatten", "average", "max"))
        maps = _maps(self.in_shape, self.channels, kernel_size if padding == "none" else 1)
        widths = _counts("dense", dense, least=0)
        features = math.prod(maps[-1]) if head == "flatten" else self.channels[-1]
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
        layers: list[Layer] = []
        for inputs, outputs in itertools.pairwise((self.in_shape[0], *self.channels)):
            layers.append((kind, {"in_channels": inputs, "out_channels": outputs, **options}))
        return layers

    def enter(self, i: int, z: Tensor, chosen: Tensor | None = None) -> Tensor:
        """Return ``z``; after the last convolution, the output of the head.

        Args:
            i: the number of the layer.
            z: the gated output of the layer before.
            chosen: the position of each channel, (N, C, 1); by default that of its largest value.
        """
        if i != len(self.channels):
            return z
        flat = self._positions(z)
        if self.head == "average":
            return flat.mean(-1)
        if self.head == "max":
            return flat.max(-1).values if chosen is None else flat.gather(-1, chosen).squeeze(-1)
        return flat.flatten(-2)

    @torch.no_grad()
    def choice(self, x: Tensor) -> Tensor | None:
        """Return the positions that the gating network chooses for a maximum, if there is one."""
        if self.head != "max" or self.kind.set_by != "gating":
            return None
        response = self._run_gating(x)[len(self.channels) - 1]
        return self._positions(response * self._gate(response)).argmax(-1, keepdim=True)

    def _positions(self, z: Tensor) -> Tensor:
        """Return maps with all positions in one dimension: (N, C, P)."""
        return z.flatten(-len(self.in_shape) + 1)

    def path_steps(self, x: Tensor, index: Tensor | None = None) -> tuple[Step, ...]:
        """Return the network at these inputs as linear maps and gates, for path analysis."""
        steps = super().path_steps(x, index)
        if self.head != "max":
            return steps
        last = len(self.channels) - 1
        gated = self.responses(x, index)[last] * self.gates(x, index)[last]
        flat = self._positions(gated)
        places = self.choice(x)
        if places is None:
            places = flat.argmax(-1, keepdim=True)
        chosen = torch.zeros_like(flat).scatter(-1, places, float(flat.shape[-1]))
        head = next(place for place, step in enumerate(steps) if isinstance(step, GlobalAverage))
        return (*steps[:head], Gate(chosen.view_as(gated)), *steps[head:])

    def steps_before(self, i: int) -> tuple[Step, ...]:
        """Return the head after the last convolution, and nothing elsewhere."""
        if i != len(self.channels):
            return ()
        return (Flatten() if self.head == "flatten" else GlobalAverage(),)

    def check_shape(self, x: Tensor) -> None:
        """Raise an error if ``x`` is neither one input of ``in_shape`` nor a batch of them."""
        axes = len(self.in_shape)
        if x.dim() not in (axes, axes + 1) or tuple(x.shape[-axes:]) != self.in_shape:
            raise ArgumentError(
                f"{NAME}: the input has another shape",
                got=f"shape {tuple(x.shape)}",
                allowed=f"(N, {', '.join(map(str, self.in_shape))})",
            )


def _counts(name: str, values: Sequence[int], *, least: int) -> tuple[int, ...]:
    if not is_sequence(values) or len(values) < least:
        allowed = "a sequence of integers" + (", at least one" if least else "")
        raise ArgumentError(f"{NAME}: option {name} is not allowed", got=values, allowed=allowed)
    return tuple(check_count(NAME, name, value, least=1) for value in values)


def _check_shape(in_shape: Sequence[int]) -> tuple[int, ...]:
    sizes = _counts("in_shape", in_shape, least=1)
    if len(sizes) not in (2, 3):
        raise ArgumentError(
            f"{NAME}: option in_shape is not allowed",
            got=in_shape,
            allowed="(C, L) or (C, H, W)",
        )
    return sizes


def _check_padding(padding: str, kernel_size: int, in_shape: tuple[int, ...]) -> str:
    check_choice(NAME, "padding", padding, ("zeros", "circular", "none"))
    check_count(NAME, "kernel_size", kernel_size, least=1)
    if padding == "zeros" and kernel_size % 2 == 0:
        raise ArgumentError(
            f"{NAME}: an even kernel has no middle, so zeros cannot be added evenly",
            got=f"kernel_size={kernel_size}",
            fix="padding='circular', or an odd kernel",
        )
    if kernel_size > min(in_shape[1:]):
        raise ArgumentError(
            f"{NAME}: the kernel is larger than the input",
            got=f"kernel_size={kernel_size}",
            allowed=f"at most {min(in_shape[1:])}",
        )
    return padding


def _maps(
    in_shape: tuple[int, ...],
    channels: tuple[int, ...],
    kernel_size: int,
) -> list[tuple[int, ...]]:
    """Return the shape after each convolution, without padding."""
    maps: list[tuple[int, ...]] = []
    sizes = in_shape[1:]
    for width in channels:
        sizes = tuple(size - (kernel_size - 1) for size in sizes)
        maps.append((width, *sizes))
    if min(sizes) < 1:
        raise ArgumentError(
            f"{NAME}: the convolutions use the input up",
            got=f"in_shape {in_shape}, shapes after each convolution {maps}",
            fix="padding='zeros' or 'circular'",
        )
    return maps
