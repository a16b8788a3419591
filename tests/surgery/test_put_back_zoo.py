"""Real networks with the activation put back where it must.

740 of 765 rectifiers go into phase selective layers.
"""

import pytest
from zoo import build

import gatewise as gw
from gatewise.surgery.proof.limits import is_large

# ReLU sites of the eval graph that change, of how many, and the calls before which the activation
# is put back
KNOWN = {
    "hf:ResNet": (12, 13, 3),
    "hf:RegNet": (12, 13, 4),
    "hf:T5": (4, 4, 0),
    "timm:resnet18": (16, 17, 5),
    "timm:resnet50": (48, 49, 12),
    "timm:mobilenetv3_small_100": (14, 14, 1),
    "timm:regnety_002": (52, 53, 22),
    "timm:densenet121": (119, 121, 0),
    "tv:resnet18": (16, 17, 5),
    "tv:vgg16_bn": (14, 15, 0),
    "tv:mobilenet_v3_small": (14, 14, 1),
    "tv:densenet121": (119, 121, 0),
    "tv:shufflenet_v2_x1_0": (36, 37, 0),
    "tv:inception_v3": (88, 94, 9),
    "tv:squeezenet1_1": (25, 26, 0),
    "tv:googlenet": (53, 57, 2),
    "tv:regnet_y_400mf": (64, 65, 28),
    "tv:mnasnet0_5": (34, 35, 0),
}  # the other networks of the zoo have no ReLU
QUICK = ("hf:RegNet", "tv:resnet18")

pytestmark = [
    pytest.mark.networks,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_a_network_keeps_its_function_with_activations_put_back(name: str):
    check(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in KNOWN if name not in QUICK])
def test_another_network_keeps_its_function_with_activations_put_back(name: str):
    check(name)


def check(name: str) -> None:
    model, example = build(name)
    plan = gw.plan(model, "psc", example, preserve=True, put_back=True)
    sites = [site for site in plan.graph if site.op == "relu" and "eval" in site.modes]
    changed = {entry.site for entry in plan.swapped}
    refused = [entry for entry in plan.refused if entry.op == "relu"]
    assert (sum(site.name in changed for site in sites), len(sites), len(plan.put_back)) == KNOWN[
        name
    ]
    assert {entry.reason for entry in refused} <= {
        "AVERAGED",
        "NORM",
    }  # all that reads them is a mean or a norm
    proof = gw.receipt(plan.apply(model, inplace=False)).proof
    assert proof.verdict == "checked" and proof.output_float32 <= 1e-5
    if is_large(model):  # is compared in its own type alone
        assert proof.moved is None or proof.moved > 0
        return
    assert max(proof.output_float64, proof.train_output, proof.gradient) <= 1e-12
    assert proof.live.startswith("live") and proof.live_edits[0] == proof.live_edits[1]


def test_the_known_numbers_add_up_to_what_was_promised():
    assert sum(changed for changed, _, _ in KNOWN.values()) == 740
    assert sum(sites for _, sites, _ in KNOWN.values()) == 765
