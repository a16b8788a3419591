"""A study as data: units x backbones x data x recipes x seeds, in one checked TOML file."""

from collections.abc import Mapping
from copy import deepcopy
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
    metric_mode,
    parse,
    read_text,
)

PRESETS = Path(__file__).parents[1] / "presets"
SEEDS = 10  # unless the study says otherwise
MOST_SEEDS = 1000
MOST_CELLS = 100_000
STUDY_RECIPE = "study"  # as the base of a backbone's recipe: the recipe of the study
LARGEST_MARGIN = 0.1  # of an accuracy: more is surely meant in per cent
METRICS = ("test_accuracy", "test_loss", "test_bits_per_byte", "test_iou", "test_map")
SHARES = ("test_accuracy", "test_iou", "test_map")

Label = Annotated[str, Field(min_length=1, max_length=100)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]


class UnitChoice(Part):
    """A unit with its options, and its label in tables."""

    name: Name
    label: Label
    options: Options = Field(default_factory=dict)

    @property
    def choice(self) -> str | dict[str, Any]:
        """The value for a network's option ``unit``."""
        if self.options:
            return {"name": self.name, **self.options}
        return self.name


class NamedRecipe(Recipe):
    """A recipe, and its name in tables."""

    name: Label = "recipe"

    @property
    def recipe(self) -> Recipe:
        """The recipe alone."""
        return Recipe.model_validate(self.model_dump(exclude={"name"}, exclude_unset=True))


class Backbone(Part):
    """A network of the catalogue with its options, and a recipe if it has one of its own."""

    name: Label
    model: Name
    options: Options = Field(default_factory=dict)
    recipe: NamedRecipe | None = None


class DataChoice(Part):
    """A data set with its options."""

    name: Name
    label: Label
    options: Options = Field(default_factory=dict)


class Tune(Part):
    """How the learning rate of each unit on every backbone is chosen.

    Every unit tries the same rates with the same budget, on training examples that are held out;
    the test set is not used. See Note [How a rate is chosen] in :mod:`tuning`.

    ``mode`` is ``"quick"`` (15 runs for each unit and backbone), ``"full"`` (22 runs, and both
    neighbouring rates are always run) or ``"none"``. ``lr`` replaces the five rates around the
    recipe's, and is then not widened. ``seeds`` runs every rate with so many seeds in place of the
    rounds of the mode. Each run holds out one of ``folds`` parts of the training set. ``epochs``
    replaces the recipe's in tuning runs (0: as many as the recipe has).
    """

    mode: Literal["quick", "full", "none"] = "quick"
    lr: Annotated[list[Rate], Field(min_length=2, max_length=20)] | None = None
    seeds: Annotated[int, Field(ge=0, le=100)] = 0
    folds: Annotated[int, Field(ge=2, le=100)] = 5
    epochs: Annotated[int, Field(ge=0, le=1_000_000)] = 0

    @model_validator(mode="after")
    def _check_rates(self) -> "Tune":
        """Check that there is something to choose from."""
        if self.mode == "none" and self.model_fields_set - {"mode"}:
            raise RuleError("mode", 'nothing is tuned; leave "none" or the other keys out')
        if self.lr:
            _refuse_repeated("lr", self.lr)
        return self

    @property
    def name(self) -> str:
        """The mode, or ``"custom"`` for a plan of the user."""
        return "custom" if self.seeds else self.mode


