"""One small example of every public layer: a module of one input that can be pickled."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from gatewise_papers.deep_gated import RandomGate
from torch import Tensor, nn

from gatewise import layers
from gatewise.layers.orthonormal import orthogonal


class Gated(nn.Module):
    """A layer gated from outside.

    By its own response, or as one of two examples where its gate numbers these.
    """

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(self.layer.gate, RandomGate):
            return self.layer(x, (x[:, 0] > 0).long())
        sourceless = isinstance(self.layer.gate, layers.ConstantGate) or not isinstance(x, Tensor)
        return self.layer(x) if sourceless else self.layer(x, self.layer.response(x))


class Residual(nn.Module):
    """A block with a coupler where the addition was."""

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.coupler = layers.Coupler(4, **options)

    def forward(self, x: Tensor) -> Tensor:
        return self.coupler(x, 0.5 * x.flip(-1))


class SelfAttention(nn.Module):
    """Attention of a sequence to itself, or its gate on the sequence alone."""

    def __init__(self, name: str, **options: Any) -> None:
        super().__init__()
        self.layer = getattr(layers, name)(6, 2, **options)

    def forward(self, x: Tensor) -> Tensor:
        if isinstance(self.layer, layers.GatedMultiheadAttention):
            return self.layer(x, x, x)[0]
        return self.layer(x, x)


class Parametrised(nn.Module):
    """An orthogonal layer: torch does not pickle parametrised modules themselves."""

    def __init__(self, options: dict[str, Any], state: dict[str, Tensor] | None = None) -> None:
        super().__init__()
        self.options = options
        self.layer = orthogonal(nn.Linear(6, 4), **options)
        if state is not None:
            self.load_state_dict(state)

    def __reduce__(self) -> tuple:
        return Parametrised, (self.options, self.state_dict())

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)


@dataclass(frozen=True)
class Example:
    """How to build a layer, and its input's shape.

    ``of`` names the public classes that it stands for.
    """

    make: Callable[[], nn.Module]
    shape: tuple[int, ...]
    of: tuple[str, ...]


def _of(name: str, *arguments: Any, shape: tuple[int, ...], **options: Any) -> Example:
    return Example(lambda: getattr(layers, name)(*arguments, **options), shape, (name,))


def _gated(
    name: str, *sizes: int, gate: Callable[[], nn.Module], shape: tuple[int, ...]
) -> Example:
    of = (name, type(gate()).__name__)
    return Example(lambda: Gated(getattr(layers, name)(*sizes, gate=gate())), shape, of)


def _attention(name: str, **options: Any) -> Example:
    return Example(lambda: SelfAttention(name, **options), SEQUENCES, (name,))


ROWS, SEQUENCES, MAPS = (4, 6), (4, 2, 6), (4, 2, 5, 4)

EXAMPLES = {
    "attention, heads": _attention("GatedMultiheadAttention", batch_first=True),
    "attention, elements": _attention("GatedMultiheadAttention", gate="element", batch_first=True),
    "attention gate": _attention("AttentionGate", bias=True),
    "attention gate, elements": _attention("AttentionGate", gate="element", scale=2.0),
    "attention gate, open": _attention("OpenGate"),
    "maso, hard": _of("MASO", 6, 3, 2, shape=ROWS),
    "maso, soft": _of("MASO", 6, 3, 2, inference="soft", shape=ROWS),
    "maso, mean": _of("MASO", 6, 3, 2, inference="beta", beta=0.0, shape=ROWS),
    "maso, trained": _of("MASO", 6, 3, 3, inference="beta", learn_beta=True, shape=ROWS),
    "pool 1d": _of("BetaPool1d", 2, learn_beta=True, shape=SEQUENCES),
    "pool 2d": _of("BetaPool2d", 2, learn_beta=True, channels=2, shape=MAPS),
    "pool 2d, mean": _of("BetaPool2d", 2, beta=0.0, dilation=2, shape=MAPS),
    "pool 2d, average": _of("BetaPool2d", 3, 1, beta=0.0, shape=MAPS),
    "pool 2d, hard": _of("BetaPool2d", 2, beta=1.0, shape=MAPS),
    "channel pool": _of("BetaChannelPool", 2, learn_beta=True, shape=MAPS),
    "channel pool, mean": _of("BetaChannelPool", 2, beta=0.0, shape=MAPS),
    "soft linear": _of("SoftLinear", 6, 3, shape=ROWS),
    "soft linear, tanh": _of("SoftLinear", 6, 3, gate="tanh", shape=ROWS),
    "soft conv 1d": _of("SoftConv1d", 2, 3, 3, gate="softmax", shape=SEQUENCES),
    "soft conv 2d": _of("SoftConv2d", 2, 3, 3, gate="softmax", shape=MAPS),
    "apodized 1d": _of("ApodizedConv1d", 2, 3, 4, 2, shape=SEQUENCES),
    "apodized 2d": _of("ApodizedConv2d", 2, 3, 3, shape=MAPS),
    "phases, linear": _of("PSLinear", 6, 3, shape=ROWS),
    "phases 1d": _of("PSConv1d", 2, 3, 3, shape=SEQUENCES),
    "phases 2d": _of("PSConv2d", 2, 3, 3, shape=MAPS),
    "split, linear": _of("StaticPSLinear", 6, 3, shape=ROWS),
    "split, fixed": _of("StaticPSLinear", 6, 4, split=0.5, shape=ROWS),
    "split, linear, by data": _of("StaticPSLinear", 6, 3, data_dependent=True, shape=ROWS),
    "split 1d": _of("StaticPSConv1d", 2, 3, 3, relaxation="straight_through", shape=SEQUENCES),
    "split 2d": _of("StaticPSConv2d", 2, 3, 3, shape=MAPS),
    "split 2d, by data": _of("StaticPSConv2d", 2, 3, 3, data_dependent=True, shape=MAPS),
    "low rank, linear": _of("LowRankPSLinear", 6, 4, shape=ROWS),
    "low rank 2d": _of("LowRankPSConv2d", 2, 4, 3, rank=2, shape=MAPS),
    "iieu 2d": Example(
        lambda: layers.ConvIIEU(nn.Conv2d(2, 3, 3), nn.BatchNorm2d(3)), MAPS, ("ConvIIEU",)
    ),
    "iieu 2d, bare": Example(lambda: layers.ConvIIEU(nn.Conv2d(2, 3, 3)), MAPS, ("ConvIIEU",)),
    "iieu 1d, affine": Example(
        lambda: layers.ConvIIEU(nn.Conv1d(2, 3, 3), term_b="affine"), SEQUENCES, ("ConvIIEU",)
    ),
    "iieu 1d, batch": Example(
        lambda: layers.ConvIIEU(nn.Conv1d(2, 3, 3), term_b="batch"), SEQUENCES, ("ConvIIEU",)
    ),
    "iieu, linear": Example(lambda: layers.LinearIIEU(nn.Linear(6, 3)), ROWS, ("LinearIIEU",)),
    "coupler": Example(lambda: Residual(reduction=2), (4, 4, 2, 2), ("Coupler",)),
    "outside, constant": _gated("OutsideGatedLinear", 6, 3, gate=layers.ConstantGate, shape=ROWS),
    "outside, given": _gated("OutsideGatedLinear", 6, 3, gate=layers.GivenGate, shape=ROWS),
    "outside, random": _gated(
        "OutsideGatedLinear", 6, 3, gate=lambda: RandomGate(2, 3), shape=ROWS
    ),
    "outside, hard": _gated("OutsideGatedLinear", 6, 3, gate=layers.HardGate, shape=ROWS),
    "outside 1d": _gated(
        "OutsideGatedConv1d", 2, 3, 3, gate=layers.StraightThroughGate, shape=SEQUENCES
    ),
    "outside 2d": _gated("OutsideGatedConv2d", 2, 3, 3, gate=layers.SoftGate, shape=MAPS),
    "glu": _of("GatedLinear", 6, 3, shape=ROWS),
    "swiglu": _of("GatedLinear", 6, 3, gate="silu", shape=ROWS),
    "bilinear": _of("GatedLinear", 6, 3, gate="identity", shape=ROWS),
    "glu 1d": _of("GatedConv1d", 2, 3, 3, gate="gelu", shape=SEQUENCES),
    "glu 2d": _of("GatedConv2d", 2, 3, 3, gate="relu", shape=MAPS),
    "orthogonal": Example(lambda: Parametrised({"gain": True}), ROWS, ("orthogonal",)),
    "orthogonal, textbook": Example(
        lambda: Parametrised({"method": "gram_schmidt"}), ROWS, ("orthogonal",)
    ),
}


class SideBySide(nn.Module):
    """All of ``names`` on one row of numbers each, their outputs one behind the other.

    One module for many.
    """

    def __init__(self, names: tuple[str, ...]) -> None:
        super().__init__()
        self.names, self.parts = names, nn.ModuleList(EXAMPLES[name].make() for name in names)

    @property
    def inputs(self) -> int:
        """How many numbers the largest input of a part has."""
        return max(torch.Size(EXAMPLES[name].shape[1:]).numel() for name in self.names)

    def outputs(self, x: Tensor) -> list[Tensor]:
        """Each part's output on the first numbers of the row ``(N, inputs)``, flattened."""
        shapes = [EXAMPLES[name].shape[1:] for name in self.names]
        rows = [x[:, : shape.numel()].unflatten(1, shape) for shape in map(torch.Size, shapes)]
        return [part(row).flatten(1) for part, row in zip(self.parts, rows, strict=True)]

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat(self.outputs(x), 1)
