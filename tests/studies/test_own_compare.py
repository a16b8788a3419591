"""Units compared in a model of one's own.

Equal starts, the files of any study, errors before anything runs.
"""

import shutil
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from gatewise_papers import psc
from studies.own_networks import Net, digits, loaders
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gatewise as gw
from gatewise.devices import describe_processor
from gatewise.errors import ArgumentError
from gatewise.studies import Running, describe, plan_comparison, read_study, run_comparison
from gatewise.studies.comparison import (
    ORIGINAL,
    UserUnit,
    make_recipe,
    read_data,
    user_model,
    variants,
)
from gatewise.studies.comparison.costs import CostEstimate
from gatewise.train import find_recipe

QUICK = {"epochs": 1, "progress": False, "rates": 1, "seeds": 2, "device": "cpu"}
RECIPE = make_recipe("adam", 1)


def own_model(source, data):
    return user_model(source, read_data(data, RECIPE), RECIPE)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory):
    out = tmp_path_factory.mktemp("own") / "study"
    return gw.compare(Net, ["crelu", "gelu"], loaders(), out=out, **QUICK), out


def test_every_unit_is_compared_with_the_original(found):
    result, _ = found
    assert result.units == [ORIGINAL, "crelu", "gelu"] and result.baseline == ORIGINAL
    assert {(r["unit"], r["seed"]) for r in result.records} == {
        (u, s) for u in result.units for s in (0, 1)
    }
    assert all(record["status"] == "done" for record in result.records)


def test_folder_is_that_of_a_study_and_a_second_call_trains_nothing(found, monkeypatch):
    result, out = found
    assert read_study(out).to_dict() == result.to_dict()
    monkeypatch.setattr(
        "gatewise.studies.engine.cell.train", lambda *_, **__: pytest.fail("trained again")
    )
    again = gw.compare(Net, ["crelu", "gelu"], loaders(), out=out, **QUICK)
    assert again.records == result.records


def test_exported_records_resume_a_study_in_a_new_folder(found, tmp_path, monkeypatch):
    result, out = found
    shutil.copy(out / "study.jsonl", tmp_path)
    monkeypatch.setattr(
        "gatewise.studies.engine.cell.train", lambda *_, **__: pytest.fail("trained again")
    )
    again = gw.compare(Net, ["crelu", "gelu"], loaders(), out=tmp_path, **QUICK)
    assert again.records == result.records
    assert (tmp_path / "study.jsonl").read_text() == (out / "study.jsonl").read_text()
    (tmp_path / "study.sqlite").unlink()
    with pytest.raises(ArgumentError, match="belongs to another study"):
        gw.compare(Net, ["crelu"], loaders(8), out=tmp_path, **QUICK)


def test_records_name_precision_and_processor(found):
    for record in found[0].records:
        assert record["precision"] == "float32"
        assert record["machine"]["processor"] == describe_processor()
        assert record["machine"]["torch"] == torch.__version__


def test_other_first_seeds_are_other_runs_with_verdicts_of_their_own(tmp_path):
    study = plan_comparison({"": Net}, ["gelu"], digits(40), rates=1, seeds=3, epochs=1)
    later = replace(study, first_seed=3)
    assert not {c.key for c in study.wanted({})} & {c.key for c in later.wanted({})}
    both = replace(study, seeds=6)
    assert {c.key for c in later.wanted({})} < {c.key for c in both.wanted({})}
    result = run_comparison(later, tmp_path, Running())
    assert {record["seed"] for record in result.records} == {3, 4, 5}
    assert not result.is_preliminary and read_study(tmp_path).to_dict() == result.to_dict()


def test_units_have_as_many_parameters_as_the_original_where_that_is_possible(found):
    def net() -> nn.Module:
        parts = [nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 10)]
        return nn.Sequential(nn.Flatten(), *parts)

    wide = gw.compare(net, ["crelu", "psc", "gelu"], digits(40), **QUICK)
    facts = {unit.label: unit for unit in wide.header.units}
    for label in ("crelu", "psc"):
        assert facts[label].matched == "parameters matched"
        assert facts[label].parameters_ratio == pytest.approx(1, abs=0.01)
    assert facts["gelu"].matched == "" and facts["gelu"].parameters_ratio == 1
    counts = {record["unit"]: record["parameters"] for record in wide.records}
    assert counts["crelu"] / counts[ORIGINAL] == pytest.approx(facts["crelu"].parameters_ratio)


