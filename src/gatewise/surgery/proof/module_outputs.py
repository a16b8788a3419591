"""Compare what the modules of two models return, call by call, and check the sizes of it.

A weight that is zero or tiny can hide a wrong value from the outputs of a model. It does not hide
it from the outputs of the modules before it.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.graph import OWN_ATTRIBUTES, example_tensors
from gatewise.surgery.proof.failures import SwapFailed
from gatewise.surgery.proof.relative_difference import difference

SAMPLED = 2048  # entries of each output that are kept

Samples = dict[tuple[str, int], tuple[tuple[tuple[int, ...], Tensor], ...]]


@contextmanager
def watching_calls(
    model: nn.Module, paths: Iterable[str], tell: Callable[[str, Any, Any], None]
) -> Iterator[None]:
    """Within the context, pass on path, arguments and output of each call of some modules."""
    handles = []
    try:
        for path in paths:

            def hook(_: nn.Module, args: Any, output: Any, path: str = path) -> None:
                tell(path, args, output)

            handles.append(model.get_submodule(path).register_forward_hook(hook))
        yield
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def sampling_outputs(model: nn.Module, samples: Samples) -> Iterator[None]:
    """Within the context, add a sample of each output of each module call to ``samples``.

    Args:
        model: the model, which the caller runs within the context.
        samples: by path and number of the call: shape and some entries of each output; and by the
            path of an attribute those of the tensors that are kept there.
    """
    calls: Counter[str] = Counter()

    def take(path: str, args: Any, output: Any) -> None:
        samples[path, calls[path]] = _samples_of(output)
        calls[path] += 1
        if path:
            return
        for home, module in model.named_modules():  # before attributes are restored
            for name, value in vars(module).items():
                if name not in OWN_ATTRIBUTES and (kept := _samples_of(value)):
                    samples[f"{home}.{name}".lstrip("."), 0] = kept

    with watching_calls(model, [path for path, _ in model.named_modules()], take):
        yield


@contextmanager
def checking_sizes(changed: nn.Module, sizes: Mapping[str, tuple[int, ...]]) -> Iterator[None]:
    """Within the context, the layers of ``changed`` must make outputs of these sizes.

    Args:
        changed: the changed model, which the caller runs within the context.
        sizes: the shapes that the plan expects, by the path of the layer.

    Raises:
        SwapFailed: a layer makes another one.
    """
    wrong: list[str] = []

    def check(path: str, args: Any, output: Any) -> None:
        if isinstance(output, Tensor) and tuple(output.shape) != sizes[path]:
            wrong.append(f"{path} makes {tuple(output.shape)}, expected {sizes[path]}")

    with watching_calls(changed, sizes, check):
        yield
    if wrong:
        raise SwapFailed(
            "swap: a layer does not make what the plan expects", got="; ".join(wrong[:3])
        )


def first_difference(one: Samples, other: Samples, most: float) -> tuple[str, float]:
    """Return the path of the first module whose outputs differ, and by how much.

    Modules that only one of the models has, and outputs of other shapes, are left out. The path is
    empty if no difference is larger than ``most``; then the largest difference is returned.
    """
    largest = 0.0
    for key, outputs in one.items():
        for (shape, a), (other_shape, b) in zip(outputs, other.get(key, ()), strict=False):
            if shape != other_shape:
                continue
            apart = difference((a,), (b,))
            if not apart <= most:
                return key[0] or "the model", apart
            largest = max(largest, apart)
    return "", largest


def changed_modules(one: Samples, other: Samples, most: float) -> list[str]:
    """Return the paths of the modules of both models that return other values or shapes."""
    changed: dict[str, None] = {}
    for key, outputs in one.items():
        if key not in other:
            continue
        shapes = [shape for shape, _ in outputs] != [shape for shape, _ in other[key]]
        values = difference([value for _, value in outputs], [value for _, value in other[key]])
        if shapes or not values <= most:
            changed[key[0]] = None
    return list(changed)


def _samples_of(value: Any) -> tuple[tuple[tuple[int, ...], Tensor], ...]:
    """Return shape and some entries of each tensor in ``value``."""
    return tuple(
        (tuple(tensor.shape), _sample(tensor))
        for tensor in example_tensors(value)
        if tensor.is_floating_point() and not _is_inside_transform(tensor)
    )


def _is_inside_transform(tensor: Tensor) -> bool:
    """Whether the tensor stands for several, as inside ``torch.vmap``: it has no values later."""
    functorch: Any = torch._C  # its types do not name the part below
    return functorch._functorch.is_functorch_wrapped_tensor(tensor)


def _sample(tensor: Tensor) -> Tensor:
    flat = tensor.detach().flatten()
    # An odd step does not stay in one row or channel of the usual even sizes.
    return flat[:: (flat.numel() // SAMPLED) | 1].to("cpu", copy=True).float()
