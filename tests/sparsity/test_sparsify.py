"""Sparsify: thresholds, curves, receipts and the page, on a small language model trained here."""

import json

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.errors import ArgumentError, Limitation, NotApplicableError, UnknownNameError
from gatewise.sparsity import SparseLinear, threshold_for
from tests.sparsity import networks


@pytest.fixture(scope="module")
def result():
    return gw.sparsify(networks.trained(), networks.batches(), target=0.5, repeats=1)


def independent_loss(model: nn.Module, thresholds: dict[str, float]) -> float:
    """The loss on the held-out half, thresholds written as hooks."""
    handles = []
    for path, threshold in thresholds.items():

        def hook(module, args, t=threshold):
            return (torch.where(args[0].abs() > t, args[0], torch.zeros(())),)

        handles.append(model.get_submodule(path).register_forward_pre_hook(hook))
    losses = []
    with torch.no_grad():
        for inputs, labels in networks.batches()[2:]:
            losses.append(F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten()))
    for handle in handles:
        handle.remove()
    return float(torch.stack(losses).mean())


@pytest.mark.slow
def test_the_curve_falls_with_sparsity_and_holds_against_hooks(result):
    sparsities = [point.sparsity for point in result.curve]
    losses = [point.quality.loss for point in result.curve]
    assert [point.target for point in result.curve] == [0.0, 0.25, 0.5, 0.75, 0.9]
    assert sparsities == sorted(sparsities) and losses[0] < losses[2] < losses[4]
    model = networks.trained()
    assert result.before.loss == pytest.approx(independent_loss(model, {}), rel=1e-5)
    assert result.after.loss == pytest.approx(independent_loss(model, result.thresholds), rel=1e-4)
    assert result.after.perplexity == pytest.approx(float(torch.tensor(result.after.loss).exp()))
    assert result.curve[0].quality.difference == 0 and result.curve[0].quality.agreement == 1


def test_every_layer_has_its_own_curve(result):
    model = networks.trained()
    assert set(result.layer_curves) == {row.layer for row in result.layers}
    name = "blocks.1.feed_forward.down"
    point = result.layer_curves[name][-1]
    assert point.target == 0.9 and point.sparsity == pytest.approx(0.9, abs=0.03)
    inputs = []
    layer = model.get_submodule(name)
    handle = layer.register_forward_pre_hook(lambda module, args: inputs.append(args[0]))
    with torch.no_grad():
        for batch, _ in networks.batches()[:2]:
            model(batch)
    handle.remove()
    magnitudes = torch.cat(inputs).abs().flatten().sort().values
    threshold = float(magnitudes[int(0.9 * len(magnitudes)) - 1])
    assert point.quality.loss == pytest.approx(independent_loss(model, {name: threshold}), rel=1e-3)


def test_the_shares_are_those_of_the_held_out_half(result):
    row = result.layers[0]
    assert row.layer == "blocks.0.attention.qkv" and row.zeros == 0
    inputs = []
    model = networks.trained()
    handle = model.get_submodule(row.layer).register_forward_pre_hook(
        lambda module, args: inputs.append(args[0])
    )
    with torch.no_grad():
        for batch, _ in networks.batches()[2:]:
            model(batch)
    handle.remove()
    small = torch.cat(inputs).abs() <= row.threshold  # nothing before the first layer has changed
    assert row.sparsity == pytest.approx(float(small.float().mean()), rel=1e-6)
    assert row.by_token[0] <= row.by_token[1] <= row.by_token[2]
    assert result.tokens == 2 * 16 * 24
    weights = [each.weights for each in result.layers]
    weighted = sum(each.sparsity * each.weights for each in result.layers) / sum(weights)
    assert result.sparsity == pytest.approx(weighted) and result.reached


def test_the_sparse_model_computes_with_its_thresholds_for_one_row_and_for_many(result):
    inputs, _ = networks.batches()[2]
    sparse = result.model
    layers = [module for module in sparse.modules() if isinstance(module, SparseLinear)]
    assert len(layers) == 8 and type(sparse.get_submodule("head")) is nn.Linear
    assert "head" in result.left
    with torch.no_grad():
        for layer in layers:
            layer.store_by_inputs()
        many = sparse(inputs)[:1, :1]
        one = sparse(inputs[:1, :1])
    torch.testing.assert_close(one, many, rtol=1e-4, atol=1e-4)


def test_the_original_is_left_as_it_was():
    model = networks.trained()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    strides = [weight.stride() for weight in model.parameters()]
    classes = [type(module) for module in model.modules()]
    gw.sparsify(model, networks.batches(), per_layer=False, repeats=1)
    assert [type(module) for module in model.modules()] == classes
    assert [weight.stride() for weight in model.parameters()] == strides
    assert all(torch.equal(before[name], value) for name, value in model.state_dict().items())
    assert not any(module._forward_pre_hooks for module in model.modules())


def test_in_place_changes_the_model_itself_and_keeps_its_parameters():
    model = networks.Gated()
    parameters = list(model.parameters())
    model.train()
    found = gw.sparsify(model, torch.randn(64, 16), target=0.4, inplace=True, repeats=1)
    assert found.model is model and model.training and isinstance(model.down, SparseLinear)
    assert all(one is two for one, two in zip(parameters, model.parameters(), strict=True))


