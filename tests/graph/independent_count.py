"""Count the activations a network computes, by another way than reading it.

Nothing of ``gatewise`` is used.

Torch's dispatcher is watched while the network runs, so that every kernel that is one of an
activation is seen, however it was called; hooks say inside which module. Several kernels in one
call of a module that is an activation by itself (a GELU written out) are one activation.
"""

from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

KERNELS = {
    *(
        "relu",
        "relu6",
        "hardtanh",
        "leaky_relu",
        "_prelu_kernel",
        "prelu",
        "rrelu_with_noise",
        "elu",
        "gelu",
        "silu",
    ),
    *(
        "mish",
        "softplus",
        "hardswish",
        "hardshrink",
        "softshrink",
        "threshold",
        "log_sigmoid_forward",
        "tanh",
    ),
    *("sigmoid", "hardsigmoid", "glu", "selu", "celu", "softsign"),
}


class _Watch(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.inside: list[int] = []  # calls under way, by number
        self.kernels: Counter[int] = Counter()  # by call

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func._schema.name.removeprefix("aten::").rstrip("_")
        if name in KERNELS and args[0].is_floating_point():
            self.kernels[self.inside[-1]] += 1
        return func(*args, **(kwargs or {}))


def count_activations(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Counter[str]:
    """Return the number of activations that each module computes itself in eval mode, by path."""
    watch = _Watch()
    calls: list[
        tuple[str, bool]
    ] = []  # the path of each call's module, and whether it is an activation by itself
    with torch.no_grad(), _following(model, watch, calls), watch:
        model.eval()(*args, **kwargs)
    found: Counter[str] = Counter()
    for number, kernels in watch.kernels.items():
        path, whole = calls[number]
        found[path] += 1 if whole else kernels
    return found


@contextmanager
def _following(model: nn.Module, watch: _Watch, calls: list[tuple[str, bool]]) -> Iterator[None]:
    def enter(path: str) -> Any:
        def hook(module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
            watch.inside.append(len(calls))
            calls.append((path, False))

        return hook

    def leave(
        module: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], output: Any
    ) -> None:
        number = watch.inside.pop()
        calls[number] = (calls[number][0], _is_activation(module, args, output))

    with ExitStack() as stack:
        for path, module in model.named_modules():
            stack.callback(module.register_forward_pre_hook(enter(path), with_kwargs=True).remove)
            stack.callback(module.register_forward_hook(leave, with_kwargs=True).remove)
        yield


def _is_activation(module: nn.Module, args: tuple[Any, ...], output: Any) -> bool:
    """A leaf without weight matrices or running statistics that keeps the shape of its input."""
    alone = not any(True for _ in module.children()) and not any(True for _ in module.buffers())
    plain = alone and all(parameter.dim() < 2 for parameter in module.parameters())
    return plain and isinstance(output, Tensor) and len(args) == 1 and output.shape == args[0].shape
