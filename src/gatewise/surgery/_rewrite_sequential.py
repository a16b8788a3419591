"""A Sequential in which some children are also given what an earlier child was given, and that child itself."""

from collections.abc import Callable, Mapping
from typing import Any

from torch import nn


def forward_with_bound_children(producers: Mapping[str, str]) -> Callable[[nn.Sequential, Any], Any]:
    """``Sequential.forward``, but child ``name`` is also given the input of ``producers[name]``, and that child."""
    kept = frozenset(producers.values())

    def forward(self: nn.Sequential, input: Any) -> Any:
        inputs = {}
        for name, module in self._modules.items():
            if name in kept:
                inputs[name] = input
            producer = producers.get(name)
            extra = () if producer is None else (inputs[producer], self._modules[producer])
            input = module(input, *extra)  # type: ignore[misc]  a Sequential has no empty places
        return input

    return forward
