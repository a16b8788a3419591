"""The experiments of the CReLU paper.

Every number by another way, and what each does without data.
"""

import itertools
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from gatewise_papers.all_experiments import experiments
from gatewise_papers.common import all_lower, data_of
from gatewise_papers.crelu.experiments import (
    CONVPOOL,
    EDGES,
    CifarSettings,
    centred,
    configuration,
    densities,
    errors,
    figure2,
    folded,
    initial_network,
    inverted,
    mosaic,
    nearness,
    paired_layers,
    table2,
    table5,
    table6,
)
from gatewise_papers.crelu.experiments import figure5 as crelu_figure5
from gatewise_papers.crelu.experiments.shared import alexnet, layer_tables, published
from loops import for_each
from torch import nn

from gatewise.errors import DamagedFileError, FileError
from gatewise.files import read_json, read_tensors, write_tensors
from gatewise.models import create_model
from gatewise.train import WEIGHTS, train
from gatewise.train.config import find_recipe, run_config


def conv_of(weight: torch.Tensor) -> nn.Conv2d:
    conv = nn.Conv2d(weight.shape[1], weight.shape[0], weight.shape[2:], bias=False)
    conv.weight = nn.Parameter(weight)
    return conv


def test_the_mean_correlation_with_the_partner_is_that_of_two_loops():
    weight = torch.randn(5, 2, 3, 3, generator=torch.Generator().manual_seed(0))
    rows = weight.flatten(1).double().numpy()
    lowest = []
    for i, one in enumerate(rows):
        cosines = [
            one @ other / np.linalg.norm(one) / np.linalg.norm(other)
            for j, other in enumerate(rows)
            if j != i
        ]
        lowest.append(min(cosines))
    (found,) = paired_layers(nn.Sequential(conv_of(weight)), 2)
    assert found["mean"] == pytest.approx(np.mean(lowest), rel=1e-12)
    assert found["correlation"] == pytest.approx(lowest, rel=1e-12)
    assert len(found["random"]) == 3 and found["length"] == 18  # no fewer draws than pairing takes


def test_a_histogram_has_area_one_and_counts_each_bin():
    values = [-0.99, -0.975, 0.01, 0.02, 0.02]
    found = densities(values)
    width = EDGES[1] - EDGES[0]
    assert sum(found) * width == pytest.approx(1.0)
    assert found[0] == pytest.approx(2 / 5 / width) and found[20] == pytest.approx(3 / 5 / width)


def write_alexnet(folder: Path, **changed: torch.Tensor) -> None:
    """Write small convolutions of AlexNet, of which conv1 has opposite pairs alone."""
    generator = torch.Generator().manual_seed(0)
    half = torch.randn(12, 3, 3, 3, generator=generator)
    noise = 0.01 * torch.randn(12, 3, 3, 3, generator=generator)
    weights = {"conv1.weight": torch.cat((half, noise - half)), "conv1.bias": torch.zeros(24)}
    for place in (2, 3, 4, 5):
        weights[f"conv{place}.weight"] = torch.randn(24, 24, 3, 3, generator=generator)
    path = folder / alexnet.PATH
    path.parent.mkdir(parents=True, exist_ok=True)
    write_tensors(path, weights | changed)


def test_figure_2_finds_pairs_that_were_planted_in_the_first_layer_alone(
    tmp_path: Path, monkeypatch
):
    write_alexnet(tmp_path)
    monkeypatch.setenv("GATEWISE_DATA", str(tmp_path))
    done = experiments()["crelu/figure2"].run("tiny", 5, tmp_path / "out")
    by_name = {row.what: row.ours for row in done.findings.rows}
    assert by_name["mean correlation, conv1"] == pytest.approx(-1.0, abs=1e-3)
    assert by_name["mean correlation, conv2"] > -0.3
    verdicts = [claim.verdict.value for claim in done.findings.claims]
    # Four random layers do not come nearer to zero step by step.
    assert verdicts == ["supported", "supported", "undecided"]


def test_the_kept_record_of_figure_2_has_the_pairing_of_alexnet():
    record = read_json(Path(__file__).parents[3] / "results/crelu/figure2/results.json")
    ours = {row["what"]: row["ours"] for row in record["findings"]["rows"]}
    trained = [ours[f"mean correlation, {name}"] for name in alexnet.LAYERS]
    random = [ours[f"mean correlation of random filters, {name}"] for name in alexnet.LAYERS]
    assert trained == pytest.approx([-0.50, -0.25, -0.17, -0.11, -0.06], abs=0.006)
    assert random == pytest.approx([-0.12, -0.07, -0.07, -0.05, -0.06], abs=0.006)


