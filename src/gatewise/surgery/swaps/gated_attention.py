"""A sigmoid gate on the output of attention, in existing attention layers.

The gate starts at exactly 1 (``2 * sigmoid(0)``), so the model computes what it computed before.

Note [Attention in other code]. An attention layer of other code, such as those of Hugging Face,
calls ``scaled_dot_product_attention`` between linear layers. The layer that makes the queries reads
the input of the attention, and the output projection reads the heads. The gate stands in front of
the output projection. It needs the input of the attention, which its own call does not have: the
query layer passes it on. The code of the model stays as it is.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.errors import ArgumentError, unknown_name
from gatewise.graph import Node, Site, consumers, producers
from gatewise.layers import AttentionGate, GatedMultiheadAttention, OpenGate
from gatewise.surgery.planning import (
    UNCHANGED,
    Assigned,
    Draft,
    Entry,
    PlanningContext,
    Request,
    SiteSwap,
    factory_arguments,
    layer_site,
)
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.surgery.rewrite import Transaction, no_fast_path
from gatewise.surgery.swaps.feed_forward import SharedLinear, own_linear

GATES = ("head", "element")
ROLE = "attention"
SCALE = 2.0  # times a sigmoid of 0 is exactly 1
PLACES = (nn.MultiheadAttention, OpenGate)
ATTENTION = "scaled_dot_product_attention"
WEIGHTS = ("softmax", "_softmax")  # of attention that is written out


class AttentionInput:
    """The input of an attention layer, on its way from the query layer to the gate."""

    def __init__(self) -> None:
        self.value: Tensor | None = None

    def take(self) -> Tensor:
        """Return the input, once."""
        value = self.value
        self.value = None
        if value is None:
            raise ArgumentError(
                "gated_attention: the output projection was called without its query layer",
                fix="call the attention layer as a whole",
            )
        return value


class QueryLayer(SharedLinear):
    """The linear layer that makes the queries, which passes its input on to the gate.

    Args:
        linear: the layer whose parameters it takes over.
        source: where the input is put.
    """

    def __init__(self, linear: nn.Linear, source: AttentionInput) -> None:
        super().__init__(linear)
        self.source = source

    def forward(self, input: Tensor) -> Tensor:
        """Return the queries."""
        self.source.value = input
        return F.linear(input, self.weight, self.bias)


class GatedProjection(SharedLinear):
    """The output projection of attention with a gate in front of it.

    Args:
        linear: the layer whose parameters it takes over.
        gate: multiplies the outputs of the heads.
    """

    def __init__(self, linear: nn.Linear, gate: AttentionGate) -> None:
        super().__init__(linear)
        self.gate = gate
        self.source = AttentionInput()

    def forward(self, input: Tensor) -> Tensor:
        """Return the projection of the gated outputs of the heads."""
        return F.linear(self.gate(self.source.take(), input), self.weight, self.bias)


@dataclass(frozen=True)
class OtherAttention:
    """An attention layer of other code. See Note [Attention in other code].

    Attributes:
        query: path of the layer that makes the queries.
        projection: path of the output projection.
        width: numbers of the input.
        heads: number of heads.
        head_width: numbers of a head.
        why: the reason why it cannot have a gate, else empty.
    """

    query: str = ""
    projection: str = ""
    width: int = 0
    heads: int = 0
    head_width: int = 0
    why: str = ""


class GatedAttentionSwap(SiteSwap):
    """``gated_attention``: a gate for each head or each element, which starts at 1.

    It is put into :class:`torch.nn.MultiheadAttention`, into attention layers that have an
    :class:`gatewise.nn.OpenGate`, and in front of the output projection of attention layers that
    call ``scaled_dot_product_attention``.
    """

    names = ("gated_attention",)
    defaults: ClassVar = {"gate": GATES[0]}
    takes_width = False
    can_match = False
    counts_operations = False

    def check(self, request: Request) -> Request:
        """Check the option ``gate``."""
        request = super().check(request)
        gate = request.options["gate"]
        if gate not in GATES:
            raise unknown_name("gate of attention", gate, GATES)
        return request

    def extra_sites(self, context: PlanningContext) -> Iterable[Site]:
        """All attention layers that take a gate."""
        return context.first("attention layers", lambda: _find_places(context))

    def choose(
        self,
        context: PlanningContext,
        site: Site,
        request: Request,
    ) -> Mapping[str, Any]:
        """The kind of gate, if the site is an attention layer that can have one."""
        if site.role != ROLE:
            raise Refusal(Reason.NOT_ATTENTION)
        gate = request.options["gate"]
        other = _other_attention(context).get(site.name)
        if other is not None:
            if other.why:
                raise Refusal(Reason.CLOSED_ATTENTION, other.why)
            sizes = {"width": other.width, "heads": other.heads, "head_width": other.head_width}
            return {"gate": gate, "query": other.query, **sizes}
        module = context.model.get_submodule(site.path)
        paths = dict(context.model.named_modules(remove_duplicate=False))
        if sum(other is module for other in paths.values()) > 1:
            raise Refusal(Reason.SHARED, site.path)
        if isinstance(module, nn.MultiheadAttention):
            _check_plain(module)
        return {"gate": gate}

    def add_cost(self, context: PlanningContext, assigned: Assigned, draft: Draft) -> None:
        """Count the weights of the gates."""
        for _, site in draft.changing(assigned):
            options = draft.options[site.name]
            width, heads, head_width = _sizes(context.model.get_submodule(site.name), options)
            draft.parameters += width * heads * (1 if options["gate"] == "head" else head_width)
        draft.notes.append("every gate starts at 1: twice a sigmoid whose weights are 0")

    def build(
        self,
        entry: Entry,
        old: nn.Module | None,
        like: Tensor | None,
    ) -> nn.Module:
        """The gate, or torch's attention with one."""
        options: dict[str, Any] = {"gate": entry.options["gate"], "scale": SCALE, "start": "open"}
        options |= factory_arguments(like)
        if isinstance(old, nn.Linear):
            sizes = [entry.options[name] for name in ("width", "heads", "head_width")]
            return GatedProjection(old, AttentionGate(*sizes, **options))
        if isinstance(old, OpenGate):
            return AttentionGate(old.width, old.heads, old.head_width, **options)
        assert isinstance(old, nn.MultiheadAttention)  # noqa: S101  a site is one of PLACES
        gated = GatedMultiheadAttention(
            old.embed_dim,
            old.num_heads,
            dropout=old.dropout,
            bias=old.in_proj_bias is not None,
            batch_first=old.batch_first,
            **options,
        )
        gated.in_proj_weight = old.in_proj_weight
        gated.in_proj_bias = old.in_proj_bias
        gated.out_proj = old.out_proj
        return gated

    def install(
        self, work: Transaction, entries: Sequence[Entry], like: Tensor | None, prepared: Any
    ) -> None:
        """Switch off fused kernels around a gated attention, and let query layers pass inputs."""
        for entry in entries:
            no_fast_path(work, entry.path.rpartition(".")[0])
            query = entry.options.get("query")
            if query is None:
                continue
            layer = work.model.get_submodule(query)
            projection = work.model.get_submodule(entry.path)
            assert isinstance(layer, nn.Linear)  # noqa: S101  the plan has looked
            assert isinstance(projection, GatedProjection)  # noqa: S101  just installed
            home, _, name = query.rpartition(".")
            new = QueryLayer(layer, projection.source).train(layer.training)
            work.replace(home, name, new, "module")

    def reference(self, entry: Entry, unit: nn.Module | None) -> Any:
        """The original as it is: the gate starts at 1."""
        return UNCHANGED


