"""Batches in any form: tensors, tuples, mappings, and objects with tensors in them."""

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import fields, is_dataclass
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor

from gatewise.data import content_digest

DEPTH = 20  # of nested containers that are entered


def leaves(value: Any, depth: int = 0) -> Iterator[Any]:
    """Yield what is in a batch: tensors, arrays, numbers and strings."""
    if depth > DEPTH:
        return
    if isinstance(value, Mapping):
        for item in value.values():
            yield from leaves(item, depth + 1)
    elif isinstance(value, list | tuple):
        for item in value:
            yield from leaves(item, depth + 1)
    elif is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from leaves(getattr(value, field.name), depth + 1)
    else:
        yield value


def length(batch: Any) -> int:
    """Return the number of examples: the length of the first tensor or array; else 1."""
    for leaf in leaves(batch):
        shape = getattr(leaf, "shape", None)
        if shape is not None and len(shape):
            return int(shape[0])
    return 1


def map_tensors(batch: Any, function: Callable[[Tensor], Tensor]) -> Any:
    """Return a batch with ``function`` applied to every tensor in it."""
    if isinstance(batch, Tensor):
        return function(batch)
    if isinstance(batch, tuple) and hasattr(batch, "_fields"):
        return type(batch)(*(map_tensors(item, function) for item in batch))
    if isinstance(batch, list | tuple):
        return type(batch)(map_tensors(item, function) for item in batch)
    if isinstance(batch, Mapping):
        return {key: map_tensors(item, function) for key, item in batch.items()}
    return batch


def take(batch: Any, index: Tensor | slice) -> Any:
    """Return the examples at ``index``: every tensor in the batch is indexed."""
    return map_tensors(batch, lambda tensor: tensor[index])


def first_examples(batch: Any, count: int) -> Any:
    """Return the first examples of a batch, if every tensor in it has one row per example."""
    whole = length(batch)
    for leaf in leaves(batch):
        if not isinstance(leaf, Tensor) or not leaf.dim() or len(leaf) != whole:
            return batch
    return take(batch, slice(0, count))


def batch_digest(value: Any, decimals: int | None = None) -> str:
    """Return a digest of everything in a batch or of an output.

    Args:
        value: of any form.
        decimals: to round numbers to, if their last bits do not matter.
    """
    total = sha256()
    for leaf in leaves(value):
        total.update(_leaf_words(leaf, decimals).encode())
    return total.hexdigest()


def batch_structure(value: Any) -> str:
    """Return types and shapes of everything in a batch, without the number of examples."""
    words = []
    for leaf in leaves(value):
        shape = tuple(getattr(leaf, "shape", ()))[1:]
        words.append(f"{type(leaf).__name__} {getattr(leaf, 'dtype', '')} {shape}")
    return ", ".join(words)


def function_fingerprint(function: Any) -> str:
    """Return a digest of a function's source and default values, the same in every process."""
    if function is None or isinstance(function, str | int | float):
        return repr(function)
    inner = getattr(function, "func", function)  # of functools.partial
    subject = inner if inspect.isroutine(inner) or inspect.isclass(inner) else type(inner)
    try:
        source = inspect.getsource(subject)
    except (OSError, TypeError):
        source = getattr(subject, "__qualname__", str(subject))
    words = [source, _plain_repr(getattr(function, "args", ()))]
    words.append(_plain_repr(getattr(function, "keywords", {})))
    words.append(_plain_repr(getattr(inner, "__defaults__", None)))
    words.append(_plain_repr(_closure(inner)))
    return sha256("\n".join(words).encode()).hexdigest()


def _closure(function: Callable[..., Any]) -> dict[str, Any]:
    """Return the numbers and strings that a function refers to from the function around it."""
    try:
        variables = inspect.getclosurevars(function).nonlocals
    except (TypeError, ValueError):
        return {}
    return {k: v for k, v in variables.items() if isinstance(v, int | float | str | bool)}


def _plain_repr(value: Any) -> str:
    """Return the representation, without addresses in memory."""
    text = repr(value)
    return text if " at 0x" not in text else type(value).__name__


def _leaf_words(leaf: Any, decimals: int | None) -> str:
    """Return a text that changes with the content of a leaf."""
    if isinstance(leaf, Tensor):
        tensor = leaf.detach().cpu()
        if decimals is not None and tensor.is_floating_point():
            tensor = tensor.double().round(decimals=decimals) + 0.0  # no negative zero
        return content_digest([tensor])
    if hasattr(leaf, "__array__") and hasattr(leaf, "dtype"):
        try:
            return content_digest([torch.as_tensor(leaf)])
        except (TypeError, ValueError, RuntimeError):
            return f"{type(leaf).__name__} {leaf.shape}"
    if isinstance(leaf, int | float | str | bool | bytes | type(None)):
        return repr(leaf)
    as_bytes: Any = getattr(leaf, "tobytes", None)  # an image
    if callable(as_bytes):
        content: Any = as_bytes()
        return sha256(content).hexdigest()
    return type(leaf).__name__
