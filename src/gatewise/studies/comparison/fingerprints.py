"""Digests of batches and of functions, the same in every process."""

import inspect
from collections.abc import Callable
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor

from gatewise.batches import leaves
from gatewise.data import content_digest


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
