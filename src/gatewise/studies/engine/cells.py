"""The cells of a study: every configuration it runs, under a key that is its digest.

Note [Before anything runs]. Every unit is built into every backbone once. So everything that cannot
work is reported at once, with its reasons, and nothing has been written.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from gatewise.data import check_options
from gatewise.errors import ArgumentError, GatewiseError
from gatewise.graph import parameter_count
from gatewise.studies.engine.config import Study, StudyTable
from gatewise.studies.engine.costs import Cost, Facts, budget, measure, with_matched_widths
from gatewise.train import RunConfig, build_model, data_facts, load_data, probe, run_config

# Hex digits of a key: enough for the most cells a study may have, and collisions are checked.
KEY = 16
SHOWN = 5  # problems that are spelt out in one message


@dataclass(frozen=True, order=True)
class Place:
    """Where in a study a group of cells stands: everything except the seed, by its labels."""

    unit: str
    backbone: str
    data: str
    recipe: str

    @property
    def block(self) -> tuple[str, str, str]:
        """Everything except the unit. Units are compared within a block."""
        return self.backbone, self.data, self.recipe


@dataclass(frozen=True)
class Group:
    """The cells that differ only in their seed."""

    place: Place
    config: RunConfig  # with the study's first seed
    facts: Facts
    cost: Cost | None = None
    # Options that were changed to match the cost of the baseline.
    matched: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Cell:
    """One run of a study."""

    key: str
    place: Place
    config: RunConfig

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; ``config`` is what :func:`gatewise.train.run_config` takes."""
        return {
            "key": self.key,
            **vars(self.place),
            "seed": self.config.seed,
            "config": plain_config(self.config),
        }


def plain_config(config: RunConfig) -> dict[str, Any]:
    """Return what was set in the configuration, in the types of JSON."""
    return config.model_dump(mode="json", exclude_unset=True)


def make_groups(study: Study, *, data_folder: str | None = None) -> list[Group]:
    """Return every group of cells, each tried out; see Note [Before anything runs].

    Args:
        study: what to run. Widths are matched if it says so.
        data_folder: where data sets are, if not in GATEWISE_DATA.

    Raises:
        ArgumentError: with the reasons, if a unit does not work in a backbone.
    """
    groups: list[Group] = []
    problems: list[str] = []
    for place, config in _configurations(study.table):
        try:
            group = Group(place, config, facts_of(config, data_folder))
            _try_out(group)
            groups.append(group)
        except GatewiseError as problem:
            problems.append(f"{place.unit} in {place.backbone}: {problem}")
    if not problems and study.table.match != "none":
        groups, problems = _match_all(groups, study.table)
    if problems:
        count = study.table.size // len(study.table.seeds)
        more = f" (and {len(problems) - SHOWN} more)" if len(problems) > SHOWN else ""
        raise ArgumentError(
            f"{len(problems)} of {count} combinations cannot be run, and nothing was run: "
            + " | ".join(problems[:SHOWN])
            + more
        )
    return groups


def cells_of(groups: Sequence[Group], seeds: Sequence[int]) -> list[Cell]:
    """Return the cells, seed by seed.

    A study that is stopped early then has the same seeds of all units.

    Args:
        groups: of the study.
        seeds: of every group.

    Raises:
        ArgumentError: if two places of the study are the same run.
    """
    cells = []
    for seed in seeds:
        for group in groups:
            cells.append(Cell("", group.place, group.config.model_copy(update={"seed": seed})))
    digests = [cell.config.digest for cell in cells]
    if len(set(digests)) < len(digests):
        second = next(place for place, key in enumerate(digests) if digests.index(key) < place)
        first = digests.index(digests[second])
        raise ArgumentError(
            "two places of the study are the same run",
            got=f"{cells[first].place} and {cells[second].place}",
            fix="leave one of them out",
        )
    unique = len({key[:KEY] for key in digests}) == len(digests)
    length = KEY if unique else None
    return [replace(cell, key=key[:length]) for cell, key in zip(cells, digests, strict=True)]


def with_costs(groups: Sequence[Group], known: Mapping[str, Cost]) -> list[Group]:
    """Return the groups with their costs.

    Args:
        groups: of the study.
        known: costs that were counted before, by the digest of the configuration.
    """
    counted = []
    for group in groups:
        cost = known.get(group.config.digest) or measure(group.config, group.facts)
        counted.append(replace(group, cost=cost))
    return counted


def facts_of(config: RunConfig, data_folder: str | None) -> Facts:
    """Return classes and shape of the data; the data are read only if nothing else says them."""
    check_options(config.data, config.data_options)
    known = data_facts(config)
    if known is None:
        data = load_data(config, data_folder)
        known = data.classes, data.shape
    return Facts(*known)


def _configurations(table: StudyTable) -> Iterator[tuple[Place, RunConfig]]:
    """Yield place and configuration of every combination, with the first seed."""
    combinations = product(table.data, table.all_recipes, table.backbones, table.units)
    for data, recipe, backbone, unit in combinations:
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


def _try_out(group: Group) -> None:
    """Raise unless the network can be built, reads the data and has something to train."""
    facts = group.facts
    network = build_model(group.config, classes=facts.classes, shape=facts.shape)
    probe(group.config, network, classes=facts.classes, shape=facts.shape)
    if not parameter_count(network):
        raise ArgumentError("the network has no trainable parameters", got=group.config.model)


def _match_all(groups: Sequence[Group], table: StudyTable) -> tuple[list[Group], list[str]]:
    """Return the groups at widths that cost as much as the baseline, and the problems."""
    targets = {}
    for group in groups:
        if group.place.unit == table.baseline:
            targets[group.place.block] = budget(group.config, group.facts, table.match)
    matched: list[Group] = []
    problems: list[str] = []
    for group in groups:
        try:
            matched.append(_match(group, targets[group.place.block], table))
        except GatewiseError as problem:
            problems.append(f"{group.place.unit} in {group.place.backbone}: {problem}")
    return matched, problems


def _match(group: Group, target: int, table: StudyTable) -> Group:
    """Return the group at widths that cost ``target``."""
    if group.place.unit == table.baseline:
        return group
    config = with_matched_widths(
        group.config, group.facts, target, by=table.match, within=table.match_within
    )
    before = group.config.model_options
    changed = {k: v for k, v in config.model_options.items() if before.get(k, ...) != v}
    return replace(group, config=config, matched=changed)
