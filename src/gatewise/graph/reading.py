"""Read a model in eval and in train mode, and list the activation sites of both."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from gatewise.checks import check_flag
from gatewise.errors import ArgumentError, Limitation, NotApplicableError
from gatewise.graph.channels import Dims, channel_dims
from gatewise.graph.eager import cache_settings
from gatewise.graph.glu import glu_of
from gatewise.graph.relations import consumers, producers
from gatewise.graph.roles import role_of
from gatewise.graph.sites import Site, SiteNodes, activation_sites
from gatewise.graph.trace import (
    Example,
    Graph,
    Node,
    check_readable,
    check_runs,
    one_at_a_time,
    read_by_export,
    read_by_tracing,
    split_example,
)
from gatewise.graph.written_activations import written_activations
from gatewise.words import FitsScreen

MODES = ("eval", "train")


@dataclass(frozen=True)
class Reading:
    """A graph, its sites by name, and the channel dimension of its nodes."""

    graph: Graph
    site_nodes: Mapping[str, SiteNodes]
    dims: Dims


@dataclass(frozen=True)
class SiteGraph(FitsScreen):
    """The activation sites of a model, and the graphs they are in.

    Attributes:
        sites: in the order of the calls.
        readings: by mode.
        aliases: all names of each parameter and buffer, by each of its names.
        notes: sentences about what could not be read or recognised.
    """

    sites: tuple[Site, ...]
    readings: Mapping[str, Reading]
    aliases: Mapping[str, tuple[str, ...]]
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[Site]:
        return iter(self.sites)

    def __len__(self) -> int:
        return len(self.sites)

    def __getitem__(self, name: str) -> Site:
        return {site.name: site for site in self.sites}[name]

    def to_dict(self) -> dict[str, Any]:
        """Return sites and notes as plain values, without the graphs."""
        return {"sites": [site.to_dict() for site in self.sites], "notes": list(self.notes)}

    def __str__(self) -> str:
        lines = []
        for site in self.sites:
            lines.append(f"{site.name}  {site.op}  {site.kind}  {site.role}  {site.channels}")
        return "\n".join([*lines, *self.notes])


@one_at_a_time
def find_sites(
    model: nn.Module,
    example: Example,
    *,
    modes: tuple[str, ...] = MODES,
    units: bool = False,
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

    Raises:
        ArgumentError: the model cannot be read, or does not run on ``example``.
    """
    check_readable(model)
    if not isinstance(modes, tuple | list) or not modes or not all(map(MODES.__contains__, modes)):
        raise ArgumentError("find_sites: unknown modes", got=modes, allowed=", ".join(MODES))
    check_flag("find_sites", "units", units)
    args, kwargs = split_example(example)
    readings: dict[str, Reading] = {}
    notes: list[str] = []
    if cache_settings(model):
        notes.append("use_cache was False while the model was read and compared, and is True again")
    for mode in modes:
        graph = _read(model, args, kwargs, mode, notes)
        if graph is not None:
            sites = _by_name(activation_sites(graph, model, units=units))
            readings[mode] = Reading(graph, sites, channel_dims(graph))
    if not readings:
        check_runs(model, args, kwargs)
        raise NotApplicableError(
            Limitation.UNREADABLE_MODEL,
            "model: neither torch.export nor make_fx can read it",
            got="; ".join(notes),
        )
    # Both modes have mostly the same notes.
    for reading in readings.values():
        modules = {
            site.output.scope for site in reading.site_nodes.values() if site.kind != "functional"
        }
        outputs: set[Node] = set()
        for site in reading.site_nodes.values():
            outputs.update((site.output, *site.region))
        for note in written_activations(reading.graph, modules, outputs):
            if note not in notes:
                notes.append(note)
    return SiteGraph(_merge(readings), readings, _aliases(model), tuple(notes))


