"""Parts of swapped models, and models with swapped parts, know the plans that they need.

Hugging Face models are saved whole, or without their head: ``model.base_model.save_pretrained``.
The record of a swap is on the model that was swapped. So every part that transformers can save gets
the plans of the whole model, as far as they concern the part.
"""

import sys
from collections.abc import Iterator
from typing import Any

from torch import nn

from gatewise.surgery.planning import PlanData
from gatewise.surgery.rewrite import DEPLOYED, RECORD, SwapRecord, base_and_recipe
from gatewise.surgery.saving.moved_plans import plan_of_part, plan_of_whole

TRANSFORMERS = "transformers.modeling_utils"  # the module that defines their base class
PART = "_gatewise_swapped_part"  # on a part: its plans; None stands for a change without a plan

Plans = tuple[PlanData | None, ...]


def pretrained_class() -> Any:
    """The base class of Hugging Face models, or ``None`` if transformers is not in use."""
    return getattr(sys.modules.get(TRANSFORMERS), "PreTrainedModel", None)


def mark_parts(model: nn.Module) -> None:
    """Let the parts of ``model`` that can be saved have its plans. Call it after every change."""
    base = pretrained_class()
    if base is None:
        return
    plans = [record.plan for record in records_of(model)]
    if DEPLOYED in model.__dict__:
        plans.append(None)
    for path, part in model.named_modules():
        if not path or not isinstance(part, base):
            continue
        moved = (None if plan is None else plan_of_part(plan, path) for plan in plans)
        part.__dict__[PART] = tuple(moved)
        if not plans:
            del part.__dict__[PART]


def all_plans(model: nn.Module) -> Plans:
    """The plans that made ``model`` of the original one, with its names, the first one first.

    ``None`` stands for a change that no plan describes, such as merged filters.
    """
    own: list[PlanData | None] = [record.plan for record in records_of(model)]
    own += model.__dict__.get(PART, ())
    if DEPLOYED in model.__dict__:
        own.append(None)
    # The parts of a swapped model have its plans. Those of their own came before.
    marks = (RECORD,) if own else (RECORD, PART, DEPLOYED)
    plans = [*_plans_inside(model, marks), *own]
    if not plans and any(base_and_recipe(type(module))[1] for module in model.modules()):
        plans.append(None)
    return tuple(plans)


def _plans_inside(model: nn.Module, marks: tuple[str, ...]) -> Iterator[PlanData | None]:
    """The plans of the outermost parts that have one of ``marks``, as plans for ``model``."""
    seen: list[str] = []
    for path, part in model.named_modules():
        if not path or path.startswith(tuple(seen)):
            continue
        if any(mark in part.__dict__ for mark in marks):
            seen.append(f"{path}.")
            plans = all_plans(part)
            if marks == (RECORD,):  # without what the part has from ``model``
                plans = plans[: len(plans) - len(part.__dict__.get(PART, ()))]
            for plan in plans:
                yield None if plan is None else plan_of_whole(plan, path)


def records_of(model: nn.Module) -> list[SwapRecord]:
    """The records of all changes of ``model``, the first one first."""
    records: list[SwapRecord] = []
    record = model.__dict__.get(RECORD)
    while record is not None:
        records.insert(0, record)
        record = record.previous
    return records
