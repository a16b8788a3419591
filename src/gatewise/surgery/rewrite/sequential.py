"""A Sequential that hands some units what an earlier child was given, and that child itself."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn

from gatewise.surgery.calls import HOLDER


def forward_with_bound_children(
    producers: Mapping[str, str], after: Mapping[str, tuple[str, str]]
) -> Callable[[nn.Sequential, Any], Any]:
    """``Sequential.forward``, but child ``name`` is also given the input of ``producers[name]``, and that child.

    ``after[name]`` is a unit of the holder and its producer: the unit is called on what child ``name`` returns.
    """
    kept = frozenset((*producers.values(), *(producer for _, producer in after.values())))

    def forward(self: nn.Sequential, input: Any) -> Any:
        inputs = {}
        for name, module in self._modules.items():
            if name == HOLDER and after:
                continue
            if name in kept:
                inputs[name] = input
            producer = producers.get(name)
            extra = () if producer is None else (inputs[producer], self._modules[producer])
            input = module(input, *extra)  # type: ignore[misc]  a Sequential has no empty places
            if name in after:
                slot, producer = after[name]
                input = getattr(self._modules[HOLDER], slot)(
                    input, inputs[producer], self._modules[producer]
                )
        return input

    return forward
