"""What comes out of a model: outputs, and the loss if it returns one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.batches import ModelCall, batch_structure
from gatewise.errors import ArgumentError

OUTPUTS = ("logits", "out", "output", "prediction", "predictions")


@dataclass(frozen=True)
class Outputs:
    """The outputs of a model, and the loss if it returns one."""

    values: Tensor | None
    loss: Tensor | None


def read_outputs(value: Any) -> Outputs:
    """Return the outputs and the loss of what a model returned.

    A mapping or an object may have ``loss`` and ``logits``; of a tuple the first tensor counts, and
    a tensor without dimensions is a loss.
    """
    if isinstance(value, Tensor):
        is_loss = value.dim() == 0 and value.is_floating_point()
        if is_loss:
            return Outputs(None, value)
        return Outputs(value, None)
    if isinstance(value, Mapping):
        loss = value.get("loss")
        outputs = _first_tensor([value.get(name) for name in OUTPUTS])
        if outputs is None:
            outputs = _first_tensor([v for k, v in value.items() if k != "loss"])
        return Outputs(outputs, loss if isinstance(loss, Tensor) else None)
    if isinstance(value, list | tuple):
        loss = next((v for v in value if isinstance(v, Tensor) and v.dim() == 0), None)
        return Outputs(_first_tensor(list(value)), loss)
    loss = getattr(value, "loss", None)
    outputs = _first_tensor([getattr(value, name, None) for name in OUTPUTS])
    if loss is None and outputs is None:
        raise ArgumentError(
            "model: its output is not understood",
            got=type(value).__name__,
            allowed="a tensor, a tuple, or a mapping with loss or logits",
            fix="give step= and evaluate=",
        )
    return Outputs(outputs, loss if isinstance(loss, Tensor) else None)


def _first_tensor(values: list[Any]) -> Tensor | None:
    """Return the first floating-point tensor with dimensions."""
    for value in values:
        if isinstance(value, Tensor) and value.dim() and value.is_floating_point():
            return value
    return None


def run_model(model: nn.Module, call: ModelCall) -> Any:
    """Call the model; its errors name the inputs.

    Raises:
        ArgumentError: if the model fails.
    """
    try:
        return call.run(model)
    except Exception as problem:
        message = str(problem).split("\n")[0]
        floats = [p.dtype for p in model.parameters() if p.is_floating_point()]
        other = {str(d).removeprefix("torch.") for d in floats if d != torch.float32}
        what = (
            f" (the model has weights in {', '.join(sorted(other))}, not float32)" if other else ""
        )
        raise ArgumentError(
            "model: it cannot read these inputs",
            got=f"{batch_structure(call.example)}: {type(problem).__name__}: {message}{what}",
            fix="give data of the shape and type that the model reads, or step= and evaluate=",
        ) from problem