class StudyTable(Part):
    """The content of a study's file, in its full form. :func:`complete` takes the short forms."""

    title: Text = ""
    name: Label = "study"
    units: Annotated[list[UnitChoice], Field(min_length=1, max_length=100)]
    baseline: Label
    seeds: Annotated[list[Seed], Field(min_length=1, max_length=MOST_SEEDS)] = Field(
        default_factory=lambda: list(range(SEEDS))
    )
    backbones: Annotated[list[Backbone], Field(min_length=1, max_length=100)]
    data: Annotated[list[DataChoice], Field(min_length=1, max_length=100)]
    recipe: NamedRecipe | None = None
    recipes: Annotated[list[NamedRecipe], Field(max_length=100)] = Field(default_factory=list)
    match: Literal["none", "parameters", "flops"] = "none"
    match_within: Annotated[float, Field(gt=0, le=0.5)] = 0.02
    tune: Tune = Tune()
    margin: Annotated[float, Field(gt=0, le=1e9)] | None = None
    evaluate_every: Epochs = 1
    metric: Literal["test_accuracy", "test_loss", "test_bits_per_byte", "test_iou", "test_map"] = (
        "test_accuracy"
    )

    @model_validator(mode="after")
    def _check_whole(self) -> "StudyTable":
        """Check what concerns several keys."""
        _refuse_repeated("units", [unit.label for unit in self.units])
        _refuse_repeated("backbones", [backbone.name for backbone in self.backbones])
        _refuse_repeated("data", [data.label for data in self.data])
        _refuse_repeated("recipes", [recipe.name for recipe in self.all_recipes])
        _refuse_repeated("seeds", self.seeds)
        if (self.recipe is None) == (not self.recipes):
            raise RuleError("recipe", "either one recipe or a list of recipes")
        labels = [unit.label for unit in self.units]
        if self.baseline not in labels:
            near = get_close_matches(self.baseline, labels, n=1)
            hint = f", did you mean {near[0]!r}?" if near else ""
            raise RuleError("baseline", f"{self.baseline} is none of {', '.join(labels)}{hint}")
        if self.margin and self.metric in SHARES and self.margin >= LARGEST_MARGIN:
            raise RuleError(
                "margin",
                f"it is a share of 1: {self.margin / 100:g} for {self.margin:g} points",
            )
        if self.size > MOST_CELLS:
            raise RuleError("seeds", f"{self.size} runs, but at most {MOST_CELLS} are allowed")
        return self

    @property
    def higher_is_better(self) -> bool:
        """The direction of the metric."""
        return metric_mode(self.metric) == "max"

    @property
    def all_recipes(self) -> list[NamedRecipe]:
        """The one recipe, or all of them."""
        return [self.recipe] if self.recipe else self.recipes

    def recipes_for(self, backbone: Backbone) -> list[NamedRecipe]:
        """Return the backbone's own recipe, or those of the study."""
        return [backbone.recipe] if backbone.recipe else self.all_recipes

    @property
    def size(self) -> int:
        """The number of final runs."""
        recipes = sum(len(self.recipes_for(backbone)) for backbone in self.backbones)
        return len(self.units) * len(self.data) * recipes * len(self.seeds)


@dataclass(frozen=True)
class Study:
    r"""Units compared on backbones, data sets, recipes and seeds.

    >>> study = Study.read('units = ["relu", "crelu"]\nbackbones = ["mlp"]\nseeds = 2')
    >>> study.table.size
    4
    """

    table: StudyTable

    @classmethod
    def load(cls, name: str | Path, changes: Mapping[str, Any] | None = None) -> "Study":
        """Return the study of a file, or a preset of the library.

        Args:
            name: of a preset, or a path that ends in ``.toml``.
            changes: values that replace keys of the file.
        """
        name = str(name)
        if not name.endswith(".toml") and name not in presets():
            raise unknown_name("study", name, [*presets(), "FILE.toml"])
        path = Path(name) if name.endswith(".toml") else PRESETS / f"{name}.toml"
        text = read_text(path, "study")
        where = path.name if path.parent == PRESETS else name
        table = {**parse(text, where), **(changes or {})}
        return cls.of(table, where=where, text=text, name=path.stem)

    @classmethod
    def read(cls, text: str, *, where: str = "study", name: str = "study") -> "Study":
        """Return the study that the TOML ``text`` describes.

        Args:
            text: TOML.
            where: the name of the text in error messages.
            name: of the study, if the text has none.
        """
        return cls.of(parse(text, where), where=where, text=text, name=name)

    @classmethod
    def of(
        cls,
        table: Mapping[str, Any],
        *,
        where: str = "study",
        text: str = "",
        name: str = "study",
    ) -> "Study":
        """Return the study that a table describes, in the full or in the short form.

        Args:
            table: what a file would hold.
            where: the name of the table in error messages.
            text: the TOML it was read from, for line numbers in error messages.
            name: of the study, if the table has none.
        """
        full = complete({"name": name[:100] or "study", **table}, where)
        return cls(check(StudyTable, full, where, text))

    @property
    def plain(self) -> dict[str, Any]:
        """The study in its full form, in the types of JSON."""
        return self.table.model_dump(mode="json", exclude_unset=True)


@cache
def presets() -> tuple[str, ...]:
    """Return the names of the studies that come with the library."""
    return tuple(sorted(path.stem for path in PRESETS.glob("*.toml")))


