"""Swapped models that are saved and loaded are the swapped models."""

import importlib
import json
import subprocess
import sys
import warnings

import pytest
import torch
from torch import nn
from zoo import declare_missing_torchvision_operators

import gatewise as gw
from gatewise.errors import ArgumentError, DamagedFileError, SavedSwapWarning

IDS = {"input_ids": torch.arange(20).view(2, 10) % 50}
IMAGES = {"pixel_values": torch.randn(2, 3, 32, 32)}
SMALL = {
    "vocab_size": 50,
    "hidden_size": 16,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "use_cache": False,
}
MODELS = {
    "llama": ("LlamaForCausalLM", "LlamaConfig", SMALL | {"intermediate_size": 20}, IDS),
    "bert": ("BertForMaskedLM", "BertConfig", SMALL | {"intermediate_size": 20}, IDS),
    "opt": (
        "OPTForCausalLM",
        "OPTConfig",
        SMALL | {"ffn_dim": 20, "word_embed_proj_dim": 16},
        IDS,
    ),
    "resnet": (
        "ResNetForImageClassification",
        "ResNetConfig",
        {"embeddings_size": 8, "hidden_sizes": [8, 12], "depths": [1, 1], "num_labels": 3},
        IMAGES,
    ),
}


def transformers():
    declare_missing_torchvision_operators()
    return importlib.import_module("transformers")


def build(name):
    model, config, options, example = MODELS[name]
    library = transformers()
    torch.manual_seed(0)
    return getattr(library, model)(getattr(library, config)(**options)).eval(), example


def moved(model):
    """The model with other weights than those that its seed gave it, as after training."""
    torch.manual_seed(1)
    with torch.no_grad():
        for value in model.parameters():
            value.add_(torch.randn_like(value) * 0.05)
    return model


def logits(model, example):
    with torch.no_grad():
        return model(**example).logits


def save(model, folder):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.save_pretrained(folder)
    return [item for item in caught if issubclass(item.category, SavedSwapWarning)]


CASES = [
    ("llama", "relu", False),
    ("llama", "concat_act", False),
    ("bert", "concat_act", True),
    ("bert", "swish", False),
    ("opt", "psc", True),
    ("resnet", "crelu", True),
    ("resnet", "crelu", False),
    ("resnet", "psc", True),
]


@pytest.mark.networks
@pytest.mark.parametrize(("name", "unit", "preserve"), CASES)
def test_a_hugging_face_model_is_loaded_as_it_was_saved(name, unit, preserve, tmp_path):
    original, example = build(name)
    model = moved(gw.swap(original, unit, example, preserve=preserve))
    save(model, tmp_path)
    loaded = gw.from_pretrained(tmp_path)
    assert type(loaded) is type(original)
    torch.testing.assert_close(logits(loaded, example), logits(model, example))
    assert gw.receipt(loaded).sites == gw.receipt(model).sites
    loaded.config.name_or_path = model.config.name_or_path
    assert model.config.to_dict() == loaded.config.to_dict()


PLAIN = """
import sys, torch
sys.path[:0] = {path!r}
from zoo import declare_missing_torchvision_operators
declare_missing_torchvision_operators()
import transformers
model = transformers.{kind}.from_pretrained({folder!r})
torch.save(model({example}).logits, {folder!r} + "/logits")
"""


def load_without_gatewise(kind, folder, example):
    words = ", ".join(f"{key}=torch.tensor({value.tolist()})" for key, value in example.items())
    script = PLAIN.format(
        path=[p for p in sys.path if p.endswith("tests")],
        kind=kind,
        folder=str(folder),
        example=words,
    )
    return subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, check=False
    )


@pytest.mark.networks
@pytest.mark.slow
def test_transformers_alone_loads_what_a_field_of_the_configuration_says(tmp_path):
    original, example = build("llama")
    model = moved(gw.swap(original, "relu", example))
    assert save(model, tmp_path) == []
    assert model.config.hidden_act == "silu"
    assert json.loads((tmp_path / "config.json").read_text())["hidden_act"] == "relu"
    done = load_without_gatewise("LlamaForCausalLM", tmp_path, example)
    assert done.returncode == 0, done.stderr
    plain = torch.load(tmp_path / "logits", weights_only=True)
    torch.testing.assert_close(plain, logits(model, example))


