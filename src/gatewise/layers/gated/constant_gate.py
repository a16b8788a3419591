"""Gates that nothing sets, or that are given as they are."""

from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.units import check_input, check_number


class ConstantGate(nn.Module):
    """The same gate for every unit and input.

    With the default 1 a gated network is a deep linear network.

    Lakshminarayanan and Singh, 2020, "Deep Gated Networks", arXiv:2002.03996.
    """

    def __init__(self, value: float = 1.0) -> None:
        super().__init__()
        self.value = check_number("ConstantGate", "value", value)

    def forward(self, source: Tensor | None = None) -> float:
        if source is not None:
            raise ArgumentError(
                "ConstantGate: nothing sets this gate", got=type(source).__name__, fix="layer(x)"
            )
        return self.value

    def extra_repr(self) -> str:
        return f"{self.value}"


class GivenGate(nn.Module):
    """Whoever calls the layer gives the gate values themselves.

    Copied from a trained network, for example.
    """

    def forward(self, source: Tensor) -> Tensor:
        return check_input("GivenGate", source)
