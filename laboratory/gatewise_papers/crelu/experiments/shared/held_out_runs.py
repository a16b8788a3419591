"""How the CReLU paper measures: a hold-out that is then trained on, and ten folds.

Each protocol is a few runs in sub-folders of one folder. If interrupted, it resumes with the run it
was in; a finished protocol is read back.
"""

import statistics
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from gatewise.data import DataSet, Split
from gatewise.devices import place_model
from gatewise.errors import GatewiseError
from gatewise.files import read_tensors
from gatewise.train import (
    WEIGHTS,
    Result,
    RunConfig,
    build_model,
    load_data,
    outputs,
    records,
    run_config,
    train,
)

Train = Callable[[RunConfig, Path], Result | None]


@dataclass(frozen=True)
class Single:
    """Errors of a network trained on all data until it reached the first one's hold-out loss."""

    held_loss: float  # the lowest of the first network, and what the second one was trained to
    epochs: tuple[int, int]  # until then, of the first and of the second
    train_error: float
    test_error: float
    reached: bool  # whether the second network reached it within the recipe's epochs


@dataclass(frozen=True)
class Folds:
    """Test errors of networks that were each trained without one fold of the training set."""

    errors: tuple[float, ...]
    average: float  # of the errors
    standard_error: float  # of the average, from the spread of the errors; 0 for one fold
    vote: float  # the error of the mean of all networks' class probabilities


def single(
    config: RunConfig,
    out: str | Path,
    *,
    examples: int,
    data: DataSet | None = None,
    **options: Any,
) -> Single:
    """Measure the CReLU paper's "Single".

    Hold out examples, find the lowest loss on them, then train on all data until it is reached.

    Args:
        config: the run.
        out: the folder of the protocol.
        examples: how many are held out.
        data: the data set, if it is already loaded.
        **options: of :func:`train`.
    """
    data = data or load_data(config)
    run = _runner(data, options)
    first = Path(out) / "held-out"
    _finished(run(_changed(config, hold_out={"examples": examples}, stop=None), first), first)
    best = min(records(first), key=lambda record: record["held_loss"])
    second = Path(out) / "whole"
    hold_out = {"examples": examples, "train_on_them": True}
    again = _changed(config, hold_out=hold_out, stop={"below": best["held_loss"]})
    result = _finished(run(again, second), second)
    last = result.metrics or {}
    return Single(
        best["held_loss"],
        (best["epoch"], last["epoch"]),
        training_error(again, second, data),
        1 - last["test_accuracy"],
        last["held_loss"] <= best["held_loss"],
    )


def ten_folds(
    config: RunConfig,
    out: str | Path,
    *,
    folds: int = 10,
    data: DataSet | None = None,
    **options: Any,
) -> Folds:
    """Measure the CReLU paper's "Average" and "Vote": one network per fold, trained without it.

    Args:
        config: the run.
        out: the folder of the protocol.
        folds: how many.
        data: the data set, if it is already loaded.
        **options: of :func:`train`.
    """
    data = data or load_data(config)
    run = _runner(data, options)
    shares: list[Tensor] = []
    for fold in range(1, folds + 1):
        folder = Path(out) / f"fold-{fold}"
        without = _changed(config, hold_out={"fold": fold, "folds": folds})
        _finished(run(without, folder), folder)
        shares.append(probabilities(config, folder, data))
    errors = tuple(_error(share, data.test.labels) for share in shares)
    vote = _error(torch.stack(shares).mean(0), data.test.labels)
    spread = statistics.stdev(errors) if folds > 1 else 0.0
    return Folds(errors, sum(errors) / folds, spread / folds**0.5, vote)


def probabilities(config: RunConfig, folder: Path, data: DataSet) -> Tensor:
    """Return class probabilities of the test examples, (N, K), float64.

    Args:
        config: the run.
        folder: of the run, with its weights.
        data: the data set.
    """
    return _outputs(config, folder, data, data.test).double().softmax(1)


def training_error(config: RunConfig, folder: Path, data: DataSet) -> float:
    """Return the share of the training examples that the trained network classifies wrongly.

    The examples are not augmented. The ``train_accuracy`` of an epoch is another number: it is
    counted during the epoch, on augmented examples and with the weights of each step.

    Args:
        config: the run.
        folder: of the run, with its weights.
        data: the data set, with all of its training examples.
    """
    return _error(_outputs(config, folder, data, data.train), data.train.labels)


def _runner(data: DataSet, options: dict[str, Any]) -> Train:
    """Return a function that trains with these data and options."""
    return lambda config, folder: train(config, folder, data=data, **options)


def _changed(config: RunConfig, **values: Any) -> RunConfig:
    """Return the configuration with these values, checked again."""
    table = {name: getattr(config, name) for name in RunConfig.model_fields}
    return run_config(**table | {"evaluate_every": 1} | values)


def _finished(result: Result | None, folder: Path) -> Result:
    """Return the result; raise if the run was stopped or diverged."""
    if result is None:
        raise GatewiseError(
            "the protocol was stopped, and its state is saved",
            got=str(folder),
            fix="rerun it to resume",
        )
    if result.status != "finished":
        raise GatewiseError(
            "a run of the protocol diverged",
            got=f"{folder}: {result.reason}",
            fix="change the recipe",
        )
    return result


def _outputs(config: RunConfig, folder: Path, data: DataSet, split: Split) -> Tensor:
    """Return the outputs of a trained network for the examples of a split, (N, K)."""
    network = build_model(config, classes=data.classes, shape=data.shape)
    network.load_state_dict(read_tensors(folder / WEIGHTS)[0])
    network = place_model(network, torch.device("cpu"), channels_last=config.recipe.channels_last)
    augment = config.recipe.augmentation().with_normalise(data.mean, data.std)
    return outputs(network, split, augment=augment, precision=config.recipe.precision)


def _error(shares: Tensor, labels: Tensor) -> float:
    """Return the share of wrong classes."""
    return float((shares.argmax(1) != labels).double().mean())