def _check_plain(module: nn.MultiheadAttention) -> None:
    """Refuse what the gated layer does not have."""
    if type(module) is not nn.MultiheadAttention:
        raise Refusal(Reason.NOT_ATTENTION, f"{type(module).__name__}, a class of its own")
    if not module._qkv_same_embed_dim:
        raise Refusal(Reason.NOT_ATTENTION, "keys or values of another width")
    if module.bias_k is not None or module.add_zero_attn:
        raise Refusal(Reason.NOT_ATTENTION, "add_bias_kv or add_zero_attn")


def _sizes(module: Any, options: Mapping[str, Any]) -> tuple[int, int, int]:
    """Return width, number of heads, and width of a head."""
    if "query" in options:
        return options["width"], options["heads"], options["head_width"]
    if isinstance(module, OpenGate):
        return module.width, module.heads, module.head_width
    return module.embed_dim, module.num_heads, module.head_dim


def _other_attention(context: PlanningContext) -> dict[str, OtherAttention]:
    """Return attention layers of other code by the path of the module that computes attention."""
    return context.first("attention of other code", lambda: _find_others(context))


def _find_others(context: PlanningContext) -> dict[str, OtherAttention]:
    found: dict[str, OtherAttention] = {}
    for node in context.first_graph:
        path = node.scope[0]
        module = context.modules.get(path)
        named = node.op in WEIGHTS and "attention" in type(module).__name__.lower()
        if not path or module is None or not (named or node.op == ATTENTION):
            continue
        if any(isinstance(part, PLACES) for part in module.modules()):
            continue
        if node.op != ATTENTION:
            found[path] = OtherAttention(why="it does not call scaled_dot_product_attention")
        elif path in found:
            found[path] = OtherAttention(why="it computes attention more than once")
        else:
            found[path] = _layers_around(context, node)
    return found


def _layers_around(context: PlanningContext, node: Node) -> OtherAttention:
    """Return the layers before and after a call of attention, or why there is no place."""
    readers = consumers(node)
    makers = [each for each in producers(node.inputs[0]) if each.op == "linear"]
    if len(readers) != 1 or len(makers) != 1:
        return OtherAttention(why="several layers, or none, make its queries or read its heads")
    try:
        query = own_linear(context, makers[0])
        projection = own_linear(context, readers[0])
    except Refusal as refusal:
        return OtherAttention(why=str(refusal))
    shape = node.shape or ()
    if len(shape) != 4 or shape[1] * shape[3] != projection.in_features:
        return OtherAttention(why="its output projection does not read all heads side by side")
    return OtherAttention(
        makers[0].scope[0], readers[0].scope[0], query.in_features, shape[1], shape[3]
    )


def _find_places(context: PlanningContext) -> list[Site]:
    sites: list[Site] = []
    others = _other_attention(context)
    for name, module in context.model.named_modules():
        if not name or not (isinstance(module, PLACES) or name in others):
            continue
        path = others[name].projection or name if name in others else name
        facts = {"name": name, "op": ROLE, "role": ROLE}
        sites.append(layer_site(context, path, len(sites) + 1, **facts))
    return sites
