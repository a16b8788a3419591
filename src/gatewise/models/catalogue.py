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
    passes_to: Callable[..., nn.Module] | None = (
        None  # what takes the options that ``build`` does not name
    )
    sets: tuple[str, ...] = ()  # which of them ``build`` sets itself

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """What the network can be built with: what its function names, and what that passes on."""
        own = inspect.signature(self.build).parameters
        named = {
            name: each
            for name, each in own.items()
            if each.kind is not inspect.Parameter.VAR_KEYWORD
        }
        passed = {} if self.passes_to is None else inspect.signature(self.passes_to).parameters
        return named | {
            name: each for name, each in passed.items() if name not in (*named, *self.sets)
        }

    def make(self, **options: Any) -> nn.Module:
        """The network with these options.

        A wrong name gets an error that names the nearest right one.
        """
        known = self.options
        for option in options:
            if option not in known:
                near = get_close_matches(option, known, n=1)
                raise ArgumentError(
                    f"{self.name}: there is no option of that name",
                    got=option,
                    allowed=", ".join(known),
                    fix=f"did you mean {near[0]!r}?" if near else None,
                )
        return self.build(**options)


_MODELS: dict[str, Model] = {}


def registered_models() -> Mapping[str, Model]:
    """All networks of the catalogue by name. The mapping is read-only."""
    return MappingProxyType(_MODELS)


def list_models() -> list[str]:
    """Names of the networks in the catalogue. :func:`create_model` builds the network of a name."""
    return list(_MODELS)


def get_model(name: str) -> Model:
    """The catalogue entry of a network: its options, its input shape and its paper.

    Args:
        name: the network's name. An unknown name raises an error that names the nearest one.
    """
    if not isinstance(name, str) or name not in _MODELS:
        raise unknown_name("model", name, _MODELS)
    return _MODELS[name]


def create_model(name: str, **options: Any) -> nn.Module:
    """Build a network of the catalogue.

    Args:
        name: the network's name, one of :func:`list_models`.
        **options: the network's options; ``get_model(name).options`` lists them.
    """
    return get_model(name).make(**options)


def network(
    *,
    title: str,
    reads: tuple[int, ...],
    paper: str,
    passes_to: Callable[..., nn.Module] | None = None,
    sets: tuple[str, ...] = (),
) -> Callable[[Factory], Factory]:
    """Enter the decorated function in the catalogue under its own name.

    One with ``**options`` says what it passes them to, and which arguments of that are not the
    caller's.
    """

    def enter(build: Factory) -> Factory:
        name = build.__name__
        _MODELS[name] = Model(
            name=name,
            title=title,
            build=build,
            reads=reads,
            paper=paper,
            passes_to=passes_to,
            sets=sets,
        )
        return build

    return enter
