"""The first page of a diagnosis: counts with their calls; the papers' analyses on request."""

import json
from dataclasses import replace
from operator import attrgetter
from pathlib import Path

import pytest
import torch
from torch import nn

import gatewise as gw
from gatewise.analysis.diagnosis import all_questions, running
from gatewise.errors import Limitation, UnknownNameError
from gatewise.report import write_diagnosis
from tests.effort import files_run
from tests.sparsity.causal_models import bert, llama

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


def test_the_first_page_runs_no_other_analysis(monkeypatch):
    asked = []
    whole = {}
    for name, question in all_questions().items():

        def answer(context, name=name, answer=question.answer):
            asked.append(name)
            return answer(context)

        whole[name] = replace(question, answer=answer)
    monkeypatch.setattr(running, "all_questions", lambda: whole)
    gw.diagnose(planted(), torch.randn(20, 8))
    assert asked == FIRST


# Files of gatewise/analysis that the first page needs. The other analyses are in other files.
PAGE = "checkpoint_weights costs diagnosis finite gating model_graphs record"
PAIRS = "filter_rows opposite_filters random_phases"


@pytest.mark.networks
def test_the_first_page_of_a_language_model_takes_two_readings_and_twelve_runs():
    model, batches = llama()  # a small one of the structure of SmolLM2
    texts = [{"input_ids": batch["input_ids"]} for batch in batches]
    passes = []
    model.register_forward_pre_hook(
        lambda *_: passes.append((torch.compiler.is_compiling(), torch.is_grad_enabled()))
    )
    _, files = files_run(lambda: gw.diagnose(model, texts))
    readings = [gradients for reading, gradients in passes if reading]
    runs = [gradients for reading, gradients in passes if not reading]
    assert len(readings) == 2 and len(runs) <= 12 and sum(runs) <= 5
    home = Path(gw.analysis.__file__).parent
    run = {Path(file).relative_to(home) for file in files if home in Path(file).parents}
    allowed = {*PAGE.split(), *(f"filters/{name}" for name in PAIRS.split())}
    for file in run:
        name = str(file.with_suffix(""))
        assert name in allowed or file.parts[0] in allowed, name


def test_every_count_is_what_was_planted_and_has_its_call(diagnosis):
    counts = {each.name: each for each in diagnosis.findings}
    assert counts["dead"].number == "2" and counts["dead"].total == "24 channels"
    assert counts["always on"].number == "1"
    assert counts["on for exactly the same inputs as another"].number == "1"
    pairs = counts["pairs of filters that are each other's negative"]
    assert pairs.number == "3"
    for each in diagnosis.findings:
        assert callable(attrgetter(each.call.removeprefix("gw.").partition("(")[0])(gw))


def test_a_count_of_zero_names_no_call():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
    found = gw.diagnose(model, torch.randn(200, 5))
    calls = {each.name: each.call for each in found.findings if each.number == "0"}
    assert set(calls) >= {"dead", "always on"} and not any(calls.values())
    assert "dead: 0 of 8 channels\n" in str(found)


def test_channels_that_switch_together_are_not_called_copies():
    model = nn.Sequential(nn.Linear(1, 2, bias=False), nn.ReLU(), nn.Linear(2, 2))
    with torch.no_grad():
        model[0].weight[:] = torch.tensor([[1.0], [2.0]])
    found = gw.diagnose(model, torch.randn(50, 1), questions="gates")
    assert "1 is on for exactly the same inputs as another." in found["gates"].line
    assert "cop" not in str(found)


def test_training_is_asked_about_only_with_checkpoints():
    model = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2))
    for checkpoints in (None, []):
        found = gw.diagnose(model, torch.randn(20, 4), checkpoints=checkpoints)
        assert [each.name for each in found] == ["sites", "gates", "pairing", "cost"]


def test_saturated_gates_and_the_time_of_activations_are_counted():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 6), nn.SiLU(), nn.Linear(6, 2))
    with torch.no_grad():
        model[0].weight[:2] *= 1e4
    counts = {each.name: each for each in gw.diagnose(model, torch.randn(200, 8)).findings}
    assert (counts["saturated"].number, counts["saturated"].total) == ("2", "6 soft gates")
    assert counts["time in activation functions"].number.endswith("%")


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


class Sequences(nn.Module):
    """A layer on sequences, of which some channels tell only whether the first number is 1."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.layer = nn.Linear(6, 20)
        with torch.no_grad():
            self.layer.bias[4:9] = -1e3
            self.layer.weight[4:9, 0] = 2e3
            self.layer.bias[9:12] = 1e3
            self.layer.weight[9:12, 0] = -2e3
            self.layer.weight[15] = self.layer.weight[14]
            self.layer.bias[15] = self.layer.bias[14]

    def forward(self, x: torch.Tensor, attention_mask: torch.Tensor | None = None) -> torch.Tensor:
        return torch.relu(self.layer(x))


def test_complexity_does_not_compare_crelu_with_relu_in_a_gated_linear_unit():
    class SwiGLU(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.gate, self.up = nn.Linear(6, 9), nn.Linear(6, 9)
            self.down = nn.Linear(9, 4)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.down(nn.functional.silu(self.gate(x)) * self.up(x))

    found = gw.diagnose(SwiGLU(), torch.randn(30, 6), questions=["complexity"])
    answer = found["complexity"]
    assert answer.state == "does not apply" and answer.reason == Limitation.UNSUPPORTED_UNIT
    plain = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 4))
    both = nn.Sequential(SwiGLU(), plain[1], nn.Linear(4, 2))
    assert gw.diagnose(plain, torch.randn(30, 6), questions="complexity")["complexity"].facts
    facts = gw.diagnose(both, torch.randn(30, 6), questions="complexity")["complexity"].facts
    assert facts["layer"] == "layer 0.down"


@pytest.mark.parametrize("padded", [False, True])
def test_channels_that_change_only_at_the_first_token_are_no_copies(padded):
    x = torch.randn(4, 10, 6)
    x[..., 0] = 0
    start = torch.tensor([0, 3, 1, 0]) if padded else torch.zeros(4, dtype=torch.long)
    x[torch.arange(4), start, 0] = 1
    batch = {"x": x}
    if padded:  # from the left, as for the generation of text
        batch["attention_mask"] = (torch.arange(10) >= start[:, None]).long()
    found = gw.diagnose(Sequences(), [batch], questions=["gates"])
    (site,) = found["gates"].record.sites
    assert site.first_only == tuple(range(4, 12))
    assert site.duplicates == ((14, 15),)
    counts = {each.name: each.number for each in found.findings}
    assert (
        counts["change only at the first token"] == "8"
        and counts["on for exactly the same inputs as another"] == "1"
    )
    assert "8 change only at the first token." in found["gates"].line
    flat = gw.gates(Sequences(), x.flatten(0, 1))
    assert flat.sites[0].first_only == ()


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
