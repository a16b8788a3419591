"""How the CReLU paper measures, against each definition computed apart."""

import pytest
import torch
from gatewise_papers.crelu.experiments.shared.held_out_runs import single, ten_folds

from gatewise.data import load
from gatewise.errors import GatewiseError
from gatewise.files import read_json, read_tensors
from gatewise.models import create_model
from gatewise.train import read_recipe, records, run_config

EXAMPLES = 97
DATA = load("digits", train=EXAMPLES)
PLAIN = (
    "epochs = 2\nbatch = 32\noptimiser = {name = 'sgd', lr = 0.1, momentum = 0.9}\n"
    "weight_decay = {value = 0.01}"
)
PLENTY = PLAIN.replace("epochs = 2", "epochs = 8")


def perceptron(text: str):
    return run_config(
        model="mlp",
        unit="gelu",
        model_options={"widths": [16]},
        recipe=read_recipe(text),
        data_options={"train": EXAMPLES},
    )


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
        assert (
            read_json(tmp_path / f"fold-{fold}" / "result.json")["config"]["hold_out"]["fold"]
            == fold
        )
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
