"""A comparison in a file of TOML, and those that come with the library."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from gatewise.errors import ArgumentError, unknown_name
from gatewise.studies.comparison.choices import Choices, make_recipe
from gatewise.studies.comparison.compare_units import plan_comparison
from gatewise.studies.comparison.study import ComparisonStudy
from gatewise.studies.comparison.user_data import NamedData
from gatewise.studies.comparison.user_models import BuiltIn
from gatewise.train import parse, read_text

PRESETS = Path(__file__).parents[1] / "presets"
KEYS = (
    "title",
    "units",
    "baseline",
    "rates",
    "seeds",
    "metric",
    "metrics",
    "mode",
    "margin",
    "models",
    "data",
    "recipe",
    "epochs",
)
NEEDED = ("units", "models", "data")


def presets() -> tuple[str, ...]:
    """Return the names of the studies that come with the library."""
    return tuple(sorted(path.stem for path in PRESETS.glob("*.toml")))


def read_comparison(
    name: str,
    changes: Mapping[str, Any] | None = None,
    *,
    recipe: str | None = None,
    recipe_changes: Sequence[str] = (),
    data_folder: str | None = None,
    device: str | None = "auto",
) -> ComparisonStudy:
    """Return the plan of a preset, or of a file of TOML.

    Args:
        name: of a preset, or a path that ends in ``.toml``.
        changes: values in place of those of the file.
        recipe: in place of the file's: a name, or a path that ends in ``.toml``.
        recipe_changes: lines of TOML that change the recipe last.
        data_folder: of the data set.
        device: to train on.
    """
    if not name.endswith(".toml") and name not in presets():
        raise unknown_name("study", name, [*presets(), "FILE.toml"])
    path = Path(name) if name.endswith(".toml") else PRESETS / f"{name}.toml"
    table = {**parse(read_text(path, "study"), path.name), **(changes or {})}
    for key in table:
        if key not in KEYS:
            raise unknown_name(f"key in {path.name}", key, KEYS)
    for key in NEEDED:
        if key not in table:
            raise ArgumentError(f"{path.name}: {key} is missing", allowed=", ".join(KEYS))
    choices = Choices(
        metric=table.get("metric"),
        metrics=table.get("metrics", ()),
        mode=table.get("mode"),
    )
    rest = {key: table[key] for key in ("baseline", "rates", "seeds", "margin") if key in table}
    return plan_comparison(
        _models(table["models"], path.name),
        table["units"],
        _data(table["data"], data_folder, path.name),
        choices=choices,
        device=device,
        title=str(table.get("title", "")),
        name=path.stem,
        recipe=make_recipe(
            recipe or table.get("recipe"), table.get("epochs"), changes=recipe_changes
        ),
        **rest,
    )


def _models(value: Any, where: str) -> dict[str, BuiltIn]:
    """Return the networks by their names in tables."""
    tables = [value] if isinstance(value, str | Mapping) else value
    if not isinstance(tables, Sequence) or not tables:
        raise ArgumentError(f"{where}: models are names or tables of networks", got=value)
    models: dict[str, BuiltIn] = {}
    for each in tables:
        table: Any = {"model": each} if isinstance(each, str) else each
        if not isinstance(table, Mapping) or not isinstance(table.get("model"), str):
            raise ArgumentError(f"{where}: a network has a key model", got=each)
        label = str(table.get("name", table["model"]))
        models[label] = BuiltIn(table["model"], dict(table.get("options", {})))
    return models


def _data(value: Any, folder: str | None, where: str) -> NamedData:
    """Return the data set."""
    table: Any = {"name": value} if isinstance(value, str) else value
    if not isinstance(table, Mapping) or not isinstance(table.get("name"), str):
        raise ArgumentError(f"{where}: data is a name, or a table with name and options", got=value)
    return NamedData(table["name"], dict(table.get("options", {})), folder)
