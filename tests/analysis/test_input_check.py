"""Whether a diagnosis notices inputs that are not as in training, and what it then holds back."""

import os
from pathlib import Path

import pytest
import torch
from surgery.squeezenet import MEANS, load, photographs
from torch import nn

import gatewise as gw

QUICK = ["gates", "pairing"]


def trained(seed: int = 0) -> nn.Sequential:
    """A small network with a batch norm, trained on stripes: 12 classes by direction and width."""
    torch.manual_seed(seed)
    model = nn.Sequential(
        nn.Conv2d(1, 12, 5, padding=2),
        nn.BatchNorm2d(12),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(48, 12),
    )
    optimizer = torch.optim.Adam(model.parameters(), 0.02)
    for step in range(120):
        x, y = stripes(48, step)
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(x), y).backward()
        optimizer.step()
    return model.eval()


def stripes(count: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1000 + seed)
    labels = torch.arange(count) % 12
    angle = labels % 6 * torch.pi / 6
    width = 0.6 + 0.6 * (labels // 6)
    rows, columns = torch.meshgrid(torch.arange(12.0), torch.arange(12.0), indexing="ij")
    phase = 6.3 * torch.rand(count, generator=generator)
    waves = angle.cos()[:, None, None] * rows + angle.sin()[:, None, None] * columns
    x = torch.sin(width[:, None, None] * waves + phase[:, None, None])[:, None]
    return x + 0.1 * torch.randn(x.shape, generator=generator), labels


@pytest.fixture(scope="module")
def network() -> nn.Sequential:
    return trained()


def test_inputs_as_in_training_pass(network) -> None:
    check = gw.diagnose(network, [stripes(48, -1)], questions=QUICK).input_check
    assert check.state == "passed" and check.predictions["classes"] >= 8
    assert check.norms[0]["layer"] == "1" and 0.5 < check.norms[0]["ratio"] < 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda x: 100 * x, "vary"),
        (lambda x: x / 20, "vary"),
        (lambda x: x + 8, "deviations"),
    ],
)
def test_batch_norms_tell_another_range_than_in_training(network, change, words) -> None:
    x, y = stripes(48, -1)
    made = gw.diagnose(network, [(change(x), y)], questions=QUICK)
    assert made.input_check.state == "suspect" and words in made.input_check.line
    # An independent computation of the shift and the ratio.
    with torch.no_grad():
        z = network[0](change(x)).double()
    norm = network[1]
    std = (norm.running_var + norm.eps).sqrt().double()
    shift = (z.mean((0, 2, 3)) - norm.running_mean).abs() / std
    ratio = z.var((0, 2, 3), correction=0) / std.square()
    assert made.input_check.norms[0]["shift"] == pytest.approx(float(shift.median()), rel=1e-4)
    assert made.input_check.norms[0]["ratio"] == pytest.approx(float(ratio.median()), rel=1e-4)


def classifier(bias: float, classes: int = 10) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 30), nn.ReLU(), nn.Linear(30, classes))
    with torch.no_grad():
        for layer in (model[0], model[2]):
            layer.weight.mul_(4)  # not as PyTorch initialises it
        model[2].bias[3] += bias
    return model


def test_one_prediction_for_all_is_suspect_unless_all_have_one_label() -> None:
    x = torch.randn(40, 6)
    varied = gw.diagnose(classifier(0.0), x, questions=QUICK).input_check
    assert varied.state == "not checked" and "no batch norm" in varied.line
    # Inputs of a wrong scale get different predictions, too.
    scaled = gw.diagnose(classifier(0.0), 255 * x - 128, questions=QUICK).input_check
    assert scaled.state == "not checked"
    assert varied.predictions["classes"] > 3
    same = gw.diagnose(classifier(1000.0), x, questions=QUICK).input_check
    assert same.state == "suspect" and "40 of 40 predictions are the same class (3)" in same.line
    labels = torch.full((40,), 3)
    known = gw.diagnose(classifier(1000.0), [(x, labels)], questions=QUICK).input_check
    assert known.predictions["most_count"] == 40 and known.state == "not checked"
    few = gw.diagnose(classifier(1000.0), x[:5], questions=QUICK).input_check
    assert few.state == "not checked"


def test_channels_that_never_change_are_suspect() -> None:
    model = classifier(0.0)
    with torch.no_grad():
        model[0].bias[:20] = -1000.0
    check = gw.diagnose(model, torch.randn(40, 6), questions=QUICK).input_check
    assert check.state == "suspect" and "20 of 30 channels never change" in check.line


def test_channels_that_are_always_off_or_always_on_but_vary_are_not_suspect() -> None:
    for unit, bias in ((nn.LeakyReLU(0.3), -30.0), (nn.ReLU(), 30.0)):
        model = classifier(0.0)
        model[1] = unit
        with torch.no_grad():
            model[0].bias.fill_(bias)
        found = gw.diagnose(model, torch.randn(40, 6), questions=QUICK)
        assert found["gates"].facts["sites"][0]["entropy"] == 0
        assert "never change" not in found.input_check.line


