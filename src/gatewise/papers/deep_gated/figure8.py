"""Figure 8: nu of the tangent kernel and of its gates' part, along the training of Experiments 3 and 5."""

from dataclasses import replace
from typing import Any

from gatewise.papers.common import Claim, Experiment, Findings, Panel, Row, Run, row
from gatewise.papers.deep_gated.shared import (
    Settings,
    final,
    fit,
    fit_and_track,
    network,
    nu_lines,
    published,
    with_gates_of,
)

Cell = dict[str, Any]
WHOLE, GATES = ("K", "K_hat"), ("K_a", "K_a_hat")
ADAPTING = ("soft-GaLU", "soft-ReLU", "ReLU")
FROZEN, LEARNED = "GaLU", "GaLU, learned gates"
TITLES = {
    "K": "y' K^-1 y",
    "K_hat": "y' K^-1 y, K over its trace",
    "K_a": "y' K_a^-1 y, soft-GaLU",
    "K_a_hat": "y' K_a^-1 y, K_a over its trace, soft-GaLU",
}


def measure(run: Run) -> Findings:
    """Train, and look at the kernels after every epoch."""
    sizes: Settings = run.settings

    def track(gate: str, kernels: tuple[str, ...] = WHOLE, **options: Any) -> Cell:
        networks = [network(gate, sizes, seed, **options) for seed in run.seeds]
        return fit_and_track(networks, sizes, run.seeds, kernels)

    found: dict[str, Cell] = {
        "soft-GaLU": run.cell("soft-GaLU", lambda: track("soft_galu", WHOLE + GATES, beta=4.0)),
        "soft-ReLU": run.cell("soft-ReLU", lambda: track("soft_relu", beta=4.0)),
        "ReLU": run.cell("ReLU", lambda: track("relu")),
        FROZEN: run.cell(FROZEN, lambda: track("galu")),
        LEARNED: run.cell(LEARNED, lambda: _track_learned(run)),
    }
    panels = [
        Panel(
            title,
            "epochs",
            "nu",
            [nu_lines(n, c, name) for n, c in found.items() if name in c["nu"]],
            log_y=True,
        )
        for name, title in TITLES.items()
    ]
    shares = ", ".join(f"{name} {cell['share']:.0%}" for name, cell in found.items())
    return Findings(
        panels, _rows(found), _claims(found), [f"tracking's share of processor time: {shares}"]
    )


def _track_learned(run: Run) -> Cell:
    """A GaLU network whose gates are those of a trained ReLU network."""
    trained, _ = fit(
        [network("relu", run.settings, seed) for seed in run.seeds], run.settings, run.seeds
    )
    return fit_and_track(
        with_gates_of(trained, run.settings, run.seeds), run.settings, run.seeds, WHOLE
    )


def _rows(found: dict[str, Cell]) -> list[Row]:
    return [
        row(f"nu of {kernel} at the {when}, {name}", [seed[place] for seed in seeds])
        for name, cell in found.items()
        for kernel, seeds in cell["nu"].items()
        for when, place in (("start", 0), ("end", -1))
    ]


def _claims(found: dict[str, Cell]) -> list[Claim]:
    claims = []
    for kernel in WHOLE:
        ends = {name: final(cell, kernel) for name, cell in found.items()}
        said = f"{kernel} at the end: " + ", ".join(f"{name} {nu:.4g}" for name, nu in ends.items())
        smaller = all(ends[name] < ends[FROZEN] for name in ADAPTING)
        claims.append(Claim(f"{published.NU_SMALLER_ADAPTING}: {kernel}", smaller, said))
        claims.append(
            Claim(f"{published.NU_SMALLER_LEARNED}: {kernel}", ends[LEARNED] < ends[FROZEN], said)
        )
    return claims


FULL = Settings()
EXPERIMENT = Experiment(
    name="deep_gated/figure8",
    title="alignment of the tangent kernel with the labels, Binary-MNIST",
    scales={
        "tiny": replace(
            FULL, reduced="w=10, 300 images, 2 epochs", width=10, examples=300, epochs=2, subset=10
        ),
        "cpu": replace(FULL, reduced="10 epochs", epochs=10),
        "full": FULL,
    },
    measure=measure,
    needs=("MNIST",),
)
