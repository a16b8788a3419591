"""One unit bound to the layer before it: where both are called, as plain data."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gatewise.surgery.calls.call_site import CallSite

BOUND = ("iieu_b", "iieu_dc")  # swaps whose units see the layer before them
PLACEMENTS = ("after", "before")


def slot_of(call: CallSite) -> tuple[Any, str | None]:
    """See :attr:`Binding.slot`."""
    return call.slot, call.module


@dataclass(frozen=True)
class Binding:
    """A unit in place of ``call`` (or around it) is given the layer that ``source`` calls, and that layer's input."""

    layer: str
    source: CallSite
    call: CallSite
    silenced: str | None = None  # an activation inside a norm, which becomes the identity

    @property
    def slot(self) -> tuple[Any, str | None]:
        """What bindings that are served by one unit have in common.

        Containers call all modules from one place.
        """
        return slot_of(self.call)

    def to_dict(self) -> dict[str, Any]:
        """As plain values."""
        calls = {"source": self.source.to_dict(), "call": self.call.to_dict()}
        return {"layer": self.layer, "silenced": self.silenced, **calls}

    @classmethod
    def from_dict(cls, value: Mapping[str, Any]) -> "Binding":
        """The binding that :meth:`to_dict` wrote."""
        source, call = CallSite.from_dict(value["source"]), CallSite.from_dict(value["call"])
        return cls(str(value["layer"]), source, call, value["silenced"])
