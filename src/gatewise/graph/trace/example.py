"""The example that a model is run on: a tensor, positional arguments, or keyword arguments."""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.graph.unchanged import untouched

Example = Tensor | tuple[Any, ...] | Mapping[str, Any]


def split_example(example: Example) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return the positional and the keyword arguments to call a model with.

    Raises:
        ArgumentError: the example has another type, or holds no tensor.
    """
    args: tuple[Any, ...] = ()
    kwargs: dict[str, Any] = {}
    if isinstance(example, Tensor):
        args = (example,)
    elif isinstance(example, Mapping) and all(isinstance(name, str) for name in example):
        kwargs = dict(example)
    elif isinstance(example, tuple | list):
        args = tuple(example)
    else:
        raise ArgumentError(
            "example: a model cannot be called with it",
            got=type(example).__name__,
            allowed="a tensor, a tuple of positional arguments, or a dict of keyword arguments",
        )
    if next(example_tensors((args, kwargs)), None) is None:
        raise ArgumentError(
            "example: holds no tensor",
            got=example,
            fix="pass what the model's forward takes",
        )
    return args, kwargs


def example_tensors(value: Any) -> Iterator[Tensor]:
    """Yield every tensor in nested tuples, lists and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, tuple | list | Mapping):
        for item in value.values() if isinstance(value, Mapping) else value:
            yield from example_tensors(item)


def check_dense(what: str, value: Any) -> None:
    """Raise an error, if ``value`` is or holds a sparse or nested tensor.

    Args:
        what: what ``value`` is, for the message.
        value: any value.

    Raises:
        ArgumentError: it does. Few operators of torch take such tensors.
    """
    for tensor in example_tensors(value):
        if tensor.is_nested or tensor.layout is not torch.strided:
            nested = tensor.is_nested
            raise ArgumentError(
                f"{what}: a dense tensor is needed",
                got="a nested tensor" if nested else f"layout {tensor.layout}",
                fix="x.to_padded_tensor(0.0)" if nested else "x.to_dense()",
            )


def check_runs(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Run the model once on the example.

    Raises:
        ArgumentError: the model raises an error; the example does not fit.
    """
    try:
        with torch.no_grad(), untouched(model):
            model.eval()(*args, **kwargs)
    except Exception as problem:
        raise does_not_fit(problem, (args, kwargs)) from problem


def does_not_fit(
    problem: BaseException,
    arguments: tuple[tuple[Any, ...], dict[str, Any]],
) -> ArgumentError:
    """Return the error for an example on which the unchanged model raised ``problem``."""
    tensors = []
    for tensor in example_tensors(arguments):
        tensors.append(f"{str(tensor.dtype).removeprefix('torch.')} {tuple(tensor.shape)}")
    reason = str(problem).strip().partition("\n")[0] or type(problem).__name__
    return ArgumentError(
        f"example: the model cannot be run on it ({reason})",
        got=f"tensors of shapes {', '.join(tensors)}",
        fix="pass inputs that model(...) takes: a tensor, a tuple of arguments or a dict of "
        "keyword arguments",
    )
