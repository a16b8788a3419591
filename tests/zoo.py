"""The 34 networks that reading and surgery are tried on, built without trained weights.

Twelve of Hugging Face (small configurations), ten of timm and twelve of torchvision (their sizes).
"""

import importlib
from collections.abc import Callable
from typing import Any

import torch
from torch import nn

Example = torch.Tensor | dict[str, torch.Tensor]


def declare_missing_torchvision_operators() -> None:
    """Let torchvision be imported beside a torch without CUDA.

    Its compiled part cannot be loaded there.

    Its import then fails at two operators that are never called here, so it is enough that they are
    declared.
    """
    try:
        torch.ops.torchvision.nms  # noqa: B018  the look is what raises
    except AttributeError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT.append(library)  # a library that is collected takes its declarations with it


_KEPT: list[torch.library.Library] = []


def image(side: int, channels: int = 3, batch: int = 2) -> torch.Tensor:
    return torch.randn(batch, channels, side, side)


def tokens(**sizes: int) -> dict[str, torch.Tensor]:
    return {name: torch.arange(2 * size).reshape(2, size) % 50 for name, size in sizes.items()}


def hugging_face(model: str, config: str, **options: Any) -> nn.Module:
    # transformers imports torchvision where it is installed
    declare_missing_torchvision_operators()
    transformers = importlib.import_module("transformers")
    made = getattr(transformers, config)(**options)
    for each in (made, getattr(made, "encoder", None), getattr(made, "decoder", None)):
        if hasattr(each, "use_cache"):
            each.use_cache = False
    network = getattr(transformers, model)(made)
    for module in network.modules():  # the parts of T5 hold copies of the configuration
        if hasattr(getattr(module, "config", None), "use_cache"):
            module.config.use_cache = False
    return network


def timm(name: str) -> nn.Module:
    declare_missing_torchvision_operators()
    return importlib.import_module("timm").create_model(name, pretrained=False)


def torchvision(name: str, **options: Any) -> nn.Module:
    declare_missing_torchvision_operators()
    return importlib.import_module("torchvision").models.get_model(name, weights=None, **options)


