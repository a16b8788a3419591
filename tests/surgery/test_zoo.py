"""Real networks of three libraries.

What is read, what can be changed, and that the function is kept.
"""

import re
from pathlib import Path

import pytest
import torch
from surgery import zoo_rows
from surgery.zoo_rows import Row, row
from zoo import ZOO, build

from gatewise.graph import find_sites
from gatewise.graph.trace import split_example
from gatewise.surgery.calls import record_calls
from gatewise.surgery.proof.against_reference import MOST_GRADIENT

# sites: ReLU/other/gates, alone under three policies, together, PSC alone: at least this, and the
# sites exactly
KNOWN = {
    "hf:ResNet": ((13, 0, 0), (10, 10, 13), 10, 9),
    "hf:RegNet": ((13, 0, 3), (9, 12, 13), 12, 8),
    "hf:ConvNextV2": ((0, 2, 0), (0, 0, 0), 0, 0),
    "hf:MobileNetV1": ((0, 27, 0), (27, 27, 27), 14, 0),
    "hf:MobileNetV2": ((0, 35, 0), (35, 35, 35), 18, 0),
    "hf:ViT": ((0, 2, 0), (2, 2, 2), 2, 0),
    "hf:Swin": ((0, 2, 0), (2, 2, 2), 2, 0),
    "hf:BERT": ((0, 3, 0), (3, 3, 3), 2, 0),
    "hf:GPT2": ((0, 2, 0), (2, 2, 2), 2, 0),
    "hf:Llama": ((0, 2, 0), (0, 2, 2), 2, 0),
    "hf:T5": ((4, 0, 0), (4, 4, 4), 4, 4),
    "hf:Wav2Vec2": ((0, 5, 0), (3, 3, 3), 3, 0),
    "timm:resnet18": ((17, 0, 0), (12, 12, 17), 12, 11),
    "timm:resnet50": ((49, 0, 0), (37, 37, 49), 37, 36),
    "timm:mobilenetv3_small_100": ((14, 19, 9), (15, 33, 33), 22, 13),
    "timm:efficientnet_b0": ((0, 49, 16), (17, 49, 49), 33, 0),
    "timm:convnext_tiny": ((0, 18, 0), (18, 18, 18), 18, 0),
    "timm:vit_tiny_patch16_224": ((0, 12, 0), (12, 12, 12), 12, 0),
    "timm:regnety_002": ((53, 0, 13), (31, 44, 53), 44, 30),
    "timm:densenet121": ((121, 0, 0), (121, 121, 121), 114, 119),
    "timm:swin_tiny_patch4_window7_224": ((0, 12, 0), (12, 12, 12), 12, 0),
    "timm:mixer_s32_224": ((0, 16, 0), (16, 16, 16), 16, 0),
    "tv:resnet18": ((17, 0, 0), (12, 12, 17), 12, 11),
    "tv:vgg16_bn": ((15, 0, 0), (15, 15, 15), 15, 14),
    "tv:mobilenet_v3_small": ((14, 19, 9), (15, 33, 33), 22, 13),
    "tv:efficientnet_b0": ((0, 49, 16), (17, 49, 49), 33, 0),
    "tv:densenet121": ((121, 0, 0), (121, 121, 121), 114, 119),
    "tv:shufflenet_v2_x1_0": ((37, 0, 0), (18, 18, 18), 18, 36),
    "tv:inception_v3": ((94, 0, 0), (94, 94, 94), 94, 49),
    "tv:squeezenet1_1": ((26, 0, 0), (25, 25, 25), 25, 25),
    "tv:googlenet": (
        (57, 0, 0),
        (57, 57, 57),
        57,
        45,
    ),  # the auxiliary heads average: in eval alone it would be 53
    "tv:regnet_y_400mf": ((65, 0, 16), (37, 53, 65), 53, 36),
    "tv:mnasnet0_5": ((35, 0, 0), (35, 35, 35), 18, 34),
    "tv:convnext_tiny": ((0, 18, 0), (18, 18, 18), 18, 0),
}
QUICK = ("hf:RegNet", "hf:GPT2", "hf:Llama", "hf:Wav2Vec2", "tv:squeezenet1_1", "tv:resnet18")
TABLE = Path(__file__).parents[2] / "docs" / "surgery_models.md"

