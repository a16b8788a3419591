"""Deep gated networks given what they cannot be, and those of the catalogue, which read images."""

import pytest
import torch
from gatewise_papers import deep_gated
from gatewise_papers.deep_gated import DeepGatedConvNetwork, DeepGatedNetwork
from loops import for_each
from torch import Tensor, nn

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.models import registered_models

WRONG = [
    ("device", "nope"),
    ("device", 3.5),
    ("dtype", torch.int32),
    ("dtype", "float32"),
    ("generator", "x"),
    ("generator", 1),
    ("gate", []),
    ("gate", None),
]


@for_each(("option", "value"), WRONG)
def test_what_no_network_can_be_made_with_is_named(option: str, value: object):
    for build in (
        lambda **o: DeepGatedNetwork(3, 4, 3, **o),
        lambda **o: DeepGatedConvNetwork((2, 4), (3,), **o),
    ):
        with pytest.raises(ArgumentError, match=option):
            build(**{option: value})


@for_each("width", [None, 1.5, "44", b"\x04\x04", [], {3, 4}, (4, None)])
def test_widths_are_a_number_or_a_list_of_them(width: object):
    with pytest.raises(ArgumentError, match="width"):
        DeepGatedNetwork(3, width, 3)


@for_each("option", ["in_shape", "channels", "dense"])
@for_each("value", [None, 3, b"\x03\x04", "34"])
def test_sizes_of_convolutions_are_lists(option: str, value: object):
    with pytest.raises(ArgumentError, match=option):
        DeepGatedConvNetwork(**{"in_shape": (2, 4), "channels": (3,), option: value})


def test_a_network_that_no_memory_holds_is_refused():
    with pytest.raises(ArgumentError, match="cannot be made"):
        DeepGatedNetwork(3, 2**31 - 1, 3)


def test_weights_are_drawn_anew_from_a_generator_alone():
    with pytest.raises(ArgumentError, match="generator"):
        DeepGatedNetwork(3, 4, 3).reset_parameters(generator=7)


@for_each("gates", [[torch.ones(5, 4).double()] * 2, [torch.ones(5, 4, device="meta")] * 2])
def test_gates_of_another_kind_are_refused(gates: list[Tensor]):
    with pytest.raises(ArgumentError, match="gates and input have different dtypes"):
        DeepGatedNetwork(3, 4, 3)(torch.randn(5, 3), gates=gates)


@for_each("gates", [3, "ab", [None, None], [[1.0], [2.0]]])
def test_gates_that_are_no_tensors_are_refused(gates: object):
    with pytest.raises(ArgumentError, match="one tensor of gates"):
        DeepGatedNetwork(3, 4, 3)(torch.randn(5, 3), gates=gates)


def test_gates_may_be_truth_values():
    model, x = DeepGatedNetwork(3, 4, 3, gate="relu"), torch.randn(5, 3)
    assert torch.equal(model(x, gates=[gate.bool() for gate in model.gates(x)]), model(x))


def images(gate: str) -> tuple[nn.Module, nn.Module, Tensor, Tensor | None]:
    """The catalogue's network, the same one of features, images, and which examples they are."""
    extra = {"examples": 5} if gate == "random" else {}
    mine = gw.models.create_model(
        "deep_gated_mlp", width=4, depth=3, features=12, gate=gate, dtype=torch.float64, **extra
    )
    other = DeepGatedNetwork(12, 4, 3, gate=gate, dtype=torch.float64, **extra)
    other.load_state_dict(mine.state_dict())
    return (
        mine,
        other,
        torch.randn(5, 3, 2, 2, dtype=torch.float64),
        torch.arange(5) if extra else None,
    )


@for_each("gate", ["linear", "random", "relu", "galu", "soft_relu", "soft_galu"])
def test_the_network_of_images_is_the_one_of_their_features(gate: str):
    mine, other, x, index = images(gate)
    rows = x.flatten(1)
    for ask in (
        lambda net, z: net(z, index),
        lambda net, z: net(z, gates=net.gates(z, index)),
        lambda net, z: deep_gated.path_kernel(net, z, index=index),
        lambda net, z: deep_gated.paths(net, z, index=index).output(),
        lambda net, z: deep_gated.subnetworks(net, z, index=index).sensitive_paths(),
        lambda net, z: deep_gated.bundle_kernel(net, z, index=index),
    ):
        torch.testing.assert_close(ask(mine, x), ask(other, rows), rtol=1e-12, atol=1e-13)


@for_each("gate", ["soft_relu", "soft_galu"])
def test_the_adaptation_of_gates_reads_images(gate: str):
    mine, other, x, _ = images(gate)
    torch.testing.assert_close(
        deep_gated.delta(mine, x), deep_gated.delta(other, x.flatten(1)), rtol=1e-12, atol=0
    )


def test_images_of_another_size_are_named():
    for shape in ((12,), (5, 13), (5, 3, 2, 3)):
        with pytest.raises(ArgumentError, match="another number of features"):
            images("relu")[0](torch.randn(*shape, dtype=torch.float64))


@for_each(
    ("name", "option", "near"),
    [
        ("deep_gated_mlp", "gaet", "gate"),
        ("deep_gated_mlp", "widht", "width"),
        ("deep_gated_cnn", "paddin", "padding"),
    ],
)
def test_a_misspelt_option_gets_the_nearest_one(name: str, option: str, near: str):
    with pytest.raises(ArgumentError, match=f"did you mean '{near}'"):
        gw.models.create_model(name, **{option: "relu"})


@for_each(("name", "option"), [("deep_gated_mlp", "d_out"), ("deep_gated_cnn", "in_shape")])
def test_what_the_catalogue_sets_itself_is_no_option(name: str, option: str):
    assert option not in registered_models()[name].options
    with pytest.raises(ArgumentError, match="no option of that name"):
        gw.models.create_model(name, **{option: 3})
