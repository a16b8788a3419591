"""Gated linear units become plain feed-forward parts at matched parameters."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.surgery.swaps.feed_forward import matched_hidden, matched_plain_hidden
from tests import zoo
from tests.graph import gated_blocks


def parameters(model: nn.Module) -> int:
    return sum(value.numel() for value in model.parameters())


def example() -> Tensor:
    return torch.randn(5, 8, generator=torch.Generator().manual_seed(1))


def randomised(model: nn.Module) -> nn.Module:
    """New values everywhere, so that nothing hides behind a zero."""
    torch.manual_seed(2)
    with torch.no_grad():
        for value in model.parameters():
            value.normal_()
    return model


@pytest.mark.parametrize(
    "hidden, before, after, bias",
    [(2048, 768, 768, False), (2048, 768, 768, True), (2731, 1024, 1024, False), (7, 5, 3, True)],
)
def test_the_matched_width_is_the_one_with_the_nearest_count(hidden, before, after, bias):
    gated = hidden * (2 * before + after) + bias * (2 * hidden + after)

    def plain(width: int) -> int:
        return width * (before + after) + bias * (width + after)

    want = matched_plain_hidden(hidden, before, after, bias=bias)
    distances = {width: abs(plain(width) - gated) for width in range(1, 3 * hidden)}
    assert distances[want] == min(distances.values())
    if not bias and before == 768:
        assert want == 3072 and distances[want] == 0
        assert matched_hidden(want, before, after, bias=bias) == hidden  # there and back


def rows_of_the_gate(block: nn.Module) -> tuple[Tensor, Tensor]:
    """The gate's weight and bias, read from the blocks by hand."""
    if isinstance(block, gated_blocks.TwoLinears):
        return block.gate_proj.weight, block.gate_proj.bias
    layer = block.gate_up
    name = type(block).__name__
    if name in ("Interleaved", "Pairs", "OwnUnitInterleaved"):
        return layer.weight[::2], layer.bias[::2]
    if name in ("SplitGateLast", "FunctionalGLU", "OwnUnit"):
        return layer.weight[16:], layer.bias[16:]
    return layer.weight[:16], layer.bias[:16]


FUNCTIONS = {"FunctionalGLU": torch.sigmoid}
FREE = ("TwoLinears", "Chunked", "Interleaved", "FunctionalGLU", "OwnUnit", "OwnUnitGateFirst")
FIXED = ("SplitGateLast", "Sliced", "Pairs")


def plain_output(block: nn.Module, x: Tensor, name: str) -> Tensor:
    """What the plain part starts as: the gate without its value."""
    weight, bias = rows_of_the_gate(block)
    second = block.down_proj if name == "TwoLinears" else block.down
    hidden = FUNCTIONS.get(name, F.silu)(F.linear(x, weight, bias))
    return second(hidden) + (x if name == "TwoLinears" else 0)


@pytest.mark.parametrize("name", [*FREE, "OwnUnitInterleaved"])
def test_matched_parts_start_as_the_gate_without_its_value(name):
    torch.manual_seed(0)
    block = getattr(gated_blocks, name)().eval()
    x = example()
    plan = gw.plan(block, "plain_mlp", x)
    changed = gw.swap(block, "plain_mlp", x)
    width = matched_plain_hidden(16, 8, 8, bias=True)
    second = changed.down_proj if name == "TwoLinears" else changed.down
    assert second.in_features == second.weight.shape[1] == width == 24
    assert plan.parameters == (parameters(block), parameters(changed))
    assert abs(parameters(changed) - parameters(block)) <= (8 + 8 + 1) / 2
    assert plan.operations[1] < plan.operations[0] * 1.05
    assert str(gw.receipt(changed)).startswith("WIRING CHECKED, FUNCTION NEW")
    with torch.no_grad():
        torch.testing.assert_close(changed(x), plain_output(block, x, name))
    (site,) = gw.find_sites(changed, x, units=True)
    assert (site.role == "glu") == (name in ("Chunked", "Interleaved"))  # their code still divides


@pytest.mark.parametrize("name", ["TwoLinears", "Chunked", "Interleaved", "OwnUnit"])
def test_the_wiring_is_that_of_a_plain_part_for_any_weights(name):
    torch.manual_seed(0)
    x = example()
    changed = gw.swap(getattr(gated_blocks, name)().eval(), "plain_mlp", x, activation="gelu")
    randomised(changed)
    first = changed.gate_proj if name == "TwoLinears" else changed.gate_up
    second = changed.down_proj if name == "TwoLinears" else changed.down
    want = second(F.gelu(F.linear(x, first.weight, first.bias)))
    want = want + x if name == "TwoLinears" else want
    torch.testing.assert_close(changed(x), want)
    changed(x).sum().backward()
    assert bool(first.weight.grad.any(1).all()) and bool(second.weight.grad.any(0).all())


@pytest.mark.parametrize("name", FIXED)
def test_widths_that_are_written_in_the_code_stay(name):
    torch.manual_seed(0)
    block = getattr(gated_blocks, name)().eval()
    x = example()
    with pytest.raises(ArgumentError, match="16 channels are written in the code"):
        gw.swap(block, "plain_mlp", x)
    changed = gw.swap(block, "plain_mlp", x, hidden="same")
    with torch.no_grad():
        torch.testing.assert_close(changed(x), plain_output(block, x, name))
    assert parameters(changed) == parameters(block) - 16 * 9


