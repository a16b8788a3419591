"""Tasks recognised from outputs and targets, and their metrics against independent libraries."""

import math

import pytest
import torch
from sklearn import metrics as reference
from torch import Tensor, nn
from torch.nn import functional as F
from zoo import declare_missing_torchvision_operators

from gatewise.batches import ModelCall, find_reader
from gatewise.errors import ArgumentError
from gatewise.studies.comparison.model_outputs import Outputs, read_outputs
from gatewise.studies.comparison.task_metrics import TaskMetrics
from gatewise.studies.comparison.tasks import Aligned, LearningTask, recognise

declare_missing_torchvision_operators()  # torchmetrics imports torchvision where it is installed

GENERATOR = torch.Generator().manual_seed(0)


def numbers(*shape: int) -> Tensor:
    return torch.randn(shape, generator=GENERATOR)


def whole(most: int, *shape: int) -> Tensor:
    return torch.randint(0, most, shape, generator=GENERATOR)


TOKENS = whole(9, 6, 7)
ONE_HOT = F.one_hot(whole(3, 8), 3)
KNOWN = {
    "classification": (numbers(8, 4), whole(4, 8), None),
    "classification of one column": (numbers(8, 4), whole(4, 8, 1), None),
    "binary": (numbers(8, 1), whole(2, 8), None),
    "binary without a dimension": (numbers(8), whole(2, 8).bool(), None),
    "multi-label": (numbers(64, 3), (numbers(64, 3) > 0).float(), None),
    "multi-label of whole numbers": (numbers(64, 3), (numbers(64, 3) > 0).long(), None),
    "regression": (numbers(8, 1), numbers(8), None),
    "regression of several": (numbers(8, 3), numbers(8, 3), None),
    "regression of images": (numbers(8, 1, 5, 5), numbers(8, 1, 5, 5), None),
    "segmentation": (numbers(2, 4, 5, 6), whole(4, 2, 5, 6), None),
    "segmentation of volumes": (numbers(2, 4, 5, 6, 7), whole(4, 2, 5, 6, 7), None),
    "language-modelling": (numbers(6, 7, 9), None, TOKENS),
    "language-modelling of copies": (numbers(6, 7, 9), TOKENS, TOKENS),
    "language-modelling one ahead": (
        numbers(6, 6, 9),
        TOKENS[:, 1:],
        TOKENS[:, :-1],
    ),
    "token-classification": (numbers(6, 7, 9), whole(9, 6, 7), TOKENS),
}


@pytest.mark.parametrize("kind", KNOWN)
def test_task_is_recognised(kind: str):
    outputs, targets, inputs = KNOWN[kind]
    call = ModelCall((numbers(8, 2) if inputs is None else inputs,), {}, targets)
    task = recognise(call, Outputs(outputs, None), passed_target=False)
    assert kind.startswith(task)


AMBIGUOUS = {
    "one-hot or labels": (numbers(8, 3), ONE_HOT.float()),
    "binary or regression": (numbers(8, 1), whole(2, 8).float()),
    "tokens or positions": (numbers(2, 4, 4), whole(4, 2, 4)),
    "counts": (numbers(8, 1), whole(9, 8)),
    "shapes": (numbers(8, 3), numbers(8, 4)),
    "nothing": (numbers(8, 3), None),
    "words": (numbers(8, 3), ["a"] * 8),
}


@pytest.mark.parametrize("kind", AMBIGUOUS)
def test_ambiguous_task_is_asked_for(kind: str):
    outputs, targets = AMBIGUOUS[kind]
    call = ModelCall((numbers(8, 2),), {}, targets)
    with pytest.raises(ArgumentError, match="step=") as problem:
        recognise(call, Outputs(outputs, None), passed_target=False)
    assert "\n" not in str(problem.value)


def test_loss_of_the_model_is_used_if_it_got_the_target():
    call = ModelCall((), {"x": numbers(8, 2)}, whole(3, 8))
    outputs = Outputs(numbers(8, 3), torch.tensor(1.0))
    assert recognise(call, outputs, passed_target=True) == "model-loss"
    assert recognise(call, outputs, passed_target=False) == "classification"


class Forward(nn.Module):
    def forward(self, left, right=None, labels=None):
        return left


@pytest.mark.parametrize(
    "batch, args, kwargs",
    [
        (numbers(2, 3), 1, []),
        ((numbers(2, 3), whole(2, 2)), 1, []),
        ([numbers(2, 3), numbers(2, 3), whole(2, 2)], 2, []),
        (((numbers(2, 3), numbers(2, 3)), whole(2, 2)), 2, []),
        (({"left": numbers(2, 3)}, whole(2, 2)), 0, ["left"]),
        ({"left": numbers(2, 3), "other": 1, "labels": whole(2, 2)}, 0, ["labels", "left"]),
        ({"image": numbers(2, 3), "target": whole(2, 2)}, 1, []),
    ],
)
def test_batches_of_every_form_become_arguments(batch, args, kwargs):
    call = find_reader(Forward()).read(batch)
    assert len(call.args) == args
    assert sorted(call.keywords) == kwargs
    assert (call.target is None) == isinstance(batch, Tensor)


