"""Every exception and warning that a user can see.

The message of an error has up to four parts: what is wrong, what was given, what is allowed, and
how to fix it.
"""

import re
import sys
import warnings
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path
from typing import Any


class GatewiseError(Exception):
    """The base class of all errors of this library.

    Args:
        what: What is wrong.
        got: The value that was given. Left out of the message by default; ``None`` is a value.
        allowed: The values that are allowed.
        fix: What to do or type instead.
    """

    _fix_before_names = False  # where a long list of names is allowed

    def __init__(
        self, what: str, *, got: object = ..., allowed: object = None, fix: str | None = None
    ) -> None:
        self.what = what
        self.got = got
        self.allowed = allowed
        self.fix = fix
        parts = [what]
        if got is not ...:
            parts.append(f"got: {shorten(got)}")
        last = [] if allowed is None else [f"allowed: {allowed}"]
        if fix is not None:
            last.insert(0 if self._fix_before_names else len(last), f"fix: {fix}")
        super().__init__("; ".join([*parts, *last]))

    def fix_first(self, translate: Callable[[str], str] = str) -> str:
        """Return the message with the fix behind what is wrong, as the command line prints it.

        Args:
            translate: Changes the words of the fix.
        """
        fix = f"; fix: {self.fix}"
        text = str(self)
        if self.fix is None or fix not in text:
            return text
        rest = text.removeprefix(self.what).replace(fix, "", 1)
        return f"{self.what}; fix: {translate(self.fix)}{rest}"


class ArgumentError(GatewiseError, ValueError):
    """An argument has the wrong value, shape, dtype or device."""


class Limitation(StrEnum):
    """Why an analysis cannot be applied to a model and its inputs.

    This list is closed. The values are the words that the JSON of a diagnosis uses.
    """

    NO_CHECKPOINTS = "no checkpoints"
    NO_CONVOLUTION = "no convolution"
    NO_FILTERS = "no filters"
    NO_GATES = "no gates"
    NO_IMAGES = "no images"
    NO_LAYER = "no layer"
    NO_MAPS = "no maps"
    NO_NUMBERS = "no numbers"
    NO_REAL_INPUTS = "no real inputs"
    NO_UNIT_AFTER_CONVOLUTION = "no unit behind"
    NOT_CONVERGED = "not converged"
    NOT_FINITE = "not finite"
    ON_ONE_LINE = "on one line"
    SEVERAL_INPUTS = "several inputs"
    SEVERAL_OUTPUTS = "several outputs"
    SINGULAR_KERNEL = "singular kernel"
    TOO_FEW_INPUTS = "too few inputs"
    TOO_LARGE = "too large"
    TOO_MANY_REGIONS = "too many regions"
    UNREADABLE_MODEL = "unreadable model"
    UNSUPPORTED_MODEL = "unsupported model"
    UNSUPPORTED_OPERATOR = "unsupported operator"
    UNSUPPORTED_UNIT = "unsupported unit"


class NotApplicableError(ArgumentError):
    """An analysis does not apply to this model or these inputs, for a known reason.

    Callers decide by :attr:`limitation`, never by the text of the message.

    Args:
        limitation: The reason, one of a closed list.
        what: What is wrong, in words. Empty where the reason says everything.
        got: The value that was given.
        allowed: The values that are allowed.
        fix: What to do or type instead.
    """

    def __init__(
        self,
        limitation: Limitation,
        what: str = "",
        *,
        got: object = ...,
        allowed: object = None,
        fix: str | None = None,
    ) -> None:
        self.limitation = Limitation(limitation)
        super().__init__(what, got=got, allowed=allowed, fix=fix)

    def __reduce__(self) -> tuple[Any, ...]:
        # The default would pass the message as the first argument when the error is unpickled.
        return type(self), (self.limitation, str(self)), self.__dict__


class UnknownNameError(ArgumentError, LookupError):
    """A name is not in a closed table."""

    _fix_before_names = True


