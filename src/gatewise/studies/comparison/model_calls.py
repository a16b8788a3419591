"""How a batch goes into a model, and what comes out of it."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.studies.comparison.batch_forms import batch_structure

# Keys under which a mapping holds what a model is to predict.
TARGETS = ("labels", "label", "targets", "target", "y")
OUTPUTS = ("logits", "out", "output", "prediction", "predictions")


@dataclass(frozen=True)
class ModelCall:
    """The arguments of one call, and the target of the batch; None if it has none."""

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    target: Any

    @property
    def example(self) -> Any:
        """The arguments as :func:`gatewise.plan` takes an example."""
        return self.kwargs if self.kwargs else self.args


@dataclass(frozen=True)
class Outputs:
    """The outputs of a model, and the loss if it returns one."""

    values: Tensor | None
    loss: Tensor | None


@dataclass(frozen=True)
class BatchReader:
    """Splits batches into arguments and target; :func:`find_reader` looks at model and batch once.

    Args:
        parameters: names of the arguments of ``forward``; empty if any are allowed.
        any_keyword: whether ``forward`` takes any keyword.
        needed: how many arguments have no default.
        passes_target: whether a mapping's target goes into the model as well.
    """

    parameters: tuple[str, ...]
    any_keyword: bool
    needed: int
    passes_target: bool = False

    def read(self, batch: Any, *, without_target: bool = False) -> ModelCall:
        """Return arguments and target of a batch.

        Args:
            batch: of any form.
            without_target: whether to leave the target out, even if the model takes it.
        """
        if isinstance(batch, Tensor):
            return ModelCall((batch,), {}, None)
        if isinstance(batch, Mapping):
            return self._read_mapping(batch, without_target)
        if isinstance(batch, list | tuple) and batch:
            return self._read_sequence(batch)
        raise ArgumentError(
            "data: a batch of this form is not understood",
            got=type(batch).__name__,
            allowed="a tensor, a tuple (inputs, ..., target), or a mapping",
            fix="say how to train on it: step=my_step, where my_step(model, batch) is the loss",
        )

    def _read_mapping(self, batch: Mapping[str, Any], without_target: bool) -> ModelCall:
        """Read a mapping: its keys are names of arguments, except for the target."""
        key = next((name for name in TARGETS if name in batch), None)
        target = None if key is None else batch[key]
        passed = {}
        for name, value in batch.items():
            if name == key and (without_target or not self.passes_target):
                continue
            if self.any_keyword or name in self.parameters:
                passed[str(name)] = value
        if passed:
            return ModelCall((), passed, target)
        rest = {name: value for name, value in batch.items() if name != key}
        if len(rest) == 1:
            return ModelCall((next(iter(rest.values())),), {}, target)
        return ModelCall((rest,), {}, target)

    def _read_sequence(self, batch: Any) -> ModelCall:
        """Read a sequence: its last item is the target, unless the model needs all of them."""
        inputs = list(batch)
        target = None
        if len(inputs) > max(1, self.needed) or self._is_nested(inputs):
            target = inputs.pop()
        if len(inputs) == 1 and isinstance(inputs[0], Mapping):
            call = self._read_mapping(inputs[0], without_target=True)
            return ModelCall(call.args, call.kwargs, target)
        if len(inputs) == 1 and isinstance(inputs[0], list | tuple):
            if len(self.parameters) >= len(inputs[0]) > 1:
                inputs = list(inputs[0])
        return ModelCall(tuple(inputs), {}, target)

    def _is_nested(self, batch: list[Any]) -> bool:
        """Return whether a batch is (inputs, target) with all arguments of the model in inputs."""
        if len(batch) != 2 or set(self.parameters[1:2]) & set(TARGETS):
            return False
        inputs = batch[0]
        if isinstance(inputs, Mapping):
            return len(inputs) >= self.needed and set(inputs) <= set(self.parameters)
        return isinstance(inputs, list | tuple) and len(inputs) == self.needed


def find_reader(model: nn.Module, batch: Any) -> BatchReader:
    """Return how batches of this form go into ``model``."""
    names: list[str] = []
    any_keyword = False
    needed = 0
    try:
        signature = inspect.signature(model.forward)
    except (TypeError, ValueError):
        return BatchReader((), False, 1)
    for parameter in signature.parameters.values():
        if parameter.kind is parameter.VAR_KEYWORD:
            any_keyword = True
        elif parameter.kind is not parameter.VAR_POSITIONAL:
            names.append(parameter.name)
            needed += parameter.default is parameter.empty
    key = None
    if isinstance(batch, Mapping):
        key = next((name for name in TARGETS if name in batch), None)
    return BatchReader(tuple(names), any_keyword, needed, key in names)


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
        return model(*call.args, **call.kwargs)
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
