"""The diagnosis: findings, questions that do not apply, failures, bad input, and advice."""

import json
import math
import os
from pathlib import Path

import pytest
import torch
from surgery.squeezenet import SqueezeNet, load, photographs
from torch import nn

import gatewise as gw
from gatewise.analysis.diagnosis import QUESTIONS, REASONS, Finding, Question, crelu_savings
from gatewise.errors import ArgumentError, Limitation, NotApplicableError, UnknownNameError
from gatewise.graph import find_sites
from gatewise.report.diagnosis import diagnosis_page
from gatewise.surgery import plan

PAIRED = 24
QUICK = ("sites", "pairing", "orthogonality", "prior")


def network(seed: int = 0, filters: int = 8) -> nn.Sequential:
    torch.manual_seed(seed)
    return nn.Sequential(
        nn.Conv2d(3, filters, 3, padding=1),
        nn.BatchNorm2d(filters),
        nn.ReLU(),
        nn.Conv2d(filters, 6, 3, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 4),
    )


def paired(seed: int = 0) -> nn.Sequential:
    """The same, with the first layer's filters in exact pairs.

    So many that coins would hardly ever fall so.
    """
    made = network(seed, PAIRED)
    weight = made[0].weight.data
    weight[PAIRED // 2 :] = -weight[: PAIRED // 2]
    return made


def images(count: int = 24) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(count, 3, 8, 8, generator=generator), torch.arange(count) % 4


@pytest.fixture(scope="module")
def found():
    """Everything asked of the small network with paired filters."""
    x, y = images()
    batches = list(zip(x.split(10), y.split(10), strict=True))
    return gw.diagnose(
        paired(),
        batches,
        seconds=1.0,
        name="small",
        checkpoints=[network(0, PAIRED).state_dict(), network(1, PAIRED)],
        questions="all",
    )


@pytest.mark.slow
def test_every_question_is_answered_and_the_record_is_plain_json(found) -> None:
    assert [each.name for each in found] == list(QUESTIONS)
    assert {each.name: each.detail for each in found if each.state != "answered"} == {}
    record = found.to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["data"] == {
        "real": True,
        "about": "24 inputs",
        "examples": 24,
        "shapes": [[3, 8, 8]],
        "classes": 4,
        "preprocessing": "",
        "preprocessing_known": True,
    }
    assert record["versions"]["torch"] == torch.__version__
    assert all(each["seconds"] >= 0 for each in record["questions"]) and record["seconds"] > 0


def test_answers_are_those_of_the_analyses_themselves(found) -> None:
    model, (x, _) = paired().eval(), images()
    alone = gw.analysis.pairing(model, draws=30)
    for row, layer in zip(found["pairing"].facts["layers"], alone.layers, strict=True):
        assert row["mean"] == layer.mean and row["partner"] == layer.partner.tolist()
    with torch.no_grad():
        on = model[1](model[0](x)) > 0
    site = found["gates"].facts["sites"][0]
    assert site["on_rate"] == pytest.approx(float(on.double().mean()), abs=1e-12)
    by_channel = on.transpose(0, 1).flatten(1)
    assert site["dead"] == (~by_channel.any(1)).nonzero().flatten().tolist()
    assert found["cost"].facts["parameters"] == sum(each.numel() for each in model.parameters())
    assert found["templates"].facts["error"] < 1e-5


def test_histograms_hold_every_filter_and_every_random_one(found) -> None:
    for row in found["pairing"].facts["layers"]:
        assert sum(row["histogram"]) == pytest.approx(1, abs=1e-4)
        assert sum(row["chance_histogram"]) == pytest.approx(1, abs=1e-4)


def test_regions_of_the_page_fill_the_window(found) -> None:
    facts = found["partition"].facts
    corners = torch.tensor(facts["vertices"], dtype=torch.float64)
    area = 0.0
    for first, last in zip(facts["starts"], facts["starts"][1:], strict=False):
        u, v = corners[first:last].T
        area += float((u * v.roll(-1) - u.roll(-1) * v).sum()) / 2
    width, height = (high - low for low, high in zip(facts["low"], facts["high"], strict=True))
    assert area == pytest.approx(width * height, rel=1e-3)  # corners are rounded for the page
    assert facts["count"] == len(facts["starts"]) - 1


def test_advice_on_pairs_says_what_surgery_then_saves(found) -> None:
    advice = next(each for each in found.advice if "half width" in each.text)
    assert advice.command == "gw.swap(model, 'crelu', x, where=['2'], width='half')"
    made = plan(paired(), "crelu", images(2)[0], where=["2"], width="half")
    before, after = made.parameters
    assert f"{before - after:,} of {before:,} parameters" in advice.text
    assert "\N{MINUS SIGN}1.00" in advice.evidence and "p < 1e-6" in advice.evidence
    row = found["pairing"].facts["layers"][0]
    assert (
        f"+{row['similar_mean']:.2f} with the most similar" in advice.evidence
        and row["p_phases_corrected"] < 0.01
    )


@pytest.mark.slow
@pytest.mark.parametrize("name", ["convpool_cnn", "resnet_cifar", "vgg_cifar"])
def test_the_saving_is_surgerys_own_sum(name: str) -> None:
    model = gw.models.create_model(name)
    x = torch.randn(2, 3, 32, 32)
    reading = find_sites(model, x, modes=("eval",)).readings["eval"]
    layers = {path for path, module in model.named_modules() if isinstance(module, nn.Conv2d)}
    savings = crelu_savings(reading, layers)
    assert savings
    before, after = plan(
        model, "crelu", x, where=[each.site for each in savings], width="half"
    ).parameters
    assert sum(each.parameters for each in savings) == before - after


def test_a_random_network_gets_no_advice_on_pairs() -> None:
    made = gw.diagnose(network(), images()[0], questions=QUICK)
    assert not [each for each in made.advice if each.question == "pairing"]
    assert made["pairing"].line.startswith("No layer has more opposite filters than chance")


def test_filters_near_a_few_lines_are_not_advised_as_pairs() -> None:
    """They are as far from random ones as pairs are.

    What tells them apart is that they are alike too.
    """
    model = network(0, PAIRED)
    generator = torch.Generator().manual_seed(2)
    lines = torch.randn(PAIRED, 2, generator=generator) @ torch.randn(2, 27, generator=generator)
    model[0].weight.data = lines.reshape(PAIRED, 3, 3, 3) + 0.05 * model[0].weight.data
    made = gw.diagnose(model, images()[0], questions=["pairing"])
    row = made["pairing"].facts["layers"][0]
    assert row["mean"] < -0.9 and row["p_corrected"] < 1e-6 and row["p_phases_corrected"] > 0.05
    assert not [each for each in made.advice if "half width" in each.text]
    assert "1 of 2 layers have filters in a few directions, as alike" in made["pairing"].line


def test_a_layer_that_is_all_zero_is_not_the_nearest_to_pairing() -> None:
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.Conv2d(8, 12, 3))
    nn.init.zeros_(model[0].weight)
    made = gw.diagnose(model, images()[0], questions=["pairing"])
    assert "The closest: layer 2 has" in made["pairing"].line
    json.dumps(made["pairing"].facts, allow_nan=False)
    diagnosis_page(made.to_dict())
    nn.init.zeros_(model[2].weight)
    made = gw.diagnose(model, images()[0], questions=["pairing"])
    assert made["pairing"].line == (
        "No layer has opposite filters: none has two filters that are not all zero."
    )
    diagnosis_page(made.to_dict())


