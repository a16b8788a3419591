"""Whether a tensor that an activation overwrote is read afterwards under another name.

Note [Watching a tensor]. A unit put in place of an in-place activation returns a new tensor. That
is the same program only if nobody reads the overwritten one afterwards. So while recording, an
in-place activation hands back a copy of its
result: whoever is then given the old memory has it under another name.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from torch import Tensor

from gatewise.surgery.calls.frames import is_torch, stack

_LOOKS_AT_NO_VALUES = {
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
    """A tensor that was overwritten in ``frame``, and what happened to it since."""

    tensor: Tensor
    frame: FrameType
    names: set[str]  # by which the frame knows it
    held_outside: bool  # by a caller's variable
    read: bool = False
    read_after: bool = False  # when the frame had ended


@dataclass
class Watch:
    """All tensors overwritten so far."""

    tensors: dict[int, list[Watched]] = field(default_factory=dict)

    def start(self, tensor: Tensor, frame: FrameType) -> Watched:
        """Watch ``tensor``, overwritten by a call in ``frame``."""
        names = _names(tensor, frame)
        outside = any(_names(tensor, each) for each in stack(frame.f_back) if not is_torch(each))
        watched = Watched(tensor, frame, names, outside)
        self.tensors.setdefault(_memory(tensor), []).append(watched)
        return watched

    def see(
        self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any], frame: FrameType
    ) -> None:
        """Note that ``function`` is given these arguments by a call in ``frame``."""
        if not self.tensors or getattr(function, "__name__", "") in _LOOKS_AT_NO_VALUES:
            return
        for tensor in _tensors((args, kwargs)):
            for watched in self.tensors.get(_memory(tensor), ()):
                watched.read = True
                watched.read_after |= all(each is not watched.frame for each in stack(frame))


def _names(tensor: Tensor, frame: FrameType) -> set[str]:
    return {name for name, value in frame.f_locals.items() if value is tensor}


def _memory(tensor: Tensor) -> int:
    return tensor.untyped_storage()._cdata


def _tensors(value: Any) -> Iterator[Tensor]:
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, list | tuple):
        for each in value:
            yield from _tensors(each)
    elif isinstance(value, dict):
        yield from _tensors(list(value.values()))