def test_there_and_back_keeps_the_function_where_the_value_is_one():
    torch.manual_seed(0)
    x = example()
    plain = nn.Sequential(nn.Linear(8, 30), nn.SiLU(), nn.Linear(30, 8)).eval()
    gated = gw.swap(plain, "swiglu", x, hidden="same", preserve=True)
    back = gw.swap(gated, "plain_mlp", x, hidden="same", preserve=True)
    assert gw.receipt(back).proved
    assert (back[0].out_features, back[2].in_features) == (30, 30)
    torch.testing.assert_close(back(x), plain(x))
    plain = nn.Sequential(nn.Linear(8, 30, bias=False), nn.SiLU(), nn.Linear(30, 8)).eval()
    gated = gw.swap(plain, "swiglu", x, hidden="matched")
    matched = gw.swap(gated, "plain_mlp", x)
    assert gated[2].in_features == 20 and matched[2].in_features == 30
    assert parameters(matched) == parameters(gated) == parameters(plain)
    with pytest.raises(ArgumentError, match="value is not 1"):
        gw.swap(gated_blocks.Chunked(), "plain_mlp", x, hidden="same", preserve=True)


@pytest.mark.parametrize("name", ["TwoLinears", "Chunked", "OwnUnit"])
def test_undo_gives_the_gated_part_back_and_its_checkpoints_load(name):
    torch.manual_seed(0)
    block = getattr(gated_blocks, name)().eval()
    x = example()
    changed = gw.swap(block, "plain_mlp", x)
    other = randomised(getattr(gated_blocks, name)())
    changed.load_state_dict(other.state_dict())
    with torch.no_grad():
        torch.testing.assert_close(changed(x), plain_output(other, x, name), rtol=1e-4, atol=1e-4)
    again = gw.swap(block, "plain_mlp", x)
    restored = gw.undo(again)
    assert restored.state_dict().keys() == block.state_dict().keys()
    assert torch.equal(restored(x), block(x))


def test_saved_swaps_are_repeated(tmp_path):
    torch.manual_seed(0)
    x = example()
    for name in ("TwoLinears", "Chunked"):
        make = getattr(gated_blocks, name)
        changed = gw.swap(make().eval(), "plain_mlp", x, activation="relu2")
        gw.save_swaps(changed, tmp_path / f"{name}.json")
        again = make().eval()
        gw.load_swaps(again, tmp_path / f"{name}.json")
        again.load_state_dict(changed.state_dict())
        torch.testing.assert_close(again(x), changed(x))


def hugging_face(name: str) -> tuple[nn.Module, dict[str, Tensor]]:
    torch.manual_seed(0)
    options = {"vocab_size": 64, "num_key_value_heads": 2, "pad_token_id": 0, **zoo.SMALL}
    model = zoo.hugging_face(f"{name}ForCausalLM", f"{name}Config", **options)
    return model.eval(), {"input_ids": torch.arange(12).reshape(2, 6)}


@pytest.mark.parametrize("name", ["Llama", pytest.param("Phi3", marks=pytest.mark.slow)])
def test_hugging_face_models_become_plain(name):
    model, tokens = hugging_face(name)
    before = parameters(model)
    plan = gw.plan(model, "plain_mlp", tokens, activation="relu2")
    changed = gw.swap(model, "plain_mlp", tokens, activation="relu2")
    assert "FUNCTION NEW" in str(gw.receipt(changed))
    assert parameters(changed) == before == plan.parameters[1]  # no biases: 64 becomes 96
    mlp = changed.model.layers[1].mlp
    assert mlp.down_proj.in_features == 96
    first = mlp.gate_proj if name == "Llama" else mlp.gate_up_proj
    x = torch.randn(3, 32)
    with torch.no_grad():
        mlp.down_proj.weight.normal_()
        want = mlp.down_proj(F.relu(F.linear(x, first.weight)).square())
        torch.testing.assert_close(mlp(x), want)
    assert changed(**tokens).logits.shape == (2, 6, 64)


def test_one_gate_alone_can_be_chosen():
    model, tokens = hugging_face("Llama")
    changed = gw.swap(model, "plain_mlp", tokens, where="model.layers.0.mlp.act_fn")
    assert changed.model.layers[0].mlp.down_proj.in_features == 96
    assert changed.model.layers[1].mlp.down_proj.in_features == 64
    assert type(changed.model.layers[1].mlp.up_proj) is nn.Linear


class ReadTwice(gated_blocks.TwoLinears):
    def forward(self, x: Tensor) -> Tensor:
        value = self.up_proj(x)
        return self.down_proj(self.act_fn(self.gate_proj(x)) * value) + value.sum()


def test_what_cannot_become_plain_is_refused_with_the_reason():
    x = example()
    with pytest.raises(ArgumentError, match="plain activation, not the gate"):
        gw.swap(nn.Sequential(nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 8)), "plain_mlp", x)
    with pytest.raises(ArgumentError, match="read by others too"):
        gw.swap(ReadTwice(), "plain_mlp", x)
    with pytest.raises(ArgumentError, match="computes more of its input"):
        gw.swap(gated_blocks.Clamped(), "plain_mlp", x)
    with pytest.raises(ArgumentError, match="hidden is not a width"):
        gw.swap(gated_blocks.Chunked(), "plain_mlp", x, hidden="half")
    with pytest.raises(ArgumentError, match="no function of one number"):
        gw.swap(gated_blocks.Chunked(), "plain_mlp", x, activation="crelu")
    with pytest.raises(ArgumentError, match="changes together with the gate"):
        gw.swap(gated_blocks.TwoLinears(), "plain_mlp", x, where="up_proj")
