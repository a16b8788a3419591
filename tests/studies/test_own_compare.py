"""Units compared in a model of one's own.

Equal starts, the files of any study, errors before anything runs.
"""

from pathlib import Path

import pytest
import torch
from gatewise.studies.older import read_study
from studies.own_networks import Net, digits, loaders
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.studies.comparison import (
    AS_IT_IS,
    UserUnit,
    read_data,
    user_model,
    user_recipe,
    variants,
)

QUICK = {"epochs": 1, "progress": False, "tune": False}
RECIPE = user_recipe("adam", 1, {})


def own_model(source, data):
    return user_model(source, read_data(data, RECIPE), RECIPE)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory):
    out = tmp_path_factory.mktemp("own") / "study"
    return gw.compare(Net, ["crelu", "psc"], loaders(), seeds=2, out=out, **QUICK), out


def test_table_has_every_unit_against_the_model_as_it_is(found):
    result, _ = found
    assert result.units == [AS_IT_IS, "crelu", "psc"]
    assert result.blocks == [("Net", "own", "recipe")]
    assert {(r["unit"], r["seed"]) for r in result.records} == {
        (u, s) for u in result.units for s in (0, 1)
    }
    assert all(record["status"] == "finished" for record in result.records)
    assert "Not tuned" in str(result)


def test_folder_is_that_of_a_study_and_a_second_call_trains_nothing(found, monkeypatch):
    result, out = found
    assert read_study(out).to_dict() == result.to_dict()
    monkeypatch.setattr(
        "gatewise.studies.comparison.comparison_driver.train",
        lambda *_, **__: pytest.fail("trained again"),
    )
    again = gw.compare(Net, ["crelu", "psc"], loaders(), seeds=2, out=out, **QUICK)
    assert again.records == result.records


def test_receipt_of_each_swap_is_kept(found):
    result, _ = found
    receipts = {group["unit"]: group["receipt"] for group in result.content["groups"]}
    assert receipts[AS_IT_IS] is None
    assert len(receipts["crelu"]["sites"]) == 2
    assert (
        receipts["crelu"]["parameters"][1]
        == next(r for r in result.records if r["unit"] == "crelu")["parameters"]
    )


def test_page_is_written_from_the_result(found, tmp_path: Path):
    page = gw.write_page(found[0], tmp_path / "page.html").read_text()
    assert "crelu" in page
    assert AS_IT_IS in page


def test_layers_of_equal_shape_start_equal_and_differ_between_seeds():
    model = own_model(Net, loaders())
    plain, smooth, wide = variants(
        model, [UserUnit(AS_IT_IS), UserUnit("s", "swish"), UserUnit("c", "crelu")], {}
    )
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
    kept = variants(model, [UserUnit("crelu", "crelu")], {"preserve": True})[0]
    built, x = kept.build(model, 0), digits()[0][0]
    torch.testing.assert_close(built(x), net(x))
    assert torch.equal(built.conv1.weight, before["conv1.weight"])
    gw.compare(net, ["crelu"], digits(), seeds=1, preserve=True, **QUICK)
    assert all(torch.equal(each, before[name]) for name, each in net.state_dict().items())


def test_given_module_adds_what_the_seed_says_and_leaves_randomness_alone():
    model = own_model(Net(), digits())
    wide = variants(model, [UserUnit("crelu", "crelu", {"width": "same"})], {})[0]
    state = torch.get_rng_state()
    first, again, other = wide.build(model, 0), wide.build(model, 0), wide.build(model, 1)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(first.head.weight, again.head.weight)
    assert not torch.equal(first.head.weight, other.head.weight)


def test_vectors_are_read_as_they_are():
    (x, y), (x_test, y_test) = digits()
    net = nn.Sequential(nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 10))
    result = gw.compare(
        net, ["gelu"], ((x.flatten(1), y), (x_test.flatten(1), y_test)), seeds=1, **QUICK
    )
    assert [record["status"] for record in result.records] == ["finished"] * 2


def test_numbers_as_labels_are_compared_by_their_loss():
    (x, y), (x_test, y_test) = digits()
    net = nn.Sequential(nn.Flatten(), nn.Linear(64, 12), nn.ReLU(), nn.Linear(12, 1))
    recipe = gw.train.read_recipe(
        "epochs = 1\nbatch = 20\noptimiser = {name = 'sgd', lr = 0.001}\nloss = {name = 'mse'}"
    )
    data = (x, y.float()), (x_test, y_test.float())
    result = gw.compare(net, ["gelu"], data, seeds=1, recipe=recipe, progress=False, tune=False)
    assert (result.content["metric"], result.content["mode"]) == ("test_mse", "min")
    for record in result.records:
        assert record["metrics"]["test_mse"] == pytest.approx(record["metrics"]["test_loss"])


