"""The papers' tables and figures, each run by one command, with what the paper says kept apart from what we find."""

from collections.abc import Mapping
from types import MappingProxyType

from gatewise.errors import unknown_name
from gatewise.papers import crelu, deep_gated, iieu, maso, psc
from gatewise.papers.common import Experiment as Experiment
from gatewise.papers.common import Result as Result
from gatewise.papers.common import Row as Row

PAPERS = (crelu, deep_gated, iieu, maso, psc)


def experiments() -> Mapping[str, Experiment]:
    """Every experiment by its name, ``paper/figure``.

    The closed table that names are looked up in.
    """
    return MappingProxyType({each.name: each for paper in PAPERS for each in paper.EXPERIMENTS})


def find_experiment(name: str) -> Experiment:
    """The experiment of that name, or an error that names the nearest."""
    found = experiments()
    if name not in found:
        raise unknown_name("experiment", name, found)
    return found[name]
