"""Read a model once for the same mode and inputs of the same sizes.

Note [Cached readings]. Inside :func:`cached_readings` a reader returns the graph of an earlier call
with the same model object, mode and input signature. Nothing is cached outside of the context. A
graph holds parameters and buffers by name, so new values (a checkpoint that is loaded into the
model) do not make it wrong. What could make it wrong is part of the key: the modules, their types,
hooks and plain attributes, and names, shapes and types of their tensors. A graph that was traced
on values depends on them, too: its key has a hash of all values. A model or an argument that
cannot be compared is read each time.
"""

import functools
import hashlib
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_flatten

from gatewise.graph.trace.nodes import Graph
from gatewise.graph.unchanged import MODULE_HOOKS

PLAIN_TYPES = (bool, int, float, complex, str, bytes, type(None), torch.dtype, torch.device)
PLAIN_CONTAINERS = (tuple, list, set, frozenset, dict)


class Reader(Protocol):
    """Reads the graph of ``model(*args, **kwargs)`` in a mode, ``"eval"`` or ``"train"``."""

    def __call__(
        self,
        model: nn.Module,
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        *,
        mode: str,
    ) -> Graph: ...


@dataclass(frozen=True)
class _Outcome:
    """A graph, or what the reader raised."""

    model: nn.Module  # kept alive, so that its id is not given to another model
    result: Graph | Exception


Readings = dict[Hashable, _Outcome]
# What was read inside :func:`cached_readings`; ``None`` outside of it.
READINGS: ContextVar[Readings | None] = ContextVar("readings", default=None)


@contextmanager
def cached_readings() -> Iterator[None]:
    """Read each model once per mode and input signature inside the context.

    A context inside another one uses the readings of the outer one. See Note [Cached readings].
    """
    if READINGS.get() is not None:
        yield
        return
    token = READINGS.set({})
    try:
        yield
    finally:
        READINGS.reset(token)


def cached(*, by_value: bool) -> Callable[[Reader], Reader]:
    """Return a decorator of a reader, whose graphs are those of earlier calls inside the context.

    Args:
        by_value: whether the graph depends on the values of parameters, buffers and inputs.
    """

    def decorate(reader: Reader) -> Reader:
        @functools.wraps(reader)
        def read(
            model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], *, mode: str
        ) -> Graph:
            readings = READINGS.get()
            key = None
            if readings is not None:
                key = _key(reader, model, (args, kwargs), mode, by_value=by_value)
            if readings is None or key is None:
                return reader(model, args, kwargs, mode=mode)
            if key not in readings:
                try:
                    result: Graph | Exception = reader(model, args, kwargs, mode=mode)
                except Exception as problem:  # a reader raises anything; it would do so again
                    result = problem.with_traceback(None)
                readings[key] = _Outcome(model, result)
            result = readings[key].result
            if isinstance(result, Exception):
                raise result
            return result

        return read

    return decorate


def _key(
    reader: Reader,
    model: nn.Module,
    arguments: Any,
    mode: str,
    *,
    by_value: bool,
) -> Hashable | None:
    """Return what the graph depends on; ``None`` if that cannot be compared."""
    try:
        leaves, form = tree_flatten(arguments)
        key = (
            reader,
            mode,
            str(form),
            tuple(_leaf_key(leaf) for leaf in leaves),
            tuple(_module_key(path, module) for path, module in model.named_modules()),
            _tensor_keys(model),
            torch.get_default_dtype(),
            torch.is_inference_mode_enabled(),
            torch.is_autocast_enabled("cpu"),
            torch.is_autocast_enabled("cuda"),
        )
        tensors = [*model.parameters(), *model.buffers()]
        tensors += [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        values = tuple(_digest(tensor) for tensor in tensors) if by_value else ()
    except (_NotComparableError, RuntimeError, TypeError):  # such as a quantised tensor
        return None
    return id(model), key, values


class _NotComparableError(Exception):
    """A value that has no key."""


def _leaf_key(leaf: Any) -> Hashable:
    if isinstance(leaf, Tensor):
        return _layout(leaf)
    return _plain_key(leaf)


def _plain_key(value: Any) -> Hashable:
    """Return a key for numbers, text and containers of them; types count, as 1 equals True."""
    if isinstance(value, PLAIN_TYPES):
        return type(value), repr(value)
    if isinstance(value, PLAIN_CONTAINERS):
        items = value.items() if isinstance(value, dict) else value
        return type(value), tuple(_plain_key(item) for item in items)
    raise _NotComparableError


def _module_key(path: str, module: nn.Module) -> Hashable:
    """Return the parts of a module that its code may read, tensors of the module left out.

    Attributes that are neither plain values nor tensors are compared by identity.
    """
    attributes = []
    for name, value in vars(module).items():
        if name in ("training", "_parameters", "_buffers", "_modules"):
            continue  # set by the reader, or part of another key
        if name in MODULE_HOOKS:
            attributes.append((name, tuple(map(id, value.values()))))
        elif isinstance(value, Tensor):
            attributes.append((name, id(value), _layout(value), _digest(value)))
        else:
            attributes.append((name, _attribute_key(value)))
    return path, id(module), type(module), tuple(attributes)


def _attribute_key(value: Any) -> Hashable:
    try:
        return _plain_key(value)
    except _NotComparableError:
        return id(value)


def _tensor_keys(model: nn.Module) -> Hashable:
    """Return names and layouts of all parameters and buffers, and which of them are tied."""
    numbers: dict[int, int] = {}
    keys = []
    named = [
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    ]
    for name, tensor in named:
        number = numbers.setdefault(id(tensor), len(numbers))
        keys.append((name, number, type(tensor), _layout(tensor)))
    return tuple(keys)


def _layout(tensor: Tensor) -> Hashable:
    if tensor.layout is not torch.strided:
        raise _NotComparableError
    return (
        tuple(tensor.shape),
        tensor.stride(),
        tensor.dtype,
        tensor.device,
        tensor.requires_grad,
    )


def _digest(tensor: Tensor) -> Hashable:
    """Return a hash of the values of a tensor; ``None`` on the meta device, which has none."""
    if tensor.is_meta:
        return None
    flat = tensor.detach().cpu().contiguous().flatten()
    data = flat.view(torch.uint8) if flat.numel() else flat
    return hashlib.blake2b(data.numpy().tobytes()).digest()