def test_overlap_is_held_against_the_square_of_the_share_that_is_on() -> None:
    model = nn.Sequential(nn.Linear(4, 8), nn.ReLU())
    nn.init.zeros_(model[0].weight)
    model[0].bias.data = torch.tensor([1.0, -1.0] * 4)  # half of the gates are on, for every input
    line = gw.diagnose(model, torch.randn(6, 4), questions=["overlap"])["overlap"].line
    assert line == (
        "Two inputs open the same 50 % of gates. If all gates were independent and equally often "
        "on, it would be 25 %."
    )


def test_dead_channels_are_advised_on_with_their_number() -> None:
    model = network()
    model[1].bias.data[:3] = -100.0  # three channels that nothing opens
    made = gw.diagnose(model, images(40)[0], questions=["gates"])
    assert made["gates"].facts["sites"][0]["dead"] == [0, 1, 2]
    advice = next(each for each in made.advice if each.question == "gates")
    assert "2: 3 of 8" in advice.evidence and "gw.swap(model, 'leaky_relu'" in advice.command
    assert advice.text.startswith(
        "3 of 14 channels never fire on 40 inputs, and ReLU gives them no gradient"
    )
    model[1].bias.data[:2] = 0.0
    alone = gw.diagnose(model, images(40)[0], questions=["gates"]).advice[0].text
    assert alone.startswith(
        "1 of 14 channels never fires on 40 inputs, and ReLU gives it no gradient"
    )
    few = gw.diagnose(model, images(3)[0], questions=["gates"])
    assert (
        few["gates"].facts["sites"][0]["dead"] and not few.advice
    )  # three inputs say little about the next


