"""Dataclasses as values that JSON can store, and back, by the types of their fields."""

from collections.abc import Mapping
from dataclasses import fields, is_dataclass
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints


def to_plain(value: Any) -> Any:
    """Return what stands for ``value`` in a file: ``json.dumps(..., default=to_plain)``."""
    if hasattr(value, "to_dict"):
        return value.to_dict()
    if isinstance(value, Mapping):
        return dict(value)
    return {item.name: getattr(value, item.name) for item in fields(value)}


def from_plain(kind: Any, value: Any) -> Any:
    """Return the object of the type ``kind`` that :func:`to_plain` wrote.

    Raises:
        TypeError: the value is of another type, or a field is missing.
        ValueError: there are too many or too few values.
        KeyError: there is no such field.
    """
    if kind is Any:
        return value
    origin = get_origin(kind)
    if origin is UnionType:
        (other,) = (part for part in get_args(kind) if part is not NoneType)
        return None if value is None else from_plain(other, value)
    if origin is tuple:
        return _tuple(get_args(kind), value)
    if origin is not None:  # a mapping from text
        _check(value, dict)
        return {key: from_plain(get_args(kind)[1], item) for key, item in value.items()}
    if hasattr(kind, "from_dict"):
        return kind.from_dict(value)
    if is_dataclass(kind):
        _check(value, dict)
        types = get_type_hints(kind)
        made: Any = kind
        return made(**{name: from_plain(types[name], item) for name, item in value.items()})
    if kind is float and type(value) is int:
        return float(value)
    _check(value, kind)
    return value


def _tuple(kinds: tuple[Any, ...], value: Any) -> tuple[Any, ...]:
    _check(value, list)
    if kinds[-1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    return tuple(from_plain(kind, item) for kind, item in zip(kinds, value, strict=True))


def _check(value: Any, kind: type) -> None:
    if type(value) is not kind:
        raise TypeError(f"{type(value).__name__} in place of {kind.__name__}")
