"""ReLU in place of smooth activations, with fine-tuning, on a small language model trained here."""

import copy
import json

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.batches import ModelCall
from gatewise.errors import ArgumentError, NotApplicableError, UnknownNameError
from gatewise.sparsity import RectifiedNorm, ShiftedReLU, SparseLinear
from gatewise.sparsity.fine_tuning import (
    PenalisedLoss,
    TrainBatch,
    effective_share,
    penalty_at,
)
from gatewise.sparsity.thresholds import Place
from tests.sparsity import networks


def training(count: int = 24) -> list[tuple[torch.Tensor, torch.Tensor]]:
    return [networks.rows(16, 2000 + number) for number in range(count)]


@pytest.fixture(scope="module")
def result():
    return gw.sparsity.relufy(
        networks.trained(),
        training(),
        networks.batches(),
        lr=3e-3,
        epochs=2,
        penalties=(0.0, 10.0, 30.0),
        levels=(0.9,),
        per_layer=False,
        repeats=1,
    )


def loss_of(model: nn.Module) -> float:
    losses = []
    with torch.no_grad():
        for inputs, labels in networks.batches()[2:]:
            losses.append(F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten()))
    return float(torch.stack(losses).mean())


def zeros_before(model: nn.Module, path: str) -> float:
    """The share of zeros that a layer reads on the held-out half, by a hook."""
    seen = []
    layer = model.get_submodule(path)
    handle = layer.register_forward_pre_hook(lambda _, args: seen.append((args[0] == 0).float()))
    with torch.no_grad():
        for inputs, _ in networks.batches()[2:]:
            model(inputs)
    handle.remove()
    return float(torch.cat(seen).mean())


def test_zeros_are_gained_and_the_receipt_holds_against_hooks(result):
    original = networks.trained()
    assert [row.layer for row in result.layers] == [
        "blocks.0.feed_forward.down",
        "blocks.1.feed_forward.down",
    ]
    for row in result.layers:
        assert row.zeros == pytest.approx(zeros_before(original, row.layer), abs=1e-6)
        assert row.sparsity == pytest.approx(zeros_before(result.model, row.layer), abs=1e-6)
        assert row.sparsity > 0.5 > 0.01 > row.zeros and row.threshold == 0.0
    assert result.before.loss == pytest.approx(loss_of(original), rel=1e-5)
    assert result.after.loss == pytest.approx(loss_of(result.model), rel=1e-5)
    assert result.curve[0].quality.loss == pytest.approx(result.after.loss, rel=1e-5)
    assert result.timing is not None and result.after.difference > 0


def test_training_brings_loss_back_in_three_stages(result):
    training = result.training
    assert training.untrained.loss > result.after.loss
    assert [stage.penalty for stage in training.stages] == [0.0, 10.0, 30.0]
    assert [stage.steps for stage in training.stages] == [16, 16, 16] and training.steps == 48
    zeros = [stage.zeros for stage in training.stages]
    assert 0.4 < zeros[0] < 0.7 and zeros == sorted(zeros)


def test_the_penalty_gives_more_zeros_than_the_same_training_without_it(result):
    without = gw.sparsity.relufy(
        networks.trained(),
        training(),
        networks.batches(),
        lr=3e-3,
        epochs=2,
        penalties=(0.0,),
        levels=(),
        per_layer=False,
        repeats=1,
    )
    assert result.sparsity > without.sparsity + 0.05
    assert result.after.loss > without.after.loss  # more zeros are not free


def test_text_json_and_page(result, tmp_path):
    text = str(result)
    assert text.startswith("relu in place of 2 activations:") and "trained for 48 steps" in text
    record = json.loads(json.dumps(result.to_dict()))
    assert record["training"]["stages"][2]["penalty"] == 30.0 and record["method"] == "relu"
    page = gw.write_page(result, tmp_path / "relu.html")
    content = (tmp_path / "relu.html").read_text() if page is None else page.read_text()
    assert "penalty at its end" in content and "Quality against sparsity" in content


