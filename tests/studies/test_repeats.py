"""Sets of seeds: they are studies of their own, resume from the kept file, and are compared."""

import shutil
from pathlib import Path

import numpy as np
import pytest
import repeat_study

from gatewise.studies import ComparisonResult

ROOT = Path(__file__).parents[2]
STORED = ROOT / "results" / "demo_sets.jsonl"
STUDY = """
units = ["silu"]
seeds = 3
rates = 1
data = { name = "digits", options = { train = 40 } }
models = { name = "tiny", model = "mlp", options = { widths = [4] } }
recipe = { base = "adam", batch = 20 }
epochs = 1
"""


def a_set(gaps: dict[str, float]) -> ComparisonResult:
    """A study at one rate in which the units differ so from the baseline."""
    draw = np.random.default_rng(0)
    units = ["original", *gaps]
    records = []
    for unit in units:
        for seed in range(5):
            value = 0.5 + gaps.get(unit, 0.0) + 0.001 * draw.standard_normal()
            records.append(
                {"model": "net", "unit": unit, "seed": seed, "status": "done", "value": value}
            )
    header = {
        "metric": {"name": "accuracy"},
        "models": ["net"],
        "baseline": "original",
        "units": [{"label": unit} for unit in units],
        "rates": {"center": 0.1, "count": 1},
        "seeds": 5,
    }
    return ComparisonResult(header, records)


def test_sets_run_resume_and_go_on_from_the_kept_file(tmp_path, monkeypatch, capsys):
    study, kept = tmp_path / "study.toml", tmp_path / "kept" / "study.jsonl"
    study.write_text(STUDY)
    words = ["repeat_study", "run", str(study), "--out", str(tmp_path / "work")]
    words += ["--records", str(kept), "--sets", "2"]
    monkeypatch.setattr("sys.argv", words)
    assert repeat_study.main() == 0
    assert "2 sets of seeds have ended" in capsys.readouterr().out
    assert sorted(repeat_study.read_sets(kept)) == [0, 1]
    first = kept.read_text()
    assert first.count("\n") == 1 + 2 * 2 * 3
    shutil.rmtree(tmp_path / "work")
    # Without the last lines, which are runs of silu, the sets are completed; no other run is made.
    kept.write_text("".join(first.splitlines(keepends=True)[:-2]))
    trained = []
    monkeypatch.setattr(
        "gatewise.studies.engine.cell.error_words", lambda problem: pytest.fail(str(problem))
    )
    from gatewise.studies.engine import cell

    monkeypatch.setattr(
        cell, "train", lambda *a, _train=cell.train, **k: trained.append(1) or _train(*a, **k)
    )
    assert repeat_study.main() == 0
    assert len(trained) == 2
    assert sorted(repeat_study.read_sets(kept)) == [0, 1]


def test_contradictions_between_sets_are_named():
    alike = {0: a_set({"gelu": 0.1, "relu, other seeds": 0.0}), 1: a_set({"gelu": 0.1})}
    rows = repeat_study.count_verdicts(alike)
    assert repeat_study.contradictions(rows) == []
    assert rows[0]["better"] == 2 and rows[0]["differences"] == pytest.approx([0.1, 0.1], abs=0.01)
    other = {0: a_set({"gelu": 0.1}), 1: a_set({"gelu": -0.1})}
    [words] = repeat_study.contradictions(repeat_study.count_verdicts(other))
    assert words == "net, gelu: better in 1 sets, worse in 1"
    control = {place: a_set({"relu, other seeds": 0.1}) for place in range(2)}
    [words] = repeat_study.contradictions(repeat_study.count_verdicts(control))
    assert "decided in more than one set" in words


@pytest.mark.skipif(not STORED.exists(), reason="the sets of the demo have not been run")
def test_stored_sets_of_the_demo_do_not_contradict_each_other():
    results = repeat_study.read_sets(STORED)
    assert repeat_study.contradictions(repeat_study.count_verdicts(results)) == []


@pytest.mark.skipif(not STORED.exists(), reason="the sets of the demo have not been run")
def test_the_docs_have_the_table_of_the_stored_sets():
    rows = repeat_study.count_verdicts(repeat_study.read_sets(STORED))
    page = (ROOT / "docs" / "statistics.md").read_text("utf-8")
    assert "\n".join(repeat_study.table(rows)) in page
