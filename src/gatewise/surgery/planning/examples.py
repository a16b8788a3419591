"""Read a model on several examples, as one graph of sites.

Note [Names on several examples]. Sites are named by the module that makes the call and by a number.
On another path through the code the same name can belong to another call in the source, and the
same call can have another number. A call that an earlier example has made keeps its name there; a
new one with a name that is taken gets the number of the example, as in ``"block:relu#0 (2)"``.
Likewise, a call that is made in training only, under the name of another call, is
``"block:relu#0 (train)"``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.graph import Example, Reading, Site, SiteGraph, SiteNodes, find_sites, split_example
from gatewise.surgery.calls import CallSite, Coverage, Unreached, record_modes


def read_examples(example: Any, examples: Any) -> tuple[Example, ...]:
    """The examples that the arguments ``example`` and ``examples`` of a plan come to.

    A list is several examples; a tuple is the positional arguments of one.

    Raises:
        ArgumentError: there is none.
    """
    several: list[Any] = []
    for value in (example, examples):
        if isinstance(value, list):
            several += value
        elif value is not None:
            several.append(value)
    if not several:
        raise ArgumentError(
            "plan: there is no example to run the model on",
            fix="pass a tensor, a tuple of positional arguments, a dict of keyword arguments, or "
            "a list of these",
        )
    for one in several:
        split_example(one)
    return tuple(several)


@dataclass
class SeveralReadings:
    """The sites of a model on several examples, and their recorded calls.

    Attributes:
        graph: all sites; its readings have the keys ``"eval"``, ``"train"``, ``"eval 2"`` and so
            on.
        calls: the recorded calls of functional and reused activations, by site.
        unreached: what no example has reached.
    """

    graph: SiteGraph
    calls: dict[str, CallSite] = field(default_factory=dict)
    unreached: Unreached = field(default_factory=Unreached)


def read_model(model: nn.Module, examples: Sequence[Example]) -> SeveralReadings:
    """Read ``model`` on each example. See Note [Names on several examples]."""
    coverage = Coverage(model)
    result: SeveralReadings | None = None
    for number, example in enumerate(examples, start=1):
        reading = _read_example(model, example, coverage)
        if result is None:
            result = reading
        else:
            _add(result, reading.graph, reading.calls, str(number), f" {number}")
    assert result is not None  # noqa: S101  there is at least one example
    result.unreached = coverage.unreached(paths_of(result.graph.readings.values()))
    return result


def _read_example(
    model: nn.Module,
    example: Example,
    coverage: Coverage,
) -> SeveralReadings:
    """Read ``model`` on one example, in both modes."""
    graph = find_sites(model, example, units=True)
    modes = record_modes(model, graph, *split_example(example), coverage)
    calls = modes.get("eval", {})
    trained = modes.get("train", {})
    shared = calls.keys() & trained.keys()
    if all(_slot(calls[name]) == _slot(trained[name]) for name in shared):
        return SeveralReadings(graph, trained | calls)
    # The modes make different calls under one name.
    result = SeveralReadings(find_sites(model, example, modes=("eval",), units=True), calls)
    _add(result, find_sites(model, example, modes=("train",), units=True), trained, "train")
    return result


def paths_of(readings: Iterable[Reading]) -> set[str]:
    """The paths of all modules that run in the graphs."""
    paths = set()
    for reading in readings:
        for node in reading.graph:
            paths.update(path for path, _ in node.scopes)
    return paths


def _add(
    result: SeveralReadings,
    further: SiteGraph,
    calls: Mapping[str, CallSite],
    words: str,
    suffix: str = "",
) -> None:
    """Add the sites and calls of another graph. See Note [Names on several examples].

    Args:
        result: takes them.
        further: the other graph.
        calls: its recorded calls, by site.
        words: what new names end with, in brackets.
        suffix: what the modes of the other graph end with in ``result``.
    """
    known = {site.name: site for site in result.graph.sites}
    slots = {_slot(call): name for name, call in result.calls.items()}
    names: dict[str, str] = {}
    sites = list(result.graph.sites)
    for site in further.sites:
        name = site.name
        call = calls.get(name)
        if call is not None and site.kind == "functional":
            if _slot(call) in slots:
                name = slots[_slot(call)]
            elif name in known:
                name = f"{name} ({words})"
        names[site.name] = name
        modes = tuple(f"{mode}{suffix}" for mode in site.modes)
        if name not in known:
            sites.append(replace(site, name=name, modes=modes))
        elif not suffix:
            place = sites.index(known[name])
            sites[place] = replace(known[name], modes=known[name].modes + modes)
        if call is not None:
            result.calls.setdefault(name, call)
    readings = dict(result.graph.readings)
    for mode, reading in further.readings.items():
        found: dict[str, SiteNodes] = {
            names[name]: site for name, site in reading.site_nodes.items()
        }
        readings[f"{mode}{suffix}"] = Reading(reading.graph, found, reading.dims)
    notes = (*result.graph.notes, *(n for n in further.notes if n not in result.graph.notes))
    last = max(1, len(sites) - 1)
    placed: list[Site] = [replace(site, depth=place / last) for place, site in enumerate(sites)]
    result.graph = SiteGraph(tuple(placed), readings, result.graph.aliases, notes)


def _slot(call: CallSite) -> Any:
    """What makes two recorded calls the same: their place in the source and the owner's call."""
    return call.slot, call.call, call.module


def readings_of_example(graph: SiteGraph, number: int) -> dict[str, Reading]:
    """The readings by mode of example ``number``, from 0."""
    suffix = f" {number + 1}" if number else ""
    return {
        mode: graph.readings[mode + suffix]
        for mode in ("eval", "train")
        if mode + suffix in graph.readings
    }
