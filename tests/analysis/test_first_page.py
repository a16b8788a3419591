"""The first page of a diagnosis: counts with their calls; the papers' analyses on request."""

import json

import pytest
import torch
from torch import nn

import gatewise as gw
from gatewise.errors import UnknownNameError
from gatewise.report import write_diagnosis
from tests.sparsity.causal_models import bert

FIRST = ["sites", "gates", "pairing", "cost"]


def planted() -> nn.Module:
    """Two dead channels, one that is always on, a copy, and three opposite pairs."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 24), nn.ReLU(), nn.Linear(24, 5), nn.Sigmoid())
    with torch.no_grad():
        model[0].weight[:3] = -model[0].weight[3:6]
        model[0].bias[10:12] = -1e3
        model[0].bias[12] = 1e3
        model[0].weight[14] = model[0].weight[13]
        model[0].bias[14] = model[0].bias[13]
    return model.eval()


@pytest.fixture(scope="module")
def diagnosis():
    return gw.diagnose(planted(), torch.randn(200, 8))


def test_the_first_page_asks_four_questions_and_names_the_others(diagnosis):
    assert [answer.name for answer in diagnosis] == FIRST
    assert {"prior", "complexity", "reconstruction", "kernel"} <= set(diagnosis.more)
    assert "more analyses, not computed" in repr(diagnosis)
    asked = gw.diagnose(planted(), torch.randn(20, 8), questions=["prior"])
    assert [answer.name for answer in asked] == ["prior"]
    whole = gw.diagnose(planted(), torch.randn(20, 8), questions="all", seconds=0.5)
    assert whole.more == () and len(whole.answers) == len(diagnosis.more) + len(FIRST)
    with pytest.raises(UnknownNameError, match="everything"):
        gw.diagnose(planted(), torch.randn(20, 8), questions="everything")


def test_every_count_is_what_was_planted_and_has_its_call(diagnosis):
    counts = {each.name: each for each in diagnosis.findings}
    assert counts["dead"].number == "2" and counts["dead"].total == "24 channels"
    assert counts["always on"].number == "1"
    assert counts["copies of another"].number == "1"
    pairs = counts["pairs of filters that are each other's negative"]
    assert pairs.number == "3"
    assert all(each.call.startswith("gw.") for each in diagnosis.findings)
    for each in diagnosis.findings:
        assert hasattr(gw, each.call.removeprefix("gw.").partition("(")[0])


def test_exact_pairs_always_count_in_the_answer(diagnosis):
    line = diagnosis["pairing"].line
    assert line.startswith("3 pairs of filters are each other's negative.")
    assert ". No layer has" not in line


def test_the_page_opens_with_the_counts_and_ends_with_more_analyses(diagnosis, tmp_path):
    page, record = write_diagnosis(diagnosis.to_dict(), tmp_path)
    text = page.read_text()
    assert text.index("Counts") < text.index("Questions and answers") < text.index("More analyses")
    assert (
        "gw.revive(model, x)" in text
        and "gw.diagnose(model, batches, questions=&#39;all&#39;)" in text
    )
    assert json.loads(record.read_text())["more"].keys() == set(diagnosis.more)


def test_a_sigmoid_that_makes_the_output_is_no_hidden_layer():
    model = planted()
    with torch.no_grad():
        model[2].bias[0] = -1e3  # an output that is never on
    found = gw.gates(model, torch.randn(50, 8))
    assert [site.unit for site in found.sites] == ["relu"]
    assert "makes the output of the model" in found.left_out[0]
    inner = nn.Sequential(nn.Linear(8, 4), nn.Sigmoid(), nn.Linear(4, 1))
    assert [site.unit for site in gw.gates(inner, torch.randn(50, 8)).sites] == ["sigmoid"]


@pytest.mark.networks
def test_padding_does_not_count():
    model, _ = bert()
    torch.manual_seed(1)
    ids = torch.randint(2, 97, (3, 12))
    mask = torch.ones_like(ids)
    mask[0, 5:] = 0
    mask[2, 9:] = 0
    found = gw.gates(model, [{"input_ids": ids, "attention_mask": mask}])
    seen = []

    def keep(module: nn.Module, args: tuple, output: torch.Tensor) -> None:
        seen.append(args[0])  # what GELU reads

    handle = model.encoder.layer[0].intermediate.intermediate_act_fn.register_forward_hook(keep)
    with torch.no_grad():
        model(input_ids=ids, attention_mask=mask)
    handle.remove()
    rows = seen[0][mask.bool()]
    assert len(rows) == 5 + 12 + 9
    (site,) = [site for site in found.sites if "gelu" in site.unit]
    assert site.seen == len(rows)
    torch.testing.assert_close(site.on_rate, (rows > 0).double().mean(0))
    without = gw.gates(model, [{"input_ids": ids}])
    (all_rows,) = [site for site in without.sites if "gelu" in site.unit]
    assert all_rows.seen == 36
