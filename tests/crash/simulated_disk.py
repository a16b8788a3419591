"""A disk that loses what was not synced, in the manner of SQLite's test6.c.

What programs see (``now``, ``names``) is kept apart from what is on the medium (``synced``,
``synced_names``). Content and names are separate: syncing a file does not make its name durable,
syncing its folder does not make its content durable. A failed sync drops the unsynced bytes for
good while programs still see them, as Linux does. At a chosen call the disk raises an error, kills
the program, or loses power; then ``survivors()`` gives every state the medium may have.
"""

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from itertools import combinations, count, product
from pathlib import Path

from gatewise.files import disk

SECTOR = 512
ERRORS = (errno.ENOSPC, errno.EIO, errno.EROFS)


class PowerCut(BaseException):
    """Not an Exception: no handler of errors may swallow the end of the program."""


@dataclass
class Node:
    synced: bytes = b""
    now: bytearray = field(default_factory=bytearray)
    unsynced: list[tuple[str, int, bytes]] = field(
        default_factory=list
    )  # write at an offset, or cut to a size
    doomed: list[tuple[str, int, bytes]] = field(default_factory=list)  # dropped by a failed sync

    def states(self) -> set[bytes]:
        """What the medium may hold after a power cut.

        Any subset of the unsynced operations, the last one torn.
        """
        found = set()
        for kept in subsets(self.unsynced):
            found.add(replay(self.synced, kept))
            if kept and kept[-1][0] == "write":
                found.update(
                    replay(self.synced, [*kept[:-1], torn]) for torn in tears(*kept[-1][1:])
                )
        return found


@dataclass
class Handle:
    node: Node


