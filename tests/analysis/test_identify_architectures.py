"""The functions of Hugging Face architectures are recognised by their values, with random weights.

Each model is built from its configuration. The expected function is that of the published code of
the architecture, not what gatewise reads from the configuration.
"""

import pytest
import torch
from torch import nn
from zoo import declare_missing_torchvision_operators

import gatewise as gw

pytestmark = pytest.mark.networks

SMALL = {
    "vocab_size": 50,
    "hidden_size": 16,
    "intermediate_size": 32,
    "num_hidden_layers": 1,
    "num_attention_heads": 2,
}


@pytest.fixture(scope="module")
def hf():
    declare_missing_torchvision_operators()
    return pytest.importorskip("transformers")


def tokens():
    return {"input_ids": torch.randint(50, (2, 6), generator=torch.Generator().manual_seed(0))}


def bert(hf, function):
    config = hf.BertConfig(hidden_act=function, **SMALL)
    return hf.BertModel(config, add_pooling_layer=False)


def gpt2(hf, function):
    config = hf.GPT2Config(
        vocab_size=50,
        n_embd=16,
        n_layer=1,
        n_head=2,
        activation_function=function,
        bos_token_id=1,
        eos_token_id=2,
    )
    return hf.GPT2Model(config)


def llama(hf, function):
    return hf.LlamaForCausalLM(hf.LlamaConfig(hidden_act=function, **SMALL))


def clip(hf, function):
    config = hf.CLIPTextConfig(
        hidden_act=function, **SMALL, eos_token_id=2, bos_token_id=1, pad_token_id=0
    )
    return hf.CLIPTextModel(config)


def gpt_oss(hf):
    config = hf.GptOssConfig(
        **SMALL, num_key_value_heads=1, head_dim=8, num_local_experts=2, num_experts_per_tok=1
    )
    return hf.GptOssForCausalLM(config)


# The name of the function in the configuration, and what it is in numbers.
CASES = [
    (bert, "gelu", "gelu"),
    (bert, "gelu_new", "gelu_tanh"),
    (gpt2, "gelu_new", "gelu_tanh"),
    (gpt2, "gelu", "gelu"),
    (llama, "silu", "silu"),
    (llama, "quick_gelu", "quick_gelu"),  # x * sigmoid(1.702 x)
    (clip, "quick_gelu", "quick_gelu"),
    (clip, "gelu", "gelu"),
]
NAMES = [f"{make.__name__}-{configured}" for make, configured, _ in CASES]


@pytest.mark.slow
@pytest.mark.parametrize(("make", "configured", "expected"), CASES, ids=NAMES)
def test_the_function_is_recognised_and_agrees_with_the_configuration(
    hf, make, configured, expected
):
    torch.manual_seed(0)
    result = gw.identify(make(hf, configured), tokens())
    (site,) = result.sites
    assert site.name == expected
    assert site.agrees is True
    assert result.configuration.endswith(f"={configured}")


def test_the_clamps_of_gpt_oss_are_found_and_a_dropped_one_is_reported(hf):
    torch.manual_seed(0)
    model = gpt_oss(hf)
    (site,) = gw.identify(model, tokens()).sites
    assert site.name == "quick_gelu, clamped before"  # swish 1.702
    assert site.constants == pytest.approx({"limit": 7.0}, rel=1e-6)
    assert (site.value, site.value_limit) == ("clamped at 7, then plus 1", 7.0)
    assert site.agrees is True
    model.model.layers[0].mlp.experts.limit = 1e9  # a port that forgets the clamp
    (site,) = gw.identify(model, tokens()).sites
    assert site.name == "quick_gelu"
    assert site.value_limit is None
    assert site.agrees is False


def test_a_port_that_runs_another_function_is_reported(hf):
    torch.manual_seed(0)
    model = bert(hf, "gelu")
    model.encoder.layer[0].intermediate.intermediate_act_fn = nn.GELU(approximate="tanh")
    result = gw.identify(model, tokens())
    assert [site.name for site in result.disagreements] == ["gelu_tanh"]
    model = llama(hf, "silu")
    model.model.layers[0].mlp.act_fn = gw.nn.Swish(beta=1.702)
    result = gw.identify(model, tokens())
    assert len(result.disagreements) == 1
    assert result.sites[0].name in ("quick_gelu", "swish")


def test_models_in_bfloat16_are_recognised_as_surely(hf):
    torch.manual_seed(0)
    for make, configured, expected in CASES[:2]:
        (site,) = gw.identify(make(hf, configured).bfloat16(), tokens()).sites
        assert site.name == expected


def test_the_saved_model_is_a_copy(hf, tmp_path):
    torch.manual_seed(0)
    model = llama(hf, "silu")
    model.save_pretrained(tmp_path)
    stored = len(model.state_dict())
    (line,) = gw.identify(model, tokens(), copy=tmp_path / "model.safetensors").copies
    assert f"{stored} of {stored} stored tensors" in line
    with torch.no_grad():
        model.model.layers[0].mlp.gate_proj.weight[0, 0] += 1
    (line,) = gw.identify(model, tokens(), copy=tmp_path / "model.safetensors").copies
    assert "other values in model.layers.0.mlp.gate_proj.weight" in line


@pytest.mark.onnx
@pytest.mark.slow
def test_an_onnx_copy_of_bert_with_another_gelu_differs(hf, tmp_path):
    models = {}
    for function in ("gelu", "gelu_new"):
        torch.manual_seed(0)
        model = bert(hf, function).eval()
        with torch.no_grad():
            model.encoder.layer[0].intermediate.dense.weight.mul_(30)  # where both forms differ
        models[function] = model
        path = str(tmp_path / f"{function}.onnx")
        torch.onnx.export(model, kwargs=tokens(), f=path, dynamo=True, verbose=False)
    (line,) = gw.identify(models["gelu"], tokens(), copy=tmp_path / "gelu.onnx").copies
    assert "same outputs" in line
    (line,) = gw.identify(models["gelu"], tokens(), copy=tmp_path / "gelu_new.onnx").copies
    assert "DIFFER" in line
