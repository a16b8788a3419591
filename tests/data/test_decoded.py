"""A set is decoded once.

What was kept is used as long as it is good, and made again when it is not.
"""

import warnings
from pathlib import Path

import pytest
import torch

from gatewise.data import DataSet, Split, assemble
from gatewise.data.sets import decoded
from gatewise.errors import DamagedFileError, UncachedDataWarning
from gatewise.files import read_tensors, write_tensors

TRAIN = Split(torch.randint(0, 256, (20, 3, 4, 4), dtype=torch.uint8), torch.arange(20) % 2)
TEST = Split(torch.randint(0, 256, (5, 3, 4, 4), dtype=torch.uint8), torch.arange(5) % 2)


class Decoder:
    def __init__(self):
        self.calls = 0

    def __call__(self) -> tuple[Split, Split]:
        self.calls += 1
        return TRAIN, TEST


def get(home: Path, decoder: Decoder, *sources: str) -> DataSet:
    return decoded(
        "made_up", sources=list(sources or ("abc",)), classes=2, home=home, decode=decoder
    )


def kept(home: Path) -> list[Path]:
    return sorted((home / "gatewise-decoded").iterdir())


def assert_right(found: DataSet):
    wanted = assemble("made_up", TRAIN, TEST, classes=2)
    for split, other in ((found.train, wanted.train), (found.test, wanted.test)):
        assert torch.equal(split.images, other.images) and torch.equal(split.labels, other.labels)
    for fact in ("name", "classes", "shape", "mean", "std", "digest"):
        assert getattr(found, fact) == getattr(wanted, fact)


def test_a_set_is_decoded_once(tmp_path: Path):
    decoder = Decoder()
    for _ in range(3):
        assert_right(get(tmp_path, decoder))
    assert decoder.calls == 1 and len(kept(tmp_path)) == 1


def test_other_sources_are_decoded_anew(tmp_path: Path):
    decoder = Decoder()
    get(tmp_path, decoder), get(tmp_path, decoder, "other"), get(tmp_path, decoder, "other")
    assert decoder.calls == 2 and len(kept(tmp_path)) == 2


@pytest.mark.parametrize("damage", ["cut", "empty", "a page", "a loop", "of another key"])
def test_a_damaged_file_is_made_again(tmp_path: Path, damage: str):
    decoder = Decoder()
    get(tmp_path, decoder)
    (path,) = kept(tmp_path)
    good, read_keys = path.read_bytes(), read_tensors(path)[0].keys()
    if damage == "a loop":
        path.unlink()
        path.symlink_to(path)
    elif damage == "of another key":
        get(tmp_path, Decoder(), "other")
        path.write_bytes(next(each for each in kept(tmp_path) if each != path).read_bytes())
    else:
        path.write_bytes({"cut": good[:-1], "empty": b"", "a page": b"<html>"}[damage])
    assert_right(get(tmp_path, decoder))
    assert decoder.calls == 2 and read_tensors(path)[0].keys() == read_keys


def test_where_nothing_can_be_kept_the_set_is_used_and_a_warning_says_so(tmp_path: Path):
    (tmp_path / "gatewise-decoded").write_text("in the way")
    decoder = Decoder()
    with pytest.warns(UncachedDataWarning, match="made_up could not be kept"):
        assert_right(get(tmp_path, decoder))
    assert (tmp_path / "gatewise-decoded").read_text() == "in the way"


def test_a_link_that_leads_out_of_the_data_folder_is_not_followed(tmp_path: Path):
    home, outside = tmp_path / "home", tmp_path / "outside"
    home.mkdir(), outside.mkdir()
    (home / "gatewise-decoded").symlink_to(outside)
    with pytest.warns(UncachedDataWarning, match="leads out of the folder"):
        assert_right(get(home, Decoder()))
    assert list(outside.iterdir()) == []


@pytest.mark.parametrize("wrong", [{}, {"mean": "0.5"}, {"mean": "[]"}])
def test_a_file_of_another_program_with_the_right_key_is_made_again(tmp_path: Path, wrong: dict):
    get(tmp_path, Decoder())
    (path,) = kept(tmp_path)
    tensors, facts = read_tensors(path)
    if not wrong:
        del tensors["test.labels"]
    write_tensors(path, {**tensors, "train.images": torch.zeros(1)}, metadata={**facts, **wrong})
    decoder = Decoder()
    assert_right(get(tmp_path, decoder))
    assert decoder.calls == 1


def test_nothing_is_kept_of_a_set_that_cannot_be_decoded(tmp_path: Path):
    def fail() -> tuple[Split, Split]:
        raise DamagedFileError("damaged")

    with pytest.raises(DamagedFileError):
        decoded("made_up", sources=["abc"], classes=2, home=tmp_path, decode=fail)
    assert list(tmp_path.rglob("*")) == []


def test_another_folder_can_be_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GATEWISE_CACHE", str(tmp_path / "a" / "b"))
    assert_right(get(tmp_path / "read-only", Decoder()))
    assert [path.parent.name for path in tmp_path.rglob("*.safetensors")] == ["b"]


def test_changing_the_images_of_one_run_does_not_change_those_of_the_next(tmp_path: Path):
    get(tmp_path, Decoder())
    get(tmp_path, Decoder()).train.images.zero_()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert_right(get(tmp_path, Decoder()))