@pytest.mark.slow
@pytest.mark.data
def test_the_first_convolution_of_a_real_network_pairs_and_a_random_ones_does_not() -> None:
    """SqueezeNet as it was trained on ImageNet, on photographs; and with new weights."""
    real, x = load(Path(os.environ["GATEWISE_DATA"])), photographs(2)[:, :, ::4, ::4]
    asked = ["pairing", "reconstruction", "gates"]
    made = gw.diagnose(real, x, questions=asked)
    assert {each.state for each in made} == {"answered"}, [each.detail for each in made]
    first = made["pairing"].facts["layers"][0]
    assert first["layer"] == "conv1" and first["p_corrected"] < 1e-6
    assert first["mean"] == pytest.approx(-0.80, abs=0.01) and first[
        "chance_mean"
    ] == pytest.approx(-0.43, abs=0.02)
    assert (
        first["similar_mean"] == pytest.approx(0.62, abs=0.01)
        and first["p_phases_corrected"] < 1e-3
    )
    halved = next(each for each in made.advice if "half width" in each.text)
    assert (
        "conv1 has opposite filters" in halved.text
        and "+0.62 with the most similar" in halved.evidence
    )
    torch.manual_seed(0)
    fresh = gw.diagnose(SqueezeNet(), x, questions=["pairing"])
    assert fresh["pairing"].facts["layers"][0]["p_corrected"] > 0.05
    assert not [each for each in fresh.advice if "half width" in each.text]


