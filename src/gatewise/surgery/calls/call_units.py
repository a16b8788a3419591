"""The modules that hold the units of rewritten calls.

A unit is at ``owner.gw.s0``, or at ``owner.gw.s0.2`` for the third iteration of a loop.
"""

from typing import Any

from torch import Tensor, nn

from gatewise.errors import ArgumentError

HOLDER = "gw"  # the owner's submodule that holds its units


class CallUnits(nn.Module):
    """The units of one owner, by slot: ``s0``, ``s1`` and so on. It is never called itself."""


class UnitsOfLoop(nn.Module):
    """The units of one call in a loop, one for each iteration."""

    def __init__(self, units: dict[int, nn.Module]) -> None:
        super().__init__()
        for number, unit in units.items():
            self.add_module(str(number), unit)

    def forward(self, number: int, x: Tensor, *bound_to: Any) -> Tensor:
        unit = self._modules.get(str(number))
        if unit is None and number > max(map(int, self._modules)):
            unit = self._of_all_iterations()
        if unit is None:
            raise ArgumentError(
                "a loop runs more often than when its calls were recorded",
                got=f"iteration {number + 1}",
                allowed=f"iterations up to {1 + max(map(int, self._modules))}",
                fix="record with an example that runs the loop as often as it will ever run",
            )
        return unit(x, *bound_to)

    def _of_all_iterations(self) -> nn.Module | None:
        """Return a unit if all are equal and hold no tensors, so that it serves any iteration."""
        units = list(self._modules.values())
        holds = any(True for _ in (*self.parameters(), *self.buffers()))
        same = len({str(unit) for unit in units}) == 1 and len(units) == 1 + max(
            map(int, self._modules)
        )
        return units[-1] if same and not holds else None
