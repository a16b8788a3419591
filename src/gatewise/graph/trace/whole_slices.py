"""Keep slices in a graph that take the whole of a dimension.

torch returns the tensor itself for ``x[:, :8]`` if there are 8 entries, and a graph would not have
the call. After a change of widths, it would cut entries off.
"""

from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode


class WholeSlices(TorchFunctionMode):
    """A mode in which ``x[:, :8]`` is an operator even if it takes the whole dimension."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        if func is not Tensor.__getitem__:
            return result
        source, index = args
        items = index if isinstance(index, tuple) else (index,)
        if not all(isinstance(item, slice) for item in items):
            return result
        for dim, item in enumerate(items):
            if _is_whole(item, source.shape[dim]):
                result = torch.ops.aten.slice.Tensor(result, dim, 0, item.stop)
        return result


def _is_whole(item: slice, size: Any) -> bool:
    """Whether the slice names the end of the dimension, and begins at its start."""
    if type(item.stop) is not int or item.start not in (None, 0) or item.step not in (None, 1):
        return False
    return item.stop == size
