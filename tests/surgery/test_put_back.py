"""Where a reader cannot take over an activation, the activation is put back before that reader."""

import copy
import dataclasses
import pickle

import pytest
import torch
from surgery.split_readers import SPLIT, Plus, Split, Twice, image
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.surgery import Plan
from gatewise.surgery.planning import SlopedReLU
from gatewise.surgery.proof import SwapFailed


def network(name: str) -> nn.Module:
    torch.manual_seed(0)
    return SPLIT[name][0]()


def results(model: nn.Module, training: bool, names: list[str]) -> list[torch.Tensor]:
    """Output and gradients in float64 on a batch that surgery has not seen."""
    twin = copy.deepcopy(model).double().train(training)
    output = twin(image(5).double())
    parameters = dict(twin.named_parameters())
    weights = torch.linspace(-1, 1, output.numel(), dtype=torch.float64).view_as(output)
    (output * weights).sum().backward()
    found = [parameters[name].grad for name in names]
    return [output.detach(), *(grad for grad in found if grad is not None)]


@pytest.mark.slow
@pytest.mark.parametrize("training", [False, True], ids=["eval", "train"])
@pytest.mark.parametrize("name", [name for name in SPLIT if name != "leaky"])
def test_the_function_and_the_old_gradients_are_kept(name: str, training: bool):
    model = network(name)
    two_phases = (
        {"body.weight"} if name == "mixed channels" else set()
    )  # of other channels, both phases have their own
    names = [name for name, _ in model.named_parameters() if name not in two_phases]
    changed = gw.swap(model.eval(), "psc", image(), preserve=True, put_back=True)
    for one, other in zip(
        results(changed, training, names), results(model, training, names), strict=True
    ):
        assert (one - other).abs().max() <= 1e-12 * other.abs().max()
    proof = gw.receipt(changed).proof
    assert proof.live.startswith("live") and proof.gradient <= 1e-12


def test_a_leaky_activation_is_put_back_with_its_slope():
    model = network("leaky")
    changed = gw.swap(model.eval(), "psc", image(), preserve=True, put_back=True)
    assert [m.negative_slope for m in changed.modules() if isinstance(m, nn.LeakyReLU)] == [0.3]
    one, other = (results(each, True, [])[0] for each in (changed, model))
    assert (
        one - other
    ).abs().max() <= 2**-23 * other.abs().max()  # slope times weight, rounded to float32


@pytest.mark.slow
@pytest.mark.parametrize("name", SPLIT)
def test_it_is_put_back_where_it_must_and_nowhere_else(name: str):
    _, sites, edges = SPLIT[name]
    plan = gw.plan(network(name).eval(), "psc", image(), preserve=True, put_back=True)
    assert len(plan.swapped) == sites and [edge.op for edge in plan.put_back] == edges
    assert all(f"put back: {edge}" in str(plan) for edge in plan.put_back)


def test_without_the_option_such_a_site_is_refused_and_nothing_is_put_back():
    for name in ("plus", "mean", "norm"):
        with pytest.raises(ArgumentError, match="nothing would change"):
            gw.plan(network(name).eval(), "psc", image(), preserve=True)


def test_the_receipt_says_on_which_edges():
    receipt = gw.receipt(
        gw.swap(network("chain").eval(), "psc", image(), preserve=True, put_back=True)
    )
    assert receipt.put_back == (
        "add in (model) reads (model):relu#0",
        "add in (model) reads (model):relu#2",
    )
    assert all(f"put back: {edge}" in receipt.details for edge in receipt.put_back)
    assert receipt.to_dict()["put_back"] == list(receipt.put_back)


def test_an_activation_that_no_layer_would_take_over_stays():
    class Last(Split):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.head(self.act(self.stem(x)).mean((2, 3)))

    with pytest.raises(ArgumentError, match="averaged before the next layer"):
        gw.plan(Last().eval(), "psc", image(), preserve=True, put_back=True)


