"""Detect whether a tensor that an activation overwrote is read later under another name.

Note [Watching a tensor]. A unit that replaces an in-place activation returns a new tensor. The
program stays the same only if nothing reads the overwritten tensor afterwards. So while calls are
recorded, an in-place activation returns a copy of its result. Whatever then receives the old memory
must know it under another name.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from torch import Tensor

from gatewise.surgery.calls.frames import is_torch, stack

# Functions that look at a tensor but not at its values.
_METADATA_FUNCTIONS = {
    "__get__",
    "size",
    "dim",
    "stride",
    "numel",
    "data_ptr",
    "untyped_storage",
    "is_floating_point",
}


@dataclass
class Watched:
    """A tensor that was overwritten in ``frame``, and what has happened to it since.

    Attributes:
        tensor: The overwritten tensor.
        frame: The frame of the function that called the activation.
        names: The frame's variables that hold the tensor.
        held_outside: Whether a variable of a caller holds the tensor.
        read: Whether the tensor was read after it was overwritten.
        read_after: Whether it was read after the function had returned.
    """

    tensor: Tensor
    frame: FrameType
    names: set[str]
    held_outside: bool
    read: bool = False
    read_after: bool = False


@dataclass
class Watch:
    """All tensors that were overwritten so far, by their memory."""

    tensors: dict[int, list[Watched]] = field(default_factory=dict)

    def start(self, tensor: Tensor, frame: FrameType) -> Watched:
        """Watch ``tensor``, which a call in ``frame`` overwrites."""
        callers = [caller for caller in stack(frame.f_back) if not is_torch(caller)]
        held_outside = any(_names(tensor, caller) for caller in callers)
        watched = Watched(tensor, frame, _names(tensor, frame), held_outside)
        self.tensors.setdefault(_memory(tensor), []).append(watched)
        return watched

    def see(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType
    ) -> None:
        """Note that a call in ``frame`` passes these arguments to ``function``."""
        if not self.tensors or getattr(function, "__name__", "") in _METADATA_FUNCTIONS:
            return
        for tensor in _tensors((args, kwargs)):
            for watched in self.tensors.get(_memory(tensor), ()):
                watched.read = True
                watched.read_after |= all(outer is not watched.frame for outer in stack(frame))


def _names(tensor: Tensor, frame: FrameType) -> set[str]:
    """Return the variables of ``frame`` that hold ``tensor``."""
    return {name for name, value in frame.f_locals.items() if value is tensor}


def _memory(tensor: Tensor) -> int:
    """Return a key that all views of the same memory share."""
    return tensor.untyped_storage()._cdata


def _tensors(value: Any) -> Iterator[Tensor]:
    """Yield all tensors in nested arguments."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for item in value:
            yield from _tensors(item)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