def test_weights_of_alexnet_that_are_missing_or_of_other_sizes_are_refused(
    tmp_path: Path, monkeypatch
):
    monkeypatch.setenv("GATEWISE_DATA", str(tmp_path))
    with pytest.raises(FileError, match="missing"):
        alexnet.convolutions()
    (tmp_path / alexnet.PATH).parent.mkdir(parents=True)
    (tmp_path / alexnet.PATH).write_bytes(b"no tensors")
    with pytest.raises(DamagedFileError):
        alexnet.convolutions()
    write_alexnet(tmp_path, **{"conv4.weight": torch.zeros(4, 3, 3, 3)})
    with pytest.raises(DamagedFileError, match="no weights of conv4 that read 24 channels"):
        alexnet.convolutions()


def test_random_filters_of_alexnet_are_only_slightly_negative():
    found = figure2.random_means(3)
    assert all(-figure2.SLIGHT < value < 0 for values in found.values() for value in values)


def test_printed_layers_add_up_as_modules_do():
    for layers in (layer_tables.S1, layer_tables.S2_HALF_MENDED, layer_tables.S11_MENDED):
        built = [nn.Conv2d(channels, filters, kernel) for kernel, channels, filters in layers]
        assert layer_tables.parameters(layers) == sum(
            p.numel() for conv in built for p in conv.parameters()
        )


def fits(layers: layer_tables.Layers) -> bool:
    """Whether each layer reads what the one before gives, as it is or doubled by CReLU."""
    return all(
        after[1] in (before[2], 2 * before[2]) for before, after in itertools.pairwise(layers)
    )


def test_only_mended_tables_and_those_that_need_no_mending_can_be_built():
    networks = table5.counted_networks()
    assert all(fits(one.layers) for one in networks.values())
    # S11 fits layer by layer only if the tenth has ReLU, and its count then is not the printed one.
    assert layer_tables.parameters(layer_tables.S11) == 4_424_776
    assert layer_tables.parameters(layer_tables.S11_MENDED) == 4_686_920


def test_counts_of_our_networks_are_those_of_the_tables_and_four_published_ones_are_not(
    tmp_path: Path,
):
    done = experiments()["crelu/table5"].run("desk", None, tmp_path)
    assert [row.agrees for row in done.findings.rows] == [True] * 10
    wrong = [
        claim.published for claim in done.findings.claims if claim.verdict.value == "contradicted"
    ]
    assert (
        len(wrong) == 5 and sum("ConvPool" in each for each in wrong) == 4 and "4.6M" in wrong[-1]
    )


def test_vgg_loses_parameters_with_every_crelu():
    counts = [table2.parameters(form) for form in table2.FORMS]
    assert counts == sorted(set(counts), reverse=True)
    # half of conv1 alone: 32 filters of 27 numbers with bias, and a norm of 64, are gone or, the
    # norm, all gone
    assert counts[0] - counts[1] == 32 * 28 + 2 * 64


def test_a_mosaic_has_each_image_at_its_place():
    images = torch.arange(3.0)[:, None, None, None].expand(3, 3, 2, 2) / 4
    shown = torch.tensor(mosaic("three", images, 2).pixels)
    assert shown.shape == (5, 5, 3)
    assert (
        shown[:2, :2].eq(0).all() and shown[:2, 3:].eq(0.25).all() and shown[3:, :2].eq(0.5).all()
    )
    assert shown[2].eq(1).all() and shown[:, 2].eq(1).all()
    assert centred(torch.tensor([[-2.0, 0.0, 1.0]])).tolist() == [[0.0, 0.5, 0.75]]


def test_lower_is_judged_by_pairs_all_of_them():
    lower = ([1.0, 1.1, 1.2], [2.0, 2.2, 2.1])
    assert all_lower("", {"a:": lower, "b:": lower}).verdict.value == "supported"
    assert all_lower("", {"a:": lower, "b:": lower[::-1]}).verdict.value == "contradicted"


