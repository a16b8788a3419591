"""The interface of a swap, the names under which swaps are found, and what a swap drafts into.

A swap is a subclass of :class:`Swap` in a file of ``gatewise.surgery.swaps``. The planner, the
installer and the proof call its methods; none of them compares names. To add one, write the
subclass and import its file in ``gatewise/surgery/swaps/__init__.py``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.extensions import load_extensions
from gatewise.graph import (
    Example,
    Graph,
    Node,
    Reading,
    Replace,
    Site,
    SiteGraph,
    replacing,
    split_example,
)
from gatewise.surgery.binding import Binding
from gatewise.surgery.calls import CallSite, check_call
from gatewise.surgery.planning.put_back import PutBack
from gatewise.surgery.propagate import Edit, Maps, Setting
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.surgery.rewrite import Transaction
from gatewise.units import registered_units

if TYPE_CHECKING:
    from gatewise.surgery.planning.plans import Entry
    from gatewise.surgery.planning.requests import Request

UNCHANGED = object()  # a reference: the original's own activation
_SWAPS: dict[str, type["Swap"]] = {}
_DEFAULT: list[type["Swap"]] = []
Assigned = Sequence[tuple["Request", Sequence[Site]]]  # the sites of each request


@dataclass
class PlanningContext:
    """The model that a plan is made for, and what was read of it.

    ``saved`` keeps what a swap has found out, since sites may be drafted more than once.
    """

    model: nn.Module
    examples: tuple[Example, ...]
    graph: SiteGraph
    calls: Mapping[str, CallSite]  # of functional and reused activations, by site
    preserve: bool | None
    policy: str
    saved: dict[str, Any] = field(default_factory=dict)

    @cached_property
    def modules(self) -> dict[str, nn.Module]:
        """Every module by its path."""
        return dict(self.model.named_modules())

    def only_arguments(self, unit: str) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The example as positional and keyword arguments.

        Raises:
            ArgumentError: there are several examples, which ``unit`` cannot be planned on.
        """
        if len(self.examples) != 1:
            raise ArgumentError(
                f"{unit}: can be planned on one example only",
                got=f"{len(self.examples)} examples",
                fix="pass one example that reaches all of the model",
            )
        (example,) = self.examples
        return split_example(example)

    @property
    def first_graph(self) -> Graph:
        """The graph of the first mode that was read."""
        return next(iter(self.graph.readings.values())).graph

    def first(self, name: str, compute: Callable[[], Any]) -> Any:
        """What ``compute`` returns, computed once for this plan."""
        if name not in self.saved:
            self.saved[name] = compute()
        return self.saved[name]


@dataclass
class Draft:
    """What a plan's swaps take, while it is worked out. All dictionaries are keyed by site."""

    units: dict[str, str] = field(default_factory=dict)  # the sites that change
    options: dict[str, dict[str, Any]] = field(default_factory=dict)
    after: dict[str, int | None] = field(default_factory=dict)  # channels
    kept: set[str] = field(default_factory=set)  # the sites that compute the same function
    refused: dict[str, Refusal] = field(default_factory=dict)
    bindings: dict[str, tuple[Binding, ...]] = field(default_factory=dict)
    moved: set[str] = field(default_factory=set)
    calls: dict[str, CallSite] = field(default_factory=dict)
    edits: dict[tuple[str, int], Edit] = field(default_factory=dict)
    settings: dict[tuple[str, str], Setting] = field(default_factory=dict)
    layers: dict[str, tuple[float, ...]] = field(default_factory=dict)  # by path
    replaced: dict[str, dict[str, Any]] = field(default_factory=dict)  # by path
    put_back: tuple[PutBack, ...] = ()
    maps: Mapping[Node, Maps] = field(default_factory=dict)  # of the first graph's nodes
    notes: list[str] = field(default_factory=list)
    parameters: int = 0  # that units bring, besides edits
    operations: int = 0
    rectified: list[str] = field(default_factory=list)  # sites whose input is never negative

    def put(
        self,
        site: Site,
        unit: str,
        options: Mapping[str, Any],
        after: int | None = None,
        *,
        kept: bool = False,
    ) -> None:
        """Let ``site`` change to ``unit``.

        Args:
            site: the site.
            unit: the unit's name.
            options: the unit's options.
            after: how many channels the site has then, if it is not as many as now.
            kept: whether the model's function stays the same.
        """
        self.units[site.name] = unit
        self.options[site.name] = dict(options)
        self.after[site.name] = site.channels if after is None else after
        if kept:
            self.kept.add(site.name)

    def refuse(self, site: str, refusal: Refusal) -> None:
        """Leave ``site`` as it is."""
        self.refused[site] = refusal
        for table in (self.units, self.options, self.after, self.bindings):
            table.pop(site, None)
        self.moved.discard(site)
        self.kept.discard(site)

    def put_edit(self, edit: Edit) -> None:
        """Add an edit; a parameter that another swap edits already is refused."""
        key = (edit.name, edit.dim)
        if key in self.edits:
            raise Refusal(Reason.ALREADY_WIDENED, edit.name)
        self.edits[key] = edit

    def resize(self, path: str, attribute: str, before: int, after: int) -> None:
        """Let the size that a layer keeps change."""
        self.settings[path, attribute] = Setting(path, attribute, before, after)

    def signature(self, site: str) -> str:
        """What calls that share one unit must have in common; empty for a site that stays."""
        if site not in self.units:
            return ""
        options = {key: value for key, value in self.options[site].items() if key != "site"}
        layers = [binding.layer for binding in self.bindings.get(site, ())]
        return f"{self.units[site]} {sorted(options.items(), key=str)} {layers}"

    def works_on_any_width(self, site: Site) -> bool:
        """Whether the unit at ``site`` keeps the channels and need not know how many there are."""
        if site.name not in self.units or site.name in self.bindings:
            return False
        options = self.options[site.name]
        same = self.after[site.name] == site.channels
        return same and options.keys().isdisjoint({"channels", "dim", "hidden"})

    def changing(self, assigned: Assigned) -> list[tuple["Request", Site]]:
        """Return the sites that change, each with its request."""
        pairs = [(request, site) for request, sites in assigned for site in sites]
        return [(request, site) for request, site in pairs if site.name in self.units]

    def changes_channels(self, site: Site, graph: SiteGraph) -> bool:
        """Whether another swap of the plan widens or narrows what ``site`` reads or makes."""
        reading = next(iter(graph.readings.values()))
        if site.name in reading.site_nodes:
            place = reading.site_nodes[site.name]
            return place.input in self.maps or place.output in self.maps
        return any(node.scope[0] == site.path for node in self.maps)


class Swap(ABC):
    """A change that can be made at activation sites.

    A subclass lists its ``names``. The one declared with ``default=True`` takes all others. An
    instance stands for one name.

    Attributes:
        names: what users call it.
        defaults: the options with their defaults; ``None`` if they depend on the unit.
        order: swaps with a smaller number are drafted first.
        takes_width: whether a request may have a width.
        can_match: whether widths can be scaled to match the original's cost.
        counts_operations: whether plans know the operations of the units.
        takes_written: whether it can replace an activation that is written with several calls.
        takes_gates: whether it is meant for gates, so that they need not be asked for.
        hidden_parts: names of submodules that it adds, in which no activation is a site.
    """

    names: ClassVar[tuple[str, ...]] = ()
    defaults: ClassVar[Mapping[str, Any] | None] = None
    hidden_parts: ClassVar[tuple[str, ...]] = ()
    order: ClassVar[int] = 1
    takes_width: ClassVar[bool] = True
    can_match: ClassVar[bool] = True
    counts_operations: ClassVar[bool] = True
    takes_written: ClassVar[bool] = False
    takes_gates: ClassVar[bool] = False

    def __init__(self, name: str) -> None:
        self.name = name

    def __init_subclass__(cls, *, default: bool = False, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        _SWAPS.update(dict.fromkeys(cls.names, cls))
        if default:
            _DEFAULT.append(cls)

    def check(self, request: "Request") -> "Request":
        """The request with its defaults filled in; an error if it is not allowed."""
        if request.width is not None and not self.takes_width:
            raise ArgumentError(
                f"{request.unit}: changes no width",
                got=f"width={request.width!r}",
                fix="leave width out",
            )
        if self.defaults is not None:
            check_option_names(request, self.defaults)
        options = {**(self.defaults or {}), **request.options}
        return replace(request, width=request.width or "same", options=options)

    def extra_sites(self, context: PlanningContext) -> Iterable[Site]:
        """Sites besides activations, such as additions or pooling, that the swap can change."""
        return ()

    def check_site(self, context: PlanningContext, site: Site, request: "Request") -> None:
        """Raise a :class:`Refusal` if the site cannot change, whatever else does."""
        check_call(site, context.calls)

    def able_sites(
        self, context: PlanningContext, assigned: Assigned, draft: Draft
    ) -> dict[str, tuple[Site, "Request"]]:
        """Return the sites that can change, by name and in the order of the graph.

        Args:
            context: the model and its graph.
            assigned: the requests, each with its sites.
            draft: takes the calls, and the refusals of the other sites.
        """
        draft.calls.update(context.calls)
        able: dict[str, tuple[Site, Request]] = {}
        for request, sites in assigned:
            for site in sites:
                try:
                    self.check_site(context, site, request)
                except Refusal as refusal:
                    draft.refused[site.name] = refusal
                else:
                    able[site.name] = (site, request)
        return {site.name: able[site.name] for site in context.graph.sites if site.name in able}

    @abstractmethod
    def draft(self, context: PlanningContext, assigned: Assigned, draft: Draft) -> None:
        """Work out what the swap of some sites takes.

        It is called once for all swaps of a class, so that their changes can be followed together.

        Args:
            context: the model and its graph.
            assigned: the requests for this class of swaps, each with its sites.
            draft: takes the units, options, edits and refusals of the sites.
        """

    def add_cost(self, context: PlanningContext, assigned: Assigned, draft: Draft) -> None:
        """Add the parameters and operations that the drafted units bring, and notes about them."""
        return

    @abstractmethod
    def build(self, entry: "Entry", old: nn.Module | None, like: Tensor | None) -> nn.Module:
        """The module for one entry of a plan.

        Args:
            entry: the site, with the unit's options.
            old: the module that is replaced; ``None`` for a functional call.
            like: a tensor of the model's dtype and device; ``None`` if the model has none.
        """

    def replace_layer(self, layer: nn.Module, options: Mapping[str, Any]) -> nn.Module:
        """Return the layer that takes the place of ``layer``, for swaps that draft such layers.

        Args:
            layer: the layer of the model.
            options: those of ``Draft.replaced``.
        """
        raise NotImplementedError(f"{self.name} replaces no layers")

    def prepare(self, model: nn.Module, entries: Sequence["Entry"], like: Tensor | None) -> Any:
        """Make what is needed of the unchanged model; :meth:`install` receives it."""
        return None

    def install(
        self, work: Transaction, entries: Sequence["Entry"], like: Tensor | None, prepared: Any
    ) -> None:
        """Install what goes beyond one module for each site, after these are in place."""
        return

    def uninstall(self, model: nn.Module, level: int) -> None:
        """Remove what :meth:`install` added besides modules; ``level`` swaps came before it."""
        return

    def replacements(
        self,
        entries: Sequence["Entry"],
        reading: Reading,
        model: nn.Module,
        units: Mapping[str, nn.Module],
    ) -> Replace | None:
        """What the original's graph must compute in place of which nodes to be the changed model.

        Args:
            entries: the entries of this swap.
            reading: the original's graph in evaluation mode.
            model: the original.
            units: the installed units, by the name of their site.

        Returns:
            ``None`` if the graph cannot tell, for example because widths change.
        """
        return None

    def reference(self, entry: "Entry", unit: nn.Module | None) -> Any:
        """What the original must compute at a site to be the changed model.

        New weights count as zero. The proof runs the original with this function in place of the
        activation, and compares.

        Args:
            entry: the site.
            unit: the installed unit.

        Returns:
            A function of the activation's input; :data:`UNCHANGED` if the original's activation
            stays; ``None`` if the swap cannot tell.
        """
        return None

    def copies_of(self, parameter: str, names: Iterable[str]) -> list[str]:
        """Those of ``names``, parameters of the changed model, that must equal ``parameter``."""
        return []


class SiteSwap(Swap):
    """A swap that looks at each site on its own and changes no widths."""

    @abstractmethod
    def choose(self, context: PlanningContext, site: Site, request: "Request") -> Mapping[str, Any]:
        """The unit's options at ``site``, or a :class:`Refusal`."""

    def follows_width(self, options: Mapping[str, Any]) -> bool:
        """Whether the unit works on any number of channels."""
        return options.get("channels") is None

    def reference(self, entry: "Entry", unit: nn.Module | None) -> Any:
        """The unit itself, without the hooks that it has taken over from the activation."""
        return None if unit is None else unit.forward

    def draft(self, context: PlanningContext, assigned: Assigned, draft: Draft) -> None:
        """Choose options for each site, then draft what changes around it."""
        draft.calls.update(context.calls)
        for request, sites in assigned:
            for site in sites:
                try:
                    check_call(site, context.calls)
                    options = self.choose(context, site, request)
                    if draft.changes_channels(site, context.graph):
                        if not self.follows_width(options):
                            raise Refusal(Reason.DIFFERENT, "another swap changes its channels")
                    draft.put(site, request.unit, options)
                except Refusal as refusal:
                    draft.refuse(site.name, refusal)
        for _, site in draft.changing(assigned):
            try:
                self.edit(context, site, draft)
            except Refusal as refusal:
                draft.refuse(site.name, refusal)

    def edit(self, context: PlanningContext, site: Site, draft: Draft) -> None:
        """Draft what changes around ``site``; a :class:`Refusal` leaves the site as it is."""
        return


class UnitSwap(SiteSwap):
    """A swap whose unit computes the values of its site from the activation's input alone."""

    def replacements(
        self,
        entries: Sequence["Entry"],
        reading: Reading,
        model: nn.Module,
        units: Mapping[str, nn.Module],
    ) -> Replace | None:
        """The units at their sites."""
        sites = [entry.site for entry in entries if entry.site in reading.site_nodes]
        return replacing((reading.site_nodes[name], units[name]) for name in sites)


def find_swap(name: str) -> Swap:
    """The swap called ``name``; names that no swap lists are units of the catalogue."""
    if name not in _SWAPS and name not in registered_units():
        load_extensions("swaps")
    kind = _SWAPS.get(name) or _DEFAULT[0]
    return kind(name)


def swap_names() -> tuple[str, ...]:
    """The names of all swaps besides the units of the catalogue."""
    load_extensions("swaps")
    return tuple(_SWAPS)


def is_hidden(site: Site) -> bool:
    """Whether a site is in a part that a swap has added for its own use, such as a gate network."""
    parts = set(site.path.split("."))
    return any(parts.intersection(kind.hidden_parts) for kind in set(_SWAPS.values()))


def check_option_names(request: "Request", known: Iterable[str]) -> None:
    """An error, if the request has an option that is not in ``known``."""
    allowed = tuple(known)
    unknown = [name for name in request.options if name not in allowed]
    if unknown:
        raise ArgumentError(
            f"{request.unit}: has no such option",
            got=", ".join(unknown),
            allowed=", ".join(allowed) or "no options",
        )


def layer_site(context: PlanningContext, path: str, order: int, **facts: Any) -> Site:
    """Return a part of a model that is no activation as a site.

    Args:
        context: the model and its graph.
        path: the path of the module.
        order: its place among such parts, from 1.
        **facts: fields of the site that are not those of a whole module called once.
    """
    module: dict[str, Any] = {
        "name": path,
        "kind": "module",
        "owner": path.rpartition(".")[0],
        "dim": None,
        "channels": None,
        "shape": (),
        "depth": 1.0,
        "modes": tuple(context.graph.readings),
    }
    fixed: dict[str, Any] = {"call": 0, "place": 0, "producers": (), "consumers": ()}
    number = len(context.graph.sites) + order
    return Site(path=path, order=number, shared=False, **fixed, **{**module, **facts})


def factory_arguments(like: Tensor | None) -> dict[str, Any]:
    """Return device and dtype of ``like`` as arguments for a new module."""
    return {} if like is None else {"device": like.device, "dtype": like.dtype}


def channel_dim(site: Site) -> int:
    """The channel dimension of ``site``; -1 if it is the last of three or more, or unknown.

    Counted from the back, it also holds for sequences with more dimensions in front.
    """
    last = site.dim == len(site.shape) - 1 and len(site.shape) != 2
    return -1 if last or site.dim is None else site.dim