def test_a_reader_whose_code_cannot_be_rewritten_is_a_refusal():
    def join(y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
        return y + x

    class Outside(Split):
        def join(self, y: torch.Tensor, x: torch.Tensor) -> torch.Tensor:
            return join(y, x)

    class AtTheEnd(Plus):
        def forward(self, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
            x = self.act(self.stem(x))
            return self.body(x), x

    for made, words in (
        (Outside, "added to an unwidened"),
        (AtTheEnd, "reaches the model's output"),
    ):
        with pytest.raises(ArgumentError, match=words):
            gw.plan(made().eval(), "psc", image(), preserve=True, put_back=True)


def test_calls_that_share_their_source_are_refused_where_not_all_of_them_change():
    plan = gw.plan(Twice().eval(), "psc", image(), preserve=True, put_back=True)
    assert [entry.site for entry in plan.swapped] == ["act"] and not plan.put_back
    assert {entry.site: entry.reason for entry in plan.refused} == dict.fromkeys(
        ("one", "other"), "SHARED"
    )


def test_channels_of_others_are_let_through():
    changed = gw.swap(
        network("mixed channels").eval(), "psc", image(), preserve=True, put_back=True
    )
    unit = next(module for module in changed.modules() if isinstance(module, SlopedReLU))
    assert unit.slopes.flatten().tolist() == [1.0] * 5 + [0.0] * 4
    x = torch.randn(2, 9, 3, 3)
    x[0, 5] = 0.0
    want = torch.cat((x[:, :5], x[:, 5:].relu()), 1)
    assert torch.equal(unit(x), want)
    grad = torch.func.grad(lambda x: unit(x).sum())(x)
    assert torch.equal(grad[:, 5:], (x[:, 5:] > 0).float()) and bool((grad[:, :5] == 1).all())


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plus", "pooled by module", "mixed channels", "loop"])
def test_names_checkpoints_copies_and_the_way_back(name: str):
    model = network(name).eval()
    before = {**dict(model.named_modules()), **dict(model.named_parameters())}
    changed = gw.swap(model, "psc", image(), preserve=True, put_back=True)
    added = set(changed.state_dict()) - set(model.state_dict())
    assert added and all(key.endswith("weight_neg") for key in added)
    changed.load_state_dict(model.state_dict(), strict=True)
    want = changed(image(3))
    for twin in (copy.deepcopy(changed), pickle.loads(pickle.dumps(changed))):
        assert torch.equal(twin(image(3)), want)
        twin.load_state_dict(changed.state_dict(), strict=True)
        assert torch.equal(gw.undo(twin)(image(3)), model(image(3)))
    gw.undo(gw.swap(model, "psc", image(), preserve=True, put_back=True, inplace=True))
    after = {**dict(model.named_modules()), **dict(model.named_parameters())}
    assert before.keys() == after.keys() and all(
        after[key] is value for key, value in before.items()
    )


@pytest.mark.parametrize("name", ["plus", "mixed channels", "loop"])
def test_a_written_plan_does_the_same(name: str):
    plan = gw.plan(network(name).eval(), "psc", image(), preserve=True, put_back=True)
    read = Plan.from_json(plan.to_json())
    assert read.put_back == plan.put_back and read.to_json() == plan.to_json()
    one, other = read.apply(network(name).eval(), example=image()), plan.apply(network(name).eval())
    assert torch.equal(one(image(3)), other(image(3)))


def test_an_edge_that_is_forgotten_or_wrong_is_caught_and_taken_back():
    model = network("chain").eval()
    plan = gw.plan(model, "psc", image(), preserve=True, put_back=True)
    before = {key: value.clone() for key, value in model.state_dict().items()}
    other = dataclasses.replace(plan.put_back[0], slopes=(0.5,))
    for edges in (plan.put_back[1:], (other, *plan.put_back[1:])):
        with pytest.raises(SwapFailed, match="computes something else"):
            dataclasses.replace(plan, put_back=edges).apply(model)
        assert type(model).__qualname__ == "Chain" and not hasattr(model, "gw")
        assert all(torch.equal(model.state_dict()[key], value) for key, value in before.items())


@pytest.mark.parametrize("options", [{"put_back": 1}, {"put_back": "yes"}, {"slope": 1}])
def test_a_wrong_option_is_our_error(options: dict):
    with pytest.raises(ArgumentError, match="put_back"):
        gw.plan(network("plus").eval(), "psc", image(), **options)
