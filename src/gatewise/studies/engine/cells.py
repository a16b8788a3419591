"""The cells of a study.

Every configuration it runs, under a key that is the digest of the configuration.

Note [Before anything runs]. Every unit is put into every backbone once, so that all that cannot
work is said at once, with its reasons, and nothing has been written.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from gatewise.data import check_options
from gatewise.errors import ArgumentError, GatewiseError
from gatewise.graph import parameter_count
from gatewise.studies.engine.config import Study, StudyTable
from gatewise.studies.engine.costs import Cost, Facts, measure
from gatewise.studies.engine.widths import budget, with_matched_widths
from gatewise.train import RunConfig, build_model, data_facts, load_data, probe, run_config

KEY = (
    16  # hex digits of a key: enough for the most cells a study may have, and checked all the same
)
SHOWN = 5  # problems that are spelt out in one message


@dataclass(frozen=True, order=True)
class Place:
    """Where in a study a group of cells stands: everything but the seed, by its labels."""

    unit: str
    backbone: str
    data: str
    recipe: str

    @property
    def block(self) -> tuple[str, str, str]:
        """Everything but the unit: what is compared with each other."""
        return self.backbone, self.data, self.recipe


@dataclass(frozen=True)
class Group:
    """The cells that differ by nothing but their seed."""

    place: Place
    config: RunConfig  # with the study's first seed
    facts: Facts
    cost: Cost | None = None
    matched: Mapping[str, Any] = field(
        default_factory=dict
    )  # options that were changed to match the baseline's cost


@dataclass(frozen=True)
class Cell:
    """One run of a study."""

    key: str
    place: Place
    config: RunConfig

    def to_dict(self) -> dict[str, Any]:
        """Plain values; ``config`` is what :func:`gatewise.train.run_config` takes."""
        return {
            "key": self.key,
            **vars(self.place),
            "seed": self.config.seed,
            "config": plain_config(self.config),
        }


def plain_config(config: RunConfig) -> dict[str, Any]:
    """What was set in the configuration, in the types that JSON has."""
    return config.model_dump(mode="json", exclude_unset=True)


def make_groups(study: Study, *, data_folder: str | None = None) -> list[Group]:
    """Every group of cells, each tried out; see Note [Before anything runs].

    Widths are matched if the study says.
    """
    groups, problems = [], []
    for place, config in _configurations(study.table):
        try:
            groups.append(_tried(Group(place, config, facts_of(config, data_folder))))
        except GatewiseError as problem:
            problems.append(f"{place.unit} in {place.backbone}: {problem}")
    if not problems and study.table.match != "none":
        groups, problems = _matched(groups, study.table)
    if problems:
        more = f" (and {len(problems) - SHOWN} more)" if len(problems) > SHOWN else ""
        raise ArgumentError(
            f"{len(problems)} of {study.table.size // len(study.table.seeds)} places cannot be run, and nothing was: "
            + " | ".join(problems[:SHOWN])
            + more
        )
    return groups


def cells_of(groups: Sequence[Group], seeds: Sequence[int]) -> list[Cell]:
    """The cells, seed by seed, so that a study stopped early has the same seeds of all units."""
    made = [
        Cell("", group.place, group.config.model_copy(update={"seed": seed}))
        for seed in seeds
        for group in groups
    ]
    digests = [cell.config.digest for cell in made]
    if len(set(digests)) < len(digests):
        twice = next(place for place, each in enumerate(digests) if digests.index(each) < place)
        pair = made[digests.index(digests[twice])].place, made[twice].place
        raise ArgumentError(
            "two places of the study are the same run",
            got=f"{pair[0]} and {pair[1]}",
            fix="leave one of them out",
        )
    length = KEY if len({each[:KEY] for each in digests}) == len(digests) else None
    return [replace(cell, key=each[:length]) for cell, each in zip(made, digests, strict=True)]


def with_costs(groups: Sequence[Group], known: Mapping[str, Cost]) -> list[Group]:
    """The groups with their costs, those that are ``known`` by the digest of the configuration not counted again."""
    return [
        replace(group, cost=known.get(group.config.digest) or measure(group.config, group.facts))
        for group in groups
    ]


def facts_of(config: RunConfig, data_folder: str | None) -> Facts:
    """Classes and shape of the data, which are read only if nothing else can say."""
    check_options(config.data, config.data_options)
    known = data_facts(config)
    if known is None:
        data = load_data(config, data_folder)
        known = data.classes, data.shape
    return Facts(*known)


def _configurations(table: StudyTable) -> Iterator[tuple[Place, RunConfig]]:
    for data, recipe, backbone, unit in product(
        table.data, table.all_recipes, table.backbones, table.units
    ):
        config = run_config(
            model=backbone.model,
            unit=unit.choice,
            model_options=backbone.options,
            data=data.name,
            data_options=data.options,
            recipe=recipe.recipe,
            seed=table.seeds[0],
            evaluate_every=table.evaluate_every,
        )
        yield Place(unit.label, backbone.name, data.label, recipe.name), config


def _tried(group: Group) -> Group:
    """The group, if its network can be built and reads the data."""
    facts = group.facts
    network = build_model(group.config, classes=facts.classes, shape=facts.shape)
    probe(group.config, network, classes=facts.classes, shape=facts.shape)
    if not parameter_count(network):
        raise ArgumentError("the network has nothing to train", got=group.config.model)
    return group


def _matched(groups: Sequence[Group], table: StudyTable) -> tuple[list[Group], list[str]]:
    """The groups at widths that cost what the baseline does in the same block, and what stands against it."""
    bases = [group for group in groups if group.place.unit == table.baseline]
    targets = {base.place.block: budget(base.config, base.facts, table.match) for base in bases}
    found, problems = [], []
    for group in groups:
        try:
            found.append(_matched_to(group, targets[group.place.block], table))
        except GatewiseError as problem:
            problems.append(f"{group.place.unit} in {group.place.backbone}: {problem}")
    return found, problems


def _matched_to(group: Group, target: int, table: StudyTable) -> Group:
    if group.place.unit == table.baseline:
        return group
    config = with_matched_widths(
        group.config, group.facts, target, by=table.match, within=table.match_within
    )
    before = group.config.model_options
    return replace(
        group,
        config=config,
        matched={k: v for k, v in config.model_options.items() if before.get(k, ...) != v},
    )
