"""Compare a model with a copy of it in another format."""

from pathlib import Path

import torch
from torch import nn

from gatewise.errors import ArgumentError, MissingExtraError, install_extra
from gatewise.graph import Example, split_example, untouched

CLOSE = 1e-4  # relative to the largest output: float32 in another order


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


def _onnx_outputs(model: nn.Module, example: Example, path: Path) -> tuple[str, ...]:
    try:
        import onnxruntime
    except ImportError as missing:
        raise MissingExtraError(
            "an ONNX copy needs onnxruntime", fix=install_extra("onnx")
        ) from missing
    args, kwargs = split_example(example)
    with untouched(model), torch.no_grad():
        output = model.eval()(*args, **kwargs)
    ours = output if isinstance(output, torch.Tensor) else next(iter(output.values()))
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
    if error <= CLOSE * max(largest, 1e-12):
        return (f"{path.name}: same outputs, to {error:.2g} of {largest:.2g}",)
    return (f"{path.name}: the outputs DIFFER by {error:.2g} of {largest:.2g}",)


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
