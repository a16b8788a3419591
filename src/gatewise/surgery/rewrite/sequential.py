"""A forward method for ``nn.Sequential`` that binds units to earlier children."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from gatewise.surgery.calls import HOLDER as HOLDER


def forward_with_bound_children(
    producers: Mapping[str, str], after: Mapping[str, tuple[str, str]]
) -> Callable[[nn.Sequential, Any], Any]:
    """Return a ``Sequential.forward`` that passes extra arguments to some units.

    A bound unit gets, besides its input, the input of an earlier child and that child itself.

    Args:
        producers: For each child that is a bound unit, the name of the earlier child.
        after: For each child that is followed by a bound unit: the unit's slot in the holder, and
            the name of the earlier child. The unit is called on the output of the child.
    """
    bound = frozenset((*producers.values(), *(producer for _, producer in after.values())))

    def forward(self: nn.Sequential, input: Any) -> Any:
        inputs = {}
        for name, module in self._modules.items():
            if name == HOLDER and after:
                continue
            if name in bound:
                inputs[name] = input
            producer = producers.get(name)
            extra = () if producer is None else (inputs[producer], self._modules[producer])
            input = module(input, *extra)  # type: ignore[misc]  a Sequential has no empty places
            if name in after:
                slot, producer = after[name]
                unit = getattr(self._modules[HOLDER], slot)
                input = unit(input, inputs[producer], self._modules[producer])
        return input

    return forward
