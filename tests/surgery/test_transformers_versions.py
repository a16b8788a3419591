"""Hugging Face models in the installed transformers: read, swap, save, load, diagnose."""

import importlib
import warnings

import pytest
import torch
from zoo import declare_missing_torchvision_operators

import gatewise as gw

pytestmark = [pytest.mark.networks, pytest.mark.slow]
SMALL = {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2}
IDS = {"input_ids": torch.arange(8).view(2, 4)}
MODELS = {
    "bert": (
        "BertForSequenceClassification",
        "BertConfig",
        SMALL | {"vocab_size": 50, "intermediate_size": 20, "num_labels": 3},
        IDS,
        "concat_act",
    ),
    "llama": (
        "LlamaForCausalLM",
        "LlamaConfig",
        SMALL | {"vocab_size": 50, "intermediate_size": 20, "use_cache": False},
        IDS,
        "relu",
    ),
    "resnet": (
        "ResNetForImageClassification",
        "ResNetConfig",
        {"embeddings_size": 8, "hidden_sizes": [8, 12], "depths": [1, 1], "num_labels": 3},
        {"pixel_values": torch.randn(4, 3, 32, 32)},
        "psc",
    ),
}


def build(name):
    declare_missing_torchvision_operators()
    library = importlib.import_module("transformers")
    model, config, options, example, unit = MODELS[name]
    torch.manual_seed(0)
    return getattr(library, model)(getattr(library, config)(**options)).eval(), example, unit


@pytest.mark.parametrize("name", MODELS)
def test_a_swapped_model_is_saved_and_loaded(name, tmp_path):
    model, example, unit = build(name)
    swapped = gw.swap(model, unit, example)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        swapped.save_pretrained(tmp_path)
    with torch.no_grad():
        expected = swapped(**example).logits
        loaded = gw.from_pretrained(tmp_path)
        torch.testing.assert_close(loaded(**example).logits, expected)


@pytest.mark.parametrize("name", MODELS)
def test_every_question_is_answered_or_does_not_apply(name):
    model, example, _ = build(name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        diagnosis = gw.diagnose(model, [example], seconds=2.0, questions="all")
    for question in diagnosis.to_dict()["questions"]:
        assert question["state"] in ("answered", "does not apply"), question