pytestmark = [
    pytest.mark.networks,
    # said by these libraries about themselves, when imported and when run
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]


def documented() -> dict[str, list[str]]:
    """The cells of each network's line in the documentation."""
    lines = [
        re.split(r"\s*\|\s*", line)[1:-1]
        for line in TABLE.read_text("utf-8").splitlines()
        if line.startswith("| ")
    ]
    return {cells[0]: cells for cells in lines}


def counts(cells: list[str]) -> list[str]:
    """All cells but the differences, which are rounding and vary between machines."""
    return [*cells[:4], *cells[7:]]


WITH_POOLER = ("hf:BERT",)  # its tanh stays


def check(found: Row) -> None:
    assert counts(re.split(r"\s*\|\s*", found.line())[1:-1]) == counts(documented()[found.name])
    sites, alone, together, psc = KNOWN[found.name]
    assert found.sites == sites
    assert all(got >= least for got, least in zip(found.alone, alone, strict=True))
    assert found.together[0] >= together and found.psc[0] >= psc
    assert found.units == sites[0] + sites[1] - (found.name in WITH_POOLER)
    assert found.float32 <= 1e-5
    if found.float64 is None:  # a large model is compared in its own type alone
        assert found.gradient <= MOST_GRADIENT[torch.float32]
        return
    assert found.float64 <= 1e-12 and found.gradient <= 1e-12
    assert found.live.startswith("live") or not together


# Two in every run of the tests; the others where all tests run.
EVERY_RUN = ("hf:GPT2", "tv:squeezenet1_1")
READ = [pytest.param(name) for name in EVERY_RUN]
READ += [pytest.param(name, marks=pytest.mark.slow) for name in QUICK if name not in EVERY_RUN]


@pytest.mark.parametrize("name", READ)
def test_a_network_is_read_changed_and_computes_the_same(name: str):
    check(row(name))


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ZOO if name not in QUICK])
def test_another_network_is_read_changed_and_computes_the_same(name: str):
    check(row(name))


@pytest.mark.parametrize("name", ["hf:GPT2", "tv:resnet18", "tv:squeezenet1_1"])
def test_no_call_is_missing_that_an_independent_recorder_sees(name: str):
    model, example = build(name)
    args, kwargs = split_example(example)
    assert len(record_calls(model, args, kwargs)) == len(
        find_sites(model, example).readings["eval"].site_nodes
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ZOO)
def test_no_call_is_missing_anywhere(name: str):
    test_no_call_is_missing_that_an_independent_recorder_sees(name)


def test_the_known_numbers_add_up_to_what_was_promised():
    rows = KNOWN.values()
    assert sum(sum(sites) for sites, *_ in rows) == 1139
    assert [sum(alone[policy] for _, alone, _, _ in rows) for policy in range(3)] == [
        852,
        986,
        1033,
    ]
    assert sum(together for *_, together, _ in rows) == 870 and sum(psc for *_, psc in rows) >= 601


def test_the_table_in_the_documentation_has_a_line_for_every_network_with_the_known_counts():
    shown = documented()
    for name, (sites, alone, together, psc) in KNOWN.items():
        cells = shown[name]
        assert cells[1:3] == ["/".join(map(str, sites)), "/".join(map(str, alone))]
        assert cells[3].startswith(f"{together},") and cells[7].split("/")[0] == str(psc)


@pytest.mark.slow
def test_planning_and_proving_resnet50_is_quick():
    torch.set_num_threads(1)
    model, example = build("timm:resnet50")
    times = [zoo_rows.together(model, example, "crelu")[2] for _ in range(3)]
    plan, apply = (
        min(each) for each in zip(*times, strict=True)
    )  # the least: a busy machine makes some longer
    assert plan < 3 and apply < 2, times
