"""The type of the trainable numbers of units, where the model has 16-bit numbers."""

from dataclasses import replace
from typing import Any

import torch
from torch import nn

from gatewise.errors import ArgumentError, CoarseUnitWarning, warn_caller
from gatewise.surgery.planning.plans import PlanData
from gatewise.units import LeafModule, registered_units

COARSE = (torch.bfloat16, torch.float16)
FLOATS = (*COARSE, torch.float32, torch.float64)


def with_unit_dtype(plan: PlanData, model: nn.Module, dtype: Any) -> PlanData:
    """Return the plan with the type that its units' parameters get.

    Args:
        plan: the plan.
        model: the model that it is for.
        dtype: the type; ``None`` is the model's, and warns if updates of units would be lost in it.

    Raises:
        ArgumentError: ``dtype`` is not a floating-point type.
    """
    if dtype is not None:
        if dtype not in FLOATS:
            raise ArgumentError(
                "unit_dtype: is not a floating-point dtype",
                got=dtype,
                allowed=", ".join(map(str, FLOATS)),
            )
        return replace(plan, unit_dtype=str(dtype).removeprefix("torch."))
    own = next(iter(float_dtypes(model)), None)
    units = registered_units()
    names = [entry.unit for entry in plan.swapped if entry.unit in units]
    learning = [name for name in dict.fromkeys(names) if units[name].learns]
    if own in COARSE and learning:
        step = torch.finfo(own).eps
        warn_caller(
            f"{', '.join(learning)}: the trainable numbers have the model's type, {own}. Its "
            f"smallest step beside 1 is {step:.2g}: smaller updates are lost. "
            "unit_dtype=torch.float32 keeps them",
            CoarseUnitWarning,
        )
    return plan


def float_dtypes(model: nn.Module) -> tuple[torch.dtype, ...]:
    """Return the types of the model's floating-point parameters, each once."""
    dtypes = (value.dtype for value in model.parameters() if value.is_floating_point())
    return tuple(dict.fromkeys(dtypes))


def keep_dtype(unit: nn.Module, name: str) -> None:
    """Give the parameters of an installed unit the type ``name``, and let them keep it.

    Raises:
        ArgumentError: the unit is not one that computes in the type of its parameters and returns
            the type of its input.
    """
    if next(unit.parameters(), None) is None:
        return
    if not isinstance(unit, LeafModule):
        raise ArgumentError(
            "unit_dtype: only units of gatewise return the type of their input",
            got=type(unit).__name__,
            fix="leave unit_dtype out, and let the module cast its input and output",
        )
    vars(unit)["unit_dtype"] = getattr(torch, name)
    unit.to(unit.unit_dtype)