@pytest.mark.parametrize("width", [6, 8])
def test_the_nearest_widths_are_taken_where_none_is_within_a_per_cent(width):
    def net() -> nn.Module:
        parts = [nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()]
        return nn.Sequential(nn.Flatten(), *parts, nn.Linear(width, 10))

    study = plan_comparison({"": net}, ["crelu"], digits(40), rates=1, seeds=2, epochs=1)
    crelu = study.header()["units"][1]
    assert crelu["matched"] == "parameters matched as closely as the widths allow"
    assert 0.01 < abs(crelu["parameters_ratio"] - 1) < 0.03


def test_page_is_written_from_the_result(found, tmp_path: Path):
    page = gw.write_page(found[0], tmp_path / "page.html").read_text()
    assert "crelu" in page and ORIGINAL in page


def test_layers_of_equal_shape_start_equal_and_differ_between_seeds():
    model = own_model(Net, loaders())
    units = [UserUnit(ORIGINAL), UserUnit("s", "swish"), UserUnit("c", "crelu", match="none")]
    (plain, smooth, wide), _ = variants(model, units, ORIGINAL)
    one, other, another = plain.build(model, 3), smooth.build(model, 3), wide.build(model, 3)
    assert all(
        torch.equal(each, dict(other.named_parameters())[name])
        for name, each in one.named_parameters()
    )
    assert torch.equal(one.head.weight, another.head.weight)
    assert another.conv1.weight.shape != one.conv1.weight.shape
    assert not torch.equal(one.conv1.weight, plain.build(model, 4).conv1.weight)
    assert torch.equal(one.conv1.weight, plain.build(model, 3).conv1.weight)


def test_given_module_keeps_its_weights_and_is_not_trained_itself():
    torch.manual_seed(0)
    net = Net()
    before = {name: each.clone() for name, each in net.state_dict().items()}
    model = own_model(net, digits())
    crelu = UserUnit("crelu", "crelu", {"preserve": True}, match="none")
    kept = variants(model, [UserUnit(ORIGINAL), crelu], ORIGINAL)[0][1]
    built, x = kept.build(model, 0), digits()[0][0]
    torch.testing.assert_close(built(x), net(x))
    assert torch.equal(built.conv1.weight, before["conv1.weight"])
    gw.compare(net, ["crelu"], digits(), **QUICK)
    assert all(torch.equal(each, before[name]) for name, each in net.state_dict().items())


def test_given_module_adds_what_the_seed_says_and_leaves_randomness_alone():
    model = own_model(Net(), digits())
    crelu = UserUnit("crelu", "crelu", {"width": "same"}, match="none")
    wide = variants(model, [UserUnit(ORIGINAL), crelu], ORIGINAL)[0][1]
    state = torch.get_rng_state()
    first, again, other = wide.build(model, 0), wide.build(model, 0), wide.build(model, 1)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.head.weight, again.head.weight)
    assert not torch.equal(first.head.weight, other.head.weight)


def test_vectors_are_read_as_they_are():
    (x, y), (x_test, y_test) = digits()
    net = nn.Sequential(nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))
    result = gw.compare(net, ["gelu"], ((x.flatten(1), y), (x_test.flatten(1), y_test)), **QUICK)
    assert [record["status"] for record in result.records] == ["done"] * 4


def test_numbers_as_labels_are_compared_by_their_loss():
    (x, y), (x_test, y_test) = digits()
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 1))
    recipe = gw.train.read_recipe(
        "epochs = 1\nbatch = 20\noptimiser = {name = 'sgd', lr = 0.001}\nloss = {name = 'mse'}"
    )
    data = (x, y.float()), (x_test, y_test.float())
    result = gw.compare(net, ["gelu"], data, recipe=recipe, **{**QUICK, "epochs": None})
    assert result.header.metric.name == "mse" and not result.header.metric.higher_is_better
    for record in result.records:
        assert record["metrics"]["mse"] == pytest.approx(record["metrics"]["loss"])


def test_unit_with_options_and_label_and_a_baseline_among_the_units():
    units = ["relu", {"name": "crelu", "width": "half", "label": "half"}]
    result = gw.compare(Net, units, digits(), baseline="relu", **QUICK)
    assert result.units == ["relu", "half"]
    assert result.baseline == "relu"


