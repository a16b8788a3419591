"""Figure 7 of deep gated networks reads the curves of the networks of Figure 8."""

from dataclasses import replace
from pathlib import Path

import pytest
from gatewise_papers.common import Experiment
from gatewise_papers.deep_gated.experiments import figure7, figure8

from gatewise.errors import ArgumentError
from gatewise.files import read_json, write_json

SEEDS = 3
NAME = figure8.EXPERIMENT.name


def small(experiment: Experiment, **changes: object) -> Experiment:
    """The experiment with its tiny sizes as scale desk."""
    return replace(experiment, scales={"desk": replace(experiment.scales["tiny"], **changes)})


def per_seed(folder: Path) -> dict[str, list[float]]:
    record = read_json(folder / figure7.EXPERIMENT.name / "results.json")
    return {row["what"]: row["per_seed"] for row in record["findings"]["rows"]}


@pytest.mark.data
def test_the_numbers_are_those_of_networks_trained_again(tmp_path: Path):
    reading, training = tmp_path / "reading", tmp_path / "training"
    small(figure8.EXPERIMENT).run("desk", SEEDS, reading)
    read = small(figure7.EXPERIMENT, networks_of=NAME).run("desk", SEEDS, reading)
    small(figure7.EXPERIMENT).run("desk", SEEDS, training)
    ours, theirs = per_seed(reading), per_seed(training)
    assert len(ours) == 18  # three numbers of six networks
    assert ours == theirs
    assert any(NAME in note for note in read.findings.notes)


@pytest.mark.data
def test_fewer_seeds_read_the_first_networks(tmp_path: Path):
    small(figure8.EXPERIMENT).run("desk", SEEDS, tmp_path)
    small(figure7.EXPERIMENT, networks_of=NAME).run("desk", 2, tmp_path)
    kept = read_json(tmp_path / NAME / "results.json")["findings"]["networks"]
    expected = [curve[-1] for curve in kept["GaLU"]["test"][:2]]
    assert per_seed(tmp_path)["test accuracy at the end, GaLU"] == expected


@pytest.mark.data
def test_without_the_record_the_error_names_the_command(tmp_path: Path):
    with pytest.raises(ArgumentError, match=f"gatewise reproduce {NAME} --scale desk --seeds 3"):
        small(figure7.EXPERIMENT, networks_of=NAME).run("desk", SEEDS, tmp_path)


@pytest.mark.data
def test_networks_of_another_scale_are_not_read(tmp_path: Path):
    tiny = figure8.EXPERIMENT.scales["tiny"]
    replace(figure8.EXPERIMENT, scales={"tiny": tiny}).run("tiny", SEEDS, tmp_path)
    with pytest.raises(ArgumentError, match="scale tiny") as raised:
        small(figure7.EXPERIMENT, networks_of=NAME).run("desk", SEEDS, tmp_path)
    assert "a record of the scale desk" in str(raised.value)


@pytest.mark.data
def test_networks_of_another_training_are_not_read(tmp_path: Path):
    small(figure8.EXPERIMENT, epochs=1).run("desk", SEEDS, tmp_path)
    with pytest.raises(ArgumentError, match="epochs 1 in place of 2"):
        small(figure7.EXPERIMENT, networks_of=NAME).run("desk", SEEDS, tmp_path)


@pytest.mark.data
def test_a_record_without_networks_is_made_again(tmp_path: Path):
    small(figure8.EXPERIMENT).run("desk", SEEDS, tmp_path)
    path = tmp_path / NAME / "results.json"
    record = read_json(path)
    del record["findings"]["networks"]
    write_json(path, record)
    with pytest.raises(ArgumentError, match=f"gatewise reproduce {NAME} --scale desk"):
        small(figure7.EXPERIMENT, networks_of=NAME).run("desk", SEEDS, tmp_path)
