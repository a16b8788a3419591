"""Figure 7, Experiments 3 to 5.

Adapting against frozen gates, and learned against unlearned ones, on Binary-MNIST.
"""

from dataclasses import replace
from typing import Any

from gatewise.papers.common import (
    Claim,
    Experiment,
    Findings,
    Numbers,
    Panel,
    Run,
    deviation,
    finite,
    line,
    mean,
    row,
)
from gatewise.papers.deep_gated.shared import Settings, fit, network, published, with_gates_of

Cell = dict[str, Any]
ADAPTING = ("soft-GaLU", "soft-ReLU", "ReLU")
FROZEN, SAME_START, LEARNED = "GaLU", "ReLU, gates of its start", "GaLU, learned gates"


def measure(run: Run) -> Findings:
    """Train the four networks of Experiment 3, then those of Experiments 4 and 5."""
    sizes: Settings = run.settings

    def train(gate: str, **options: Any) -> Cell:
        return fit([network(gate, sizes, seed, **options) for seed in run.seeds], sizes, run.seeds)[
            1
        ]

    def relu_then_its_gates() -> dict[str, Cell]:
        trained, relu = fit([network("relu", sizes, seed) for seed in run.seeds], sizes, run.seeds)
        learned = fit(with_gates_of(trained, sizes, run.seeds), sizes, run.seeds)[1]
        return {"ReLU": relu, LEARNED: learned}

    found: dict[str, Cell] = {
        "soft-GaLU": run.cell("soft-GaLU", lambda: train("soft_galu", beta=4.0)),
        "soft-ReLU": run.cell("soft-ReLU", lambda: train("soft_relu", beta=4.0)),
        **run.cell("ReLU, then a GaLU with its gates", relu_then_its_gates),
        FROZEN: run.cell(FROZEN, lambda: train("galu")),
        SAME_START: run.cell(SAME_START, lambda: train("galu", same_start=True)),
    }
    return Findings(_panels(found), _rows(found), _claims(found), NOTES)


NOTES = (
    "the paper gives neither batch size nor, for Experiments 3 and 4, the number of epochs: 64, and as many as in 5",
    "soft gates have beta = 4 as in the paper and eps = 0.1, which it does not give here",
    "best accuracies are those of the best epoch, as in the paper's Table 4; claims are judged by the last epoch",
)


def _panels(found: dict[str, Cell]) -> list[Panel]:
    four = (*ADAPTING, FROZEN)
    return [
        Panel(
            "training",
            "epochs",
            "mean squared error",
            [_loss(name, found) for name in four],
            log_y=True,
        ),
        Panel(
            "test, Experiment 3", "epochs", "test accuracy", [_test(name, found) for name in four]
        ),
        Panel(
            "test, Experiment 5",
            "epochs",
            "test accuracy",
            [_test(name, found) for name in (LEARNED, FROZEN)],
        ),
        Panel(
            "test, Experiment 4",
            "epochs",
            "test accuracy",
            [_test(name, found) for name in ("ReLU", SAME_START)],
        ),
    ]


def _loss(name: str, found: dict[str, Cell]) -> Any:
    losses = found[name]["loss"]
    return line(name, range(1, len(losses[0]) + 1), losses)


def _test(name: str, found: dict[str, Cell]) -> Any:
    """From the first epoch on: before it, every network guesses."""
    tests = [seed[1:] for seed in found[name]["test"]]
    return line(name, range(1, len(tests[0]) + 1), tests)


def _last(cell: Cell) -> Numbers:
    return [seed[-1] for seed in cell["test"]]


def _best(seed: Numbers) -> float | None:
    return max(finite(seed), default=None)


def _rows(found: dict[str, Cell]) -> list:
    return [
        each
        for name, cell in found.items()
        for each in (
            row(f"test accuracy at the end, {name}", _last(cell)),
            row(f"best test accuracy, {name}", [_best(seed) for seed in cell["test"]]),
            row(f"training loss of the last epoch, {name}", [seed[-1] for seed in cell["loss"]]),
        )
    ]


def _claims(found: dict[str, Cell]) -> list[Claim]:
    return [
        _better(published.ADAPTING_BEATS_FROZEN_GATES, found, ADAPTING, FROZEN),
        _better(published.ADAPTING_BEATS_SAME_START, found, ("ReLU",), SAME_START),
        _better(published.LEARNED_BEATS_UNLEARNED, found, (LEARNED,), FROZEN),
    ]


def _better(said: str, found: dict[str, Cell], better: tuple[str, ...], worse: str) -> Claim:
    """Whether each of ``better`` has a higher mean test accuracy than ``worse``.

    Seeds are compared one by one too.
    """
    base, texts = _last(found[worse]), [f"{worse} {_in_words(_last(found[worse]))}"]
    for name in better:
        pairs = zip(_last(found[name]), base, strict=True)
        wins = sum(a > b for a, b in pairs if a is not None and b is not None)
        texts.append(
            f"{name} {_in_words(_last(found[name]))}, above in {wins} of {len(base)} seeds"
        )
    return Claim(
        said, all(_mean(found[name]) > _mean(found[worse]) for name in better), "; ".join(texts)
    )


def _mean(cell: Cell) -> float:
    return mean(finite(_last(cell)))


def _in_words(values: Numbers) -> str:
    return f"{100 * mean(finite(values)):.2f} ± {100 * deviation(finite(values)):.2f} %"


FULL = Settings()
EXPERIMENT = Experiment(
    name="deep_gated/figure7",
    title="adapting, frozen and learned gates, Binary-MNIST",
    scales={
        "tiny": replace(
            FULL, reduced="w=10, 300 images, 2 epochs", width=10, examples=300, epochs=2, subset=10
        ),
        "cpu": replace(FULL, reduced="12 epochs", epochs=12),
        "full": FULL,
    },
    measure=measure,
    needs=("MNIST",),
)
