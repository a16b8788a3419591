"""What Tables 6 and 7 share: networks of dense prediction on a ResNet with each activation."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch

from gatewise.graph import parameter_count
from gatewise.models import create_model
from gatewise.studies import FunctionCell
from gatewise_papers.common import (
    CellValues,
    Claim,
    Curves,
    Findings,
    Level,
    Panel,
    Row,
    Table,
    TableTraining,
    at_end,
    counted,
    curve_lines,
    judge,
    not_tested,
    row,
    table_curves,
    training_cells,
)
from gatewise_papers.iieu.experiments.counting import MILLION, agrees_as_printed
from gatewise_papers.iieu.experiments.networks import MOVED, NETWORKS, OURS

ELSEWHERE = "Meta-ACON"  # see the notes
NOTES = (
    "the networks of IIEU have their last unit before the addition, the others after it, as in the "
    "authors' code; one with ReLU before the addition stands beside them, and in no claim",
    "the activation changes in the backbone alone; decoder and heads have ReLU",
    "Meta-ACON stands in place of every ReLU of the backbone; its authors put it after the 3x3 "
    "convolutions alone, where it has fewer parameters: the claim about parameters leaves it out",
    "the paper starts from backbones trained on ImageNet; these start from random weights",
)


@dataclass(frozen=True)
class DensePrediction:
    """One table of dense prediction; plain values.

    Attributes:
        model: the network, by its name in the catalogue.
        metric: the judged part of the curves.
        metrics: all parts of the curves that the paper prints, in words.
        published: the paper's numbers in percent, by the name of the network and by part.
        parameters: that the paper prints, in millions.
        better: the claim about the metric.
        as_printed: the claim about the parameters.
        frozen: modules that the paper does not train; its parameters are without them.
        notes: besides those of both tables.
    """

    model: str
    metric: str
    metrics: Mapping[str, str]
    published: Mapping[str, Mapping[str, float]]
    parameters: Mapping[str, float]
    better: str
    as_printed: str
    frozen: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def names(self) -> tuple[str, ...]:
        """The networks of the paper."""
        return tuple(self.parameters)

    @property
    def levels(self) -> tuple[Level, ...]:
        """The baseline's metric beside the paper's."""
        printed = self.published["ReLU"][self.metric] / 100
        return (Level(f"{self.metrics[self.metric]}, ReLU", printed),)


@dataclass(frozen=True)
class DenseSettings:
    """What is trained, and how; the defaults are the paper's.

    Attributes:
        training: data and recipe.
        reduced: what differs from the paper.
        depth: of the backbone.
        networks: names; all of the table if empty.
        control: whether a network with ReLU before the addition is trained too.
        published: whether the paper's numbers are of the same data.
    """

    training: TableTraining
    reduced: str = ""
    depth: int = 50
    networks: tuple[str, ...] = ()
    control: bool = True
    published: bool = False


def dense_configurations(
    table: DensePrediction, settings: DenseSettings, seeds: tuple[int, ...]
) -> Table:
    """Return the configurations of every network of the table, one per seed.

    Args:
        table: which one.
        settings: of the scale.
        seeds: of the run.
    """
    options: dict[str, dict[str, Any]] = {}
    for name in settings.networks or table.names:
        options[name] = NETWORKS[name]
    if settings.control:
        options[MOVED] = {"unit": "relu", "placement": "before"}
    configs = {}
    for name, chosen in options.items():
        configs[name] = [
            settings.training.config(table.model, seed, depth=settings.depth, **chosen)
            for seed in seeds
        ]
    return configs


def dense_cells(
    table: DensePrediction, settings: DenseSettings, seeds: tuple[int, ...]
) -> list[FunctionCell]:
    """Return one training per network and seed.

    Args:
        table: which one.
        settings: of the scale.
        seeds: of the run.
    """
    return training_cells(dense_configurations(table, settings, seeds))


def dense_findings(table: DensePrediction, values: CellValues) -> Findings:
    """Compare the networks by the metrics of the last epoch.

    Args:
        table: which one.
        values: of the cells.
    """
    settings: DenseSettings = values.settings
    curves = table_curves(dense_configurations(table, settings, values.seeds), values)
    names = settings.networks or table.names
    counts = {name: parameters_of(table, name) / MILLION for name in names}
    rows = _measured_rows(table, settings, curves)
    for name, millions in counts.items():
        what = f"parameters, millions, at full size, {name}"
        rows.append(row(what, [millions], published=table.parameters[name]))
    others = [name for name in names if name not in OURS]
    ours = [name for name in names if name in OURS]
    test = at_end(curves, table.metric)
    claims = [
        judge(table.better, test, ours, others),
        _as_printed(table, counts),
    ]
    panels = [
        Panel("training", "epochs", "loss", curve_lines(curves, "loss")),
        Panel("test", "epochs", table.metrics[table.metric], curve_lines(curves, table.metric)),
    ]
    return Findings(panels, rows, claims, NOTES + table.notes)


def parameters_of(table: DensePrediction, name: str) -> int:
    """Return the parameters that the paper trains, of a network at its full size.

    Args:
        table: which one.
        name: of the paper's network.
    """
    with torch.device("meta"):
        network = create_model(table.model, depth=50, **NETWORKS[name])
    frozen = [network.get_submodule(part) for part in table.frozen]
    return parameter_count(network) - sum(map(parameter_count, frozen))


def _measured_rows(table: DensePrediction, settings: DenseSettings, curves: Curves) -> list[Row]:
    """Return a row for every metric of every network."""
    rows = []
    for part, words in table.metrics.items():
        for name, seeds in at_end(curves, part).items():
            printed = table.published.get(name, {}).get(part) if settings.published else None
            share = None if printed is None else printed / 100
            rows.append(row(f"{words}, {name}", seeds, published=share))
    for name, seeds in at_end(curves, "loss").items():
        rows.append(row(f"training loss of the last epoch, {name}", seeds))
    return rows


def _as_printed(table: DensePrediction, counts: Mapping[str, float]) -> Claim:
    """Judge the parameters at full size, of all networks but the one that stands elsewhere."""
    wanted = [name for name in table.parameters if name != ELSEWHERE]
    missing = [name for name in wanted if name not in counts]
    if missing:
        return not_tested(table.as_printed, f"without {', '.join(missing)}", exact=True)
    right = [name for name in wanted if agrees_as_printed(counts[name], table.parameters[name])]
    texts = [f"{name} {counts[name]:.2f} ({table.parameters[name]})" for name in wanted]
    return counted(table.as_printed, right == wanted, ", ".join(texts))
