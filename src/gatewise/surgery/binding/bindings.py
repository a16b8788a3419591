"""One unit that is bound to the layer before it: where both are called."""

from dataclasses import dataclass
from typing import Any

from gatewise.surgery.calls import CallSite


@dataclass(frozen=True)
class Binding:
    """A unit in place of ``call``, or around it, that receives a layer and the layer's input.

    Attributes:
        layer: the layer's path.
        source: the call of the layer.
        call: the call that the unit replaces.
        silenced: the path of an activation inside a norm, which becomes the identity.
    """

    layer: str
    source: CallSite
    call: CallSite
    silenced: str | None = None

    @property
    def slot(self) -> tuple[Any, str | None]:
        """What bindings with one unit have in common.

        The module is part of it, since containers call all their modules from one place.
        """
        return self.call.slot, self.call.module
