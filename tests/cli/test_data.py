"""``gatewise list data``: every set with its state, for people and for programs."""

import json
from pathlib import Path

import pytest

from gatewise.data import datasets


@pytest.fixture(autouse=True)
def no_folder_of_ones_own(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("GATEWISE_DATA", raising=False)


def test_every_set_is_listed_with_its_state(run, tmp_path: Path):
    result = run("list", "data", "--data-folder", tmp_path)
    assert result.exit_code == 0 and max(map(len, result.stdout.splitlines())) <= 100
    assert all(name in result.stdout for name in datasets())
    flat = " ".join(result.stdout.split())
    assert (
        "cifar10: a file of the data set is missing" in flat and datasets()["cifar10"].fetch in flat
    )


def test_json_has_every_fact(run, tmp_path: Path):
    (tmp_path / "svhn").mkdir()
    (tmp_path / "svhn/train_32x32.mat").write_bytes(b"<html>404 not found</html>")
    (tmp_path / "svhn/test_32x32.mat").write_bytes(b"")
    found = {
        each["name"]: each
        for each in json.loads(run("list", "data", "--data-folder", tmp_path, "--json").stdout)
    }
    assert list(found) == list(datasets())
    states = {name: each["state"] for name, each in found.items()}
    assert (states["digits"], states["mnist"], states["svhn"], states["image_folder"]) == (
        "built in",
        "missing",
        "damaged",
        "your own",
    )
    svhn = datasets()["svhn"].files[0]
    assert found["svhn"]["files"][0] == {
        "path": "svhn/train_32x32.mat",
        "sha256": svhn.plain.sha256,
        "bytes": svhn.plain.size,
    }
    assert svhn.plain.sha256 in found["svhn"]["detail"] and found["cifar100"]["options"][:2] == [
        "coarse",
        "published",
    ]


def test_a_part_of_a_set_is_missing_not_present(run, tmp_path: Path):
    (tmp_path / "svhn").mkdir()
    (tmp_path / "svhn/train_32x32.mat").write_bytes(b"x")
    found = {
        each["name"]: each
        for each in json.loads(run("list", "data", "--data-folder", tmp_path, "--json").stdout)
    }
    assert found["svhn"]["state"] == "missing" and "test_32x32.mat" in found["svhn"]["detail"]


def test_a_folder_that_is_not_there_is_bad_input(run, tmp_path):
    result = run("list", "data", "--data-folder", tmp_path / "missing")
    assert result.exit_code == 2 and "--data-folder: is not a folder" in result.stderr


def test_without_a_folder_it_is_said_how_to_name_one(run):
    result = run("list", "data")
    assert result.exit_code == 0 and "set GATEWISE_DATA" in " ".join(result.stdout.split())
