"""The tables on CIFAR that stand for ImageNet, or for no table of a paper."""

from pathlib import Path

import pytest
import torch
from gatewise_papers.all_experiments import experiments
from gatewise_papers.crelu.experiments import table1, table4
from gatewise_papers.crelu.experiments.shared import published
from gatewise_papers.iieu.experiments import figure2
from gatewise_papers.maso.experiments import beta_forms
from gatewise_papers.not_here import NOT_HERE
from gatewise_papers.psc.experiments import cifar10

import gatewise as gw

# The numbers of every table and figure in the papers' texts; the supplement of PSC has none.
TABLES = {"crelu": 6, "deep_gated": 5, "iieu": 7, "maso": 2}
FIGURES = {"crelu": 6, "deep_gated": 10, "iieu": 2, "maso": 1}


def test_every_table_and_figure_is_an_experiment_or_has_a_reason():
    known = {*experiments(), *(one.name for one in NOT_HERE)}
    for kind, counts in (("table", TABLES), ("figure", FIGURES)):
        for paper, count in counts.items():
            assert {f"{paper}/{kind}{n}" for n in range(1, count + 1)} <= known


@pytest.mark.data
@pytest.mark.thorough
@pytest.mark.parametrize("name", ["crelu/table4", "iieu/figure2", "maso/beta_forms", "psc/cifar10"])
def test_an_experiment_runs_to_its_end(name: str, tmp_path: Path):
    result = experiments()[name].run("tiny", 2, tmp_path)
    for row in result.findings.rows:  # one large step on few images may diverge
        assert row.ours is not None or row.left_out == 2
    assert result.data_sha256 and result.findings.claims


def test_right_answers_are_counted_among_the_largest_outputs():
    outputs = torch.tensor([[0.1, 0.9, 0.5], [3.0, 2.0, 1.0], [0.0, 1.0, 2.0]])
    labels = torch.tensor([2, 0, 0])
    assert [table4.count_right(outputs, labels, top) for top in (1, 2, 3)] == [1, 2, 3]
    assert table4.count_right(outputs, labels, 5) == 3


def test_networks_of_table_4_have_the_printed_parameters_and_maps():
    """Table 5 prints the parameters of four of them in millions, to one decimal."""
    for name, printed in (
        ("baseline", 9.4),
        ("CReLU (all)", 4.7),
        ("CReLU (conv1,4,7)", 8.6),
        ("CReLU (conv1-4)", 10.1),
    ):
        network = table4.ALL_CNN[name]
        with torch.device("meta"):
            model = gw.create_model(network.model, **network.options)
        count = sum(value.numel() for value in model.parameters())
        assert abs(count / 1e6 - printed) < 0.1, name
    with torch.device("meta"):
        *layers, _ = gw.create_model("all_cnn").children()
        maps = torch.nn.Sequential(*layers)(torch.empty(1, 3, 224, 224))
    assert maps.shape[-2:] == (6, 6)
    assert set(table4.LARGE_CNN) == set(table4.ALL_CNN) == set(published.TABLE4)


def test_table_1_has_dropout_at_full_scale_and_not_in_short_training():
    scales = table1.EXPERIMENT.scales
    trainings = table1.EXPERIMENT.trainings
    assert trainings is not None
    for scale, dropout in (("full", True), ("desk", None)):
        runs = trainings(scales[scale], (0,))
        assert {config.model_options.get("dropout") for (config, *_) in runs.values()} == {dropout}
    model = gw.create_model("convpool_cnn", dropout=True)
    assert any(isinstance(module, torch.nn.Dropout) for module in model.modules())


@pytest.mark.parametrize("model", ["mobilenet_v2", "shufflenet_v2"])
def test_stand_ins_for_imagenet_have_maps_of_more_than_one_position(model: str):
    for small, side in ((False, 1), (True, 4)):
        net = gw.create_model(model, width=0.5, classes=10, small_images=small).eval()
        maps = net.get_submodule("features")(torch.zeros(1, 3, 32, 32))
        assert maps.shape[-2:] == (side, side)


def test_figure_2_judges_iieu_against_every_other_activation():
    settings = figure2.EXPERIMENT.scales["desk"]
    runs = figure2.configurations(settings, (0,))
    assert len(runs) == 2 * len(figure2.NAMED) - 1
    values = {}
    for name in runs:
        better = "IIEU" in name
        values[name] = [0.5 + 0.1 * better + 0.001 * better * seed for seed in range(8)]
    claim = figure2._claim(settings, "claim", values, lower=False)
    assert claim.verdict.value == "supported" and len(claim.compared) == 3 * 6
    values["ShuffleNetV2, SMU"] = [0.9, 0.91, 0.92, 0.9, 0.91, 0.92, 0.9, 0.91]
    claim = figure2._claim(settings, "claim", values, lower=False)
    assert claim.verdict.value == "contradicted"


def test_arms_at_equal_parameters_have_them():
    counts = {}
    for name in (cifar10.RELU, *cifar10.EQUAL, cifar10.CRELU):
        chosen = {"widths": [8, 32, 32], **cifar10.ARMS[name]}
        model = gw.create_model("fast_cifar", **chosen)
        counts[name] = sum(value.numel() for value in model.parameters())
    for name in (cifar10.CRELU, cifar10.DYNAMIC):
        assert abs(counts[name] / counts[cifar10.RELU] - 1) < 0.01
    for name in (cifar10.FIXED, cifar10.LOW_RANK):
        assert 0.93 < counts[name] / counts[cifar10.RELU] <= 1
    assert counts[cifar10.LEARNED] > 1.8 * counts[cifar10.RELU]


def test_claims_of_the_unit_tables_are_judged_on_the_named_arms():
    test = {name: [0.5 + 0.001 * seed for seed in range(4)] for name in beta_forms.ARMS}
    assert beta_forms.claims(test)[0].verdict.value == "undecided"
    for name in (beta_forms.ABS, beta_forms.LEAKY):
        test[name] = [0.6, 0.61, 0.62, 0.6]
    assert beta_forms.claims(test)[0].verdict.value == "supported"
    test = {name: [0.5 + 0.001 * seed for seed in range(4)] for name in cifar10.ARMS}
    test[cifar10.RELU] = [0.6, 0.61, 0.62, 0.6]
    assert cifar10.claims(test)[0].verdict.value == "contradicted"
