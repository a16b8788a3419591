"""Results that become plain values, for files and pages."""

import math
from collections.abc import Mapping
from dataclasses import fields
from typing import Any, ClassVar, cast

from gatewise.words import FitsScreen


class Result(FitsScreen):
    """The base of results. A subclass is a dataclass and says how its plain values differ from it.

    Attributes:
        _properties: Properties that are written beside the fields.
        _omitted: Fields that are not written.
        _renamed: The names in the file of fields that are called otherwise in Python.
        _finite: Whether NaN and infinity are written as ``None``. Strict JSON has neither.
    """

    _properties: ClassVar[tuple[str, ...]] = ()
    _omitted: ClassVar[tuple[str, ...]] = ()
    _renamed: ClassVar[Mapping[str, str]] = {}
    _finite: ClassVar[bool] = False

    def to_dict(self) -> dict[str, Any]:
        """Return plain values, for a file."""
        names = [field.name for field in fields(cast(Any, self))]
        written = {}
        for name in (*names, *self._properties):
            if name not in self._omitted:
                value = plain_values(getattr(self, name), finite=self._finite)
                written[self._renamed.get(name, name)] = value
        return written


def plain_values(value: Any, *, finite: bool = False) -> Any:
    """Return ``value`` in the types that JSON has.

    Tensors and arrays become nested lists, tuples become lists, results become dicts, and anything
    that JSON does not know becomes its string.

    Args:
        value: A value of any type, e.g. a tensor, a result, or a mapping of them.
        finite: Whether NaN and infinity become ``None``. Strict JSON has neither.
    """
    if isinstance(value, Result):
        value = value.to_dict()
    elif hasattr(value, "tolist"):  # a tensor, an array or a number of NumPy
        value = value.tolist()
    if isinstance(value, Mapping):
        return {str(key): plain_values(item, finite=finite) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(item, finite=finite) for item in value]
    if isinstance(value, float):
        return None if finite and not math.isfinite(value) else value
    if isinstance(value, str | int) or value is None:
        return value
    return str(value)
