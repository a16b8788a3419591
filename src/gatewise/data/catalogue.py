"""The closed table of data sets: what each is, where to get it, and how it is read."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from types import MappingProxyType
from typing import Any, TypeVar

from gatewise.data.choice import choose
from gatewise.data.data_set import DataSet
from gatewise.data.published import Published
from gatewise.errors import ArgumentError, unknown_name

Reader = TypeVar("Reader", bound=Callable[..., DataSet])


@dataclass(frozen=True, kw_only=True)
class Source:
    """A data set of the table."""

    name: str  # the one spelling used by configs, command line and reports
    title: str
    home: str  # its publisher's page, or where it is defined
    fetch: str  # what to do to have it, said to whom has it not
    licence: str
    files: tuple[Published, ...]  # below the data folder; none where nothing has to be fetched
    sizes: tuple[int, int] | None  # examples to train on and to test on; None where options say
    classes: int | None  # 0: labels are numbers to be met; None: the files say
    shape: tuple[int, int, int] | None  # of one image
    choices: bool  # whether some of it may be chosen, by the options of `_choice.choose`
    read: Callable[..., DataSet]

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """What the set can be loaded with, besides its folder."""
        found = {**inspect.signature(self.read).parameters, **(CHOICES if self.choices else {})}
        return {name: each for name, each in found.items() if name != "folder"}


CHOICES = {
    name: each
    for name, each in inspect.signature(choose).parameters.items()
    if each.kind is each.KEYWORD_ONLY
}
_SOURCES: dict[str, Source] = {}


def data_set(
    name: str,
    *,
    title: str,
    home: str,
    fetch: str = "nothing to fetch",
    licence: str,
    sizes: tuple[int, int] | None,
    classes: int | None,
    shape: tuple[int, int, int] | None,
    files: tuple[Published, ...] = (),
    choices: bool = False,
) -> Callable[[Reader], Reader]:
    """Enter the decorated function, which takes ``folder`` and options, in the table as the reader of a set."""

    def enter(read: Reader) -> Reader:
        _SOURCES[name] = Source(
            name=name,
            title=title,
            home=home,
            fetch=fetch,
            licence=licence,
            files=files,
            sizes=sizes,
            classes=classes,
            shape=shape,
            choices=choices,
            read=read,
        )
        return read

    return enter


def datasets() -> Mapping[str, Source]:
    """Every data set by name, read-only, in the order of the names."""
    return MappingProxyType(dict(sorted(_SOURCES.items())))


def find_set(name: str) -> Source:
    """The data set called ``name``; a wrong name gets an error that names the nearest right one."""
    if not isinstance(name, str) or name not in _SOURCES:
        raise unknown_name("data set", name, _SOURCES)
    return _SOURCES[name]


def load(name: str, *, folder: str | Path | None = None, **options: Any) -> DataSet:
    """The data set called ``name``, checked and decoded.

    ``datasets()[name].options`` lists its options.

    ``folder`` holds the data sets' files, by default the folder that ``GATEWISE_DATA`` names.
    Nothing is downloaded and nothing in a file is executed: a missing file is an error that says
    where to get it and where to put it, and a file that is not the published one is refused with
    the expected and the found digest.
    """
    source = check_options(name, options)
    chosen = {name: options.pop(name) for name in CHOICES if source.choices and name in options}
    made = source.read(folder=folder, **options)
    return choose(made, **chosen) if chosen else made


def check_options(name: str, options: Mapping[str, Any]) -> Source:
    """The data set called ``name``, if it has these options; nothing is read."""
    source = find_set(name)
    for option in options:
        if option not in source.options:
            near = get_close_matches(option, source.options, n=1)
            raise ArgumentError(
                f"{name}: there is no option of that name",
                got=option,
                allowed=", ".join(source.options) or "none",
                fix=f"did you mean {near[0]!r}?" if near else None,
            )
    return source
