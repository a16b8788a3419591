"""Accumulated gradients, patience, scaled losses and optimisers by name."""

import pytest
import torch
from small_runs import small_run
from test_loop import DATA, PLAIN, StopAt, by_hand, perceptron, weights

from gatewise.errors import ArgumentError
from gatewise.train import Pace, find_recipe, train
from gatewise.train.loop import Checkpoints


def changed(*lines: str):
    text = "\n".join([PLAIN.replace("batch = 32", "batch = 16"), *lines])
    return perceptron(text)


def test_two_small_batches_make_the_step_of_a_large_one(tmp_path):
    whole = train(perceptron(PLAIN), tmp_path / "whole", data=DATA)
    parts = train(changed("accumulate = 2"), tmp_path / "parts", data=DATA)
    assert parts.steps == whole.steps
    for name, tensor in weights(tmp_path / "whole").items():
        torch.testing.assert_close(weights(tmp_path / "parts")[name], tensor, rtol=1e-4, atol=1e-5)
    assert parts.metrics["train_loss"] == pytest.approx(whole.metrics["train_loss"], rel=1e-4)
    expected, _, _ = by_hand()
    for name, tensor in expected.items():
        torch.testing.assert_close(weights(tmp_path / "parts")[name], tensor, rtol=1e-4, atol=1e-5)


def test_a_stop_between_accumulated_batches_ends_in_the_same_bits(tmp_path):
    config = changed("accumulate = 4")
    whole = train(config, tmp_path / "whole", data=DATA)
    asks = StopAt(2)
    assert train(config, tmp_path / "run", data=DATA, watchers=[asks], stop=asks.signal) is None
    result = train(config, tmp_path / "run", data=DATA)
    assert result.state_sha256 == whole.state_sha256


def test_loss_scale_is_in_the_checkpoint(tmp_path):
    asks = StopAt(4)
    config = small_run("half precision")
    train(config, tmp_path / "run", data=DATA, watchers=[asks], stop=asks.signal)
    saved = Checkpoints(tmp_path / "run").load()
    assert saved.scalars["scaler/scale"] > 1
    assert saved.scalars["scaler/_growth_tracker"] == 4


def test_layout_of_the_optimiser_follows_the_weights_after_resuming(tmp_path):
    config = small_run("half precision")
    whole = train(config, tmp_path / "whole", data=DATA)
    asks = StopAt(5)
    train(config, tmp_path / "run", data=DATA, watchers=[asks], stop=asks.signal)
    result = train(config, tmp_path / "run", data=DATA, pace=Pace(checkpoint_seconds=0))
    assert result.state_sha256 == whole.state_sha256
    assert result.metrics == whole.metrics


@pytest.mark.parametrize(
    "changes, said",
    [
        (["optimiser.name = 'adamm'"], "did you mean 'adam"),
        (["optimiser.name = 'lbfgs'"], "is none of"),
        (["optimiser.name = 'radam'", "optimiser.momentum = 0.5"], "write the options"),
        (["optimiser.name = 'radam'", "optimiser.options = {speed = 1}"], "options.speed"),
        (["optimiser.options = {eps = 1e-3}"], "its own keys"),
        (["accumulate = 0"], "accumulate"),
        (["precision = 'float8'"], "precision"),
    ],
)
def test_wrong_choices_of_a_recipe_name_the_key(changes, said):
    with pytest.raises(ArgumentError, match=said):
        find_recipe("adam", changes=changes)


def test_options_that_an_optimiser_refuses_are_one_error(tmp_path):
    config = perceptron(
        "epochs = 1\noptimiser = {name = 'radam', lr = 0.1, options = {betas = [2.0, 3.0]}}"
    )
    with pytest.raises(ArgumentError, match="radam cannot be made"):
        train(config, tmp_path / "run", data=DATA)
