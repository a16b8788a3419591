"""Random arguments of ``gw.compare`` end in a comparison or in one line that names the argument."""

import math
import random
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset, IterableDataset, TensorDataset

import gatewise as gw
from gatewise.errors import GatewiseError
from gatewise.studies.comparison import compare_units

X = torch.randn(40, 6, generator=torch.Generator().manual_seed(0))
Y = torch.arange(40) % 3
GOOD = (X, Y)


class ReachedTrainingError(Exception):
    """All arguments were accepted."""


def net() -> nn.Module:
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


class ChangesShape(nn.Module):
    def forward(self, x):
        return x.sum()


class Raises(nn.Module):
    def forward(self, x):
        raise KeyError("first line\nsecond line")


class NeedsArguments(nn.Module):
    def __init__(self, first, second):
        super().__init__()


class Endless(IterableDataset):
    def __iter__(self):
        return iter([(torch.zeros(6), 0)] * 4)


class Unreadable(Dataset):
    def __len__(self):
        return 5

    def __getitem__(self, index):
        raise RuntimeError("first line\nsecond line")


class NegativeLength(Dataset):
    def __len__(self):
        return -1

    def __getitem__(self, index):
        return 0


def fails(*arguments):
    raise ValueError("first line\nsecond line")


def own_step(model, batch):
    return model(batch[0]).square().mean()


def anything() -> list[Any]:
    """Values of every type, each of them wrong for most arguments."""
    numbers = [0, 1, -1, 2.5, 1e-320, math.nan, math.inf, 10**30, True, False]
    texts = ["", "relu", "quick", "first\nsecond", b"bytes"]
    containers = [[], {}, (), set(), [1, "a"], {"a": 1}, np.zeros(3), torch.zeros(2)]
    functions = [lambda: None, lambda a: a, lambda a, b: a, fails, int, nn.ReLU(), nn.ReLU]
    return [None, object(), *numbers, *texts, *containers, *functions]


def data_parts() -> list[Any]:
    plain = TensorDataset(X, Y)
    tensors = [GOOD, X, (X.numpy(), Y.numpy()), {"input": X, "labels": Y}, [(X[:8], Y[:8])] * 3]
    nested = [((X, X), Y), ({"input": X}, Y), (X, Y, Y), {"a": X}, [X]]
    wrong = [(X, Y[:3]), (X[:0], Y[:0]), (X * math.nan, Y), (X, Y + 50), (X[:1], Y[:1])]
    types = [(X, Y.float()), (X, torch.ones(40)), (X.half(), Y), (X.long(), Y)]
    types += [(X.to(torch.complex64), Y), (X.to("meta"), Y.to("meta"))]
    loaders = [plain, DataLoader(plain, 8, shuffle=True), DataLoader(plain, 100, drop_last=True)]
    others = [Endless(), DataLoader(Endless()), Unreadable(), DataLoader(Unreadable())]
    others += [NegativeLength(), iter([GOOD]), range(3), "nothing"]
    return [*tensors, *nested, *wrong, *types, *loaders, *others]


def models() -> list[Any]:
    lazy = nn.Sequential(nn.Flatten(), nn.LazyLinear(8), nn.ReLU(), nn.Linear(8, 3))
    made = [net(), nn.Linear(6, 3), nn.Module(), nn.Sequential(), lazy]
    made += [nn.Sequential(nn.Linear(6, 1), nn.ReLU()), net().to("meta"), net().double()]
    return [*made, Raises, ChangesShape, NeedsArguments, fails, lambda: None, lambda size: net()]


def units() -> list[Any]:
    names = ["gelu", "swish", "relu", "crelu", "prelu", "psc", "nothing", "", 3, None, ("gelu",)]
    tables = [{"name": "crelu", "width": "half"}, {"name": "crelu", "width": "wide"}]
    tables += [{"unit": ChangesShape}, {"label": "x"}, {"unit": nn.ReLU, "label": 3}]
    tables += [{"name": "gelu", "colour": 1}, {"name": ["gelu"]}]
    own = [nn.ReLU, nn.GELU(), ChangesShape, Raises, NeedsArguments, nn.Linear, int, torch.relu]
    functions = [lambda x: x, lambda x: None, lambda x: x.sum(), lambda: nn.ReLU(), fails]
    return [*names, *tables, *own, *functions]


