"""Run a model with 16-bit weights in float32, one module at a time."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

HALF = (torch.float16, torch.bfloat16)
BLOCK = 1 << 21  # entries of a matrix that are converted at once


def has_half(model: nn.Module) -> bool:
    """Whether some of the model's tensors have 16 bits."""
    return any(value.dtype in HALF for value in (*model.parameters(), *model.buffers()))


@contextmanager
def in_float32(model: nn.Module) -> Iterator[None]:
    """Within the context, the 16-bit tensors of a module are float32 while its forward runs.

    So the whole model never is in memory in float32. It is for passes without gradients. A module
    that computes with tensors of another one fails with torch's error for mixed types.

    Args:
        model: The model, which the caller runs within the context.
    """
    running: list[list[tuple[dict[str, Any], str, Tensor]]] = []

    def widen(module: nn.Module, args: Any) -> None:
        stored = []
        for tensors in (module._parameters, module._buffers):
            for name, value in tensors.items():
                if value is not None and value.dtype in HALF:
                    stored.append((tensors, name, value))
        for tensors, name, value in stored:
            tensors[name] = nn.Parameter(value.detach().float(), requires_grad=False)
        running.append(stored)

    def restore(module: nn.Module, args: Any, output: Any) -> None:
        for tensors, name, value in running.pop():
            tensors[name] = value

    device = next((value.device for value in model.parameters()), None)
    memory = torch.empty(BLOCK, device=device)
    handles = []
    replaced = []
    try:
        for module in model.modules():
            if type(module) in FORWARDS and "forward" not in vars(module):
                vars(module)["forward"] = partial(FORWARDS[type(module)], module, memory)
                replaced.append(module)
            else:
                handles.append(module.register_forward_pre_hook(widen, prepend=True))
                handles.append(module.register_forward_hook(restore, always_call=True))
        yield
    finally:
        for handle in handles:
            handle.remove()
        for module in replaced:
            del vars(module)["forward"]


def _linear(layer: nn.Linear, memory: Tensor, input: Tensor) -> Tensor:
    """Return the output of a linear layer, whose weight is converted in blocks of rows.

    All blocks use one memory: new memory for each would not be returned to the system at once.
    """
    products = []
    for block in layer.weight.split(max(1, BLOCK // max(1, layer.in_features))):
        wide = memory[: block.numel()].view(block.shape).copy_(block)
        products.append(F.linear(input, wide))
    output = torch.cat(products, -1)
    return output if layer.bias is None else output + layer.bias.float()


def _embedding(layer: nn.Embedding, memory: Tensor, input: Tensor) -> Tensor:
    """Return rows of a table. Only these are converted."""
    return nn.Embedding.forward(layer, input).float()


# Of layers whose weights may be large.
FORWARDS: dict[type[nn.Module], Callable[..., Tensor]] = {
    nn.Linear: _linear,
    nn.Embedding: _embedding,
}
