"""The cells of a study: every configuration it runs, under a key that is its digest.

Note [Before anything runs]. Every unit is built into every backbone once. So everything that cannot
work is reported at once, with its reasons, and nothing has been written. A unit whose width cannot
be matched to the baseline's cost is left out with its reason, and the others are compared.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from typing import Any

from gatewise.data import EXAMPLES, check_options, find_set
from gatewise.errors import ArgumentError, GatewiseError
from gatewise.graph import parameter_count
from gatewise.studies.engine.config import Study, StudyTable
from gatewise.studies.engine.costs import Cost, Facts, budget, measure, with_matched_widths
from gatewise.train import (
    RunConfig,
    build_model,
    check,
    data_facts,
    find_task,
    is_text,
    load_data,
    probe,
    run_config,
    task_of,
)

# Hex digits of a key: enough for the most cells a study may have, and collisions are checked.
KEY = 16
SHOWN = 5  # problems that are spelt out in one message
# Roles of a cell: a run at the chosen learning rate, at one next to it, or to choose it.
FINAL = "final"
NEIGHBOUR = "neighbour"
TRIAL = "tuning"
TEXT = "text"
# The metrics that runs have, by what their data have labels for; other tasks name their own.
TASK_METRICS = {
    EXAMPLES: ("test_loss", "test_accuracy"),
    TEXT: ("test_loss", "test_bits_per_byte"),
}


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
    role: str = FINAL

    @property
    def lr(self) -> float | None:
        """The learning rate; None if the recipe has several."""
        return rate_of(self.config)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values; ``config`` is what :func:`gatewise.train.run_config` takes."""
        return {
            "key": self.key,
            **vars(self.place),
            "seed": self.config.seed,
            "lr": self.lr,
            "role": self.role,
            "config": plain_config(self.config),
        }


@dataclass(frozen=True)
class LeftOut:
    """A unit that is not compared on a backbone, and why."""

    place: Place
    reason: str

    def __str__(self) -> str:
        return f"{self.place.unit} in {self.place.backbone}: {self.reason}"

    def to_dict(self) -> dict[str, str]:
        """Return plain values."""
        return {**vars(self.place), "reason": self.reason}


@dataclass(frozen=True)
class StudyPlan:
    """What a study compares: its groups, and the units that are left out."""

    groups: list[Group]
    left_out: list[LeftOut]


def rate_of(config: RunConfig) -> float | None:
    """Return the learning rate of the recipe; None if its phases have one each."""
    if config.recipe.schedule.name == "phases":
        return None
    return config.recipe.optimiser.lr


def with_rate(config: RunConfig, lr: float, **changes: Any) -> RunConfig:
    """Return the configuration with another learning rate.

    The rate at which the schedule ends keeps its ratio to it.

    Args:
        config: of a recipe with one rate.
        lr: the rate.
        **changes: other fields of the configuration.
    """
    table = config.model_dump(exclude_unset=True) | changes
    before = config.recipe.optimiser.lr
    if lr != before:
        recipe = table.setdefault("recipe", {})
        recipe.setdefault("optimiser", {})["lr"] = lr
        if config.recipe.schedule.end:
            recipe["schedule"]["end"] = config.recipe.schedule.end * (lr / before)
    return check(RunConfig, table, "run")


def plain_config(config: RunConfig) -> dict[str, Any]:
    """Return what was set in the configuration, in the types of JSON."""
    return config.model_dump(mode="json", exclude_unset=True)


def make_groups(study: Study, *, data_folder: str | None = None) -> list[Group]:
    """Return the groups of :func:`plan_study`."""
    return plan_study(study, data_folder=data_folder).groups


