"""Read the batches of CIFAR, which are published as pickles, without running anything.

Note [A pickle that cannot act]. A pickle is a program for a stack machine. This is a machine with
the few instructions that the published files use. A name of Python (``numpy.dtype``) is never
looked up: three names are known as words, every other one is refused, and so is every instruction
that is not in the table. Two calls are understood, both by their exact form: the creation of an
array of bytes, and of its type. The result is made of dictionaries, lists, numbers, bytes and uint8
tensors. The file is copied once and tensors are views of that copy, so memory is bounded by its
size, and time by ``MOST_STEPS``.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

# The largest file, the training file of CIFAR-100, has some 200,000: four for each image.
MOST_STEPS = 500_000
DEEPEST_ARRAY = 4
MARK = object()
ARRAY = "array"
MAKE_ARRAY = "make an array"
TYPE = "type"
# The only names of Python that are known; numpy itself is not imported.
NAMES = {
    ("numpy", "ndarray"): ARRAY,
    ("numpy.core.multiarray", "_reconstruct"): MAKE_ARRAY,
    ("numpy", "dtype"): TYPE,
}
BYTE = "u1"


@dataclass(frozen=True)
class Word:
    """A known name of Python. It stands for nothing that could be called."""

    meaning: str


class Created:
    """The result of a call, before the instruction that fills it."""

    def __init__(self, meaning: str) -> None:
        self.meaning = meaning
        self.ready = False
        self.tensor: Any = None


def read_batch(data: bytes) -> dict[bytes, Any]:
    """Return the dictionary in a published batch; raise ValueError for any other file."""
    try:
        batch = _Machine(data).run()
    except (IndexError, struct.error, TypeError, UnicodeDecodeError) as problem:
        raise ValueError(f"it ends early or is malformed ({problem})") from problem
    if not isinstance(batch, dict):
        raise ValueError(f"it holds a {type(batch).__name__}, not a dictionary")
    for key, value in batch.items():
        if isinstance(value, Created):
            batch[key] = value.tensor
    return batch


class _Machine:
    """The stack machine. Each instruction is a method; the table has the method of each byte."""

    def __init__(self, data: bytes) -> None:
        # The only copy: tensors share it, and torch needs it writable.
        self.data = memoryview(bytearray(data))
        self.place = 0
        self.stack: list[Any] = []
        self.memory: dict[int, Any] = {}

    def run(self) -> Any:
        for _ in range(MOST_STEPS):
            code = self.number("B")
            if code == ord("."):
                return self.stack.pop()
            if code not in self.TABLE:
                raise ValueError(
                    f"instruction {code:#04x} at byte {self.place - 1} is not one of those allowed"
                )
            self.TABLE[code](self)
        raise ValueError(f"it has more than {MOST_STEPS} instructions")

    def number(self, kind: str) -> int:
        size = struct.calcsize(kind)
        (value,) = struct.unpack_from(f"<{kind}", self.data, self.place)
        self.place += size
        return value

    def string(self, kind: str) -> memoryview:
        length = self.number(kind)
        if not 0 <= length <= len(self.data) - self.place:
            raise ValueError(f"a string claims to have {length} bytes")
        self.place += length
        return self.data[self.place - length : self.place]

    def line(self) -> str:
        rest = bytes(self.data[self.place : self.place + 100])
        end = rest.index(b"\n")  # raises ValueError if there is none
        text = str(self.data[self.place : self.place + end], "ascii")
        self.place += end + 1
        return text

    def protocol(self) -> None:
        version = self.number("B")
        if version != 2:
            raise ValueError(f"it is of protocol {version}, not 2")

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def since_mark(self) -> list[Any]:
        """Remove the values since the last mark, with the mark, and return them."""
        for place in range(len(self.stack) - 1, -1, -1):
            if self.stack[place] is MARK:
                values = self.stack[place + 1 :]
                del self.stack[place:]
                return values
        raise ValueError("a mark is missing")

    def keep(self, kind: str) -> None:
        self.memory[self.number(kind)] = self.stack[-1]

    def recall(self, kind: str) -> None:
        number = self.number(kind)
        if number not in self.memory:
            raise ValueError(f"nothing is remembered under {number}")
        self.push(self.memory[number])

    def take(self, count: int) -> None:
        """Replace the last ``count`` values by a tuple of them."""
        if len(self.stack) < count:
            raise ValueError("a tuple has too few values")
        values = tuple(self.stack[-count:])
        del self.stack[-count:]
        self.push(values)

    def extend(self) -> None:
        values = self.since_mark()
        if type(self.stack[-1]) is not list:
            raise ValueError("values are added to what is not a list")
        self.stack[-1].extend(values)

    def fill(self) -> None:
        values = self.since_mark()
        target = self.stack[-1]
        if type(target) is not dict or len(values) % 2:
            raise ValueError("pairs are added to what is not a dictionary")
        for key, value in zip(values[::2], values[1::2], strict=True):
            if type(key) is not bytes or key in target:
                raise ValueError("a key is not a string, or occurs twice")
            target[key] = value

    def name(self) -> None:
        module = self.line()
        name = self.line()
        if (module, name) not in NAMES:
            raise ValueError(f"it asks for {module}.{name}, which is not one of the names allowed")
        self.push(Word(NAMES[module, name]))

    def call(self) -> None:
        arguments = self.stack.pop()
        function = self.stack.pop()
        if function == Word(MAKE_ARRAY) and arguments == (Word(ARRAY), (0,), b"b"):
            self.push(Created(ARRAY))
        elif function == Word(TYPE) and arguments == (BYTE.encode(), 0, 1):
            self.push(Created(TYPE))
        else:
            raise ValueError("it calls something else than the creation of an array of bytes")

    def build(self) -> None:
        state = self.stack.pop()
        target = self.stack[-1]
        if not isinstance(target, Created) or target.ready or type(state) is not tuple:
            raise ValueError("it fills something else than a new array or its type")
        if target.meaning == TYPE:
            if state != (3, b"|", None, None, None, -1, -1, 0):
                raise ValueError("the type of an array is not that of plain bytes")
        else:
            target.tensor = _tensor(*state)
        target.ready = True

    def short_string(self) -> None:
        self.push(bytes(self.string("B")))

    def long_string(self) -> None:
        self.push(self.string("i"))

    TABLE: ClassVar[dict[int, Callable[["_Machine"], None]]] = {
        0x80: protocol,
        0x85: lambda self: self.take(1),
        0x86: lambda self: self.take(2),
        0x87: lambda self: self.take(3),
        0x89: lambda self: self.push(False),
        ord("}"): lambda self: self.push({}),
        ord("]"): lambda self: self.push([]),
        ord("("): lambda self: self.push(MARK),
        ord("N"): lambda self: self.push(None),
        ord("K"): lambda self: self.push(self.number("B")),
        ord("M"): lambda self: self.push(self.number("H")),
        ord("J"): lambda self: self.push(self.number("i")),
        ord("U"): short_string,
        ord("T"): long_string,
        ord("q"): lambda self: self.keep("B"),
        ord("r"): lambda self: self.keep("I"),
        ord("h"): lambda self: self.recall("B"),
        ord("j"): lambda self: self.recall("I"),
        ord("t"): lambda self: self.push(tuple(self.since_mark())),
        ord("e"): extend,
        ord("u"): fill,
        ord("c"): name,
        ord("R"): call,
        ord("b"): build,
    }


def _tensor(
    version: object,
    shape: Any,
    kind: object,
    by_columns: object,
    values: Any,
) -> torch.Tensor:
    """Return the array that numpy would make of this state, if it is of plain bytes."""
    of_bytes = isinstance(kind, Created) and kind.meaning == TYPE and kind.ready
    plain = version == 1 and of_bytes and by_columns is False
    good_shape = type(shape) is tuple and 1 <= len(shape) <= DEEPEST_ARRAY
    good_shape = good_shape and all(type(size) is int and size > 0 for size in shape)
    if not plain or not good_shape or not isinstance(values, memoryview):
        raise ValueError("an array is not one of plain bytes in rows")
    if len(values) != math.prod(shape):
        raise ValueError(f"an array of shape {shape} has {len(values)} values")
    return torch.frombuffer(values, dtype=torch.uint8).view(shape)
