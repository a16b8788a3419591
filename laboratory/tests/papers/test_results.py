"""The stored results are complete, belong to the experiments, and the pages show them."""

from pathlib import Path

from gatewise_papers.all_experiments import (
    PAGES,
    experiments,
    generated_part,
    with_generated_part,
)
from gatewise_papers.common import Judgement
from gatewise_papers.common import experiment as experiment_module
from gatewise_papers.not_here import NOT_HERE
from loops import for_each

from gatewise.files import read_json
from gatewise.studies import import_study

ROOT = Path(__file__).parents[3]
RESULTS = ROOT / "results"
VERDICTS = {verdict.value for verdict in Judgement}


def kept(folder: Path) -> set[str]:
    """The names of the experiments with a record in a folder."""
    paths = folder.rglob("results.json")
    return {path.parent.relative_to(folder).as_posix() for path in paths}


@for_each("name", sorted(kept(RESULTS)))
def test_a_record_has_its_seeds_values_data_verdicts_version_machine_and_time(name: str):
    experiment = experiments()[name]
    record = read_json(RESULTS / name / "results.json")
    assert record["experiment"] == name and record["scale"] in ("desk", "full")
    assert record["reduced"] == experiment.scales[record["scale"]].reduced
    planned = experiment.seed_numbers(None, record["scale"])
    assert record["seeds"] == list(planned)[: len(record["seeds"])] != []
    assert record["versions"]["gatewise"] and record["machine"]["processor"]
    # Experiments that read the networks of another train nothing.
    is_read = bool(record["settings"].get("networks_of"))
    assert is_read or record["seconds"] > 0
    assert record["date"] and "data_sha256" in record
    for row in record["findings"]["rows"]:
        assert row["agrees"] is not False
        assert len(row["per_seed"]) in (0, len(record["seeds"]), row["seeds"] + row["left_out"])
    assert {claim["verdict"] for claim in record["findings"]["claims"]} <= VERDICTS


@for_each("name", sorted(kept(RESULTS)))
def test_a_record_is_judged_by_the_levels_of_today(name: str):
    experiment = experiments()[name]
    findings = read_json(RESULTS / name / "results.json")["findings"]
    rows = {row["what"]: row["ours"] for row in findings["rows"]}
    declared = {level.row: level for level in experiment.levels if level.row in rows}
    assert [level["what"] for level in findings["levels"]] == list(declared)
    assert bool(declared) == bool(experiment.levels)
    for level in findings["levels"]:
        known = declared[level["what"]]
        assert level["ours"] == rows[level["what"]] and level["published"] == known.published
        assert level["is_reached"] == known.is_reached(level["ours"])
        for claim in findings["claims"]:
            decides = claim["published"].startswith(known.claims) if known.claims else True
            if decides and not claim["exact"] and not level["is_reached"]:
                assert claim["verdict"] == "not tested" and claim["reason"]


def test_every_record_belongs_to_an_experiment_and_none_is_tiny():
    assert kept(RESULTS) <= set(experiments())


def test_of_an_unfinished_experiment_only_exported_cells_are_kept():
    for path in RESULTS.rglob("unfinished.jsonl"):
        header, records = import_study(path)
        name = path.parent.relative_to(RESULTS).as_posix()
        assert header["name"] == name or experiments()[name].comparison is not None
        assert records and all(one["status"] in ("done", "diverged") for one in records.values())


def test_no_record_is_of_800_images():
    for path in RESULTS.rglob("*.json"):
        assert "800 images" not in path.read_text(encoding="utf-8"), path


def test_what_cannot_be_run_is_no_experiment():
    names = [one.name for one in NOT_HERE]
    assert len(set(names)) == len(names) and not set(names) & set(experiments())


@for_each("page", PAGES)
def test_a_page_shows_the_records_as_they_are(page: str):
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    assert with_generated_part(text, generated_part(page, RESULTS)) == text


def test_the_page_of_all_papers_has_one_line_for_each_experiment():
    lines = generated_part("reproductions.md", RESULTS).splitlines()
    rows = [line.removeprefix("| ").removesuffix(" |").split(" | ") for line in lines]
    rows = [row for row in rows if len(row) == 4][1:]
    assert len(rows) == len(experiments())
    for (title, state, hours, command), experiment in zip(
        rows, experiments().values(), strict=True
    ):
        page = f"{experiment.name.partition('/')[0]}.md"
        assert f"]({page}" in title and PAGES[page] and experiment.name in command
        is_run = experiment.name in kept(RESULTS)
        cost = RESULTS / experiment.name / "cost.json"
        assert is_run or "supported" not in state
        assert hours == (f"{read_json(cost)['core_hours']:.3g}" if cost.exists() else "-")


def test_finished_cells_count_on_another_machine_unless_they_are_times(monkeypatch):
    for name, counts in (("deep_gated/figure3", True), ("iieu/table5", False)):
        experiment = experiments()[name]
        monkeypatch.undo()
        here = experiment._identity()
        there = dict(experiment_module.versions(), machine="x86_64 another", threads="64")
        monkeypatch.setattr(experiment_module, "versions", lambda there=there: there)
        assert (experiment._identity() == here) is counts
        other = dict(there, numerics="0", torch="9.9")
        monkeypatch.setattr(experiment_module, "versions", lambda other=other: other)
        assert experiment._identity() != here
