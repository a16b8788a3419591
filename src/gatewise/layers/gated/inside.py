"""What layers share that gate one response with another."""

from typing import Any

from torch import Tensor

from gatewise.layers.gated.gate_choice import inside_gate
from gatewise.layers.gated.product import gate_response, settle_gate, widen
from gatewise.layers.gated.weights import fill_weights, make_weights
from gatewise.layers.response import Response
from gatewise.units import Device, DType


class InsideGated(Response):
    """Two responses to one input, of which one gates the other."""

    weight: Tensor
    weight_gate: Tensor
    bias: Tensor | None
    bias_gate: Tensor | None

    def make_parts(
        self, gate: str, bias: bool, device: Device, dtype: DType, options: dict[str, Any]
    ) -> None:
        """Register both layers' weights and the gate."""
        make_weights(self, "", bias, device, dtype)
        make_weights(self, "_gate", bias, device, dtype)
        self.gate = inside_gate(
            self.layer, gate, self.outputs, self.spatial, **options, device=device, dtype=dtype
        )
        if not getattr(self.gate, "learns", True):
            for frozen in (self.weight_gate, self.bias_gate):
                None if frozen is None else frozen.requires_grad_(False)
        self._fill()

    def _fill(self) -> None:
        fill_weights(self, "")
        fill_weights(self, "_gate")

    def reset_parameters(self) -> None:
        """Draw both layers' weights anew, and set the gate's own parameters to their start."""
        self._fill()
        reset = getattr(self.gate, "reset_parameters", None)
        if callable(reset):
            reset()

    def forward(self, x: Tensor) -> Tensor:
        ready, weight, weight_gate = self.prepare(x, self.weight, self.weight_gate)
        response = self._respond(ready, weight, self.bias)
        score = self._respond(ready, weight_gate, self.bias_gate)
        opening = settle_gate(response, score, self.gate(score))
        return gate_response(response, opening, x.dtype)

    def _respond(self, x: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        return widen(self.plain_response(x, weight, bias))

    def extra_repr(self) -> str:
        return super().extra_repr() + (", bias=False" if self.bias is None else "")
