"""A comparison that is stopped or killed resumes, and ends in the bits of one left alone."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import cloudpickle
import pytest
from studies import compare_victim
from studies.compare_victim import Curve, Noisy, compared, net
from torch.utils.data import DataLoader

from gatewise.studies.comparison import UserUnit, read_data, user_model, user_recipe, variants
from gatewise.studies.comparison.comparison_driver import CellTraining
from gatewise.studies.older import Task
from gatewise.train import Pace, RunConfig, StopSignal, Watcher, train
from gatewise.units import unit_from

SAME = ("status", "metrics", "weights_sha256", "state_sha256", "correct")


class StopAt(Watcher):
    def __init__(self, step: int) -> None:
        self.at = step
        self.signal = StopSignal()

    def step(self, step) -> None:
        self.signal.asked = step.step == self.at


def comparison():
    recipe = user_recipe("adam", 2, {})
    loaders = DataLoader(Noisy(0.0), 8, shuffle=True), DataLoader(Noisy(0.0), 16)
    model = user_model(net, read_data(loaders, recipe), recipe)
    unit = unit_from(Curve)
    [variant] = variants(model, [UserUnit("Curve", unit.name, {}, unit)], {})
    config = RunConfig(model="net", data="own", recipe=recipe, seed=3)
    return model, variant, config


def test_run_stopped_at_any_step_ends_in_the_same_bits(tmp_path):
    model, variant, config = comparison()

    def run(folder: str, **options):
        return train(
            config,
            tmp_path / folder,
            setup=lambda device: model.setup(variant, config, device),
            **options,
        )

    whole = run("whole")
    assert whole.status == "finished"
    for at in (1, 6, 9):  # within an epoch, at its end, in the second one
        asks = StopAt(at)
        assert run(f"at {at}", watchers=[asks], stop=asks.signal) is None
        result = run(f"at {at}")
        assert result.starts == 2
        for name in ("state_sha256", "weights_sha256", "metrics"):
            assert getattr(result, name) == getattr(whole, name)


def records_of(result) -> dict:
    records = {}
    for record in result.records:
        records[record["unit"], record["seed"]] = {name: record[name] for name in SAME}
    return records


@pytest.mark.thorough
def test_comparison_killed_in_the_middle_loses_nothing(tmp_path):
    whole = records_of(compared(tmp_path / "whole"))
    folder = tmp_path / "killed"
    source = str(Path(sys.modules["gatewise"].__file__).parents[1])
    environment = {**os.environ, "PYTHONPATH": source, "OMP_NUM_THREADS": "1"}
    for wanted in (2,):
        process = subprocess.Popen(
            [sys.executable, compare_victim.__file__, str(folder)], env=environment
        )
        while len(list(folder.glob("cells/*/cell.json"))) < wanted and process.poll() is None:
            time.sleep(0.01)
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    assert records_of(compared(folder)) == whole


CHILD = """
import sys, cloudpickle
work, task, stop = cloudpickle.loads(sys.stdin.buffer.read())
content = work(task, stop)
sys.stdout.buffer.write(content["state_sha256"].encode())
"""


@pytest.mark.thorough
def test_cell_can_be_sent_to_another_process_with_its_own_unit(tmp_path):
    model, variant, config = comparison()
    work = CellTraining(model, {"Curve": variant}, "cpu", Pace())
    plain = config.model_dump(mode="json", exclude_unset=True)

    def task(folder: str) -> Task:
        return Task({"key": "k", "unit": "Curve", "config": plain}, str(tmp_path / folder))

    here = work(task("here"), StopSignal())
    source = str(Path(sys.modules["gatewise"].__file__).parents[1])
    environment = {
        **os.environ,
        "PYTHONPATH": f"{source}:{Path(__file__).parents[1]}",
    }
    there = subprocess.run(
        [sys.executable, "-c", CHILD],
        input=cloudpickle.dumps((work, task("there"), StopSignal())),
        env=environment,
        capture_output=True,
        check=True,
    )
    assert there.stdout.decode() == here["state_sha256"]