class Words(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.table, self.layer, self.head = nn.Embedding(11, 8), nn.Linear(8, 8), nn.Linear(8, 3)

    def forward(self, ids: torch.Tensor) -> torch.Tensor:
        return self.head(torch.relu(self.layer(self.table(ids)))).mean(1)


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(4, 4)

    def forward(self, a: torch.Tensor, b: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.relu(self.layer(a)), self.layer(b)


class Record(dict):
    """What libraries of models give: a mapping with attributes, that torch's trees may not know."""


class InRecord(nn.Module):
    """A network whose answer is the one tensor of a record."""

    def __init__(self, inner: nn.Module) -> None:
        super().__init__()
        self.inner = inner

    def forward(self, x: torch.Tensor) -> Record:
        return Record(logits=self.inner(x), hidden=None)


def test_one_tensor_in_a_record_is_one_output() -> None:
    asked = ["templates", "partition", "film", "kernel"]
    options = {"questions": asked, "seconds": 1.0}
    x = images()[0]
    alone = gw.diagnose(network(), x, checkpoints=[network(1)], **options)
    held = gw.diagnose(InRecord(network()), x, checkpoints=[InRecord(network(1))], **options)
    assert {each.state for each in held} == {"answered"}, [each.detail for each in held]
    assert held["templates"].facts["pictures"] == alone["templates"].facts["pictures"]
    assert held["kernel"].facts["condition"] == pytest.approx(
        alone["kernel"].facts["condition"], rel=1e-6
    )
    assert held["film"].facts["names"] == alone["film"].facts["names"]


CASES = [
    (
        "rows",
        nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 2)),
        torch.randn(9, 4),
        {
            "reconstruction": "no convolution",
            "invariance": "no images",
            "flips": "no checkpoints",
            "film": "no checkpoints",
        },
    ),
    (
        "rows of images",
        nn.Sequential(nn.Flatten(), nn.Linear(64, 6), nn.ReLU(), nn.Linear(6, 2)),
        torch.randn(9, 1, 8, 8),
        {"reconstruction": "no convolution", "invariance": "no maps"},
    ),
    (
        "units first",
        nn.Sequential(nn.ReLU(), nn.Linear(4, 6)),
        torch.randn(9, 4),
        {"prior": "no layer", "complexity": "no layer"},
    ),
    (
        "patches",
        nn.Sequential(nn.Conv2d(3, 6, 4, 4), nn.Flatten(), nn.Linear(24, 6)),
        torch.randn(9, 3, 8, 8),
        {"prior": "no unit behind"},
    ),
    (
        "words",
        Words(),
        {"ids": torch.randint(0, 11, (9, 5))},
        {"templates": "no numbers", "partition": "no numbers", "kernel": "no numbers"},
    ),
    (
        "two",
        Two(),
        [(torch.randn(9, 4), torch.randn(9, 4))],
        {"templates": "several inputs", "gates": "several inputs"},
    ),
    (
        "linear",
        nn.Sequential(nn.Linear(4, 6)),
        torch.randn(9, 4),
        {"sites": "no gates", "gates": "no gates"},
    ),
    (
        "bare",
        nn.Sequential(nn.Flatten(), nn.ReLU()),
        torch.randn(9, 4),
        {"pairing": "no filters", "prior": "no filters", "complexity": "no layer"},
    ),
    (
        "all the same",
        nn.Sequential(nn.Linear(4, 6), nn.ReLU()),
        torch.ones(9, 4),
        {"partition": "on one line"},
    ),
    (
        "one",
        nn.Sequential(nn.Linear(4, 6), nn.ReLU()),
        torch.randn(1, 4),
        {"partition": "too few inputs", "kernel": "too few inputs", "overlap": "too few inputs"},
    ),
]