def options() -> dict[str, list[Any]]:
    steps = [
        own_step,
        lambda model, batch: 1.0,
        lambda model, batch: model(batch[0]),
        fails,
        lambda: 0,
        3,
    ]
    evaluations = [
        lambda model, loader: {"accuracy": 0.5},
        lambda model, loader: {"unknown": 0.5},
        lambda model, loader: {},
        lambda model, loader: None,
        lambda model, loader: {"accuracy": "high"},
        lambda model, loader: {"per_example": [1]},
        lambda model, loader: {"accuracy": 0.5, "per_example": torch.zeros(2, 2)},
        lambda model, loader: {3: 1.0},
        fails,
    ]
    tunings = ["quick", "full", False, True, "none", "slow", {"lr": [0.1]}, {"lr": [0.1, -1]}]
    tunings += [{"lr": []}, {"lr": ["a"]}, {"mode": "quick", "seeds": 0}, {"folds": 1}, [0.1]]
    optimisers = ["sgd", "radam", "unknown", {"name": "sgd", "momentum": 0.9}, {}, torch.optim.Adam]
    optimisers += [{"name": "sgd", "unknown": 1}, lambda p, lr: torch.optim.SGD(p, lr), fails]
    losses = ["mse", "bce", "cross_entropy", "unknown", nn.CrossEntropyLoss()]
    losses += [lambda o, t: o.mean(), lambda o, t: None, fails]
    tasks = ["classification", "binary", "multi-label", "regression", "language-modelling"]
    return {
        "step": [*steps, *evaluations],
        "evaluate": [*evaluations, *steps],
        "task": [*tasks, "segmentation", "token-classification", "model-loss", "unknown"],
        "loss": losses,
        "class_weights": [[1, 2, 3], [1, 2], "a", torch.ones(3), [-1, 0, math.nan], np.ones(3)],
        "ignore_index": [-100, 0, 1.5],
        "metric": ["accuracy", "loss", "f1", "unknown", "test_accuracy", "auroc", "mse"],
        "metrics": [["f1"], "loss", ["unknown"], [3]],
        "mode": ["max", "min", "up"],
        "validation": data_parts(),
        "tune": tunings,
        "margin": [0.1, -1, 0, math.nan],
        "seeds": [1, 3, 0, [0, 1], [0, 0], [1.5], "3", 10**9, range(3), np.int64(3)],
        "baseline": ["relu", "gelu", "as it is", "unknown", nn.ReLU, {"name": "gelu"}],
        "recipe": ["adam", "sgd", "unknown", {"epochs": 1}, "../x"],
        "epochs": [1, 0, -1, 1.5, "a", 10**12],
        "optimiser": optimisers,
        "lr": [0.1, -1, 0, "a", math.nan, 1],
        "accumulate": [2, 0, "a", 10**9],
        "clip": [1.0, 0, -1, "a", math.nan],
        "precision": ["float32", "bfloat16", "float16", "int8"],
        "channels_last": [True, "a"],
        "patience": [1, 0, "a", 1.5],
        "evaluate_every": [1, 0, "a"],
        "device": ["cpu", "cuda", "meta", "cuda:7", "mps", "auto", "cpu:3"],
        "example": [X[:2], (X[:2],), {"input": X[:2]}, X[:2].long(), torch.zeros(2, 9), "a"],
        "name": ["a", "", "first\nsecond"],
        "title": ["a", "first\nsecond"],
        "out": [3, "", "/proc/none/here", "/dev/null"],
        "on": ["here", "local", "ray:", "unknown", "slurm"],
        "workers": [0, 1, -1, 1.5],
        "gpus_per_cell": [0, 0.5, -1, math.nan],
        "shard": ["1/2", "0/0", "a", "3/2"],
        "pace": [3],
        "retry_failed": [True, "a"],
        "where": ["0", "unknown", ["1"], 3],
        "width": ["half", "unknown", 3],
        "preserve": [True, "a"],
        "match": ["parameters", "flops", "unknown", 3],
        "unknown": [1],
    }


def call(chance: random.Random) -> tuple[Any, Any, Any, dict[str, Any]]:
    """Random arguments, most of them as they should be."""
    model = chance.choice([*models(), *anything()]) if chance.random() < 0.25 else net
    asked: Any = ["gelu"]
    if chance.random() < 0.4:
        asked = [chance.choice(units()) for _ in range(chance.randrange(1, 3))]
    elif chance.random() < 0.1:
        asked = chance.choice(anything())
    parts = [chance.choice(data_parts()) if chance.random() < 0.2 else GOOD for _ in range(2)]
    data: Any = tuple(parts) if chance.random() < 0.95 else chance.choice(anything())
    named = {}
    known = options()
    for name in chance.sample(list(known), chance.choice([0, 1, 1, 2, 3])):
        named[name] = chance.choice(known[name] if chance.random() < 0.7 else anything())
    return model, asked, data, named


@pytest.fixture
def untrained(monkeypatch):
    """Comparisons that stop where training would begin."""

    def stop(driver):
        raise ReachedTrainingError

    monkeypatch.setattr(compare_units.ComparisonDriver, "run", stop)


def raw_exceptions(calls: int, seed: int) -> tuple[list[str], int]:
    """What was raised that is no one-line error of this library, and how many calls were right."""
    chance = random.Random(seed)  # noqa: S311  not for secrets
    found = []
    reached = 0
    for _ in range(calls):
        model, asked, data, named = call(chance)
        arguments = {"progress": False, "epochs": 1, "seeds": 2, **named}
        try:
            gw.compare(model, asked, data, **arguments)
        except ReachedTrainingError:
            reached += 1
        except GatewiseError as problem:
            if "\n" in str(problem):
                found.append(f"{named!r:.300}: several lines: {problem}")
        except Exception as problem:  # any other is a fault
            found.append(f"{model!r:.100} {asked!r:.100} {named!r:.300}: {problem!r:.300}")
    return found, reached


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_wrong_arguments_are_one_line(untrained, full: bool) -> None:
    calls = 1500 if full else 50
    found, reached = raw_exceptions(calls, seed=0)
    assert not found, f"{len(found)} of {calls} calls:\n" + "\n".join(found[:3])
    assert reached > calls // 50  # some must be right, or nothing behind the first check was tried


@pytest.mark.thorough
@pytest.mark.filterwarnings("ignore")
def test_more_wrong_arguments_are_one_line(untrained) -> None:
    found, _ = raw_exceptions(200, seed=1)
    assert not found, f"{len(found)} of 200 calls:\n" + "\n".join(found[:3])
