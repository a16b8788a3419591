"""Compare a model with a copy of it in another format."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from gatewise.errors import ArgumentError, MissingExtraError, install_extra
from gatewise.graph import Example, copied, split_example, untouched

# A copy sums in another order and approximates exp and erf otherwise. Its error is of the size of
# the model's own rounding error, which is measured, and is at least some ulp of the outputs.
TIMES_ROUNDING = 32
LEAST = 4e-6
UNKNOWN_ROUNDING = 1e-4  # for a model that does not run in float64


def compare_copy(model: nn.Module, example: Example, path: Path) -> tuple[str, ...]:
    """Return sentences that say whether a copy of the model is the same.

    Args:
        model: the model.
        example: what it runs on.
        path: an ONNX or safetensors file.
    """
    if not path.is_file():
        raise ArgumentError("identify: there is no such file", got=str(path))
    if path.suffix == ".onnx":
        return _onnx_outputs(model, example, path)
    if path.suffix == ".safetensors":
        return _stored_tensors(model, path)
    raise ArgumentError(
        "identify: the copy has an unknown format",
        got=path.name,
        allowed=".onnx, .safetensors",
    )


def _onnx_outputs(
    model: nn.Module,
    example: Example,
    path: Path,
) -> tuple[str, ...]:
    try:
        import onnxruntime
    except ImportError as missing:
        raise MissingExtraError(
            "an ONNX copy needs onnxruntime", fix=install_extra("onnx")
        ) from missing
    args, kwargs = split_example(example)
    with untouched(model), torch.no_grad():
        output = model.eval()(*args, **kwargs)
    ours = _first_tensor(output)
    session = onnxruntime.InferenceSession(str(path), providers=["CPUExecutionProvider"])
    tensors = [*args, *kwargs.values()]
    names = [entry.name for entry in session.get_inputs()]
    if len(names) != len(tensors):
        raise ArgumentError(
            "identify: the ONNX copy takes other inputs",
            got=f"{len(names)}: {', '.join(names)}",
            allowed=len(tensors),
        )
    fed = {name: tensor.numpy() for name, tensor in zip(names, tensors, strict=True)}
    theirs = torch.from_numpy(session.run(None, fed)[0])
    if theirs.shape != ours.shape:
        return (f"{path.name}: its output has shape {tuple(theirs.shape)}",)
    error = float((ours.double() - theirs.double()).abs().max())
    largest = float(ours.abs().max())
    rounding = _rounding_error(model, args, kwargs, ours)
    if rounding is None:
        allowed = UNKNOWN_ROUNDING * largest
        measure = f"at most {allowed:.2g} is taken for rounding"
    else:
        allowed = max(TIMES_ROUNDING * rounding, LEAST * largest)
        measure = f"the model's own rounding error is {rounding:.2g}"
    if error <= allowed:
        return (f"{path.name}: same outputs, to {error:.2g} of {largest:.2g}; {measure}",)
    return (f"{path.name}: the outputs DIFFER by {error:.2g} of {largest:.2g}; {measure}",)


def _first_tensor(output: Any) -> torch.Tensor:
    """Return the output, or the first of several."""
    return output if isinstance(output, torch.Tensor) else next(iter(output.values()))


def _rounding_error(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], ours: torch.Tensor
) -> float | None:
    """Return how far the outputs are from those in float64, ``None`` if that cannot be run."""
    try:
        exact = copied(model).double().eval()
        with torch.no_grad(), untouched(exact):
            output = exact(*map(_double, args), **{key: _double(kwargs[key]) for key in kwargs})
    except Exception:  # a model's code may raise anything for another type
        return None
    return float((_first_tensor(output) - ours.double()).abs().max())


def _double(value: Any) -> Any:
    if isinstance(value, torch.Tensor) and value.is_floating_point():
        return value.double()
    return value


def _stored_tensors(model: nn.Module, path: Path) -> tuple[str, ...]:
    try:
        from safetensors.torch import load_file
    except ImportError as missing:
        raise MissingExtraError(
            "a safetensors copy needs safetensors", fix="pip install safetensors"
        ) from missing
    stored = load_file(path)
    state = model.state_dict()
    shared = [name for name in stored if name in state]
    other = []
    for name in shared:
        same = stored[name].shape == state[name].shape
        if not same or not torch.equal(stored[name].float(), state[name].detach().cpu().float()):
            other.append(name)
    text = (
        f"{path.name}: {len(shared) - len(other)} of {len(stored)} stored tensors are the model's"
    )
    if other:
        text += f"; other values in {', '.join(other[:3])}{', ...' if len(other) > 3 else ''}"
    return (text,)
