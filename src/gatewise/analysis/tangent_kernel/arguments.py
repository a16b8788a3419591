"""Checks of the arguments of the tangent kernel, and of what the model returns."""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from gatewise.checks import LARGEST_COUNT, check_count
from gatewise.errors import (
    ArgumentError,
    GatewiseError,
    Limitation,
    NotApplicableError,
    shorten,
    unknown_name,
)
from gatewise.graph import check_dense

Inputs: TypeAlias = Tensor | tuple[Tensor, ...]
Choice: TypeAlias = str | Iterable[str | Tensor] | Callable[[str, Tensor], bool] | None
# Parameters with all their names, by id: an id is quicker to look up than a tensor's hash.
NamedParameters: TypeAlias = dict[int, tuple[Tensor, list[str]]]

METHODS = ("auto", "layerwise", "jacobian")
DTYPES = (torch.float32, torch.float64)
RANDOM_LAYERS = (nn.modules.dropout._DropoutNd, nn.RReLU)
LAYERS_WITH_DROPOUT = (nn.MultiheadAttention, nn.RNNBase)
EMBEDDINGS = (nn.Embedding, nn.EmbeddingBag)


def check_model(model: Any) -> nn.Module:
    """Return ``model`` if it has a tangent kernel.

    Raises:
        ArgumentError: if ``model`` is not a module, mixes samples or draws random numbers.
    """
    if not isinstance(model, nn.Module):
        raise ArgumentError("ntk: a model is needed", got=type(model).__name__, allowed="nn.Module")
    model = getattr(model, "_orig_mod", model)  # torch.compile wraps the user's model
    for name, module in model.named_modules():
        reason = _why_no_kernel(module)
        if reason is not None:
            raise NotApplicableError(
                Limitation.UNSUPPORTED_MODEL,
                f"ntk: {reason}",
                got=f"{type(module).__name__} at {name or 'the top'!r}",
                fix=_fix(module),
            )
    return model


def _why_no_kernel(module: nn.Module) -> str | None:
    if isinstance(module, nn.modules.batchnorm._BatchNorm):
        if module.training or module.running_mean is None:
            return "a batch norm that uses the statistics of the batch mixes the samples"
    if module.training and isinstance(module, RANDOM_LAYERS) and getattr(module, "p", 1) > 0:
        return "a layer that draws at random has no kernel"
    if module.training and isinstance(module, LAYERS_WITH_DROPOUT) and module.dropout > 0:
        return "a layer that draws at random has no kernel"
    if isinstance(module, EMBEDDINGS) and module.max_norm is not None:
        return "an embedding with max_norm changes its weights in every forward pass"
    if isinstance(module, EMBEDDINGS) and module.scale_grad_by_freq:
        return "an embedding with scale_grad_by_freq has gradients that are not derivatives"
    return None


def _fix(module: nn.Module) -> str:
    if isinstance(module, EMBEDDINGS):
        return "build it without that option"
    if module.training:
        return "model.eval()"
    return "build it with track_running_stats=True"


def check_inputs(name: str, x: Any) -> tuple[Tensor, ...]:
    """Return ``x`` as a tuple of detached tensors with one batch size and one device."""
    inputs = x if isinstance(x, tuple) else (x,)
    check_dense(f"ntk: {name}", inputs)
    allowed = "a tensor, or a tuple of tensors, samples along the first dimension"
    if not inputs or not all(isinstance(tensor, Tensor) for tensor in inputs):
        raise ArgumentError(
            f"ntk: {name} must be a tensor or a tuple of tensors",
            got=", ".join(type(tensor).__name__ for tensor in inputs) or "an empty tuple",
            allowed=allowed,
        )
    shapes = ", ".join(str(tuple(tensor.shape)) for tensor in inputs)
    if any(tensor.dim() == 0 or tensor.shape[0] == 0 for tensor in inputs):
        raise ArgumentError(f"ntk: {name} has no samples", got=f"shape {shapes}", allowed=allowed)
    if len({tensor.shape[0] for tensor in inputs}) > 1:
        raise ArgumentError(
            f"ntk: the tensors of {name} differ in their number of samples", got=f"shapes {shapes}"
        )
    if len({tensor.device for tensor in inputs}) > 1:
        raise ArgumentError(
            f"ntk: the tensors of {name} are on several devices",
            got=[str(tensor.device) for tensor in inputs],
        )
    if inputs[0].is_meta:
        raise ArgumentError(f"ntk: {name} has no values", got="a tensor on the meta device")
    with torch.inference_mode(False):
        # An inference tensor cannot take part in autograd; its clone can.
        return tuple(t.clone() if t.is_inference() else t.detach() for t in inputs)


def check_alike(x: tuple[Tensor, ...], x2: tuple[Tensor, ...]) -> None:
    """Raise if ``x`` and ``x2`` differ in more than the number of samples."""
    if _signature(x) != _signature(x2):
        raise ArgumentError(
            "ntk: x2 differs from x in more than its first dimension",
            got=_describe(x2, "; "),
            allowed=_describe(x, "; "),
        )


def _signature(inputs: tuple[Tensor, ...]) -> list[tuple[torch.Size, torch.dtype, torch.device]]:
    return [(tensor.shape[1:], tensor.dtype, tensor.device) for tensor in inputs]


def _describe(inputs: tuple[Tensor, ...], separator: str) -> str:
    return separator.join(f"{t.dtype} {tuple(t.shape)} on {t.device}" for t in inputs)


def check_options(memory: Any, method: Any) -> None:
    """Raise unless ``memory`` is a positive number of bytes and ``method`` is a known method."""
    check_count("ntk", "memory", memory, most=LARGEST_COUNT, fix="memory=2**30 is 1 GiB")
    if method not in METHODS:
        raise unknown_name("method of ntk", method, METHODS)