@for_each(
    ("excess", "verdict"),
    [(-0.2, "contradicted"), (0.0, "undecided"), (0.2, "undecided")],
)
def test_layers_that_are_more_opposite_than_random_filters_are_shown_seed_by_seed(excess, verdict):
    def network(seed: int, first: float) -> dict:
        means = [first, 0.0, 0.0, 0.0]
        noise = 0.01 * (-1) ** seed
        layers = [{"mean": x + noise, "random": [-0.01, 0.01], "p": 1e-9} for x in means]
        return {"layers": layers}

    cells = {
        "ReLU": [network(seed, -0.3) for seed in range(8)],
        "CReLU": [network(seed, excess) for seed in range(8)],
    }
    claim = crelu_figure5._aligned_claim(cells)
    assert claim.verdict.value == verdict and "n = 8" in claim.evidence


def test_a_run_that_diverged_has_no_errors(tmp_path: Path):
    config = run_config(model="mlp", data="digits", recipe=CifarSettings(epochs=1).recipe)
    lost = SimpleNamespace(status="diverged", metrics=None)
    assert errors(config, tmp_path, lost) == {"train": None, "test": None}


def test_the_train_error_is_that_of_the_trained_network(tmp_path: Path):
    """Counted again by hand; the accuracy that was counted during the last epoch is lower."""
    recipe = find_recipe("sgd", changes=["epochs = 3", "batch = 50"])
    config = run_config(model="mlp", data="digits", data_options={"train": 200}, recipe=recipe)
    data = data_of(config)
    result = train(config, tmp_path / "run", data=data)
    assert result is not None
    found = errors(config, tmp_path / "run", result)
    network = initial_network(config)
    network.load_state_dict(read_tensors(tmp_path / "run" / WEIGHTS)[0])
    images = recipe.augmentation().with_normalise(data.mean, data.std).plain(data.train.images)
    wrong = network.eval()(images).argmax(1) != data.train.labels
    assert found["train"] == pytest.approx(100 * wrong.double().mean().item(), abs=1e-9)
    assert found["test"] == pytest.approx(100 * (1 - result.metrics["test_accuracy"]), abs=1e-9)
    assert found["train"] < 100 * (1 - result.metrics["train_accuracy"])


def test_all_forms_train_by_one_recipe_on_the_same_images():
    sizes = CifarSettings(width=1 / 8, train=10, epochs=2, superclasses=True)
    made = [configuration(sizes, form, "cifar100", 3) for form in CONVPOOL.values()]
    assert len({each.recipe.model_dump_json() for each in made}) == 1 and {
        each.seed for each in made
    } == {3}
    assert all(
        each.data_options == {"train": 10, "coarse": True, "published": False} for each in made
    )
    full = CifarSettings()
    assert full.data_options("cifar100") == {"coarse": False, "published": False}
    assert full.recipe.epochs == 350 and full.data_options("cifar10") == {} and not full.notes


def random_norms(network: nn.Module, generator: torch.Generator) -> nn.Module:
    for module in network.modules():
        if isinstance(module, nn.BatchNorm2d):
            for tensor in (module.running_mean, module.weight.data, module.bias.data):
                tensor.copy_(torch.randn(tensor.shape, generator=generator))
            module.running_var.copy_(
                torch.rand(module.running_var.shape, generator=generator) + 0.5
            )
    return network.eval()


@torch.no_grad()
def test_folding_the_norms_leaves_the_function():
    generator = torch.Generator().manual_seed(1)
    network = random_norms(
        create_model("convpool_cnn", unit="crelu", scale=1 / 24, norm=True), generator
    ).double()
    x = torch.randn(3, 3, 32, 32, generator=generator).double()
    before = network(x)
    after = folded(network)
    assert not any(isinstance(module, nn.BatchNorm2d) for module in after.modules())
    torch.testing.assert_close(after(x), before, rtol=1e-9, atol=1e-9)


def test_without_dropout_the_network_has_none_and_the_same_weights():
    dropped, whole = (
        create_model("vgg_cifar", scale=1 / 16, dropout=flag) for flag in (True, False)
    )
    assert any(isinstance(module, nn.Dropout) for module in dropped.modules())
    assert not any(isinstance(module, nn.Dropout) for module in whole.modules())
    assert [*map(torch.Tensor.size, whole.parameters())] == [
        *map(torch.Tensor.size, dropped.parameters())
    ]


