"""GaLU: the gates of a network come from a second network, which sees the same input.

Note [How gates are passed]. The gate network runs first, in a hook before the network's own
forward. At each of its sites a :class:`GateSource` makes the gate and leaves it in a context
variable, from which the :class:`GaLU` at the same site of the network takes it. So no module holds
tensors between calls, and copies, pickles and threads are as safe as before. Code that runs a part
of the network on its own (activation checkpoints) finds no gates, which is an error. The gate
network is a child of the network's first GaLU: a Sequential would call a child of its own.
"""

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from contextlib import nullcontext
from contextvars import ContextVar
from functools import partial
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from gatewise.checks import check_kind
from gatewise.errors import ArgumentError, unknown_name
from gatewise.graph import Site, copied, parameter_count
from gatewise.layers import HardGate, SoftGate, StraightThroughGate, gate_response
from gatewise.surgery.planning import (
    UNCHANGED,
    Assigned,
    Draft,
    Entry,
    PlanningContext,
    Request,
    SiteSwap,
)
from gatewise.surgery.propagate import operations
from gatewise.surgery.reasons import Reason, Refusal
from gatewise.surgery.rewrite import RECORD, LoadOriginal, Placement, Transaction, place_units
from gatewise.surgery.swaps.paired import check_plain_activation, plain_activation

GATE_NETWORK = "galu_twin"  # its name in the GaLU that holds it, and so in state dicts
GATES: dict[str, Any] = {
    "hard": HardGate,
    "soft": SoftGate,
    "straight_through": StraightThroughGate,
}
WEIGHTS = ("copy", "fresh")

Gates = dict[str, deque[Tensor]]
# The gates of the calls that are running, each with the level of its swap (how many came before).
_RUNNING: ContextVar[tuple[tuple[int, Gates], ...]] = ContextVar("gatewise_gates", default=())


def _gates_of(level: int) -> Gates | None:
    """The gates of the innermost running call of the swap with this level."""
    for running, gates in reversed(_RUNNING.get()):
        if running == level:
            return gates
    return None


class GateSource(nn.Module):
    """The gate network's activation, which also makes a gate of its input."""

    def __init__(self, site: str, activation: nn.Module, gate: str, level: int) -> None:
        super().__init__()
        self.site = site
        self.level = level
        self.activation = activation
        self.gate = GATES[gate]()

    def forward(self, x: Tensor) -> Tensor:
        gates = _gates_of(self.level)
        if gates is not None:
            gates.setdefault(self.site, deque()).append(self.gate(x))
        return self.activation(x)


class GaLU(nn.Module):
    r"""``x`` times the gate that the gate network made at the same site.

    Shape: ``(*) -> (*)``.
    """

    def __init__(self, site: str) -> None:
        super().__init__()
        self.site = site
        self.level = 0  # how many swaps came before the one that installs it

    def forward(self, x: Tensor) -> Tensor:
        gates = _gates_of(self.level)
        waiting = gates.get(self.site) if gates else None
        if waiting:
            return gate_response(x, waiting.popleft().to(x.dtype), x.dtype)
        part = "a part of the network, run without its gate network"
        raise ArgumentError(
            f"galu: there is no gate for {self.site}",
            got="a call that the gate network did not make" if gates is not None else part,
            fix="call the whole network, and do not run parts of it again (activation checkpoints)",
        )

    def extra_repr(self) -> str:
        return f"site={self.site!r}"


class RunGateNetwork:
    """A hook before the network's forward: run the gate network, and keep its gates for this call.

    ``holder`` is the path of the GaLU that holds the gate network, ``level`` the number of swaps
    that came before the one that added it.
    """

    def __init__(self, holder: str, *, learns: bool, level: int) -> None:
        self.holder = holder
        self.learns = learns
        self.level = level

    def __call__(self, network: nn.Module, args: Any, kwargs: Any) -> None:
        _RUNNING.set((*_RUNNING.get(), (self.level, {})))
        with nullcontext() if self.learns else torch.no_grad():
            network.get_submodule(self.holder).get_submodule(GATE_NETWORK)(*args, **kwargs)


class ForgetGates:
    """A hook after the network's forward, also after an exception: drop the gates of this call."""

    def __init__(self, level: int) -> None:
        self.level = level

    def __call__(self, network: nn.Module, args: Any, output: Any) -> None:
        _RUNNING.set(_RUNNING.get()[:-1])


