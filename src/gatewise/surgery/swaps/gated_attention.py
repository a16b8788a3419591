"""A sigmoid gate on the output of attention, in existing attention layers.

The gate starts at exactly 1 (``2 * sigmoid(0)``), so the model computes what it computed before.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from torch import Tensor, nn

from gatewise.errors import ArgumentError, unknown_name
from gatewise.graph import Site
from gatewise.layers import AttentionGate, GatedMultiheadAttention, OpenGate
from gatewise.surgery.planning import (
    UNCHANGED,
    Draft,
    Entry,
    PlanningContext,
    Request,
    SiteSwap,
    check_option_names,
)
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.surgery.rewrite import Transaction, no_fast_path

GATES = ("head", "element")
ROLE = "attention"
SCALE = 2.0  # times a sigmoid of 0 is exactly 1
PLACES = (nn.MultiheadAttention, OpenGate)


class GatedAttentionSwap(SiteSwap):
    """``gated_attention``: a gate for each head or each element, which starts at 1.

    It is put into :class:`torch.nn.MultiheadAttention`, and into attention layers that have an
    :class:`gatewise.nn.OpenGate`.
    """

    names = ("gated_attention",)
    takes_width = False
    can_match = False
    counts_operations = False

    def check(self, request: Request) -> Request:
        """Check the option ``gate``."""
        if request.width is not None:
            raise ArgumentError(
                "gated_attention: changes no width",
                got=f"width={request.width!r}",
                fix="leave width out",
            )
        check_option_names(request, ("gate",))
        gate = request.options.get("gate", GATES[0])
        if gate not in GATES:
            raise unknown_name("gate of attention", gate, GATES)
        return super().check(request)

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
        module = context.model.get_submodule(site.path)
        paths = dict(context.model.named_modules(remove_duplicate=False))
        if sum(other is module for other in paths.values()) > 1:
            raise Refusal(Reason.SHARED, site.path)
        if isinstance(module, nn.MultiheadAttention):
            _check_plain(module)
        return {"gate": request.options.get("gate", GATES[0])}

    def add_cost(
        self,
        context: PlanningContext,
        assigned: Sequence[tuple[Request, Sequence[Site]]],
        draft: Draft,
    ) -> None:
        """Count the weights of the gates."""
        for name, options in draft.options.items():
            if draft.units.get(name) != self.name:
                continue
            width, heads, head_width = _sizes(context.model.get_submodule(name))
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
        if like is not None:
            options |= {"device": like.device, "dtype": like.dtype}
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
        """Switch off the fused kernel of transformer layers around a gated attention."""
        for entry in entries:
            no_fast_path(work, entry.path.rpartition(".")[0])

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


def _sizes(module: Any) -> tuple[int, int, int]:
    """Return width, number of heads, and width of a head."""
    if isinstance(module, OpenGate):
        return module.width, module.heads, module.head_width
    return module.embed_dim, module.num_heads, module.head_dim


def _find_places(context: PlanningContext) -> list[Site]:
    sites = []
    modes = tuple(context.graph.readings)
    for path, module in context.model.named_modules():
        if not isinstance(module, PLACES) or not path:
            continue
        order = len(context.graph.sites) + len(sites) + 1
        sites.append(
            Site(
                name=path,
                path=path,
                call=0,
                kind="module",
                op=ROLE,
                role=ROLE,
                owner=path.rpartition(".")[0],
                place=0,
                order=order,
                dim=None,
                channels=None,
                shape=(),
                producers=(),
                consumers=(),
                depth=1.0,
                shared=False,
                modes=modes,
            )
        )
    return sites
