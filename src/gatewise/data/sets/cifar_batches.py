"""CIFAR's batches, which are published as pickles, read without running anything.

Note [A pickle that cannot act]

A pickle is a program for a stack machine. This is a machine with the few instructions that the
published files use. A name of Python (``numpy.dtype``) is never looked up: three of them are known
as words, every other one is refused, and so is every instruction that is not in the table. Two
calls are understood, both by what they must look like: the making of an array of bytes, and of its
type. What comes out is dictionaries, lists, numbers, bytes and uint8 tensors. The file is copied
once and tensors are views of that copy, so memory is bounded by its size, and time by
``MOST_STEPS``.
"""

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import torch

MOST_STEPS = (
    500_000  # CIFAR-100's training file, the largest, has some 200,000: four for each image
)
DEEPEST_ARRAY = 4
MARK = object()
ARRAY, MAKE_ARRAY, TYPE = "array", "make an array", "type"
NAMES = {
    ("numpy", "ndarray"): ARRAY,
    ("numpy.core.multiarray", "_reconstruct"): MAKE_ARRAY,
    ("numpy", "dtype"): TYPE,
}  # the only names of Python that are known; numpy itself is not asked
BYTE = "u1"


@dataclass(frozen=True)
class Word:
    """A known name, as itself: it stands for nothing that could be called."""

    meaning: str


class Made:
    """What a call would have made, before the instruction that fills it."""

    def __init__(self, meaning: str) -> None:
        self.meaning = meaning
        self.ready = False
        self.tensor: Any = None


def read_batch(data: bytes) -> dict[bytes, Any]:
    """The dictionary in a published batch.

    :class:`ValueError` says what is wrong with any other file.
    """
    try:
        found = _Machine(data).run()
    except (IndexError, struct.error, TypeError, UnicodeDecodeError) as problem:
        raise ValueError(f"it ends early or is malformed ({problem})") from problem
    if not isinstance(found, dict):
        raise ValueError(f"it holds a {type(found).__name__}, not a dictionary")
    return {key: value.tensor if isinstance(value, Made) else value for key, value in found.items()}


class _Machine:
    """The stack machine. Each instruction is a method; the table says which byte asks for it."""

    def __init__(self, data: bytes) -> None:
        self.data = memoryview(
            bytearray(data)
        )  # the one copy: tensors share it, and torch wants it writable
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
        end = bytes(self.data[self.place : self.place + 100]).index(
            b"\n"
        )  # ValueError where there is none
        text = str(self.data[self.place : self.place + end], "ascii")
        self.place += end + 1
        return text

    def protocol(self) -> None:
        if (version := self.number("B")) != 2:
            raise ValueError(f"it is of protocol {version}, not 2")

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def since_mark(self) -> list[Any]:
        """What was pushed since the last mark, taken off with the mark."""
        place = next((i for i in range(len(self.stack) - 1, -1, -1) if self.stack[i] is MARK), None)
        if place is None:
            raise ValueError("a mark is missing")
        values = self.stack[place + 1 :]
        del self.stack[place:]
        return values

    def keep(self, kind: str) -> None:
        self.memory[self.number(kind)] = self.stack[-1]

    def recall(self, kind: str) -> None:
        number = self.number(kind)
        if number not in self.memory:
            raise ValueError(f"nothing is remembered under {number}")
        self.push(self.memory[number])

    def take(self, count: int) -> None:
        """The last ``count`` values as a tuple."""
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
        asked = (self.line(), self.line())
        if asked not in NAMES:
            raise ValueError(
                f"it asks for {asked[0]}.{asked[1]}, which is not one of the names allowed"
            )
        self.push(Word(NAMES[asked]))

    def call(self) -> None:
        given, called = self.stack.pop(), self.stack.pop()
        if called == Word(MAKE_ARRAY) and given == (Word(ARRAY), (0,), b"b"):
            self.push(Made(ARRAY))
        elif called == Word(TYPE) and given == (BYTE.encode(), 0, 1):
            self.push(Made(TYPE))
        else:
            raise ValueError("it calls something else than the making of an array of bytes")

    def build(self) -> None:
        state, made = self.stack.pop(), self.stack[-1]
        if not isinstance(made, Made) or made.ready or type(state) is not tuple:
            raise ValueError("it fills something else than a new array or its type")
        if made.meaning == TYPE:
            if state != (3, b"|", None, None, None, -1, -1, 0):
                raise ValueError("the type of an array is not that of plain bytes")
        else:
            made.tensor = _tensor(*state)
        made.ready = True

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
    version: object, shape: Any, kind: object, by_columns: object, values: Any
) -> torch.Tensor:
    """The array that numpy would have filled from this state, if it is one of plain bytes."""
    plain = (
        version == 1
        and isinstance(kind, Made)
        and kind.meaning == TYPE
        and kind.ready
        and by_columns is False
    )
    sizes = (
        type(shape) is tuple
        and 1 <= len(shape) <= DEEPEST_ARRAY
        and all(type(n) is int and n > 0 for n in shape)
    )
    if not plain or not sizes or not isinstance(values, memoryview):
        raise ValueError("an array is not one of plain bytes in rows")
    if len(values) != math.prod(shape):
        raise ValueError(f"an array of shape {shape} has {len(values)} values")
    return torch.frombuffer(values, dtype=torch.uint8).view(shape)
