"""Detect whether a tensor that an activation overwrote is read later under another name.

Note [Watching a tensor]. A unit that replaces an in-place activation returns a new tensor. The
program stays the same only if nothing reads the overwritten tensor afterwards. So while calls are
recorded, an in-place activation returns a copy of its result. Whatever then receives the old memory
must know it under another name. An attribute, a list or a hook may also keep the old memory, for
code outside of the model to read.
"""

import gc
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from types import FrameType
from typing import Any

from torch import Tensor
from torch.multiprocessing.reductions import StorageWeakRef

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
        frame: The frame of the function that called the activation; ``None`` after the run.
        names: The frame's variables that hold the tensor.
        held_outside: Whether a variable of a caller holds the tensor.
        read: Whether the tensor was read after it was overwritten.
        read_after: Whether it was read after the function had returned.
        kept: Whether something holds the overwritten memory after the run.
    """

    tensor: Tensor | None
    frame: FrameType | None
    names: set[str]
    held_outside: bool
    read: bool = False
    read_after: bool = False
    kept: bool = False


@dataclass
class Overwritten:
    """Memory that activations have overwritten. It is not kept alive by this."""

    references: dict[int, StorageWeakRef] = field(default_factory=dict)

    def add(self, tensor: Tensor) -> None:
        """Add the memory of ``tensor``."""
        self.references[_memory(tensor)] = StorageWeakRef(tensor.untyped_storage())

    def kept(self) -> set[int]:
        """Return the keys of the memory that some tensor of Python still holds."""
        if all(reference.expired() for reference in self.references.values()):
            return set()
        gc.collect()  # cycles of what the run has left behind
        alive = {key for key, item in self.references.items() if not item.expired()}
        # What autograd has saved is alive, too, but no name leads to it.
        return alive & set(_memories(gc.get_objects())) if alive else set()


def _memories(objects: Iterable[Any]) -> Iterator[int]:
    """Yield the memory of every tensor among ``objects``."""
    for item in objects:
        if issubclass(type(item), Tensor):
            try:
                yield _memory(item)
            except (NotImplementedError, RuntimeError, ValueError):
                continue  # a tensor without memory of its own, or of a lazy layer


@dataclass
class Watch:
    """All tensors that were overwritten so far, by their memory."""

    tensors: dict[int, list[Watched]] = field(default_factory=dict)
    overwritten: Overwritten = field(default_factory=Overwritten)

    def start(self, tensor: Tensor, frame: FrameType) -> Watched:
        """Watch ``tensor``, which a call in ``frame`` overwrites."""
        callers = [caller for caller in stack(frame.f_back) if not is_torch(caller)]
        held_outside = any(_names(tensor, caller) for caller in callers)
        watched = Watched(tensor, frame, _names(tensor, frame), held_outside)
        self.overwritten.add(tensor)
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

    def finish(self) -> None:
        """Release frames and tensors after the run, and find out what else holds the tensors."""
        for watched in (each for several in self.tensors.values() for each in several):
            watched.tensor = watched.frame = None
        kept = self.overwritten.kept()
        for memory in kept:
            for watched in self.tensors[memory]:
                watched.kept = True


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
