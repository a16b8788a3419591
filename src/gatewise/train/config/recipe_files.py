"""Read recipes from TOML. Errors name file, line, key and what is allowed."""

import re
import tomllib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError

from gatewise.errors import ArgumentError, FileError, closest_name, shorten
from gatewise.extensions import load_extensions, unknown_addition
from gatewise.train.config.recipe import Part, Recipe, RuleError

# Where recipes with names are; other packages add theirs.
_FOLDERS = [Path(__file__).parents[1] / "recipes"]
LARGEST = 1 << 20  # bytes: a recipe has a few hundred
DEEPEST = 20
DEFAULT = "adam"
Parsed = TypeVar("Parsed", bound=BaseModel)
Location = tuple[str | int, ...]
HEADER = re.compile(r"\s*\[\[?\s*([^\[\]]+?)\s*\]\]?\s*(#.*)?$")
KEY = re.compile(r"\s*([A-Za-z0-9_\-.\"' ]+?)\s*=")


def recipes() -> tuple[str, ...]:
    """Return the names of all recipes, with those of installed extensions."""
    load_extensions("recipes")
    return tuple(sorted(_named()))


def add_recipes(folder: Path) -> None:
    """Add the recipes of a folder.

    Args:
        folder: its files ``NAME.toml`` are found by their names.
    """
    if folder not in _FOLDERS:
        _FOLDERS.append(folder)


def _named() -> dict[str, Path]:
    """Return the files of the recipes that are known so far, by name."""
    return {path.stem: path for folder in _FOLDERS for path in folder.glob("*.toml")}


def find_recipe(name: str = DEFAULT, *, changes: Sequence[str] = ()) -> Recipe:
    """Return the recipe of that name, or of a file.

    Args:
        name: of a recipe of the library, or a path that ends in ``.toml``.
        changes: lines of TOML such as ``"optimiser.lr = 0.01"`` that replace values of the recipe.
            A change of a table's ``name`` empties that table first, because another name has other
            options.
    """
    if not isinstance(name, str):
        raise ArgumentError(
            "recipe: a name or a file is needed",
            got=type(name).__name__,
            allowed="str",
        )
    path = Path(name) if name.endswith(".toml") else _find_file(name)
    text = read_text(path, "recipe")
    where = path.name if path.parent in _FOLDERS else str(path)
    return read_recipe(text, where=where, changes=changes)


def _find_file(name: str) -> Path:
    """Return the file of a recipe with a name."""
    files = _named()
    if name not in files:
        load_extensions("recipes")
        files = _named()
    if name not in files:
        raise unknown_addition("recipes", "recipe", name, files)
    return files[name]


def read_recipe(text: str, *, where: str = "recipe", changes: Sequence[str] = ()) -> Recipe:
    """Return the recipe that the TOML ``text`` describes.

    Args:
        text: TOML.
        where: the name of the text in error messages.
        changes: as for :func:`find_recipe`.
    """
    recipe = check(Recipe, parse(text, where), where, text)
    if not changes:
        return recipe
    changed: dict[str, Any] = {}
    for change in changes:
        _merge(changed, parse(change, f"change {change!r}"))
    # The file is valid, so whatever is wrong now is wrong in the changes.
    where = f"recipe {where} with {', '.join(changes)}"
    return check(Recipe, changed_table(parse(text, where), changed), where)


