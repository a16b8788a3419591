"""Put units that are made already into a model.

Modules by their path, other calls by rewriting what makes them.
"""

from collections.abc import Sequence
from typing import NamedTuple

from torch import nn

from gatewise.graph import Site
from gatewise.surgery.calls.call_site import CallSite
from gatewise.surgery.rewrite.rewriting import rewrite_calls
from gatewise.surgery.rewrite.transaction import Transaction


class Placement(NamedTuple):
    """``unit`` goes to ``site``, whose call is ``call`` if it is not a module that is called once."""

    site: Site
    call: CallSite | None
    unit: nn.Module


def place_units(work: Transaction, placements: Sequence[Placement]) -> None:
    """All of them; what was done is in ``work``, to be rolled back."""
    calls, units = [], []
    for site, call, unit in placements:
        work.units[site.name] = unit
        if call is not None:
            calls.append(call)
            units.append(unit.train(work.model.get_submodule(call.owner).training))
            continue
        old = work.model.get_submodule(site.path)
        if hasattr(old, "inplace"):
            vars(unit)["inplace"] = False  # some models read it
        home, _, own = site.path.rpartition(".")
        work.replace(home, own, unit.train(old.training), "module")
    if calls:
        work.others.append(rewrite_calls(work.model, calls, units))
