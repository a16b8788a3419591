"""A program made to be killed.

It writes or appends without end, and says on its output what it was told is safe.

``victim.py KIND FOLDER`` imports once, then forks a worker for each line ``START`` it is given,
prints the worker's id, and goes on; a worker prints ``done N`` for each write acknowledged.
"""

import os
import sys
from pathlib import Path

from gatewise.files import Journal, read_json, read_tensors, write_bytes, write_json, write_tensors

SIZE = 20_000


def contents(kind: str, n: int) -> object:
    """What write number ``n`` writes; large enough that a kill can fall within it."""
    if kind == "tensors":
        import torch

        return {"w": torch.full((SIZE,), float(n))}
    return n.to_bytes(8, "little") * SIZE if kind == "bytes" else [n] * SIZE


def write(kind: str, path: Path, n: int) -> None:
    if kind == "journal":
        Journal(path).append({"n": n, "text": "x" * 3000})
    else:
        {"bytes": write_bytes, "json": write_json, "tensors": write_tensors}[kind](
            path, contents(kind, n)
        )


def read(kind: str, path: Path) -> int:
    """The number of the last write found, after a look at all of it."""
    if kind == "journal":
        records = Journal(path).read()
        assert [record["n"] for record in records] == list(range(1, len(records) + 1))
        return len(records)
    if not path.exists():
        return 0
    if kind == "tensors":
        tensors, _ = read_tensors(path)
        n = int(tensors["w"][0])
        assert set(tensors["w"].tolist()) == {float(n)} and len(tensors["w"]) == SIZE
        return n
    found = path.read_bytes() if kind == "bytes" else read_json(path)
    n = int.from_bytes(found[:8], "little") if kind == "bytes" else found[0]
    assert found == contents(kind, n)
    return n


def work(kind: str, path: Path) -> None:
    n = read(kind, path)
    while True:
        n += 1
        write(kind, path, n)
        os.write(1, b"done %d\n" % n)


def main(kind: str, folder: str) -> None:
    contents(kind, 0)
    os.write(1, b"ready\n")
    for _ in sys.stdin:
        worker = os.fork()
        if not worker:
            work(kind, Path(folder, kind))
        os.write(1, b"worker %d\n" % worker)
        os.waitpid(worker, 0)
        os.write(1, b"dead\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