@dataclass
class SimulatedDisk(disk.Disk):
    files: dict[str, bytes] = field(default_factory=dict)
    at: int = 0  # the call at which it happens; 0 for never
    error: int | None = None  # an errno, or None for the end of the program
    late: bool = False  # the error comes after the call has taken effect
    lasting: bool = False  # every later call fails as well
    calls: int = 0
    over: bool = False

    def __post_init__(self):
        self.names = {name: Node(data, bytearray(data)) for name, data in self.files.items()}
        self.synced_names = dict(self.names)
        self.unsynced_names: list[tuple[str, Node | None]] = []

    # What the code under test calls.

    def open(self, path, mode):
        return self.call(lambda: self._open(str(path), mode))

    def size(self, handle):
        return self.call(lambda: len(handle.node.now))

    def read(self, handle, start, count=-1):
        return self.call(
            lambda: bytes(
                handle.node.now[start:] if count < 0 else handle.node.now[start : start + count]
            )
        )

    def write(self, handle, data):
        data = bytes(data)
        return self.call(
            lambda: self._write(handle.node, data),
            lambda: self._write(handle.node, data[: len(data) // 2]),
        )

    def cut(self, handle, size):
        self.call(lambda: self._cut(handle.node, size))

    def sync(self, handle):
        self.call(lambda: self._sync(handle.node), lambda: self._doom(handle.node))

    def forget(self, handle):
        self.call(lambda: None)

    def close(self, handle):
        self.call(lambda: None)

    def rename(self, source, target):
        self.call(lambda: self._rename(str(source), str(target)))

    def claim(self, source, target):
        self.call(lambda: self._claim(str(source), str(target)))

    def remove(self, path):
        self.call(lambda: self._remove(str(path)))

    def sync_folder(self, path):
        self.call(lambda: self._sync_folder(Path(path)))

    def lock(self, path):
        return self.call(nullcontext)

    # What happens then.

    def call(self, effect: Callable, half: Callable = lambda: None):
        self.calls += 1
        if self.over:
            raise PowerCut
        if not self.at or self.calls < self.at or (self.calls > self.at and not self.lasting):
            return effect()
        if self.error is None:
            effect()
            self.over = True
            raise PowerCut
        (effect if self.late else half)()
        raise OSError(self.error, os.strerror(self.error))

    def _open(self, name, mode):
        if mode == "rb" and name not in self.names:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        if mode == "xb+" and name in self.names:
            raise FileExistsError(errno.EEXIST, "File exists")
        if name not in self.names:
            self._name(name, Node())
        return Handle(self.names[name])

    def _write(self, node, data):
        node.unsynced.append(("write", len(node.now), data))
        node.now += data
        return len(data)

    def _cut(self, node, size):
        node.unsynced.append(("cut", size, b""))
        del node.now[size:]

    def _sync(self, node):
        node.synced = replay(node.synced, node.unsynced)
        node.unsynced.clear()

    def _doom(self, node):
        node.doomed += node.unsynced
        node.unsynced.clear()

    def _rename(self, source, target):
        node = self.names.get(source)
        if node is None:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        self._name(target, node)
        self._name(source, None)

    def _claim(self, source, target):
        if target in self.names:
            raise FileExistsError(errno.EEXIST, "File exists")
        self._rename(source, target)

    def _remove(self, name):
        if name not in self.names:
            raise FileNotFoundError(errno.ENOENT, "No such file or directory")
        self._name(name, None)

    def _name(self, name, node):
        assign(self.names, name, node)
        self.unsynced_names.append((name, node))

    def _sync_folder(self, folder):
        for name, node in self.unsynced_names:
            if Path(name).parent == folder:
                assign(self.synced_names, name, node)
        self.unsynced_names = [
            entry for entry in self.unsynced_names if Path(entry[0]).parent != folder
        ]

    def visible(self) -> dict[str, bytes]:
        """What a program sees."""
        return {name: bytes(node.now) for name, node in self.names.items()}

    def survivors(self) -> Iterator[dict[str, bytes]]:
        """Every state the medium may have if the power goes now.

        What is unsynced kept, lost, torn or reordered.
        """
        seen = set()
        for kept in subsets(self.unsynced_names):
            names = dict(self.synced_names)
            for name, node in kept:
                assign(names, name, node)
            for contents in product(*(node.states() for node in names.values())):
                state = dict(zip(names, contents, strict=True))
                if (key := frozenset(state.items())) not in seen:
                    seen.add(key)
                    yield state


def assign(names, name, node):
    if node is None:
        names.pop(name, None)
    else:
        names[name] = node


def subsets(things: list) -> Iterator[list]:
    """All of them for a few things; for many, each beginning and each with one left out."""
    if len(things) <= 5:
        for size in range(len(things) + 1):
            yield from (list(kept) for kept in combinations(things, size))
    else:
        yield from (things[:end] for end in range(len(things) + 1))
        yield from (things[:gap] + things[gap + 1 :] for gap in range(len(things)))


def replay(data: bytes, operations: list[tuple[str, int, bytes]]) -> bytes:
    content = bytearray(data)
    for kind, place, new in operations:
        if kind == "cut":
            del content[place:]
        else:
            content.extend(b"\0" * (place + len(new) - len(content)))
            content[place : place + len(new)] = new
    return bytes(content)


def tears(start: int, data: bytes) -> Iterator[tuple[str, int, bytes]]:
    """One write, partly arrived: cut at several lengths, all NUL, or with one sector NUL."""
    edges = range(SECTOR - start % SECTOR, len(data), SECTOR)
    for length in {1, 11, 12, 40, 76, len(data) // 2, len(data) - 2, len(data) - 1, *edges}:
        if 0 < length < len(data):
            yield "write", start, data[:length]
    yield "write", start, b"\0" * len(data)
    for first, last in zip([0, *edges], [*edges, len(data)], strict=True):
        yield "write", start, data[:first] + b"\0" * (last - first) + data[last:]


@contextmanager
def using(simulated: disk.Disk) -> Iterator[None]:
    """Put ``simulated`` in the place of the real disk."""
    before, disk.current = disk.current, simulated
    try:
        yield
    finally:
        disk.current = before


def every_call(
    files: dict[str, bytes], program: Callable[[], object], **how
) -> Iterator[tuple[SimulatedDisk, object]]:
    """Run the program with something happening at call 1, 2, 3, ....

    Give each disk and what the program ended with.

    The last one given is the run in which nothing happened, since it had fewer calls.
    """
    for at in count(1):
        simulated = SimulatedDisk(files, at=at, **how)
        with using(simulated):
            try:
                end = program()
            except (PowerCut, Exception) as problem:
                end = problem
        yield simulated, end
        if simulated.calls < at:
            return
