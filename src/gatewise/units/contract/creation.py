"""Build a unit's module from its name."""

from difflib import get_close_matches
from typing import Any

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.units.contract.factory import check_factory
from gatewise.units.contract.spec import Unit, get_unit
from gatewise.units.contract.unit_module import UnitModule


def create_unit(
    name: str,
    *,
    channels: int | None = None,
    conv: nn.Module | None = None,
    norm: nn.Module | str | None = None,
    **options: Any,
) -> UnitModule:
    """The module of the unit ``name``.

    Args: channels: the input's channel count, for units with per-channel parameters; others ignore
        it. conv: the layer whose response the unit gates: gives ``channels`` where they are not
        given, and is handed to units that bind to it. norm: the norm between ``conv`` and the unit,
        for units that bind to it, or a unit's own option of that name. **options: the unit's own
        options; ``gatewise units show NAME`` lists them. ``device`` and ``dtype`` are passed on to
        units with
            parameters.
    """
    spec = get_unit(name)
    taken = spec.options
    if conv is not None:
        made = _channels_of(conv)
        if channels not in (None, made):
            raise ArgumentError(
                f"{name}: channels contradicts conv",
                got=channels,
                allowed=f"{made}, or leave it out",
            )
        channels = made
    offered = {"channels": channels, "conv": conv, "norm": norm}
    given = {k: v for k, v in offered.items() if v is not None and k in taken}
    if isinstance(norm, str) and "norm" not in taken:
        options["norm"] = norm
    factory = {k: options.pop(k) for k in ("device", "dtype") if k in options}
    check_factory(name, **factory)
    _check_options(spec, options)
    if "channels" in spec.needs and channels is None:
        raise ArgumentError(
            f"{name}: the channel count is needed",
            got="channels=None",
            fix=f"create_unit({name!r}, channels=C, ...)",
        )
    return spec.module(**given, **options, **(factory if spec.learns else {}))


def _channels_of(conv: nn.Module) -> int:
    for attribute in ("out_channels", "out_features", "num_features"):
        if isinstance(count := getattr(conv, attribute, None), int):
            return count
    raise ArgumentError(
        "create_unit: conv must be a layer with a known number of outputs",
        got=type(conv).__name__,
        allowed="a convolution or a linear layer",
    )


def _check_options(spec: Unit, options: dict[str, Any]) -> None:
    for option in options:
        if option not in spec.options:
            near = get_close_matches(option, spec.options, n=1)
            raise ArgumentError(
                f"{spec.name}: there is no option of that name",
                got=option,
                allowed=", ".join(spec.options) or "none",
                fix=f"did you mean {near[0]!r}?" if near else None,
            )
