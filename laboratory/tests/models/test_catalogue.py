"""The networks of the catalogue.

Their counts, and that every unit goes into each or is refused with a reason.
"""

import pytest
import torch
from loops import for_each
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError, GatewiseError, UnknownNameError
from gatewise.models import create_model, registered_models
from gatewise.models.blocks import unit_places

# Published or derived counts, each by the table it is from; M stands for a count that the paper
# prints in millions.
COUNTS = [
    # paper 002, tables S1 and S2: conv by conv, kernel * kernel * in * out + out, added up by hand
    ("convpool_cnn", {}, 1_286_698),
    ("convpool_cnn", {"scale": 2}, 5_135_434),
    ("convpool_cnn", {"unit": "crelu"}, 2_569_642),
    ("convpool_cnn", {"unit": "crelu", "filters": "half"}, 644_314),
    # paper 003, table 3
    ("resnet", {"depth": 14}, 10_064_936),
    ("resnet", {"depth": 26}, 15_995_176),
    ("resnet", {"depth": 50}, 25_557_032),
    ("resnet", {"depth": 14, "unit": "iieu_b"}, 10_093_928),
    ("resnet", {"depth": 26, "unit": "iieu_b"}, 16_041_448),
    ("resnet", {"depth": 50, "unit": "iieu_b"}, 25_636_712),
    ("resnet", {"depth": 14, "unit": "iieu_b", "coupler": True}, 10_822_168),
    ("resnet", {"depth": 26, "unit": "iieu_b", "coupler": True}, 17_497_928),
    ("resnet", {"depth": 50, "unit": "iieu_b", "coupler": True}, 28_277_208),
    # what the widely used implementations of these networks count
    ("resnet_cifar", {"depth": 20}, 272_474),
    ("resnet_cifar", {"depth": 56}, 855_770),
    ("wide_resnet", {"depth": 16, "width": 4}, 2_748_890),
    ("wide_resnet", {"depth": 28, "width": 10}, 36_479_194),
    ("mobilenet_v2", {}, 3_504_872),
    ("shufflenet_v2", {"width": 0.5}, 1_366_792),
    ("shufflenet_v2", {"width": 1.0}, 2_278_604),
]
MILLIONS = [
    # paper 002, tables 5 and S7 to S12
    ("all_cnn", {}, 9.4),
    ("all_cnn", {"unit": "crelu", "at": range(1, 5)}, 10.1),
    ("all_cnn_crelu", {}, 4.7),
    ("all_cnn", {"unit": "crelu", "at": (1, 4, 7), "filters": "half"}, 8.6),
    # paper 003: MobileNetV2 at 0.17 and ShuffleNetV2 at 0.5
    ("mobilenet_v2", {"width": 0.17}, 1.4),
    ("shufflenet_v2", {}, 1.4),
    # paper 004's convolution network, weight by weight: no layer has a bias
    (
        "deep_gated_cnn",
        {},
        round(
            (27 * 64 + 9 * 64 * 64 + 9 * 64 * 128 + 9 * 128 * 128 + 128 * 1024 * 256 + 256 * 266)
            / 1e6,
            1,
        ),
    ),
]
SMALLER = {
    "all_cnn": {"scale": 0.125},
    "resnet": {"depth": 14, "scale": 0.125},
    "mobilenet_v2": {"width": 0.17},
    "resnet_segmenter": {"depth": 14, "scale": 0.125, "width": 8},
    "retinanet": {"depth": 14, "scale": 0.125, "width": 8, "classes": 3},
}
SHAPES = {
    "all_cnn": (3, 127, 127),
    "resnet": (3, 32, 32),
    "mobilenet_v2": (3, 32, 32),
    "shufflenet_v2": (3, 32, 32),
    "resnet_segmenter": (3, 32, 32),
    "retinanet": (3, 32, 32),
}
DIMENSIONS = {"examples": 2, "segmentation": 4, "detection": 3}  # of the outputs
# Language models have no such option; tests/models/test_decoder.py is about them.
NETWORKS = [name for name, model in registered_models().items() if "filters" in model.options]


def count(network: nn.Module) -> int:
    return sum(parameter.numel() for parameter in network.parameters())


def build(name: str, **options: object) -> nn.Module:
    with torch.device("meta"):
        return create_model(name, **options)


@for_each("name, options, expected", COUNTS)
def test_the_network_has_exactly_the_parameters_counted(
    name: str, options: dict, expected: int
) -> None:
    assert count(build(name, **options)) == expected


@for_each("name, options, millions", MILLIONS)
def test_the_network_has_the_parameters_the_paper_prints_in_millions(
    name: str, options: dict, millions: float
) -> None:
    assert round(count(build(name, **options)) / 1e6, 1) == millions


