"""What a network of the catalogue is: how to build it, what it reads, and what its paper counts."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, TypeVar

from torch import nn

from gatewise.errors import ArgumentError, unknown_name

Factory = TypeVar("Factory", bound=Callable[..., nn.Module])


@dataclass(frozen=True, kw_only=True)
class Model:
    """A network of the catalogue."""

    name: str  # the one spelling used by configs, command line and reports
    title: str
    build: Callable[..., nn.Module]
    reads: tuple[int, ...]  # shape of one example
    paper: str  # where the network is from

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """What the network can be built with."""
        return dict(inspect.signature(self.build).parameters)


_MODELS: dict[str, Model] = {}


def network(*, title: str, reads: tuple[int, ...], paper: str) -> Callable[[Factory], Factory]:
    """Enter the decorated function in the catalogue under its own name."""

    def enter(build: Factory) -> Factory:
        name = build.__name__
        _MODELS[name] = Model(name=name, title=title, build=build, reads=reads, paper=paper)
        return build

    return enter


def models() -> Mapping[str, Model]:
    """Every network by name, read-only."""
    return MappingProxyType(_MODELS)


def find_model(name: str) -> Model:
    """The network called ``name``; a wrong name gets an error that names the nearest right one."""
    if not isinstance(name, str) or name not in _MODELS:
        raise unknown_name("model", name, _MODELS)
    return _MODELS[name]


def model(name: str, **options: Any) -> nn.Module:
    """The network called ``name``, built with these options; ``models()[name].options`` lists them."""
    found = find_model(name)
    for option in options:
        if option not in found.options:
            near = get_close_matches(option, found.options, n=1)
            raise ArgumentError(
                f"{name}: there is no option of that name",
                got=option,
                allowed=", ".join(found.options),
                fix=f"did you mean {near[0]!r}?" if near else None,
            )
    return found.build(**options)
