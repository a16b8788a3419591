"""C structs as ctypes fields."""

import ctypes
from typing import Any

COUNT = ctypes.c_int64
NUMBER = ctypes.c_double
POINTER = ctypes.c_void_p


def struct_fields(*groups: tuple[Any, str]) -> list[tuple[str, Any]]:
    """Return the ``_fields_`` of a C struct.

    Args:
        groups: a C type, and the names that have it, separated by spaces. In the struct's order.

    >>> [name for name, _ in struct_fields((COUNT, "rows columns"), (POINTER, "values"))]
    ['rows', 'columns', 'values']
    """
    fields = []
    for c_type, names in groups:
        fields += [(name, c_type) for name in names.split()]
    return fields
