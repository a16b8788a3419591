"""Train a model on the user's data, with a penalty on activations that rises in stages.

Note [Stages]. The weight of the penalty is constant in the first stage. In every later stage it
rises from the last weight to the next as half a sine wave, flat at both ends (ProSparse,
arXiv:2402.13516). All stages have the same number of steps.

Note [Penalty]. For each token, the penalty is the square of the mean magnitude divided by the mean
square of the numbers that a linear layer reads. It is 1 if all have the same magnitude, and the
share of numbers that are not zero if these have the same magnitude. The mean magnitude itself can
be made small by smaller weights without a single zero; a ratio cannot, and it has the same scale in
every network. The penalty is averaged over tokens and over the layers behind the activations.
"""

import math
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis import scores_of, summed_loss
from gatewise.batches import ModelCall
from gatewise.errors import ArgumentError, Limitation, NotApplicableError
from gatewise.sparsity.results import Stage
from gatewise.sparsity.thresholds import Place, watched
from gatewise.train import (
    Measured,
    Objective,
    Pace,
    Recipe,
    RunConfig,
    StepLoss,
    TrainingSetup,
    environment,
    train,
)

NEVER = 1e9  # seconds between two checkpoints: the folder is a temporary one
CLIP = 1.0  # the norm of a step's gradient
SMALLEST_SQUARE = 1e-12  # a token whose numbers are smaller counts as 0, without a gradient


def penalty_at(step: int, steps: int, penalties: Sequence[float]) -> float:
    """Return the weight of the penalty at a step; see Note [Stages].

    >>> [round(penalty_at(step, 6, (0.0, 0.2, 0.4)), 3) for step in range(6)]
    [0.0, 0.0, 0.0, 0.1, 0.2, 0.3]
    """
    stage = stage_at(step, steps, len(penalties))
    if not stage:
        return penalties[0]
    part = step * len(penalties) / steps - stage
    rise = (1 + math.sin(math.pi * (part - 0.5))) / 2
    return penalties[stage - 1] + (penalties[stage] - penalties[stage - 1]) * rise


def effective_share(values: Tensor) -> Tensor:
    """Return the share of numbers that count, averaged over tokens; see Note [Penalty].

    >>> effective_share(torch.tensor([[3.0, -3.0, 0.0, 0.0], [2.0, 2.0, 2.0, 2.0]]))
    tensor(0.7500)

    Args:
        values: numbers of each token, along the last dimension.
    """
    wide = values.float()
    squares = wide.square().mean(-1).clamp_min(SMALLEST_SQUARE)
    return (wide.abs().mean(-1).square() / squares).mean()


