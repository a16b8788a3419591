"""What a sparse model is timed on, and the zeros of the rows that were timed."""

import pytest
import torch
from torch import nn

import gatewise as gw
from gatewise.batches import ModelCall
from gatewise.sparsity import SparseLinear
from gatewise.sparsity.single_inputs import NextToken, WholeInput, single_inputs
from tests.sparsity import networks
from tests.sparsity.causal_models import bert, llama


@pytest.mark.networks
def test_a_causal_model_is_timed_on_one_token_behind_others_with_its_cache():
    model, batches = llama()
    found = gw.sparsify(model, batches, repeats=1, levels=(), per_layer=False)
    assert found.timing.rows == 1
    assert found.timing.what == "one token at position 56, with a cache,"
    assert "time for one token at position 56" in str(found)
    inputs = single_inputs(model, ModelCall((), {"input_ids": batches[0]["input_ids"]}))
    lengths = [each.tokens.shape[1] for each in inputs]
    assert lengths == list(range(57, 65))
    token = inputs[3]
    with torch.no_grad():
        whole = model(input_ids=token.tokens).logits[:, -1]
        step = token.run(model, token.start(model)).logits[:, -1]
    torch.testing.assert_close(step, whole, rtol=1e-4, atol=1e-5)


@pytest.mark.networks
def test_the_zeros_are_those_of_the_rows_that_were_timed():
    model, batches = llama()
    found = gw.sparsify(model, batches, repeats=1, levels=(), per_layer=False)
    (ids,) = [batches[2]["input_ids"][:1]]  # the first text of the held-out half
    small = {}
    weights = {}

    def count(path: str, module: SparseLinear):
        def hook(_, args):
            values = args[0][0, -1:]
            share = float((values.abs() <= module.threshold).float().mean())
            small.setdefault(path, []).append(share)

        weights[path] = module.weight.numel()
        return module.register_forward_pre_hook(hook)

    layers = {
        path: each for path, each in found.model.named_modules() if type(each) is SparseLinear
    }
    handles = [count(path, each) for path, each in layers.items()]
    with torch.no_grad():  # whole texts: the last row is that of the token with a cache
        for last in range(57, 65):
            found.model(input_ids=ids[:, :last], use_cache=False)
    for handle in handles:
        handle.remove()
    means = {path: sum(shares) / len(shares) for path, shares in small.items()}
    want = sum(means[path] * weights[path] for path in means) / sum(weights.values())
    assert found.timing.zeros == pytest.approx(want, abs=0.01)
    assert f"{found.timing.zeros:.1%} of the numbers in it zero" in str(found)


@pytest.mark.networks
def test_a_model_that_is_not_causal_is_timed_on_whole_inputs():
    model, batches = bert()
    found = gw.sparsify(model, batches, repeats=1, levels=(), per_layer=False)
    assert found.timing.what == "one input" and found.timing.rows == 20
    # Only the pooler reads one row. The other layers keep their weights in place.
    timed = {each.layer for each in found.times}
    assert timed <= {"pooler.dense"}
    for path, layer in found.model.named_modules():
        if type(layer) is SparseLinear and path != "pooler.dense":
            assert not layer.skips
    assert "here it sees 20." in str(found)


class WrongCache(nn.Module):
    """Returns a cache that it does not use."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, input_ids, past_key_values=None, use_cache=False):
        return self.inner(input_ids=input_ids, use_cache=True)


@pytest.mark.networks
def test_a_cache_that_changes_the_scores_is_not_timed():
    model, batches = llama()
    batch = ModelCall((), {"input_ids": batches[0]["input_ids"]})
    with torch.no_grad():
        assert all(isinstance(each, NextToken) for each in single_inputs(model, batch))
        wrong = single_inputs(WrongCache(model), batch)
    assert all(isinstance(each, WholeInput) for each in wrong)


def test_single_layers_are_left_out_where_they_take_long_and_the_note_says_how_long(monkeypatch):
    from gatewise.sparsity import sparsifying

    model = networks.trained()
    found = gw.sparsify(model, networks.batches(), repeats=1)
    assert len(found.layer_curves) == 8
    monkeypatch.setattr(sparsifying, "QUICK", 0.0)
    found = gw.sparsify(model, networks.batches(), repeats=1)
    assert found.layer_curves == {} and "per_layer=True" in str(found)
    asked = gw.sparsify(model, networks.batches(), repeats=1, per_layer=True)
    assert len(asked.layer_curves) == 8


def test_progress_says_the_cost_first_and_an_interruption_keeps_what_is_done():
    told = []

    def progress(words: str, done: int, total: int | None) -> None:
        told.append((words, done, total))
        if (done, total) == (3, 8):
            raise KeyboardInterrupt

    found = gw.sparsify(
        networks.trained(), networks.batches(), repeats=1, per_layer=True, progress=progress
    )
    layers = [each for each in told if each[2] == 8]
    assert layers[0][0].startswith("single layers, 0:") and layers[0][1] == 0
    assert len(found.layer_curves) == 3
    assert "interrupted: 3 of 8 layers" in str(found)
    whole = gw.sparsify(networks.trained(), networks.batches(), repeats=1)
    for name, curve in found.layer_curves.items():
        assert curve == whole.layer_curves[name]