def test_in_place_puts_everything_back_after_an_error():
    model = networks.Gated()

    def fails(model):
        raise RuntimeError("no")

    for method in ("input", "gate"):
        with pytest.raises(RuntimeError, match="no"):
            gw.sparsify(model, torch.randn(8, 16), method=method, evaluate=fails, inplace=True)
        assert type(model.down) is nn.Linear and type(model.act) is nn.SiLU


@pytest.mark.parametrize("block", [networks.Gated, networks.FunctionalGated])
def test_gates_get_a_threshold_and_the_next_layer_skips_their_zeros(block):
    torch.manual_seed(0)
    model = block().eval()
    x = torch.randn(64, 16)
    found = gw.sparsify(model, x, target=0.6, method="gate", repeats=1)
    (row,) = found.layers
    assert row.kind == "gate" and row.weights == 640
    assert found.sparsity == pytest.approx(0.6, abs=0.05)
    with torch.no_grad():
        gate = F.silu(model.gate(x))
        kept = torch.where(gate.abs() > row.threshold, gate, torch.zeros(()))
        want = x + model.down(kept * model.up(x))
        torch.testing.assert_close(found.model(x), want)
        torch.testing.assert_close(found.model(x[:1]), want[:1])
    assert isinstance(found.model.down, SparseLinear) and type(found.model.up) is nn.Linear


def test_relu_is_sparse_already_and_loses_nothing():
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
    found = gw.sparsify(model, torch.randn(200, 16), target=0.3, where="2", repeats=1)
    (row,) = found.layers
    assert row.zeros > 0.4 and row.threshold == 0 and found.after.difference == 0


def test_a_target_that_cannot_be_reached_says_how_far_it_got():
    model = nn.Sequential(nn.Linear(8, 8))
    signs = torch.randn(64, 8).sign()
    found = gw.sparsify(model, signs, target=0.5, repeats=1)
    assert not found.reached and found.sparsity == 0
    assert "target of 50.0% was not reached: 0.0% became zero" in str(found)


def test_thresholds_are_quantiles_of_the_magnitude():
    values = torch.randn(1000).sort().values.abs().sort().values
    for target in (0.1, 0.5, 0.9):
        share = float((values <= threshold_for(values, target)).float().mean())
        assert share == pytest.approx(target, abs=1e-3)
    shifted = (torch.randn(5000) + 0.3).abs().sort().values  # not symmetric around zero
    assert float((shifted <= threshold_for(shifted, 0.5)).float().mean()) == pytest.approx(0.5)
    tied = torch.tensor([0.0, 1, 2, 2, 2, 2, 2, 2, 3, 4])
    assert threshold_for(tied, 0.5) == 1.0  # 2 would set 80 % to zero
    assert threshold_for(torch.zeros(10), 0.5) == 0.0
    assert threshold_for(tied, 0.0) == 0.0


