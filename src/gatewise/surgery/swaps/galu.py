"""GaLU: the gates of a network come from a twin of it, which sees the same input.

Note [Gates on their way]. The twin runs first, in a hook before the network's own forward. At each
site of the twin a :class:`Tap` makes the gate and leaves it in a context variable, where the
:class:`GaLU` at the same site of the network takes it. So no module holds tensors between calls:
copies, pickles and threads are as safe as they were. What runs a part of the network on its own
(activation checkpoints) finds no gates, and is told so. The twin is a child of the network's first
GaLU: a child of the network itself could be called by it, as a Sequential calls its children.
"""

from collections import deque
from collections.abc import Mapping
from contextlib import nullcontext
from contextvars import ContextVar
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError, unknown_name
from gatewise.graph import Example, Site, SiteGraph, parameter_count
from gatewise.layers import HardGate, SoftGate, StraightThroughGate, gate_response
from gatewise.surgery.calls.call_options import check_plain_call
from gatewise.surgery.planning.plans import Plan
from gatewise.surgery.planning.selection import Where
from gatewise.surgery.planning.site_plan import plan_units
from gatewise.surgery.reasons import Reason, Refusal

GALU, TAP = "galu", "galu_tap"
TWIN = "galu_twin"  # the twin's name in the unit that holds it
GATES: dict[str, Any] = {
    "hard": HardGate,
    "soft": SoftGate,
    "straight_through": StraightThroughGate,
}
TWINS = ("copy", "fresh")

Gates = dict[str, deque[Tensor]]
_OPEN: ContextVar[tuple[Gates, ...]] = ContextVar("gatewise_gates", default=())


class Tap(nn.Module):
    """The twin's activation, which also makes a gate of its input."""

    def __init__(self, site: str, activation: nn.Module, gate: str) -> None:
        super().__init__()
        self.site, self.activation, self.gate = site, activation, GATES[gate]()

    def forward(self, x: Tensor) -> Tensor:
        if running := _OPEN.get():
            running[-1].setdefault(self.site, deque()).append(self.gate(x))
        return self.activation(x)


class GaLU(nn.Module):
    r"""``x`` times the gate that the twin of the network made at the same site.

    Shape: ``(*) -> (*)``.
    """

    def __init__(self, site: str) -> None:
        super().__init__()
        self.site = site

    def forward(self, x: Tensor) -> Tensor:
        running = _OPEN.get()
        waiting = running[-1].get(self.site) if running else None
        if not waiting:
            raise ArgumentError(
                f"galu: there is no gate for {self.site}",
                got="a part of the network, run without its twin"
                if not running
                else "a call that the twin did not make",
                fix="call the whole network, and do not run parts of it again (activation checkpoints)",
            )
        return gate_response(x, waiting.popleft().to(x.dtype), x.dtype)

    def extra_repr(self) -> str:
        return f"site={self.site!r}"


class RunTwin:
    """A hook before the network's forward.

    Run the twin on the same arguments, and keep its gates for this call.
    """

    def __init__(self, holder: str, *, learns: bool) -> None:
        self.holder, self.learns = holder, learns

    def __call__(self, network: nn.Module, args: Any, kwargs: Any) -> None:
        _OPEN.set((*_OPEN.get(), {}))
        with nullcontext() if self.learns else torch.no_grad():
            network.get_submodule(self.holder).get_submodule(TWIN)(*args, **kwargs)


class LeaveTwin:
    """A hook after it, also after an exception: the gates are gone."""

    def __call__(self, network: nn.Module, args: Any, output: Any) -> None:
        _OPEN.set(_OPEN.get()[:-1])


def make_galu_plan(
    model: nn.Module,
    example: Example,
    *,
    where: Where = None,
    preserve: bool = False,
    gates: bool = False,
    gate: str = "hard",
    twin: str = "copy",
) -> Plan:
    """A plan for ``gw.plan(model, "galu", ...)``: gates from a twin.

    ``twin`` is ``"copy"``, the network as it is, or ``"fresh"``, with weights drawn anew; other
    weights are put in by ``gw.surgery.twin_of(model).load_state_dict``. It is frozen if the
    ``gate`` is ``"hard"``; with ``"soft"`` and ``"straight_through"`` it is trained along with the
    network.
    """
    if gate not in GATES:
        raise unknown_name("gate", gate, GATES)
    if twin not in TWINS:
        raise unknown_name("twin", twin, TWINS)
    if preserve and (gate == "soft" or twin == "fresh"):
        got = f"gate={gate!r}, twin={twin!r}, preserve=True"
        raise ArgumentError(
            "galu: such gates do not give back the function",
            got=got,
            fix="gate='hard', twin='copy'",
        )

    def choose(site: Site, graph: SiteGraph) -> dict[str, Any]:
        from gatewise.surgery.swaps.paired_units import PLAIN

        if preserve and site.op != "relu":
            raise Refusal(Reason.NOT_PRESERVED, f"{site.op} by {GALU}")
        if site.kind == "functional" and site.op not in PLAIN:
            raise Refusal(Reason.NO_RULE, site.op)
        check_plain_call(graph, site)
        return {"site": site.name, "gate": gate, "twin": twin}

    size = parameter_count(model)
    plan = plan_units(
        model,
        GALU,
        example,
        choose,
        where=where,
        gates=gates,
        preserve=preserve,
        added=lambda options: size,
    )
    return replace(
        plan, operations=(plan.operations[0], 2 * plan.operations[0])
    )  # the twin is run as well


def add_twin(network: nn.Module, twin: nn.Module, options: Mapping[str, Any]) -> None:
    """Let ``network`` run ``twin``, held by its first GaLU, before itself.

    One that does not learn is frozen.
    """
    if options["twin"] == "fresh":
        freshen(twin)
    learns = bool(GATES[options["gate"]].learns)
    path, holder = next(
        (path, module) for path, module in network.named_modules() if isinstance(module, GaLU)
    )
    holder.add_module(TWIN, twin.requires_grad_(learns))
    network.register_forward_pre_hook(RunTwin(path, learns=learns), with_kwargs=True)
    network.register_forward_hook(LeaveTwin(), always_call=True)


def twin_of(network: nn.Module) -> nn.Module:
    """The twin that makes the gates of ``network``, to look at, train or load other weights into."""
    for hook in network._forward_pre_hooks.values():
        if isinstance(hook, RunTwin):
            return network.get_submodule(hook.holder).get_submodule(TWIN)
    raise ArgumentError(
        "twin_of: the network has none",
        got=type(network).__name__,
        fix="gw.swap(model, 'galu', ...)",
    )


def freshen(twin: nn.Module) -> None:
    """Draw the weights anew, of every module that knows how."""
    for module in twin.modules():
        reset = getattr(module, "reset_parameters", None)
        if callable(reset):
            reset()


def remove_hooks(network: nn.Module) -> None:
    """Take the hooks of :func:`add_hooks` away, where there are some."""
    hooks: list[tuple[Any, tuple[Any, ...]]] = [
        (network._forward_pre_hooks, (network._forward_pre_hooks_with_kwargs,)),
        (
            network._forward_hooks,
            (network._forward_hooks_with_kwargs, network._forward_hooks_always_called),
        ),
    ]
    for table, flags in hooks:
        for key in [key for key, hook in table.items() if isinstance(hook, RunTwin | LeaveTwin)]:
            for each in (table, *flags):
                each.pop(key, None)
