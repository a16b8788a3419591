"""A recipe: how a network is trained, as data in which every key is checked."""

import inspect
from dataclasses import fields
from difflib import get_close_matches
from typing import Annotated, Any, Literal

import torch
from pydantic import BaseModel, ConfigDict, Field, model_validator
from torch import Tensor

from gatewise.data import AUGMENT_STEPS, Augment
from gatewise.errors import GatewiseError
from gatewise.extensions import load_extensions

OPTIMISERS = ("sgd", "nesterov", "adam", "adamw", "rmsprop")
NOT_STEPPING = ("Optimizer", "LBFGS", "SparseAdam")  # need a closure, or sparse gradients

Rate = Annotated[float, Field(gt=0, le=1000)]
Share = Annotated[float, Field(ge=0, lt=1)]
Decay = Annotated[float, Field(ge=0, le=100)]
Epochs = Annotated[int, Field(ge=1, le=1_000_000)]
Text = Annotated[str, Field(max_length=500)]

OPTIMISER_OPTIONS = {
    "sgd": {"momentum"},
    "nesterov": {"momentum"},
    "adam": {"beta1", "beta2", "eps"},
    "adamw": {"beta1", "beta2", "eps"},
    "rmsprop": {"momentum", "smoothing", "eps"},
}
SCHEDULE_OPTIONS = {
    "constant": set(),
    "cosine": {"end"},
    "linear": {"end"},
    "step": {"at", "factor"},
    "phases": {"phases"},
    "triangle": {"peak", "first", "last"},
}


class Part(BaseModel):
    """A table of a recipe: frozen, strictly typed, without unknown keys, finite numbers only."""

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True, allow_inf_nan=False)


class RuleError(ValueError):
    """A recipe breaks a rule between several of its keys.

    Args:
        key: The dotted key that the rule is about.
        message: What is wrong.
    """

    def __init__(self, key: str, message: str) -> None:
        super().__init__(f"{key}: {message}")
        self.key = key
        self.message = message


def _refuse_others(part: Any, options: dict[str, set[str]]) -> None:
    """Refuse an option of another kind than ``part.name``, because it would be ignored."""
    others = set().union(*options.values()) - options[part.name]
    for name in sorted(part.model_fields_set & others):
        raise RuleError(name, f"{part.name} has no such option")


class Optimiser(Part):
    """The optimiser and its options. ``smoothing`` is RMSprop's alpha.

    The rate of the scales and shifts of normalisation layers is ``norm_lr_scale`` times that of the
    other parameters. Their weight decay is divided by it, so that one step shrinks all parameters
    by the same share.

    Besides the five that have keys here, ``name`` is that of any optimiser of ``torch.optim`` in
    lower case, with its arguments in the table ``options``.
    """

    name: Annotated[str, Field(max_length=100)] = "adam"
    lr: Rate = 1e-3
    momentum: Share = 0.9
    beta1: Share = 0.9
    beta2: Share = 0.999
    eps: Annotated[float, Field(gt=0, le=1)] = 1e-8
    smoothing: Share = 0.99
    norm_lr_scale: Annotated[float, Field(gt=0, le=10_000)] = 1.0
    options: Annotated[dict[str, Any], Field(max_length=50)] = {}

    @model_validator(mode="after")
    def _check_options(self) -> "Optimiser":
        """Check that the options belong to the optimiser."""
        if self.name not in OPTIMISERS:
            _check_torch_optimiser(self)
            return self
        if self.options:
            raise RuleError("options", f"{self.name} has its own keys: write them without options")
        _refuse_others(self, OPTIMISER_OPTIONS)
        if self.name == "nesterov" and not self.momentum:
            raise RuleError("momentum", "nesterov needs one above 0")
        return self


def torch_optimisers() -> dict[str, Any]:
    """Return the optimisers of torch that take steps on their own, by their names in lower case."""
    classes = {}
    for name, value in vars(torch.optim).items():
        is_class = isinstance(value, type) and issubclass(value, torch.optim.Optimizer)
        if is_class and name not in NOT_STEPPING:
            classes[name.lower()] = value
    return classes


