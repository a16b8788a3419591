"""The direction of a metric: by its name, by the user, or an error that asks for it."""

import pytest

from gatewise.errors import ArgumentError
from gatewise.train import metric_mode


@pytest.mark.parametrize("name", ["accuracy", "f1", "auc", "iou", "map", "test_accuracy", "val_F1"])
def test_higher_is_better(name: str):
    assert metric_mode(name) == "max"


@pytest.mark.parametrize(
    "name", ["loss", "nats", "bits", "perplexity", "error", "mse", "test_loss", "val_MSE"]
)
def test_lower_is_better(name: str):
    assert metric_mode(name) == "min"


def test_unknown_name_needs_a_mode():
    with pytest.raises(ArgumentError, match="mode"):
        metric_mode("reward")
    assert metric_mode("reward", "max") == "max"
    assert metric_mode("accuracy", "min") == "min"


@pytest.mark.parametrize("name, mode", [("", None), (3, None), ("loss", "up"), ("loss", 1)])
def test_wrong_values_are_argument_errors(name, mode):
    with pytest.raises(ArgumentError):
        metric_mode(name, mode)
