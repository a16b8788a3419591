"""What a study is: units x backbones x data x recipes x seeds, as one TOML file in which every key has a constraint."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from gatewise.errors import ArgumentError, unknown_name
from gatewise.train import (
    Epochs,
    Name,
    Options,
    Part,
    Rate,
    Recipe,
    RuleError,
    Text,
    changed_table,
    check,
    find_recipe,
    parse,
    read_text,
)

PRESETS = Path(__file__).parents[1] / "presets"
MOST_SEEDS = 1000
MOST_CELLS = 100_000
METRICS = ("test_accuracy", "test_loss")

Label = Annotated[str, Field(min_length=1, max_length=100)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


class UnitChoice(Part):
    """A unit with its options, under the label that tables have."""

    name: Name
    label: Label
    options: Options = Field(default_factory=dict)

    @property
    def choice(self) -> str | dict[str, Any]:
        """As a network's option ``unit`` takes it."""
        return {"name": self.name, **self.options} if self.options else self.name


class Backbone(Part):
    """A network of the catalogue with its options."""

    name: Label
    model: Name
    options: Options = Field(default_factory=dict)


class DataChoice(Part):
    """A data set with its options."""

    name: Name
    label: Label
    options: Options = Field(default_factory=dict)


class NamedRecipe(Recipe):
    """A recipe, under the name that tables have."""

    name: Label = "recipe"

    @property
    def recipe(self) -> Recipe:
        """The recipe alone."""
        return Recipe.model_validate(self.model_dump(exclude={"name"}, exclude_unset=True))


class Tune(Part):
    """The learning rate chosen for each unit on every backbone, by the loss on examples held out from the training set.

    ``share`` of the training set is held out, each rate is trained with ``seeds`` seeds for ``epochs`` epochs (0: as
    many as the recipe has), and the rate with the lowest mean loss is taken. The test set is not looked at.
    """

    lr: Annotated[list[Rate], Field(min_length=2, max_length=20)]
    share: Annotated[float, Field(gt=0, lt=1)] = 0.2
    seeds: Annotated[int, Field(ge=1, le=100)] = 1
    epochs: Annotated[int, Field(ge=0, le=1_000_000)] = 0


class StudyTable(Part):
    """The content of a study's file, in its full form.

    See :func:`complete` for what may be said shorter.
    """

    title: Text = ""
    name: Label = "study"
    units: Annotated[list[UnitChoice], Field(min_length=1, max_length=100)]
    baseline: Label
    seeds: Annotated[list[Seed], Field(min_length=1, max_length=MOST_SEEDS)] = Field(
        default_factory=lambda: [0, 1, 2, 3, 4]
    )
    backbones: Annotated[list[Backbone], Field(min_length=1, max_length=100)]
    data: Annotated[list[DataChoice], Field(min_length=1, max_length=100)]
    recipe: NamedRecipe | None = None
    recipes: Annotated[list[NamedRecipe], Field(max_length=100)] = Field(default_factory=list)
    match: Literal["none", "parameters", "flops"] = "none"
    match_within: Annotated[float, Field(gt=0, le=0.5)] = 0.02
    tune: Tune | None = None
    evaluate_every: Epochs = 1
    metric: Literal["test_accuracy", "test_loss"] = "test_accuracy"

    @model_validator(mode="after")
    def _whole(self) -> "StudyTable":
        _refuse_twice("units", [unit.label for unit in self.units])
        _refuse_twice("backbones", [backbone.name for backbone in self.backbones])
        _refuse_twice("data", [data.label for data in self.data])
        _refuse_twice("recipes", [recipe.name for recipe in self.all_recipes])
        _refuse_twice("seeds", self.seeds)
        if (self.recipe is None) == (not self.recipes):
            raise RuleError("recipe", "either one recipe or a list of recipes")
        labels = [unit.label for unit in self.units]
        if self.baseline not in labels:
            near = get_close_matches(self.baseline, labels, n=1)
            hint = f", did you mean {near[0]!r}?" if near else ""
            raise RuleError("baseline", f"{self.baseline} is none of {', '.join(labels)}{hint}")
        if self.tune and any(recipe.schedule.name == "phases" for recipe in self.all_recipes):
            raise RuleError("tune", "a recipe with phases has no one learning rate to be chosen")
        if self.size > MOST_CELLS:
            raise RuleError("seeds", f"{self.size} cells, and {MOST_CELLS} are the most")
        return self

    @property
    def all_recipes(self) -> list[NamedRecipe]:
        """The one recipe, or all of them."""
        return [self.recipe] if self.recipe else self.recipes

    @property
    def size(self) -> int:
        """How many cells it has."""
        groups = (
            len(self.units) * len(self.backbones) * len(self.data) * max(1, len(self.all_recipes))
        )
        return groups * len(self.seeds)


