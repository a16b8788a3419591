"""Figure 4: invariance scores of the seven convolutions of ConvPool-CNN-C, with ReLU and with CReLU."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from gatewise.analysis import invariance
from gatewise.papers.common import (
    Claim,
    Experiment,
    Findings,
    Panel,
    Row,
    Run,
    finite,
    line,
    mean,
    row,
)
from gatewise.papers.crelu.shared import (
    CIFAR,
    CONVPOOL,
    NEEDS,
    Sizes,
    configuration,
    lower,
    published,
    shown_images,
    trained,
)

FORMS = ("ReLU", "CReLU")
LAYERS = tuple(range(1, 8))
PLACES = {"same": "at the same place", "moved": "at the place it moved to"}
BATCH = 100

Cells = Mapping[
    tuple[str, str], list[Any]
]  # by data set and form: for each seed, by place, the layers' mean scores


@dataclass(frozen=True)
class Settings(Sizes):
    """Sizes of the training, and how many test images are transformed."""

    images: int = 10_000  # the paper says 50,000 test images; there are 10,000


def measure(run: Run) -> Findings:
    """Scores of both forms on both data sets."""
    found = {
        (data, form): [
            run.cell(
                f"{CIFAR[data]}, {form}, seed {seed}",
                lambda d=data, f=form, s=seed: _scores(run, d, f, s),
            )
            for seed in run.seeds
        ]
        for data in CIFAR
        for form in FORMS
    }
    notes = (
        "The paper looks for a filter's response at the same place of the transformed image (appendix C); the place "
        "that the transform moved it to is looked at as well, and judged by no claim.",
        *run.settings.notes,
    )
    panels = [_panel(data, place, found) for place in PLACES for data in CIFAR]
    return Findings(
        panels, _rows(found), [_higher(found), _jumps(found), _not_monotonic(found)], notes
    )


def _scores(run: Run, data: str, form: str, seed: int) -> dict[str, Any]:
    sizes: Settings = run.settings
    config = configuration(sizes, CONVPOOL[form], data, seed)
    network, errors = trained(config, run.training(f"{data} {form} {seed}"))
    batches = list(shown_images(config, sizes.images).split(BATCH))
    return {"errors": errors} | {place: _by_layer(network, batches, place) for place in PLACES}


def _by_layer(network: Any, batches: list[Any], place: str) -> list[float]:
    found = {
        layer.name.split(".")[0]: layer.mean
        for layer in invariance(network, batches, location=place).layers
    }
    return [found[f"conv{layer}"] for layer in LAYERS]


def _panel(data: str, place: str, found: Cells) -> Panel:
    lines = [line(form, LAYERS, [seed[place] for seed in found[data, form]]) for form in FORMS]
    return Panel(f"{CIFAR[data]}, {PLACES[place]}", "convolution", "invariance score", lines)


def _of(found: Cells, data: str, form: str, layer: int) -> list[float]:
    """The scores at the same place, one a seed."""
    return [seed["same"][layer - 1] for seed in found[data, form]]


def _mean(found: Cells, data: str, form: str, layer: int) -> float:
    return mean(finite(_of(found, data, form, layer)))


def _rows(found: Cells) -> list[Row]:
    rows = []
    for (data, form), seeds in found.items():
        name = f"{CIFAR[data]}, {form}"
        rows += [
            row(f"{name}, conv{layer}: invariance score", _of(found, data, form, layer))
            for layer in LAYERS
        ]
        rows.append(row(f"{name}: test error, %", [seed["errors"]["test"] for seed in seeds]))
    return rows


def _higher(found: Cells) -> Claim:
    held: dict[str, list[int]] = {}
    unclear: dict[str, list[int]] = {}
    for data in CIFAR:
        compared = {
            layer: lower(_of(found, data, "ReLU", layer), _of(found, data, "CReLU", layer))
            for layer in LAYERS
        }
        held[data] = [layer for layer, (holds, _) in compared.items() if holds]
        unclear[data] = [
            layer for layer, (_, words) in compared.items() if "less than its spread" in words
        ]
    evidence = "; ".join(
        f"{CIFAR[data]}: higher at {len(held[data])} of {len(LAYERS)} layers (conv {_listed(held[data])}), "
        f"by less than the spread over seeds at {len(unclear[data])} (conv {_listed(unclear[data])})"
        for data in CIFAR
    )
    return Claim(
        published.CRELU_MORE_INVARIANT,
        all(len(layers) == len(LAYERS) for layers in held.values()),
        evidence,
    )


def _jumps(found: Cells) -> Claim:
    """Pooling stands between conv2 and conv3, and between conv5 and conv6, which the paper compares with conv4."""
    steps = {
        f"{CIFAR[data]}, {form}": [
            tuple(_mean(found, data, form, layer) for layer in layers)
            for layers in ((2, 3), (4, 6))
        ]
        for data, form in found
    }
    evidence = "; ".join(
        f"{name}: "
        + ", ".join(
            f"conv{places} {before:.2f} to {after:.2f}"
            for places, (before, after) in zip(("2-3", "4-6"), pairs, strict=True)
        )
        for name, pairs in steps.items()
    )
    holds = all(after > before for pairs in steps.values() for before, after in pairs)
    return Claim(published.POOLING_MORE_INVARIANT, holds, evidence)


def _not_monotonic(found: Cells) -> Claim:
    scores = {
        f"{CIFAR[data]}, {form}": [_mean(found, data, form, layer) for layer in LAYERS]
        for data, form in found
    }
    holds = all(each[-1] > each[0] and each != sorted(each) for each in scores.values())
    evidence = "; ".join(
        f"{name}: {', '.join(f'{each:.2f}' for each in means)}" for name, means in scores.items()
    )
    return Claim(published.RISES_UNEVENLY, holds, evidence)


def _listed(layers: list[int]) -> str:
    return ", ".join(map(str, layers)) or "-"


EXPERIMENT = Experiment(
    name="crelu/figure4",
    title="invariance scores with ReLU and CReLU",
    scales={
        "tiny": Settings(
            "a 24th of the filters, trained on 60 images for 1 epoch, CIFAR-100's superclasses, 20 test images",
            width=1 / 24,
            train=60,
            test=50,
            superclasses=True,
            published=False,
            epochs=1,
            images=20,
        ),
        "cpu": Settings(
            "an 8th of the filters, trained on 1,500 images for 5 epochs with batch norm, CIFAR-100's superclasses, "
            "300 test images; no ImageNet",
            width=1 / 8,
            train=1500,
            test=1000,
            superclasses=True,
            published=False,
            epochs=5,
            images=300,
            norm=True,
        ),
        "full": Settings("no ImageNet"),
    },
    measure=measure,
    seeds=3,
    needs=NEEDS,
)
