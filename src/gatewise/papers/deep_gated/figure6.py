"""Figure 6: nu of the normalised Gram matrix of the path features of a ReLU network, along its training."""

from dataclasses import replace

from gatewise.papers.common import (
    Claim,
    Experiment,
    Findings,
    Numbers,
    Panel,
    Run,
    finite,
    mean,
    row,
)
from gatewise.papers.deep_gated.shared import Settings, fit_and_track, network, nu_lines, published


def measure(run: Run) -> Findings:
    """One network, depth 5 as in the paper's text."""
    sizes: Settings = run.settings
    found = run.cell(
        "ReLU",
        lambda: fit_and_track(
            [network("relu", sizes, seed) for seed in run.seeds], sizes, run.seeds, ("M_hat",)
        ),
    )
    nu = found["nu"]["M_hat"]
    panel = Panel(
        "y' M^-1 y, M over its trace",
        "epochs",
        "nu",
        [nu_lines("ReLU", found, "M_hat")],
        log_y=True,
    )
    rows = [
        row("nu at the start", [seed[0] for seed in nu]),
        row("nu at the end", [seed[-1] for seed in nu]),
        row("test accuracy at the end", [seed[-1] for seed in found["test"]]),
    ]
    return Findings([panel], rows, [_claim(nu)], [SHARE.format(found["share"])])


SHARE = "tracking took {:.1%} of the processor time of the training it watched"


def _claim(nu: list[Numbers]) -> Claim:
    start, end = (mean(finite([seed[place] for seed in nu])) for place in (0, -1))
    fell = [seed[-1] < seed[0] for seed in nu if seed[0] is not None and seed[-1] is not None]
    evidence = f"{start:.4g} at the start, {end:.4g} at the end; it fell for {sum(fell)} of {len(fell)} seeds"
    return Claim(published.NU_FALLS, bool(fell) and all(fell), evidence)


FULL = Settings(depth=5)
EXPERIMENT = Experiment(
    name="deep_gated/figure6",
    title="alignment of the path features with the labels, Binary-MNIST",
    scales={
        "tiny": replace(
            FULL, reduced="w=10, 300 images, 2 epochs", width=10, examples=300, epochs=2, subset=10
        ),
        "cpu": replace(FULL, reduced="15 epochs", epochs=15),
        "full": FULL,
    },
    measure=measure,
    needs=("MNIST",),
)
