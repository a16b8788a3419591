"""Arrays of ``.npz`` files are read row by row, whatever their headers say."""

import io
import resource
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from gatewise.data import read_arrays
from gatewise.data.inputs import array_files
from gatewise.errors import ArgumentError

GIB = 1 << 30


def header(shape: tuple[int, ...], kind: str = "<f4", *, by_columns: bool = False) -> bytes:
    """The header of an array of that shape, which may not be there."""
    file = io.BytesIO()
    fields = {"descr": kind, "fortran_order": by_columns, "shape": shape}
    np.lib.format.write_array_header_1_0(file, fields)
    return file.getvalue()


def write(path: Path, **members: bytes) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in members.items():
            archive.writestr(f"{name}.npy", data)
    return path


def test_the_first_rows_are_those_of_numpy(tmp_path: Path):
    x = np.random.default_rng(0).normal(size=(9, 3, 4)).astype("f4")
    for name, saved in (("rows", x), ("columns", np.asfortranarray(x))):
        path = tmp_path / f"{name}.npz"
        np.savez_compressed(path, x=saved, y=np.arange(9))
        for count in (1, 5, 9, 100):
            rows, labels = read_arrays([path], count)
            assert torch.equal(rows, torch.from_numpy(x[:count]))
            assert labels.tolist() == list(range(9))[:count]


def test_a_file_that_unpacks_to_gigabytes_gives_its_first_rows_in_little_memory(tmp_path: Path):
    path = tmp_path / "zeros.npz"
    with (
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED, compresslevel=1) as archive,
        archive.open("x.npy", "w", force_zip64=True) as file,
    ):
        file.write(header((1024, 1 << 18)))
        for _ in range(1024):
            file.write(bytes(1 << 20))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    rows, _ = read_arrays([path], 8)
    assert rows.shape == (8, 1 << 18) and not rows.any()
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # kilobytes


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (header((1 << 40, 4)), "does not fit into memory"),
        (header((4, 1 << 40)), "does not fit into memory"),
        (header((1 << 40, 4), by_columns=True), "does not fit into memory"),
        (header((1 << 20, 4)) + bytes(16), "ends early"),
        (header((-1, 4)) + bytes(64), "has the shape"),
        (b"\x93NUMPY\x02\x00" + b"\xff" * 4, "version 1.0"),
        (header((2, 2), "|O"), "pickled objects"),
        (header((0, 1 << 40)), "must hold rows"),
        (b"", "not an array of numbers"),
    ],
)
def test_a_header_that_lies_takes_no_memory(
    data: bytes, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(array_files, "_most_bytes", lambda: GIB)
    path = write(tmp_path / "bad.npz", x=data)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with pytest.raises(ArgumentError, match=said):
        read_arrays([path], 1 << 40)
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000


@pytest.mark.parametrize("place", range(40, 240, 7))
def test_a_changed_archive_is_refused_or_read(place: int, tmp_path: Path):
    path = tmp_path / "x.npz"
    np.savez_compressed(path, x=np.arange(64.0).reshape(8, 8))
    data = bytearray(path.read_bytes())
    data[place % len(data)] ^= 0x41
    path.write_bytes(data)
    try:
        rows, _ = read_arrays([path], 4)
    except (ArgumentError, OSError):
        return
    assert len(rows) <= 8
