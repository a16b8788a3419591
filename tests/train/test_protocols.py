"""The papers' ways of measuring, each against its definition computed apart."""

import pytest
import torch
from small_runs import EXAMPLES
from test_loop import DATA, PLAIN, perceptron

from gatewise.data import DataSet, Split, load
from gatewise.data.images import Augment
from gatewise.errors import ArgumentError, GatewiseError
from gatewise.files import read_tensors
from gatewise.models import create_model
from gatewise.train.config import Loss
from gatewise.train.loop import evaluate, outputs, probe, read_result
from gatewise.train.run import convergence, records, single, ten_folds

PLENTY = PLAIN.replace("epochs = 2", "epochs = 8")


def test_single_trains_again_on_all_data_until_the_hold_out_is_as_good_as_it_was(tmp_path):
    found = single(perceptron(PLENTY), tmp_path, examples=20, data=DATA)
    first, second = records(tmp_path / "held-out"), records(tmp_path / "whole")
    lowest = min(record["held_loss"] for record in first)
    assert found.held_loss == lowest and found.reached and len(first) == 8
    assert second[-1]["held_loss"] <= lowest and all(
        record["held_loss"] > lowest for record in second[:-1]
    )
    assert found.epochs[1] == len(second) == second[-1]["epoch"]
    assert found.test_error == 1 - second[-1]["test_accuracy"]
    net = create_model("mlp", unit="gelu", widths=(16,)).eval()
    net.load_state_dict(read_tensors(tmp_path / "whole" / "weights.safetensors")[0])
    images = (DATA.train.images - torch.tensor(DATA.mean)) / torch.tensor(DATA.std)
    wrong = net(images).argmax(1) != DATA.train.labels
    assert found.train_error == pytest.approx(wrong.double().mean().item(), abs=1e-12)
    assert found == single(perceptron(PLENTY), tmp_path, examples=20, data=DATA)  # read back


def test_ten_folds_average_and_vote(tmp_path):
    found = ten_folds(perceptron(PLENTY), tmp_path, folds=3, data=DATA)
    net, shares = create_model("mlp", unit="gelu", widths=(16,)).eval(), []
    images = (DATA.test.images - torch.tensor(DATA.mean)) / torch.tensor(DATA.std)
    for fold in (1, 2, 3):
        net.load_state_dict(read_tensors(tmp_path / f"fold-{fold}" / "weights.safetensors")[0])
        with torch.no_grad():
            shares.append(net(images).double().softmax(1))
        assert found.errors[fold - 1] == pytest.approx(
            (shares[-1].argmax(1) != DATA.test.labels).double().mean().item()
        )
        assert read_result(tmp_path / f"fold-{fold}").config["hold_out"]["fold"] == fold
    assert found.average == pytest.approx(sum(found.errors) / 3)
    squares = sum((error - found.average) ** 2 for error in found.errors)
    assert found.standard_error == pytest.approx((squares / 2 / 3) ** 0.5)
    assert found.vote == pytest.approx(
        (sum(shares).argmax(1) != DATA.test.labels).double().mean().item()
    )
    assert len(set(found.errors)) > 1


def test_a_diverged_run_ends_a_protocol_with_a_sentence(tmp_path):
    with pytest.raises(GatewiseError, match="a run of the protocol diverged"):
        ten_folds(perceptron(PLAIN + "\ndiverged_above = 0.1"), tmp_path, folds=2, data=DATA)


def test_convergence_is_the_lowest_loss_its_epoch_and_the_first_epochs_below():
    losses = [3.0, 2.5, 2.0, 2.1, 1.5, 1.6]
    found = convergence(
        [{"epoch": n, "train_loss": loss} for n, loss in enumerate(losses, 1)], [2.5, 2.0, 1.0]
    )
    assert (found.lowest, found.lowest_at, found.reached) == (1.5, 5, {2.5: 3, 2.0: 5, 1.0: None})
    with pytest.raises(ArgumentError, match="no epochs"):
        convergence([])


class Corners(torch.nn.Module):
    """Says of an image its first pixel and its sum."""

    def forward(self, x):
        return torch.stack([x[:, 0, 0, 0], x.sum((1, 2, 3))], 1)


def test_ten_crops_are_averaged():
    torch.manual_seed(0)
    images = torch.rand(3, 1, 5, 5)
    found = outputs(
        Corners(), Split(images, torch.zeros(3, dtype=torch.int64)), augment=Augment(), crops=3
    )
    want = []
    for image in images[:, 0].double():
        crops = [image[t : t + 3, s : s + 3] for t, s in [(0, 0), (0, 2), (2, 0), (2, 2), (1, 1)]]
        crops += [crop.flip(1) for crop in crops]
        want.append([sum(c[0, 0] for c in crops) / 10, sum(c.sum() for c in crops) / 10])
    torch.testing.assert_close(
        found.double(), torch.tensor(want, dtype=torch.float64), rtol=1e-6, atol=1e-6
    )


def test_scores_do_not_depend_on_the_mode_and_leave_it_as_it_was():
    data = load("digits", train=EXAMPLES)
    net = create_model("small_cnn", widths=(4, 4))
    net.train()
    net.conv1.norm.eval()
    score = evaluate(net, data.test, loss=Loss(), augment=Augment())
    assert net.training and not net.conv1.norm.training and net.conv2.norm.training
    assert score == evaluate(
        net.eval(), data.test, loss=Loss(), augment=Augment()
    ) and score.examples == len(data.test)


def test_a_vector_is_asked_of_a_network_for_each_example():
    part = Split(torch.zeros(4, 1, 2, 2), torch.zeros(4, dtype=torch.int64))
    data = DataSet("digits", part, part, 10, (1, 2, 2), (0.0,), (1.0,), "none")
    with pytest.raises(ArgumentError, match="a vector for each example"):
        probe(perceptron(PLAIN), torch.nn.Identity(), classes=10, shape=data.shape)