def test_the_original_is_left_as_it_was_and_the_result_skips_zeros(result):
    model = networks.trained()
    before = copy.deepcopy(model.state_dict())
    again = gw.sparsity.relufy(model, training(3), networks.batches(), per_layer=False, repeats=1)
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert not model.training
    assert not again.model.training
    assert isinstance(again.model.get_submodule("blocks.0.feed_forward.down"), SparseLinear)


def test_the_same_seed_trains_the_same_weights():
    runs = []
    for seed in (0, 0, 1):
        found = gw.sparsity.relufy(
            networks.trained(), training(6), networks.batches(), per_layer=False, seed=seed
        )
        runs.append(found.model.get_submodule("head").weight)
    assert torch.equal(runs[0], runs[1]) and not torch.equal(runs[0], runs[2])


@pytest.mark.parametrize("unit", ["relu", "shifted_relu", "relu2"])
@pytest.mark.parametrize("block", [networks.Gated, networks.FunctionalGated])
def test_own_modules_take_every_form(unit, block):
    torch.manual_seed(0)
    model = block()
    x = torch.randn(64, 16)
    found = gw.sparsity.relufy(
        model,
        [(x[:32], torch.randn(32, 16))],
        [(x[32:48], x[32:48]), (x[48:], x[48:])],
        unit=unit,
        shift=0.25,
        lr=1e-9,  # the weights stay, so that the function is known
        penalties=(0.0,),
        levels=(),
        repeats=1,
    )
    functions = {
        "relu": torch.relu,
        "shifted_relu": lambda g: torch.relu(g - 0.25),
        "relu2": lambda g: torch.relu(g).square(),
    }
    gate = functions[unit](model.gate(x))
    want = x + model.down(gate * model.up(x))
    torch.testing.assert_close(found.model(x), want, rtol=1e-4, atol=1e-4)
    (row,) = found.layers
    assert row.sparsity == pytest.approx(float((gate[48:] == 0).float().mean()), abs=1e-6)


def test_the_penalty_is_constant_first_and_then_rises_as_half_a_sine():
    weights = [penalty_at(step, 300, (0.1, 0.2, 0.6)) for step in range(300)]
    assert set(weights[:100]) == {0.1} and weights == sorted(weights)
    assert weights[100] == pytest.approx(0.1) and weights[150] == pytest.approx(0.15)
    assert weights[200] == pytest.approx(0.2) and weights[250] == pytest.approx(0.4)
    assert weights[299] == pytest.approx(0.6, abs=1e-4)
    assert ShiftedReLU(1.0)(torch.tensor([0.5, 3.0])).tolist() == [0.0, 2.0]


def test_the_penalty_is_the_effective_share_of_what_layers_read():
    torch.manual_seed(0)
    model = networks.Gated()
    x = torch.randn(6, 16)
    batch = TrainBatch(torch.tensor([0]), 0, ModelCall((x,), {}, torch.randn(6, 16)))
    place = Place("down", model.down, 1, 40)
    plain = PenalisedLoss([place], 1, (0.0,)).step(model, batch).losses
    with_penalty = PenalisedLoss([place], 1, (0.5,)).step(model, batch).losses
    read = (F.silu(model.gate(x)) * model.up(x)).detach()
    shares = [float(row.abs().sum() ** 2 / (40 * row.square().sum())) for row in read]
    added = float((with_penalty - plain).detach())
    assert added == pytest.approx(0.5 * sum(shares) / 6, rel=1e-4)


def test_the_effective_share_has_no_scale_and_no_gradient_at_zeros():
    x = torch.randn(5, 12).relu()
    assert effective_share(1000 * x) == pytest.approx(float(effective_share(x)), rel=1e-5)
    empty = torch.zeros(2, 3, requires_grad=True)
    effective_share(empty).backward()
    assert float(effective_share(empty.detach())) == 0.0 and empty.grad.tolist() == [[0.0] * 3] * 2


