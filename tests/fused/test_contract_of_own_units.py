"""The contract over the generated forms of units that are written only here, with gw.fuse."""

import math
from typing import Any

import pytest
import torch
from fused.unit_forms import GENERATED_CHECKS
from torch import Tensor

import gatewise as gw
from gatewise.fused import start_recording, stop_recording
from gatewise.native import library
from gatewise.testing import CHECKS, check_unit
from gatewise.units.contract import (
    Limits,
    TrainableUnit,
    Unit,
    UnitModule,
    by_channel,
    check_input,
    error_bounds,
    per_channel,
    promise,
    unit_facts,
)

pytestmark = pytest.mark.skipif(library("elementwise").handle is None, reason="no compiled code")


@gw.fuse
def hard_mish(x: Tensor) -> Tensor:
    """Pieces of a parabola and of lines, with a kink."""
    inner = torch.where(x < -2, -2.0, torch.where(x > 0, 0.0, x))
    return torch.where(x > 0, x, 0.5 * inner * (inner + 2))


@gw.fuse
def logish(x: Tensor) -> Tensor:
    """A smooth gate of two transcendental functions."""
    return torch.where(x < -104, 0.0, x) * torch.log1p(torch.sigmoid(x))


@gw.fuse
def _shrink(x: Tensor, width: float | Tensor) -> Tensor:
    return x - width * torch.tanh(x / width)


def soft_shrink(x: Tensor, width: float | Tensor = 0.5, dim: int = 1) -> Tensor:
    """A curve with one trained number per channel."""
    check_input("soft_shrink", x)
    return _shrink(x, per_channel("soft_shrink", "width", width, x, dim))


class HardMish(UnitModule):
    def forward(self, x: Tensor) -> Tensor:
        return hard_mish(x)


class Logish(UnitModule):
    def forward(self, x: Tensor) -> Tensor:
        return logish(x)


class SoftShrink(TrainableUnit):
    def __init__(
        self,
        *,
        width: float = 0.5,
        channels: int | None = None,
        dim: int = 1,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__(
            "soft_shrink", {"width": width}, channels=channels, dim=dim, device=device, dtype=dtype
        )

    def forward(self, x: Tensor) -> Tensor:
        return soft_shrink(x, **self.arguments(x))


ABSOLUTE = error_bounds(half=promise(1, 2**-22), float32=promise(4, 2**-22))
OWN = {
    "hard_mish": unit_facts(
        HardMish,
        name="hard_mish",
        title="Hard mish",
        family="smooth",
        function=hard_mish,
        formula="x",
        paper="",
        reference=lambda x: torch.where(
            x > 0, x, torch.where(x < -2, 0 * x.clamp(-2), x * x / 2 + x)
        ),
        limits=Limits((0.0,), (math.inf,)),
        kinks={-2.0: -1.0},
        error=ABSOLUTE,
    ),
    "logish": unit_facts(
        Logish,
        name="logish",
        title="Logish",
        family="smooth",
        function=logish,
        formula="x",
        paper="",
        reference=lambda x: x * torch.log1p(torch.special.expit(x)),
        limits=Limits((0.0,), (math.inf,)),
        error=ABSOLUTE,
    ),
    "soft_shrink": unit_facts(
        SoftShrink,
        name="soft_shrink",
        title="Soft shrinkage",
        family="adaptive",
        function=soft_shrink,
        formula="x",
        paper="",
        reference=by_channel(lambda x, width: x - width * torch.tanh(x / width)),
        limits=Limits((-math.inf,), (math.inf,)),
        parameters={"width": "0.5"},
        error=ABSOLUTE,
        samples=({}, {"width": 0.8, "channels": 6}),
    ),
}


@pytest.mark.parametrize("unit", OWN.values(), ids=OWN)
def test_checks_of_values_run_generated_code_alone(unit: Unit):
    recording = start_recording()
    receipt = check_unit(unit, only=GENERATED_CHECKS)
    assert stop_recording(recording) == "fused"
    assert len(receipt.outcomes) == len(unit.samples) * len(GENERATED_CHECKS)
    assert not any(outcome.left_out for outcome in receipt.outcomes)


@pytest.mark.thorough
@pytest.mark.parametrize("unit", OWN.values(), ids=OWN)
def test_every_other_check_holds_too(unit: Unit):
    others = [name for name in CHECKS if name not in GENERATED_CHECKS and name != "exports_to_onnx"]
    receipt = check_unit(unit, only=others)
    assert not any(outcome.left_out for outcome in receipt.outcomes)


def test_the_contract_notices_a_wrong_derivative(monkeypatch: pytest.MonkeyPatch):
    from gatewise.fused import derivatives, kernels
    from gatewise.fused.expressions import apply

    def halved(s, y, a):
        return (apply("mul", s, apply("exp", a)),)

    monkeypatch.setitem(derivatives._RULES, "log1p", halved)
    kernels.load.cache_clear()
    kernels.kernel_of.cache_clear()
    try:
        with pytest.raises(gw.errors.ContractError, match="derivative_is_within_the_promise"):
            check_unit(
                OWN["logish"], only=["every_half_precision_derivative_is_within_the_promise"]
            )
    finally:
        kernels.load.cache_clear()
        kernels.kernel_of.cache_clear()
