"""Which sites of a model can be widened, alone or together, and what that takes."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from gatewise.graph import SiteGraph
from gatewise.surgery.propagate.edits import Edit, Setting
from gatewise.surgery.propagate.rules import MAKERS, RULES
from gatewise.surgery.propagate.sweep import Sweep
from gatewise.surgery.reasons import Reason, Refusal


@dataclass
class Widening:
    """Sites with their layouts, what has to be edited for them, and the sites refused."""

    layouts: dict[str, str] = field(default_factory=dict)
    refused: dict[str, Refusal] = field(default_factory=dict)
    edits: dict[tuple[str, int], Edit] = field(default_factory=dict)
    settings: dict[tuple[str, str], Setting] = field(default_factory=dict)
    sweeps: tuple[Sweep, ...] = ()


def follow(
    graph: SiteGraph, layouts: Mapping[str, str], policy: str, before: Sequence[Sweep] | None = None
) -> Widening:
    """What the given layouts take, in every mode the model was read in, or :class:`Refusal`.

    ``before`` are the sweeps of some of these sites: what they asked for is asked for again, so it
    need not be found out anew.
    """
    sweeps = []
    for place, reading in enumerate(graph.readings.values()):
        sweep = Sweep(reading, layouts, policy, _canonical(graph), RULES, MAKERS)
        if before:
            sweep.sources.update(before[place].sources)
        sweeps.append(sweep.run())
    edits: dict[tuple[str, int], Edit] = {}
    settings: dict[tuple[str, str], Setting] = {}
    for sweep in sweeps:
        for key, edit in sweep.edits().items():
            if not edits.setdefault(key, edit).same_as(edit):
                raise Refusal(Reason.SHARED, f"{edit.name}, differently in train mode")
        settings.update(sweep.settings)
    return Widening(dict(layouts), {}, edits, settings, tuple(sweeps))


def widen(
    graph: SiteGraph, names: Sequence[str], policy: str, tried: Mapping[str, Sequence[str]]
) -> Widening:
    """Greedily, in the order of the graph.

    A site is kept if it can be widened together with those kept before.
    """
    kept = Widening()
    for name in names:
        refusals = []
        for layout in tried[name]:
            try:
                attempt = follow(graph, kept.layouts | {name: layout}, policy, kept.sweeps)
            except Refusal as refusal:
                refusals.append(refusal)
                continue
            attempt.refused = kept.refused
            kept = attempt
            break
        else:
            kept.refused[name] = refusals[0]
    return kept


def _canonical(graph: SiteGraph) -> Callable[[str], str]:
    return lambda name: graph.aliases.get(name, (name,))[0]
