"""The loop against one written by hand; T4, T5; ends other than the last epoch.

Protocols' pieces.
"""

import dataclasses
import json
import re
from pathlib import Path

import pytest
import torch
from small_runs import EXAMPLES, KINDS, small_run
from torch import nn

from gatewise.data import DataSet, Split, load, order
from gatewise.errors import ArgumentError, FileError
from gatewise.files import Journal, held, read_tensors
from gatewise.layers.orthonormal import orthogonality_penalty
from gatewise.models import create_model
from gatewise.train.config import read_recipe, run_config
from gatewise.train.loop import AtEpochs, Pace, StopSignal, Watcher, initialised, read_result
from gatewise.train.loop.average import start_average
from gatewise.train.run import train

DATA = load("digits", train=EXAMPLES)


def weights(folder) -> dict:
    return read_tensors(Path(folder) / "weights.safetensors")[0]


def perceptron(text: str, **values):
    return run_config(
        model="mlp",
        unit="gelu",
        model_options={"widths": [16]},
        recipe=read_recipe(text),
        data_options={"train": EXAMPLES},
        **values,
    )


PLAIN = (
    "epochs = 2\nbatch = 32\noptimiser = {name = 'sgd', lr = 0.1, momentum = 0.9}\n"
    "weight_decay = {value = 0.01}"
)


def by_hand(*, penalty=0.0, clip=0.0, ema=0.0) -> tuple[dict, dict, float]:
    """The run PLAIN, step by step, with torch's own unfused optimiser.

    Weights, their average, last epoch's loss.
    """
    net = initialised(lambda: create_model("mlp", unit="gelu", widths=(16,)), 0)
    images = (DATA.train.images - torch.tensor(DATA.mean)) / torch.tensor(DATA.std)
    optimiser = torch.optim.SGD(
        net.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01, fused=False
    )
    average, steps = {}, 0
    for epoch in range(2):
        total = 0.0
        for index in order(EXAMPLES, seed=0, epoch=epoch).split(
            [32, 32, 33]
        ):  # the one left over joins
            loss = torch.nn.functional.cross_entropy(net(images[index]), DATA.train.labels[index])
            total += loss.item() * len(index)
            optimiser.zero_grad()
            (loss + penalty * orthogonality_penalty(net)).backward()
            if clip:
                norm = torch.stack([p.grad.norm() for p in net.parameters()]).norm()
                for p in net.parameters():
                    p.grad *= min(1.0, clip / (norm.item() + 1e-6))
            optimiser.step()
            new = {name: tensor.clone() for name, tensor in net.state_dict().items()}
            average = (
                {n: ema * average[n] + (1 - ema) * t for n, t in new.items()} if steps else new
            )
            steps += 1
    return net.state_dict(), average, total / EXAMPLES


# Six steps at rate 0.1: each operation rounds to 2^-24 relative, some hundred of them on the way to
# a weight.
TOLERANCE = {"rtol": 0.0, "atol": 600 * 2**-24}


@pytest.mark.parametrize(
    "extra, hand",
    [
        ("", {}),
        ("\northogonality.weight = 0.01", {"penalty": 0.01}),
        ("\nclip = 0.5", {"clip": 0.5}),
    ],
)
def test_the_loop_is_the_one_written_by_hand(tmp_path, extra, hand):
    result = train(perceptron(PLAIN + extra), tmp_path / "run", data=DATA)
    want, _, loss = by_hand(**hand)
    found = weights(tmp_path / "run")
    for name in want:
        torch.testing.assert_close(found[name], want[name], **TOLERANCE)
    assert result.metrics["train_loss"] == pytest.approx(loss, rel=1e-5)
    assert result.steps == 6 and result.metrics["epoch"] == 2


def test_the_test_metrics_are_those_of_the_weights_written(tmp_path):
    result = train(perceptron(PLAIN), tmp_path / "run", data=DATA)
    net = create_model("mlp", unit="gelu", widths=(16,))
    net.load_state_dict(weights(tmp_path / "run"))
    outputs = net((DATA.test.images - torch.tensor(DATA.mean)) / torch.tensor(DATA.std)).double()
    loss = torch.nn.functional.cross_entropy(outputs, DATA.test.labels)
    assert result.metrics["test_loss"] == pytest.approx(loss.item(), rel=1e-6)
    assert (
        result.metrics["test_accuracy"]
        == (outputs.argmax(1) == DATA.test.labels).double().mean().item()
    )
    assert result.best["test_loss"] <= result.metrics["test_loss"]


def test_with_an_average_it_is_what_is_evaluated_and_written(tmp_path):
    train(perceptron(PLAIN + "\nema = 0.8"), tmp_path / "run", data=DATA)
    _, average, _ = by_hand(ema=0.8)
    found = weights(tmp_path / "run")
    for name in average:
        torch.testing.assert_close(found[name], average[name], **TOLERANCE)


