"""Figures 4 and 5 and Table 6 of CReLU read measurements of the networks of Table 1."""

from dataclasses import replace
from pathlib import Path

import pytest
from gatewise_papers.common import CellValues, Experiment, cost_of
from gatewise_papers.crelu.experiments import CONVPOOL, TABLE1, figure4, figure5, table1, table6

from gatewise.errors import ArgumentError
from gatewise.files import read_json

SEEDS = 2
SIZES = {
    "width": 1 / 24,
    "train": 60,
    "test": 50,
    "epochs": 1,
    "norm": True,
    "data": ("cifar10",),
}
TRAINED = table1.CreluTable1Settings(
    "small", **SIZES, hold_out=0, folds=0, score_images=10, draws=5, ratio_images=4
)


def small(experiment: Experiment, settings: object) -> Experiment:
    """The experiment with one scale."""
    return replace(experiment, scales={"desk": settings})


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a record of Table 1."""
    out = tmp_path_factory.mktemp("table1")
    small(table1.EXPERIMENT, TRAINED).run("desk", SEEDS, out)
    return out


def rows_of(folder: Path, name: str) -> dict[str, list[float]]:
    record = read_json(folder / name / "results.json")
    return {row["what"]: row["per_seed"] for row in record["findings"]["rows"]}


@pytest.mark.data
@pytest.mark.parametrize(
    ("module", "options"),
    [(figure4, {"images": 10}), (table6, {"images": 4})],
    ids=["figure4", "table6"],
)
def test_the_numbers_are_those_of_networks_trained_again(
    module, options: dict, trained: Path, tmp_path: Path
):
    scale = type(module.EXPERIMENT.scales["desk"])
    reading = scale("small", **SIZES, **options, networks_of=TABLE1)
    small(module.EXPERIMENT, reading).run("desk", SEEDS, trained)
    training = scale("small", **SIZES, **options)
    small(module.EXPERIMENT, training).run("desk", SEEDS, tmp_path)
    ours = rows_of(trained, module.EXPERIMENT.name)
    assert ours and ours == rows_of(tmp_path, module.EXPERIMENT.name)


@pytest.mark.data
def test_figure_5_reads_the_first_four_convolutions_of_both_units(trained: Path):
    reading = figure5.CreluFigure5Settings("small", networks_of=TABLE1)
    result = small(figure5.EXPERIMENT, reading).run("desk", SEEDS, trained)
    kept = read_json(trained / TABLE1 / "results.json")["findings"]["networks"]
    by_row = rows_of(trained, figure5.EXPERIMENT.name)
    for form in ("ReLU", "CReLU"):
        for place in range(4):
            means = [kept[f"CIFAR-10, {form}, seed {seed}"]["pairs"][place] for seed in (0, 1)]
            assert by_row[f"{form}, conv{place + 1}: mean correlation"] == [
                layer["mean"] for layer in means
            ]
    assert any(TABLE1 in note for note in result.findings.notes)
    # The data of the networks is the data of the figure.
    assert list(result.data_sha256) == list(
        read_json(trained / TABLE1 / "results.json")["data_sha256"]
    )


@pytest.mark.data
def test_the_errors_of_table_1_have_no_row_of_a_measurement(trained: Path):
    rows = rows_of(trained, TABLE1)
    assert len(rows) == 2 * len(CONVPOOL)  # train and test
    assert all(what.endswith(("train error, %", "test error, %")) for what in rows)


@pytest.mark.data
def test_more_seeds_than_the_record_has_are_refused(trained: Path):
    reading = figure5.CreluFigure5Settings("small", networks_of=TABLE1)
    with pytest.raises(ArgumentError, match=r"seeds \[0, 1\].*--seeds 3"):
        small(figure5.EXPERIMENT, reading).run("desk", SEEDS + 1, trained)


@pytest.mark.parametrize("module", [figure4, figure5, table6], ids=lambda module: module.__name__)
def test_without_the_record_of_table_1_the_error_names_the_command(module, tmp_path: Path):
    with pytest.raises(ArgumentError, match=r"must be run first.*gatewise reproduce crelu/table1"):
        module.EXPERIMENT.run("desk", None, tmp_path)
    assert cost_of(module.EXPERIMENT).core_hours is None  # nothing is trained


def test_a_network_without_the_measurement_is_named():
    values = CellValues(None, (0,), {"one": {"CIFAR-10, ReLU, seed 0": {"test": None}}})
    with pytest.raises(ArgumentError, match=r"invariance of the network .CIFAR-10, ReLU, seed 0"):
        values.measured("CIFAR-10, ReLU, seed 0", "invariance")


def test_table_1_measures_as_many_images_and_draws_as_the_figures_say():
    trained = table1.EXPERIMENT.scales["desk"]
    assert trained.score_images == figure4.EXPERIMENT.scales["desk"].images
    assert trained.draws == figure5.EXPERIMENT.scales["desk"].draws
    assert trained.ratio_images == table6.EXPERIMENT.scales["desk"].images
    assert not trained.hold_out  # measurements are of the run on all images
