"""Mapped tensors equal those written, changes stay in the process, damage is found before use."""

import pytest
import torch

from gatewise.errors import DamagedFileError, FileError
from gatewise.files import digest, map_tensors, read_tensors, write_tensors

TENSORS = {
    "a": torch.arange(3000, dtype=torch.uint8).view(3, 10, 100),
    "b": torch.randn(7),
    "none": torch.empty(0, 2),
}


@pytest.fixture
def path(tmp_path):
    write_tensors(tmp_path / "file", TENSORS, metadata={"k": "é"})
    return tmp_path / "file"


def test_mapped_tensors_are_those_that_are_read(path):
    found, metadata = map_tensors(path)
    wanted, wanted_metadata = read_tensors(path)
    assert metadata == wanted_metadata == {"k": "é"} and list(found) == list(wanted)
    assert all(
        found[name].dtype == wanted[name].dtype and torch.equal(found[name], wanted[name])
        for name in wanted
    )


def test_the_numbers_are_on_the_disk_and_a_change_never_reaches_it(tmp_path):
    write_tensors(tmp_path / "large", {"a": torch.zeros(50_000_000, dtype=torch.uint8)})
    before = digest(tmp_path / "large")
    found, _ = map_tensors(tmp_path / "large")
    with open("/proc/self/maps") as maps:  # noqa: PTH123 - not a file of ours
        assert str(tmp_path / "large") in maps.read()
    found["a"].fill_(1)
    assert (
        digest(tmp_path / "large") == before and not map_tensors(tmp_path / "large")[0]["a"].any()
    )


def test_a_file_that_is_replaced_leaves_the_mapped_numbers_as_they_were(path):
    found, _ = map_tensors(path)
    write_tensors(path, {"a": torch.zeros(1)})
    assert torch.equal(found["a"], TENSORS["a"])


def test_every_changed_bit_and_every_cut_is_noticed(path):
    good = path.read_bytes()
    for place in [*range(0, 400), *range(400, len(good), 97), len(good) - 1]:
        path.write_bytes(good[:place] + bytes([good[place] ^ 1]) + good[place + 1 :])
        with pytest.raises(DamagedFileError):
            map_tensors(path)
    for length in [*range(0, 400, 7), len(good) - 1]:
        path.write_bytes(good[:length])
        with pytest.raises(DamagedFileError):
            map_tensors(path)


def test_what_is_not_there_is_our_error(tmp_path):
    for place in (tmp_path, tmp_path / "missing", tmp_path / "a\0b"):
        with pytest.raises(FileError):
            map_tensors(place)
