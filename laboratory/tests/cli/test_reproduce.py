"""``gatewise reproduce``: lists, runs, writes, and fails when a closed form is missed."""

import json
from pathlib import Path

import pytest
from gatewise_papers.all_experiments import experiments
from gatewise_papers.common import row
from gatewise_papers.deep_gated.experiments import figure2

from gatewise.files import read_json


def test_the_list_names_every_experiment_with_its_scale(run):
    listed = json.loads(run("reproduce", "--list", "--json").stdout)
    assert [each["name"] for each in listed] == list(experiments())
    for each in listed:
        in_a_paper = each["name"] not in ("iieu/cifar100", "maso/beta_forms", "psc/cifar10")
        assert {"tiny", "desk", *(["full"] if in_a_paper else [])} <= set(each["scales"])
    text = run("reproduce", "--list").stdout
    assert all(name in text for name in experiments())


def test_a_run_prints_a_scale_in_every_row_and_writes_its_files(run, tmp_path: Path):
    done = run(
        "reproduce", "deep_gated/figure10", "--scale", "tiny", "--seeds", 3, "--out", tmp_path
    )
    assert done.exit_code == 0, done.output
    folder = tmp_path / "deep_gated" / "figure10"
    assert sorted(path.name for path in folder.iterdir()) == [
        "curves.csv",
        "figure.svg",
        "results.json",
        "rows.csv",
    ]
    content = read_json(folder / "results.json")
    assert all("w=20" in row["scale"] for row in content["findings"]["rows"])
    assert content["seeds"] == [0, 1, 2] and content["versions"]["torch"] and content["seconds"] > 0
    assert "claim of the paper" in done.stdout and "0.81" in done.stdout


def test_json_is_all_that_is_printed(run, tmp_path: Path):
    done = run(
        "reproduce",
        "deep_gated/figure2",
        "--scale",
        "tiny",
        "--seeds",
        4,
        "--out",
        tmp_path,
        "--json",
    )
    assert done.exit_code == 0
    assert json.loads(done.stdout)["experiment"] == "deep_gated/figure2"


def test_a_missed_closed_form_is_exit_1(run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(
        figure2,
        "row",
        lambda what, values, **options: row(what, values, **options | {"closed_form": 17.0}),
    )
    done = run(
        "reproduce", "deep_gated/figure2", "--scale", "tiny", "--seeds", 10, "--out", tmp_path
    )
    assert done.exit_code == 1
    assert "closed form 17" in done.stderr


def test_a_place_that_cannot_be_written_is_said_before_the_work(run, tmp_path: Path):
    (tmp_path / "taken").write_text("a file")
    done = run("reproduce", "deep_gated/figure2", "--scale", "tiny", "--out", tmp_path / "taken")
    assert done.exit_code == 2
    assert "error: cannot make the folder" in done.stderr and "d=2" not in done.stderr


@pytest.mark.parametrize("folder", ["", "/nowhere"])
def test_missing_data_is_said_with_the_remedy(
    run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder: str
):
    monkeypatch.setenv("GATEWISE_DATA", folder)
    done = run("reproduce", "deep_gated/figure6", "--scale", "tiny", "--out", tmp_path)
    assert done.exit_code == 2 and "GATEWISE_DATA" in done.stderr
