"""The file of a model's swaps: the plans in the order in which they were applied."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from torch import nn

from gatewise.checks import check_kind, check_path
from gatewise.errors import ArgumentError
from gatewise.files import read_json, write_json
from gatewise.surgery.applying import apply_plan
from gatewise.surgery.planning import PlanData, signature_of
from gatewise.surgery.saving.moved_plans import fit_plan
from gatewise.surgery.saving.swapped_parts import all_plans, mark_parts

FORMAT = 1


@dataclass(frozen=True)
class SavedSwaps:
    """What the file holds.

    Attributes:
        plans: the plans, the first one first.
        config: fields of a Hugging Face configuration and their values before the swaps, by dotted
            name. The configuration that is saved has other values there.
    """

    plans: tuple[PlanData, ...]
    config: Mapping[str, Any] = field(default_factory=dict)

    def write(self, file: str | Path) -> None:
        """Write the file."""
        plans = [json.loads(plan.to_json()) for plan in self.plans]
        write_json(file, {"gatewise_swaps": FORMAT, "plans": plans, "config": dict(self.config)})

    @classmethod
    def read(cls, file: str | Path) -> "SavedSwaps":
        """Read the file; an error if it is another one, or damaged."""
        record = read_json(file)
        plans = record.get("plans")
        config = record.get("config", {})
        known = record.get("gatewise_swaps") == FORMAT
        if not known or not isinstance(plans, list) or not isinstance(config, dict):
            raise ArgumentError(
                "file: is not a file of swaps that this version reads",
                got=str(file),
                fix="pass what gw.save_swaps or save_pretrained of this version wrote",
            )
        return cls(tuple(PlanData.from_json(json.dumps(plan)) for plan in plans), config)

    def apply(self, model: nn.Module, prefix: str = "") -> None:
        """Apply the plans to ``model``, which has no swaps yet, without a proof.

        Args:
            model: a model like the one that was saved. Parts that the plans do not change may
                have other sizes.
            prefix: the name under which the saved model and ``model`` hold, or are held by, one
                another; see :func:`~gatewise.surgery.saving.moved_plans.fit_plan`.
        """
        for plan in self.plans:
            fitted = fit_plan(plan, model, prefix)
            fitted = replace(fitted, signature=signature_of(model))
            apply_plan(fitted, model, inplace=True, examples=())
        mark_parts(model)


def save_swaps(model: nn.Module, file: str | Path) -> None:
    """Write the swaps of ``model`` to a JSON file, to repeat them on a new model.

    The file has no weights. Save these as you do for any model, for example with
    ``torch.save(model.state_dict(), ...)`` or by Lightning.

    Args:
        model: what :func:`gatewise.swap` returned.
        file: the file to write.

    Raises:
        ArgumentError: the model was not swapped, or a change of it cannot be written to a file.
    """
    plans = plans_of(check_kind("save_swaps", "model", model, nn.Module))
    check_path("save_swaps", "file", file)
    if not plans:
        raise ArgumentError("model: no units were put into it", got=type(model).__name__)
    SavedSwaps(plans).write(file)


def plans_of(model: nn.Module) -> tuple[PlanData, ...]:
    """The plans that were applied to ``model``, to a part of it, or to what it is a part of.

    Raises:
        ArgumentError: a change of the model is not a plan, or a unit is no longer what its plan
            says.
    """
    for path, module in model.named_modules():
        if getattr(module, "differs_from_plan", False):
            raise ArgumentError(
                "model: a threshold was set after the swap, and a file of swaps would lose it",
                got=f"{module} at {path!r}",
                fix="torch.save(model, file) keeps the whole model",
            )
    plans = [plan for plan in all_plans(model) if plan is not None]
    if len(plans) != len(all_plans(model)):
        raise ArgumentError(
            "model: merged, orthogonalized or deployed layers cannot be written to a file of swaps",
            got=type(model).__name__,
            fix="torch.save(model, file) keeps the whole model",
        )
    return tuple(plans)