def changed_table(table: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
    """Apply ``changes`` to the table of a recipe, in place, and return it.

    A table in it whose ``name`` changes is emptied first. Another learning rate is also that of
    comparisons.
    """
    optimiser = changes.get("optimiser")
    if isinstance(optimiser, Mapping) and not optimiser.keys().isdisjoint({"name", "lr"}):
        table.pop("comparison_lr", None)
    for key, value in changes.items():
        if isinstance(value, dict) and "name" in value:
            old = table.get(key)
            if value["name"] != (old.get("name") if isinstance(old, dict) else None):
                table[key] = {}
    _merge(table, changes)
    return table


def parse(text: str, where: str) -> dict[str, Any]:
    """Return the table that the TOML ``text`` describes.

    Raises:
        ArgumentError: if it is not valid TOML, or nested too deep.
    """
    try:
        table = tomllib.loads(text)
        if _depth(table) > DEEPEST:
            raise ValueError(f"more than {DEEPEST} levels")
    except (ValueError, RecursionError, OverflowError) as problem:
        why = "nested too deep" if isinstance(problem, RecursionError) else str(problem)
        raise ArgumentError(
            f"{shorten(where)} is not valid TOML",
            got=why,
            fix="correct that place",
        ) from None
    return table


def check(
    kind: type[Parsed],
    table: Mapping[str, Any],
    where: str,
    text: str = "",
) -> Parsed:
    """Return ``table`` as a ``kind``.

    Args:
        kind: the class.
        table: its values.
        where: the name of the table in error messages.
        text: the TOML it was read from, for line numbers.

    Raises:
        ArgumentError: naming the first key that is wrong.
    """
    try:
        return kind.model_validate(dict(table))
    except ValidationError as problem:
        error = _first_error(problem)
    except RecursionError:
        raise ArgumentError(f"{where} is nested too deep") from None
    raise _refusal(kind, error, where, text)


class CheckedOptions(Part):
    """Base class of options that programs pass: a wrong value is an :class:`ArgumentError`."""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as problem:
            error = _first_error(problem)
        else:
            return
        raise _refusal(type(self), error, "options", "")


def _first_error(problem: ValidationError) -> Any:
    """Return the error to report: an unknown key first, for it is often also a missing one."""
    errors = problem.errors(include_url=False)
    return sorted(errors, key=lambda error: error["type"] != "extra_forbidden")[0]


def read_text(path: Path, kind: str) -> str:
    """Return the text of a file; ``kind`` is its name in error messages."""
    try:
        with path.open("rb") as file:
            data = file.read(LARGEST + 1)
    except (OSError, ValueError) as problem:
        why = getattr(problem, "strerror", None) or str(problem)
        raise FileError(
            f"the {kind} cannot be read",
            got=f"{shorten(str(path))}: {why}",
            fix="name another",
        ) from None
    if len(data) > LARGEST:
        raise ArgumentError(
            f"the {kind} is too large",
            got=str(path),
            allowed=f"at most {LARGEST} bytes",
        )
    try:
        return data.decode()
    except UnicodeDecodeError as problem:
        raise ArgumentError(f"the {kind} is not text in UTF-8", got=f"{path}: {problem}") from None


def _merge(table: dict[str, Any], change: Mapping[str, Any]) -> None:
    """Put the values of ``change`` into ``table``, table by table."""
    for key, value in change.items():
        if isinstance(value, dict) and isinstance(table.get(key), dict):
            _merge(table[key], value)
        else:
            table[key] = value


def _depth(value: Any) -> int:
    """Return how deep tables and lists are nested."""
    parts: Iterable[Any] = ()
    if isinstance(value, dict):
        parts = value.values()
    elif isinstance(value, list):
        parts = value
    return 1 + max(map(_depth, parts), default=0)


def _refusal(kind: type[BaseModel], error: Any, where: str, text: str) -> ArgumentError:
    """Return the error of one wrong key, with its place and what is allowed."""
    location: Location = error["loc"]
    message = str(error["msg"])
    broken = error.get("ctx", {}).get("error")  # the exception of a validator, as pydantic keeps it
    if isinstance(broken, RuleError):
        location = (*location, *broken.key.split("."))
        message = broken.message
    place = f"{shorten(where)}{_line(text, location)}: {_dotted(location)}"
    if error["type"] == "extra_forbidden":
        return _unknown_key(kind, location, place)
    if error["type"] == "value_error":
        return ArgumentError(f"{place} is not possible", got=message, fix="change one of the two")
    got = ... if error["type"] == "missing" else _show(error["input"])
    allowed = message.removeprefix("Input should be ").removeprefix("a valid ")
    allowed = re.sub(r"dictionary or instance of \w+", "table", allowed)
    return ArgumentError(f"{place} is not allowed", got=got, allowed=allowed, fix=_nearest(error))


def _unknown_key(kind: type[BaseModel], location: Location, place: str) -> ArgumentError:
    """Return the error of an unknown key, with the nearest known one."""
    known = sorted(fields_at(kind, location[:-1]))
    near = get_close_matches(str(location[-1]), known, n=1, cutoff=0.5)
    fix = f"did you mean {near[0]!r}?" if near else "remove it"
    return ArgumentError(f"{place} is not a key here", allowed=", ".join(known), fix=fix)


def fields_at(kind: type[BaseModel], location: Location) -> list[str]:
    """Return the keys that a table at this place may have."""
    for step in location:
        if isinstance(step, str):
            annotation = kind.model_fields[step].annotation
            for inner in (annotation, *get_args(annotation)):
                if isinstance(inner, type) and issubclass(inner, BaseModel):
                    kind = inner
                    break
    return list(kind.model_fields)


def _nearest(error: Any) -> str | None:
    """Return a hint at the nearest allowed name."""
    if error["type"] != "literal_error":
        return None
    names = re.findall(r"'([^']*)'", error["ctx"]["expected"])
    near = closest_name(error["input"], names)
    return f"did you mean {near!r}?" if near else None


def _show(value: object) -> str:
    """Return a value and its type in words."""
    try:
        return f"{shorten(repr(value), 80)} ({type(value).__name__})"
    except (ValueError, RecursionError):  # an integer of thousands of digits has no decimal form
        return f"a very large {type(value).__name__}"


def _dotted(location: Location) -> str:
    """Return a location as a dotted key."""
    return shorten(".".join(map(str, location))) or "the whole"


def _line(text: str, location: Location) -> str:
    """Return the line of the key at ``location``, or of the nearest table around it."""
    places = tuple(map(str, location))
    lines: dict[tuple[str, ...], int] = {}
    counts: Counter[tuple[str, ...]] = Counter()
    table: tuple[str, ...] = ()
    for number, line in enumerate(text.splitlines(), 1):
        if header := HEADER.match(line):
            table = _parts(header[1])
            if line.lstrip().startswith("[["):  # the first, second, ... table of that name
                lines.setdefault(table, number)
                counts[table] += 1
                table = (*table, str(counts[table] - 1))
            lines.setdefault(table, number)
        elif key := KEY.match(line):
            lines.setdefault((*table, *_parts(key[1])), number)
    for length in range(len(places), 0, -1):
        if places[:length] in lines:
            return f", line {lines[places[:length]]}"
    return ""


def _parts(dotted: str) -> tuple[str, ...]:
    """Return the parts of a dotted key."""
    return tuple(part.strip().strip("\"'") for part in dotted.split("."))