@torch.no_grad()
def test_the_ratio_of_a_region_is_that_of_a_pseudo_inverse_of_the_winners():
    """The matrix of all 3x3 shifts is written out.

    Of each filter and phase the row with the largest response stays.
    """
    generator = torch.Generator().manual_seed(2)
    conv = nn.Conv2d(4, 3, 3, padding=1).double()
    windows = torch.rand(2, 4, 5, 5, generator=generator, dtype=torch.float64)
    found = table6.region_ratio(conv, windows).ratio
    for window, ratio in zip(windows, found, strict=True):
        rows = []
        for f in range(3):
            shifted = []
            for top, left in itertools.product(range(3), range(3)):
                row = torch.zeros(4, 5, 5, dtype=torch.float64)
                row[:, top : top + 3, left : left + 3] = conv.weight[f]
                shifted.append(row.flatten())
            responses = torch.stack([row @ window.flatten() for row in shifted]) + conv.bias[f]
            rows += [
                shifted[int(phase.argmax())] for phase in (responses, -responses) if phase.max() > 0
            ]
        matrix = torch.stack(rows)
        back = torch.linalg.pinv(matrix) @ (matrix @ window.flatten())
        assert float(ratio) == pytest.approx(
            float((back - window.flatten()).norm() / window.norm()), abs=1e-5
        )


@torch.no_grad()
def test_random_filters_have_the_shape_of_the_learned_ones_and_no_bias():
    learned = nn.Conv2d(4, 6, 3, padding=1)
    drawn = table6.random_filters(learned, torch.Generator().manual_seed(0))
    assert (
        drawn.weight.shape == learned.weight.shape
        and drawn.padding == (1, 1)
        and drawn.bias is None
    )
    assert not torch.equal(drawn.weight, learned.weight) and learned.bias is not None


def test_what_a_layer_reads_is_what_a_hook_sees():
    network = create_model("convpool_cnn", unit="crelu", filters="half", scale=1 / 24).eval()
    x = torch.randn(2, 3, 32, 32)
    seen = []
    network.get_submodule("conv5").register_forward_pre_hook(
        lambda _, inputs: seen.append(inputs[0])
    )
    network(x)
    torch.testing.assert_close(table6.features_before(network, "conv5", x), seen[0])


def matrix_of(conv: nn.Conv2d, shape: tuple[int, ...]) -> torch.Tensor:
    impulses = torch.eye(int(np.prod(shape)), dtype=torch.float64).reshape(-1, *shape)
    return (conv(impulses) - conv.bias[:, None, None]).flatten(1).T


@torch.no_grad()
def test_undoing_two_layers_is_two_pseudo_inverses():
    torch.manual_seed(3)
    network = folded(create_model("large_cnn", unit="crelu", scale=1 / 48).eval()).double()
    x = torch.randn(1, 3, 6, 6, dtype=torch.float64)
    first, second = (network.get_submodule(f"{name}.layer") for name in ("conv1", "conv2"))
    features = network.get_submodule("conv1")(x)
    response = second(features) - second.bias[:, None, None]
    back = torch.linalg.pinv(matrix_of(second, tuple(features.shape[1:]))) @ response.flatten()
    positive, negative = back.reshape(features.shape).chunk(2, 1)
    wanted = (positive - negative - first.bias[:, None, None]).flatten()
    image = (torch.linalg.pinv(matrix_of(first, (3, 6, 6))) @ wanted).reshape(x.shape)
    torch.testing.assert_close(
        inverted(network, ["conv1", "conv2"], x), image, rtol=1e-3, atol=1e-3
    )


def test_nearness_of_an_image_to_a_part_of_it():
    x = torch.tensor([[[[3.0, 4.0]]]])
    found = nearness(x, torch.tensor([[[[3.0, 0.0]]]], dtype=torch.float64))
    assert found == pytest.approx({"ratio": 0.8, "correlation": 0.6})


def test_every_printed_error_has_its_form_and_crelu_is_better_in_print():
    for forms, printed in ((CONVPOOL, published.TABLE1), (table2.FORMS, published.TABLE2)):
        assert set(printed) == {(data, form) for data in ("cifar10", "cifar100") for form in forms}
    assert (
        published.TABLE1["cifar10", "CReLU, half"]["test"]
        < published.TABLE1["cifar10", "ReLU"]["test"]
    )


def test_the_recipe_of_vgg_halves_its_rate_every_25_epochs():
    recipe = table2.EXPERIMENT.scales["full"].recipe
    assert recipe.schedule.at[:2] == [24, 49] and recipe.epochs == 300 and recipe.batch == 128
    assert recipe.augment == {"flip": True, "shift": 4}
