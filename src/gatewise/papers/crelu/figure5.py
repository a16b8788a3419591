"""Figure 5: do the filters of a network with CReLU after its first four convolutions come in opposite pairs?"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from gatewise.papers.common import Claim, Experiment, Findings, Row, Run, mean, row
from gatewise.papers.crelu.shared import (
    AT,
    CIFAR,
    DATA,
    FORMS,
    INSTEAD,
    MODEL,
    Layer,
    Sizes,
    configuration,
    histogram,
    looked_at,
    published,
    trained,
)

LAYERS = tuple(f"conv{place}" for place in AT)
SURE = 0.001

Cells = Mapping[str, list[Any]]  # by form: for each seed its first four layers, and errors


@dataclass(frozen=True)
class Settings(Sizes):
    """Sizes of the training, and how many sets of random filters are drawn."""

    draws: int = 30


def measure(run: Run) -> Findings:
    """Pairing after training, with CReLU and, to have something to hold it against, with ReLU."""
    found = {
        form: [
            run.cell(f"{form}, seed {seed}", lambda f=form, s=seed: _of_seed(run, f, s))
            for seed in run.seeds
        ]
        for form in FORMS
    }
    panels = [
        histogram(_pooled(form, found[form], place))
        for form in FORMS
        for place in range(len(LAYERS))
    ]
    notes = (f"{INSTEAD}; histograms are of all seeds' filters together.", *run.settings.notes)
    return Findings(panels, _rows(found), [_aligned(found), _vanished(found)], notes)


def _of_seed(run: Run, form: str, seed: int) -> dict[str, Any]:
    config = configuration(run.settings, FORMS[form], DATA, seed, MODEL)
    network, errors = trained(config, run.training(f"{form} {seed}"))
    first = nn.ModuleDict({layer: network.get_submodule(f"{layer}.layer") for layer in LAYERS})
    return {"errors": errors, "layers": looked_at(first, run.settings.draws)}


def _pooled(form: str, seeds: list[Any], place: int) -> Layer:
    layers = [seed["layers"][place] for seed in seeds]
    mixed = {
        name: [mean(column) for column in zip(*(layer[name] for layer in layers), strict=True)]
        for name in ("density", "random_density")
    }
    return {**layers[0], **mixed, "layer": f"{form}, {layers[0]['layer']}"}


def _rows(found: Cells) -> list[Row]:
    rows = []
    for form, seeds in found.items():
        for place, layer in enumerate(LAYERS):
            of_layer = [seed["layers"][place] for seed in seeds]
            rows.append(
                row(f"{form}, {layer}: mean correlation", [each["mean"] for each in of_layer])
            )
            chance = [mean(each["random"]) for each in of_layer]
            rows.append(row(f"{form}, {layer}: mean correlation of random filters", chance))
        rows.append(row(f"{form}: test error, %", [seed["errors"]["test"] for seed in seeds]))
    return rows


def _paired(seeds: list[Any]) -> int:
    """How many layers of all seeds have partners that are surely more opposite than random filters'."""
    return sum(
        each["p"] < SURE and each["mean"] < mean(each["random"])
        for seed in seeds
        for each in seed["layers"]
    )


def _excesses(seeds: list[Any]) -> list[float]:
    """By layer how far the mean correlation is from that of random filters, in the mean over seeds."""
    return [
        mean(
            [
                seed["layers"][place]["mean"] - mean(seed["layers"][place]["random"])
                for seed in seeds
            ]
        )
        for place in range(len(LAYERS))
    ]


def _words(form: str, seeds: list[Any]) -> str:
    excess = ", ".join(
        f"{layer} {each:+.3f}" for layer, each in zip(LAYERS, _excesses(seeds), strict=True)
    )
    return f"{form}: {_paired(seeds)} of {len(seeds) * len(LAYERS)} layers pair (p < {SURE}); from random {excess}"


def _aligned(found: Cells) -> Claim:
    seeds, evidence = found["CReLU"], _words("CReLU", found["CReLU"])
    if not _paired(found["ReLU"]):
        evidence += (
            "; with ReLU no layer pairs here, so that this says little of what CReLU changes"
        )
    return Claim(published.CRELU_DOES_NOT_PAIR, _paired(seeds) == 0, evidence)


def _vanished(found: Cells) -> Claim:
    """There is only something to vanish where the network with ReLU has pairs."""
    evidence = "; ".join(_words(form, seeds) for form, seeds in found.items())
    if not _paired(found["ReLU"]):
        evidence += "; no layer with ReLU pairs after this training, so that nothing could vanish"
    return Claim(published.PAIRS_VANISH, _paired(found["ReLU"]) > _paired(found["CReLU"]), evidence)


EXPERIMENT = Experiment(
    name="crelu/figure5",
    title="no pairs of opposite filters with CReLU",
    scales={
        "tiny": Settings(
            f"{INSTEAD}; a 24th of the filters, 60 images, 1 epoch",
            width=1 / 24,
            train=60,
            test=50,
            epochs=1,
            draws=5,
        ),
        "cpu": Settings(
            f"{INSTEAD}; a 6th of the filters, 1,500 images, 10 epochs, batch norm",
            width=1 / 6,
            train=1500,
            test=1000,
            epochs=10,
            norm=True,
        ),
        "full": Settings(INSTEAD),
    },
    measure=measure,
    seeds=3,
    needs=(CIFAR[DATA],),
)