def _read(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
    mode: str,
    notes: list[str],
) -> Graph | None:
    """Read the model by the first reader that can, and note why others could not."""
    reasons = []
    for reader in (read_by_export, read_by_tracing):
        try:
            graph = reader(model, args, kwargs, mode=mode)
        except Exception as problem:  # a model's code may raise anything under a reader
            first_line = str(problem).strip().partition("\n")[0]
            reasons.append(f"{type(problem).__name__}: {first_line}")
            continue
        if reasons:
            notes.append(
                f"{mode}: torch.export cannot read it ({reasons[0]}); traced instead: "
                "only the branches that this example takes are seen"
            )
        return graph
    notes.append(f"{mode}: could not be read ({'; '.join(reasons)})")
    return None


def _by_name(sites: list[SiteNodes]) -> dict[str, SiteNodes]:
    """Return the sites by unique names; functional ones are numbered within a call of the owner."""
    functional: Counter[tuple[str, int]] = Counter()
    by_name = {}
    for site in sites:
        name = site.path or "(model)"
        if site.call:
            name += f"@{site.call}"
        if site.kind == "functional":
            number = functional[site.path, site.call]
            name += f":{site.op}#{number}"
            functional[site.path, site.call] += 1
        by_name[name] = site
    return by_name


def _merge(readings: Mapping[str, Reading]) -> tuple[Site, ...]:
    """Return the sites of the eval graph in order, then those that exist in training only."""
    names: dict[str, list[str]] = {}  # the modes of each site
    for mode in MODES:
        for name in readings[mode].site_nodes if mode in readings else ():
            names.setdefault(name, []).append(mode)
    sites = []
    for number, (name, modes) in enumerate(names.items()):
        depth = number / max(1, len(names) - 1)
        sites.append(_site(name, readings[modes[0]], tuple(modes), depth))
    return tuple(sites)


def _site(name: str, reading: Reading, modes: tuple[str, ...], depth: float) -> Site:
    site = reading.site_nodes[name]
    functional = site.kind == "functional"
    owner = site.path if functional else site.path.rpartition(".")[0]
    earlier: set[Node] = set()  # outputs of the sites before this one
    place = 0
    for other in reading.site_nodes.values():
        if other.output.index < site.output.index:
            earlier.add(other.output)
        same_call = other.path == site.path and other.call == site.call
        place += same_call and other.order < site.order
    # A place in code that runs in several calls of the owner is shared by them.
    owner_calls = set()
    for node in reading.graph:
        owner_calls.update(call for path, call in node.scopes if path == owner)
    dim = reading.dims.get(site.output, reading.dims.get(site.input))
    shape = site.output.shape or ()
    glu = glu_of(site.input, site.output, site.layout)
    return Site(
        name=name,
        path=site.path,
        call=site.call,
        kind=site.kind,
        op=site.op,
        role=role_of(site, earlier, glu),
        owner=owner,
        place=place,
        order=site.order,
        dim=dim,
        channels=None if dim is None else shape[dim],
        shape=shape,
        producers=tuple(_label(node) for node in producers(site.input)),
        consumers=tuple(_label(node) for node in consumers(site.output)),
        depth=depth,
        shared=len(owner_calls) > 1,
        modes=modes,
        gate=None if glu is None else glu.gate,
        value=None if glu is None else glu.value,
        written=tuple(dict.fromkeys(node.op for node in site.region)),
        part_of=site.part_of,
    )


def _label(node: Node) -> str:
    if node.op in ("input", "output"):
        return node.op
    return node.scope[0]


def _aliases(model: nn.Module) -> dict[str, tuple[str, ...]]:
    """Return all names of each parameter and buffer, by each of its names."""
    names: dict[int, list[str]] = {}
    tensors = [
        *model.named_parameters(remove_duplicate=False),
        *model.named_buffers(remove_duplicate=False),
    ]
    for name, tensor in tensors:
        names.setdefault(id(tensor), []).append(name)
    return {name: tuple(names[id(tensor)]) for name, tensor in tensors}