def test_convpool_cnn_counts_by_the_table_convolution_by_convolution() -> None:
    shapes = [
        (3, 3, 96),
        (3, 96, 96),
        (3, 96, 192),
        (3, 192, 192),
        (3, 192, 192),
        (3, 192, 192),
        (1, 192, 192),
        (1, 192, 10),
    ]
    assert count(build("convpool_cnn")) == sum(k * k * i * o + o for k, i, o in shapes)


@for_each("places", [(1,), (1, 3), (1, 3, 5)])
def test_crelu_in_vgg_leaves_every_later_convolution_as_wide_as_it_was(
    places: tuple[int, ...],
) -> None:
    plain, swapped = build("vgg_cifar"), build("vgg_cifar", unit="crelu", at=places)
    for place in range(1, 14):
        weight, other = (net.get_parameter(f"conv{place}.layer.weight") for net in (plain, swapped))
        assert other.shape[0] * (2 if place in places else 1) == weight.shape[0]
        assert other.shape[1] == weight.shape[1]


SQUARES = {"bilinear", "leaky_relu2", "reglu", "relu2", "star_relu", "xielu"}
SQUARES |= {"geglu", "swiglu"}


@pytest.mark.slow
@for_each("unit", [*gw.list_units(), "psc"])
@for_each("name", NETWORKS)
def test_every_unit_goes_into_every_network_or_is_refused_with_a_reason(
    name: str, unit: str
) -> None:
    spec = registered_models()[name]
    for filters in ("same", "half"):
        try:
            net = create_model(name, unit=unit, filters=filters, **SMALLER.get(name, {}))
        except GatewiseError as error:
            assert "cannot" in str(error)
            continue
        # Squares grow from layer to layer unless the norms see the batch.
        out = net.train(unit in SQUARES)(0.5 * torch.randn(2, *SHAPES.get(name, spec.reads)))
        assert out.dim() == DIMENSIONS[spec.predicts] and out.isfinite().all()
        assert unit in unit_places(net).values()


@pytest.mark.slow
def test_few_units_are_refused_and_it_is_known_which() -> None:
    refused = set()
    for name in NETWORKS:
        for unit in (*gw.list_units(), "psc"):
            try:
                build(name, unit=unit, filters="half")
            except ArgumentError:
                refused.add((name, unit))
    halved = ("bilinear", "geglu", "glu", "maxout", "reglu", "swiglu")
    assert refused == {
        *(("wide_resnet", unit) for unit in halved),
        ("wide_resnet", "iieu_b"),
        ("mlp", "frelu"),
        ("resnet", "psc"),
        ("resnet_cifar", "psc"),
        ("resnet_segmenter", "psc"),
        ("retinanet", "psc"),
        ("shufflenet_v2", "psc"),
    }


@for_each("name", ["resnet", "resnet_cifar", "shufflenet_v2"])
def test_phase_selection_goes_into_residual_networks_with_another_unit_on_the_stream(
    name: str,
) -> None:
    net = create_model(name, unit="psc", out_unit="relu", **SMALLER.get(name, {}))
    assert {"psc", "relu"} == set(unit_places(net).values())
    assert net.eval()(torch.randn(2, *SHAPES.get(name, (3, 32, 32)))).isfinite().all()


@for_each("name", ["convpool_cnn", "small_cnn", "mlp", "resnet_cifar", "wide_resnet"])
def test_names_and_shapes_of_weights_do_not_depend_on_a_pointwise_unit(name: str) -> None:
    relu, swish = create_model(name).state_dict(), create_model(name, unit="swish").state_dict()
    own = {key for key in swish if ".unit." in key or key.startswith("features.unit.")}
    assert own and {key: v.shape for key, v in swish.items() if key not in own} == {
        k: v.shape for k, v in relu.items()
    }


@for_each(
    ("unit", "parameters"),
    [("psc", 2.0), ("static_psc", 2.0), ({"name": "static_psc", "split": 0.5}, 1.0)],
)
def test_the_layers_behind_an_empty_slot_are_those_of_its_name(unit, parameters: float) -> None:
    net = create_model("small_cnn", unit=unit)
    name = unit if isinstance(unit, str) else unit["name"]
    assert name in unit_places(net).values()
    plain = create_model("small_cnn").get_parameter("conv2.layer.weight").numel()
    layer = net.get_submodule("conv2.layer")
    weights = [value.numel() for key, value in layer.named_parameters() if "weight" in key]
    assert sum(weights) == parameters * plain
    assert net(torch.randn(2, 1, 8, 8)).isfinite().all()


def test_low_rank_phases_have_at_most_the_parameters_of_the_plain_network() -> None:
    plain, low = create_model("fast_cifar"), create_model("fast_cifar", unit="low_rank_psc")
    counts = [sum(value.numel() for value in net.parameters()) for net in (low, plain)]
    assert counts[0] <= counts[1]
    assert "low_rank_psc" in unit_places(low).values()


