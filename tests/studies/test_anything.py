"""Models of any kind, each trained through gw.compare: tasks, batches, losses, units."""

import math

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset
from zoo import declare_missing_torchvision_operators

import gatewise as gw
from gatewise.errors import ArgumentError, GatewiseError

QUICK = {"seeds": 1, "epochs": 1, "progress": False, "tune": False}


def numbers(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


X = numbers(48, 5)
CLASSES = (X[:, 0] > 0).long()
TOKENS = torch.randint(0, 20, (24, 8), generator=torch.Generator().manual_seed(1))
IMAGES = numbers(12, 1, 8, 8, seed=2)
MASKS = (IMAGES[:, 0] > 0).long() + (IMAGES[:, 0] > 1).long()


class Net(nn.Module):
    def __init__(self, outputs: int = 1) -> None:
        super().__init__()
        self.first = nn.Linear(5, 8)
        self.last = nn.Linear(8, outputs)

    def forward(self, x: Tensor) -> Tensor:
        return self.last(torch.relu(self.first(x)))


class TwoInputs(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first = nn.Linear(5, 8)
        self.second = nn.Linear(3, 8)
        self.last = nn.Linear(8, 2)

    def forward(self, left: Tensor, right: Tensor) -> Tensor:
        return self.last(torch.relu(self.first(left) + self.second(right)))


class LanguageModel(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.hidden = nn.Linear(8, 16)
        self.head = nn.Linear(16, 20)

    def forward(self, tokens: Tensor) -> Tensor:
        return self.head(torch.relu(self.hidden(self.embed(tokens))))


class Segmenter(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(1, 4, 3, padding=1)
        self.head = nn.Conv2d(4, 3, 1)

    def forward(self, x: Tensor) -> dict[str, Tensor]:
        return {"out": self.head(torch.relu(self.conv(x)))}


class Slope(nn.Module):
    """A unit of a user, with a trained number for each channel."""

    def __init__(self, channels: int, dim: int = 1) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.full((channels,), 0.5))
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        shape = [1] * x.dim()
        shape[self.dim] = -1
        return torch.where(x > 0, x, self.slope.view(shape) * x)


def dice(outputs: Tensor, masks: Tensor) -> Tensor:
    shares = outputs.softmax(1)
    wanted = F.one_hot(masks, 3).movedim(-1, 1).float()
    return 1 - (2 * (shares * wanted).sum() + 1) / ((shares + wanted).sum() + 1)


def twice(content) -> tuple:
    return content, content


def metrics_of(result) -> list[dict[str, float]]:
    found = []
    for record in result.records:
        assert record["status"] == "finished", record["reason"]
        found.append({k: v for k, v in record["metrics"].items() if k.startswith("test_")})
    return found


LABELS = (X[:, :3] > 0.3).float()
KINDS = {
    "regression": (Net, ["gelu"], (X, X[:, 0] ** 2), {}, "regression", "test_mse", "min"),
    "multi-label": (lambda: Net(3), ["gelu"], (X, LABELS), {}, "multi-label", "test_f1", "max"),
    "one logit": (Net, ["gelu"], (X, CLASSES), {}, "binary", "test_accuracy", "max"),
    "two inputs": (
        TwoInputs,
        ["gelu"],
        (X, X[:, :3], CLASSES),
        {},
        "classification",
        "test_accuracy",
        "max",
    ),
    "inputs in a tuple": (
        TwoInputs,
        ["gelu"],
        ((X, X[:, :3]), CLASSES),
        {},
        "classification",
        "test_accuracy",
        "max",
    ),
    "inputs in a mapping": (
        TwoInputs,
        ["gelu"],
        ({"right": X[:, :3], "left": X}, CLASSES),
        {},
        "classification",
        "test_accuracy",
        "max",
    ),
    "mapping": (
        TwoInputs,
        ["gelu"],
        {"right": X[:, :3], "left": X, "labels": CLASSES},
        {"class_weights": [1.0, 2.0], "metric": "loss"},
        "classification",
        "test_loss",
        "min",
    ),
    "language model": (
        LanguageModel,
        ["gelu"],
        TOKENS,
        {},
        "language-modelling",
        "test_loss",
        "min",
    ),
    "segmentation": (
        Segmenter,
        ["crelu"],
        (IMAGES, MASKS),
        {"loss": dice},
        "segmentation",
        "test_iou",
        "max",
    ),
    "own unit": (
        lambda: Net(2),
        [Slope],
        (X, CLASSES),
        {},
        "classification",
        "test_accuracy",
        "max",
    ),
}


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_of_model_is_trained_and_judged(kind: str):
    model, units, data, options, task, metric, mode = KINDS[kind]
    result = gw.compare(model, units, twice(data), **{**QUICK, **options})
    content = result.content
    assert (content["task"], content["metric"], content["mode"]) == (task, metric, mode)
    for metrics in metrics_of(result):
        assert math.isfinite(metrics[metric])
    assert content["device"] == "cpu"
    assert content["tuning"]["mode"] == "none"
    assert all(record["paired"] and record["device"] == "cpu" for record in result.records)


@pytest.mark.networks
@pytest.mark.thorough
def test_text_classifier_of_hugging_face():
    declare_missing_torchvision_operators()
    import transformers

    config = transformers.BertConfig(
        vocab_size=20,
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        max_position_embeddings=16,
        num_labels=2,
    )
    data = {
        "input_ids": TOKENS,
        "attention_mask": torch.ones_like(TOKENS),
        "labels": (TOKENS[:, 0] > 10).long(),
    }
    result = gw.compare(
        lambda: transformers.BertForSequenceClassification(config),
        ["relu", Slope],
        twice(data),
        **QUICK,
    )
    assert result.content["task"] == "model-loss, judged as classification"
    assert result.content["metric"] == "test_accuracy"
    assert len(metrics_of(result)) == 3


def test_own_step_and_evaluation_decide_everything():
    seen = []

    def step(model, batch):
        images, masks = batch
        return F.cross_entropy(model(images)["out"], masks)

    def evaluate(model, loader):
        right = []
        for images, masks in loader:
            guesses = model(images)["out"].argmax(1)
            right.append((guesses == masks).flatten(1).float().mean(1) > 0.5)
        right = torch.cat(right)
        seen.append(len(right))
        assert not model.training
        return {"half_right": right.float().mean(), "images": len(right), "per_example": right}

    result = gw.compare(
        Segmenter,
        ["gelu"],
        twice((IMAGES, MASKS)),
        step=step,
        evaluate=evaluate,
        mode="max",
        **QUICK,
    )
    assert result.content["metric"] == "test_half_right"
    assert result.content["task"] == "own"
    for record in result.records:
        assert record["metrics"]["test_images"] == record["examples"] == len(IMAGES)
    assert set(seen) == {len(IMAGES)}


def test_metric_without_a_known_direction_asks_for_the_mode():
    def evaluate(model, loader):
        return {"reward": 1.0}

    with pytest.raises(ArgumentError, match="mode"):
        gw.compare(Net, ["gelu"], twice((X, X[:, 0])), evaluate=evaluate, **QUICK)


def test_own_step_alone_is_judged_by_its_loss():
    def step(model, batch):
        inputs, targets = batch
        return (model(inputs)[:, 0] - targets).abs().mean()

    result = gw.compare(Net, ["gelu"], twice((X, X[:, 1])), step=step, **QUICK)
    assert result.content["metric"] == "test_loss"
    assert len(metrics_of(result)) == 2


def test_report_on_an_own_unit_is_kept_with_its_receipt():
    result = gw.compare(lambda: Net(2), [Slope], twice((X, CLASSES)), **QUICK)
    group = next(g for g in result.content["groups"] if g["unit"] == "Slope")
    assert "checks passed" in group["checked"]
    assert len(group["receipt"]["sites"]) == 1


def test_own_unit_that_cannot_be_trained_is_refused_with_the_report():
    def constant(x):
        return x.detach()

    with pytest.raises(ArgumentError, match="gradient_reaches_the_input"):
        gw.compare(lambda: Net(2), [constant], twice((X, CLASSES)), **QUICK)


@pytest.mark.parametrize(
    "choice",
    [
        {"optimiser": "radam"},
        {"optimiser": {"name": "adagrad", "options": {"eps": 1e-6}}, "lr": 0.1},
        {
            "optimizer": lambda parameters, lr: torch.optim.SGD(
                parameters, lr, nesterov=True, momentum=0.5
            )
        },
        {"accumulate": 2, "clip": 0.5, "precision": "bfloat16"},
        {"precision": "float16", "channels_last": True},
    ],
    ids=lambda choice: next(iter(choice)),
)
@pytest.mark.thorough
def test_choices_of_training(choice):
    result = gw.compare(lambda: Net(2), ["gelu"], twice((X, CLASSES)), **QUICK, **choice)
    assert len(metrics_of(result)) == 2


class Noisy(Dataset):
    """Examples with noise from the global generator of torch."""

    def __len__(self) -> int:
        return len(X)

    def __getitem__(self, index: int) -> tuple[Tensor, Tensor]:
        return X[index] + 0.1 * torch.randn(5), CLASSES[index]


def test_tuned_by_default_on_folds_of_a_loader(tmp_path):
    loaders = DataLoader(Noisy(), 16, shuffle=True), DataLoader(Noisy(), 16)
    call = {
        "seeds": 3,
        "epochs": 1,
        "progress": False,
        "out": tmp_path / "s",
        "tune": {"lr": [0.01, 0.1], "seeds": 1},
    }
    result = gw.compare(lambda: Net(2), ["gelu"], loaders, **call)
    tuning = result.content["tuning"]
    assert tuning["mode"] == "custom"
    assert {row["lr"] for row in tuning["groups"]} <= {0.01, 0.1}
    assert all(
        record["lr"] in (0.01, 0.1) or record["role"] == "neighbour" for record in result.records
    )
    assert gw.compare(lambda: Net(2), ["gelu"], loaders, **call).records == result.records


def test_stream_is_not_tuned_and_says_why():
    def batches():
        for start in range(0, 48, 16):
            yield X[start : start + 16], CLASSES[start : start + 16]

    class Stream:
        def __iter__(self):
            return batches()

    result = gw.compare(
        lambda: Net(2), ["gelu"], twice(Stream()), seeds=1, epochs=1, progress=False
    )
    assert result.content["tuning"]["mode"] == "none"
    assert "cannot be split" in result.content["tuning"]["why"]
    assert result.content["batches"]["paired"] is False
    assert not any(record["paired"] for record in result.records)
    assert "Not tuned" in str(result)
    # The order of the examples may differ between runs: they are not compared one by one.
    assert not any(record["correct"] for record in result.records)
    assert "Batches are not paired: the loader cannot be read by index." in str(result)


def test_patience_keeps_and_tests_the_best_epoch():
    train = (X[:32], CLASSES[:32])
    result = gw.compare(
        lambda: Net(2),
        ["gelu"],
        (train, (X, CLASSES)),
        validation=(X[32:], CLASSES[32:]),
        patience=2,
        **{**QUICK, "epochs": 12},
        lr=0.5,
        metric="loss",
    )
    for record in result.records:
        values = [line["val_loss"] for line in record["curve"]]
        best = min(range(len(values)), key=values.__getitem__)
        assert record["metrics"]["epoch"] == best + 1
        assert len(values) == min(12, best + 3)


BAD = {
    "step": {"step": 3},
    "evaluate": {"evaluate": "accuracy"},
    "task": {"task": "magic"},
    "task type": {"task": 3},
    "loss": {"loss": "hinge"},
    "loss type": {"loss": 3},
    "step and loss": {"loss": "mse", "step": lambda model, batch: 0},
    "class weights": {"class_weights": [1.0]},
    "class weights type": {"class_weights": "heavy"},
    "negative weights": {"class_weights": [-1.0, 1.0]},
    "ignore": {"ignore_index": 1.5},
    "metric type": {"metric": 3},
    "metrics": {"metrics": 3},
    "mode": {"mode": "up"},
    "validation": {"validation": 7},
    "tune": {"tune": "slowly"},
    "tune type": {"tune": 3},
    "margin": {"margin": -1},
    "margin type": {"margin": "small"},
    "seeds": {"seeds": "five"},
    "baseline": {"baseline": 3},
    "recipe": {"recipe": 3},
    "epochs": {"epochs": 1.5},
    "optimiser": {"optimiser": "adamm"},
    "optimiser type": {"optimiser": 3},
    "optimiser option": {"optimiser": {"name": "radam", "options": {"speed": 1}}},
    "optimiser function": {"optimiser": lambda parameters: 3},
    "lr": {"lr": -1.0},
    "lr type": {"lr": "fast"},
    "accumulate": {"accumulate": 0},
    "clip": {"clip": "hard"},
    "precision": {"precision": "int8"},
    "channels last": {"channels_last": "yes"},
    "patience": {"patience": 3},
    "evaluate every": {"evaluate_every": 0},
    "device": {"device": "gpu"},
    "device type": {"device": 3},
    "no device": {"device": "cuda:7"},
    "example": {"example": 3},
    "on": {"on": "moon"},
    "workers": {"workers": -1},
    "shard": {"shard": "3"},
    "pace": {"pace": 3},
    "unknown": {"epochz": 3},
    "where": {"where": 3},
    "step fails": {"step": lambda model, batch: 1 / 0},
    "step returns": {"step": lambda model, batch: 3},
    "step detached": {"step": lambda model, batch: torch.zeros(())},
    "evaluate fails": {"evaluate": lambda model, loader: 1 / 0},
    "evaluate returns": {"evaluate": lambda model, loader: 3},
    "evaluate words": {"evaluate": lambda model, loader: {"accuracy": "high"}},
    "per example": {"evaluate": lambda model, loader: {"loss": 1.0, "per_example": [0.5]}},
}


@pytest.mark.parametrize("case", BAD)
def test_bad_input_is_one_line_that_names_the_argument(case: str, tmp_path):
    options = {"seeds": 1, "epochs": 1, "progress": False, "out": tmp_path / "out", **BAD[case]}
    with pytest.raises(GatewiseError) as problem:
        gw.compare(lambda: Net(2), ["gelu"], twice((X, CLASSES)), **options)
    assert "\n" not in str(problem.value)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "data",
    [
        3,
        None,
        "nothing",
        (1, 2),
        (X, 3),
        ((X, CLASSES), None),
        ((X, CLASSES[:3]), (X, CLASSES)),
        ((X, None), (X, None)),
        ({"left": X}, {"left": X}),
        (iter([]), iter([])),
        ([], []),
        ((X, ["a"] * len(X)), (X, CLASSES)),
        (DataLoader([1, 2, 3]), DataLoader([1, 2, 3])),
        ((X.double() * torch.nan, CLASSES), (X, CLASSES)),
    ],
    ids=range(14),
)
def test_bad_data_is_one_line(data):
    with pytest.raises(GatewiseError) as problem:
        gw.compare(lambda: Net(2), ["gelu"], data, seeds=1, epochs=1, progress=False)
    assert "\n" not in str(problem.value)
