"""The example that a model is run on.

A tensor, a tuple of positional arguments, or a dict of keyword arguments.
"""

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.graph.unchanged import untouched

Example = Tensor | tuple[Any, ...] | Mapping[str, Any]


def split_example(example: Example) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """``(args, kwargs)`` to call the model with."""
    if isinstance(example, Tensor):
        args, kwargs = (example,), {}
    elif isinstance(example, Mapping) and all(isinstance(name, str) for name in example):
        args, kwargs = (), dict(example)
    elif isinstance(example, tuple | list):
        args, kwargs = tuple(example), {}
    else:
        raise ArgumentError(
            "example: is not something a model can be called with",
            got=type(example).__name__,
            allowed="a tensor, a tuple of positional arguments, or a dict of keyword arguments",
        )
    if not any(True for _ in example_tensors((args, kwargs))):
        raise ArgumentError(
            "example: holds no tensor", got=example, fix="pass what the model's forward takes"
        )
    return args, kwargs


def example_tensors(value: Any) -> Iterator[Tensor]:
    """Every tensor in nested tuples, lists and dicts."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for each in value.values():
            yield from example_tensors(each)
    elif isinstance(value, tuple | list):
        for each in value:
            yield from example_tensors(each)


def check_runs(model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
    """Run ``model`` once on the example, so that one that does not fit is our error and not a reader's."""
    try:
        with torch.no_grad(), untouched(model):
            model.eval()(*args, **kwargs)
    except Exception as problem:
        raise does_not_fit(problem, (args, kwargs)) from problem


def does_not_fit(
    problem: BaseException, arguments: tuple[tuple[Any, ...], dict[str, Any]]
) -> ArgumentError:
    """The error for an example on which the model itself, unchanged, raised ``problem``."""
    got = ", ".join(
        f"{str(each.dtype).removeprefix('torch.')} {tuple(each.shape)}"
        for each in example_tensors(arguments)
    )
    reason = str(problem).strip().splitlines() or [type(problem).__name__]
    return ArgumentError(
        f"example: the model cannot be run on it ({reason[0]})",
        got=f"tensors of shapes {got}",
        fix="pass inputs that model(...) takes: a tensor, a tuple of arguments or a dict of keyword arguments",
    )
