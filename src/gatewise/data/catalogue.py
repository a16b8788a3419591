"""The catalogue of data sets: what each is, where to get it, and how it is read."""

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
from gatewise.errors import ArgumentError
from gatewise.extensions import load_extensions, unknown_addition

Reader = TypeVar("Reader", bound=Callable[..., DataSet])

# What has a label: an image or a row of tokens, every pixel, or boxes.
EXAMPLES = "examples"
SEGMENTATION = "segmentation"
DETECTION = "detection"


@dataclass(frozen=True, kw_only=True)
class Source:
    """A data set of the catalogue.

    Attributes:
        name: the one spelling used by configs, command line and reports.
        title: the name in words.
        home: its publisher's page, or where it is defined.
        fetch: how to get it, for messages.
        licence: its licence.
        files: below the data folder; empty if nothing has to be fetched.
        sizes: number of training and test examples; ``None`` if options say.
        classes: the number of classes; 0 for a regression; ``None`` if the files say.
        shape: of one image, or (length,) of one row of tokens; ``None`` if the files say.
        choices: whether a part can be chosen, by the options of :func:`choose`.
        read: reads the set.
        published_sizes: number of examples of a set in the user's folder as it is published; costs
            are estimated by it before the files are there.
        task: ``"examples"``: a label for each image or row of tokens; ``"segmentation"``: a class
            for every pixel; ``"detection"``: boxes with a class each.
    """

    name: str
    title: str
    home: str
    fetch: str
    licence: str
    files: tuple[Published, ...]
    sizes: tuple[int, int] | None
    classes: int | None
    shape: tuple[int, ...] | None
    choices: bool
    read: Callable[..., DataSet]
    published_sizes: tuple[int, int] | None = None
    task: str = EXAMPLES

    @property
    def options(self) -> dict[str, inspect.Parameter]:
        """The options of the set, besides its folder."""
        options = dict(inspect.signature(self.read).parameters)
        if self.choices:
            options.update(CHOICES)
        options.pop("folder", None)
        return options


CHOICES = dict(inspect.signature(choose).parameters)
del CHOICES["whole"]  # the rest are options
_SOURCES: dict[str, Source] = {}


def register_data_set(
    name: str,
    *,
    title: str,
    home: str,
    fetch: str = "nothing to fetch",
    licence: str,
    sizes: tuple[int, int] | None,
    classes: int | None,
    shape: tuple[int, ...] | None,
    files: tuple[Published, ...] = (),
    choices: bool = False,
    published_sizes: tuple[int, int] | None = None,
    task: str = EXAMPLES,
) -> Callable[[Reader], Reader]:
    """Register the decorated function, which takes ``folder`` and options, as the reader of a set.

    The arguments are the attributes of :class:`Source`.
    """

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
            published_sizes=published_sizes,
            task=task,
        )
        return read

    return enter


def datasets() -> Mapping[str, Source]:
    """Return every data set by name, with those of installed extensions. It is read-only.

    It is in the order of the names.
    """
    load_extensions("data")
    return MappingProxyType(dict(sorted(_SOURCES.items())))


def find_set(name: str) -> Source:
    """Return the catalogue entry of a set. An unknown name raises an error with the nearest one."""
    if not isinstance(name, str) or name not in _SOURCES:
        load_extensions("data")
    if not isinstance(name, str) or name not in _SOURCES:
        raise unknown_addition("data", "data set", name, _SOURCES)
    return _SOURCES[name]


def load(name: str, *, folder: str | Path | None = None, **options: Any) -> DataSet:
    """Load a data set: check its files and decode them.

    Nothing is downloaded and nothing in a file is executed.

    Args:
        name: the name of the set, one of :func:`datasets`.
        folder: the data folder; the one that ``GATEWISE_DATA`` names unless given.
        **options: the options of the set; ``datasets()[name].options`` lists them.

    Raises:
        FileError: a file is missing; the message says where to get it and where to put it.
        DamagedFileError: a file is not the published one; the message has both digests.
    """
    source = check_options(name, options)
    choices = {}
    if source.choices:
        choices = {name: options.pop(name) for name in CHOICES if name in options}
    whole = source.read(folder=folder, **options)
    return choose(whole, **choices) if choices else whole


def check_options(name: str, options: Mapping[str, Any]) -> Source:
    """Return the catalogue entry of a set; raise an error if it lacks an option."""
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
