"""Checkpoints: damage is survived (S3), other conditions are refused, old files load (S5)."""

import dataclasses
import logging
import random
import shutil
from pathlib import Path

import pytest
import torch
from small_runs import EXAMPLES, small_run
from test_loop import StopAt

from gatewise.data import load
from gatewise.errors import ArgumentError, DamagedFileError
from gatewise.train.loop import (
    SLOTS,
    Checkpoints,
    Pace,
    Progress,
    Saved,
    read_checkpoint,
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
    """The folder of a run that has checkpoints at steps 9 and 10."""
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


def test_both_slots_hold_a_checkpoint_and_the_newer_one_is_used(stopped, whole):
    numbers = {
        read_checkpoint(stopped / slot)[0]: read_checkpoint(stopped / slot)[1].progress.step
        for slot in SLOTS
    }
    assert numbers[max(numbers)] == 10
    assert train(small_run(), stopped, data=DATA).state_sha256 == whole.state_sha256


@pytest.mark.parametrize("harm", ["flip", "cut", "empty", "other"])
def test_a_damaged_newest_checkpoint_is_said_and_the_one_before_leads_to_the_same_end(
    stopped, whole, harm, caplog
):
    newest = max(SLOTS, key=lambda slot: read_checkpoint(stopped / slot)[0])
    data = bytearray((stopped / newest).read_bytes())
    data[len(data) // 2] ^= 16
    harmed = {"flip": data, "cut": data[:-7], "empty": b"", "other": b"{}" * 1000}[harm]
    (stopped / newest).write_bytes(harmed)
    with caplog.at_level(logging.WARNING, "gatewise.train"):
        result = train(small_run(), stopped, data=DATA)
    assert newest in caplog.text and "is damaged" in caplog.text
    assert (
        result.state_sha256 == whole.state_sha256 and result.metrics_sha256 == whole.metrics_sha256
    )


def test_two_damaged_checkpoints_are_an_error_that_names_the_file(stopped):
    for slot in SLOTS:
        (stopped / slot).write_bytes(b"nothing")
    with pytest.raises(DamagedFileError, match="checkpoint-0"):
        train(small_run(), stopped, data=DATA)


@pytest.mark.thorough
def test_every_byte_flipped_and_every_cut_is_noticed(tmp_path):
    Checkpoints(tmp_path).save(
        Saved(Progress(step=3), {"config": "c"}, {}, {}, {"model/w": torch.ones(2)})
    )
    path = tmp_path / SLOTS[1]
    good, chance = path.read_bytes(), random.Random(0)  # noqa: S311  not for secrets
    for place in range(len(good)):
        bad = bytearray(good)
        bad[place] ^= 1 << chance.randrange(8)
        path.write_bytes(bad)
        with pytest.raises(DamagedFileError):
            Checkpoints(tmp_path).load()
    for length in range(len(good)):
        path.write_bytes(good[:length])
        with pytest.raises(DamagedFileError):
            Checkpoints(tmp_path).load()


@pytest.mark.parametrize(
    "content", ["{}", "[]", "1", '{"format": 1}', '{"format": 9, "number": 1}', "[" * 5000]
)
def test_a_sealed_file_that_is_no_checkpoint_is_refused(tmp_path, content):
    from gatewise.files import write_tensors

    write_tensors(tmp_path / SLOTS[0], {"a": torch.ones(1)}, metadata={"run": content})
    with pytest.raises(DamagedFileError, match="not a checkpoint"):
        Checkpoints(tmp_path).load()


def test_a_checkpoint_of_another_network_is_refused(stopped):
    for slot in SLOTS:
        number, saved = read_checkpoint(stopped / slot)
        saved.tensors["model/head.layer.bias"] = torch.ones(99)
        slots = Checkpoints(stopped)
        slots.number = number - 1
        slots.save(saved)
    with pytest.raises(DamagedFileError, match="not one of this network"):
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
    with pytest.raises(ArgumentError, match=rf"{what} was .*, is {now}.*--allow-inexact"):
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
        data = bytearray((folder / name).read_bytes())
        data[100] ^= 1
        (folder / name).write_bytes(data)
        with pytest.raises(DamagedFileError, match=name):
            train(small_run(), folder, data=DATA)


def test_files_of_version_0_1_0_are_read():
    number, saved = read_checkpoint(GOLDEN / "checkpoint.safetensors")
    assert number == 11 and saved.progress.step == 10 and saved.progress.epoch == 1
    assert saved.tensors["model/head.layer.bias"].shape == (10,)
    result = read_result(GOLDEN / "run")
    assert result.status == "finished" and result.steps == 18 and result.metrics["epoch"] == 3
