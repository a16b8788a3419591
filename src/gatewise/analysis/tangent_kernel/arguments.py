"""What the tangent kernel can be asked for, and the errors for everything else."""

from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from gatewise.errors import (
    ArgumentError,
    GatewiseError,
    Limitation,
    NotApplicableError,
    shorten,
    unknown_name,
)

Inputs: TypeAlias = Tensor | tuple[Tensor, ...]
Choice: TypeAlias = str | Iterable[str | Tensor] | Callable[[str, Tensor], bool] | None

METHODS = ("auto", "layerwise", "jacobian")
DTYPES = (torch.float32, torch.float64)
RANDOM = (nn.modules.dropout._DropoutNd, nn.RReLU)
RANDOM_INSIDE = (nn.MultiheadAttention, nn.RNNBase)
TABLES = (nn.Embedding, nn.EmbeddingBag)


def check_model(model: Any) -> nn.Module:
    """``model``, if its kernel is one: samples must not mix, and nothing may be drawn at random."""
    if not isinstance(model, nn.Module):
        raise ArgumentError("ntk: a model is needed", got=type(model).__name__, allowed="nn.Module")
    model = getattr(model, "_orig_mod", model)  # torch.compile wraps the model that is meant
    for name, module in model.named_modules():
        if (reason := _unfit(module)) is not None:
            raise NotApplicableError(
                Limitation.UNSUPPORTED_MODEL,
                f"ntk: {reason}",
                got=f"{type(module).__name__} at {name or 'the top'!r}",
                fix=_fix(module),
            )
    return model


def _unfit(module: nn.Module) -> str | None:
    if isinstance(module, nn.modules.batchnorm._BatchNorm) and (
        module.training or module.running_mean is None
    ):
        return "a batch norm that uses the statistics of the batch mixes the samples"
    if module.training and isinstance(module, RANDOM) and getattr(module, "p", 1) > 0:
        return "a layer that draws at random has no kernel"
    if module.training and isinstance(module, RANDOM_INSIDE) and module.dropout > 0:
        return "a layer that draws at random has no kernel"
    if isinstance(module, TABLES) and module.max_norm is not None:
        return "an embedding with max_norm changes its weights in every forward pass"
    if isinstance(module, TABLES) and module.scale_grad_by_freq:
        return "an embedding with scale_grad_by_freq has gradients that are not derivatives"
    return None


def _fix(module: nn.Module) -> str:
    if isinstance(module, TABLES):
        return "build it without that option"
    return "model.eval()" if module.training else "build it with track_running_stats=True"


def check_inputs(name: str, x: Any) -> tuple[Tensor, ...]:
    """``x`` as a tuple of tensors with one batch size."""
    inputs = x if isinstance(x, tuple) else (x,)
    allowed = "a tensor, or a tuple of tensors, samples along the first dimension"
    if not inputs or not all(isinstance(each, Tensor) for each in inputs):
        got = ", ".join(type(each).__name__ for each in inputs) or "an empty tuple"
        raise ArgumentError(
            f"ntk: {name} must be a tensor or a tuple of tensors", got=got, allowed=allowed
        )
    shapes = ", ".join(str(tuple(each.shape)) for each in inputs)
    if any(each.dim() == 0 or each.shape[0] == 0 for each in inputs):
        raise ArgumentError(f"ntk: {name} has no samples", got=f"shape {shapes}", allowed=allowed)
    if len({each.shape[0] for each in inputs}) > 1:
        raise ArgumentError(
            f"ntk: the tensors of {name} differ in their number of samples", got=f"shapes {shapes}"
        )
    if len({each.device for each in inputs}) > 1:
        raise ArgumentError(
            f"ntk: the tensors of {name} are on several devices",
            got=[str(t.device) for t in inputs],
        )
    if inputs[0].is_meta:
        raise ArgumentError(f"ntk: {name} has no values", got="a tensor on the meta device")
    with torch.inference_mode(False):
        return tuple(each.clone() if each.is_inference() else each.detach() for each in inputs)


def check_alike(x: tuple[Tensor, ...], x2: tuple[Tensor, ...]) -> None:
    """Both must be what the model takes, so they differ in nothing but the number of samples."""
    facts = [[(t.shape[1:], t.dtype, t.device) for t in inputs] for inputs in (x, x2)]
    if facts[0] != facts[1]:
        described = [
            "; ".join(f"{t.dtype} {tuple(t.shape)} on {t.device}" for t in inputs)
            for inputs in (x, x2)
        ]
        raise ArgumentError(
            "ntk: x2 differs from x in more than its first dimension",
            got=described[1],
            allowed=described[0],
        )


def check_options(memory: Any, method: Any) -> None:
    """``memory`` is a number of bytes; ``method`` is one of three words."""
    if isinstance(memory, bool) or not isinstance(memory, int) or memory < 1:
        raise ArgumentError(
            "ntk: memory must be a positive whole number of bytes",
            got=memory,
            fix="memory=2**30 is 1 GiB",
        )
    if method not in METHODS:
        raise unknown_name("method of ntk", method, METHODS)


Named: TypeAlias = dict[
    int, tuple[Tensor, list[str]]
]  # by id, which is quicker than a tensor's hash: itself, its names


