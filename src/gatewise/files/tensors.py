"""Named tensors in a safetensors file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from gatewise.errors import ArgumentError
from gatewise.files.atomic import check_regular, replacing
from gatewise.files.failure import damaged, explained

if TYPE_CHECKING:
    from torch import Tensor

    from gatewise.files.failure import StrPath


def write_tensors(
    path: StrPath,
    tensors: Mapping[str, Tensor],
    *,
    metadata: Mapping[str, str] | None = None,
) -> None:
    """Replace the file by the tensors.

    Any dense tensor on any device can be written. Views, shared storage and transposes are written
    as if copied, gradients are not written.

    Args:
        path: the file.
        tensors: the tensors by name.
        metadata: strings by name.

    Raises:
        ArgumentError: if a tensor or name cannot be written.
        FileError: if the file cannot be written; it is then unchanged.
    """
    from safetensors.torch import save_file

    plain: dict[str, Tensor] = {}
    storages: set[int] = set()
    for name, tensor in tensors.items():
        plain[name] = _plain(name, tensor, storages)
    with replacing(path) as temporary:
        try:
            save_file(plain, temporary, dict(metadata) if metadata else None)
        except OSError:
            raise
        except Exception as problem:  # of many types; names no type of its own for a wrong argument
            raise ArgumentError(
                "the tensors cannot be written",
                got=str(problem).split("\n")[0],
                fix="leave out or convert this one",
            ) from problem


def read_tensors(path: StrPath) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors, on the CPU and in the order of their names, and the metadata.

    Raises:
        DamagedFileError: if it is not a whole file of tensors.
    """
    tensors, metadata = map_tensors(path)
    return {name: tensor.clone() for name, tensor in tensors.items()}, metadata


def map_tensors(path: StrPath) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the same as :func:`read_tensors`, with tensors that stay on the disk until used.

    The system keeps pages of the file while it has memory to spare, and shares them between
    processes. A tensor may be written to: the change is private to this process. Writers here
    replace a file and never change it, so what is mapped stays as it was.
    """
    from safetensors import SafetensorError, safe_open

    try:
        with explained("read", path):
            check_regular(Path(path))
            with safe_open(Path(path), framework="pt") as file:
                metadata = dict(file.metadata() or {})
                tensors = {name: file.get_tensor(name) for name in sorted(file.keys())}
    except (SafetensorError, RuntimeError, TypeError, OverflowError) as problem:
        # The last three: a shape that torch does not take.
        raise damaged(path, str(problem).split("\n")[0]) from problem
    metadata.pop("sha256", None)  # of files that an earlier version wrote
    return tensors, metadata


def _plain(name: object, tensor: object, storages: set[int]) -> Tensor:
    """Return a tensor on the CPU with a storage of its own, without a copy if possible."""
    import torch

    named = isinstance(name, str) and name != "__metadata__"  # safetensors would write it
    if not named or not isinstance(tensor, torch.Tensor):
        raise ArgumentError(
            "the tensors cannot be written",
            got=f"{name!r}: {type(tensor).__name__}",
            allowed="tensors named by strings other than '__metadata__'",
        )
    if tensor.layout != torch.strided or tensor.is_meta:
        raise ArgumentError(
            "the tensors cannot be written",
            got=f"{name!r}: {tensor.layout} on {tensor.device}",
            allowed="dense tensors with data",
            fix="leave out or convert this one",
        )
    plain = tensor.detach().cpu().resolve_conj().resolve_neg().contiguous()
    storage = plain.untyped_storage()
    if storage.data_ptr() in storages or storage.nbytes() != plain.nbytes:
        plain = plain.clone()
    storages.add(plain.untyped_storage().data_ptr())
    return plain
