"""What a network of the catalogue is: how to build it, what it reads, and what its paper counts."""

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any, TypeVar

from torch import nn

from gatewise.errors import ArgumentError

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

    def make(self, **options: Any) -> nn.Module:
        """The network with these options; a wrong name gets an error that names the nearest right one."""
        known = self.options
        passes_on = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in known.values())
        for option in () if passes_on else options:
            if option not in known:
                near = get_close_matches(option, known, n=1)
                raise ArgumentError(
                    f"{self.name}: there is no option of that name",
                    got=option,
                    allowed=", ".join(known),
                    fix=f"did you mean {near[0]!r}?" if near else None,
                )
        return self.build(**options)


CATALOGUE: dict[str, Model] = {}


def network(*, title: str, reads: tuple[int, ...], paper: str) -> Callable[[Factory], Factory]:
    """Enter the decorated function in the catalogue under its own name."""

    def enter(build: Factory) -> Factory:
        name = build.__name__
        CATALOGUE[name] = Model(name=name, title=title, build=build, reads=reads, paper=paper)
        return build

    return enter
