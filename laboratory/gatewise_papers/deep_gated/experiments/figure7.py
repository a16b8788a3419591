"""Figure 7, Experiments 3 to 5: adapting, frozen and learned gates on Binary-MNIST."""

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial
from typing import Any

from gatewise.stats import finite
from gatewise.studies import CellCall, FunctionCell
from gatewise_papers.common import (
    CellValues,
    Claim,
    Experiment,
    Findings,
    Level,
    Line,
    Numbers,
    Panel,
    Row,
    column,
    depends_on,
    judge,
    line,
    row,
)
from gatewise_papers.deep_gated.experiments.shared import (
    LEAST_TEST,
    TRAINING_CURVES,
    BinaryMnistSettings,
    fit,
    network,
    published,
    read_mnist,
    with_gates_of,
)

Curves = dict[str, Any]  # "loss" and "test", by seed
ADAPTING = ("soft-GaLU", "soft-ReLU", "ReLU")
FROZEN = "GaLU"
SAME_START = "ReLU, gates of its start"
LEARNED = "GaLU, learned gates"
NOTES = (
    "the paper gives neither batch size nor, for Experiments 3 and 4, the number of epochs: "
    "64, and as many as in 5",
    "soft gates have beta = 4 as in the paper and eps = 0.1, which it does not give here",
    "best accuracies are those of the best epoch, as in the paper's Table 4; "
    "claims are judged by the last epoch",
)


@dataclass(frozen=True)
class GatedFigure7Settings(BinaryMnistSettings):
    """Sizes, and whose networks are shown."""

    networks_of: str = ""  # the experiment that trained most of these networks; none: this one


def cells(settings: GatedFigure7Settings, seeds: tuple[int, ...]) -> list[FunctionCell]:
    """Return one cell for each kind of network that no other experiment has trained."""
    kinds: dict[str, Any] = {SAME_START: partial(train, SAME_START, "galu", {"same_start": True})}
    if not settings.networks_of:
        kinds |= {
            "soft-GaLU": partial(train, "soft-GaLU", "soft_galu", {"beta": 4.0}),
            "soft-ReLU": partial(train, "soft-ReLU", "soft_relu", {"beta": 4.0}),
            "ReLU, then a GaLU with its gates": relu_then_its_gates,
            FROZEN: partial(train, FROZEN, "galu", {}),
        }
    depends = depends_on(settings, seeds)
    return [
        FunctionCell(name, partial(function, settings, seeds), depends)
        for name, function in kinds.items()
    ]


def sizes(settings: GatedFigure7Settings) -> dict[str, Any]:
    """Return the settings that the networks of another experiment must have."""
    found = {field.name: getattr(settings, field.name) for field in fields(BinaryMnistSettings)}
    del found["reduced"]
    return found


def train(
    name: str,
    gate: str,
    options: dict[str, Any],
    settings: GatedFigure7Settings,
    seeds: tuple[int, ...],
    _: CellCall,
) -> dict[str, Curves]:
    """Train one kind of network with every seed.

    Args:
        name: of the networks.
        gate: the kind of gates.
        options: of the networks.
        settings: sizes.
        seeds: of the networks.
    """
    networks = [network(gate, settings, seed, **options) for seed in seeds]
    return {name: fit(networks, settings, seeds)[1]}


def relu_then_its_gates(
    settings: GatedFigure7Settings, seeds: tuple[int, ...], _: CellCall
) -> dict[str, Curves]:
    """Train ReLU networks, then GaLU networks with their gates.

    Args:
        settings: sizes.
        seeds: of the networks.
    """
    networks = [network("relu", settings, seed) for seed in seeds]
    trained, relu = fit(networks, settings, seeds)
    _trained, learned = fit(with_gates_of(trained, settings, seeds), settings, seeds)
    return {"ReLU": relu, LEARNED: learned}


def findings(values: CellValues) -> Findings:
    """Compare the four networks of Experiment 3, then those of Experiments 4 and 5."""
    curves: dict[str, Curves] = {}
    for name in (*ADAPTING, LEARNED, FROZEN, SAME_START):
        curves[name] = {}
        for part in TRAINING_CURVES:
            by_seed = values.measured(name, part)
            curves[name][part] = [by_seed[seed] for seed in values.seeds]
    claims = [
        _better(published.ADAPTING_BEATS_FROZEN_GATES, curves, ADAPTING, FROZEN),
        _better(published.ADAPTING_BEATS_SAME_START, curves, ("ReLU",), SAME_START),
        _better(published.LEARNED_BEATS_UNLEARNED, curves, (LEARNED,), FROZEN),
    ]
    return Findings(_panels(curves), _rows(curves), claims, (*NOTES, *values.read.notes))


def _panels(curves: dict[str, Curves]) -> list[Panel]:
    """Return the plots of the training loss and of the three experiments."""
    losses = [_loss_line(name, curves) for name in (*ADAPTING, FROZEN)]
    return [
        Panel("training", "epochs", "mean squared error", losses, log_y=True),
        _test_panel("test, Experiment 3", (*ADAPTING, FROZEN), curves),
        _test_panel("test, Experiment 5", (LEARNED, FROZEN), curves),
        _test_panel("test, Experiment 4", ("ReLU", SAME_START), curves),
    ]


def _loss_line(name: str, curves: dict[str, Curves]) -> Line:
    """Return the training loss by epoch."""
    losses = curves[name]["loss"]
    return line(name, range(1, len(losses[0]) + 1), losses)


def _test_panel(title: str, names: Sequence[str], curves: dict[str, Curves]) -> Panel:
    """Return the test accuracies after each epoch; before the first, every network guesses."""
    lines = []
    for name in names:
        tests = [seed[1:] for seed in curves[name]["test"]]
        lines.append(line(name, range(1, len(tests[0]) + 1), tests))
    return Panel(title, "epochs", "test accuracy", lines)


def _rows(curves: dict[str, Curves]) -> list[Row]:
    """Return rows of last and best test accuracy and last loss."""
    rows = []
    for name, cell in curves.items():
        best = [max(finite(seed), default=None) for seed in cell["test"]]
        losses = column(cell["loss"], -1)
        rows.append(row(f"test accuracy at the end, {name}", _last(cell)))
        rows.append(row(f"best test accuracy, {name}", best))
        rows.append(row(f"training loss of the last epoch, {name}", losses))
    return rows


def _last(curves: Curves) -> Numbers:
    """Return the last test accuracy by seed."""
    return column(curves["test"], -1)


def _better(claim: str, curves: dict[str, Curves], better: tuple[str, ...], worse: str) -> Claim:
    """Judge that each of ``better`` has a higher test accuracy than ``worse``."""
    return judge(claim, {name: _last(cell) for name, cell in curves.items()}, better, [worse])


FULL = GatedFigure7Settings()
EXPERIMENT = Experiment(
    name="deep_gated/figure7",
    title="adapting, frozen and learned gates, Binary-MNIST",
    scales={
        "tiny": FULL.tiny(),
        "desk": replace(FULL, networks_of="deep_gated/figure8"),
        "full": FULL,
    },
    cells=cells,
    findings=findings,
    read_data=read_mnist,
    trained_with=sizes,
    seeds=8,  # the paper has 5
    own_loop=True,
    levels=(Level("test accuracy at the end, ReLU", at_least=LEAST_TEST),),
    needs=("MNIST",),
)