class UnitDefinitionError(GatewiseError, TypeError):
    """A unit declares facts that are misspelt, missing or contradict each other."""


class ContractError(GatewiseError, AssertionError):
    """A unit does not keep the contract of :func:`gatewise.testing.check_unit`."""


class FileError(GatewiseError, OSError):
    """A file could not be read or written."""


class DamagedFileError(FileError):
    """The content of a file is incomplete, was altered, or was not written by this library."""


class HeldError(FileError):
    """Another process holds the lock of a folder."""


class UnsafePathError(FileError, ValueError):
    """A name would lead outside the folder it was meant for."""


class MissingExtraError(GatewiseError, ImportError):
    """An optional package is not installed."""


class LostProcessError(GatewiseError, ConnectionError):
    """One process of a distributed run has ended, and the others cannot continue without it."""


class RectifiedInputWarning(UserWarning):
    """A layer that treats positive and negative inputs differently receives no negative ones."""


class LostTrainingWarning(UserWarning):
    """Taking a swap back left out weights that were trained; the function is another one."""


class CoarseUnitWarning(UserWarning):
    """A unit's trainable numbers have a 16-bit type, in which small updates are lost."""


class SavedSwapWarning(UserWarning):
    """A swapped model was saved so that only gatewise can load it."""


class InexactCountWarning(UserWarning):
    """A count is too large to be exact in float64 and is rounded."""


class UncachedDataWarning(UserWarning):
    """A data set could not be stored in decoded form; the next run has to decode it again."""


def install_extra(extra: str) -> str:
    """Return the command that installs the packages of an extra.

    The packages are named, because gatewise is on no package index: the command works from a clone
    and from an installed wheel. pip may replace the
    installed torch if a package pins another; constraints.txt in a clone prevents that.

    Args:
        extra: The name of an extra in the metadata of gatewise.
    """
    from importlib import metadata

    packages = []
    try:
        lines = metadata.requires("gatewise") or []
    except metadata.PackageNotFoundError:
        lines = []
    for line in lines:
        requirement, _, marker = line.partition(";")
        if re.search(rf"""extra\s*==\s*['"]{re.escape(extra)}['"]""", marker):
            packages.append(f"'{requirement.strip()}'")
    return f"pip install {' '.join(packages or [extra])}"


def unknown_name(kind: str, name: object, known: Iterable[str]) -> UnknownNameError:
    """Return the error for a name that is not in a table, with the closest known name as the fix.

    Args:
        kind: What the table lists, e.g. ``"unit"``.
        name: The name that was given.
        known: All names of the table.
    """
    names = sorted(known)
    closest = closest_name(name, names)
    fix = f"did you mean {closest!r}?" if closest else None
    return UnknownNameError(
        f"there is no {kind} of that name", got=repr(name), allowed=", ".join(names), fix=fix
    )


def closest_name(name: object, known: Iterable[str]) -> str | None:
    """Return the known name that was probably meant; None if none is near.

    Args:
        name: The name that was given.
        known: All names.
    """
    text = str(name).lower()
    nearness = 0.7 if len(text) > 3 else 0.6  # one wrong letter of three is 0.67
    closest = get_close_matches(text, sorted(known), n=1, cutoff=nearness)
    return closest[0] if closest else None


def first_line(problem: BaseException) -> str:
    """Return the first line of the message of an exception of other code.

    Args:
        problem: The exception.
    """
    return (str(problem).strip() or type(problem).__name__).splitlines()[0]


def shorten(value: object, limit: int = 200) -> str:
    """Return ``value`` as one printable line, so that a hostile value cannot flood a message.

    Args:
        value: Anything; what is not a string is shown by its ``repr``.
        limit: The largest number of characters.
    """
    text = value if isinstance(value, str) else repr(value)
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"


def warn_caller(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's code that has called this library."""
    package = str(Path(__file__).parent)
    frame, level = sys._getframe(1), 2
    while frame.f_back is not None and frame.f_code.co_filename.startswith(package):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)
