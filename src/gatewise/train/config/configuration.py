"""The configuration of a run: everything that decides its bits, as plain data with a digest."""

import json
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gatewise.data import find_set
from gatewise.files import digest
from gatewise.models import get_model
from gatewise.train.config.recipe import Epochs, Part, Recipe, RuleError
from gatewise.train.config.recipe_files import check

Name = Annotated[str, Field(min_length=1, max_length=200)]
Options = Annotated[dict[str, Any], Field(max_length=100)]


class HoldOut(Part):
    """Held-out training examples: ``examples`` of them, or fold ``fold`` (from 1) of ``folds``.

    They depend on ``seed`` here and not on the seed of the run, so that runs with other seeds hold
    out the same examples. With ``train_on_them`` they are evaluated separately and trained on too,
    as when a network is trained again on all data. With ``in_place_of_test`` they get the
    transforms of the test set, which is not evaluated.
    """

    examples: Annotated[int, Field(ge=0, le=10**9)] = 0
    fold: Annotated[int, Field(ge=0, le=1000)] = 0
    folds: Annotated[int, Field(ge=0, le=1000)] = 0
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    train_on_them: bool = False
    in_place_of_test: bool = False

    @model_validator(mode="after")
    def _one_of_two(self) -> "HoldOut":
        """Check that either a number of examples or a fold is held out."""
        if bool(self.examples) == bool(self.folds):
            raise RuleError("examples", "hold out either a number of examples or a fold")
        if (self.folds and not 1 <= self.fold <= self.folds) or self.folds == 1:
            raise RuleError(
                "fold",
                f"{self.fold} is not one of {self.folds} folds "
                "(counted from 1, at least two folds)",
            )
        return self


class StopRule(Part):
    """End the run after the first epoch in which ``metric`` is not above ``below``.

    ``train_error`` is the share of training examples that were classified wrongly in the epoch.
    """

    metric: Literal["train_loss", "train_error", "held_loss"] = "held_loss"
    below: Annotated[float, Field(ge=-1e30, le=1e30)]


class Patience(Part):
    """End the run after ``epochs`` epochs without a better value of ``metric``.

    The weights of the best epoch are kept and tested. ``metric`` is one of the metrics that are
    written after an epoch, such as ``val_accuracy``.
    """

    metric: Name
    mode: Literal["max", "min"]
    epochs: Epochs


class RunConfig(Part):
    """One run. Equal configurations, on one machine with one set of versions, give equal bits."""

    model: Name
    unit: Name | dict[str, Any] | None = None
    model_options: Options = Field(default_factory=dict)
    data: Name = "digits"
    data_options: Options = Field(default_factory=dict)
    recipe: Recipe = Recipe()
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    hold_out: HoldOut | None = None
    stop: StopRule | None = None
    patience: Patience | None = None
    evaluate_every: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    fuse: bool = False  # let the units run as compiled code, see `gatewise.fuse`

    @model_validator(mode="after")
    def _possible(self) -> "RunConfig":
        """Check that the stopping rule has a metric."""
        if self.stop and self.stop.metric == "held_loss" and not self.hold_out:
            raise RuleError("stop.metric", "held_loss needs examples that are held out")
        return self

    @property
    def plain(self) -> dict[str, Any]:
        """The configuration in the types of JSON."""
        return self.model_dump(mode="json")

    @property
    def digest(self) -> str:
        """The sha256 of what differs from the defaults, without title and paper of the recipe.

        Defaults are left out so that a key that is added later does not change old digests.
        """
        plain = self.model_dump(
            mode="json",
            exclude={"recipe": {"title", "paper"}},
            exclude_defaults=True,
        )
        return digest(json.dumps(plain, sort_keys=True).encode())


def run_config(**values: Any) -> RunConfig:
    """Return a configuration, with the names of model and data set checked.

    Args:
        **values: the fields of :class:`RunConfig`.

    Raises:
        ArgumentError: naming the first value that is wrong.
    """
    recipe = values.get("recipe")
    if isinstance(recipe, Recipe):
        values["recipe"] = recipe.model_dump(exclude_unset=True)
    config = check(RunConfig, values, "run")
    get_model(config.model)
    find_set(config.data)
    return config