def test_evaluate_and_regression_and_hugging_face_style_outputs():
    model = networks.Gated().eval()
    x = torch.randn(32, 16)
    found = gw.sparsify(model, [(x, x), (x, 2 * x)], evaluate=lambda model: 3.0, repeats=1)
    assert found.before.score == 3.0 and found.curve[-1].quality.score == 3.0
    with torch.no_grad():
        assert found.before.loss == pytest.approx(float((model(x) - 2 * x).square().mean()))

    class Named(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer = nn.Linear(16, 5)

        def forward(self, inputs, labels=None):
            scores = self.layer(inputs)
            loss = F.cross_entropy(scores, labels) if labels is not None else None
            return Output(scores, loss)

    class Output:
        def __init__(self, logits, loss):
            self.logits = logits
            self.loss = loss

    labels = torch.arange(32) % 5
    named = Named().eval()
    batch = {"inputs": x, "labels": labels}
    found = gw.sparsify(named, [batch, batch], repeats=1)
    with torch.no_grad():
        want = float(F.cross_entropy(named.layer(x), labels))
    assert found.before.loss == pytest.approx(want, rel=1e-5)


def test_measure_sparsity_counts_zeros_and_small_numbers_by_layer_and_token():
    model = nn.Sequential(nn.Linear(16, 64), nn.ReLU(), nn.Linear(64, 4))
    x = torch.randn(50, 16)
    found = gw.sparsity.measure_sparsity(model, x, below=0.2)
    with torch.no_grad():
        hidden = model[1](model[0](x))
    first, second = found.layers
    assert first.zeros == 0 and second.zeros == pytest.approx(float((hidden == 0).float().mean()))
    small = hidden.abs() <= 0.2
    assert second.sparsity == pytest.approx(float(small.float().mean()), rel=1e-6)
    by_token = small.float().mean(1).sort().values
    assert second.by_token[1] == pytest.approx(float(by_token[round(49 * 0.5)]))
    assert "zeros" in str(found)


def test_the_receipt_and_the_page_say_the_same(result, tmp_path):
    text = str(result)
    assert (
        f"{result.sparsity:.1%}" in text and "perplexity" in text and "time for one input" in text
    )
    record = json.loads(json.dumps(result.to_dict(), allow_nan=False))
    page = gw.write_page(record, tmp_path / "sparse.html").read_text()
    assert f"{result.sparsity:.1%} of the numbers" in page and "blocks.1.feed_forward.down" in page
    assert "http" not in page.split("<body", 1)[1].replace("http://www.w3.org", "")
    del record["curve"]
    with pytest.raises(ArgumentError, match="not complete"):
        gw.write_page(record, tmp_path / "sparse.html")


def test_bad_input_is_one_error():
    model = networks.Gated()
    x = torch.randn(8, 16)
    for wrong in (1.0, -0.1, "half", True, float("nan")):
        with pytest.raises(ArgumentError, match="target"):
            gw.sparsify(model, x, target=wrong)
    with pytest.raises(UnknownNameError, match="method"):
        gw.sparsify(model, x, method="weights")
    with pytest.raises(ArgumentError, match="no batch"):
        gw.sparsify(model, [])
    with pytest.raises(ArgumentError, match="evaluate"):
        gw.sparsify(model, x, evaluate=3)
    with pytest.raises(ArgumentError, match="finite number"):
        gw.sparsify(model, x, evaluate=lambda model: "good")
    for wrong in (None, 0.5, "0.5"):
        with pytest.raises(ArgumentError, match="list of shares"):
            gw.sparsify(model, x, levels=wrong)
    for wrong in (3, [3]):
        with pytest.raises(ArgumentError, match="where: cannot select"):
            gw.sparsify(model, x, where=wrong)
    with pytest.raises(ArgumentError, match="no values"):
        gw.sparsify(networks.Gated().to("meta"), x)
    with pytest.raises(ArgumentError, match="_orig_mod"):
        gw.sparsify(torch.compile(model), x)
    with pytest.raises(ArgumentError, match=r"not a torch\.nn\.Module"):
        gw.sparsify("model", x)
    with pytest.raises(ArgumentError, match="labels do not fit"):
        gw.sparsify(model, [(x, torch.zeros(3)), (x, torch.zeros(3))])
    with pytest.raises(NotApplicableError, match="no linear layer") as convolution:
        gw.sparsify(nn.Sequential(nn.Conv1d(2, 2, 1)), torch.randn(4, 2, 5))
    assert convolution.value.limitation is Limitation.NO_LAYER
    with pytest.raises(NotApplicableError, match="not chosen"):
        gw.sparsify(model, x, where="nothing*")
    with pytest.raises(NotApplicableError, match="no gate"):
        gw.sparsify(nn.Sequential(nn.Linear(16, 4)), x, method="gate")
    with pytest.raises(ArgumentError, match="below"):
        gw.sparsity.measure_sparsity(model, x, below=-1)


def test_layers_that_cannot_skip_are_named():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.embed = nn.Embedding(10, 8)
            self.inner = nn.Linear(8, 8)
            self.unused = nn.Linear(8, 8)
            self.head = nn.Linear(8, 10, bias=False)
            self.head.weight = self.embed.weight

        def forward(self, ids):
            return self.head(torch.relu(self.inner(self.embed(ids))))

    ids = torch.randint(0, 10, (8, 6))
    found = gw.sparsify(Tied(), ids, repeats=1)
    assert [row.layer for row in found.layers] == ["inner"]
    assert "used elsewhere" in found.left["head"]
    assert "does not reach" in found.left["unused"]


def test_a_receipt_says_what_is_left_dense_and_how_to_include_it():
    model = gw.models.create_model(
        "small_llama", unit="swiglu", width=32, depth=1, heads=2, classes=16, length=24
    )
    data = [networks.rows(8, 1), networks.rows(8, 2)]
    found = gw.sparsify(model, data, target=0.5, levels=(), per_layer=False)
    said = str(found).splitlines()
    assert 'head: left dense (output layer; where="*" to include it)' in said
    assert any(
        line.startswith("Zeros are only skipped when a layer sees one row at a time; here it sees")
        for line in said
    )
    assert " of the places" in str(found) and found.after.predicts == "places"
    everything = gw.sparsify(model, data, target=0.5, levels=(), per_layer=False, where="*")
    assert "head" in everything.thresholds and not everything.left
    one = gw.sparsify(model, data, target=0.5, levels=(), per_layer=False, where="head")
    [line] = [line for line in str(one).splitlines() if "left dense" in line]
    assert line.count(", ") == 2 and " and blocks" in line
    assert line.endswith(": left dense (not chosen)")


def test_a_receipt_of_a_classifier_counts_inputs_and_an_untrained_model_is_named():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 40), nn.ReLU(), nn.Linear(40, 3))
    data = [(torch.randn(16, 8), torch.randint(0, 3, (16,))) for _ in range(2)]
    options = {"target": 0.5, "levels": (), "per_layer": False}
    fresh = str(gw.sparsify(model, data, **options))
    assert " of the inputs" in fresh and "of the places" not in fresh
    assert "the model is untrained" in fresh
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(2)
    assert "untrained" not in str(gw.sparsify(model, data, **options))