NAN = digits()[0][0].clone()
NAN[3, 0, 2, 2] = float("nan")
WRONG = {
    "unit": (Net, ["crelu", "nonsense"], digits(), {}, "nonsense"),
    "no units": (Net, [], digits(), {}, "a list of units is needed"),
    "text for units": (Net, "crelu", digits(), {}, "a list of units is needed"),
    "twice": (Net, ["crelu", "crelu"], digits(), {}, "appears twice"),
    "where": (Net, [{"name": "crelu", "where": "nothing.*"}], digits(), {}, "cannot be put in"),
    "argument": (Net, ["crelu"], digits(), {"epoch": 3}, "did you mean 'epochs'"),
    "two rates": (Net, ["crelu"], digits(), {"rates": 2}, "four learning rates"),
    "three rates": (Net, ["crelu"], digits(), {"rates": [0.1, 0.2, 0.4]}, "four learning rates"),
    "ratios": (Net, ["gelu"], digits(), {"rates": [0.1, 0.2, 0.3, 0.4]}, "0.1, 0.1587, 0.252, 0.4"),
    "equal rates": (Net, ["gelu"], digits(), {"rates": [0.1] * 4}, "one appears twice"),
    "factory": (lambda: 3, ["crelu"], digits(), {}, "did not return a module"),
    "model": (3, ["crelu"], digits(), {}, "a module, or a function that makes one"),
    "shape": (
        nn.Sequential(nn.Linear(7, 3), nn.ReLU(), nn.Linear(3, 2)),
        ["gelu"],
        digits(),
        {},
        "cannot read these",
    ),
    "output": (
        nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU()),
        ["gelu"],
        digits(),
        {},
        "outputs and targets fit nothing that is known",
    ),
    "frozen": (Net().requires_grad_(False), ["gelu"], digits(), {}, "no trainable parameters"),
    "nan": (Net, ["gelu"], ((NAN, digits()[0][1]), digits()[1]), {}, "first at 3"),
    "empty": (
        Net,
        ["gelu"],
        (DataLoader(TensorDataset(torch.zeros(0, 1, 8, 8))), digits()[1]),
        {},
        "train is empty",
    ),
    "one part": (Net, ["gelu"], digits()[0][0], {}, "not understood"),
    "classes": (
        nn.Sequential(nn.Flatten(), nn.Linear(64, 4), nn.ReLU()),
        ["gelu"],
        digits(),
        {},
        "more classes",
    ),
    "seeds": (Net, ["gelu"], digits(), {"seeds": 0}, "seeds"),
    "no seeds": (Net, ["gelu"], digits(), {"seeds": None}, "seeds"),
    "half a seed": (Net, ["gelu"], digits(), {"seeds": 2.0}, "seeds"),
    "metric": (
        Net,
        ["gelu"],
        digits(),
        {"metric": "nonsense", "mode": "up"},
        "mode is not allowed",
    ),
    "label": (Net, [{"name": "gelu", "label": 5}], digits(), {}, "label"),
    "lists": (Net, ["gelu"], (([[1.0]], [0]), ([[1.0]], [0])), {}, "not understood"),
    "failing factory": (
        lambda: Net(3),
        ["gelu"],
        digits(),
        {},
        "the function that makes it failed",
    ),
    "numbers": (
        Net,
        ["gelu"],
        tuple((x, y.float()) for x, y in digits()),
        {},
        "outputs and targets fit nothing that is known",
    ),
    "double": (Net().double(), ["gelu"], digits(), {}, "float32"),
    "same seed": (Net, ["gelu"], digits(), {"seeds": [1, 1]}, "seeds"),
    "recipe": (Net, ["gelu"], digits(), {"recipe": "adm"}, "adam"),
    "epochs": (Net, ["gelu"], digits(), {"epochs": -1}, "epochs"),
}


def test_what_cannot_work_is_refused_before_anything_is_written(tmp_path: Path):
    for case, (model, units, data, options, said) in WRONG.items():
        with pytest.raises(ArgumentError, match=said):
            gw.compare(model, units, data, out=tmp_path / "out", **{"progress": False, **options})
            pytest.fail(case)
        assert not (tmp_path / "out").exists(), case


def test_rates_that_people_type_are_a_grid():
    for rates in ([0.001, 0.003, 0.01, 0.03], [1e-4, 3e-4, 1e-3, 3e-3, 0.01], [0.5, 1, 2, 4]):
        cost = gw.compare(Net, ["gelu"], digits(40), rates=rates, dry_run=True, progress=False)
        assert cost.rates == len(rates)


class Other(Net):
    """The same weights, another function."""

    def forward(self, x):
        return super().forward(2 * x)


def test_model_that_computes_something_else_is_another_model(found):
    Other.__name__, before = "Net", Other.__name__
    try:
        with pytest.raises(ArgumentError, match="belongs to another study"):
            gw.compare(Other, ["crelu", "gelu"], loaders(), out=found[1], **QUICK)
    finally:
        Other.__name__ = before