class GaluSwap(SiteSwap):
    """``galu``: the option ``gate`` is the kind of gate, ``twin`` the gate network's weights.

    ``twin`` is ``"copy"``, the weights of the network, or ``"fresh"``, new random ones. Others are
    loaded with ``gw.surgery.twin_of(model).load_state_dict``. The gate network is frozen if the
    gate is ``"hard"``; with ``"soft"`` and ``"straight_through"`` it is trained with the network.
    """

    names = ("galu",)
    defaults: ClassVar = {"gate": "hard", "twin": "copy"}
    takes_width = False
    can_match = False
    hidden_parts = (GATE_NETWORK,)

    def check(self, request: Request) -> Request:
        """Check ``gate`` and ``twin``."""
        request = super().check(request)
        gate = request.options["gate"]
        weights = request.options["twin"]
        if gate not in GATES:
            raise unknown_name("gate", gate, GATES)
        if weights not in WEIGHTS:
            raise unknown_name("twin", weights, WEIGHTS)
        if request.preserve and (gate == "soft" or weights == "fresh"):
            raise ArgumentError(
                "galu: such gates do not preserve the function",
                got=f"gate={gate!r}, twin={weights!r}, preserve=True",
                fix="gate='hard', twin='copy'",
            )
        return request

    def draft(self, context: PlanningContext, assigned: Assigned, draft: Draft) -> None:
        """All sites share one gate network, so their options must agree."""
        choices = {str(request.options) for request, _ in assigned}
        if len(choices) > 1:
            raise ArgumentError(
                "galu: one plan has one gate network",
                got=" and ".join(sorted(choices)),
                fix="give all galu sites the same gate and twin, or swap twice",
            )
        super().draft(context, assigned, draft)

    def choose(self, context: PlanningContext, site: Site, request: Request) -> Mapping[str, Any]:
        """The site's name, under which its gates are passed."""
        if request.preserve and site.op != "relu":
            raise Refusal(Reason.NOT_PRESERVED, f"{site.op} by galu")
        check_plain_activation(context.graph, site)
        return {"site": site.name, **request.options}

    def follows_width(self, options: Mapping[str, Any]) -> bool:
        """Gates have the channels that the original has."""
        return False

    def add_cost(self, context: PlanningContext, assigned: Assigned, draft: Draft) -> None:
        """The gate network costs as much as the original."""
        if draft.changing(assigned):
            draft.parameters += parameter_count(context.model)
            draft.operations += operations(context.first_graph)

    def build(self, entry: Entry, old: nn.Module | None, like: Tensor | None) -> nn.Module:
        """The unit that takes the gates."""
        return GaLU(entry.options["site"])

    def prepare(self, model: nn.Module, entries: Sequence[Entry], like: Tensor | None) -> Any:
        """The gate network: a copy of the model that makes gates at the entries' sites."""
        network = copied(model)
        level = Transaction(model).level
        network.__dict__.pop(RECORD, None)
        LoadOriginal.set_steps(network, ())
        sources: dict[Any, nn.Module] = {}
        placements = []
        for entry in entries:
            slot = entry.path if entry.call is None else entry.call.slot
            if slot not in sources:
                functional = entry.kind == "functional"
                old = None if functional else network.get_submodule(entry.path)
                activation = plain_activation(entry.op, old)
                site = entry.options["site"]
                sources[slot] = GateSource(site, activation, entry.options["gate"], level)
            placements.append(Placement(entry.site, entry.path, entry.call, sources[slot]))
        place_units(Transaction(network), placements)
        if entries[0].options["twin"] == "fresh":
            draw_weights(network)
        return network

    def install(
        self, work: Transaction, entries: Sequence[Entry], like: Tensor | None, prepared: Any
    ) -> None:
        """Let the network run its gate network first. One that does not learn is frozen."""
        network = work.model
        learns = bool(GATES[entries[0].options["gate"]].learns)
        units = {id(work.units[entry.site]) for entry in entries}
        holder = next(path for path, module in network.named_modules() if id(module) in units)
        network.get_submodule(holder).add_module(GATE_NETWORK, prepared.requires_grad_(learns))
        level = work.level
        for entry in entries:
            vars(work.units[entry.site])["level"] = level
        work.others.append(partial(self.uninstall, network, level))
        run = RunGateNetwork(holder, learns=learns, level=level)
        network.register_forward_pre_hook(run, with_kwargs=True)
        network.register_forward_hook(ForgetGates(level), always_call=True)

    def reference(self, entry: Entry, unit: nn.Module | None) -> Any:
        """The activation stays if its gates are those of the same network; else it cannot tell."""
        same = entry.options["gate"] == "hard" and entry.options["twin"] == "copy"
        return UNCHANGED if same and entry.op == "relu" else None

    def uninstall(self, model: nn.Module, level: int) -> None:
        """Remove the hooks that :meth:`install` added."""
        tables: list[tuple[Any, ...]] = [
            (model._forward_pre_hooks, model._forward_pre_hooks_with_kwargs),
            (
                model._forward_hooks,
                model._forward_hooks_with_kwargs,
                model._forward_hooks_always_called,
            ),
        ]
        for hooks, *flags in tables:
            for key, hook in list(hooks.items()):
                if isinstance(hook, RunGateNetwork | ForgetGates) and hook.level == level:
                    for table in (hooks, *flags):
                        table.pop(key, None)

    def copies_of(self, parameter: str, names: Iterable[str]) -> list[str]:
        """The gate network's own copy of the parameter."""
        return [name for name in names if name.endswith(f".{GATE_NETWORK}.{parameter}")]


def twin_of(network: nn.Module) -> nn.Module:
    """The gate network of ``network``, to look at, train or load other weights into."""
    check_kind("twin_of", "network", network, nn.Module)
    for hook in network._forward_pre_hooks.values():
        if isinstance(hook, RunGateNetwork):
            return network.get_submodule(hook.holder).get_submodule(GATE_NETWORK)
    raise ArgumentError(
        "twin_of: the network has no gate network",
        got=type(network).__name__,
        fix="gw.swap(model, 'galu', ...)",
    )


def draw_weights(network: nn.Module) -> None:
    """Draw the weights anew, of every module that has ``reset_parameters``."""
    for module in network.modules():
        reset = getattr(module, "reset_parameters", None)
        if callable(reset):
            reset()
