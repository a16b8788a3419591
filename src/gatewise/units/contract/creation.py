"""Build a unit's module from the unit's name."""

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
    """Return the module of the unit ``name``.

    Args:
        name: the name of a unit, as :func:`list_units` lists it.
        channels: the number of input channels, for units with per-channel parameters; other units
            ignore it.
        conv: the layer whose response the unit gates. It sets ``channels`` by default, and is
            passed to units that bind to it.
        norm: the norm between ``conv`` and the unit, for units that bind to it, or a unit's own
            option of that name.
        **options: the unit's own options; ``gatewise list units NAME`` lists them. ``device`` and
            ``dtype`` are passed on to units with parameters.

    Returns:
        A new module.

    Raises:
        ArgumentError: if an option is unknown or does not fit.
        UnknownNameError: if there is no unit of that name.
    """
    spec = get_unit(name)
    if conv is not None:
        outputs = _channels_of(conv)
        if channels not in (None, outputs):
            raise ArgumentError(
                f"{name}: channels contradicts conv",
                got=channels,
                allowed=f"{outputs}, or leave it out",
            )
        channels = outputs
    context = {}
    for option, value in {
        "channels": channels,
        "conv": conv,
        "norm": norm,
    }.items():
        if value is not None and option in spec.options:
            context[option] = value
    if isinstance(norm, str) and "norm" not in spec.options:
        options["norm"] = norm
    # Units without parameters take no device and dtype, but these are checked for all.
    factory = {k: options.pop(k) for k in ("device", "dtype") if k in options}
    check_factory(name, **factory)
    _check_options(spec, options)
    if "channels" in spec.needs and channels is None:
        raise ArgumentError(
            f"{name}: this unit needs the number of channels",
            got="channels=None",
            fix=f"create_unit({name!r}, channels=C, ...)",
        )
    return spec.create(**context, **options, **(factory if spec.learns else {}))


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