@pytest.mark.parametrize(
    ("model", "x", "reasons"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_a_question_that_does_not_apply_says_why(model, x, reasons) -> None:
    made = gw.diagnose(model, x, questions=list(reasons))
    assert {each.name: each.reason for each in made} == reasons
    assert all(
        each.state == "does not apply" and REASONS[each.reason] == each.line for each in made
    )


def test_questions_about_weights_are_of_layers_that_a_unit_follows() -> None:
    model = nn.Sequential(
        nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 5), nn.Linear(5, 3), gw.nn.Swish(channels=3)
    )
    made = gw.diagnose(model, torch.randn(9, 4), questions=["prior", "pairing", "orthogonality"])
    for name in ("prior", "pairing", "orthogonality"):
        rows = made[name].facts["layers"]
        assert [row.get("layer", row.get("name")) for row in rows] == ["0", "3"]
    assert made["prior"].facts["left_out"] == []


def test_a_layer_is_not_called_by_a_number_alone() -> None:
    made = gw.diagnose(paired(), images()[0], questions=["pairing", "prior"])
    assert (
        "layer 0 has \N{MINUS SIGN}1.00" in made["pairing"].line
        and "after layer " in made["prior"].line
    )
    assert made.advice[0].text.startswith("Layer 0 has opposite filters")


def test_random_inputs_are_not_asked_about_gates() -> None:
    made = gw.diagnose(network(), images()[0], questions=["sites", "gates"], real=False)
    assert made["gates"].reason == "no real inputs" and made["sites"].state == "answered"


def replace_answer(monkeypatch, name: str, answer) -> None:
    monkeypatch.setitem(QUESTIONS, name, Question(name, "?", answer))


def test_a_question_that_fails_loses_no_other(monkeypatch) -> None:
    def broken(context):
        raise RuntimeError("a bug\nof many lines")

    def too_much(context):
        raise NotApplicableError(Limitation.TOO_LARGE, "7 GiB")

    replace_answer(monkeypatch, "pairing", broken)
    replace_answer(monkeypatch, "prior", too_much)
    made = gw.diagnose(network(), images()[0], questions=QUICK)
    assert [each.state for each in made] == ["answered", "failed", "answered", "does not apply"]
    assert "RuntimeError: a bug" in made["pairing"].detail and made["prior"].detail == "7 GiB"


@pytest.mark.parametrize(
    "problem",
    [
        KeyError("memory"),
        ValueError("the inputs must not lie on one line"),
        ArgumentError("there is no memory left, limit reached", got=3),
        RuntimeError("out of memory"),
    ],
    ids=lambda problem: type(problem).__name__,
)
def test_an_error_inside_an_analysis_is_a_failure_with_its_traceback(monkeypatch, problem) -> None:
    """No word of the message turns a bug into a question that does not apply."""

    def broken_analysis(*args, **options):
        raise problem

    for module, name in (("gate_activity", "gates"), ("weights", "pairing"), ("maps", "ntk")):
        place = f"gatewise.analysis.diagnosis.questions.{module}.{name}"
        monkeypatch.setattr(place, broken_analysis)
    made = gw.diagnose(network(), images()[0], questions=["sites", "gates", "pairing", "kernel"])
    assert made["sites"].state == "answered" and not made["sites"].traceback
    for name in ("gates", "pairing", "kernel"):
        answer = made[name]
        assert answer.state == "failed" and answer.reason is None and answer.line.endswith(".")
        assert type(problem).__name__ in answer.detail
    for row in made.to_dict()["questions"][1:]:
        assert row["traceback"].startswith("Traceback (most recent call last):")
        assert "broken_analysis" in row["traceback"] and "test_diagnose.py" in row["traceback"]
    assert "Traceback (most recent call last):" in diagnosis_page(made.to_dict())


def test_names_of_layers_do_not_change_the_answer() -> None:
    """A layer may be called ``memory`` or ``limit``, words that stand in messages of analyses."""

    def answers(first: str, last: str) -> list[tuple[str, str | None]]:
        torch.manual_seed(0)
        model = nn.Sequential()
        model.add_module(first, nn.Linear(4, 6))
        model.add_module("act", nn.Softmax(1))
        model.add_module(last, nn.ReLU())
        made = gw.diagnose(model, torch.ones(9, 4), seconds=0.5, questions="all")
        return [(each.state, each.reason) for each in made]

    assert answers("memory", "limit") == answers("first", "last")


def test_every_limitation_has_its_sentence() -> None:
    assert set(REASONS) == set(Limitation)
    assert all(line.endswith(".") and ": " in line for line in REASONS.values())


def test_a_new_question_appears_in_the_record_and_on_the_page(monkeypatch) -> None:
    def answer(context) -> Finding:
        return Finding("There are 8 layers.", {"layers": len(context.model), "names": ["a", "b"]})

    monkeypatch.setitem(QUESTIONS, "depth", Question("depth", "How deep is it?", answer))
    made = gw.diagnose(network(), images()[0], questions=["depth"])
    assert made["depth"].line == "There are 8 layers."
    page = diagnosis_page(made.to_dict())
    assert "How deep is it?" in page and "There are 8 layers." in page
    assert "layers" in page and "names" in page  # the facts, in a table


def test_a_layer_too_large_for_memory_is_left_out_with_its_size() -> None:
    model = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 400), nn.ReLU())
    made = gw.diagnose(
        model, torch.randn(9, 4), questions=["pairing", "orthogonality"], memory=2**20
    )
    for name in ("pairing", "orthogonality"):
        assert [each.split(":")[0] for each in made[name].facts["too_large"]] == ["2"]
        assert len(made[name].facts["layers"]) == 1