def _check_torch_optimiser(chosen: Optimiser) -> None:
    """Check the name and the options of an optimiser of torch."""
    classes = torch_optimisers()
    if chosen.name not in classes:
        known = sorted({*OPTIMISERS, *classes})
        near = get_close_matches(chosen.name.lower(), known, n=1, cutoff=0.5)
        hint = f", did you mean {near[0]!r}?" if near else ""
        raise RuleError("name", f"{chosen.name} is none of {', '.join(known)}{hint}")
    other = chosen.model_fields_set - {"name", "lr", "norm_lr_scale", "options"}
    if other:
        raise RuleError(sorted(other)[0], f"write the options of {chosen.name} in `options`")
    allowed = inspect.signature(classes[chosen.name]).parameters.keys() - {"params", "lr"}
    for option in chosen.options:
        if option not in allowed:
            raise RuleError(f"options.{option}", f"{chosen.name} has {', '.join(sorted(allowed))}")


class Phase(Part):
    """Some epochs with their own learning rate and weight decay."""

    epochs: Epochs
    lr: Rate
    weight_decay: Decay = 0.0


class Schedule(Part):
    """How the learning rate changes, step by step.

    Warm-up rises linearly from ``warmup_from`` times the rate, and is a part of the recipe's
    epochs; the curve spans the others. Cool-down epochs are added, with the rate at which the curve
    ends. ``triangle`` rises linearly from ``first`` times the rate to the rate itself, which it
    reaches after the share ``peak`` of all steps, and falls linearly to ``last`` times the rate. It
    has no other warm-up.
    """

    name: Literal["constant", "cosine", "linear", "step", "phases", "triangle"] = "constant"
    end: Annotated[float, Field(ge=0, le=1000)] = 0.0
    at: Annotated[list[Epochs], Field(max_length=1000)] = []
    factor: Annotated[float, Field(gt=0, le=1)] = 0.1
    peak: Annotated[float, Field(gt=0, lt=1)] = 0.2
    first: Share = 0.2
    last: Share = 0.07
    phases: Annotated[list[Phase], Field(max_length=1000)] = []
    warmup: Annotated[int, Field(ge=0, le=1_000_000)] = 0
    warmup_from: Share = 0.0
    cooldown: Annotated[int, Field(ge=0, le=1_000_000)] = 0

    @model_validator(mode="after")
    def _whole(self) -> "Schedule":
        """Check that the options belong to the schedule."""
        _refuse_others(self, SCHEDULE_OPTIONS)
        if self.name == "step" and (not self.at or sorted(set(self.at)) != self.at):
            raise RuleError(
                "at", "step needs the epochs after which the rate falls, in rising order"
            )
        if self.name == "triangle" and (self.warmup or self.cooldown):
            raise RuleError("name", "triangle has no warm-up and no cool-down")
        if self.name == "phases" and not self.phases:
            raise RuleError("phases", "at least one is needed")
        return self


class WeightDecay(Part):
    """Weight decay, and the parameters that are spared.

    ``unit``: what a module's ``no_weight_decay()`` names and every parameter of a unit. ``norm``:
    scales and shifts of normalisation layers. ``bias``: parameters of that name. ``vector``:
    parameters with fewer than two dimensions.
    """

    value: Decay = 0.0
    spare: Annotated[list[Literal["unit", "norm", "bias", "vector"]], Field(max_length=4)] = [
        "unit"
    ]


class Loss(Part):
    """The loss.

    ``mse`` is the mean over examples of the sum over outputs of squared errors; ``half_mse`` is
    half of that. The targets are 1 for the right class and -1 for every other.
    """

    name: Literal["cross_entropy", "mse", "half_mse"] = "cross_entropy"
    label_smoothing: Share = 0.0

    @model_validator(mode="after")
    def _check_smoothing(self) -> "Loss":
        """Check that only cross-entropy smooths labels."""
        if self.label_smoothing and self.name != "cross_entropy":
            raise RuleError("label_smoothing", f"{self.name} has none")
        return self


class Orthogonality(Part):
    """The factor on :func:`gatewise.nn.orthogonality_penalty`, added to the loss; 0 for none."""

    weight: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    pieces: Literal["relu", "abs", "leaky_relu", "linear"] = "relu"