def choose_parameters(model: nn.Module, wanted: Choice) -> dict[str, Tensor]:
    """The parameters the kernel is about, by name, each once."""
    known: Named = {}
    for name, parameter in model.named_parameters(
        remove_duplicate=False
    ):  # a tied one has several names
        known.setdefault(id(parameter), (parameter, []))[1].append(name)
    if not known:
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            "ntk: the model has no parameters",
            got=type(model).__name__,
        )
    chosen = _chosen(known, wanted)
    if not chosen:
        fix = "parameters='*' means all of them"
        if wanted is None:
            raise NotApplicableError(
                Limitation.UNSUPPORTED_MODEL,
                "ntk: no parameter of the model requires a gradient",
                got=wanted,
                allowed=_listed(known),
                fix=fix,
            )
        raise ArgumentError(
            "ntk: parameters matches nothing", got=wanted, allowed=_listed(known), fix=fix
        )
    found = {names[0]: parameter for key, (parameter, names) in known.items() if key in chosen}
    first = next(iter(found.items()))
    for name, parameter in found.items():
        _check_parameter(name, parameter, first)
    return found


def _chosen(known: Named, wanted: Choice) -> set[int]:
    if wanted is None:
        return {key for key, (parameter, _) in known.items() if parameter.requires_grad}
    if isinstance(wanted, str):
        return _matching(known, wanted)
    if callable(wanted):
        return {
            key
            for key, (parameter, names) in known.items()
            if any(wanted(name, parameter) for name in names)
        }
    if isinstance(wanted, Tensor) or not isinstance(wanted, Iterable):
        allowed = (
            "a name or pattern, several of them, parameters, or a function of name and parameter"
        )
        raise ArgumentError(
            "ntk: parameters is not a choice of parameters",
            got=type(wanted).__name__,
            allowed=allowed,
        )
    return set().union(*(_one_choice(known, each) for each in wanted))


def _one_choice(known: Named, wanted: Any) -> set[int]:
    if isinstance(wanted, Tensor) and id(wanted) in known:
        return {id(wanted)}
    if isinstance(wanted, str) and (found := _matching(known, wanted)):
        return found
    got = f"a tensor of shape {tuple(wanted.shape)}" if isinstance(wanted, Tensor) else wanted
    raise ArgumentError(
        "ntk: parameters names what the model does not have", got=got, allowed=_listed(known)
    )


def _matching(known: Named, pattern: str) -> set[int]:
    return {
        key
        for key, (_, names) in known.items()
        if any(fnmatchcase(name, pattern) for name in names)
    }


def _listed(known: Named) -> str:
    return shorten(", ".join(name for _, names in known.values() for name in names))


def _check_parameter(name: str, parameter: Tensor, first: tuple[str, Tensor]) -> None:
    if is_lazy(parameter):
        raise ArgumentError(
            "ntk: a lazy layer has no weights yet", got=name, fix="call the model once"
        )
    if parameter.is_inference():
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            "ntk: a parameter was made in inference mode and can have no gradient",
            got=name,
        )
    if parameter.dtype not in DTYPES:
        fix = "model.float(), or choose parameters without it"
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            "ntk: parameters must be float32 or float64",
            got=f"{name}: {parameter.dtype}",
            fix=fix,
        )
    if (parameter.dtype, parameter.device) != (first[1].dtype, first[1].device):
        got = ", ".join(
            f"{key}: {value.dtype} on {value.device}" for key, value in (first, (name, parameter))
        )
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            "ntk: the parameters differ in dtype or device",
            got=got,
            fix="convert the model, or choose",
        )


def run(model: nn.Module, inputs: tuple[Tensor, ...], like: Tensor) -> Tensor:
    """The model's outputs. Shape: ``(N, o)``."""
    try:
        output = model(*inputs)
    except GatewiseError:
        raise
    except Exception as error:
        given = ", ".join(f"{each.dtype} {tuple(each.shape)} on {each.device}" for each in inputs)
        allowed = f"what the model takes; its parameters are {like.dtype} on {like.device}"
        what = f"ntk: the model cannot be run on x ({type(error).__name__}: {shorten(str(error))})"
        raise ArgumentError(what, got=given, allowed=allowed) from error
    return _check_output(output, inputs[0].shape[0], like)


def _check_output(output: Any, samples: int, like: Tensor) -> Tensor:
    if not isinstance(output, Tensor):
        fix = "wrap the model so that it returns the tensor whose kernel is meant"
        raise NotApplicableError(
            Limitation.SEVERAL_OUTPUTS,
            "ntk: the model must return one tensor",
            got=type(output).__name__,
            fix=fix,
        )
    if output.dim() == 0 or output.shape[0] != samples or output.numel() == 0:
        got = f"shape {tuple(output.shape)} for {samples} samples"
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            "ntk: the model must return a row of numbers for each sample",
            got=got,
            allowed="(n,) or (n, *)",
        )
    if output.dtype != like.dtype:
        got = f"{output.dtype}, with parameters of {like.dtype}"
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            "ntk: the model must return numbers of its parameters' dtype",
            got=got,
        )
    return output.reshape(samples, -1)
