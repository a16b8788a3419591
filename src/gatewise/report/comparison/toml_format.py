"""A table as TOML text. Python reads TOML and does not write it."""

import json
import math
import re
from collections.abc import Mapping
from typing import Any

from gatewise.errors import ArgumentError

_BARE = re.compile(r"[A-Za-z0-9_-]+")


def toml_text(table: Mapping[str, Any]) -> str:
    """Return ``table`` as TOML, one line per key.

    Tables inside are written inline. None, which TOML does not have, is left out.
    """
    return "".join(f"{pair}\n" for pair in _pairs(table))


def _pairs(table: Mapping[str, Any]) -> list[str]:
    """Each key with its value, in the order of the table."""
    return [f"{_key(key)} = {_value(value)}" for key, value in table.items() if value is not None]


def _key(key: str) -> str:
    """A key, in quotes if TOML needs them."""
    return key if _BARE.fullmatch(key) else _text(key)


def _value(value: Any) -> str:
    """A value of any type that TOML has."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return _text(value)
    if isinstance(value, float) and not math.isfinite(value):
        return "nan" if math.isnan(value) else f"{value:+}"
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Mapping):
        inside = ", ".join(_pairs(value))
        return "{ " + inside + " }" if inside else "{}"
    if isinstance(value, list | tuple):
        return "[" + ", ".join(_value(entry) for entry in value if entry is not None) + "]"
    raise ArgumentError("toml: a value of this type cannot be written", got=type(value).__name__)


def _text(text: str) -> str:
    """A basic string. JSON's escapes are TOML's, except the delete character and surrogates."""
    safe = text.encode("utf-8", "replace").decode()
    return json.dumps(safe, ensure_ascii=False).replace("\x7f", "\\u007f")