class Recipe(Part):
    """How a network is trained.

    ``epochs`` includes warm-up; ``schedule.cooldown`` is added. The gradients of ``accumulate``
    batches make one step. With ``precision = "float16"`` the loss is scaled. A comparison trains at
    rates around ``comparison_lr``, or around ``optimiser.lr`` without one; a single run does not
    use it.
    """

    title: Text = ""
    paper: Text = ""
    epochs: Epochs = 10
    batch: Annotated[int, Field(ge=1, le=1_000_000)] = 64
    start: Literal["torch", "he"] = "torch"  # how weights are drawn: see gatewise.train.initialise
    optimiser: Optimiser = Optimiser()
    schedule: Schedule = Schedule()
    weight_decay: WeightDecay = WeightDecay()
    loss: Loss = Loss()
    orthogonality: Orthogonality = Orthogonality()
    augment: Annotated[dict[str, Any], Field(max_length=20)] = {}
    ema: Annotated[float, Field(ge=0, lt=1)] = 0.0
    clip: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    accumulate: Annotated[int, Field(ge=1, le=1_000_000)] = 1  # batches in one step
    precision: Literal["float32", "bfloat16", "float16", "auto"] = "float32"
    channels_last: bool = False  # the layout of images and convolutions
    # Left out of dumps: it does not change a run, so it is not in the digest of one.
    comparison_lr: Annotated[Rate | None, Field(exclude=True)] = None
    diverged_above: Annotated[float, Field(gt=0, le=1e30)] = 1e30

    @model_validator(mode="after")
    def _possible(self) -> "Recipe":
        """Check what concerns several tables."""
        schedule = self.schedule
        self.augmentation()
        if schedule.name == "phases":
            self._check_phases()
        if schedule.warmup >= self.epochs:
            raise RuleError(
                "schedule.warmup",
                f"{schedule.warmup} epochs of warm-up leave none of {self.epochs}",
            )
        if schedule.at and schedule.at[-1] >= self.epochs:
            raise RuleError(
                "schedule.at", f"the rate falls after epoch {schedule.at[-1]} of {self.epochs}"
            )
        if schedule.end > self.optimiser.lr:
            rate = self.optimiser.lr
            raise RuleError("schedule.end", f"{schedule.end} is above the initial rate {rate}")
        return self

    def _check_phases(self) -> None:
        """Check that phases cover the epochs and replace rate and decay."""
        total = sum(phase.epochs for phase in self.schedule.phases)
        if total != self.epochs:
            raise RuleError(
                "schedule.phases", f"they have {total} epochs, and the recipe has {self.epochs}"
            )
        if "lr" in self.optimiser.model_fields_set or "value" in self.weight_decay.model_fields_set:
            raise RuleError(
                "schedule.phases", "they set what optimiser.lr and weight_decay.value would set"
            )
        if self.schedule.warmup or self.schedule.cooldown:
            raise RuleError(
                "schedule.phases", "they have no warm-up and no cool-down; write those as phases"
            )

    def augmentation(self) -> Augment:
        """Return the augmentation that the table ``augment`` describes."""
        # The normalisation is always that of the data set.
        own = {field.name for field in fields(Augment)} - {"normalise", "steps"}
        if not self.augment.keys() <= own:
            load_extensions("recipes")
        known = sorted(own | AUGMENT_STEPS.keys())
        for key in self.augment:
            if key not in known:
                near = get_close_matches(key, known, n=1, cutoff=0.5)
                hint = f", did you mean {near[0]!r}?" if near else ""
                raise RuleError(f"augment.{key}", f"no such key among {', '.join(known)}{hint}")
        try:
            steps = {key: value for key, value in self.augment.items() if key not in own}
            return Augment(
                **{key: value for key, value in self.augment.items() if key in own}, steps=steps
            )
        except GatewiseError as problem:
            raise RuleError("augment", str(problem)) from problem

    def placed(self, images: Tensor, device: torch.device) -> Tensor:
        """Return the images on a device, in the layout of the recipe."""
        images = images.to(device)
        if self.channels_last:
            images = images.contiguous(memory_format=torch.channels_last)
        return images

    @property
    def total_epochs(self) -> int:
        """All epochs, including cool-down."""
        return self.epochs + self.schedule.cooldown
