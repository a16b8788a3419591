"""Runs kept in ``results/units_cifar10`` are those of the preset: the study goes on from them."""

from pathlib import Path

from gatewise.files import read_record
from gatewise.studies.older import RateSearch, Study
from gatewise.studies.older.cells import cells_of, plan_study

KEPT = Path(__file__).parents[2] / "results" / "units_cifar10"


def test_kept_runs_of_units_cifar10_are_runs_of_the_preset():
    study = Study.load("units_cifar10")
    search = RateSearch(plan_study(study).groups, study.table.tune, seeds=study.table.seeds)
    records = {path.parent.name: read_record(path) for path in KEPT.glob("tuning/*/cell.json")}
    while cells := search.batch():
        assert {cell.key for cell in cells} <= records.keys()
        search.take({cell.key: records[cell.key] for cell in cells})
    final = {cell.key for cell in cells_of(search.tuned_groups(), study.table.seeds)}
    seen = 0
    for path in KEPT.glob("cells/*/cell.json"):
        record = read_record(path)
        if record["role"] == "final":
            assert path.parent.name == record["key"] and record["key"] in final
            seen += 1
    assert seen