def plan_study(study: Study, *, data_folder: str | None = None) -> StudyPlan:
    """Return every group of cells, each tried out; see Note [Before anything runs].

    Args:
        study: what to run. Widths are matched if it says so.
        data_folder: where data sets are, if not in GATEWISE_DATA.

    Raises:
        ArgumentError: with the reasons, if a unit does not work in a backbone, or if no unit can be
            matched to the baseline.
    """
    groups: list[Group] = []
    problems: list[str] = []
    for place, config in _configurations(study.table):
        try:
            group = Group(place, config, facts_of(config, data_folder))
            _try_out(group)
            _check_metric(study.table.metric, group)
            groups.append(group)
        except GatewiseError as problem:
            problems.append(f"{place.unit} in {place.backbone}: {problem}")
    if problems:
        count = study.table.size // len(study.table.seeds)
        raise _cannot_run(f"{len(problems)} of {count} combinations", problems)
    if study.table.match == "none":
        return StudyPlan(groups, [])
    plan = _match_all(groups, study.table)
    if plan.left_out and all(group.place.unit == study.table.baseline for group in plan.groups):
        reasons = [str(left) for left in plan.left_out]
        raise _cannot_run("match: all units other than the baseline", reasons)
    return plan


def _cannot_run(what: str, problems: Sequence[str]) -> ArgumentError:
    """Return the error of a study that cannot be run, with the first reasons."""
    more = f" (and {len(problems) - SHOWN} more)" if len(problems) > SHOWN else ""
    reasons = " | ".join(problems[:SHOWN])
    return ArgumentError(f"{what} cannot be run, and nothing was run: {reasons}{more}")


def cells_of(groups: Sequence[Group], seeds: Sequence[int], role: str = FINAL) -> list[Cell]:
    """Return the cells, seed by seed.

    A study that is stopped early then has the same seeds of all units.

    Args:
        groups: of the study.
        seeds: of every group.
        role: of the cells.

    Raises:
        ArgumentError: if two places of the study are the same run.
    """
    cells = []
    for seed in seeds:
        for group in groups:
            config = group.config.model_copy(update={"seed": seed})
            cells.append(Cell("", group.place, config, role))
    digests = [cell.config.digest for cell in cells]
    first: dict[str, Cell] = {}
    for cell, key in zip(cells, digests, strict=True):
        if first.setdefault(key, cell) is not cell:
            raise ArgumentError(
                "two places of the study are the same run",
                got=f"{first[key].place} and {cell.place}",
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


def examples_of(config: RunConfig, data_folder: str | None) -> int:
    """Return the size of the training set; the data are read only if nothing else says it."""
    source = find_set(config.data)
    count = config.data_options.get("train")
    if isinstance(count, int):
        return max(1, count)
    sizes = source.sizes or source.published_sizes
    if sizes is not None and data_facts(config) is not None:
        return sizes[0]
    return len(load_data(config, data_folder).train)


def _configurations(table: StudyTable) -> Iterator[tuple[Place, RunConfig]]:
    """Yield place and configuration of every combination, with the first seed."""
    pairs = []
    for backbone in table.backbones:
        pairs += [(backbone, recipe) for recipe in table.recipes_for(backbone)]
    for data, (backbone, recipe), unit in product(table.data, pairs, table.units):
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


def _check_metric(metric: str, group: Group) -> None:
    """Raise unless the metric is one that runs on these data have."""
    task = TEXT if is_text(group.facts.shape) else task_of(group.config)
    known = TASK_METRICS[task] if task in TASK_METRICS else find_task(task).metrics
    if metric not in known:
        raise ArgumentError(
            f"metric: runs on {group.config.data} do not have it",
            got=metric,
            allowed=" or ".join(known),
        )


def _match_all(groups: Sequence[Group], table: StudyTable) -> StudyPlan:
    """Return the groups at widths that cost as much as the baseline, without those that cannot."""
    targets = {}
    for group in groups:
        if group.place.unit == table.baseline:
            targets[group.place.block] = budget(group.config, group.facts, table.match)
    matched: list[Group] = []
    left_out: list[LeftOut] = []
    for group in groups:
        try:
            matched.append(_match(group, targets[group.place.block], table))
        except GatewiseError as problem:
            left_out.append(LeftOut(group.place, str(problem)))
    return StudyPlan(matched, left_out)


def _match(group: Group, target: int, table: StudyTable) -> Group:
    """Return the group at widths that cost ``target``."""
    if group.place.unit == table.baseline:
        return group
    config = with_matched_widths(
        group.config,
        group.facts,
        target,
        by=table.match,
        within=table.match_within,
    )
    before = group.config.model_options
    changed = {k: v for k, v in config.model_options.items() if before.get(k, ...) != v}
    return replace(group, config=config, matched=changed)