def test_unknown_options_of_phase_selection_are_named() -> None:
    with pytest.raises(ArgumentError, match=r"static_psc: unknown options.*slope.*split"):
        create_model("small_cnn", unit={"name": "static_psc", "slope": 1})
    with pytest.raises(ArgumentError, match=r"psc: unknown options.*no options"):
        create_model("small_cnn", unit={"name": "psc", "split": 1})


def test_phase_selection_with_no_negative_weights_is_the_relu_network() -> None:
    plain, phased = create_model("small_cnn").eval(), create_model("small_cnn", unit="psc").eval()
    state = plain.state_dict()
    given = {
        key: state[key]
        for key in phased.state_dict()
        if key in state and not key.startswith("head")
    }
    negative = {
        key: torch.zeros_like(v)
        for key, v in phased.state_dict().items()
        if key.endswith("weight_neg")
    }
    head = {
        "head.layer.weight": torch.cat((state["head.layer.weight"], torch.zeros(10, 32)), 1),
        "head.layer.bias": state["head.layer.bias"],
    }
    phased.load_state_dict(given | negative | head)
    x = torch.randn(4, 1, 8, 8)
    torch.testing.assert_close(phased(x), plain(x))


def test_iieu_reads_the_convolution_it_follows() -> None:
    net = create_model("small_cnn", unit="iieu_b").double().eval()
    block, x = net.conv1, torch.randn(2, 1, 8, 8, dtype=torch.float64)
    alone = (
        gw.nn.ConvIIEU(nn.Conv2d(1, 16, 3, padding=1, bias=False), nn.BatchNorm2d(16))
        .double()
        .eval()
    )
    alone.conv.load_state_dict(block.layer.state_dict())
    torch.testing.assert_close(block(x), alone(x))


def test_orthogonal_filters_are_orthogonal_in_every_layer_that_can_have_them() -> None:
    net = create_model("large_cnn", orthogonal_filters=True, scale=0.25)
    for place in range(2, 10):
        rows = net.get_submodule(f"conv{place}").layer.weight.flatten(1)
        torch.testing.assert_close(rows @ rows.T, torch.eye(len(rows)), atol=1e-5, rtol=0)


def test_bad_options_are_refused_by_name() -> None:
    for options in (
        {"at": (0,)},
        {"at": (8,)},
        {"at": ()},
        {"unit": "relo"},
        {"unit": {"options": 1}},
        {"unit": 3},
        {"filters": "third"},
        {"scale": 0},
        {"scale": "2"},
        {"classes": 0},
        {"widht": 2},
    ):
        with pytest.raises(ArgumentError):
            create_model("convpool_cnn", **options)
    with pytest.raises(UnknownNameError, match="did you mean 'resnet'"):
        create_model("resnt")
    with pytest.raises(ArgumentError, match="after an addition"):
        create_model("resnet", unit="iieu_b", placement="after")
    for name, options in (
        ("resnet", {"depth": 51}),
        ("resnet_cifar", {"depth": 21}),
        ("wide_resnet", {"depth": 17}),
        ("shufflenet_v2", {"width": 0.7}),
        ("mobilenet_v2", {"width": -1.0}),
    ):
        with pytest.raises(ArgumentError, match=f": {next(iter(options))} "):
            create_model(name, **options)


def test_a_network_without_a_slot_or_with_contradicting_options_is_refused() -> None:
    for name in ("small_cnn", "mlp"):
        for widths in ((), 16, "16", (16, 0)):
            with pytest.raises(ArgumentError, match=": widths "):
                create_model(name, widths=widths)
    with pytest.raises(ArgumentError, match="sets the options channels"):
        create_model("mlp", unit={"name": "crelu", "channels": 3})
    with pytest.raises(ArgumentError, match="two sets of filters"):
        create_model("large_cnn", unit="psc", orthogonal_filters=True)


def test_a_unit_that_widens_goes_inside_blocks_with_another_one_on_the_stream() -> None:
    for name in ("resnet", "resnet_cifar"):
        net = create_model(name, unit="crelu", out_unit="relu", **SMALLER.get(name, {}))
        places = unit_places(net)
        assert places["features.stem.unit"] == "relu" and "crelu" in places.values()
        assert net.eval()(torch.randn(2, 3, 32, 32)).isfinite().all()


def test_options_of_a_unit_reach_it() -> None:
    net = create_model("mlp", unit={"name": "leaky_relu", "slope": 0.3})
    x = torch.tensor([-1.0])
    torch.testing.assert_close(net.fc1.unit(x), torch.tensor([-0.3]))
