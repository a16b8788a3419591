"""The modules surgery puts in place of an activation."""

import copy
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError, unknown_name
from gatewise.surgery.binding.bindings import BOUND
from gatewise.surgery.swaps.beta_forms import BETA, beta_form
from gatewise.surgery.swaps.galu import GALU, TAP, GaLU, Tap
from gatewise.units import Unit, create_unit, get_unit, registered_units

PAIRED = ("crelu", "concat_act")  # widen: two channels for each
SWAPS = (*PAIRED, "psc", BETA, GALU)  # besides the names of units
PLAIN: dict[str, Any] = {  # a functional call's module form, where one is needed
    **{
        "relu": nn.ReLU,
        "relu6": nn.ReLU6,
        "gelu": nn.GELU,
        "silu": nn.SiLU,
        "mish": nn.Mish,
        "tanh": nn.Tanh,
    },
    **{"hardswish": nn.Hardswish, "selu": nn.SELU, "hardtanh": nn.Hardtanh, "sigmoid": nn.Sigmoid},
    **{"hardsigmoid": nn.Hardsigmoid, "softplus": nn.Softplus, "elu": nn.ELU, "celu": nn.CELU},
}


class InterleavedCReLU(nn.Module):
    """CReLU with its halves interleaved: ``[x0+, x0-, x1+, x1-, ...]``.

    Every contiguous slice of channels doubles in place, so what follows may be grouped, chunked or
    shuffled.
    Shape: ``(*, C, *) -> (*, 2C, *)``.
    """

    def __init__(self, *, dim: int = 1) -> None:
        super().__init__()
        self.dim = dim

    def forward(self, x: Tensor) -> Tensor:
        return interleave(x.relu(), x.neg().relu(), self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}"


class ConcatAct(nn.Module):
    """``[act(x), act(-x)]`` for any elementwise ``act``: what CReLU is to ReLU.

    Shape: ``(*, C, *) -> (*, 2C, *)``.
    """

    def __init__(self, activation: nn.Module, *, dim: int = 1, interleaved: bool = False) -> None:
        super().__init__()
        self.activation, self.dim, self.interleaved = activation, dim, interleaved

    def forward(self, x: Tensor) -> Tensor:
        negative = self.activation(x.neg())
        positive = self.activation(x)
        if self.interleaved:
            return interleave(positive, negative, self.dim)
        return torch.cat((positive, negative), self.dim)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, interleaved={self.interleaved}"


def interleave(first: Tensor, second: Tensor, dim: int) -> Tensor:
    """``[first 0, second 0, first 1, second 1, ...]`` along ``dim``."""
    place = dim % first.dim()
    return torch.stack((first, second), place + 1).flatten(place, place + 1)


def find_swap(name: str) -> Unit | None:
    """The unit called ``name``; ``None`` for a swap that is more than a unit.

    Others are refused.
    """
    if name in SWAPS:
        return None
    if name not in registered_units():
        names = [each for each, spec in registered_units().items() if _as_many_outputs(spec)]
        raise unknown_name("unit or swap", name, {*names, *SWAPS, *BOUND})
    spec = get_unit(name)
    if not _as_many_outputs(spec):
        raise ArgumentError(
            "plan: the unit changes the number of channels, and there is no way yet to make up for it",
            got=name,
            allowed="units with as many outputs as inputs, " + ", ".join((*SWAPS, *BOUND)),
        )
    return spec


def _as_many_outputs(spec: Unit) -> bool:
    return spec.channel_ratio == 1 and "groups" not in spec.needs


def build_unit(
    name: str, options: dict[str, Any], old: nn.Module | None, op: str, like: Tensor | None
) -> nn.Module:
    """The module for one site.

    ``old`` is the module it replaces, ``like`` a tensor of the model's type and device.
    """
    options = dict(options)
    if name == "psc":
        made: nn.Module = nn.Identity()  # the activation moves into the layers behind it
    elif name in PAIRED:
        made = _paired(name, options, old, op)
    elif name == BETA:
        made = beta_form(options, old, like)
    elif name == GALU:
        made = GaLU(options["site"])
    elif name == TAP:
        made = Tap(options["site"], _plain(old, op), options["gate"])
    else:
        if like is not None and get_unit(name).learns:
            options |= {"device": like.device, "dtype": like.dtype}
        made = create_unit(name, **options)
    if old is not None:
        made.train(old.training)
        if hasattr(old, "inplace") and not hasattr(made, "inplace"):
            vars(made)["inplace"] = False  # some models read it
    return made


def _paired(name: str, options: dict[str, Any], old: nn.Module | None, op: str) -> nn.Module:
    interleaved = options.pop("layout", "block") == "interleaved"
    if name == "crelu":
        return InterleavedCReLU(**options) if interleaved else create_unit("crelu", **options)
    return ConcatAct(_plain(old, op), interleaved=interleaved, **options)


def _plain(old: nn.Module | None, op: str) -> nn.Module:
    """The activation itself, not in place: its input is needed further."""
    act = copy.deepcopy(old) if old is not None else PLAIN[op]()
    if hasattr(act, "inplace"):
        vars(act)["inplace"] = False
    return act
