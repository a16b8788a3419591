"""IIEU-B and the Coupler, as a plan's entries ask for them."""

import inspect
from collections.abc import Mapping
from typing import Any

from torch import nn

from gatewise.errors import unknown_name
from gatewise.graph import Site
from gatewise.layers import Coupler
from gatewise.surgery.binding.additions import ADDITION
from gatewise.surgery.planning.plans import Entry
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.units import create_unit, get_unit

COUPLER = ("reduction", "variant")
OWN = ("channels", "conv", "dim", "device", "dtype")  # told by the site, not by the user


def check_options(unit: str, options: Mapping[str, Any]) -> None:
    """An error, if one of ``options`` is none of the unit's."""
    known = [name for name in get_unit("iieu_b").options if name not in OWN]
    known += COUPLER if unit == "iieu_dc" else ()
    for name in options:
        if name not in known:
            raise unknown_name("option", name, [*known, "placement"])


def unit_options(
    site: Site, unit: str, options: Mapping[str, Any], *, linear: bool
) -> dict[str, Any]:
    """What the unit at ``site`` is built with, or :class:`Refusal`."""
    if site.kind != ADDITION:
        given = {name: value for name, value in options.items() if name not in COUPLER}
        return {"channels": site.channels, "dim": -1 if linear else 1, **given}
    made = {
        "channels": site.channels,
        **{name: value for name, value in options.items() if name in COUPLER},
    }
    reduction = made.get("reduction", inspect.signature(Coupler).parameters["reduction"].default)
    if site.dim != 1 or len(site.shape) < 3:
        raise Refusal(Reason.NO_CHANNELS, "a coupler takes feature maps (N, C, *)")
    if isinstance(reduction, int) and (site.channels or 0) < reduction:
        raise Refusal(Reason.NARROW, f"{site.channels} < {reduction}")
    return made


def bound_unit(entry: Entry, **place: Any) -> nn.Module:
    """The unit for one entry; ``place`` is its device and dtype."""
    if entry.kind == ADDITION:
        return Coupler(**entry.options, **place)
    return create_unit("iieu_b", **entry.options, **place)