SMALL = {
    "hidden_size": 32,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "intermediate_size": 64,
}
Maker = tuple[Callable[[], nn.Module], Callable[[], Example]]
ZOO: dict[str, Maker] = {
    "hf:ResNet": (
        lambda: hugging_face(
            "ResNetForImageClassification",
            "ResNetConfig",
            embedding_size=16,
            hidden_sizes=[16, 32],
            depths=[2, 2],
            layer_type="bottleneck",
        ),
        lambda: image(64),
    ),
    "hf:RegNet": (
        lambda: hugging_face(
            "RegNetForImageClassification",
            "RegNetConfig",
            embedding_size=16,
            hidden_sizes=[16, 32],
            depths=[1, 2],
            groups_width=8,
        ),
        lambda: image(64),
    ),
    "hf:ConvNextV2": (
        lambda: hugging_face(
            "ConvNextV2ForImageClassification",
            "ConvNextV2Config",
            num_stages=2,
            hidden_sizes=[16, 32],
            depths=[1, 1],
        ),
        lambda: image(64),
    ),
    "hf:MobileNetV1": (
        lambda: hugging_face(
            "MobileNetV1ForImageClassification", "MobileNetV1Config", depth_multiplier=0.25
        ),
        lambda: image(64),
    ),
    "hf:MobileNetV2": (
        lambda: hugging_face(
            "MobileNetV2ForImageClassification", "MobileNetV2Config", depth_multiplier=0.35
        ),
        lambda: image(64),
    ),
    "hf:ViT": (
        lambda: hugging_face(
            "ViTForImageClassification", "ViTConfig", image_size=32, patch_size=8, **SMALL
        ),
        lambda: image(32),
    ),
    "hf:Swin": (
        lambda: hugging_face(
            "SwinForImageClassification",
            "SwinConfig",
            image_size=32,
            patch_size=4,
            embed_dim=16,
            depths=[1, 1],
            num_heads=[2, 4],
            window_size=4,
        ),
        lambda: image(32),
    ),
    "hf:BERT": (
        lambda: hugging_face(
            "BertForSequenceClassification", "BertConfig", vocab_size=100, **SMALL
        ),
        lambda: tokens(input_ids=12),
    ),
    "hf:GPT2": (
        lambda: hugging_face(
            "GPT2LMHeadModel", "GPT2Config", vocab_size=100, n_embd=32, n_layer=2, n_head=4
        ),
        lambda: tokens(input_ids=12),
    ),
    "hf:Llama": (
        lambda: hugging_face("LlamaForCausalLM", "LlamaConfig", vocab_size=100, **SMALL),
        lambda: tokens(input_ids=12),
    ),
    "hf:T5": (
        lambda: hugging_face(
            "T5ForConditionalGeneration",
            "T5Config",
            vocab_size=100,
            d_model=32,
            d_kv=8,
            d_ff=64,
            num_layers=2,
            num_heads=4,
        ),
        lambda: tokens(input_ids=12, decoder_input_ids=7),
    ),
    "hf:Wav2Vec2": (
        lambda: hugging_face(
            "Wav2Vec2Model",
            "Wav2Vec2Config",
            conv_dim=[16, 16],
            conv_stride=[5, 2],
            conv_kernel=[10, 3],
            num_conv_pos_embeddings=16,
            num_conv_pos_embedding_groups=4,
            mask_time_prob=0.0,
            **SMALL,
        ),
        lambda: torch.randn(2, 800),
    ),
    "timm:resnet18": (lambda: timm("resnet18"), lambda: image(64)),
    "timm:resnet50": (lambda: timm("resnet50"), lambda: image(64)),
    "timm:mobilenetv3_small_100": (lambda: timm("mobilenetv3_small_100"), lambda: image(64)),
    "timm:efficientnet_b0": (lambda: timm("efficientnet_b0"), lambda: image(64)),
    "timm:convnext_tiny": (lambda: timm("convnext_tiny"), lambda: image(64)),
    "timm:vit_tiny_patch16_224": (lambda: timm("vit_tiny_patch16_224"), lambda: image(224)),
    "timm:regnety_002": (lambda: timm("regnety_002"), lambda: image(64)),
    "timm:densenet121": (lambda: timm("densenet121"), lambda: image(64)),
    "timm:swin_tiny_patch4_window7_224": (
        lambda: timm("swin_tiny_patch4_window7_224"),
        lambda: image(224),
    ),
    "timm:mixer_s32_224": (lambda: timm("mixer_s32_224"), lambda: image(224)),
    "tv:resnet18": (lambda: torchvision("resnet18"), lambda: image(64)),
    "tv:vgg16_bn": (lambda: torchvision("vgg16_bn"), lambda: image(64)),
    "tv:mobilenet_v3_small": (lambda: torchvision("mobilenet_v3_small"), lambda: image(64)),
    "tv:efficientnet_b0": (lambda: torchvision("efficientnet_b0"), lambda: image(64)),
    "tv:densenet121": (lambda: torchvision("densenet121"), lambda: image(64)),
    "tv:shufflenet_v2_x1_0": (lambda: torchvision("shufflenet_v2_x1_0"), lambda: image(64)),
    "tv:inception_v3": (
        lambda: torchvision("inception_v3", aux_logits=False, init_weights=False),
        lambda: image(96),
    ),
    "tv:squeezenet1_1": (lambda: torchvision("squeezenet1_1"), lambda: image(64)),
    "tv:googlenet": (
        lambda: torchvision("googlenet", aux_logits=True, init_weights=False),
        lambda: image(96),
    ),
    "tv:regnet_y_400mf": (lambda: torchvision("regnet_y_400mf"), lambda: image(64)),
    "tv:mnasnet0_5": (lambda: torchvision("mnasnet0_5"), lambda: image(64)),
    "tv:convnext_tiny": (lambda: torchvision("convnext_tiny"), lambda: image(64)),
}


def as_shipped(model: str, config: str, **options: Any) -> nn.Module:
    """A network of Hugging Face with the defaults of its configuration, the cache among them."""
    declare_missing_torchvision_operators()
    transformers = importlib.import_module("transformers")
    return getattr(transformers, model)(getattr(transformers, config)(**options))


LANGUAGE = {"vocab_size": 100, "pad_token_id": 0, "bos_token_id": 1, "eos_token_id": 2, **SMALL}


def language_model(family: str, **options: Any) -> Maker:
    """A causal language model of a family, and token ids for it."""
    return (
        lambda: as_shipped(f"{family}ForCausalLM", f"{family}Config", **LANGUAGE | options),
        lambda: tokens(input_ids=12),
    )


def timm_at(name: str, side: int) -> Maker:
    return lambda: timm(name), lambda: image(side)


