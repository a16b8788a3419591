"""One small example of every layer of the papers: a module of one input that can be pickled."""

from collections.abc import Callable

from gatewise_papers.deep_gated import (
    GatedConv1d,
    GatedConv2d,
    GatedLinear,
    OutsideGatedConv1d,
    OutsideGatedConv2d,
    OutsideGatedLinear,
    RandomGate,
)
from gatewise_papers.maso import (
    MASO,
    ApodizedConv1d,
    ApodizedConv2d,
    SoftConv1d,
    SoftConv2d,
    SoftLinear,
)
from gatewise_papers.psc import (
    LowRankPSConv2d,
    LowRankPSLinear,
    StaticPSConv1d,
    StaticPSConv2d,
    StaticPSLinear,
)
from layers.every_layer import MAPS, ROWS, SEQUENCES, Example, example_of
from torch import Tensor, nn

from gatewise import layers


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


def _gated(
    layer: Callable[..., nn.Module],
    *sizes: int,
    gate: Callable[[], nn.Module],
    shape: tuple[int, ...],
) -> Example:
    return Example(lambda: Gated(layer(*sizes, gate=gate())), shape, (layer.__name__,))


PAPER_EXAMPLES = {
    "maso, hard": example_of(MASO, 6, 3, 2, shape=ROWS),
    "maso, soft": example_of(MASO, 6, 3, 2, inference="soft", shape=ROWS),
    "maso, mean": example_of(MASO, 6, 3, 2, inference="beta", beta=0.0, shape=ROWS),
    "maso, trained": example_of(MASO, 6, 3, 3, inference="beta", learn_beta=True, shape=ROWS),
    "soft linear": example_of(SoftLinear, 6, 3, shape=ROWS),
    "soft linear, tanh": example_of(SoftLinear, 6, 3, gate="tanh", shape=ROWS),
    "soft conv 1d": example_of(SoftConv1d, 2, 3, 3, gate="softmax", shape=SEQUENCES),
    "soft conv 2d": example_of(SoftConv2d, 2, 3, 3, gate="softmax", shape=MAPS),
    "apodized 1d": example_of(ApodizedConv1d, 2, 3, 4, 2, shape=SEQUENCES),
    "apodized 2d": example_of(ApodizedConv2d, 2, 3, 3, shape=MAPS),
    "split, linear": example_of(StaticPSLinear, 6, 3, shape=ROWS),
    "split, fixed": example_of(StaticPSLinear, 6, 4, split=0.5, shape=ROWS),
    "split, linear, by data": example_of(StaticPSLinear, 6, 3, data_dependent=True, shape=ROWS),
    "split 1d": example_of(StaticPSConv1d, 2, 3, 3, relaxation="straight_through", shape=SEQUENCES),
    "split 2d": example_of(StaticPSConv2d, 2, 3, 3, shape=MAPS),
    "split 2d, by data": example_of(StaticPSConv2d, 2, 3, 3, data_dependent=True, shape=MAPS),
    "low rank, linear": example_of(LowRankPSLinear, 6, 4, shape=ROWS),
    "low rank 2d": example_of(LowRankPSConv2d, 2, 4, 3, rank=2, shape=MAPS),
    "outside, constant": _gated(OutsideGatedLinear, 6, 3, gate=layers.ConstantGate, shape=ROWS),
    "outside, given": _gated(OutsideGatedLinear, 6, 3, gate=layers.GivenGate, shape=ROWS),
    "outside, random": _gated(OutsideGatedLinear, 6, 3, gate=lambda: RandomGate(2, 3), shape=ROWS),
    "outside, hard": _gated(OutsideGatedLinear, 6, 3, gate=layers.HardGate, shape=ROWS),
    "outside 1d": _gated(
        OutsideGatedConv1d, 2, 3, 3, gate=layers.StraightThroughGate, shape=SEQUENCES
    ),
    "outside 2d": _gated(OutsideGatedConv2d, 2, 3, 3, gate=layers.SoftGate, shape=MAPS),
    "glu": example_of(GatedLinear, 6, 3, shape=ROWS),
    "swiglu": example_of(GatedLinear, 6, 3, gate="silu", shape=ROWS),
    "bilinear": example_of(GatedLinear, 6, 3, gate="identity", shape=ROWS),
    "glu 1d": example_of(GatedConv1d, 2, 3, 3, gate="gelu", shape=SEQUENCES),
    "glu 2d": example_of(GatedConv2d, 2, 3, 3, gate="relu", shape=MAPS),
}
