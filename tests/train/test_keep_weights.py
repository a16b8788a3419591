"""Weights that a run keeps on its way.

At its start, after its epochs, and the same bits after an interruption.
"""

import pytest
import torch
from small_runs import small_run
from test_loop import DATA

from gatewise.errors import ArgumentError
from gatewise.files import digest, read_tensors
from gatewise.train.loop import AtEpochs, StopSignal, Watcher
from gatewise.train.run import KeepWeights, kept_weights, train


class StopAt(Watcher):
    """Asks to stop after a step."""

    def __init__(self, stop: StopSignal, step: int) -> None:
        self.stop, self.at = stop, step

    def step(self, step) -> None:
        if step.step == self.at:
            self.stop.asked = True


def test_weights_of_the_start_and_of_every_epoch_are_kept_and_are_the_models_own(tmp_path) -> None:
    out = tmp_path / "run"
    seen = AtEpochs(
        [1, 2, 3], lambda model: {name: value.clone() for name, value in model.state_dict().items()}
    )
    train(small_run(), out, data=DATA, watchers=[KeepWeights(out), seen])
    names = [f"weights-0000{epoch}.safetensors" for epoch in range(4)]
    assert [path.name for path in kept_weights(out)] == [*names, "weights.safetensors"]
    for epoch, want in seen.answers.items():
        found = read_tensors(out / names[epoch])[0]
        assert all(torch.equal(found[name], value) for name, value in want.items())
    assert digest(out / names[3]) == digest(out / "weights.safetensors") != digest(out / names[0])


def test_every_second_epoch(tmp_path) -> None:
    train(
        small_run(), tmp_path / "run", data=DATA, watchers=[KeepWeights(tmp_path / "run", every=2)]
    )
    kept = [path.stem for path in kept_weights(tmp_path / "run")]
    assert kept == ["weights-00000", "weights-00002", "weights"]


def test_a_run_that_was_stopped_keeps_the_same_bits(tmp_path) -> None:
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    train(small_run(), whole, data=DATA, watchers=[KeepWeights(whole)])
    stop = StopSignal()
    assert (
        train(
            small_run(), parts, data=DATA, watchers=[KeepWeights(parts), StopAt(stop, 9)], stop=stop
        )
        is None
    )
    assert len(kept_weights(parts)) == 2  # nine of seven steps an epoch
    train(small_run(), parts, data=DATA, watchers=[KeepWeights(parts)])
    assert [digest(path) for path in kept_weights(parts)] == [
        digest(path) for path in kept_weights(whole)
    ]


def test_a_folder_without_kept_weights_has_none(tmp_path) -> None:
    train(small_run(), tmp_path / "run", data=DATA)
    assert kept_weights(tmp_path / "run") == []


@pytest.mark.parametrize("every", [0, -1, True, 1.5])
def test_every_must_be_a_number_of_epochs(tmp_path, every) -> None:
    with pytest.raises(ArgumentError, match="every is not allowed"):
        KeepWeights(tmp_path, every)
