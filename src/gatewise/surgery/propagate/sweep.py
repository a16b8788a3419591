"""Follow changed channels through a graph and collect the edits that they need.

A sweep visits the nodes in order of execution. The rule of each operator reads the channel maps of
the inputs and does one of three things. It gives the output a map, it ends the change with an edit
of a parameter, or it raises :class:`Refusal`. Where a changed tensor meets an unchanged one, the
unchanged one is traced back to the weights that make it, and the sweep starts again.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from gatewise.graph import Node, Reading
from gatewise.surgery.propagate.edits import Edit, Setting
from gatewise.surgery.propagate.maps import ChannelMap, doubled, identity, resized
from gatewise.surgery.reasons import Reason, Refusal

# What may be widened besides the layers that read a widened tensor.
POLICIES = ("consumers", "gates", "streams")
LAYOUTS = ("block", "interleaved", "half")

Maps = ChannelMap | tuple[ChannelMap | None, ...]
ForwardRule = Callable[["Sweep", Node], None]
BackwardRule = Callable[["Sweep", Node, ChannelMap], None]


class _AgainError(Exception):
    """More tensors have to be widened, so the sweep starts again."""


@dataclass
class Sweep:
    """One graph, the changed sites in it, and the edits that follow from the change.

    Attributes:
        reading: The graph and its sites, read in one mode (train or eval).
        layouts: The layout of each changed site, one of ``LAYOUTS``.
        policy: One of ``POLICIES``.
        canonical: Returns one name for each parameter, however many names it has.
        forward_rules: The forward rule of each operator.
        backward_rules: The backward rule of each operator.
        cuts_readers: Whether layers that read a narrowed tensor lose the removed columns.
        maps: The channel map of each changed tensor.
        sources: Tensors that must become wider or narrower because of a tensor they meet.
        uses: The edits that each node needs of the parameters it reads.
        settings: The changes of layer sizes, by path and attribute.
        replaced: Nodes inside activation modules that change, which have no rules to follow.
    """

    reading: Reading
    layouts: Mapping[str, str]
    policy: str
    canonical: Callable[[str], str]
    forward_rules: Mapping[str, ForwardRule]
    backward_rules: Mapping[str, BackwardRule]
    cuts_readers: bool = False
    maps: dict[Node, Maps] = field(default_factory=dict)
    sources: dict[Node, ChannelMap] = field(default_factory=dict)
    uses: dict[str, dict[Node, dict[int, Edit]]] = field(default_factory=dict)
    settings: dict[tuple[str, str], Setting] = field(default_factory=dict)
    replaced: set[Node] = field(default_factory=set)

    def run(self) -> "Sweep":
        """Sweep until no more tensors have to change.

        Raises:
            Refusal: The change cannot be made.
        """
        sites = self.reading.site_nodes
        starts = {sites[name].output: name for name in self.layouts if name in sites}
        self.replaced = self._replaced_nodes()
        self._narrow_inputs()
        # Sources change what was visited before them, so every new source needs a new sweep.
        # Every repetition adds at least one source, so there are at most as many as nodes.
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

    def _replaced_nodes(self) -> set[Node]:
        """Return the nodes inside the activation modules of the changed sites."""
        scopes = set()
        for name in self.layouts:
            if (
                name in self.reading.site_nodes
                and self.reading.site_nodes[name].kind != "functional"
            ):
                scopes.add(self.reading.site_nodes[name].output.scope)
        return {node for node in self.reading.graph if node.scope in scopes}

    def _narrow_inputs(self) -> None:
        """Require half of the channels at the input of every site of layout ``"half"``."""
        for name, layout in self.layouts.items():
            if layout == "half" and name in self.reading.site_nodes:
                site = self.reading.site_nodes[name]
                dim, width = self.channels(site.output)
                if width % 2:
                    raise Refusal(Reason.ODD, f"{width} channels")
                self.trace_back(site.input, identity(width // 2, dim))

    def require_widths(self, widths: Mapping[str, int]) -> None:
        """Require another number of channels at the input of some sites, before the sweep runs.

        The first channels stay. Channels beyond the old width are new copies of the first ones.
        """
        for name, width in widths.items():
            if name in self.reading.site_nodes:
                source = self.reading.site_nodes[name].input
                dim, old = self.channels(source)
                self.trace_back(source, resized(old, width, dim))

    def _visit(self, node: Node, starts: Mapping[Node, str]) -> None:
        """Apply the rule of ``node`` if it or one of its inputs changes."""
        if node in starts:
            self._start(node, starts[node])
        elif node in self.replaced:
            return
        elif node in self.sources or any(source in self.maps for source in node.inputs):
            rule = self.forward_rules.get(node.op)
            if rule is None:
                raise Refusal(Reason.NO_RULE, node.op)
            rule(self, node)

    def _start(self, node: Node, name: str) -> None:
        """Give the output of a changed site its map."""
        layout = self.layouts[name]
        before = self.maps.get(self.reading.site_nodes[name].input)
        dim, width = self.channels(node)
        if layout == "half":
            # The unit doubles the halved input, so its output is unchanged.
            if not isinstance(before, ChannelMap) or len(before) * 2 != width:
                raise Refusal(Reason.DIFFERENT, "its input is not halved")
            return
        if before is not None:
            raise Refusal(Reason.ALREADY_WIDENED)
        if node in self.sources:
            raise Refusal(Reason.DIFFERENT, "a stream it is added to")
        self.maps[node] = doubled(width, dim, interleaved=layout == "interleaved")

    def channels(self, node: Node) -> tuple[int, int]:
        """Return the channel dimension of ``node`` and its size."""
        dim = self.reading.dims.get(node)
        if dim is None or node.shape is None or (dim == 0 and node.rank > 1):
            raise Refusal(Reason.NO_CHANNELS)
        return dim, node.shape[dim]

    def map_of(self, node: Node | None) -> ChannelMap | None:
        """Return the map of a single tensor, or ``None`` if it is unchanged."""
        change = self.maps.get(node) if node is not None else None
        if isinstance(change, tuple):
            raise Refusal(Reason.NO_RULE, "a tuple of tensors")
        return change

    def need(self, node: Node, wanted: ChannelMap) -> None:
        """Require the map ``wanted`` for ``node``, and start the sweep again."""
        before = len(self.sources)
        self.trace_back(node, wanted)
        # Without a new source, another sweep would end here again.
        if len(self.sources) == before:
            raise Refusal(Reason.DIFFERENT)
        raise _AgainError

    def trace_back(self, node: Node, wanted: ChannelMap) -> None:
        """Trace ``node`` back to its weights, and mark these so that it gets the map ``wanted``."""
        has = self.sources.get(node) or self.maps.get(node)
        if has is not None:
            if isinstance(has, ChannelMap) and has.same_as(wanted):
                return
            raise Refusal(Reason.DIFFERENT)
        rule = self.backward_rules.get(node.op)
        if rule is None:
            raise Refusal(Reason.NO_RULE, f"{node.op}, which makes what it meets")
        rule(self, node, wanted)

    def edit(self, user: Node, leaf: Node | None, dim: int, change: ChannelMap, fill: str) -> None:
        """Note that the parameter ``leaf``, which ``user`` reads, has to change along ``dim``.

        Args:
            user: The node that reads the parameter.
            leaf: The node of the parameter, or ``None`` for a bias that the layer does not have.
            dim: The dimension of the parameter.
            change: The channel map to apply along ``dim``.
            fill: What the new entries hold, see :class:`Edit`.
        """
        if leaf is None:
            return
        if leaf.op not in ("parameter", "buffer"):
            raise Refusal(Reason.COMPUTED_WEIGHT, f"read by {user.scope[0] or 'the model'}")
        if leaf in self.maps and leaf is not user:
            raise Refusal(Reason.SHARED, leaf.name)
        name = self.canonical(leaf.name)
        edits = self.uses.setdefault(name, {}).setdefault(user, {})
        edit = Edit(name, dim % max(1, leaf.rank), change.index, change.new, fill)
        if edit.dim in edits and not edits[edit.dim].same_as(edit):
            raise Refusal(Reason.SHARED, leaf.name)
        edits[edit.dim] = edit

    def edit_reader(self, user: Node, leaf: Node, dim: int, change: ChannelMap) -> None:
        """Note that ``leaf`` reads changed channels along ``dim``. It gets zeros for new ones."""
        self.check_reader(user, change)
        self.edit(user, leaf, dim, change, "zero")

    def check_reader(self, user: Node, change: ChannelMap) -> None:
        """Refuse a layer that would lose trained columns, unless ``cuts_readers``."""
        if change.narrows and not self.cuts_readers:
            raise Refusal(Reason.BRANCH, user.scope[0])

    def set(
        self, leaf: Node | None, attribute: str, before: int, after: int, *, required: bool = False
    ) -> None:
        """Note that the layer that owns the parameter ``leaf`` needs another size.

        Args:
            leaf: The node of a parameter of the layer.
            attribute: The attribute of the layer, for example ``"in_channels"``.
            before: The old value.
            after: The new value.
            required: Whether the attribute changes what the layer computes.
        """
        if leaf is None:
            if required:
                raise Refusal(Reason.NOT_A_LAYER, attribute)
            return
        path = leaf.name.rpartition(".")[0]
        setting = Setting(path, attribute, before, after, required)
        if self.settings.setdefault((path, attribute), setting) != setting:
            raise Refusal(Reason.SHARED, f"{path}.{attribute}")

    def edits(self) -> dict[tuple[str, int], Edit]:
        """Return all edits, by parameter and dimension."""
        result: dict[tuple[str, int], Edit] = {}
        for name, by_user in self.uses.items():
            for edits in by_user.values():
                for dim, edit in edits.items():
                    result[name, dim] = edit
        return result

    def _check_shared(self) -> None:
        """Check that all nodes that read an edited parameter need the same edits."""
        for leaf in self.reading.graph:
            if leaf.op not in ("parameter", "buffer"):
                continue
            by_user = self.uses.get(self.canonical(leaf.name))
            # The nodes that read a parameter with a map have used that map already.
            if by_user is None or leaf in self.maps:
                continue
            first = next(iter(by_user.values()))
            for user in leaf.users:
                edits = by_user.get(user, {})
                same_dims = edits.keys() == first.keys()
                if not same_dims or not all(edits[dim].same_as(first[dim]) for dim in edits):
                    raise Refusal(Reason.SHARED, leaf.name)
