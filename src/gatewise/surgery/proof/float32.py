"""Run a model with 16-bit weights in float32, one operator at a time.

Only the weight that an operator reads is converted, so that the whole model never is in memory in
float32.
"""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_map

HALF = (torch.float16, torch.bfloat16)
# Operators that copy entries of a table: converting their result is the same, and cheaper.
TABLES = (torch.ops.aten.embedding.default, torch.ops.aten.index_select.default)


class InFloat32(TorchDispatchMode):
    """A mode in which every operator computes in float32 where it would in a 16-bit type.

    It is for passes without gradients. Views of 16-bit tensors stay what they are until something
    is computed from them. A 16-bit tensor that is written to (a buffer) receives the rounded value.
    """

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args = tuple(_wide_type(value) for value in args)
        kwargs = {name: _wide_type(value) for name, value in (kwargs or {}).items()}
        if _is_view(func):
            return func(*args, **kwargs)
        if func in TABLES:
            return tree_map(_wide, func(*args, **kwargs))
        written: list[tuple[Tensor, Tensor]] = []
        names = [argument.name for argument in func._schema.arguments]
        writes = {
            argument.name
            for argument in func._schema.arguments
            if argument.alias_info is not None and argument.alias_info.is_write
        }
        new_args = [
            self._converted(value, name in writes, written)
            for name, value in zip(names, args, strict=False)
        ]
        new_kwargs = {
            name: self._converted(value, name in writes, written) for name, value in kwargs.items()
        }
        result = func(*new_args, **new_kwargs)
        for target, values in written:
            target.copy_(values)
            result = tree_map(_replacing(values, target), result)
        return result

    def _converted(self, value: Any, is_written: bool, written: list[tuple[Tensor, Tensor]]) -> Any:
        def convert(item: Any) -> Any:
            if not isinstance(item, Tensor) or item.dtype not in HALF:
                return item
            wide = item.float()
            if is_written:
                written.append((item, wide))
            return wide

        return tree_map(convert, value)


def _replacing(old: Tensor, new: Tensor) -> Callable[[Any], Any]:
    return lambda item: new if item is old else item


def _wide(value: Any) -> Any:
    is_half = isinstance(value, Tensor) and value.dtype in HALF
    return value.float() if is_half else value


def _wide_type(value: Any) -> Any:
    return torch.float32 if isinstance(value, torch.dtype) and value in HALF else value


def _is_view(func: Any) -> bool:
    """Whether the operator returns a view of an argument and computes nothing."""
    returns = func._schema.returns
    return bool(returns) and all(
        value.alias_info is not None and not value.alias_info.is_write for value in returns
    )