def test_an_average_keeps_statistics_and_copies_indices():
    net = nn.BatchNorm1d(2)
    net.register_buffer("index", torch.tensor([7, 11]))
    average = start_average(net, 0.9)
    for step in range(3):
        net(torch.full((4, 2), float(step)) + torch.arange(4.0)[:, None])
        before = average.module.running_mean.clone()
        average.update_parameters(net)
    assert average.module.index.tolist() == [7, 11] and average.module.num_batches_tracked == 3
    wanted = 0.9 * before + 0.1 * net.running_mean
    torch.testing.assert_close(average.module.running_mean, wanted, rtol=2**-22, atol=0.0)


def test_metrics_are_one_line_an_epoch_and_the_result_says_where_everything_came_from(tmp_path):
    result = train(perceptron(PLAIN), tmp_path / "run", data=DATA)
    records = Journal(tmp_path / "run" / "metrics.jsonl").read()
    assert [record["epoch"] for record in records] == [1, 2] and records[-1] == result.metrics
    raw = json.loads((tmp_path / "run" / "result.json").read_text())
    assert raw["weights_sha256"] == result.weights_sha256 and raw["data_sha256"] == DATA.digest
    assert raw["environment"]["threads"] == torch.get_num_threads() and raw["status"] == "finished"
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        "config.json",
        "metrics.jsonl",
        "result.json",
        "run.lock",
        "weights.safetensors",
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_the_same_seed_gives_the_same_bits_with_0_1_and_4_workers_and_any_pace(tmp_path, kind):
    paces = [Pace(), Pace(workers=1, checkpoint_seconds=0), Pace(workers=4, checkpoint_epochs=1)]
    results = [
        train(small_run(kind), tmp_path / str(n), data=DATA, pace=pace)
        for n, pace in enumerate(paces)
    ]
    assert (
        len({(each.weights_sha256, each.state_sha256, each.metrics_sha256) for each in results})
        == 1
    )


def test_the_comparison_of_bits_can_fail(tmp_path, monkeypatch):
    """T5: another seed, two examples of one batch exchanged, one bit of one initial weight."""
    plain = train(small_run(), tmp_path / "plain", data=DATA)
    other_seed = train(small_run(seed=1), tmp_path / "seed", data=DATA)
    swapped = Split(DATA.train.images.clone(), DATA.train.labels.clone())
    a, b = order(EXAMPLES, seed=0, epoch=0)[
        [0, 20]
    ].tolist()  # in the first and in the second batch
    for tensor in (swapped.images, swapped.labels):
        tensor[[a, b]] = tensor[[b, a]]
    other_order = train(
        small_run(), tmp_path / "order", data=dataclasses.replace(DATA, train=swapped)
    )

    def one_bit(build, seed, start):
        net = initialised(build, seed, start)
        bits = net.get_parameter("head.layer.weight").data.view(torch.int32)
        bits[0, 0] ^= 1
        return net

    monkeypatch.setattr("gatewise.train.loop.assembly.initialised", one_bit)
    other_bit = train(small_run(), tmp_path / "bit", data=DATA)
    runs = (plain, other_seed, other_order, other_bit)
    assert (
        len({each.weights_sha256 for each in runs})
        == len({each.state_sha256 for each in runs})
        == 4
    )


def test_a_finished_run_is_found_and_nothing_is_done(tmp_path):
    first = train(small_run(), tmp_path / "run", data=DATA)
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()}

    class Never(Watcher):
        def start(self, start):
            raise AssertionError

    assert train(small_run(), tmp_path / "run", data=DATA, watchers=[Never()]) == first
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "run").iterdir()} == before


def test_a_folder_of_another_run_is_refused_and_not_touched(tmp_path):
    train(small_run(), tmp_path / "run", data=DATA)
    before = {path: path.read_bytes() for path in (tmp_path / "run").iterdir()}
    with pytest.raises(ArgumentError, match="another configuration, and was not changed"):
        train(small_run(seed=1), tmp_path / "run", data=DATA)
    assert {path: path.read_bytes() for path in (tmp_path / "run").iterdir()} == before


def test_a_folder_with_other_things_is_refused(tmp_path):
    (tmp_path / "letter.txt").write_text("mine")
    with pytest.raises(ArgumentError, match=r"holds other files.*letter\.txt"):
        train(small_run(), tmp_path, data=DATA)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_folder_in_which_another_process_works_is_refused(tmp_path):
    with held(tmp_path / "run.lock"), pytest.raises(FileError, match="another process is at work"):
        train(small_run(), tmp_path, data=DATA)


class StopAt(Watcher):
    """Asks for a stop after a step, as Ctrl-C does."""

    def __init__(self, step: int) -> None:
        self.at, self.signal = step, StopSignal()

    def step(self, step):
        self.signal.asked = step.step == self.at