def complete(table: Mapping[str, Any], where: str = "study") -> dict[str, Any]:
    """Return the full form of a table that may be in the short form.

    A unit, backbone or data set may be its name alone, and ``data`` one data set or a list. The
    options of a unit may stand beside its name. ``seeds`` may be a number of seeds. The baseline is
    the first unit unless it is named. A recipe may be a name, or a table with a ``base`` whose
    values it changes; the base of a backbone's recipe may be ``"study"``, the recipe of the study.
    ``tune`` may be a mode, or false.

    Args:
        table: what a file says. A value of a wrong type is left as it is, to be refused with its
            place later.
        where: the name of the table in error messages.
    """
    full = dict(table)
    if "recipe" in full or "recipes" not in full:
        full["recipe"] = _recipe_table(full.get("recipe", {}))
    if isinstance(full.get("recipes"), list):
        full["recipes"] = [_recipe_table(recipe) for recipe in full["recipes"]]
    if isinstance(full.get("units"), list):
        full["units"] = [unit_table(unit) for unit in full["units"]]
        if full["units"] and isinstance(full["units"][0], dict):
            full.setdefault("baseline", full["units"][0].get("label"))
    if isinstance(full.get("backbones"), list):
        recipe = full.get("recipe")
        full["backbones"] = [_backbone_table(one, recipe, where) for one in full["backbones"]]
    data = full.get("data", "digits")
    choices = data if isinstance(data, list) else [data]
    full["data"] = [_named_table(choice, "label") for choice in choices]
    full["seeds"] = _seed_list(full.get("seeds", SEEDS), where)
    full["tune"] = _tune_table(full.get("tune", "quick"))
    return {key: value for key, value in full.items() if value is not None}


def _seed_list(seeds: Any, where: str) -> Any:
    """Return the seeds 0, 1, ... if ``seeds`` is a number of them."""
    if not isinstance(seeds, int) or isinstance(seeds, bool):
        return seeds
    if not 1 <= seeds <= MOST_SEEDS:
        raise ArgumentError(
            f"{where}: seeds is not allowed",
            got=seeds,
            allowed=f"1 to {MOST_SEEDS}, or a list",
        )
    return list(range(seeds))


def unit_table(unit: Any) -> Any:
    """Return a unit's table with name, label and options.

    Args:
        unit: its name, or a table with options beside the name. Anything else is returned as it
            is.
    """
    if isinstance(unit, str):
        return {"name": unit, "label": unit}
    if not isinstance(unit, dict) or not isinstance(unit.get("name"), str):
        return unit
    if "options" in unit:
        return {"label": unit["name"], **unit}
    options = {key: value for key, value in unit.items() if key not in ("name", "label")}
    if not options:
        return {"name": unit["name"], "label": unit.get("label", unit["name"])}
    shown = ", ".join(f"{key}={value}" for key, value in options.items())
    label = unit.get("label", f"{unit['name']}({shown})"[:100])
    return {"name": unit["name"], "label": label, "options": options}


def _named_table(choice: Any, key: str) -> Any:
    """Return the table of a choice; its ``key`` is its name unless it says otherwise."""
    if isinstance(choice, str):
        choice = {"name": choice}
    if isinstance(choice, dict) and "name" in choice:
        return {key: choice["name"], **choice}
    return choice


def _tune_table(tune: Any) -> Any:
    """Return the table of ``tune``, which may be a mode alone or a truth value."""
    if isinstance(tune, bool):
        tune = "quick" if tune else "none"
    return {"mode": tune} if isinstance(tune, str) else tune


def _backbone_table(backbone: Any, study_recipe: Any, where: str) -> Any:
    """Return the table of a backbone, its recipe in full."""
    table = _named_table(backbone, "model")
    if not isinstance(table, dict) or "recipe" not in table:
        return table
    recipe = table["recipe"]
    if not isinstance(recipe, dict) or recipe.get("base") != STUDY_RECIPE:
        return {**table, "recipe": _recipe_table(recipe)}
    if not isinstance(study_recipe, dict):
        raise ArgumentError(
            f"{where}: the recipe of backbone {table.get('name')!r} changes that of the study",
            got="a study with several recipes",
            fix='one recipe for the study, or another base than "study"',
        )
    changes = {key: value for key, value in recipe.items() if key != "base"}
    return {**table, "recipe": changed_table(deepcopy(study_recipe), changes)}


def _recipe_table(recipe: Any) -> Any:
    """Return the table of a recipe: its own values on top of those of its base."""
    if isinstance(recipe, str):
        recipe = {"base": recipe}
    if not isinstance(recipe, dict):
        return recipe
    changes = dict(recipe)
    base = changes.pop("base", None if changes else "adam")
    if base is None:
        return changes
    name = {"name": base} if isinstance(base, str) else {}
    return changed_table(name | find_recipe(base).model_dump(exclude_unset=True), changes)


def _refuse_repeated(key: str, values: list[Any]) -> None:
    """Raise if a value appears twice."""
    repeated = sorted({value for value in values if values.count(value) > 1})
    if repeated:
        raise RuleError(key, f"{repeated[0]} appears twice; give one of them another label")
