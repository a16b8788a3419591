"""IIEU in the real networks.

At every convolution site of the 34.
"""

import pytest
from torch import nn
from zoo import ZOO, build

from gatewise.surgery import plan, receipt

# bound at convolutions and at linear layers; moved before additions; couplers, of additions;
# refused
KNOWN = {
    "hf:ResNet": (9, 0, 4, 4, 4, 0),
    "hf:RegNet": (10, 0, 3, 3, 3, 0),
    "hf:ConvNextV2": (0, 2, 0, 2, 4, 0),
    "hf:MobileNetV1": (27, 0, 0, 0, 0, 0),
    "hf:MobileNetV2": (35, 0, 0, 9, 10, 0),
    "hf:ViT": (0, 2, 0, 0, 4, 0),
    "hf:Swin": (0, 2, 0, 0, 4, 0),
    "hf:BERT": (0, 3, 0, 0, 5, 0),
    "hf:GPT2": (0, 0, 0, 0, 6, 2),
    "hf:Llama": (0, 2, 0, 0, 4, 0),
    "hf:T5": (0, 4, 0, 0, 10, 0),
    "hf:Wav2Vec2": (2, 2, 0, 0, 5, 1),
    "timm:resnet18": (9, 0, 8, 8, 8, 0),
    "timm:resnet50": (33, 0, 16, 16, 16, 0),
    "timm:mobilenetv3_small_100": (33, 0, 0, 6, 6, 0),
    "timm:efficientnet_b0": (49, 0, 0, 9, 9, 0),
    "timm:convnext_tiny": (0, 18, 0, 18, 18, 0),
    "timm:vit_tiny_patch16_224": (0, 12, 0, 0, 24, 0),
    "timm:regnety_002": (40, 0, 13, 13, 13, 0),
    "timm:densenet121": (59, 0, 0, 0, 0, 62),
    "timm:swin_tiny_patch4_window7_224": (0, 12, 0, 0, 24, 0),
    "timm:mixer_s32_224": (0, 16, 0, 0, 16, 0),
    "tv:resnet18": (9, 0, 8, 8, 8, 0),
    "tv:vgg16_bn": (13, 2, 0, 0, 0, 0),
    "tv:mobilenet_v3_small": (32, 1, 0, 6, 6, 0),
    "tv:efficientnet_b0": (49, 0, 0, 9, 9, 0),
    "tv:densenet121": (59, 0, 0, 0, 0, 62),
    "tv:shufflenet_v2_x1_0": (37, 0, 0, 0, 0, 0),
    "tv:inception_v3": (94, 0, 0, 0, 0, 0),
    "tv:squeezenet1_1": (26, 0, 0, 0, 0, 0),
    "tv:googlenet": (59, 2, 0, 0, 0, 0),
    "tv:regnet_y_400mf": (49, 0, 16, 16, 16, 0),
    "tv:mnasnet0_5": (35, 0, 0, 10, 10, 0),
    "tv:convnext_tiny": (0, 18, 0, 18, 18, 0),
}
REFUSED_AFTER = 68  # of 8 residual networks: sites that read a sum
TRAINING_ONLY = 2  # convolution sites of GoogLeNet's auxiliary heads
IGNORED = ("ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning")


def test_the_known_numbers_add_up_to_what_was_promised():
    assert len(KNOWN) == len(ZOO) == 34
    assert sum(conv for conv, *_ in KNOWN.values()) == 766 + TRAINING_ONLY
    assert sum(moved for _, _, moved, *_ in KNOWN.values()) == REFUSED_AFTER
    totals = [sum(column) for column in zip(*KNOWN.values(), strict=True)]
    assert totals == [768, 98, 68, 155, 260, 127]  # docs/more_surgery.md


@pytest.mark.slow
@pytest.mark.networks
@pytest.mark.filterwarnings(*IGNORED)
@pytest.mark.parametrize("name", [name for name in KNOWN if KNOWN[name][0] + KNOWN[name][1]])
def test_units_are_bound_at_every_site_with_a_layer_behind_it_and_all_names_stay(name):
    model, example = build(name)
    made = plan(model, "iieu_dc", example)
    new = made.apply(model, inplace=False)
    proof = receipt(new).proof
    assert proof is not None and proof.against_graph is not None and proof.against_graph <= 1e-6
    assert model.state_dict().keys() <= new.state_dict().keys()
    bound = [entry for entry in made.swapped if entry.bindings and not entry.moved]
    linear = sum(
        isinstance(model.get_submodule(entry.bindings[0].layer), nn.Linear) for entry in bound
    )
    sums = [entry for entry in made.entries if entry.kind == "addition"]
    refused = sum(entry.kind != "addition" and entry.reason != "GATE" for entry in made.refused)
    joined = sum(entry.change == "swap" for entry in sums)
    moved = sum(entry.moved for entry in made.swapped)
    assert (len(bound) - linear, linear, moved, joined, len(sums), refused) == KNOWN[name]
