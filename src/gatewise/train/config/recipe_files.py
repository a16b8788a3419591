"""Recipes from TOML: names from a closed table or a file of one's own.

Errors say file, line, key and what is right.
"""

import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from gatewise.errors import ArgumentError, FileError, shorten, unknown_name
from gatewise.train.config.recipe import Recipe, RuleError

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # pyright: ignore[reportMissingImports] - installed there

FOLDER = Path(__file__).parents[1] / "recipes"
LARGEST = 1 << 20  # bytes: a recipe has a few hundred
DEEPEST = 20
DEFAULT = "adam"
Parsed = TypeVar("Parsed", bound=BaseModel)
Location = tuple[str | int, ...]
HEADER = re.compile(r"\s*\[\[?\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
KEY = re.compile(r"\s*([A-Za-z0-9_\-.\"' ]+?)\s*=")


@cache
def recipes() -> tuple[str, ...]:
    """The names of the recipes that come with the library."""
    return tuple(sorted(path.stem for path in FOLDER.glob("*.toml")))


def find_recipe(name: str = DEFAULT, *, changes: Sequence[str] = ()) -> Recipe:
    """The recipe of that name, or of the file if the name ends in ``.toml``.

    ``changes`` are lines of TOML such as ``"optimiser.lr = 0.01"`` that are put in place of the
    recipe's own values. A change of a table's ``name`` starts that table anew, since other options
    go with another name.
    """
    if not isinstance(name, str):
        raise ArgumentError(
            "recipe: a name or a file is needed", got=type(name).__name__, allowed="str"
        )
    if not name.endswith(".toml") and name not in recipes():
        raise unknown_name("recipe", name, recipes())
    path = Path(name) if name.endswith(".toml") else FOLDER / f"{name}.toml"
    text = read_text(path, "recipe")
    return read_recipe(
        text, where=path.name if path.parent == FOLDER else str(path), changes=changes
    )


def read_recipe(text: str, *, where: str = "recipe", changes: Sequence[str] = ()) -> Recipe:
    """The recipe that the TOML ``text`` describes; ``where`` is what errors call it."""
    table, changed = parse(text, where), {}
    for change in changes:
        _merge(changed, parse(change, f"change {change!r}"))
    return check(Recipe, changed_table(table, changed), where, text)


def changed_table(table: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """The table of a recipe after ``changes``, which it takes in itself.

    Another ``name`` starts a table in it anew.
    """
    for key, value in changes.items():
        if isinstance(value, dict) and value.get("name", ...) not in (
            ...,
            _name_in(table.get(key)),
        ):
            table[key] = {}
    _merge(table, changes)
    return table


def parse(text: str, where: str) -> dict[str, Any]:
    """The table that ``text`` is in TOML, or an :class:`ArgumentError`."""
    try:
        table = tomllib.loads(text)
        if _depth(table) > DEEPEST:
            raise ValueError(f"more than {DEEPEST} levels")
    except (ValueError, RecursionError, OverflowError) as problem:
        why = "nested too deep" if isinstance(problem, RecursionError) else str(problem)
        raise ArgumentError(
            f"{shorten(where)} is not valid TOML", got=why, fix="correct that place"
        ) from None
    return table


def check(kind: type[Parsed], table: Mapping[str, Any], where: str, text: str = "") -> Parsed:
    """``table`` as a ``kind``, or an :class:`ArgumentError` naming the first key that is wrong."""
    try:
        return kind.model_validate(dict(table))
    except ValidationError as problem:
        # An unknown key first: a misspelt key is often also a missing one.
        found = sorted(
            problem.errors(include_url=False), key=lambda error: error["type"] != "extra_forbidden"
        )[0]
    except RecursionError:
        raise ArgumentError(f"{where} is nested too deep") from None
    raise _refusal(kind, found, where, text)


def read_text(path: Path, kind: str) -> str:
    """The text of a file that people write; ``kind`` is what errors call it."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or str(problem)
        raise FileError(
            f"the {kind} cannot be read", got=f"{shorten(str(path))}: {why}", fix="name another"
        ) from None
    if len(data) > LARGEST:
        raise ArgumentError(
            f"the {kind} is too large", got=str(path), allowed=f"at most {LARGEST} bytes"
        )
    try:
        return data.decode()
    except UnicodeDecodeError as problem:
        raise ArgumentError(f"the {kind} is not text in UTF-8", got=f"{path}: {problem}") from None


def _merge(table: dict[str, Any], change: Mapping[str, Any]) -> None:
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(table.get(key), dict):
            _merge(table[key], value)
        else:
            table[key] = value


def _name_in(table: Any) -> Any:
    return table.get("name") if isinstance(table, dict) else None


def _depth(value: Any) -> int:
    parts: Iterable[Any] = (
        value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    )
    return 1 + max(map(_depth, parts), default=0)


def _refusal(kind: type[BaseModel], found: Any, where: str, text: str) -> ArgumentError:
    location: Location = found["loc"]
    message = str(found["msg"])
    broken = found.get("ctx", {}).get("error")  # the exception of a validator, as pydantic keeps it
    if isinstance(broken, RuleError):
        location = (*location, *broken.key.split("."))
        message = broken.message
    place = f"{shorten(where)}{_line(text, location)}: {_dotted(location)}"
    if found["type"] == "extra_forbidden":
        return _unknown_key(kind, location, place)
    if found["type"] == "value_error":
        return ArgumentError(f"{place} is not possible", got=message, fix="change one of the two")
    got = ... if found["type"] == "missing" else _show(found["input"])
    allowed = message.removeprefix("Input should be ").removeprefix("a valid ")
    allowed = re.sub(r"dictionary or instance of \w+", "table", allowed)
    return ArgumentError(f"{place} is not allowed", got=got, allowed=allowed, fix=_nearest(found))


def _unknown_key(kind: type[BaseModel], location: Location, place: str) -> ArgumentError:
    known = sorted(fields_at(kind, location[:-1]))
    near = get_close_matches(str(location[-1]), known, n=1, cutoff=0.5)
    fix = f"did you mean {near[0]!r}?" if near else "remove it"
    return ArgumentError(f"{place} is not a key here", allowed=", ".join(known), fix=fix)


def fields_at(kind: type[BaseModel], location: Location) -> list[str]:
    """The keys that a table at this place may have."""
    for step in location:
        if isinstance(step, str):
            annotation = kind.model_fields[step].annotation
            inner = [each for each in (annotation, *get_args(annotation)) if isinstance(each, type)]
            kind = next(each for each in inner if issubclass(each, BaseModel))
    return list(kind.model_fields)


def _nearest(found: Any) -> str | None:
    if found["type"] != "literal_error":
        return None
    names = re.findall(r"'([^']*)'", found["ctx"]["expected"])
    near = get_close_matches(str(found["input"]), names, n=1, cutoff=0.5)
    return f"did you mean {near[0]!r}?" if near else None


def _show(value: object) -> str:
    try:
        return f"{shorten(repr(value), 80)} ({type(value).__name__})"
    except (ValueError, RecursionError):  # an integer of thousands of digits has no decimal form
        return f"a very large {type(value).__name__}"


def _dotted(location: Location) -> str:
    return shorten(".".join(map(str, location))) or "the whole"


def _line(text: str, location: Location) -> str:
    """Where in ``text`` the key at ``location``, or the nearest table around it, stands."""
    places = tuple(map(str, location))
    found, counts = {}, Counter()
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := HEADER.match(line):
            table = _parts(header[1])
            if line.lstrip().startswith("[["):  # the first, second, ... table of that name
                found.setdefault(table, number)
                counts[table] += 1
                table = (*table, str(counts[table] - 1))
            found.setdefault(table, number)
        elif key := KEY.match(line):
            found.setdefault((*table, *_parts(key[1])), number)
    for length in range(len(places), 0, -1):
        if places[:length] in found:
            return f", line {found[places[:length]]}"
    return ""


def _parts(dotted: str) -> tuple[str, ...]:
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))
