"""Put units into a model: modules are replaced by path, other calls by rewriting the source."""

from collections.abc import Sequence
from typing import NamedTuple

from torch import nn

from gatewise.graph import Site
from gatewise.surgery.calls import CallSite
from gatewise.surgery.rewrite.rewriting import rewrite_calls
from gatewise.surgery.rewrite.transaction import Transaction


class Placement(NamedTuple):
    """A unit and its site. ``call`` is ``None`` if the site is a module that is called once."""

    site: Site
    call: CallSite | None
    unit: nn.Module


def place_units(work: Transaction, placements: Sequence[Placement]) -> None:
    """Put all units into the model of ``work``, which records the changes for a roll-back."""
    calls = []
    units = []
    for site, call, unit in placements:
        work.units[site.name] = unit
        if call is not None:
            calls.append(call)
            units.append(unit.train(work.model.get_submodule(call.owner).training))
            continue
        old = work.model.get_submodule(site.path)
        if hasattr(old, "inplace"):
            vars(unit)["inplace"] = False  # some models read it
        home, _, name = site.path.rpartition(".")
        work.replace(home, name, unit.train(old.training), "module")
    if calls:
        work.others.append(rewrite_calls(work.model, calls, units))
