"""Experiments with declared cells resume after an interruption and end with the same numbers."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from gatewise_papers.all_experiments import experiments
from gatewise_papers.common import CellValues, Experiment, Findings, Line, Panel, row

from gatewise.errors import ArgumentError
from gatewise.files import read_json
from gatewise.studies import CellCall, FunctionCell, Running, StudyFile

DECLARED = [
    "crelu/table5",
    "deep_gated/figure2",
    "iieu/table1",
    "maso/table2",
    "psc/lower_bound",
]
SEEDS = 2


def rows(folder: Path, name: str) -> list[dict]:
    return read_json(folder / name / "results.json")["findings"]["rows"]


@pytest.mark.slow
@pytest.mark.parametrize("name", DECLARED)
def test_an_interrupted_experiment_resumes_with_the_missing_cells(name: str, tmp_path: Path):
    experiment = experiments()[name]
    cells = experiment.cells(experiment.scales["tiny"], tuple(range(SEEDS)))
    started: list[str] = []

    def interrupt(cell: str) -> None:
        started.append(cell)
        if len(started) == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        experiment.run("tiny", SEEDS, tmp_path / "a", tell=interrupt)
    state = StudyFile(tmp_path / "a" / name / "unfinished").status()
    assert state.done == 1 and state.cells == len(cells)
    resumed: list[str] = []
    experiment.run("tiny", SEEDS, tmp_path / "a", tell=resumed.append)
    assert resumed == [cell.name for cell in cells][1:]
    assert not list(tmp_path.rglob("unfinished*"))
    experiment.run("tiny", SEEDS, tmp_path / "b")
    assert rows(tmp_path / "a", name) == rows(tmp_path / "b", name)


@pytest.mark.slow
def test_an_experiment_that_is_killed_resumes(tmp_path: Path):
    name = "psc/lower_bound"
    options = ["--scale", "tiny", "--seeds", str(SEEDS), "--out", str(tmp_path), "--json"]
    command = [sys.executable, "-m", "gatewise", "reproduce", name, *options]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    file = StudyFile(tmp_path / name / "unfinished")
    until = time.monotonic() + 120
    while process.poll() is None and not (file.path.exists() and file.has_header()):
        assert time.monotonic() < until
        time.sleep(0.01)
    while process.poll() is None and file.path.exists() and not file.status().done:
        assert time.monotonic() < until
        time.sleep(0.01)
    process.send_signal(signal.SIGKILL)
    process.wait()
    if process.returncode != -signal.SIGKILL or not file.path.exists():
        pytest.skip("it ended before it was killed")
    before = file.records()
    assert before
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=os.environ)
    told = [line for line in done.stderr.splitlines() if line.startswith(f"{name}: ")]
    assert len(told) == 2 * SEEDS + 1 - len(before)
    assert all(row["agrees"] is not False for row in rows(tmp_path, name))


def double(cell: CellCall) -> float:
    return 2.0 * cell.settings["value"]


def fail_once(cell: CellCall) -> float:
    marker = Path(cell.settings["marker"])
    if not marker.exists():
        marker.write_text("")
        raise ValueError("the first attempt fails")
    return 1.0


def small_experiment(cells: list[FunctionCell], settings: object) -> Experiment:
    def findings(values: CellValues) -> Findings:
        numbers = list(values.values.values())
        panel = Panel("p", "x", "y", [Line("a", [1], numbers[:1])])
        return Findings([panel], [row(name, [value]) for name, value in values.values.items()])

    return Experiment(
        "some/thing",
        "a thing",
        {"desk": settings},
        cells=lambda settings, seeds: cells,
        findings=findings,
    )


@pytest.mark.slow
def test_cells_may_run_in_worker_processes(tmp_path: Path):
    settings = experiments()["crelu/table5"].scales["desk"]
    experiment = experiments()["crelu/table5"]
    workers = Running(workers=2, threads=1)
    done = experiment.run("desk", 1, tmp_path, options=workers)
    assert not done.failed and len(done.findings.rows) == 10
    assert settings.reduced == ""


def test_a_failed_cell_is_an_error_with_its_reason_and_is_run_again(tmp_path: Path):
    settings = experiments()["crelu/table5"].scales["desk"]
    cells = [
        FunctionCell("good", double, {"value": 3}),
        FunctionCell("bad", fail_once, {"marker": str(tmp_path / "marker")}),
    ]
    experiment = small_experiment(cells, settings)
    with pytest.raises(ArgumentError, match=r"1 of 2 parts failed.*the first attempt fails"):
        experiment.run("desk", 1, tmp_path)
    told: list[str] = []
    done = experiment.run("desk", 1, tmp_path, tell=told.append)
    assert told == ["bad"]
    assert [row.ours for row in done.findings.rows] == [6.0, 1.0]
