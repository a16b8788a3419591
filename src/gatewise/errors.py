"""Every exception a user can see: what was wrong, what we got, what is allowed, how to fix it."""

from collections.abc import Iterable
from difflib import get_close_matches


class GatewiseError(Exception):
    """Base of all our errors. The message is up to four sentences: what, got, allowed, fix."""

    def __init__(
        self, what: str, *, got: object = ..., allowed: object = None, fix: str | None = None
    ) -> None:
        self.what, self.got, self.allowed, self.fix = what, got, allowed, fix
        parts = [what]
        if got is not ...:  # None may well be what was given
            parts.append(f"got: {shorten(got)}")
        if allowed is not None:
            parts.append(f"allowed: {allowed}")
        if fix is not None:
            parts.append(f"fix: {fix}")
        super().__init__("; ".join(parts))


class ArgumentError(GatewiseError, ValueError):
    """An argument has the wrong value, shape, dtype or device."""


class UnknownNameError(ArgumentError, LookupError):
    """A name is not in a closed table."""


class UnitDefinitionError(GatewiseError, TypeError):
    """A unit declares facts that are misspelt, missing or contradict each other."""


class ContractError(GatewiseError, AssertionError):
    """A unit does not keep the contract of :func:`gatewise.testing.check_unit`."""


class FileError(GatewiseError, OSError):
    """A file could not be read or written."""


class DamagedFileError(FileError):
    """A file's content is not what was written: cut, altered, or not ours."""


class HeldError(FileError):
    """Another process is at work in a folder."""


class UnsafePathError(FileError, ValueError):
    """A name would lead outside the folder it was meant for."""


class MissingExtraError(GatewiseError, ImportError):
    """An optional package is not installed."""


class LostProcessError(GatewiseError, ConnectionError):
    """One of several processes at a run has ended, and the others cannot go on without it."""


class RectifiedInputWarning(UserWarning):
    """A layer that treats positive and negative inputs differently is given no negative ones."""


class InexactCountWarning(UserWarning):
    """A count is too large to be exact in float64: it is rounded."""


class UncachedDataWarning(UserWarning):
    """A data set could not be kept in decoded form, and will be decoded again by the next run."""


def unknown_name(kind: str, name: object, known: Iterable[str]) -> UnknownNameError:
    """The error for ``name`` not being one of ``known``, naming the nearest right one."""
    names = sorted(known)
    near = get_close_matches(str(name).lower(), names, n=1, cutoff=0.5)
    fix = f"did you mean {near[0]!r}?" if near else None
    return UnknownNameError(
        f"there is no {kind} of that name", got=repr(name), allowed=", ".join(names), fix=fix
    )


def shorten(value: object, limit: int = 200) -> str:
    """``value`` as one line of at most ``limit`` characters, so that a hostile value cannot flood a message."""
    text = value if isinstance(value, str) else repr(value)
    text = "".join(c if c.isprintable() else "\N{REPLACEMENT CHARACTER}" for c in text)
    return text if len(text) <= limit else f"{text[: limit - 1]}…"