def test_outputs_of_every_form_are_read():
    logits, loss = numbers(2, 3), torch.tensor(0.5)
    for value in (logits, (logits, None), {"logits": logits}, {"out": logits, "aux": 1}):
        assert read_outputs(value).values is logits
    for value in ({"loss": loss, "logits": logits}, (loss, logits)):
        assert read_outputs(value).values is logits
        assert read_outputs(value).loss is loss
    with pytest.raises(ArgumentError, match="its output is not understood"):
        read_outputs(object())


def measured(task: str, outputs: Tensor, targets: Tensor, *names: str) -> dict[str, float]:
    columns = outputs.shape[1] if outputs.dim() == 2 else 1
    metrics = TaskMetrics(task, names, columns, -100)
    for part, target in zip(outputs.split(7), targets.split(7), strict=True):
        metrics.add(Aligned(part, target), float(part.mean()), len(part))
    return metrics.values()


def test_classes_agree_with_scikit_learn():
    outputs, targets = numbers(50, 4), whole(4, 50)
    guesses = outputs.argmax(1)
    values = measured("classification", outputs, targets, "accuracy", "error")
    assert values["accuracy"] == pytest.approx(reference.accuracy_score(targets, guesses))
    assert values["error"] == pytest.approx(1 - values["accuracy"])


@pytest.mark.slow  # importing torchmetrics takes seconds
def test_metrics_of_torchmetrics_agree_with_scikit_learn():
    outputs, targets = numbers(50, 4), whole(4, 50)
    guesses = outputs.argmax(1)
    values = measured("classification", outputs, targets, "f1", "recall", "cohen_kappa")
    assert values["f1"] == pytest.approx(reference.f1_score(targets, guesses, average="macro"))
    assert values["recall"] == pytest.approx(
        reference.recall_score(targets, guesses, average="macro")
    )
    # Computed in float32: 1 - a / b with a and b near 1 is off by a few times 6e-8.
    kappa = reference.cohen_kappa_score(targets, guesses)
    assert values["cohen_kappa"] == pytest.approx(kappa, abs=4 * 6e-8)
    targets = (numbers(50, 4) > 0).float()
    values = measured("multi-label", outputs, targets, "auroc")
    assert values["auroc"] == pytest.approx(reference.roc_auc_score(targets, outputs.sigmoid()))
    with pytest.raises(ArgumentError, match="neither gatewise nor torchmetrics"):
        TaskMetrics("classification", ("nonsense",), 3, -100)


def test_pixels_agree_with_scikit_learn_and_ignored_ones_do_not_count():
    outputs, targets = numbers(60, 3), whole(3, 60)
    targets[:9] = -100
    values = measured("segmentation", outputs, targets, "iou", "accuracy")
    kept, guesses = targets[9:], outputs[9:].argmax(1)
    expected = reference.jaccard_score(kept, guesses, average="macro")
    assert values["iou"] == pytest.approx(expected)
    assert values["accuracy"] == pytest.approx(reference.accuracy_score(kept, guesses))


def test_labels_agree_with_scikit_learn():
    outputs, targets = numbers(50, 4), (numbers(50, 4) > 0).float()
    values = measured("multi-label", outputs, targets, "f1", "accuracy")
    guesses = (outputs > 0).float()
    assert values["f1"] == pytest.approx(reference.f1_score(targets, guesses, average="macro"))
    assert values["accuracy"] == pytest.approx(float((guesses == targets).float().mean()))


def test_numbers_agree_with_scikit_learn():
    outputs, targets = numbers(50, 2), numbers(50, 2)
    values = measured("regression", outputs, targets, "mse", "mae", "rmse", "r2")
    assert values["mse"] == pytest.approx(reference.mean_squared_error(targets, outputs))
    assert values["mae"] == pytest.approx(reference.mean_absolute_error(targets, outputs))
    assert values["rmse"] == pytest.approx(math.sqrt(values["mse"]))
    assert values["r2"] == pytest.approx(reference.r2_score(targets, outputs))


def test_text_has_bits_and_perplexity_of_its_loss():
    outputs, targets = numbers(30, 5), whole(5, 30)
    values = measured("language-modelling", outputs, targets, "loss", "bits", "perplexity")
    assert values["bits"] == pytest.approx(values["loss"] / math.log(2))
    assert values["perplexity"] == pytest.approx(math.exp(values["loss"]))


def test_losses_are_those_of_torch():
    call = ModelCall((), {}, whole(3, 8))
    outputs = Outputs(numbers(8, 3), None)
    torch.testing.assert_close(
        LearningTask("classification").loss_of(call, outputs),
        F.cross_entropy(outputs.values, call.target),
    )
    single = Outputs(numbers(8, 1), None)
    call = ModelCall((), {}, whole(2, 8))
    torch.testing.assert_close(
        LearningTask("binary").loss_of(call, single),
        F.binary_cross_entropy_with_logits(single.values[:, 0], call.target.float()),
    )
    call = ModelCall((TOKENS,), {}, None)
    text = Outputs(numbers(6, 7, 9), None)
    torch.testing.assert_close(
        LearningTask("language-modelling").loss_of(call, text),
        F.cross_entropy(text.values[:, :-1].flatten(0, 1), TOKENS[:, 1:].flatten()),
    )