@pytest.mark.networks
def test_transformers_alone_refuses_what_it_would_load_wrongly(tmp_path):
    original, example = build("opt")
    model = moved(gw.swap(original, "psc", example, preserve=True))
    assert len(save(model, tmp_path)) == 1
    with pytest.raises(Exception, match=r"gatewise\.from_pretrained"):
        type(original).from_pretrained(tmp_path)
    with pytest.raises(ArgumentError, match="not a class of transformers"):
        gw.from_pretrained(tmp_path, model_class=transformers().AutoModelForCausalLM)


@pytest.mark.slow
@pytest.mark.networks
def test_a_field_that_says_too_much_is_not_used(tmp_path):
    original, example = build("llama")
    model = gw.swap(original, "relu", example, where="model.layers.0.*")
    assert len(save(model, tmp_path)) == 1
    assert json.loads((tmp_path / "config.json").read_text())["hidden_act"] == "silu"
    torch.testing.assert_close(
        logits(gw.from_pretrained(tmp_path), example), logits(model, example)
    )


@pytest.mark.slow
@pytest.mark.networks
def test_a_folder_that_is_used_again_forgets_the_swap(tmp_path):
    original, example = build("llama")
    save(gw.swap(original, "concat_act", example), tmp_path)
    original.save_pretrained(tmp_path)
    with pytest.raises(ArgumentError, match="holds no swapped model"):
        gw.from_pretrained(tmp_path)
    plain = type(original).from_pretrained(tmp_path)
    torch.testing.assert_close(logits(plain, example), logits(original, example))


@pytest.mark.slow
@pytest.mark.networks
def test_a_damaged_file_of_swaps_is_not_used(tmp_path):
    original, example = build("llama")
    save(gw.swap(original, "concat_act", example), tmp_path)
    file = tmp_path / "gatewise_swaps.json"
    file.write_text(file.read_text()[:-5])
    with pytest.raises(DamagedFileError):
        gw.from_pretrained(tmp_path)


@pytest.mark.networks
def test_a_loaded_model_can_be_undone_to_its_trained_weights(tmp_path):
    original, example = build("opt")
    model = gw.swap(original, "psc", example, preserve=True)
    save(model, tmp_path)
    loaded = gw.from_pretrained(tmp_path)
    with pytest.raises(ArgumentError, match="not in the folder"):
        gw.undo(loaded)
    gw.undo(loaded, weights="trained")
    torch.testing.assert_close(logits(loaded, example), logits(original, example))


@pytest.mark.networks
def test_a_swapped_body_is_loaded_under_a_head(tmp_path):
    library = transformers()
    config = library.BertConfig(**SMALL, intermediate_size=20)
    body = moved(gw.swap(library.BertModel(config).eval(), "concat_act", IDS))
    save(body, tmp_path)
    with_head = gw.from_pretrained(tmp_path, model_class=library.BertForSequenceClassification)
    with torch.no_grad():
        torch.testing.assert_close(
            with_head.bert(**IDS).last_hidden_state, body(**IDS).last_hidden_state
        )


@pytest.mark.networks
@pytest.mark.parametrize("unit", ["relu", "mish", "concat_act"])
def test_the_body_of_a_swapped_model_is_saved_with_its_swaps(unit, tmp_path):
    model, example = build("llama")
    swapped = moved(gw.swap(model, unit, example))
    save(swapped.base_model, tmp_path)
    loaded = gw.from_pretrained(tmp_path, model_class=type(model))
    with torch.no_grad():
        expected = swapped.base_model(**example).last_hidden_state
        torch.testing.assert_close(loaded.base_model(**example).last_hidden_state, expected)


@pytest.mark.networks
def test_a_model_with_a_swapped_body_is_saved_with_its_swaps(tmp_path):
    model, example = build("llama")
    model.model = gw.swap(model.model, "concat_act", example)
    save(moved(model), tmp_path)
    loaded = gw.from_pretrained(tmp_path)
    torch.testing.assert_close(logits(loaded, example), logits(model, example))


@pytest.mark.networks
def test_a_body_that_is_taken_out_of_a_swapped_model_keeps_its_swaps(tmp_path):
    model, example = build("llama")
    other, _ = build("llama")
    other.model = moved(gw.swap(model, "concat_act", example)).model
    save(other, tmp_path)
    torch.testing.assert_close(
        logits(gw.from_pretrained(tmp_path), example), logits(other, example)
    )