def test_unit_with_options_and_label_and_a_baseline_among_the_units():
    units = ["relu", {"name": "crelu", "width": "half", "label": "half"}]
    result = gw.compare(Net, units, digits(), seeds=1, baseline="relu", **QUICK)
    assert result.units == ["relu", "half"]
    assert result.baseline == "relu"


NAN = digits()[0][0].clone()
NAN[3, 0, 2, 2] = float("nan")
WRONG = {
    "unit": (Net, ["crelu", "nonsense"], digits(), {}, "1 of 3 cannot be put in: nonsense"),
    "no units": (Net, [], digits(), {}, "a list of units is needed"),
    "text for units": (Net, "crelu", digits(), {}, "a list of units is needed"),
    "twice": (Net, ["crelu", "crelu"], digits(), {}, "appears twice"),
    "where": (Net, ["crelu"], digits(), {"where": "nothing.*"}, "cannot be put in"),
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
        "mode: not a direction",
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


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_work_is_refused_before_anything_is_written(case: str, tmp_path: Path):
    model, units, data, options, said = WRONG[case]
    with pytest.raises(ArgumentError, match=said):
        gw.compare(model, units, data, out=tmp_path / "out", **{"progress": False, **options})
    assert not (tmp_path / "out").exists()


class Other(Net):
    """The same weights, another function."""

    def forward(self, x):
        return super().forward(2 * x)


def test_model_that_computes_something_else_is_another_model(found):
    Other.__name__, before = "Net", Other.__name__
    try:
        with pytest.raises(ArgumentError, match="belongs to another study"):
            gw.compare(Other, ["crelu", "psc"], loaders(), seeds=2, out=found[1], **QUICK)
    finally:
        Other.__name__ = before


def test_shuffling_loaders_are_the_same_data_every_time(tmp_path: Path):
    train, test = (DataLoader(TensorDataset(*part), 20, shuffle=True) for part in digits(40))
    first = gw.compare(Net, ["gelu"], (train, test), seeds=1, out=tmp_path / "s", **QUICK)
    assert (
        gw.compare(Net, ["gelu"], (train, test), seeds=1, out=tmp_path / "s", **QUICK).records
        == first.records
    )


def test_what_a_factory_sets_is_kept():
    def factory():
        net = Net()
        nn.init.constant_(net.head.bias, -4.5)
        return net

    model = own_model(factory, digits(40))
    [variant] = variants(model, [UserUnit("gelu", "gelu")], {})
    assert (variant.build(model, 0).head.bias == -4.5).all()


@pytest.mark.thorough
def test_failed_runs_are_run_again_if_asked(tmp_path: Path, monkeypatch):
    def broken(*_, **__):
        raise RuntimeError("for now")

    call = {"seeds": 1, "out": tmp_path / "s", **QUICK}
    with monkeypatch.context() as patched:
        patched.setattr("gatewise.studies.comparison.comparison_driver.train", broken)
        failed = gw.compare(Net, ["gelu"], digits(40), **call)
    assert [record["reason"] for record in failed.records] == ["RuntimeError: for now"] * 2
    assert gw.compare(Net, ["gelu"], digits(40), **call).records == failed.records
    again = gw.compare(Net, ["gelu"], digits(40), retry_failed=True, **call)
    assert [record["status"] for record in again.records] == ["finished"] * 2


def test_arrays_are_taken_as_tensors_are():
    parts = tuple((x.numpy(), y.numpy()) for x, y in digits(40))
    assert len(gw.compare(Net, ["gelu"], parts, seeds=1, **QUICK).records) == 2


def test_bytes_kept_for_the_backward_pass_are_those_that_autograd_keeps(found):
    x = digits()[0][0][:2].clone()
    assert (
        found[0].content["groups"][0]["saved_bytes"]
        == gw.cost(Net(), x, repeats=1).saved_bytes // 2
    )


def test_folder_of_another_model_is_not_touched(found):
    _, out = found
    before = sorted(out.rglob("*"))
    with pytest.raises(ArgumentError, match="belongs to another study"):
        gw.compare(
            nn.Sequential(nn.Flatten(), nn.Linear(64, 9), nn.ReLU(), nn.Linear(9, 10)),
            ["gelu"],
            digits(),
            out=out,
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
        layers = [nn.Flatten(), gw.layers.StaticPSLinear(64, 8), nn.ReLU(), nn.Linear(8, 10)]
        return nn.Sequential(*layers)

    data = ((x - 0.5, y), (x_test - 0.5, y_test))
    gw.compare(net, ["gelu"], data, seeds=1, evaluate=evaluate, **QUICK)
    steps = -(-len(x) // RECIPE.batch)
    want = gw.layers.split_temperature((steps - 1) / steps)
    assert want < 0.5 and seen[-1] == pytest.approx(want)