def test_norms_are_rectified_where_linear_layers_alone_read_them():
    model = networks.trained()
    found = gw.sparsity.relufy(
        model,
        training(4),
        networks.batches(),
        norms=True,
        lr=1e-9,  # the weights stay, so that the function is known
        penalties=(0.0,),
        levels=(),
        repeats=1,
    )
    assert found.training.activations == 2 and found.training.norms == 4
    assert "relu in place of 2 activations, ReLU after 4 norms" in str(found)
    assert found.left == {"norm": "it is read by the layer that makes the scores"}
    read = [row.layer for row in found.layers]
    assert {path.rpartition(".")[2] for path in read} == {"qkv", "layer", "down"}
    for row in found.layers:
        assert row.sparsity == pytest.approx(zeros_before(found.model, row.layer), abs=1e-6)
        assert 0.3 < row.sparsity < 0.8

    # The same by hooks on the original.
    want = copy.deepcopy(model)
    for block in want.blocks:
        for norm in (block.norm1, block.norm2):
            norm.register_forward_hook(lambda module, args, output: output.relu())
    want = gw.swap(want, "reglu", networks.batches()[0][0], gates=True)
    x = networks.batches()[3][0]
    torch.testing.assert_close(found.model(x), want(x), rtol=1e-4, atol=1e-4)


def test_a_rectified_norm_still_has_what_a_norm_has():
    norm = RectifiedNorm(nn.LayerNorm(4, eps=1e-3))
    assert norm.eps == 1e-3 and norm.weight is norm.norm.weight
    assert [name for name, _ in norm.named_parameters()] == ["norm.weight", "norm.bias"]
    copied = copy.deepcopy(norm)
    assert copied.weight is not norm.weight and copied(torch.randn(3, 4)).detach().min() == 0.0
    with pytest.raises(AttributeError, match="nothing"):
        _ = norm.nothing


class OtherReader(nn.Module):
    """A norm that something else than linear layers reads, too."""

    def __init__(self, reads) -> None:
        super().__init__()
        self.norm = nn.LayerNorm(16)
        self.inner = networks.Gated()
        self.out = nn.Linear(16, 16)
        self.reads = reads

    def forward(self, x):
        normed = self.norm(x)
        inner = self.inner
        gated = inner.down(inner.act(inner.gate(normed)) * inner.up(normed))
        return self.out(gated + self.reads(self, x, normed))


@pytest.mark.parametrize(
    ("reads", "words"),
    [
        (lambda self, x, normed: normed.data, "data reads its output too"),
        (lambda self, x, normed: (x @ normed.mT) @ x, "mT reads its output too"),
        (lambda self, x, normed: self.norm(input=x + 1), "add reads its output too"),
    ],
)
def test_every_reader_of_a_norm_is_seen(reads, words):
    x = torch.randn(8, 16)
    with pytest.raises(NotApplicableError, match=words):
        gw.sparsity.relufy(OtherReader(reads), [(x, x)], [(x, x)], norms=True)


