"""The catalogue of networks: how to build each, the shape of its inputs, and its paper."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, TypeVar

from torch import nn

from gatewise.errors import ArgumentError
from gatewise.extensions import load_extensions, unknown_addition

Factory = TypeVar("Factory", bound=Callable[..., nn.Module])


@dataclass(frozen=True, kw_only=True)
class Model:
    """A network of the catalogue.

    Attributes:
        name: the one spelling used by configs, command line and reports.
        title: the name of the network in words.
        build: the function that builds it.
        reads: the shape of one example.
        paper: where the network is from.
        passes_to: the class or function that takes the options that ``build`` does not name.
        sets: options of ``passes_to`` that ``build`` sets itself.
        tokens: an example is a row of integers below this number; 0 for images.
        predicts: ``"examples"``, ``"segmentation"`` or ``"detection"``: outputs for each example,
            for every pixel, or boxes.
    """

    name: str
    title: str
    build: Callable[..., nn.Module]
    reads: tuple[int, ...]
    paper: str
    passes_to: Callable[..., nn.Module] | None = None
    sets: tuple[str, ...] = ()
    tokens: int = 0
    predicts: str = "examples"

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """The options of the network: those of ``build``, and those that it passes on."""
        options: dict[str, inspect.Parameter] = {}
        for name, option in inspect.signature(self.build).parameters.items():
            if option.kind is not inspect.Parameter.VAR_KEYWORD:
                options[name] = option
        if self.passes_to is not None:
            for name, option in inspect.signature(self.passes_to).parameters.items():
                if name not in self.sets:
                    options.setdefault(name, option)
        return options

    def make(self, **options: Any) -> nn.Module:
        """Build the network.

        Args:
            **options: the options. An unknown name raises an error that names the nearest option.
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
    """Return all networks by name, with those of installed extensions. It is read-only."""
    load_extensions("models")
    return MappingProxyType(_MODELS)


def list_models() -> list[str]:
    """Return the names of all networks. :func:`create_model` builds the network of a name."""
    return list(registered_models())


def get_model(name: str) -> Model:
    """Return the catalogue entry of a network: its options, its input shape and its paper.

    Args:
        name: the network's name. An unknown name raises an error that names the nearest one.
    """
    if not isinstance(name, str) or name not in _MODELS:
        load_extensions("models")
    if not isinstance(name, str) or name not in _MODELS:
        raise unknown_addition("models", "model", name, _MODELS)
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
    tokens: int = 0,
    predicts: str = "examples",
) -> Callable[[Factory], Factory]:
    """Register the decorated function in the catalogue under its name.

    Args:
        title: the name of the network in words.
        reads: the shape of one example.
        paper: where the network is from.
        passes_to: for a function with ``**options``: the class or function that takes them.
        sets: options of ``passes_to`` that the function sets itself.
        tokens: an example is a row of integers below this number; 0 for images.
        predicts: ``"examples"``, ``"segmentation"`` or ``"detection"``.
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
            tokens=tokens,
            predicts=predicts,
        )
        return build

    return enter
