"""Tensors that stay on the disk until they are used.

Note [Mapped, and checked first]

The whole file is read once, block by block, to compare its digest. After that its pages are mapped,
so the system keeps them while it has memory to spare and shares them between processes. A tensor
may be written to: the change is private to this process and never reaches the file. Our writers
replace a file and never change it, so what is mapped stays as it was checked. This does not protect
from someone who changes the file in place.
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import TYPE_CHECKING

from gatewise.files import disk
from gatewise.files.disk import opened
from gatewise.files.failure import damaged, explained
from gatewise.files.seal import BLANK, digest_file
from gatewise.files.tensors import ANY_SIZE, HEAD, LARGEST_HEADER, SLOT, START, checked_metadata

if TYPE_CHECKING:
    from io import FileIO

    from torch import Tensor

    from gatewise.files.disk import StrPath


def map_tensors(path: StrPath) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the same as :func:`read_tensors`, with the tensors mapped instead of read.

    See Note [Mapped, and checked first].
    """
    from safetensors import SafetensorError, safe_open

    with explained("read", path), opened(Path(path), "rb") as handle:
        header = _checked_header(path, handle)
    try:
        metadata = checked_metadata(header)
        with explained("read", path), safe_open(Path(path), framework="pt") as file:
            tensors = {name: file.get_tensor(name) for name in sorted(file.keys())}
        for tensor in tensors.values():
            _check_strides(tensor)
    except (ValueError, SafetensorError, RuntimeError) as problem:
        # RuntimeError: a shape for which torch has no strides.
        raise damaged(path, str(problem)) from problem
    return tensors, metadata


def _check_strides(tensor: Tensor) -> None:
    """Raise an error for an empty tensor whose strides do not fit into 64 bits.

    Mapping would let it pass.
    """
    if math.prod(max(1, size) for size in tensor.shape) >= ANY_SIZE:
        raise ValueError(f"the shape {tuple(tensor.shape)} has no strides")


def _checked_header(path: StrPath, handle: FileIO) -> bytes:
    """Return the header and its length, after a check of the digest of the whole file."""
    start = disk.current.read(handle, 0, SLOT + len(BLANK))
    if start[START:SLOT] != HEAD:
        raise damaged(path, "it does not start like a file of this kind")
    if start[SLOT:] != digest_file(handle, SLOT).encode():
        raise damaged(path, f"the sha256 it holds, {start[SLOT:]!r}, is not that of its bytes")
    length = int.from_bytes(start[:START], "little")
    return disk.current.read(handle, 0, START + min(length, LARGEST_HEADER + SLOT + len(BLANK)))