BAD = [
    ("empty", lambda x: [], "there is no batch"),
    ("no rows", lambda x: [x[:0]], "batch 0 is empty"),
    ("not batches", lambda x: 3, "must be a tensor, a list of batches or a data loader; got: int"),
    ("shape", lambda x: x[:, :2], "cannot be run"),
    ("other shape", lambda x: [x, x[..., :6]], "batch 1 has another shape"),
    ("nan", lambda x: [x, x * torch.nan], "batch 1 contains NaN or infinity"),
    (
        "nan in one",
        lambda x: x.index_fill(0, torch.tensor([5]), torch.inf),
        "192 of 4,608 .* first in input 5",
    ),
    ("text", lambda x: ["words"], "a batch of this form is not understood"),
]


@pytest.mark.parametrize(
    ("change", "words"), [case[1:] for case in BAD], ids=[case[0] for case in BAD]
)
def test_bad_inputs_are_named(change, words) -> None:
    with pytest.raises(ArgumentError, match=words):
        gw.diagnose(network(), change(images()[0]), questions="all")


def test_layers_that_wait_for_their_first_input_are_built() -> None:
    made = gw.diagnose(
        nn.Sequential(nn.LazyLinear(6), nn.ReLU(), nn.LazyLinear(2)),
        torch.randn(9, 4),
        questions=QUICK,
    )
    assert {each.state for each in made} == {"answered"} and made.model[
        "parameters"
    ] == 5 * 6 + 7 * 2


def test_weights_that_are_not_numbers_are_named_with_their_layer() -> None:
    model = network()
    model[3].weight.data[0, 0, 0, 0] = torch.nan
    with pytest.raises(
        ArgumentError, match=r"weights of '3' contain NaN or infinity.*3\.weight: 1 of 432"
    ):
        gw.diagnose(model, images()[0], questions="all")


def test_too_many_inputs_for_memory_say_how_many_would_do() -> None:
    x = images()[0]
    with pytest.raises(ArgumentError, match=r"24 inputs would need .* fix: examples=4,"):
        gw.diagnose(network(), x, examples=24, memory=2 * 4 * x[0].nbytes, questions="all")


@pytest.mark.parametrize(
    "options",
    [{"examples": 0}, {"memory": -1}, {"seconds": 0}, {"seconds": math.nan}, {"questions": []}],
    ids=str,
)
def test_bad_limits_are_refused(options) -> None:
    with pytest.raises(ArgumentError):
        gw.diagnose(network(), images()[0], **options)


def test_a_wrong_question_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match="did you mean 'pairing'"):
        gw.diagnose(network(), images()[0], questions=["paring"])


def test_the_model_and_torchs_random_state_are_left_as_they_were() -> None:
    model = network().train()
    before = {name: value.clone() for name, value in model.state_dict().items()}
    state = torch.get_rng_state()
    gw.diagnose(model, images()[0], questions=["sites", "gates", "kernel", "cost"])
    assert model.training and all(
        torch.equal(before[name], value) for name, value in model.state_dict().items()
    )
    assert torch.equal(state, torch.get_rng_state())
    assert all(parameter.grad is None for parameter in model.parameters())


def test_progress_tells_each_question_and_counts() -> None:
    told: list[tuple[str, int, int | None]] = []
    gw.diagnose(
        network(),
        images(250)[0].split(5),
        questions=["sites", "gates"],
        progress=lambda *each: told.append(each),
    )
    assert [each for each in told if each[0] == "gates"] == [
        ("gates", 0, None),
        *(("gates", i, 5) for i in range(1, 6)),
    ]


def test_inputs_beyond_the_asked_number_are_not_used() -> None:
    def endless():
        while True:
            yield images()[0]

    made = gw.diagnose(network(), endless(), examples=30, questions=["gates"])
    assert made.data["examples"] == 30 and made["gates"].facts["sites"][0]["seen"] == 30 * 64


def test_a_diagnosis_reads_well(found) -> None:
    text = str(found)
    assert text.startswith("small: ") and all(each.line in text for each in found)
    assert (
        "<script>"
        not in gw.diagnose(
            network(), images()[0], questions=["sites"], name="<script>"
        )._repr_html_()
    )
    with pytest.raises(UnknownNameError):
        found["nothing"]