def test_shuffling_loaders_are_the_same_data_every_time(tmp_path: Path):
    train, test = (DataLoader(TensorDataset(*part), 20, shuffle=True) for part in digits(40))
    first = gw.compare(Net, ["gelu"], (train, test), out=tmp_path / "s", **QUICK)
    assert (
        gw.compare(Net, ["gelu"], (train, test), out=tmp_path / "s", **QUICK).records
        == first.records
    )


def test_further_metrics_are_recorded_and_do_not_change_the_judged_one():
    found = gw.compare(Net, ["gelu"], digits(40), metrics=["error"], **QUICK)
    assert found.header.metric.name == "accuracy"
    for record in found.records:
        assert record["metrics"]["error"] == pytest.approx(1 - record["value"])


def test_what_a_factory_sets_is_kept():
    def factory():
        net = Net()
        nn.init.constant_(net.head.bias, -4.5)
        return net

    model = own_model(factory, digits(40))
    [_, variant], _ = variants(model, [UserUnit(ORIGINAL), UserUnit("gelu", "gelu")], ORIGINAL)
    assert (variant.build(model, 0).head.bias == -4.5).all()


def test_failed_runs_are_recorded_with_their_error(monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("for now")

    monkeypatch.setattr("gatewise.studies.engine.cell.train", broken)
    failed = gw.compare(Net, ["gelu"], digits(40), **QUICK)
    assert [record["status"] for record in failed.records] == ["failed"] * 4
    assert all("RuntimeError: for now" in record["error"] for record in failed.records)


def test_a_unit_that_is_refused_at_a_site_is_left_out_with_the_reason():
    def net() -> nn.Module:
        parts = [nn.Flatten(), nn.Linear(64, 5), nn.ReLU(), nn.Linear(5, 10)]
        return nn.Sequential(*parts)

    found = gw.compare(net, ["gelu", {"name": "crelu", "width": "half"}], digits(40), **QUICK)
    assert found.units == [ORIGINAL, "gelu"]
    [left] = found.header.left_out
    assert left["unit"].startswith("crelu") and "odd number of channels" in left["reason"]


def test_other_seeds_of_the_same_unit_are_other_runs():
    same = {"name": "relu", "label": "relu again"}
    other = {"name": "relu", "stream": 1, "label": "other seeds"}
    found = gw.compare(Net, [same, other], digits(40), **QUICK)
    values = {}
    for record in found.records:
        values.setdefault(record["unit"], []).append(record["metrics"]["loss"])
    assert values.keys() == {ORIGINAL, "other seeds"}
    assert found.header.left_out == [
        {"unit": "relu again", "model": "Net", "reason": "the same network as original"}
    ]
    assert values["other seeds"] != pytest.approx(values[ORIGINAL])


def test_the_cost_is_a_range_and_nothing_is_trained_in_a_dry_run(tmp_path, monkeypatch):
    monkeypatch.setattr(
        "gatewise.studies.engine.cell.train", lambda *_, **__: pytest.fail("trained")
    )
    cost = gw.compare(Net, ["gelu"], digits(40), dry_run=True, out=tmp_path / "s", progress=False)
    runs = cost.runs
    # 2 units: 5 rates x 3 seeds and then 3 rates x 5 seeds; 5 x 8; 7 x 8
    assert (runs.racing, runs.planned, runs.widened) == (60, 80, 112)
    assert not (tmp_path / "s").exists() and "60 to 112 runs" in str(cost)


def test_shards_are_joined_and_give_what_one_process_gives(tmp_path):
    from gatewise.studies import Running, plan_comparison, run_comparison

    def study():
        return plan_comparison({"": Net}, ["gelu"], digits(40), rates=4, seeds=3, epochs=1)

    whole = run_comparison(study(), tmp_path / "whole", Running())
    for part in ("1/2", "2/2"):
        run_comparison(study(), tmp_path / "parts", Running(shard=part))
    joined = read_study(tmp_path / "parts")
    assert len(joined.records) == 2 * 4 * 3
    done = run_comparison(study(), tmp_path / "parts", Running())
    values = [(r["key"], r["value"]) for r in done.records]
    assert values == [(r["key"], r["value"]) for r in whole.records]


def test_arrays_are_taken_as_tensors_are():
    parts = tuple((x.numpy(), y.numpy()) for x, y in digits(40))
    assert len(gw.compare(Net, ["gelu"], parts, **QUICK).records) == 4


def test_folder_of_another_model_is_not_touched(found):
    _, out = found
    before = sorted(out.rglob("*"))
    with pytest.raises(ArgumentError, match="belongs to another study"):
        gw.compare(
            nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.ReLU(), nn.Linear(9, 10)),
            ["gelu"],
            digits(),
            out=out,
            **QUICK,
        )
    assert sorted(out.rglob("*")) == before


