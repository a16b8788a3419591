"""Devices: names, what is not there, and that everything a step needs is on one of them."""

from collections import namedtuple
from dataclasses import dataclass

import pytest
import torch
from small_runs import small_run
from torch.nn import functional as F

from gatewise import devices
from gatewise.data import load
from gatewise.devices import describe_device, find_device, move
from gatewise.errors import ArgumentError
from gatewise.train import TrainingSetup, differences, environment, train
from gatewise.train.loop import assemble, in_precision

META = torch.device("meta")
ENDED_BY_A_SIGNAL = "import os, signal; os.kill(os.getpid(), signal.SIGILL)"
Pair = namedtuple("Pair", "x y")


@dataclass
class Graph:
    nodes: torch.Tensor
    name: str = "g"


def test_names_of_devices(monkeypatch):
    assert find_device("cpu") == find_device(None) == torch.device("cpu")
    monkeypatch.setenv("GATEWISE_DEVICE", "meta")
    assert find_device(None) == META
    assert find_device("auto").type in ("cpu", "cuda", "mps")
    assert describe_device(torch.device("cpu")) == "cpu"


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "", 3, "cpu:x", "vulkan"])
def test_device_that_is_not_there_is_one_clear_error(name):
    with pytest.raises(ArgumentError, match=r"^device: ") as problem:
        find_device(name)
    assert "\n" not in str(problem.value)


def test_batches_of_every_form_are_moved_whole():
    x = torch.zeros(2, 3)
    moved = move([x, (x, {"a": x}), Pair(x, x), Graph(x), "text", 3, None], META)
    assert moved[0].device == moved[1][0].device == moved[1][1]["a"].device == META
    assert moved[2].y.device == moved[3].nodes.device == META
    assert isinstance(moved[2], Pair)
    assert moved[4:] == ["text", 3, None]


def test_channels_last_is_for_images_alone():
    image, text, numbers = move(
        [torch.rand(2, 3, 4, 4), torch.zeros(2, 3, 4, 4).long(), torch.rand(2, 3)],
        torch.device("cpu"),
        channels_last=True,
    )
    assert image.is_contiguous(memory_format=torch.channels_last)
    assert text.is_contiguous()
    assert numbers.is_contiguous()


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_a_step_has_all_tensors_on_the_device(precision: str):
    """On the device ``meta`` an operation with a tensor elsewhere raises."""
    config = small_run("augmentation", f'precision = "{precision}"', "channels_last = true")
    work: TrainingSetup = assemble(config, data=load("digits", train=97), device=META)
    assert {parameter.device for parameter in work.model.parameters()} == {META}
    batch = next(iter(work.batches.walk(0, 0)))
    outputs = work.model(config.recipe.placed(batch.images, META))
    F.cross_entropy(outputs.float(), batch.labels.to(META)).backward()
    assert work.environment["device"] == "meta"


def test_checkpoint_of_another_device_is_not_resumed():
    before, now = environment(), environment(device=META)
    assert "device was cpu, is meta" in differences(before, now)
    old = {key: value for key, value in before.items() if key != "device"}
    assert not differences(old, before)


def test_device_is_in_the_result(tmp_path):
    result = train(small_run(), tmp_path / "run", device="cpu")
    assert result.environment["device"] == "cpu"


@pytest.mark.parametrize(("program", "kills"), [("pass", False), (ENDED_BY_A_SIGNAL, True)])
def test_bfloat16_is_tried_in_a_process_of_its_own(monkeypatch, program, kills):
    monkeypatch.delenv(devices.INSTRUCTIONS_VARIABLE, raising=False)
    monkeypatch.setattr(devices, "_has_tiles", lambda: True)
    monkeypatch.setattr(devices, "_PRODUCT", program)
    devices.bfloat16_kills.cache_clear()
    try:
        assert devices.bfloat16_kills() is kills
        if kills:
            with pytest.raises(ArgumentError, match=r"ONEDNN_MAX_CPU_ISA=AVX512_CORE_FP16"):
                in_precision("bfloat16")
        else:
            in_precision("bfloat16")
        in_precision("float32")
    finally:
        devices.bfloat16_kills.cache_clear()


def test_bfloat16_is_tried_only_where_there_are_tiles(monkeypatch):
    monkeypatch.setattr(devices, "_PRODUCT", ENDED_BY_A_SIGNAL)
    monkeypatch.setattr(devices, "_has_tiles", lambda: False)
    devices.bfloat16_kills.cache_clear()
    try:
        assert not devices.bfloat16_kills()
    finally:
        devices.bfloat16_kills.cache_clear()


def test_the_instructions_that_the_user_has_chosen_are_tried_too(monkeypatch):
    ends = f"import os; os.environ[{devices.INSTRUCTIONS_VARIABLE!r}] == 'WRONG' and os.abort()"
    monkeypatch.setattr(devices, "_PRODUCT", ends)
    monkeypatch.setattr(devices, "_has_tiles", lambda: True)
    for chosen, kills in (("WRONG", True), ("RIGHT", False)):
        monkeypatch.setenv(devices.INSTRUCTIONS_VARIABLE, chosen)
        devices.bfloat16_kills.cache_clear()
        try:
            assert devices.bfloat16_kills() is kills
        finally:
            devices.bfloat16_kills.cache_clear()
