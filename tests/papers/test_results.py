"""The stored results are complete and belong to the experiments as they are now."""

from pathlib import Path

import pytest

from gatewise.files import read_json
from gatewise.papers import experiments

RESULTS = Path(__file__).parents[2] / "results"


@pytest.mark.parametrize("name", experiments())
def test_a_result_is_kept_with_its_seeds_versions_time_and_picture(name: str):
    folder, experiment = RESULTS / name, experiments()[name]
    kept = read_json(folder / "results.json")
    assert kept["experiment"] == name and kept["scale"] == "cpu"
    assert kept["reduced"] == experiment.scales["cpu"].reduced
    assert kept["seeds"] == list(range(experiment.seeds))
    assert kept["versions"]["torch"] and kept["seconds"] > 0 and kept["date"]
    assert all(row["agrees"] is not False for row in kept["findings"]["rows"])
    assert (folder / "figure.png").read_bytes().startswith(b"\x89PNG")


def test_nothing_else_is_kept():
    found = {str(path.parent.relative_to(RESULTS)) for path in RESULTS.rglob("results.json")}
    assert found == set(experiments())
    assert not list(RESULTS.rglob("unfinished*"))
