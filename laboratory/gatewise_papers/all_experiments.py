"""The tables and figures of papers, each run by one command.

Numbers of the paper are kept separate from ours.
"""

from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

from gatewise.errors import unknown_name
from gatewise_papers.common import Experiment as Experiment
from gatewise_papers.common import ExperimentCost as ExperimentCost
from gatewise_papers.common import Result as Result
from gatewise_papers.common import Row as Row
from gatewise_papers.common import claims_part as claims_part
from gatewise_papers.common import cost_at_start as cost_at_start
from gatewise_papers.common import cost_of as cost_of
from gatewise_papers.common import overview_part as overview_part
from gatewise_papers.common import with_generated_part as with_generated_part
from gatewise_papers.crelu import experiments as crelu
from gatewise_papers.deep_gated import experiments as deep_gated
from gatewise_papers.iieu import experiments as iieu
from gatewise_papers.maso import experiments as maso
from gatewise_papers.not_here import NOT_HERE as NOT_HERE
from gatewise_papers.not_here import NotHere as NotHere
from gatewise_papers.psc import experiments as psc

PAPERS = (crelu, deep_gated, iieu, maso, psc)
# Pages of docs/ with a generated part, and the paper whose claims it shows; None: an overview.
PAGES: Mapping[str, str | None] = MappingProxyType(
    {
        "reproductions.md": None,
        "crelu.md": "crelu",
        "deep_gated.md": "deep_gated",
        "iieu.md": "iieu",
        "maso.md": "maso",
        "psc.md": "psc",
    }
)


def experiments() -> Mapping[str, Experiment]:
    """Return every experiment by its name, ``paper/figure``."""
    by_name = {}
    for paper in PAPERS:
        for experiment in paper.EXPERIMENTS:
            by_name[experiment.name] = experiment
    return MappingProxyType(by_name)


def find_experiment(name: str) -> Experiment:
    """Return the experiment of that name.

    Raises:
        UnknownNameError: naming the nearest experiment.
    """
    known = experiments()
    if name not in known:
        raise unknown_name("experiment", name, known)
    return known[name]


def generated_part(page: str, folder: Path) -> str:
    """Return the generated part of a page.

    Args:
        page: a name in ``PAGES``.
        folder: of all results.
    """
    paper, known = PAGES[page], experiments()
    if paper is None:
        return overview_part(folder, known)
    return claims_part(folder, [name for name in known if name.startswith(f"{paper}/")])