def test_learned_splits_are_cooled_by_the_training():
    """The evaluation after the last step sees the last temperature of the schedule."""
    (x, y), (x_test, y_test) = digits()
    seen = []

    def evaluate(model: nn.Module, loader) -> dict[str, float]:
        seen.append(float(model[1].temperature))
        right = [(model(a).argmax(1) == b).float().mean() for a, b in loader]
        return {"accuracy": float(torch.stack(right).mean())}

    def net() -> nn.Module:
        layers = [nn.Flatten(), psc.StaticPSLinear(64, 8), nn.ReLU(), nn.Linear(8, 10)]
        return nn.Sequential(*layers)

    data = ((x - 0.5, y), (x_test - 0.5, y_test))
    gelu = {"name": "gelu", "where": "2", "label": "gelu"}
    gw.compare(net, [gelu], data, evaluate=evaluate, **QUICK)
    steps = -(-len(x) // RECIPE.batch)
    want = psc.split_temperature((steps - 1) / steps)
    assert want < 0.5 and seen[-1] == pytest.approx(want)


def test_units_cannot_be_left_out_after_their_runs(tmp_path):
    def again(units, seeds=3):
        data = ((torch.ones(8, 4), torch.arange(8) % 2),) * 2
        net = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.Linear(4, 2))
        choices = {"rates": 1, "epochs": 1, "progress": False}
        return gw.compare(net, units, data, out=tmp_path / "study", seeds=seeds, **choices)

    torch.manual_seed(0)
    state = torch.get_rng_state()
    again(["gelu", "silu"])
    torch.set_rng_state(state)
    with pytest.raises(ArgumentError, match="name silu too, or choose another folder"):
        again(["gelu"])
    torch.set_rng_state(state)
    more = again(["gelu", "silu", "tanh"], seeds=4)
    assert more.units == ["original", "gelu", "silu", "tanh"]
    assert "Seeds were planned again: 3, then 4" in str(more)


def test_a_comparison_is_centred_at_the_same_rate_whether_the_default_recipe_is_named_or_not():
    same = [None, "adam", find_recipe("adam"), {"batch": 32}, {"base": "adam", "batch": 32}]
    assert {make_recipe(recipe).optimiser.lr for recipe in same} == {3e-3}
    assert make_recipe(make_recipe("adam")).optimiser.lr == 3e-3
    chosen = [
        {"optimiser": {"lr": 1e-4}},
        {"base": "adam", "optimiser": {"lr": 1e-4}},
        find_recipe("adam", changes=["optimiser.lr = 1e-4"]),
    ]
    assert {make_recipe(recipe).optimiser.lr for recipe in chosen} == {1e-4}
    assert make_recipe("sgd").optimiser.lr == find_recipe("sgd").optimiser.lr


def test_what_was_matched_names_the_network_where_there_are_several():
    def net() -> nn.Module:
        parts = [nn.Linear(64, 40), nn.ReLU(), nn.Linear(40, 40), nn.ReLU(), nn.Linear(40, 10)]
        return nn.Sequential(nn.Flatten(), *parts)

    estimate = CostEstimate(2, 1, 2, 1.0, 1)
    for models, expected in (
        ({"a": net}, ["crelu: parameters matched"]),
        ({"a": net, "b": net}, [f"crelu in {name}: parameters matched" for name in "ab"]),
    ):
        study = plan_comparison(models, ["crelu"], digits(40), rates=1, seeds=2, epochs=1)
        lines = describe(study, estimate)
        assert [line for line in lines if "matched" in line] == expected


def test_units_that_cannot_be_put_in_are_counted_without_the_baseline():
    units = [{"name": name, "where": "nothing.*"} for name in ("crelu", "psc")]
    with pytest.raises(ArgumentError, match="2 of 2 cannot be put in"):
        plan_comparison({"": Net}, units, digits(40), rates=1, seeds=2, epochs=1)


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        (0.001, "24 to 36 runs, 24 as planned, about 1 second"),
        (1.0, "24 to 36 runs, 24 as planned, about 24 to 36 seconds"),
        (2.0, "24 to 36 runs, 24 as planned, about 48 seconds to 1 minute"),
        (14.0, "24 to 36 runs, 24 as planned, about 6 to 8 minutes"),
        (1800.0, "24 to 36 runs, 24 as planned, about 12 to 18 hours"),
    ],
)
def test_the_time_of_a_plan_is_rounded(seconds: float, words: str):
    assert CostEstimate(2, 4, 3, seconds, 1).words == words