def test_random_inputs_are_said_to_be_not_checked_once() -> None:
    made = gw.diagnose(classifier(0.0), torch.randn(40, 6), questions=QUICK, real=False)
    assert made.input_check.line == "Inputs: random numbers, so not checked."


def test_fresh_weights_and_models_that_classify_nothing_are_not_checked() -> None:
    torch.manual_seed(0)
    fresh = nn.Sequential(nn.Linear(6, 30), nn.ReLU(), nn.Linear(30, 10))
    check = gw.diagnose(fresh, torch.randn(40, 6), questions=QUICK).input_check
    assert check.state == "not checked" and "initialisation" in check.line
    maps = nn.Sequential(nn.Conv2d(1, 4, 3), nn.ReLU())
    maps[0].weight.data.mul_(9)
    check = gw.diagnose(maps, torch.randn(12, 1, 6, 6), questions=QUICK).input_check
    assert check.state == "not checked" and "no classifier" in check.line
    assert (
        gw.diagnose(fresh, torch.randn(9, 6), real=False, questions="all").input_check.state
        == "not checked"
    )


def test_advice_that_reads_suspect_inputs_is_held_back_and_the_weights_still_speak() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 24, 5), nn.ReLU(), nn.Flatten(), nn.Linear(24 * 64, 10))
    with torch.no_grad():
        model[0].weight[12:] = -model[0].weight[:12]
        model[0].bias[:4] = -1e4
        model[3].weight.mul_(3)
        model[3].bias[2] += 1e6
    x = torch.randn(400, 1, 12, 12)
    made = gw.diagnose(model, x, questions=["gates", "pairing"])
    assert made.input_check.state == "suspect"
    assert {item.question for item in made.held_back} == {"gates"}
    assert made.advice and {item.question for item in made.advice} == {"pairing"}
    assert not made.nothing_to_fix


@pytest.mark.slow
@pytest.mark.data
def test_squeezenet_has_right_numbers_and_does_not_trust_wrong_inputs() -> None:
    """The ImageNet network, prepared as in its training, and with mean 0 and deviation 1."""
    model = load(Path(os.environ["GATEWISE_DATA"]))
    right = photographs(4)
    asked = ["gates", "pairing", "reconstruction"]
    made = gw.diagnose(model, right, questions=asked)
    assert made.input_check.state == "not checked" and made.input_check.predictions["classes"] == 18
    # Counted with hooks, without the library.
    relu = nn.functional.relu
    rates: list[torch.Tensor] = []

    def watched(z, inplace=False):
        rates.append((z > 0).transpose(0, 1).flatten(1))
        return relu(z)

    nn.functional.relu = watched
    try:
        with torch.no_grad():
            model(right)
    finally:
        nn.functional.relu = relu
    on = torch.cat([rows.double().mean(1) for rows in rates])
    facts = made["gates"].facts["sites"]
    assert sum(len(site["dead"]) for site in facts) == int((on == 0).sum()) <= 2
    assert sum(len(site["always_on"]) for site in facts) == int((on == 1).sum()) <= 3
    assert made["reconstruction"].facts["ratios"]["crelu"] < 0.01
    row = made.layers[0]
    assert row["layer"] == "conv1" and row["opposite"] == pytest.approx(-0.80, abs=0.01)
    branches = [(row["layer"], row["branch"], row["branches"]) for row in made.layers[1:4]]
    assert branches == [
        ("fire2.squeeze1x1", 0, 1),
        ("fire2.expand1x1", 0, 2),
        ("fire2.expand3x3", 1, 2),
    ]
    assert made.layers[1]["pool"] == "max-pool to 56 x 56"
    total = sum(row["operations"] for row in made.layers)
    assert total == pytest.approx(2 * 387.7e6, rel=0.01)
    raw = right + torch.tensor(MEANS).reshape(3, 1, 1)
    wrong = (raw - raw.mean((0, 2, 3), keepdim=True)) / raw.std((0, 2, 3), keepdim=True)
    made = gw.diagnose(model, wrong, questions=asked)
    assert made.input_check.state == "suspect" and "same class (669)" in made.input_check.line
    assert {item.question for item in made.advice} <= {"pairing"} and made.held_back


def test_norms_as_they_are_made_say_that_a_network_is_not_trained() -> None:
    torch.manual_seed(0)
    layers = [nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.AdaptiveAvgPool2d(1)]
    model = nn.Sequential(*layers, nn.Flatten(), nn.Linear(8, 12)).eval()
    nn.init.kaiming_normal_(layers[0].weight)
    model[-1].bias.data[3] = 100.0  # every input gets this class
    images = torch.randn(20, 3, 8, 8)
    check = gw.diagnose(model, images, questions=["sites"]).input_check
    assert check.state == "not checked" and "initialisation" in check.line
    layers[1].weight.data[0] = 1.1
    assert gw.diagnose(model, images, questions=["sites"]).input_check.state == "suspect"
