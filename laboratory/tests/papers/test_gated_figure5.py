"""Figure 5 of deep gated networks as cells: one for each kind of data, network and seed."""

from dataclasses import asdict, replace
from pathlib import Path

import pytest
import torch
from gatewise_papers.deep_gated.experiments import figure5

from gatewise.studies import CellCall, Running
from gatewise.train import Halted, StopSignal

TINY = figure5.EXPERIMENT.scales["tiny"]


def call(folder: Path, *, stop: StopSignal | None = None, **settings: object) -> CellCall:
    chosen = {"kind": "random labels", "gate": "relu", "seed": 0, "sizes": asdict(TINY)} | settings
    return CellCall(chosen, {"name": "a cell"}, folder, stop or StopSignal())


def test_every_kind_network_and_seed_has_a_cell():
    cells = figure5.cells(TINY, (0, 1, 2))
    assert len({cell.name for cell in cells}) == len(cells) == 3 * 2 * 3


@pytest.mark.data
def test_random_labels_differ_by_seed_and_random_pixels_do_not():
    labels = [figure5._data("random labels", 100, seed)[1] for seed in (0, 1)]
    assert not torch.equal(*labels)
    pixels = [figure5._data("random pixels", 100, seed)[0] for seed in (0, 1)]
    assert torch.equal(*pixels)
    published = [figure5._data(figure5.PUBLISHED, 100, seed) for seed in (0, 1)]
    assert torch.equal(published[0][0], published[1][0])
    assert torch.equal(published[0][1], published[1][1])


@pytest.mark.data
def test_a_cell_has_test_accuracies_only_with_the_published_labels(tmp_path: Path):
    curves = figure5.fit_cell(call(tmp_path))
    assert [len(curves[part]) for part in ("train", "test", "loss")] == [3, 0, 2]
    curves = figure5.fit_cell(call(tmp_path, kind=figure5.PUBLISHED))
    assert [len(curves[part]) for part in ("train", "test", "loss")] == [3, 3, 2]


@pytest.mark.data
def test_a_cell_ends_at_the_next_epoch_if_a_stop_is_asked_for(tmp_path: Path):
    stop = StopSignal()
    stop.asked = True
    with pytest.raises(Halted):
        figure5.fit_cell(call(tmp_path, stop=stop))


@pytest.mark.data
@pytest.mark.slow
def test_two_processes_measure_what_one_does_and_the_record_names_the_data(tmp_path: Path):
    experiment = replace(figure5.EXPERIMENT, scales={"tiny": TINY, "full": TINY})
    alone = experiment.run("tiny", 2, tmp_path / "alone")
    both = experiment.run("tiny", 2, tmp_path / "both", options=Running(workers=2))
    assert [row.per_seed for row in alone.findings.rows] == [
        row.per_seed for row in both.findings.rows
    ]
    assert alone.data_sha256.keys() == {"mnist train", "mnist test"}
    assert alone.data_sha256 == both.data_sha256


@pytest.mark.data
def test_finished_cells_count_only_for_the_data_they_were_made_of():
    identity = figure5.EXPERIMENT._data_identity(TINY, (0,))
    assert len(identity["data"]) == 2
    changed = replace(figure5.EXPERIMENT, read_data=lambda: ["0" * 64])
    assert changed._data_identity(TINY, (0,)) != identity