def stage_at(step: int, steps: int, stages: int) -> int:
    """Return the number of the stage that a step is in, from 0."""
    return min(step * stages // steps, stages - 1)


@dataclass(frozen=True)
class TrainBatch:
    """A batch of training.

    Attributes:
        index: which batch of the data it is.
        step: of the whole training, from 0.
        call: inputs and labels.
        whole: batches in a step.
    """

    index: Tensor
    step: int
    call: ModelCall
    whole: int = 1


@dataclass(frozen=True)
class ShuffledBatches:
    """The training data, in a new order in every epoch.

    Args:
        batches: of the user.
        seed: of the order.
    """

    batches: Sequence[ModelCall]
    seed: int

    @property
    def count(self) -> int:
        """Batches in an epoch."""
        return len(self.batches)

    @property
    def examples(self) -> int:
        """The same: a batch counts as one example."""
        return len(self.batches)

    def walk(self, epoch: int, start: int, workers: int = 0) -> Iterator[TrainBatch]:
        """Yield the batches of an epoch from the one at ``start`` on."""
        generator = torch.Generator().manual_seed(self.seed + epoch)
        order = torch.randperm(self.count, generator=generator).tolist()
        for place in range(start, self.count):
            number = order[place]
            step = epoch * self.count + place
            yield TrainBatch(torch.tensor([number]), step, self.batches[number])


@dataclass
class PenalisedLoss(Objective):
    """The loss of the model, and a penalty on its activations.

    Args:
        places: the inputs of linear layers that the penalty counts.
        steps: of the whole training.
        penalties: the weight at the end of each stage.
    """

    places: Sequence[Place]
    steps: int
    penalties: Sequence[float]
    counts: bool = False
    parts: tuple[str, ...] = ()
    sums: list[list[float]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.sums = [[0.0, 0.0, 0.0] for _ in self.penalties]

    def step(self, call: Callable[..., Any], batch: TrainBatch) -> StepLoss:
        """Return the loss of a batch with its penalty."""
        shares: list[Tensor] = []
        zeros: list[Tensor] = []

        def tell(place: Place, values: Tensor) -> None:
            shares.append(effective_share(values))
            zeros.append((values.detach() == 0).float().mean())

        with watched(self.places, tell):
            output = batch.call.run(call)  # pyright: ignore[reportArgumentType]
        labels = batch.call.labels
        assert labels is not None  # noqa: S101  fine_tune has looked
        total, count = summed_loss("relufy", labels, scores_of(output), output)
        loss = total / max(1, count)
        sums = self.sums[stage_at(batch.step, self.steps, len(self.penalties))]
        sums[0] += 1
        sums[1] += float(loss.detach())
        sums[2] += float(torch.stack(zeros).mean()) if zeros else 0.0
        weight = penalty_at(batch.step, self.steps, self.penalties)
        if weight and shares:
            loss = loss + weight * torch.stack(shares).mean()
        return StepLoss(loss)

    def measure(self, model: nn.Module, part: str, halt: Callable[[], None]) -> Measured:
        """Nothing is measured in training: held-out data are measured after it."""
        return Measured({})

    def stages(self) -> tuple[Stage, ...]:
        """Return what was seen in each stage that had steps."""
        found = []
        for penalty, (steps, loss, zeros) in zip(self.penalties, self.sums, strict=True):
            if steps:
                found.append(Stage(penalty, int(steps), loss / steps, zeros / steps))
        return tuple(found)


def fine_tune(
    model: nn.Module,
    places: Sequence[Place],
    batches: Sequence[ModelCall],
    *,
    epochs: int,
    lr: float,
    penalties: Sequence[float],
    seed: int,
) -> tuple[tuple[Stage, ...], float]:
    """Train a model, and return the stages and the seconds that it took.

    Args:
        model: it is trained in place. Its mode stays as it is.
        places: the inputs of linear layers that the penalty counts.
        batches: inputs with labels.
        epochs: over the batches.
        lr: the learning rate of AdamW at the start; it falls as half a cosine wave.
        penalties: the weight of the penalty at the end of each stage.
        seed: of the order of batches and of dropout.

    Raises:
        ArgumentError: a batch has no labels, or no weight of the model is trained.
        NotApplicableError: the loss became infinite or no number.
    """
    _check_trainable(model, batches)
    steps = epochs * len(batches)
    if steps < len(penalties):
        raise ArgumentError(
            "relufy: there are fewer steps than penalties, which have a stage each",
            got=f"{steps} steps, {len(penalties)} penalties",
            fix="more epochs or training data, or fewer penalties",
        )
    recipe = Recipe.model_validate(
        {
            "epochs": epochs,
            "optimiser": {"name": "adamw", "lr": lr},
            "schedule": {"name": "cosine"},
            "clip": CLIP,
        }
    )
    config = RunConfig(model="own", data="own", recipe=recipe, seed=seed)
    objective = PenalisedLoss(places, steps, tuple(penalties))
    modes = {module: module.training for module in model.modules()}

    def setup(device: torch.device) -> TrainingSetup:
        own = next(model.parameters()).device
        return TrainingSetup(
            config=config,
            model=model,
            batches=ShuffledBatches(batches, seed),
            objective=objective,
            identity={"config": config.digest, "data": "own"},
            environment=environment(device=own),
            device=own,
        )

    try:
        with torch.enable_grad(), tempfile.TemporaryDirectory() as folder:
            pace = Pace(checkpoint_seconds=NEVER)
            result = train(config, f"{folder}/run", setup=setup, pace=pace)
    finally:
        for module, training in modes.items():
            module.training = training
        model.zero_grad(set_to_none=True)
    if result is None:
        raise KeyboardInterrupt
    if result.status != "finished":
        raise NotApplicableError(
            Limitation.NOT_FINITE,
            "relufy: the training diverged",
            got=result.reason or result.status,
            fix="a smaller lr, or smaller penalties",
        )
    return objective.stages(), result.seconds


def _check_trainable(model: nn.Module, batches: Sequence[ModelCall]) -> None:
    if any(batch.labels is None for batch in batches):
        raise ArgumentError(
            "relufy: training needs labels",
            got="a batch of inputs alone",
            allowed="tuples (inputs, labels), or dicts with labels",
        )
    if not any(weight.requires_grad for weight in model.parameters()):
        raise ArgumentError(
            "relufy: no weight of the model can be trained",
            got="requires_grad is False for all parameters",
            fix="model.requires_grad_(True)",
        )
