"""One small example of every public layer: a module of one input that can be pickled."""

import logging
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise import layers
from gatewise.layers.orthonormal import orthogonal


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


def example_of(
    layer: Callable[..., nn.Module], *arguments: Any, shape: tuple[int, ...], **options: Any
) -> Example:
    return Example(lambda: layer(*arguments, **options), shape, (layer.__name__,))


def _attention(name: str, **options: Any) -> Example:
    return Example(lambda: SelfAttention(name, **options), SEQUENCES, (name,))


ROWS, SEQUENCES, MAPS = (4, 6), (4, 2, 6), (4, 2, 5, 4)

EXAMPLES = {
    "attention, heads": _attention("GatedMultiheadAttention", batch_first=True),
    "attention, elements": _attention("GatedMultiheadAttention", gate="element", batch_first=True),
    "attention gate": _attention("AttentionGate", bias=True),
    "attention gate, elements": _attention("AttentionGate", gate="element", scale=2.0),
    "attention gate, open": _attention("OpenGate"),
    "pool 1d": example_of(layers.BetaPool1d, 2, learn_beta=True, shape=SEQUENCES),
    "pool 2d": example_of(layers.BetaPool2d, 2, learn_beta=True, channels=2, shape=MAPS),
    "pool 2d, mean": example_of(layers.BetaPool2d, 2, beta=0.0, dilation=2, shape=MAPS),
    "pool 2d, average": example_of(layers.BetaPool2d, 3, 1, beta=0.0, shape=MAPS),
    "pool 2d, hard": example_of(layers.BetaPool2d, 2, beta=1.0, shape=MAPS),
    "channel pool": example_of(layers.BetaChannelPool, 2, learn_beta=True, shape=MAPS),
    "channel pool, mean": example_of(layers.BetaChannelPool, 2, beta=0.0, shape=MAPS),
    "phases, linear": example_of(layers.PSLinear, 6, 3, shape=ROWS),
    "phases 1d": example_of(layers.PSConv1d, 2, 3, 3, shape=SEQUENCES),
    "phases 2d": example_of(layers.PSConv2d, 2, 3, 3, shape=MAPS),
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
    "orthogonal": Example(lambda: Parametrised({"gain": True}), ROWS, ("orthogonal",)),
    "orthogonal, textbook": Example(
        lambda: Parametrised({"method": "gram_schmidt"}), ROWS, ("orthogonal",)
    ),
    "gate, given": example_of(layers.GivenGate, shape=ROWS),
    "gate, hard": example_of(layers.HardGate, shape=ROWS),
    "gate, soft": example_of(layers.SoftGate, shape=ROWS),
    "gate, straight through": example_of(layers.StraightThroughGate, shape=ROWS),
}


class SideBySide(nn.Module):
    """All examples on one row of numbers each, their outputs one behind the other.

    One module for many.
    """

    def __init__(self, examples: dict[str, Example]) -> None:
        super().__init__()
        self.names = tuple(examples)
        self.shapes = [torch.Size(each.shape[1:]) for each in examples.values()]
        self.parts = nn.ModuleList(each.make() for each in examples.values())

    @property
    def inputs(self) -> int:
        """How many numbers the largest input of a part has."""
        return max(shape.numel() for shape in self.shapes)

    def outputs(self, x: Tensor) -> list[Tensor]:
        """Each part's output on the first numbers of the row ``(N, inputs)``, flattened."""
        rows = [x[:, : shape.numel()].unflatten(1, shape) for shape in self.shapes]
        return [part(row).flatten(1) for part, row in zip(self.parts, rows, strict=True)]

    def forward(self, x: Tensor) -> Tensor:
        return torch.cat(self.outputs(x), 1)


class Listed(nn.Module):
    """The outputs of layers side by side, each for itself."""

    def __init__(self, parts: SideBySide) -> None:
        super().__init__()
        self.parts = parts

    def forward(self, x: Tensor) -> list[Tensor]:
        return self.parts.outputs(x)


def one_of_each(examples: dict[str, Example]) -> dict[str, Example]:
    """Return the first example of every class; orthogonal layers have tests of their own."""
    found: dict[str, str] = {}
    for name, example in examples.items():
        for public in example.of:
            if public != "orthogonal":
                found.setdefault(public, name)
    return {name: examples[name] for name in found.values()}


def check_onnx(examples: dict[str, Example]) -> None:
    """Export the examples in one model, and compare what onnxruntime computes."""
    import onnxruntime

    torch.manual_seed(0)
    module = Listed(SideBySide(examples).eval())
    x = torch.randn(4, module.parts.inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        program = torch.onnx.export(module, (x,), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(
        program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    got = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    for name, ours, theirs in zip(module.parts.names, module(x), got, strict=True):
        # roundings of sums of at most 18 terms of size 1, in another order
        torch.testing.assert_close(
            torch.from_numpy(theirs), ours, rtol=1e-5, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )
