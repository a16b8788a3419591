"""Follow changed channels through a graph, once for all changed sites, and collect what must be edited."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gatewise.graph import Node, Reading
from gatewise.surgery.propagate.edits import Edit, Setting
from gatewise.surgery.propagate.maps import ChannelMap, doubled, first_half
from gatewise.surgery.reasons import Reason, Refusal

POLICIES = (
    "consumers",
    "gates",
    "streams",
)  # what may be widened besides the layers that read a widened tensor
LAYOUTS = ("block", "interleaved", "half")

Maps = ChannelMap | tuple[ChannelMap | None, ...]
Rule = Callable[["Sweep", Node], None]
Maker = Callable[["Sweep", Node, ChannelMap], None]


class _AgainError(Exception):
    """More tensors have to be widened: sweep anew."""


@dataclass
class Sweep:
    """One graph, the sites changed in it and their layouts, and what follows from that.

    ``uses`` holds what each node asks of the parameters it reads; ``sources`` are tensors that have
    to be made wider or narrower because of what they meet.
    """

    reading: Reading
    layouts: Mapping[str, str]  # site name: one of LAYOUTS
    policy: str
    canonical: Callable[[str], str]  # one name for each parameter, however many it has
    rules: Mapping[str, Rule]
    makers: Mapping[str, Maker]
    cuts_readers: bool = False  # readers of a narrowed tensor lose the columns they read of it
    maps: dict[Node, Maps] = field(default_factory=dict)
    sources: dict[Node, ChannelMap] = field(default_factory=dict)
    uses: dict[str, dict[Node, dict[int, Edit]]] = field(default_factory=dict)
    settings: dict[tuple[str, str], Setting] = field(default_factory=dict)

    def run(self) -> "Sweep":
        """Sweep until nothing more has to be widened.

        A :class:`Refusal` says why it cannot be done.
        """
        starts = {
            self.reading.found[name].output: name
            for name in self.layouts
            if name in self.reading.found
        }
        self._ask_for_halves()
        for _ in self.reading.graph:
            self.maps.clear()
            self.uses.clear()
            self.settings.clear()
            try:
                for node in self.reading.graph:
                    self._visit(node, starts)
            except _AgainError:
                continue
            break
        self._check_shared()
        return self

    def _ask_for_halves(self) -> None:
        for name, layout in self.layouts.items():
            if layout == "half" and name in self.reading.found:
                source = self.reading.found[name].input
                dim, width = self.channels(self.reading.found[name].output)
                if width % 2:
                    raise Refusal(Reason.ODD, f"{width} channels")
                self.make(source, first_half(width, dim))

    def _visit(self, node: Node, starts: Mapping[Node, str]) -> None:
        if node in starts:
            self._start(node, starts[node])
        elif node in self.sources or any(each in self.maps for each in node.inputs):
            rule = self.rules.get(node.op)
            if rule is None:
                raise Refusal(Reason.NO_RULE, node.op)
            rule(self, node)

    def _start(self, node: Node, name: str) -> None:
        found, layout = self.reading.found[name], self.layouts[name]
        before = self.maps.get(found.input)
        dim, width = self.channels(node)
        if layout == "half":
            if not isinstance(before, ChannelMap) or len(before) * 2 != width:
                raise Refusal(Reason.DIFFERENT, "its input is not halved")
            return
        if before is not None:
            raise Refusal(Reason.ALREADY_WIDENED)
        if node in self.sources:
            raise Refusal(Reason.DIFFERENT, "a stream it is added to")
        self.maps[node] = doubled(width, dim, interleaved=layout == "interleaved")

    def channels(self, node: Node) -> tuple[int, int]:
        """Channel dimension of ``node`` and its size."""
        dim = self.reading.dims.get(node)
        if dim is None or node.shape is None or (dim == 0 and node.rank > 1):
            raise Refusal(Reason.NO_CHANNELS)
        return dim, node.shape[dim]

    def map_of(self, node: Node | None) -> ChannelMap | None:
        """The map of a single tensor."""
        found = self.maps.get(node) if node is not None else None
        if isinstance(found, tuple):
            raise Refusal(Reason.NO_RULE, "a tuple of tensors")
        return found

    def need(self, node: Node, wanted: ChannelMap) -> None:
        """``node`` has to have the map ``wanted``: see to it, and sweep again."""
        before = len(self.sources)
        self.make(node, wanted)
        if len(self.sources) == before:
            raise Refusal(Reason.DIFFERENT)
        raise _AgainError

    def make(self, node: Node, wanted: ChannelMap) -> None:
        """Mark what ``node`` is made from, back to the weights, so that it gets the map ``wanted``."""
        if node in self.maps and not self.sources.get(node):
            has = self.maps[node]
            if isinstance(has, ChannelMap) and has.same_as(wanted):
                return
            raise Refusal(Reason.DIFFERENT)
        if node in self.sources:
            if self.sources[node].same_as(wanted):
                return
            raise Refusal(Reason.DIFFERENT)
        maker = self.makers.get(node.op)
        if maker is None:
            raise Refusal(Reason.NO_RULE, f"{node.op}, which makes what it meets")
        maker(self, node, wanted)

    def edit(self, user: Node, leaf: Node | None, dim: int, change: ChannelMap, fill: str) -> None:
        """``user`` reads the parameter ``leaf``, which has to change along ``dim``."""
        if leaf is None:
            return
        if leaf.op not in ("parameter", "buffer"):
            raise Refusal(Reason.COMPUTED_WEIGHT, f"read by {user.scope[0] or 'the model'}")
        if leaf in self.maps and leaf is not user:
            raise Refusal(Reason.SHARED, leaf.name)
        name = self.canonical(leaf.name)
        mine = self.uses.setdefault(name, {}).setdefault(user, {})
        made = Edit(name, dim % max(1, leaf.rank), change.index, change.new, fill)
        if made.dim in mine and not mine[made.dim].same_as(made):
            raise Refusal(Reason.SHARED, leaf.name)
        mine[made.dim] = made

    def set(
        self, leaf: Node | None, attribute: str, before: int, after: int, *, required: bool = False
    ) -> None:
        """The layer that owns the parameter ``leaf`` has to have ``attribute`` changed, where it has it."""
        path = leaf.name.rpartition(".")[0] if leaf is not None else ""
        if leaf is None:
            if required:
                raise Refusal(Reason.NOT_A_LAYER, attribute)
            return
        made = Setting(path, attribute, before, after, required)
        if self.settings.setdefault((path, attribute), made) != made:
            raise Refusal(Reason.SHARED, f"{path}.{attribute}")

    def edits(self) -> dict[tuple[str, int], Edit]:
        """What to change, by parameter and dimension."""
        found: dict[tuple[str, int], Edit] = {}
        for name, by_user in self.uses.items():
            for mine in by_user.values():
                found.update({(name, dim): each for dim, each in mine.items()})
        return found

    def _check_shared(self) -> None:
        """Every other reader of an edited parameter must have asked for the same edits."""
        for leaf in self.reading.graph:
            if (
                leaf.op not in ("parameter", "buffer")
                or (name := self.canonical(leaf.name)) not in self.uses
            ):
                continue
            asked = self.uses[name]
            if (
                leaf in self.maps
            ):  # a parameter that is itself a widened tensor: its readers have seen the map
                continue
            first = next(iter(asked.values()))
            for user in leaf.users:
                mine = asked.get(user, {})
                if mine.keys() != first.keys() or not all(
                    mine[dim].same_as(first[dim]) for dim in mine
                ):
                    raise Refusal(Reason.SHARED, leaf.name)
