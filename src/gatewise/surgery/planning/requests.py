"""What a plan is asked for: which unit, with which options, at which sites."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from gatewise.errors import ArgumentError, unknown_name
from gatewise.surgery.planning.selection import Where
from gatewise.surgery.planning.swap_interface import Swap, find_swap
from gatewise.surgery.propagate import POLICIES
from gatewise.units import is_activation_object, unit_from

WIDTHS = ("half", "same")
ALLOWED = "a unit's name, an nn.Module or a function, (unit, options), or a surgery.Request"


@dataclass(frozen=True)
class Request:
    """One unit for some of a model's sites.

    Args:
        unit: the name of a unit or of a swap.
        options: the unit's options.
        where: which sites; ``None`` is all of them. In a mapping of several requests the key says
            it.
        width: ``"half"`` or ``"same"``, for units with two outputs per channel.
        preserve: ``True`` refuses sites at which the function would change, ``None`` keeps the
            function where the unit can, ``False`` does not try.
        policy: which tensors may be widened besides those that readers read.
        gates: include sigmoid gates.
    """

    unit: str
    options: Mapping[str, Any] = field(default_factory=dict)
    where: Where = None
    width: str | None = None
    preserve: bool | None = None
    policy: str = "gates"
    gates: bool = False

    @property
    def swap(self) -> Swap:
        """The swap that does what is asked for."""
        return find_swap(self.unit)


def read_requests(
    unit: Any,
    *,
    where: Where = None,
    width: str | None = None,
    preserve: bool | None = None,
    policy: str = "gates",
    gates: bool = False,
    options: Mapping[str, Any] | None = None,
) -> tuple[Request, ...]:
    """The checked requests that the arguments of :func:`gatewise.plan` come to.

    Args:
        unit: a unit's name, an activation of the user (see :func:`gatewise.units.unit_from`), or a
            mapping from ``where`` to a name, to ``(name, options)`` or to a
            :class:`Request`.
        where: which sites, for a single unit.
        width: the width of every request that has none.
        preserve: see :class:`Request`; the same for all.
        policy: see :class:`Request`; the same for all.
        gates: see :class:`Request`; for all, or for single requests.
        options: the options of a single unit.

    Returns:
        One request for a name; for a mapping, one for each item, in order.

    Raises:
        ArgumentError: a request is not allowed.
    """
    if policy not in POLICIES:
        raise unknown_name("policy", policy, POLICIES)
    several = not (isinstance(unit, str) or is_activation_object(unit))
    if several:
        requests = _several(unit, where, options or {})
    else:
        requests = [_request(where, (unit, options or {}))]
    checked = []
    for request in requests:
        # among several units, the common width is for those that have one
        common = None if several and not request.swap.takes_width else width
        request = replace(
            request,
            width=request.width or common,
            preserve=preserve,
            policy=policy,
            gates=gates or request.gates,
        )
        if request.width is not None and request.width not in WIDTHS:
            raise unknown_name("width", request.width, WIDTHS)
        checked.append(request.swap.check(request))
    return tuple(checked)


def _several(units: Any, where: Where, options: Mapping[str, Any]) -> list[Request]:
    if not isinstance(units, Mapping) or not units:
        raise ArgumentError("plan: unit is not a name or a mapping", got=units, allowed=ALLOWED)
    if where is not None or options:
        raise ArgumentError(
            "plan: a mapping of several units has its own sites and options",
            got=f"where={where!r}, options {', '.join(options) or 'none'}",
            fix="plan(model, {'layer1.*': 'crelu', 'layer4.*': ('elu', {'alpha': 0.5})}, x)",
        )
    return [_request(key, value) for key, value in units.items()]


def _request(where: Where, value: Any) -> Request:
    if isinstance(value, Request):
        return replace(value, where=where)
    unit, options = value if isinstance(value, tuple) and len(value) == 2 else (value, {})
    if not isinstance(unit, str) and is_activation_object(unit):
        unit = unit_from(unit).name
    if isinstance(unit, str) and isinstance(options, Mapping):
        return Request(unit, dict(options), where)
    raise ArgumentError(f"plan: no unit for where={where!r}", got=value, allowed=ALLOWED)