@dataclass(frozen=True)
class Study:
    r"""Units compared on backbones, data sets, recipes and seeds.

    >>> study = Study.read('units = ["relu", "crelu"]\nbackbones = ["mlp"]\ndata = "digits"\nseeds = 2')
    >>> study.table.size
    4
    """

    table: StudyTable

    @classmethod
    def load(cls, name: str | Path, changes: Mapping[str, Any] | None = None) -> "Study":
        """The study of the file, or of that name among those that come with the library.

        ``changes`` replace keys.
        """
        name = str(name)
        if not name.endswith(".toml") and name not in presets():
            raise unknown_name("study", name, [*presets(), "FILE.toml"])
        path = Path(name) if name.endswith(".toml") else PRESETS / f"{name}.toml"
        text, where = read_text(path, "study"), path.name if path.parent == PRESETS else name
        return cls.of(
            {**parse(text, where), **(changes or {})}, where=where, text=text, name=path.stem
        )

    @classmethod
    def read(cls, text: str, *, where: str = "study", name: str = "study") -> "Study":
        """The study that the TOML ``text`` describes; ``where`` is what errors call it."""
        return cls.of(parse(text, where), where=where, text=text, name=name)

    @classmethod
    def of(
        cls, table: Mapping[str, Any], *, where: str = "study", text: str = "", name: str = "study"
    ) -> "Study":
        """The study that a table describes, in the full or in the short form."""
        full = complete({"name": name[:100] or "study", **table}, where)
        return cls(check(StudyTable, full, where, text))

    @property
    def plain(self) -> dict[str, Any]:
        """The study in its full form, in the types that JSON has."""
        return self.table.model_dump(mode="json", exclude_unset=True)


@cache
def presets() -> tuple[str, ...]:
    """The names of the studies that come with the library."""
    return tuple(sorted(path.stem for path in PRESETS.glob("*.toml")))


def complete(table: Mapping[str, Any], where: str = "study") -> dict[str, Any]:
    """The full form of what a file may say shorter.

    What is of a wrong type is left, to be refused with its place.

    A unit, backbone or data set may be its name alone, several data sets or one; the options of a
    unit may stand beside its name; ``seeds`` may be how many; the baseline is the first unit unless
    it is named; a recipe may be a name, or a table with a ``base`` whose values it changes.
    """
    full = dict(table)
    full["units"] = (
        [unit_table(each) for each in full["units"]]
        if _is_list(full, "units")
        else full.get("units")
    )
    if _is_list(full, "units") and full["units"] and isinstance(full["units"][0], dict):
        full.setdefault("baseline", full["units"][0].get("label"))
    if _is_list(full, "backbones"):
        full["backbones"] = [_named(each, "model") for each in full["backbones"]]
    data = full.get("data", "digits")
    full["data"] = [_named(each, "label") for each in (data if isinstance(data, list) else [data])]
    seeds = full.get("seeds", 5)
    if isinstance(seeds, int) and not isinstance(seeds, bool):
        if not 1 <= seeds <= MOST_SEEDS:
            raise ArgumentError(
                f"{where}: seeds is not allowed", got=seeds, allowed=f"1 to {MOST_SEEDS}, or a list"
            )
        seeds = list(range(seeds))
    full["seeds"] = seeds
    if "recipe" in full or "recipes" not in full:
        full["recipe"] = _recipe(full.get("recipe", {}))
    if _is_list(full, "recipes"):
        full["recipes"] = [_recipe(each) for each in full["recipes"]]
    return {key: value for key, value in full.items() if value is not None}


def _is_list(table: Mapping[str, Any], key: str) -> bool:
    return isinstance(table.get(key), list)


def unit_table(given: Any) -> Any:
    """A unit's table with name, label and options, from its name or a table with some of them beside the name."""
    if isinstance(given, str):
        return {"name": given, "label": given}
    if not isinstance(given, dict) or not isinstance(given.get("name"), str):
        return given
    if "options" in given:
        return {"label": given["name"], **given}
    options = {key: value for key, value in given.items() if key not in ("name", "label")}
    shown = ", ".join(f"{key}={value}" for key, value in options.items())
    label = given.get("label", f"{given['name']}({shown})"[:100] if options else given["name"])
    return {"name": given["name"], "label": label} | ({"options": options} if options else {})


def _named(given: Any, key: str) -> Any:
    """The table whose ``key`` is its name, if it is not given."""
    given = {"name": given} if isinstance(given, str) else given
    return {key: given["name"], **given} if isinstance(given, dict) and "name" in given else given


def _recipe(given: Any) -> Any:
    """The table of a recipe, as values set on top of its base."""
    given = {"base": given} if isinstance(given, str) else given
    if not isinstance(given, dict):
        return given
    changes = dict(given)
    base = changes.pop("base", None if changes else "adam")
    if base is None:
        return changes
    named = {"name": base} if isinstance(base, str) else {}
    return changed_table(named | find_recipe(base).model_dump(exclude_unset=True), changes)


def _refuse_twice(key: str, values: list[Any]) -> None:
    twice = sorted({value for value in values if values.count(value) > 1})
    if twice:
        raise RuleError(key, f"{twice[0]} is there twice; give one of them another label")