def choose_parameters(model: nn.Module, wanted: Choice) -> dict[str, Tensor]:
    """Return the parameters to differentiate by, under their first name; tied ones appear once."""
    known: NamedParameters = {}
    # A tied parameter has several names, and a user may choose it by any of them.
    for name, parameter in model.named_parameters(remove_duplicate=False):
        known.setdefault(id(parameter), (parameter, []))[1].append(name)
    if not known:
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            "ntk: the model has no parameters",
            got=type(model).__name__,
        )
    chosen_ids = _choose_ids(known, wanted)
    if not chosen_ids:
        allowed = _list_names(known)
        fix = "parameters='*' means all of them"
        if wanted is None:
            raise NotApplicableError(
                Limitation.UNSUPPORTED_MODEL,
                "ntk: no parameter of the model requires a gradient",
                got=wanted,
                allowed=allowed,
                fix=fix,
            )
        raise ArgumentError("ntk: parameters matches nothing", got=wanted, allowed=allowed, fix=fix)
    chosen: dict[str, Tensor] = {}
    for key, (parameter, names) in known.items():
        if key in chosen_ids:
            chosen[names[0]] = parameter
    first = next(iter(chosen.items()))
    for name, parameter in chosen.items():
        _check_parameter(name, parameter, first)
    return chosen


def _choose_ids(known: NamedParameters, wanted: Choice) -> set[int]:
    if wanted is None:
        return {key for key, (parameter, _) in known.items() if parameter.requires_grad}
    if isinstance(wanted, str):
        return _match(known, wanted)
    chosen: set[int] = set()
    if callable(wanted):
        for key, (parameter, names) in known.items():
            if any(wanted(name, parameter) for name in names):
                chosen.add(key)
        return chosen
    if isinstance(wanted, Tensor) or not isinstance(wanted, Iterable):
        raise ArgumentError(
            "ntk: parameters is not a choice of parameters",
            got=type(wanted).__name__,
            allowed="a name or pattern, several of them, parameters, "
            "or a function of name and parameter",
        )
    for item in wanted:
        chosen |= _choose_one(known, item)
    return chosen


def _choose_one(known: NamedParameters, wanted: Any) -> set[int]:
    got = wanted
    if isinstance(wanted, Tensor):
        if id(wanted) in known:
            return {id(wanted)}
        got = f"a tensor of shape {tuple(wanted.shape)}"
    elif isinstance(wanted, str):
        matching = _match(known, wanted)
        if matching:
            return matching
    raise ArgumentError(
        "ntk: parameters names what the model does not have",
        got=got,
        allowed=_list_names(known),
    )


def _match(known: NamedParameters, pattern: str) -> set[int]:
    matching: set[int] = set()
    for key, (_, names) in known.items():
        if any(fnmatchcase(name, pattern) for name in names):
            matching.add(key)
    return matching


def _list_names(known: NamedParameters) -> str:
    return shorten(", ".join(", ".join(names) for _, names in known.values()))


def _check_parameter(name: str, parameter: Tensor, first: tuple[str, Tensor]) -> None:
    if is_lazy(parameter):
        raise ArgumentError(
            "ntk: a lazy layer has no weights yet",
            got=name,
            fix="call the model once",
        )
    if parameter.is_inference():
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            "ntk: a parameter was created in inference mode and can have no gradient",
            got=name,
        )
    if parameter.dtype not in DTYPES:
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            "ntk: parameters must be float32 or float64",
            got=f"{name}: {parameter.dtype}",
            fix="model.float(), or choose parameters without it",
        )
    first_name, other = first
    if (parameter.dtype, parameter.device) != (other.dtype, other.device):
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            "ntk: the parameters differ in dtype or device",
            got=f"{first_name}: {other.dtype} on {other.device}, "
            f"{name}: {parameter.dtype} on {parameter.device}",
            fix="convert the model, or choose parameters of one dtype and device",
        )


def run(model: nn.Module, inputs: tuple[Tensor, ...], like: Tensor) -> Tensor:
    """Return the model's outputs, flattened per sample. Shape: ``(N, o)``.

    Args:
        model: the model to run.
        inputs: its arguments, samples along the first dimension.
        like: a tensor with the dtype that the outputs must have.

    Raises:
        ArgumentError: if the model fails, or does not return one row of numbers per sample.
    """
    try:
        output = model(*inputs)
    except GatewiseError:
        raise
    except Exception as error:
        raise ArgumentError(
            f"ntk: the model cannot be run on x ({type(error).__name__}: {shorten(str(error))})",
            got=_describe(inputs, ", "),
            allowed=f"what the model takes; its parameters are {like.dtype} on {like.device}",
        ) from error
    return _check_output(output, inputs[0].shape[0], like)


def _check_output(output: Any, samples: int, like: Tensor) -> Tensor:
    if not isinstance(output, Tensor):
        raise NotApplicableError(
            Limitation.SEVERAL_OUTPUTS,
            "ntk: the model must return one tensor",
            got=type(output).__name__,
            fix="wrap the model so that it returns only the tensor you want the kernel of",
        )
    if output.dim() == 0 or output.shape[0] != samples or output.numel() == 0:
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            "ntk: the model must return a row of numbers for each sample",
            got=f"shape {tuple(output.shape)} for {samples} samples",
            allowed="(n,) or (n, *)",
        )
    if output.dtype != like.dtype:
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            "ntk: the model must return numbers of its parameters' dtype",
            got=f"{output.dtype}, with parameters of {like.dtype}",
        )
    return output.reshape(samples, -1)
