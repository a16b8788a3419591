"""What merging opposite filters saves and costs in an ImageNet network, without retraining.

    GATEWISE_DATA=folder python benchmarks/merge_pairs.py  # minutes

Appends to ``benchmarks/results/merge_pairs.csv``.

SqueezeNet v1.1, first layer alone and all layers, plain and with the layers behind corrected.
Correction sees parts of the two photographs that scikit-learn ships; judged are the other parts of
them ("photographs") and, where foolbox is installed, its twenty labelled ImageNet images
("imagenet", with accuracy).
"""

import importlib.util
import os
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import torch
from kept import keep
from torch import Tensor, nn

import gatewise as gw

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))
from surgery.squeezenet import load, photographs, prepared

FIRST, ALL = (0.2, 0.4, 0.57, 0.7, 0.8, 0.9), (0.4, 0.57, 0.7, 0.8, 0.85, 0.9)


def labelled() -> tuple[Tensor, Tensor] | None:
    """Foolbox's ImageNet images and their classes, if it is installed."""
    spec = importlib.util.find_spec("foolbox")
    if spec is None or spec.origin is None:
        return None
    from PIL import Image

    files = sorted((Path(spec.origin).parent / "data").glob("imagenet_*"))
    pictures = [prepared(np.asarray(Image.open(file).convert("RGB"))) for file in files]
    return torch.stack(pictures), torch.tensor([int(file.stem.split("_")[2]) for file in files])


@torch.no_grad()
def predictions(model: nn.Module, pictures: Tensor) -> Tensor:
    """Classes ``(N,)``."""
    return torch.cat([model(part).argmax(1) for part in pictures.split(8)])


def rows(
    model: nn.Module, example: Tensor, judges: dict[str, tuple[Tensor, Tensor | None]]
) -> Iterator[dict[str, Any]]:
    """One for each choice of layers, correction, tolerance and set of images."""
    before = {name: predictions(model, pictures) for name, (pictures, _) in judges.items()}
    for layers, where, tolerances in (("first", "relu1", FIRST), ("all", None, ALL)):
        for corrected in (False, True):
            found: list[dict[str, Tensor]] = []

            def measure(merged: nn.Module, found: list[dict[str, Tensor]] = found) -> float:
                found.append(
                    {name: predictions(merged, pictures) for name, (pictures, _) in judges.items()}
                )
                return 0.0

            curve = gw.surgery.merge_curve(
                model,
                example,
                tolerances=tolerances,
                where=where,
                correct=corrected,
                measure=measure,
            )
            for point, after in zip(curve.points, found, strict=True):
                for name, (_, labels) in judges.items():
                    yield {
                        **{
                            "layers": layers,
                            "corrected": corrected,
                            "tolerance": point.tolerance,
                            "pairs": point.pairs,
                        },
                        **{"filters": point.filters[1], "parameters": point.parameters[1]},
                        **{
                            "operations_saved": round(point.saving, 4),
                            "judged_on": name,
                            "images": len(after[name]),
                        },
                        "unchanged": share(after[name], before[name]),
                        "accuracy_before": "" if labels is None else share(before[name], labels),
                        "accuracy": "" if labels is None else share(after[name], labels),
                    }


def share(one: Tensor, other: Tensor) -> float:
    """How many are equal, of all."""
    return round(float((one == other).double().mean()), 4)


def main() -> None:
    """Measure, print and append."""
    torch.set_num_threads(1)
    model = load(Path(os.environ["GATEWISE_DATA"]))
    pictures = photographs(across=5)
    held_out = torch.arange(len(pictures)) % 3 != 0
    judges: dict[str, tuple[Tensor, Tensor | None]] = {"photographs": (pictures[held_out], None)}
    if (found := labelled()) is not None:
        judges["imagenet"] = found
    for row in rows(model, pictures[~held_out], judges):
        keep("merge_pairs", row)
        print(*row.values(), sep="\t", flush=True)


if __name__ == "__main__":
    main()