def test_a_norm_that_blocks_share_is_rectified_in_all_of_them():
    shared = nn.LayerNorm(16)

    class Block(nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = shared
            self.inner = nn.Sequential(nn.Linear(16, 24), nn.GELU(), nn.Linear(24, 16))

        def forward(self, x):
            return x + self.inner(self.norm(x))

    model = nn.Sequential(Block(), Block())
    pairs = [(torch.randn(8, 16), torch.randn(8, 16)) for _ in range(4)]
    found = gw.sparsity.relufy(
        model, pairs, pairs, norms=True, levels=(), repeats=1, penalties=(0.0,)
    )
    assert found.model[0].norm is found.model[1].norm and found.training.norms == 1
    assert isinstance(found.model[0].norm, RectifiedNorm)
    assert min(row.sparsity for row in found.layers) > 0.2


def test_modes_are_those_of_the_model():
    model = OtherReader(lambda self, x, normed: 0).train()
    model.norm.eval()
    pairs = [(torch.randn(8, 16), torch.randn(8, 16)) for _ in range(4)]
    found = gw.sparsity.relufy(
        model, pairs, pairs, norms=True, levels=(), repeats=1, penalties=(0.0,)
    )
    modes = {path: module.training for path, module in found.model.named_modules()}
    assert {path for path, training in modes.items() if not training} == {"norm", "norm.norm"}


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_the_fast_form_of_torchs_encoder_layer_does_not_leave_the_changes_out(activation):
    layer = nn.TransformerEncoderLayer(
        16, 2, 32, dropout=0.0, activation=activation, norm_first=True, batch_first=True
    )
    model = nn.Sequential(layer, nn.Flatten(1), nn.Linear(96, 5)).eval()
    pairs = [(torch.randn(4, 6, 16), torch.randint(5, (4,))) for _ in range(6)]
    options = {"levels": (), "repeats": 1}
    for found in (
        gw.sparsity.relufy(
            model, pairs, pairs, norms=True, where="*norm*", penalties=(0.0,), **options
        ),
        gw.sparsify(model, pairs, target=0.5, **options),
    ):
        with torch.no_grad():
            fast = found.model(pairs[0][0])
        torch.testing.assert_close(fast, found.model(pairs[0][0]).detach())
        assert (fast - model(pairs[0][0]).detach()).abs().max() > 1e-3
    assert layer.activation_relu_or_gelu == (1 if activation == "relu" else 2)


class AfterSum(nn.Module):
    """A block with its norm after the sum: the norm is the residual stream."""

    def __init__(self) -> None:
        super().__init__()
        self.first = nn.LayerNorm(16)
        self.inner = networks.Gated()
        self.out = nn.Linear(16, 16)

    def forward(self, x):
        x = self.first(x)
        return self.out(self.inner(x) + x)


def test_a_norm_that_a_sum_reads_stays_as_it_is():
    x = torch.randn(8, 16)
    with pytest.raises(NotApplicableError, match="first: add reads its output too"):
        gw.sparsity.relufy(AfterSum(), [(x, x)], [(x, x)], norms=True)
    with pytest.raises(NotApplicableError, match="no norm"):
        gw.sparsity.relufy(networks.Gated(), [(x, x)], [(x, x)], norms=True)


def test_bad_input_is_one_error():
    model = networks.Gated()
    x = torch.randn(8, 16)
    pairs = [(x, x)]
    for options, words in (
        ({"epochs": 0}, "epochs is not allowed"),
        ({"lr": 0.0}, "lr is not allowed"),
        ({"norms": 1}, "norms is not allowed"),
        ({"norms": True, "where": 3}, "where: cannot select names"),
        ({"penalties": (0.0, 1.0)}, "fewer steps than penalties"),
        ({"penalties": ()}, "one weight or more"),
        ({"penalties": (float("nan"),)}, "a penalty is not allowed"),
        ({"target": 1.0}, "a target is not allowed"),
        ({"where": "nothing"}, "no smooth activation"),
    ):
        with pytest.raises(ArgumentError, match=words):
            gw.sparsity.relufy(model, pairs, pairs, **options)
    with pytest.raises(UnknownNameError):
        gw.sparsity.relufy(model, pairs, pairs, unit="selu")
    with pytest.raises(ArgumentError, match="training needs labels"):
        gw.sparsity.relufy(model, x, pairs)
    with pytest.raises(ArgumentError, match="no batch"):
        gw.sparsity.relufy(model, [], pairs)
    with pytest.raises(ArgumentError, match="no weight of the model can be trained"):
        gw.sparsity.relufy(networks.Gated().requires_grad_(False), pairs, pairs)
    already = nn.Sequential(nn.Linear(16, 8), nn.ReLU(), nn.Linear(8, 16))
    with pytest.raises(NotApplicableError, match="it is relu already"):
        gw.sparsity.relufy(already, pairs, pairs)
    with pytest.raises(NotApplicableError, match="diverged"):
        gw.sparsity.relufy(model, 3 * [(x, torch.full_like(x, 1e30))], pairs)
