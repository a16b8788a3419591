"""Folders and files that ``save_pretrained`` wrote, in every command that reads a model."""

import json
import sys

import pytest
import torch
from safetensors.torch import load_file, save_file

from gatewise.cli.options import load_model, load_weights
from gatewise.errors import ArgumentError
from gatewise.files import read_tensors
from gatewise.surgery import Plan
from tests.sparsity.causal_models import bert, llama

pytestmark = pytest.mark.networks
INPUT = ("--input", "input_ids=int:2x9")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder of a small Llama with tied weights, and what the model returns."""
    model, _ = llama()
    place = tmp_path_factory.mktemp("llama")
    model.save_pretrained(place)
    assert "lm_head.weight" not in load_file(place / "model.safetensors")
    ids = torch.arange(18).view(2, 9)
    with torch.no_grad():
        return place, ids, model(ids).logits


def test_weights_of_save_pretrained_fit_the_configuration(folder):
    place, ids, logits = folder
    model = load_model(f"hf:{place / 'config.json'}").eval()
    with torch.no_grad():
        assert not torch.equal(model(ids).logits, logits)
    load_weights(model, place / "model.safetensors", trust=False, command="gatewise")
    with torch.no_grad():
        assert torch.equal(model(ids).logits, logits)
    assert model.lm_head.weight is model.model.embed_tokens.weight


def test_a_folder_is_a_model_with_its_weights(folder):
    place, ids, logits = folder
    with torch.no_grad():
        assert torch.equal(load_model(f"hf:{place}").eval()(ids).logits, logits)


def test_buffers_that_the_model_computes_itself_may_be_in_the_file(tmp_path):
    model, _ = bert()
    model.save_pretrained(tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    weights["embeddings.position_ids"] = model.embeddings.position_ids.clone()
    save_file(weights, tmp_path / "old.safetensors")
    again = load_model(f"hf:{tmp_path / 'config.json'}")
    load_weights(again, tmp_path / "old.safetensors", trust=False, command="gatewise")
    for name, value in model.state_dict().items():
        assert torch.equal(again.state_dict()[name], value), name


@pytest.mark.parametrize("change", ["missing", "unknown", "shape"])
def test_weights_that_do_not_fit_are_still_refused(folder, tmp_path, change):
    place, _, _ = folder
    weights = load_file(place / "model.safetensors")
    name = "model.norm.weight"
    if change == "missing":
        del weights[name]
    elif change == "unknown":
        weights["model.norm.bias"] = weights[name].clone()
    else:
        weights[name] = weights[name][:-1].clone()
    save_file(weights, tmp_path / "w.safetensors")
    model = load_model(f"hf:{place / 'config.json'}")
    with pytest.raises(ArgumentError, match="do not fit"):
        load_weights(model, tmp_path / "w.safetensors", trust=False, command="gatewise")


def test_a_folder_without_safetensors_is_one_error(run, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps({"model_type": "bert"}))
    (tmp_path / "pytorch_model.bin").write_bytes(b"not read")
    ended = run("inspect", f"hf:{tmp_path}", *INPUT)
    assert ended.exit_code == 2 and "the folder holds no weights" in ended.output


def test_every_command_that_reads_a_model_takes_the_folder(folder, run, tmp_path):
    place, _, _ = folder
    reference = f"hf:{place}"
    ended = run("inspect", reference, *INPUT, "--json")
    assert ended.exit_code == 0, ended.output
    assert len(json.loads(ended.stdout)["sites"]) == 2
    config = f"hf:{place / 'config.json'}"
    ended = run("inspect", config, *INPUT, "--weights", place / "model.safetensors")
    assert ended.exit_code == 0, ended.output
    ended = run("swap", reference, *INPUT, "--unit", "relu", "--dry-run")
    assert ended.exit_code == 0, ended.output
    ended = run("sparsify", reference, *INPUT, "--examples", 4, "--all-layers")
    assert ended.exit_code == 0, ended.output
    ended = run(
        "diagnose", reference, *INPUT, "--examples", 4, "--questions", "gates", "--out", tmp_path
    )
    assert ended.exit_code == 0, ended.output


@pytest.mark.parametrize("command", ["inspect", "swap", "sparsify", "diagnose"])
def test_every_command_reads_the_weights(command, folder, run, tmp_path):
    place, _, _ = folder
    save_file({"other": torch.zeros(1)}, tmp_path / "other.safetensors")
    config = f"hf:{place / 'config.json'}"
    options = ("--unit", "relu", "--dry-run") if command == "swap" else ()
    ended = run(command, config, *INPUT, *options, "--weights", tmp_path / "other.safetensors")
    assert ended.exit_code == 2 and "do not fit" in ended.output


def test_swap_reads_the_weights_that_save_pretrained_wrote(folder, run, tmp_path):
    place, ids, logits = folder
    out = tmp_path / "swapped.safetensors"
    weights = ("--weights", place / "model.safetensors")
    arguments = (f"hf:{place / 'config.json'}", *INPUT, *weights, "--unit", "concat_act")
    ended = run("swap", *arguments, "--out", out, "--json")
    assert ended.exit_code == 0, ended.output
    model = load_model(f"hf:{place / 'config.json'}").eval()
    plan = Plan.from_json((tmp_path / "swapped.plan.json").read_text())
    plan.apply(model, example={"input_ids": ids})
    model.load_state_dict(read_tensors(out)[0])
    with torch.no_grad():
        torch.testing.assert_close(model(ids).logits, logits)


def test_nothing_in_a_folder_is_run(folder, tmp_path, monkeypatch):
    place, _, _ = folder
    for file in place.iterdir():
        (tmp_path / file.name).write_bytes(file.read_bytes())
    config = json.loads((tmp_path / "config.json").read_text())
    config["auto_map"] = {"AutoModelForCausalLM": "planted.Planted"}
    (tmp_path / "config.json").write_text(json.dumps(config))
    (tmp_path / "planted.py").write_text("open('ran', 'w').close()\nclass Planted: ...\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    load_model(f"hf:{tmp_path}")
    assert not (tmp_path / "ran").exists() and "planted" not in sys.modules
