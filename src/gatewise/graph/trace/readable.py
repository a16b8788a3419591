"""Models that cannot be read as they are, each with what to do instead."""

import torch
from torch import nn

from gatewise.errors import ArgumentError

WRAPPED = {
    "DistributedDataParallel": "pass model.module, swap, and wrap the result anew",
    "FullyShardedDataParallel": "swap before sharding",
    "DataParallel": "pass model.module",
    "FSDPModule": "swap before sharding",
}


def check_readable(model: object) -> None:
    """An error with the remedy, if ``model`` is scripted, compiled, wrapped, quantised, a graph, or not a model."""
    if not isinstance(model, nn.Module):
        raise ArgumentError("model: is not a torch.nn.Module", got=type(model).__name__)
    for problem, fix in (_whole(model), _parts(model)):
        if problem:
            raise ArgumentError(
                f"model: {problem} cannot be read", got=type(model).__name__, fix=fix
            )


def _whole(model: nn.Module) -> tuple[str, str]:
    if isinstance(model, torch.jit.ScriptModule):
        return "a scripted model", "pass the model it was scripted from"
    if hasattr(model, "_orig_mod"):
        return "a compiled model", "pass model._orig_mod, and compile the result"
    if isinstance(model, torch.fx.GraphModule):
        return "a traced graph", "pass the model it was traced from"
    for each in type(model).__mro__:
        if each.__name__ in WRAPPED:
            return "a wrapped model", WRAPPED[each.__name__]
    return "", ""


def _parts(model: nn.Module) -> tuple[str, str]:
    for path, module in model.named_modules():
        if isinstance(module, torch.jit.ScriptModule):
            return f"a model with a scripted part ({path})", "pass the model before scripting"
        if ".quantized" in type(module).__module__ or any(
            each.is_quantized for each in module.buffers(recurse=False)
        ):
            return f"a model with a quantised part ({path})", "swap first, and quantise the result"
        if module is not model and hasattr(module, "_orig_mod"):
            return f"a model with a compiled part ({path})", "swap first, and compile the result"
    return "", ""
