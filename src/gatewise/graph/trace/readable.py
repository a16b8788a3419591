"""Refuse models that cannot be read, and say what to pass instead."""

import torch
from torch import nn
from torch.fx.graph import _PyTreeCodeGen

from gatewise.errors import ArgumentError

# What to do instead, by the name of the class that wraps the model.
WRAPPERS = {
    "DistributedDataParallel": "pass model.module, swap, and wrap the result anew",
    "FullyShardedDataParallel": "swap before sharding",
    "DataParallel": "pass model.module",
    "FSDPModule": "swap before sharding",
}


def check_readable(model: object) -> None:
    """Check that a model can be read.

    Raises:
        ArgumentError: the model is scripted, compiled, wrapped, quantised, exported, or no
            model. The error says what to pass instead.
    """
    if not isinstance(model, nn.Module):
        raise ArgumentError("model: is not a torch.nn.Module", got=type(model).__name__)
    problem, fix = _problem_of_model(model)
    if not problem:
        problem, fix = _problem_of_parts(model)
    if problem:
        raise ArgumentError(f"model: {problem} cannot be read", got=type(model).__name__, fix=fix)


def _problem_of_model(model: nn.Module) -> tuple[str, str]:
    if isinstance(model, torch.jit.ScriptModule):
        return "a scripted model", "pass the model it was scripted from"
    if hasattr(model, "_orig_mod"):
        return "a compiled model", "pass model._orig_mod, and compile the result"
    if _is_exported(model):
        return "what torch.export has made", "swap before export, and export the result"
    for base in type(model).__mro__:
        if base.__name__ in WRAPPERS:
            return "a wrapped model", WRAPPERS[base.__name__]
    return "", ""


def _is_exported(module: nn.Module) -> bool:
    """Whether ``torch.export`` has made the module, with the shapes and the mode of an example."""
    if type(module).__module__.startswith("torch.export"):
        return True
    graph = getattr(module, "graph", None) if isinstance(module, torch.fx.GraphModule) else None
    codegen = getattr(graph, "_codegen", None)
    return isinstance(codegen, _PyTreeCodeGen)


def _problem_of_parts(model: nn.Module) -> tuple[str, str]:
    for path, module in model.named_modules():
        if _is_exported(module):
            return f"a model with an exported part ({path})", "swap before export"
        if isinstance(module, torch.jit.ScriptModule):
            return f"a model with a scripted part ({path})", "pass the model before scripting"
        buffers = module.buffers(recurse=False)
        if ".quantized" in type(module).__module__ or any(buf.is_quantized for buf in buffers):
            return f"a model with a quantised part ({path})", "swap first, and quantise the result"
        if module is not model and hasattr(module, "_orig_mod"):
            return f"a model with a compiled part ({path})", "swap first, and compile the result"
    return "", ""