@pytest.mark.slow
@pytest.mark.networks
def test_the_body_is_saved_as_it_is_after_the_swap_was_undone(tmp_path):
    model, example = build("llama")
    swapped = gw.undo(gw.swap(model, "mish", example))
    assert not save(swapped.base_model, tmp_path)
    assert not (tmp_path / "gatewise_swaps.json").exists()


@pytest.mark.slow
@pytest.mark.networks
def test_a_deployed_model_is_not_loaded_as_the_original(tmp_path):
    model, example = build("resnet")
    deployed = gw.surgery.deploy(gw.swap(model, "mish", example), example)
    assert "cannot save how this model was changed" in str(save(deployed, tmp_path)[0].message)
    with pytest.raises(Exception, match="was swapped"):
        type(model).from_pretrained(tmp_path)


def plain_network():
    return nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 6, 3), nn.ReLU(), nn.Flatten(), nn.Linear(96, 3)
    )


@pytest.mark.parametrize("unit", ["crelu", "psc", "swish", "mish"])
@pytest.mark.parametrize("device", ["cpu", "meta"])
def test_swaps_are_repeated_on_a_new_model_before_its_weights_are_loaded(unit, device, tmp_path):
    x = torch.randn(2, 3, 8, 8)
    model = moved(gw.swap(plain_network(), unit, x, where=["1", "3"]))
    gw.save_swaps(model, tmp_path / "swaps.json")
    with torch.device(device):
        new = gw.load_swaps(plain_network(), tmp_path / "swaps.json")
    new.load_state_dict(model.state_dict(), assign=device == "meta")
    torch.testing.assert_close(new(x), model(x))
    assert "not proved" in str(gw.receipt(new)).lower()


def test_several_swaps_are_repeated_in_their_order(tmp_path):
    x = torch.randn(2, 3, 8, 8)
    model = gw.swap(plain_network(), "crelu", x, where="1", preserve=True)
    model = moved(gw.swap(model, "swish", x, where="3"))
    gw.save_swaps(model, tmp_path / "swaps.json")
    new = gw.load_swaps(plain_network(), tmp_path / "swaps.json")
    new.load_state_dict(model.state_dict())
    torch.testing.assert_close(new(x), model(x))


def test_a_model_of_other_sizes_is_refused(tmp_path):
    x = torch.randn(2, 3, 8, 8)
    gw.save_swaps(gw.swap(plain_network(), "crelu", x, where="1"), tmp_path / "swaps.json")
    other = nn.Sequential(nn.Conv2d(3, 9, 3), nn.ReLU(), nn.Conv2d(9, 6, 3))
    with pytest.raises(ArgumentError, match="not those of the model that was swapped"):
        gw.load_swaps(other, tmp_path / "swaps.json")


def test_a_plan_is_made_and_applied_inside_a_meta_device():
    with torch.device("meta"):
        model = plain_network()
        gw.swap(model, "crelu", torch.randn(2, 3, 8, 8), width="same", where="1", inplace=True)
    assert model[2].weight.shape == (6, 16, 3, 3) and model[2].weight.is_meta


@pytest.mark.parametrize("parameters", [1, 6])
def test_the_slopes_of_an_original_checkpoint_load_into_the_unit(parameters):
    def build():
        return nn.Sequential(nn.Linear(4, 6), nn.PReLU(parameters), nn.Linear(6, 2))

    x = torch.randn(5, 4)
    trained = build()
    nn.init.uniform_(trained[1].weight)
    swapped = gw.swap(build(), "prelu", x)
    swapped.load_state_dict(trained.state_dict())
    torch.testing.assert_close(swapped(x), trained(x))


class WithFeatures(nn.Module):
    """A network with other ways in than ``forward``, as in timm."""

    def __init__(self):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 4, 3))
        self.feature_info = [{"num_chs": 8, "module": "body.1"}]

    def forward_features(self, x):
        return self.body[:2](x)

    def forward(self, x):
        return self.body[2](self.forward_features(x)).mean((2, 3))


def test_a_plan_that_changes_widths_names_other_entry_points():
    x = torch.randn(2, 3, 8, 8)
    for unit in ("crelu", "psc"):
        text = str(gw.plan(WithFeatures(), unit, x, preserve=True))
        assert "forward_features" in text and "feature_info are not updated" in text
    assert "forward_features" not in str(gw.plan(WithFeatures(), "silu", x))
