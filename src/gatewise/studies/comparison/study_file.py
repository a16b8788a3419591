"""A comparison in a file of TOML, and those that come with the library."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pydantic import Field, field_validator

from gatewise.errors import unknown_name
from gatewise.studies.comparison.choices import Choices, make_recipe
from gatewise.studies.comparison.compare_units import SEEDS, plan_comparison
from gatewise.studies.comparison.learning_rates import RATES
from gatewise.studies.comparison.study import ComparisonStudy
from gatewise.studies.comparison.user_data import NamedData
from gatewise.studies.comparison.user_models import BuiltIn
from gatewise.train import Options, Part, check, parse, read_text

PRESETS = Path(__file__).parents[1] / "presets"


class NetworkTable(Part):
    """A network of gatewise, and its name in tables."""

    model: str
    name: str = ""
    options: Options = Field(default_factory=dict)


class DataTable(Part):
    """A data set."""

    name: str
    options: Options = Field(default_factory=dict)


class StudyTable(Part):
    """A study as a file describes it. The plan checks what it does not."""

    title: str = ""
    units: Any
    models: list[NetworkTable]
    data: DataTable
    recipe: Any = None
    epochs: Any = None
    baseline: Any = None
    rates: Any = RATES
    seeds: Any = SEEDS
    margin: Any = None
    metric: str | None = None
    metrics: Any = ()
    mode: str | None = None

    @field_validator("models", mode="before")
    @classmethod
    def _tables(cls, models: Any) -> Any:
        """Let a name stand for a table."""
        several = [models] if isinstance(models, str | Mapping) else models
        if not isinstance(several, Sequence):
            return several
        return [{"model": each} if isinstance(each, str) else each for each in several]

    @field_validator("data", mode="before")
    @classmethod
    def _table(cls, data: Any) -> Any:
        """Let a name stand for a table."""
        return {"name": data} if isinstance(data, str) else data


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
    text = read_text(path, "study")
    table = check(StudyTable, {**parse(text, path.name), **(changes or {})}, path.name, text)
    chosen = make_recipe(recipe or table.recipe, table.epochs, changes=recipe_changes)
    return plan_comparison(
        {each.name or each.model: BuiltIn(each.model, each.options) for each in table.models},
        table.units,
        NamedData(table.data.name, table.data.options, data_folder),
        choices=Choices(metric=table.metric, metrics=table.metrics, mode=table.mode),
        baseline=table.baseline,
        rates=table.rates,
        seeds=table.seeds,
        margin=table.margin,
        device=device,
        title=table.title,
        name=path.stem,
        recipe=chosen,
    )
