"""The average precision of COCO, computed by pycocotools."""

import contextlib
import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from torch import Tensor

from gatewise.errors import MissingExtraError, install_extra
from gatewise_papers.iieu.data import AREA, BOX, CLASS, CROWD, NO_OBJECT

# In the order in which pycocotools returns them: the mean over overlaps from 0.5 to 0.95, two of
# these overlaps, and objects below 32 x 32 pixels, up to 96 x 96 and above.
METRICS = ("map", "ap50", "ap75", "ap_small", "ap_medium", "ap_large")


@dataclass(frozen=True, eq=False)
class TrueObjects:
    """The objects of one image, in pixels of the published image.

    Attributes:
        boxes: (n, 4).
        classes: (n,).
        areas: (n,), which need not be those of the boxes.
        crowds: (n,), 1 for a box that surrounds a crowd.
    """

    boxes: Tensor
    classes: Tensor
    areas: Tensor
    crowds: Tensor

    @staticmethod
    def of(labels: Tensor, scale: float) -> "TrueObjects":
        """Return the objects of labels; see Note [Labels of boxes].

        Args:
            labels: (rows, 8), of one image.
            scale: pixels of the labels for each pixel of the published image.
        """
        rows = labels[labels[:, CLASS] != NO_OBJECT]
        return TrueObjects(rows[:, BOX] / scale, rows[:, CLASS], rows[:, AREA], rows[:, CROWD])


@dataclass(frozen=True, eq=False)
class FoundObjects:
    """The objects that a network found in one image.

    Attributes:
        boxes: (n, 4).
        scores: (n,).
        classes: (n,).
    """

    boxes: Tensor
    scores: Tensor
    classes: Tensor

    def scaled(self, factor: float) -> "FoundObjects":
        """Return the same objects in an image that is larger by a factor."""
        return FoundObjects(self.boxes * factor, self.scores, self.classes)


def need_coco_tools() -> None:
    """Raise an error unless pycocotools can be imported.

    Raises:
        MissingExtraError: saying how to install it.
    """
    _coco_tools()


def average_precision(
    truth: Sequence[TrueObjects], found: Sequence[FoundObjects], classes: int
) -> dict[str, float | None]:
    """Return the average precisions of COCO; None where there is no object to find.

    Args:
        truth: one for each image.
        found: one for each image.
        classes: how many there are.
    """
    coco, evaluation = _coco_tools()
    wanted = [
        {"area": area, "iscrowd": crowd, **_annotation(image, box, kind)}
        for image, objects in enumerate(truth)
        for box, kind, area, crowd in zip(
            objects.boxes.tolist(),
            objects.classes.long().tolist(),
            objects.areas.tolist(),
            objects.crowds.long().tolist(),
            strict=True,
        )
    ]
    guessed = []
    for image, objects in enumerate(found):
        for box, kind, score in zip(
            objects.boxes.tolist(), objects.classes.tolist(), objects.scores.tolist(), strict=True
        ):
            annotation = _annotation(image, box, kind)
            area = annotation["bbox"][2] * annotation["bbox"][3]
            guessed.append({"score": score, "area": area, "iscrowd": 0, **annotation})
    with contextlib.redirect_stdout(io.StringIO()):  # it prints as it goes
        sides = [_indexed(coco(), each, len(truth), classes) for each in (wanted, guessed)]
        judge = evaluation(*sides, "bbox")
        judge.evaluate()
        judge.accumulate()
        judge.summarize()
    return {
        name: None if value < 0 else float(value)
        for name, value in zip(METRICS, judge.stats[: len(METRICS)], strict=True)
    }


def _annotation(image: int, box: Sequence[float], kind: int) -> dict[str, Any]:
    """Return a box as COCO writes it: left, top, width and height; numbers begin at 1."""
    left, top, right, bottom = box
    bbox = [left, top, right - left, bottom - top]
    return {"image_id": image + 1, "category_id": kind + 1, "bbox": bbox}


def _indexed(coco: Any, annotations: Sequence[dict[str, Any]], images: int, classes: int) -> Any:
    """Return annotations with the index that an evaluation reads."""
    coco.dataset = {
        "images": [{"id": number + 1} for number in range(images)],
        "categories": [{"id": number + 1} for number in range(classes)],
        "annotations": [{"id": place + 1, **each} for place, each in enumerate(annotations)],
    }
    coco.createIndex()
    return coco


def _coco_tools() -> tuple[Any, Any]:
    """Return the two classes of pycocotools that are needed."""
    try:
        from pycocotools.coco import COCO
        from pycocotools.cocoeval import COCOeval
    except ImportError as problem:
        raise MissingExtraError(
            "average precision is computed by pycocotools, which cannot be imported",
            got=str(problem),
            fix=install_extra("coco"),
        ) from problem
    return COCO, COCOeval
