"""Choose the sites that can be widened together, and collect the edits for them."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from gatewise.graph import SiteGraph
from gatewise.surgery.propagate.edits import Edit, Setting
from gatewise.surgery.propagate.rules import BACKWARD_RULES, FORWARD_RULES
from gatewise.surgery.propagate.sweep import Sweep
from gatewise.surgery.reasons import Reason, Refusal


@dataclass
class Widening:
    """The widened sites with their layouts, the edits for them, and the refused sites."""

    layouts: dict[str, str] = field(default_factory=dict)
    refused: dict[str, Refusal] = field(default_factory=dict)
    edits: dict[tuple[str, int], Edit] = field(default_factory=dict)
    settings: dict[tuple[str, str], Setting] = field(default_factory=dict)
    sweeps: tuple[Sweep, ...] = ()


def follow(
    graph: SiteGraph,
    layouts: Mapping[str, str],
    policy: str,
    before: Sequence[Sweep] | None = None,
    *,
    widths: Mapping[str, int] | None = None,
) -> Widening:
    """Collect the edits for the given layouts or widths, in every mode the model was read in.

    Args:
        graph: The model's graph.
        layouts: The layout of each site, one of ``LAYOUTS``.
        policy: One of ``POLICIES``.
        before: Sweeps of some of these sites. Their sources are needed again, so starting from them
            saves repetitions.
        widths: The new number of input channels of other sites. Layers that read these channels may
            then lose columns.

    Raises:
        Refusal: The sites cannot be changed together.
    """

    def canonical(name: str) -> str:
        return graph.aliases.get(name, (name,))[0]

    widening = Widening(dict(layouts))
    sweeps = []
    for place, reading in enumerate(graph.readings.values()):
        sweep = Sweep(reading, layouts, policy, canonical, FORWARD_RULES, BACKWARD_RULES)
        if before:
            sweep.sources.update(before[place].sources)
        if widths is not None:
            sweep.cuts_readers = True
            sweep.maps.update(before[place].maps if before else {})
            sweep.require_widths(widths)
        sweeps.append(sweep.run())
        for key, edit in sweep.edits().items():
            if not widening.edits.setdefault(key, edit).same_as(edit):
                raise Refusal(Reason.SHARED, f"{edit.name}, differently in train mode")
        widening.settings.update(sweep.settings)
    widening.sweeps = tuple(sweeps)
    return widening


def widen(
    graph: SiteGraph, names: Sequence[str], policy: str, tried: Mapping[str, Sequence[str]]
) -> Widening:
    """Widen as many sites as possible, greedily in the order of the graph.

    A site is widened if it can be widened together with the sites before it.

    Args:
        graph: The model's graph.
        names: The sites to widen.
        policy: One of ``POLICIES``.
        tried: The layouts to try for each site, best first.
    """
    widening = Widening()
    for name in names:
        refusals = []
        for layout in tried[name]:
            try:
                attempt = follow(graph, widening.layouts | {name: layout}, policy, widening.sweeps)
            except Refusal as refusal:
                refusals.append(refusal)
                continue
            attempt.refused = widening.refused
            widening = attempt
            break
        else:
            # The first layout is the preferred one, so its reason is the one to show.
            widening.refused[name] = refusals[0]
    return widening
