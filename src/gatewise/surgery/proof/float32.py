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
BLOCK = 1 << 23  # entries of a matrix that are converted at once


class InFloat32(TorchDispatchMode):
    """A mode in which every operator computes in float32 where it would in a 16-bit type.

    It is for passes without gradients. Views of 16-bit tensors stay what they are until something
    is computed from them. A 16-bit tensor that is written to (a buffer) receives the rounded value.
    Weights are converted into one memory that is used again and again, and large matrices in
    blocks of columns: new memory for each would not be returned to the system at once.
    """

    def __init__(self) -> None:
        super().__init__()
        self._memory = torch.empty(0)
        self._used = 0

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        args = tuple(_wide_type(value) for value in args)
        kwargs = {name: _wide_type(value) for name, value in (kwargs or {}).items()}
        if _is_view(func):
            return func(*args, **kwargs)
        if func in TABLES:
            return tree_map(_wide, func(*args, **kwargs))
        if func is torch.ops.aten.mm.default and args[1].dtype in HALF:
            return self._product(args[0], args[1])
        return self._call(func, args, kwargs)

    def _call(self, func: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        written: list[tuple[Tensor, Tensor]] = []
        writes = {}
        for argument in func._schema.arguments:
            alias = argument.alias_info
            writes[argument.name] = alias is not None and alias.is_write
        self._used = 0
        new_args = [
            self._converted(value, is_written, written)
            for value, is_written in zip(args, writes.values(), strict=False)
        ]
        new_kwargs = {
            name: self._converted(value, writes.get(name, False), written)
            for name, value in kwargs.items()
        }
        result = func(*new_args, **new_kwargs)
        for target, values in written:
            target.copy_(values)
            result = tree_map(_replacing(values, target), result)
        return tree_map(self._outside, result)

    def _product(self, one: Tensor, other: Tensor) -> Tensor:
        """The product of two matrices, whose second one is converted in blocks of columns."""
        result = torch.empty(len(one), other.shape[1], device=one.device)
        rows = _wide(one)
        step = max(1, BLOCK // max(1, len(other)))
        for first in range(0, other.shape[1], step):
            self._used = 0
            columns = other[:, first : first + step]
            torch.mm(rows, self._wide_copy(columns), out=result[:, first : first + step])
        return result

    def _converted(self, value: Any, is_written: bool, written: list[tuple[Tensor, Tensor]]) -> Any:
        def convert(item: Any) -> Any:
            if not isinstance(item, Tensor) or item.dtype not in HALF:
                return item
            if not is_written:
                return self._wide_copy(item)
            wide = item.float()
            written.append((item, wide))
            return wide

        return tree_map(convert, value)

    def _wide_copy(self, value: Tensor) -> Tensor:
        """A float32 copy, in the order of memory of ``value``, in the memory of this mode."""
        if value.device.type != "cpu" or value.numel() > BLOCK:
            return value.float()
        if not len(self._memory):
            self._memory = torch.empty(2 * BLOCK)
        if self._used + value.numel() > len(self._memory):
            return value.float()
        order = sorted(range(value.dim()), key=value.stride, reverse=True)
        place = self._memory[self._used : self._used + value.numel()]
        self._used += value.numel()
        sizes = [value.shape[dim] for dim in order]
        copy = place.view(sizes).permute([order.index(dim) for dim in range(value.dim())])
        return copy.copy_(value)

    def _outside(self, value: Any) -> Any:
        """A result of its own: the memory of this mode is overwritten by the next operator."""
        if not isinstance(value, Tensor) or not value.numel() or value.device.type != "cpu":
            return value
        own = self._memory.untyped_storage()._cdata
        return value.clone() if value.untyped_storage()._cdata == own else value


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