# Networks that surgery is tried on for the table in the documentation only.
FURTHER: dict[str, Maker] = {
    "hf:Mistral": language_model("Mistral", num_key_value_heads=2),
    "hf:Qwen2": language_model("Qwen2", num_key_value_heads=2),
    "hf:Phi3": language_model("Phi3"),
    "hf:Gemma": language_model("Gemma", head_dim=8, num_key_value_heads=2),
    "hf:GPTNeoX": language_model("GPTNeoX"),
    "hf:OPT": language_model("OPT", ffn_dim=64, word_embed_proj_dim=32),
    "hf:Bloom": language_model("Bloom", n_head=4, n_layer=2),
    "hf:Qwen3": language_model("Qwen3", head_dim=8, num_key_value_heads=2),
    "hf:Falcon": language_model("Falcon"),
    "hf:GPTJ": language_model("GPTJ", n_embd=32, n_layer=2, n_head=4, rotary_dim=4),
    "hf:GPTNeo": language_model(
        "GPTNeo", num_layers=2, num_heads=4, attention_types=[[["global", "local"], 1]]
    ),
    "hf:StableLm": language_model("StableLm", num_key_value_heads=2),
    "hf:Cohere": language_model("Cohere", num_key_value_heads=2),
    "hf:OLMo2": language_model("Olmo2", num_key_value_heads=2),
    "hf:StarCoder2": language_model("Starcoder2", num_key_value_heads=2),
    "hf:Granite": language_model("Granite", num_key_value_heads=2),
    "hf:CodeGen": language_model("CodeGen", n_embd=32, n_layer=2, n_head=4, rotary_dim=4),
    "hf:Phi": language_model("Phi", num_key_value_heads=4),
    "hf:Nemotron": language_model("Nemotron", num_key_value_heads=2),
    "hf:MPT": language_model("Mpt", d_model=32, n_layers=2, n_heads=4, max_seq_len=64),
    "hf:RoBERTa": (
        lambda: as_shipped("RobertaForSequenceClassification", "RobertaConfig", **LANGUAGE),
        lambda: tokens(input_ids=12),
    ),
    "hf:ALBERT": (
        lambda: as_shipped("AlbertModel", "AlbertConfig", embedding_size=16, **LANGUAGE),
        lambda: tokens(input_ids=12),
    ),
    "hf:DistilBERT": (
        lambda: as_shipped(
            "DistilBertModel",
            "DistilBertConfig",
            vocab_size=100,
            dim=32,
            n_layers=2,
            n_heads=4,
            hidden_dim=64,
        ),
        lambda: tokens(input_ids=12),
    ),
    "hf:BEiT": (
        lambda: as_shipped(
            "BeitForImageClassification", "BeitConfig", image_size=32, patch_size=8, **SMALL
        ),
        lambda: image(32),
    ),
    "hf:SegFormer": (
        lambda: as_shipped(
            "SegformerForSemanticSegmentation",
            "SegformerConfig",
            hidden_sizes=[8, 16, 16, 32],
            depths=[1, 1, 1, 1],
            num_attention_heads=[1, 2, 2, 4],
            decoder_hidden_size=16,
        ),
        lambda: image(64),
    ),
    "timm:nf_resnet26": timm_at("nf_resnet26", 64),
    "timm:resnetv2_50x1_bit": timm_at("resnetv2_50x1_bit", 64),
    "timm:ghostnet_050": timm_at("ghostnet_050", 64),
    "timm:repvgg_a0": timm_at("repvgg_a0", 64),
    "timm:dla34": timm_at("dla34", 64),
    "timm:res2net50_26w_4s": timm_at("res2net50_26w_4s", 64),
    "timm:rexnet_100": timm_at("rexnet_100", 64),
    "timm:ese_vovnet19b_dw": timm_at("ese_vovnet19b_dw", 64),
    "timm:mobilenetv4_conv_small": timm_at("mobilenetv4_conv_small", 64),
    "timm:efficientvit_b0": timm_at("efficientvit_b0", 64),
    "timm:mobilevit_xxs": timm_at("mobilevit_xxs", 64),
    "timm:levit_128s": timm_at("levit_128s", 224),
    "timm:xcit_nano_12_p16_224": timm_at("xcit_nano_12_p16_224", 224),
}


def build(name: str, seed: int = 0) -> tuple[nn.Module, Example]:
    """The network ``name`` in eval mode, and an example batch of two for it."""
    torch.manual_seed(seed)
    make_network, make_example = (ZOO | FURTHER)[name]
    return make_network().eval(), make_example()
