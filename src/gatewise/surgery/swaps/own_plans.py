"""Swaps that have a planner of their own, and options of their own."""

import inspect
from collections.abc import Mapping
from typing import Any

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.graph import Example
from gatewise.surgery.planning.plans import Plan
from gatewise.surgery.planning.selection import Where
from gatewise.surgery.swaps.beta_forms import BETA, make_beta_plan
from gatewise.surgery.swaps.galu import GALU, make_galu_plan

OWN = {BETA: make_beta_plan, GALU: make_galu_plan}
COMMON = ("model", "example", "where", "preserve", "gates")


def make_own_plan(
    model: nn.Module,
    unit: str,
    example: Example,
    *,
    where: Where,
    width: str | None,
    preserve: bool,
    gates: bool,
    options: Mapping[str, Any],
) -> Plan:
    """See :func:`gatewise.plan`; ``unit`` is one of ``OWN``."""
    if width is not None:
        raise ArgumentError(
            f"{unit}: changes no width", got=f"width={width!r}", fix="leave width out"
        )
    known = [name for name in inspect.signature(OWN[unit]).parameters if name not in COMMON]
    if unknown := [name for name in options if name not in known]:
        raise ArgumentError(
            f"{unit}: has no such option", got=", ".join(unknown), allowed=", ".join(known)
        )
    return OWN[unit](model, example, where=where, preserve=preserve, gates=gates, **options)
