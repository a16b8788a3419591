"""What layers that are gated from outside share."""

from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.layers.gated.gate_choice import SET_BY_SOURCE, outside_gate
from gatewise.layers.gated.product import gate_response, widen
from gatewise.layers.gated.weights import fill_weights, make_weights
from gatewise.layers.response import Response
from gatewise.units import Device, DType, cast_like_input, check_number


class OutsideGated(Response):
    """A response times a gate that is set by something else."""

    weight: Tensor
    bias: Tensor | None

    def make_parts(self, gate: str | nn.Module, bias: bool, device: Device, dtype: DType) -> None:
        """Register the weights and the gate."""
        make_weights(self, "", bias, device, dtype)
        self.gate = outside_gate(self.layer, gate)
        fill_weights(self, "")

    def reset_parameters(self) -> None:
        """Draw the weights anew, and the gates where they are stored here."""
        fill_weights(self, "")
        reset = getattr(self.gate, "reset_parameters", None)
        if callable(reset):
            reset()

    def response(self, x: Tensor) -> Tensor:
        """The plain layer's output ``q``, before the gate.

        What gates another layer, or this one.
        """
        return self._wide_response(x).to(x.dtype)

    def _wide_response(self, x: Tensor) -> Tensor:
        ready, weight = self.prepare(x, self.weight)
        return widen(self.plain_response(ready, weight, self.bias))

    def forward(self, x: Tensor, source: Tensor | None = None) -> Tensor:
        response = self._wide_response(x)
        return gate_response(response, self._opening(x, response, source), x.dtype)

    def _opening(self, x: Tensor, response: Tensor, source: Tensor | None) -> Tensor:
        if source is None and isinstance(self.gate, SET_BY_SOURCE):
            what = f"{self.layer}: this gate is set from outside"
            raise ArgumentError(
                what,
                got="no source",
                fix="layer(x, source), where source is another layer's response",
            )
        opening = self.gate(source)
        if not isinstance(opening, Tensor):
            return response.new_full((), check_number(self.layer, "gate", opening))
        opening = cast_like_input(self.layer, "the gate", opening, x)
        pairs = zip(opening.shape, response.shape, strict=False)
        fits = opening.dim() == response.dim() and all(size in (1, full) for size, full in pairs)
        if not fits:
            raise ArgumentError(
                f"{self.layer}: gate and response have different shapes",
                got=f"gate {tuple(opening.shape)}, response {tuple(response.shape)}",
                allowed="the response's shape, or 1 in dimensions that share a gate",
            )
        return opening

    def extra_repr(self) -> str:
        return super().extra_repr() + (", bias=True" if self.bias is not None else "")
