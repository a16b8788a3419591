"""What an experiment would cost on this machine: three training steps of each arm are timed.

Times are of the processor, not of a clock on the wall, so that other programs do not lengthen them.
"""

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from gatewise.data import datasets
from gatewise.files import make_folder, read_json, write_json
from gatewise.studies import plain
from gatewise.train import RunConfig, data_facts, seconds_per_run
from gatewise_papers.common.data_notes import data_of
from gatewise_papers.common.experiment import COST, Experiment, Trainings
from gatewise_papers.common.machines import machine
from gatewise_papers.common.writing import RESULT

HOUR = 3600
NO_TRAINING = "it trains no networks"
OWN_LOOP = "it trains in a loop of its own, whose steps are not timed"


@dataclass(frozen=True)
class ArmCost:
    """The runs of one network of an experiment.

    Attributes:
        name: of the network.
        final: runs with the seeds of the experiment; several per seed if the protocol has folds.
        seconds: processor time of one run, computed from three steps, without evaluation.
    """

    name: str
    final: int
    seconds: float

    @property
    def total(self) -> float:
        """The seconds of all runs."""
        return self.final * self.seconds


@dataclass(frozen=True)
class ExperimentCost:
    """The training that an experiment needs, timed on this machine.

    Attributes:
        experiment: its name.
        scale: of its settings.
        seeds: how many.
        arms: empty if nothing was timed.
        threads: of torch, in each run.
        reason: why nothing was timed.
        machine: the processor.
    """

    experiment: str
    scale: str
    seeds: int
    arms: tuple[ArmCost, ...]
    threads: int
    reason: str
    machine: dict[str, str]

    @property
    def core_hours(self) -> float | None:
        """Hours of one core for all runs; None if nothing was timed."""
        if not self.arms:
            return None
        return sum(arm.total for arm in self.arms) / HOUR

    @property
    def words(self) -> str:
        """The product in words, or why there is none."""
        if self.core_hours is None:
            return f"{self.experiment} at scale {self.scale} was not timed: {self.reason}."
        runs = sum(arm.final for arm in self.arms)
        mean = sum(arm.total for arm in self.arms) / runs
        return (
            f"{len(self.arms)} arms x {runs / len(self.arms):g} runs x "
            f"{mean:.3g} s a run = {self.core_hours:.3g} core-hours "
            f"(processor time, from three training steps of each arm, without evaluation)."
        )

    def to_dict(self) -> dict[str, Any]:
        """Return plain values."""
        return {**asdict(self), "core_hours": self.core_hours}


def cost_of(
    experiment: Experiment, scale: str = "desk", seeds: int | None = None
) -> ExperimentCost:
    """Time three training steps of each arm; nothing is trained to the end and nothing is written.

    Args:
        experiment: whose runs are counted.
        scale: one of its scales.
        seeds: how many; as many as the experiment has if None.
    """
    settings = experiment.settings_of(scale)
    numbers = experiment.seed_numbers(seeds, scale)
    threads = torch.get_num_threads()
    arms: tuple[ArmCost, ...] = ()
    reason = OWN_LOOP if experiment.own_loop else NO_TRAINING
    if experiment.trainings is not None:
        arms = tuple(_arms(experiment.trainings(settings, numbers), threads))
        reason = NO_TRAINING
    reason = "" if arms else reason
    return ExperimentCost(experiment.name, scale, len(numbers), arms, threads, reason, machine())


def cost_at_start(
    experiment: Experiment, scale: str, seeds: int | None, out: str | Path
) -> str | None:
    """Return what an experiment costs in words, as timed when it was first started in its folder.

    The cost is kept in the folder, so that the page of all records can name it. It is timed again
    if it is that of another scale, of other settings or of another number of seeds.

    Args:
        experiment: that is about to run.
        scale: one of its scales.
        seeds: how many; as many as the experiment has if None.
        out: the folder of all experiments.

    Returns:
        None if no training can be timed, or if the folder has results.
    """
    folder = experiment.folder(out)
    if experiment.trainings is None or (folder / RESULT).exists():
        return None
    path = folder / COST
    timed = {
        "scale": scale,
        "seeds": len(experiment.seed_numbers(seeds, scale)),
        "settings": plain(asdict(experiment.settings_of(scale))),
    }
    if path.exists():
        kept = read_json(path)
        if all(kept.get(name) == value for name, value in timed.items()):
            return kept["words"]
    cost = cost_of(experiment, scale, seeds)
    if not cost.arms:
        return None
    make_folder(folder)
    write_json(path, {**cost.to_dict(), **timed, "words": cost.words})
    return cost.words


def _arms(table: Trainings, threads: int) -> Iterator[ArmCost]:
    """Yield the cost of each network of a table of trainings."""
    for name, configs in table.items():
        yield ArmCost(name, len(configs), _seconds(configs[0], threads))


def _seconds(config: RunConfig, threads: int) -> float:
    """Return the time of the training steps of one run."""
    known = data_facts(config)
    if known is None:
        data = data_of(config)
        known = data.classes, data.shape
    classes, shape = known
    return seconds_per_run(
        config,
        classes=classes,
        shape=shape,
        examples=_examples(config),
        threads=threads,
        timer=time.process_time,
    )


def _examples(config: RunConfig) -> int:
    """Return the size of the training set; the data are read only if nothing else says it."""
    count = config.data_options.get("train")
    if isinstance(count, int):
        return max(1, count)
    source = datasets()[config.data]
    sizes = source.sizes or source.published_sizes
    if sizes is not None and data_facts(config) is not None:
        return sizes[0]
    return len(data_of(config).train)
