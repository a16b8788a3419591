"""Read a model: in eval and in train mode, by export, else by tracing.

One list of sites over both.
"""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.graph.channels import Dims, channel_dims
from gatewise.graph.relations import consumers, producers
from gatewise.graph.roles import role_of
from gatewise.graph.site_facts import Site
from gatewise.graph.sites import Found, activation_sites
from gatewise.graph.trace import (
    Example,
    Graph,
    Node,
    check_readable,
    check_runs,
    read_by_export,
    read_by_tracing,
    split_example,
)
from gatewise.graph.unrecognised import unrecognised

MODES = ("eval", "train")


@dataclass(frozen=True)
class Reading:
    """One graph with its sites, by name, and the channel dimension of its nodes."""

    graph: Graph
    found: Mapping[str, Found]
    dims: Dims


@dataclass(frozen=True)
class SiteGraph:
    """A model's activation sites, and the graphs they were found in."""

    sites: tuple[Site, ...]
    readings: Mapping[str, Reading]  # by mode
    aliases: Mapping[
        str, tuple[str, ...]
    ]  # every name of each parameter and buffer, by each of its names
    notes: tuple[str, ...] = field(default=())

    def __iter__(self) -> Iterator[Site]:
        return iter(self.sites)

    def __len__(self) -> int:
        return len(self.sites)

    def __getitem__(self, name: str) -> Site:
        return {site.name: site for site in self.sites}[name]

    def to_dict(self) -> dict[str, Any]:
        """As plain values, without the graphs."""
        return {"sites": [site.to_dict() for site in self.sites], "notes": list(self.notes)}

    def __str__(self) -> str:
        lines = [
            f"{site.name}  {site.op}  {site.kind}  {site.role}  {site.channels}"
            for site in self.sites
        ]
        return "\n".join([*lines, *self.notes])


def find_sites(
    model: nn.Module, example: Example, *, modes: tuple[str, ...] = MODES, units: bool = False
) -> SiteGraph:
    """Find the activation sites of a model.

    The model is read from one run in eval and one in train mode. Neither the model nor torch's
    random state is changed.

    Args:
        model: any module that runs on ``example``.
        example: a tensor, a tuple of positional arguments or a dict of keyword arguments.
        modes: the modes to read the model in.
        units: whether calls of this library's units are sites too, whatever operators they are
            made of.
    """
    check_readable(model)
    args, kwargs = split_example(example)
    readings: dict[str, Reading] = {}
    notes: list[str] = []
    for mode in modes:
        graph = _read(model, args, kwargs, mode, notes)
        if graph is not None:
            sites = activation_sites(graph, model, units=units)
            found = {_name(each, place): each for each, place in _places(sites)}
            readings[mode] = Reading(graph, found, channel_dims(graph))
    if not readings:
        check_runs(model, args, kwargs)
        raise ArgumentError(
            "model: neither torch.export nor make_fx can read it", got="; ".join(notes)
        )
    for reading in readings.values():
        notes += [note for note in unrecognised(reading.graph) if note not in notes]
    return SiteGraph(_merge(readings), readings, _aliases(model), tuple(notes))


def _read(
    model: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any], mode: str, notes: list[str]
) -> Graph | None:
    reasons = []
    for reader in (read_by_export, read_by_tracing):
        try:
            graph = reader(model, args, kwargs, mode=mode)
        except Exception as problem:  # whatever a model's own code raises under a reader
            reasons.append(
                f"{type(problem).__name__}: {str(problem).strip().splitlines()[0] if str(problem) else ''}"
            )
            continue
        if reasons:
            notes.append(
                f"{mode}: torch.export cannot read it ({reasons[0]}); traced instead: only the branches that"
            )
            notes[-1] += " this example takes are seen"
        return graph
    notes.append(f"{mode}: could not be read ({'; '.join(reasons)})")
    return None


def _places(found: list[Found]) -> Iterator[tuple[Found, int]]:
    """Each functional site with its number among those of the same owner's call.

    0 for the others.
    """
    count: Counter[tuple[str, int]] = Counter()
    for each in found:
        key = (each.path, each.call)
        yield each, count[key]
        count[key] += each.kind == "functional"


def _name(found: Found, place: int) -> str:
    again = f"@{found.call}" if found.call else ""
    functional = f":{found.op}#{place}" if found.kind == "functional" else ""
    return f"{found.path or '(model)'}{again}{functional}"


def _merge(readings: Mapping[str, Reading]) -> tuple[Site, ...]:
    """Sites in the order of the eval graph, those that exist in training only after them."""
    names = list(dict.fromkeys(name for reading in readings.values() for name in reading.found))
    made = []
    for number, name in enumerate(names):
        modes = tuple(mode for mode in MODES if mode in readings and name in readings[mode].found)
        reading = readings[modes[0]]
        depth = number / max(1, len(names) - 1)
        made.append(_site(name, reading, modes, depth))
    return tuple(made)


def _site(name: str, reading: Reading, modes: tuple[str, ...], depth: float) -> Site:
    found = reading.found[name]
    others = list(reading.found.values())
    earlier = {each.output for each in others if each.output.index < found.output.index}
    functional = found.kind == "functional"
    owner = found.path if functional else found.path.rpartition(".")[0]
    place = sum(
        each.path == found.path and each.call == found.call and each.order < found.order
        for each in others
    )
    dim = reading.dims.get(found.output, reading.dims.get(found.input))
    shape = found.output.shape or ()
    parents = {call for _, call in _calls_of(reading.graph, owner)}
    return Site(
        name=name,
        path=found.path,
        call=found.call,
        kind=found.kind,
        op=found.op,
        role=role_of(found, earlier),
        owner=owner,
        place=place,
        order=found.order,
        dim=dim,
        channels=None if dim is None else shape[dim],
        shape=shape,
        producers=tuple(_label(each) for each in producers(found.input)),
        consumers=tuple(_label(each) for each in consumers(found.output)),
        depth=depth,
        shared=len(parents) > 1,
        modes=modes,
    )


def _calls_of(graph: Graph, path: str) -> set[tuple[str, int]]:
    return {scope for node in graph for scope in node.scopes if scope[0] == path}


def _label(node: Node) -> str:
    return node.op if node.op in ("input", "output") else node.scope[0]


def _aliases(model: nn.Module) -> dict[str, tuple[str, ...]]:
    names: dict[int, list[str]] = {}
    tensors = [
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    ]
    for name, value in tensors:
        names.setdefault(id(value), []).append(name)
    return {name: tuple(names[id(value)]) for name, value in tensors}
