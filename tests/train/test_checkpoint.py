"""Checkpoints lead to the same end; damage and other conditions are refused."""

import dataclasses
import shutil
from pathlib import Path

import pytest
import torch
from small_runs import EXAMPLES, small_run
from test_loop import StopAt

from gatewise.data import load
from gatewise.errors import ArgumentError, DamagedFileError
from gatewise.files import write_tensors
from gatewise.train.loop import (
    NUMERICS,
    Checkpoints,
    Pace,
    read_result,
)
from gatewise.train.run import train

DATA = load("digits", train=EXAMPLES)
GOLDEN = Path(__file__).parent.parent / "golden" / "0.1.0"


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    return train(small_run(), tmp_path_factory.mktemp("whole") / "run", data=DATA)


@pytest.fixture
def stopped(tmp_path):
    """The folder of a run that has a checkpoint at step 10."""
    asks = StopAt(10)
    train(
        small_run(),
        tmp_path / "run",
        data=DATA,
        pace=Pace(checkpoint_seconds=0),
        watchers=[asks],
        stop=asks.signal,
    )
    return tmp_path / "run"


def test_the_checkpoint_leads_to_the_end_of_a_whole_run(stopped, whole):
    assert Checkpoints(stopped).load().progress.step == 10
    result = train(small_run(), stopped, data=DATA)
    assert result.state_sha256 == whole.state_sha256
    assert result.metrics_sha256 == whole.metrics_sha256
    assert result.environment["numerics"] == NUMERICS == 1


@pytest.mark.parametrize("harm", ["cut", "empty", "other"])
def test_a_damaged_checkpoint_is_an_error_that_names_the_file(stopped, harm):
    path = stopped / "checkpoint.safetensors"
    data = path.read_bytes()
    path.write_bytes({"cut": data[:-7], "empty": b"", "other": b"{}" * 1000}[harm])
    with pytest.raises(DamagedFileError, match=r"checkpoint\.safetensors"):
        train(small_run(), stopped, data=DATA)


@pytest.mark.parametrize("content", ["{}", "[]", "1", '{"format": 2}', '{"format": 9}', "[" * 5000])
def test_a_file_of_tensors_that_is_no_checkpoint_is_refused(tmp_path, content):
    tensors = {"a": torch.ones(1)}
    write_tensors(tmp_path / "checkpoint.safetensors", tensors, metadata={"run": content})
    with pytest.raises(DamagedFileError, match="not a checkpoint"):
        Checkpoints(tmp_path).load()


def test_a_checkpoint_of_another_network_is_refused(stopped):
    saved = Checkpoints(stopped).load()
    saved.tensors["model/head.layer.bias"] = torch.ones(99)
    Checkpoints(stopped).save(saved)
    with pytest.raises(DamagedFileError, match="not one of this network"):
        train(small_run(), stopped, data=DATA)


def test_a_checkpoint_of_other_numerics_is_refused(stopped):
    saved = Checkpoints(stopped).load()
    del saved.environment["numerics"]
    Checkpoints(stopped).save(saved)
    with pytest.raises(ArgumentError, match="numerics was None, is 1"):
        train(small_run(), stopped, data=DATA)


def test_the_kind_of_units_in_old_checkpoints_is_ignored():
    from gatewise.train.loop.run_environment import differences, environment

    now = environment()
    assert differences(now | {"units": "compiled"}, now) == []


@pytest.mark.parametrize(
    "what, now",
    [
        ("threads", 64),
        ("torch", "9.9.9"),
        ("gatewise", "9.9.9"),
        ("cpu_capability", "ABACUS"),
    ],
)
def test_another_environment_is_refused_unless_allowed_and_then_recorded(
    stopped, monkeypatch, what, now
):
    from gatewise.train.loop import assembly

    true = assembly.environment
    monkeypatch.setattr(
        assembly, "environment", lambda processes=1, device=None: true(processes) | {what: now}
    )
    before = {path: path.read_bytes() for path in stopped.iterdir()}
    with pytest.raises(ArgumentError, match=rf"{what} was .*, is {now}.*allow_inexact=True"):
        train(small_run(), stopped, data=DATA)
    assert {path: path.read_bytes() for path in stopped.iterdir()} == before
    result = train(small_run(), stopped, data=DATA, allow_inexact=True)
    assert result.status == "finished" and len(result.inexact) == 1 and what in result.inexact[0]


def test_another_version_of_python_does_not_matter(stopped, monkeypatch, whole):
    monkeypatch.setattr("platform.python_version", lambda: "4.0.0")
    assert train(small_run(), stopped, data=DATA).state_sha256 == whole.state_sha256


def test_other_data_are_refused(stopped):
    with pytest.raises(ArgumentError, match="the data are not those the run was started with"):
        train(small_run(), stopped, data=dataclasses.replace(DATA, digest="0" * 64))


def test_metrics_cut_shorter_than_the_checkpoint_knows_are_damage(stopped):
    (stopped / "metrics.jsonl").write_bytes(b"")
    with pytest.raises(DamagedFileError, match=r"metrics\.jsonl"):
        train(small_run(), stopped, data=DATA)


def test_a_damaged_result_or_configuration_is_refused(stopped):
    for name in ("config.json", "result.json"):
        shutil.copytree(stopped, stopped.with_name(name))
        folder = stopped.with_name(name)
        train(small_run(), folder, data=DATA)
        (folder / name).write_bytes((folder / name).read_bytes()[:-3])
        with pytest.raises(DamagedFileError, match=name):
            train(small_run(), folder, data=DATA)


def test_results_of_version_0_1_0_are_read():
    result = read_result(GOLDEN / "run")
    assert result.status == "finished" and result.steps == 18 and result.metrics["epoch"] == 3
