"""Named tensors in a standard safetensors file with a seal, which that format lacks.

See Note [The seal].

Note [Our header, their reader]

The header is written here because the seal must be at a fixed place: first in ``__metadata__``,
which is first in the file. The safetensors library reads it, after checks that it lacks: it accepts
a key that occurs twice, and passes absurd shapes on to torch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from gatewise.errors import ArgumentError
from gatewise.files.atomic import replace_file
from gatewise.files.failure import damaged
from gatewise.files.plain_json import decode
from gatewise.files.seal import BLANK, digest_parts, read_sealed

if TYPE_CHECKING:
    from torch import Tensor

    from gatewise.files.disk import Buffer, StrPath

# Widest first, so that every tensor begins at a multiple of its element size.
DTYPES = {
    "complex64": "C64",
    "float64": "F64",
    "int64": "I64",
    "uint64": "U64",
    "float32": "F32",
    "int32": "I32",
    "uint32": "U32",
    "bfloat16": "BF16",
    "float16": "F16",
    "int16": "I16",
    "uint16": "U16",
    "bool": "BOOL",
    "float8_e4m3fn": "F8_E4M3",
    "float8_e5m2": "F8_E5M2",
    "int8": "I8",
    "uint8": "U8",
}
ORDER = {name: place for place, name in enumerate(DTYPES)}
HEAD = b'{"__metadata__":{"sha256":"'
START = 8  # the header comes after its length
SLOT = START + len(HEAD)
# More tensors or longer headers would take too long to read if the file is hostile.
MOST_TENSORS = 20_000
LARGEST_HEADER = 4_000_000
MOST_DIMENSIONS = 64
ANY_SIZE = 1 << 63


def write_tensors(
    path: StrPath,
    tensors: Mapping[str, Tensor],
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Replace the file by the tensors, durably, after reading them back from the disk.

    Any dense tensor on any device can be written. Views, shared storage and transposes are written
    as if copied, gradients are not written. Plain safetensors reads the file; the digest is the
    entry ``sha256`` of its metadata. The same tensors and metadata give the same bytes.

    Args:
        path: the file.
        tensors: the tensors by name.
        metadata: strings by name.

    Raises:
        ArgumentError: if a tensor or name cannot be written.
        FileError: if the file cannot be written; it is then unchanged.
    """
    plain = {}
    for name in sorted(tensors, key=lambda name: _rank(name, tensors[name])):
        plain[name] = _plain(name, tensors[name])
    rest = _header(plain, dict(metadata or {}))
    length = (len(HEAD) + len(BLANK) + len(rest)).to_bytes(START, "little")
    data = [_bytes(tensor) for tensor in plain.values()]
    seal = digest_parts([length, HEAD, BLANK, rest, *data])
    replace_file(path, [length, HEAD, seal.encode(), rest, *data], seal, SLOT)


def read_tensors(path: StrPath) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors, on the CPU and in the order of their names, and the metadata.

    Raises:
        DamagedFileError: if a single bit has changed, or :func:`write_tensors` did not write the
            file.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load

    data = read_sealed(path, START, HEAD, ANY_SIZE)
    try:
        metadata = checked_metadata(data)
        tensors = load(data)
    except (ValueError, SafetensorError, RuntimeError) as problem:
        # RuntimeError: a shape for which torch has no strides.
        raise damaged(path, str(problem)) from problem
    return {name: tensors[name] for name in sorted(tensors)}, metadata


def _rank(name: object, tensor: object) -> tuple[int, str]:
    import torch

    if not isinstance(name, str) or name == "__metadata__" or not isinstance(tensor, torch.Tensor):
        raise _refused(
            f"{name!r}: {type(tensor).__name__}",
            "tensors named by strings other than '__metadata__'",
        )
    return ORDER.get(_dtype(tensor), len(ORDER)), name


def _plain(name: str, tensor: Tensor) -> Tensor:
    """Return the tensor on the CPU, with its numbers resolved, without a copy if possible."""
    import torch

    dtype = _dtype(tensor)
    device = tensor.device.type
    if tensor.layout != torch.strided or device == "meta" or dtype not in DTYPES:
        raise _refused(
            f"{name!r}: {tensor.layout}, {device}, {dtype}",
            f"dense tensors with data of {', '.join(DTYPES)}",
        )
    if tensor.dim() > MOST_DIMENSIONS:
        raise _refused(f"{name!r}: {tensor.dim()} dimensions", f"at most {MOST_DIMENSIONS}")
    return tensor.detach().cpu().resolve_conj().resolve_neg()


def _header(plain: Mapping[str, Tensor], metadata: Mapping[str, str]) -> bytes:
    """Return the part of the header after the slot."""
    words = [*metadata.keys(), *metadata.values()]
    if "sha256" in metadata or not all(isinstance(word, str) for word in words):
        raise _refused(
            f"metadata {metadata}", "metadata of strings named by strings other than 'sha256'"
        )
    entries = {}
    end = 0
    for name, tensor in plain.items():
        start = end
        end = start + tensor.nbytes
        entries[name] = {
            "dtype": DTYPES[_dtype(tensor)],
            "shape": list(tensor.shape),
            "data_offsets": [start, end],
        }
    rest = b'"' + _rest_of_object(metadata) + _rest_of_object(entries)
    # Padding, so that the numbers are aligned in the file.
    rest += b" " * (-(len(HEAD) + len(BLANK) + len(rest)) % 8)
    if len(plain) > MOST_TENSORS or len(rest) > LARGEST_HEADER:
        raise _refused(f"{len(plain)} tensors, {len(rest)} bytes of names and shapes", _limits())
    return rest


def _rest_of_object(value: Mapping[str, Any]) -> bytes:
    """Return the JSON of ``value`` as the rest of an object that has begun."""
    try:
        text = json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode()
    except UnicodeEncodeError as problem:
        raise _refused(str(problem), "names and metadata that have a UTF-8 form") from problem
    return b"," + text[1:] if value else b"}"


def _bytes(tensor: Tensor) -> Buffer:
    import torch

    if tensor.numel():
        return tensor.contiguous().reshape(-1).view(torch.uint8).numpy().data
    return b""


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def checked_metadata(data: bytes) -> dict[str, str]:
    """Return the metadata, after checks that safetensors does not make.

    Raises:
        ValueError: saying what is wrong.
    """
    length = int.from_bytes(data[:START], "little")
    if length > min(LARGEST_HEADER + SLOT + len(BLANK), len(data)):
        raise ValueError(f"its header claims to have {length} bytes")
    entries: dict[str, Any] = decode(data[START : START + length])
    metadata = entries.pop("__metadata__")
    if len(entries) > MOST_TENSORS or not all(_is_plausible(entry) for entry in entries.values()):
        raise ValueError(f"its header is not one of {_limits()}")
    del metadata["sha256"]
    return metadata


def _is_plausible(entry: object) -> bool:
    if not isinstance(entry, dict) or entry.get("dtype") not in DTYPES.values():
        return False
    shape = entry.get("shape")
    if not isinstance(shape, list) or len(shape) > MOST_DIMENSIONS:
        return False
    return all(type(size) is int and 0 <= size < ANY_SIZE for size in shape)


def _limits() -> str:
    return (
        f"at most {MOST_TENSORS} tensors of at most {MOST_DIMENSIONS} dimensions "
        f"and {LARGEST_HEADER} bytes in all"
    )


def _refused(got: str, allowed: str) -> ArgumentError:
    return ArgumentError(
        "the tensors cannot be written",
        got=got,
        allowed=allowed,
        fix="leave out or convert this one",
    )
