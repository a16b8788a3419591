"""A user's batches of every form: how they go into a model, and what is their target."""

import pytest
import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, TensorDataset

import gatewise as gw
from gatewise.batches import ModelCall, find_reader, read_batches
from gatewise.errors import ArgumentError

X = torch.arange(24.0).view(8, 3)
Y = torch.arange(8) % 2


class OneInput(nn.Module):
    def forward(self, x):
        return x


class Labelled(nn.Module):
    def forward(self, x, mask=None, labels=None):
        return x if labels is None else {"loss": x.sum() * 0, "logits": x}


class TwoInputs(nn.Module):
    def forward(self, x, z):
        return x


class NeedsTarget(nn.Module):
    def forward(self, x, y):
        return x


class AnyArguments(nn.Module):
    def forward(self, *args, **kwargs):
        return args, kwargs


def call_of(model: nn.Module, batch: object) -> ModelCall:
    (call,) = read_batches("test", model, [batch])
    return call


@pytest.mark.parametrize(
    ("model", "batch", "args", "kwargs", "target"),
    [
        (OneInput, X, 1, [], None),
        (OneInput, (X,), 1, [], None),
        (OneInput, [X, Y], 1, [], Y),
        (OneInput, (X, Y, X), 1, [], Y),  # such as indices after the labels
        (Labelled, (X, X, Y), 2, [], Y),
        (TwoInputs, (X, Y), 2, [], None),
        (TwoInputs, ((X, X), Y), 2, [], Y),
        (NeedsTarget, (X, Y), 2, [], None),
        (NeedsTarget, {"x": X, "y": Y}, 0, ["x", "y"], Y),
        (OneInput, {"x": X, "labels": Y}, 0, ["x"], Y),
        (OneInput, {"x": X, "other": 3, "labels": Y}, 0, ["x"], Y),
        (OneInput, {"image": X, "label": Y}, 1, [], Y),
        (Labelled, {"x": X, "labels": Y}, 0, ["x"], Y),
        (Labelled, ({"x": X}, Y), 0, ["x"], Y),
        (AnyArguments, (X, X, Y), 2, [], Y),
        (AnyArguments, {"a": X, "b": X}, 0, ["a", "b"], None),
    ],
)
def test_signature_says_which_part_of_a_batch_is_the_target(model, batch, args, kwargs, target):
    call = call_of(model(), batch)
    assert len(call.args) == args
    assert sorted(call.kwargs) == kwargs
    assert call.target is target
    call.run(model())


def test_a_model_gets_the_target_that_it_takes_by_name():
    assert set(call_of(Labelled(), {"x": X, "labels": Y}).run(Labelled())) == {"loss", "logits"}
    call = find_reader(Labelled()).read({"x": X, "labels": Y}, without_target=True)
    assert call.run(Labelled()) is X
    assert call.target is Y


@pytest.mark.parametrize(
    "data",
    [
        X,
        [X],
        ((X, Y),),
        iter([X]),
        DataLoader(TensorDataset(X, Y), 8),
        TensorDataset(X, Y),
        [(row, label) for row, label in zip(X.split(4), Y.split(4), strict=True)],
        {"x": X, "labels": Y},
    ],
    ids=["tensor", "list", "tuple", "iterator", "loader", "data set", "two batches", "mapping"],
)
def test_data_of_every_form_have_the_same_rows(data):
    calls = list(read_batches("test", OneInput(), data))
    rows = [tensor for call in calls for tensor in call.tensors()]
    assert torch.equal(torch.cat(rows), X)


def test_a_data_set_is_read_by_an_analysis():
    model = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    read = gw.gates(model, TensorDataset(X, Y)).to_dict()
    assert read == gw.gates(model, [(X, Y)]).to_dict()
    assert gw.diagnose(model, TensorDataset(X, Y), questions="gates").data["classes"] == 2


def test_rows_of_a_call_are_those_of_inputs_and_target():
    call = call_of(Labelled(), (X, X, Y)).rows(2, 5)
    assert call.size == 3
    assert all(torch.equal(each, X[2:5]) for each in call.args)
    assert isinstance(call.labels, Tensor) and torch.equal(call.labels, Y[2:5])


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (3, "test: the data must be a tensor, a list of batches or a data loader; got: int"),
        ([], "test: there is no batch"),
        (["text"], "a batch of this form is not understood; got: str"),
        ([X, X[:0]], "test: batch 1 is empty"),
        ([X, X * torch.nan], "batch 1 contains NaN or infinity; got: 24 of 24 numbers"),
        ([X.to_sparse()], "test: batch 0: a dense tensor is needed"),
        ([("text", Y)], "holds no tensor"),
    ],
)
def test_data_that_cannot_be_read_are_named(data, words):
    with pytest.raises(ArgumentError, match=words):
        list(read_batches("test", OneInput(), data))
