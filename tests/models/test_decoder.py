"""Small language models: causal, of equal size whatever the gate, readable as a graph."""

import pytest
import torch

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.models import create_model, networks, unit_places

GATES = ("relu", "gelu", "silu", "relu2", "xielu", "glu", "reglu", "geglu", "swiglu", "bilinear")
STYLES = ("small_gpt", "small_llama")
TINY = {"width": 16, "depth": 2, "heads": 2, "length": 12}


def tokens(rows: int = 3, length: int = 12) -> torch.Tensor:
    return torch.randint(256, (rows, length), generator=torch.Generator().manual_seed(0))


@pytest.mark.parametrize("unit", ["relu", "xielu", "swiglu"])
@pytest.mark.parametrize("style", STYLES)
def test_a_later_token_does_not_change_earlier_outputs_and_its_own_does(style: str, unit: str):
    model = create_model(style, unit=unit, **TINY).eval()
    before = tokens()
    after = before.clone()
    after[:, 7] = (after[:, 7] + 1) % 256
    with torch.no_grad():
        first, second = model(before), model(after)
    assert first.shape == (3, 12, 256)
    assert torch.equal(first[:, :7], second[:, :7])
    assert ((first[:, 7:] - second[:, 7:]).abs().amax(-1) > 0).all()


@pytest.mark.parametrize("style", STYLES)
def test_the_order_of_tokens_matters(style: str):
    model = create_model(style, **TINY).eval()
    row = tokens(1)
    swapped = row[:, [1, 0, *range(2, 12)]]
    with torch.no_grad():
        assert (model(row)[:, -1] - model(swapped)[:, -1]).abs().max() > 1e-6


@pytest.mark.parametrize("width", [16, 96, 128])
@pytest.mark.parametrize("style", STYLES)
def test_every_gate_has_the_same_parameters_within_one_per_cent(style: str, width: int):
    counts = {}
    for unit in (*GATES, "crelu", "prelu"):
        with torch.device("meta"):
            model = create_model(style, unit=unit, width=width, depth=2)
        counts[unit] = sum(parameter.numel() for parameter in model.parameters())
        assert set(unit_places(model).values()) == {unit}
    assert max(counts.values()) / min(counts.values()) < 1.01


def test_a_glu_has_two_thirds_of_the_width_and_parameters_are_those_counted_by_hand():
    width, depth = 96, 2
    model = create_model("small_llama", unit="swiglu", width=width, depth=depth)
    feed_forward = model.blocks[0].feed_forward
    assert feed_forward.up.layer.out_features == 2 * 256  # two thirds of 384, for gate and value
    assert feed_forward.down.in_features == 256
    block = 4 * width**2 + 3 * width * 256 + 2 * width
    total = sum(parameter.numel() for parameter in model.parameters())
    assert total == depth * block + 2 * 256 * width + width


@pytest.mark.parametrize("style", STYLES)
def test_a_decoder_is_exported_and_its_activations_are_found(style: str):
    model = create_model(style, unit="swiglu", **TINY).eval()
    row = tokens()
    exported = torch.export.export(model, (row,)).module()
    with torch.no_grad():
        torch.testing.assert_close(exported(row), model(row))
    plain = create_model(style, unit="gelu", **TINY).eval()
    assert [site.role for site in gw.find_sites(plain, row, units=True)] == ["mlp", "mlp"]


def test_rotary_positions_depend_on_distances_alone():
    """Queries and keys that do not depend on the place have scores that depend on the distance."""
    layer = networks.decoder.Attention(8, 1, bias=False, rotary=True, length=10)
    query, key = torch.randn(2, 1, 1, 1, 8).expand(2, 1, 1, 10, 8)
    scores = (layer._rotated(query) @ layer._rotated(key).transpose(-1, -2))[0, 0]
    for distance in range(-9, 10):
        line = scores.diagonal(distance)
        torch.testing.assert_close(line, line[:1].expand_as(line), rtol=1e-4, atol=1e-4)
    assert scores.std() > 1e-3


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"unit": "psc"}, "cannot stand in a feed-forward part"),
        ({"unit": "frelu"}, "cannot stand in a feed-forward part"),
        ({"unit": "iieu_b"}, "cannot stand in a feed-forward part"),
        ({"width": 30, "heads": 4}, "a multiple of 8"),
        ({"depth": 0}, "depth"),
        ({"expansion": -1.0}, "expansion"),
    ],
)
def test_what_does_not_fit_is_refused(options: dict, message: str):
    with pytest.raises(ArgumentError, match=message):
        create_model("small_llama", **options)


def test_a_row_that_is_too_long_or_an_image_is_refused():
    model = create_model("small_gpt", **TINY)
    for wrong in (torch.zeros(1, 13, dtype=torch.int64), torch.zeros(1, 1, 2, 2)):
        with pytest.raises(ArgumentError, match="rows of tokens"):
            model(wrong)
