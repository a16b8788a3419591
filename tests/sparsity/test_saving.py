"""A sparse model is not saved without its thresholds."""

import copy

import pytest
import torch

import gatewise as gw
from gatewise.errors import ArgumentError
from tests.sparsity import networks
from tests.sparsity.causal_models import llama


@pytest.mark.networks
def test_save_pretrained_refuses_a_sparse_model(tmp_path):
    model, batches = llama()
    for method in ("input", "gate"):
        found = gw.sparsify(
            model, batches, method=method, repeats=1, levels=(), per_layer=False
        ).model
        for each in (found, copy.deepcopy(found)):
            with pytest.raises(ArgumentError, match="thresholds of a sparse model would be lost"):
                each.save_pretrained(tmp_path / method)
        assert not (tmp_path / method).exists()
    model.save_pretrained(tmp_path / "dense")  # the original is saved as before
    assert (tmp_path / "dense" / "model.safetensors").is_file()


@pytest.mark.networks
def test_a_model_without_thresholds_above_zero_is_saved(tmp_path):
    model, batches = llama()
    found = gw.sparsify(model, batches, target=0.0, repeats=1, levels=(), per_layer=False).model
    found.save_pretrained(tmp_path)
    again = type(model).from_pretrained(tmp_path)
    with torch.no_grad():
        ids = batches[0]["input_ids"]
        torch.testing.assert_close(again(ids).logits, model(ids).logits)


def test_a_file_of_swaps_refuses_a_threshold_that_it_would_lose(tmp_path):
    model = networks.Gated().eval()
    x = torch.randn(64, 16)
    found = gw.sparsify(model, x, target=0.6, method="gate", repeats=1)
    with pytest.raises(ArgumentError, match="would lose it"):
        gw.save_swaps(found.model, tmp_path / "swaps.json")
    changed = gw.swap(networks.Gated().eval(), "thresholded", x, threshold=0.1)
    gw.save_swaps(changed, tmp_path / "swaps.json")
    again = gw.load_swaps(networks.Gated().eval(), tmp_path / "swaps.json")
    assert again.act.threshold == 0.1