@pytest.mark.slow
@pytest.mark.parametrize("at", [1, 6, 7, 13, 18])  # within an epoch, and at the ends of the three
@pytest.mark.parametrize("kind", KINDS)
def test_a_run_stopped_and_gone_on_with_ends_in_the_same_bits(tmp_path, kind, at):
    whole = train(small_run(kind), tmp_path / "whole", data=DATA)
    asks = StopAt(at)
    assert (
        train(small_run(kind), tmp_path / "run", data=DATA, watchers=[asks], stop=asks.signal)
        is None
    )
    assert read_result(tmp_path / "run") is None
    result = train(small_run(kind), tmp_path / "run", data=DATA)
    same = ("weights_sha256", "state_sha256", "metrics_sha256", "metrics", "steps")
    assert [getattr(result, name) for name in same] == [getattr(whole, name) for name in same]
    assert result.starts == 2 and result.environment == whole.environment


def test_a_stop_while_evaluating_loses_nothing(tmp_path):
    whole = train(small_run(evaluate_every=1), tmp_path / "whole", data=DATA)
    asks = StopAt(6)  # the last step of the first epoch

    def halt():
        asks.signal.asked = True
        StopSignal.halt(asks.signal)

    asks.signal.halt = halt
    asks.step = lambda step: None
    assert (
        train(
            small_run(evaluate_every=1),
            tmp_path / "run",
            data=DATA,
            watchers=[asks],
            stop=asks.signal,
        )
        is None
    )
    assert not (tmp_path / "run" / "metrics.jsonl").exists()
    assert (
        train(small_run(evaluate_every=1), tmp_path / "run", data=DATA).state_sha256
        == whole.state_sha256
    )


@pytest.mark.parametrize(
    "text, reason",
    [
        (
            "epochs = 3\nbatch = 32\noptimiser = {name = 'sgd', lr = 1e3}\nloss.name = 'mse'",
            r"loss.* is (inf|nan) at step",
        ),
        ("epochs = 3\nbatch = 32\ndiverged_above = 0.5", "the loss is 2.* above 0.5, at step 1"),
    ],
)
def test_divergence_is_a_recorded_result(tmp_path, text, reason):
    result = train(perceptron(text), tmp_path / "run", data=DATA)
    assert result.status == "diverged" and result.weights_sha256
    assert re.search(reason, result.reason), result.reason
    assert (
        train(perceptron(text), tmp_path / "run", data=DATA)
        == result
        == read_result(tmp_path / "run")
    )


def test_a_rule_ends_a_run_when_the_loss_on_examples_held_out_is_reached(tmp_path):
    rule = {"hold_out": {"examples": 20}, "stop": {"metric": "held_loss", "below": 2.25}}
    text = PLAIN.replace("epochs = 2", "epochs = 50")
    result = train(perceptron(text, **rule), tmp_path / "run", data=DATA)
    records = Journal(tmp_path / "run" / "metrics.jsonl").read()
    assert result.epochs == len(records) < 50 and records[-1]["held_loss"] <= 2.25
    assert all(record["held_loss"] > 2.25 for record in records[:-1])


def test_a_run_that_ends_at_its_train_error_is_tested_in_that_epoch(tmp_path):
    rule = {"stop": {"metric": "train_error", "below": 0.5}, "evaluate_every": 50}
    text = PLAIN.replace("epochs = 2", "epochs = 50")
    result = train(perceptron(text, **rule), tmp_path / "run", data=DATA)
    records = Journal(tmp_path / "run" / "metrics.jsonl").read()
    assert 1 < result.epochs == len(records) < 50
    assert [record["train_accuracy"] >= 0.5 for record in records].index(True) == len(records) - 1
    assert ["test_accuracy" in record for record in records].index(True) == len(records) - 1


def test_questions_are_asked_of_the_model_at_chosen_epochs(tmp_path):
    asked = AtEpochs([1, 3], lambda net: (net.training, torch.is_grad_enabled()))
    train(small_run(), tmp_path / "run", data=DATA, watchers=[asked])
    assert asked.answers == {1: (False, False), 3: (False, False)}
    plain = train(small_run(), tmp_path / "plain", data=DATA)
    assert plain.state_sha256 == read_result(tmp_path / "run").state_sha256


def test_nothing_of_torch_is_changed_after_a_run(tmp_path):
    before = torch.are_deterministic_algorithms_enabled(), torch.get_rng_state()
    train(small_run(), tmp_path / "run", data=DATA)
    assert torch.are_deterministic_algorithms_enabled() == before[0] and torch.equal(
        torch.get_rng_state(), before[1]
    )


def test_numbers_as_labels_are_met_with_a_squared_loss(tmp_path):
    torch.manual_seed(0)
    x = torch.randn(64, 1, 1, 2)
    part = Split(x, x.sum((1, 2, 3)))
    data = DataSet("digits", part, part, 0, (1, 1, 2), (0.0,), (1.0,), "none")
    text = "epochs = 60\nbatch = 16\noptimiser = {name = 'adam', lr = 0.01}\nloss.name = 'half_mse'"
    config = run_config(model="mlp", model_options={"widths": [16]}, recipe=read_recipe(text))
    result = train(config, tmp_path / "run", data=data)
    assert result.metrics["test_loss"] < 0.01 and result.metrics["test_accuracy"] is None
