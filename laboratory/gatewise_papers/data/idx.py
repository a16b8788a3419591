"""The idx format of MNIST: two zeros, a type, the number of dimensions, the sizes, the values."""

import math
import struct

import torch
from torch import Tensor

from gatewise.errors import DamagedFileError

UNSIGNED_BYTE = 0x08


def parse_idx(name: str, data: bytes) -> Tensor:
    """Return the unsigned bytes in ``data`` as a tensor of the shape that the header declares.

    Args:
        name: of the file, for messages.
        data: the bytes of the file.
    """
    if len(data) < 4 or data[:2] != b"\0\0" or data[2] != UNSIGNED_BYTE:
        raise _wrong(name, f"begins with {data[:4].hex()}", "0000 08 and the number of dimensions")
    rank = data[3]
    start = 4 + 4 * rank
    if not rank or len(data) < start:
        raise _wrong(name, f"{rank} dimensions in {len(data)} bytes", "all sizes in the header")
    shape = struct.unpack_from(f">{rank}I", data, 4)
    count = math.prod(shape)
    if len(data) - start != count:
        raise _wrong(name, f"{len(data) - start} values", f"{count}, for the shape {shape}")
    values = bytearray(data[start:]) or bytearray(1)  # torch refuses an empty buffer
    return torch.frombuffer(values, dtype=torch.uint8)[:count].view(shape)


def _wrong(name: str, got: str, allowed: str) -> DamagedFileError:
    return DamagedFileError(
        f"{name} is not an idx file of unsigned bytes",
        got=got,
        allowed=allowed,
    )
