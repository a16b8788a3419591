"""Segmentation and detection: losses and metrics met by other computations, and runs of both."""

import math
from pathlib import Path

import pytest
import torch
from gatewise_papers.iieu import (
    CLASS,
    COLUMNS,
    IGNORED,
    FoundObjects,
    RetinaNet,
    TrueObjects,
    anchor_boxes,
    average_precision,
    box_iou,
    box_offsets,
    confusion,
    draw_shapes,
    moved_boxes,
    suppress,
)
from gatewise_papers.iieu.objectives import detection, segmentation
from torch import Tensor

import gatewise as gw
from gatewise.data import Augment, Split
from gatewise.errors import ArgumentError, MissingExtraError
from gatewise.train import find_recipe, mean_iou, records, run_config, train
from gatewise.train.config import Loss, RunConfig
from gatewise.train.loop import Batches, Step

SEGMENTER = {"depth": 14, "scale": 0.0625, "width": 8, "stem_stride": 2}
DETECTOR = {**SEGMENTER, "levels": 3, "convolutions": 1}
SMALL = {"train": 8, "test": 4, "size": 32}


def config(model: str, data: str, *changes: str, **values: object) -> RunConfig:
    options = SEGMENTER if model == "resnet_segmenter" else DETECTOR
    recipe = find_recipe("adam", changes=["epochs = 2", "batch = 4", *changes])
    return run_config(
        **{
            "model": model,
            "model_options": options if model in ("resnet_segmenter", "retinanet") else {},
            "data": data,
            "data_options": SMALL,
            "recipe": recipe,
            **values,
        }
    )


def test_mean_iou_is_that_of_sets_of_pixels():
    generator = torch.Generator().manual_seed(0)
    labels = torch.randint(0, 4, (3, 9, 9), generator=generator)
    labels[0, :2] = IGNORED
    guesses = torch.randint(0, 5, (3, 9, 9), generator=generator)
    ious = []
    for kind in range(6):  # class 5 neither occurs nor is guessed
        true = {tuple(place) for place in (labels == kind).nonzero().tolist()}
        counted = {tuple(place) for place in (labels != IGNORED).nonzero().tolist()}
        said = {tuple(place) for place in (guesses == kind).nonzero().tolist()} & counted
        if true | said:
            ious.append(len(true & said) / len(true | said))
    table = confusion(guesses, labels, 6)
    assert mean_iou(table) == pytest.approx(sum(ious) / len(ious), rel=1e-12)
    assert len(ious) == 5 and table.sum() == (labels != IGNORED).sum()


def test_the_loss_of_an_image_is_the_mean_over_its_pixels_that_count():
    generator = torch.Generator().manual_seed(1)
    outputs = torch.randn(2, 3, 2, 2, generator=generator, dtype=torch.float64)
    labels = torch.tensor([[[0, 1], [2, IGNORED]], [[IGNORED] * 2] * 2], dtype=torch.uint8)
    by_hand = 0.0
    for y, x in ((0, 0), (0, 1), (1, 0)):
        scores = outputs[0, :, y, x].tolist()
        by_hand += math.log(sum(map(math.exp, scores))) - scores[int(labels[0, y, x])]
    found = segmentation.pixel_losses(Loss(), outputs, labels)
    assert found.tolist() == pytest.approx([by_hand / 3, 0.0], rel=1e-6)


def test_labels_are_mirrored_with_their_images():
    drawn = draw_shapes(12, size=32)
    augment = Augment(flip=True)
    # The mask as an image tells whether both were mirrored.
    images = drawn.masks.unsqueeze(1).expand(-1, 3, -1, -1).contiguous()
    batches = Batches(
        Split(images, drawn.masks), size=4, augment=augment, seed=3, mirror=lambda x: x.flip(-1)
    )
    mirrored = 0
    for batch in batches.walk(1, 0):
        shown = (255 * batch.images[:, 0]).round().to(torch.uint8)
        assert torch.equal(shown, batch.labels)
        mirrored += int((batch.labels != drawn.masks[batch.index]).flatten(1).any(1).sum())
    assert 0 < mirrored < 12


def random_boxes(count: int, seed: int) -> Tensor:
    corners = 40 * torch.rand(count, 2, 2, generator=torch.Generator().manual_seed(seed))
    return torch.cat([corners.amin(1), corners.amax(1) + 1], 1)


def overlap_by_pixels(box: list[float], other: list[float]) -> float:
    """Intersection over union of boxes with whole edges, by counting pixels."""
    sets = []
    for left, top, right, bottom in (box, other):
        xs, ys = range(int(left), int(right)), range(int(top), int(bottom))
        sets.append({(x, y) for x in xs for y in ys})
    return len(sets[0] & sets[1]) / len(sets[0] | sets[1])


def test_overlaps_are_those_of_sets_of_pixels():
    boxes, others = random_boxes(6, 0).round(), random_boxes(5, 1).round()
    found = box_iou(boxes, others)
    for i, box in enumerate(boxes.tolist()):
        for j, other in enumerate(others.tolist()):
            assert found[i, j] == pytest.approx(overlap_by_pixels(box, other), rel=1e-6)
    assert box_iou(torch.zeros(1, 4), torch.zeros(1, 4)).item() == 0


def test_offsets_lead_from_anchors_to_boxes():
    boxes, anchors = random_boxes(20, 2), random_boxes(20, 3)
    torch.testing.assert_close(moved_boxes(box_offsets(boxes, anchors), anchors), boxes)


def test_anchors_have_the_areas_and_shapes_of_retinanet_and_stand_on_the_outputs():
    anchors = anchor_boxes(800, 1344, (8, 16, 32, 64, 128))
    assert len(anchors) == 9 * (100 * 168 + 50 * 84 + 25 * 42 + 13 * 21 + 7 * 11)
    first = anchors[:9]
    sides = first[:, 2:] - first[:, :2]
    areas = sorted({round(float(area), 2) for area in sides.prod(1)})
    wanted = sorted(round((32 * 2 ** (step / 3)) ** 2, 2) for step in range(3))
    assert areas == pytest.approx(wanted, rel=1e-5)
    ratios = sorted({round(float(ratio), 4) for ratio in sides[:, 1] / sides[:, 0]})
    assert ratios == [0.5, 1.0, 2.0]
    torch.testing.assert_close((first[:, :2] + first[:, 2:]) / 2, torch.zeros(9, 2))
    network = gw.models.create_model("retinanet", classes=6, **DETECTOR)
    assert isinstance(network, RetinaNet)
    for size in (32, 40, 50):
        outputs = network(torch.zeros(1, 3, size, size))
        assert outputs.shape == (1, len(network.anchors(size, size)), 10)
    assert outputs[..., :6].detach().sigmoid().mean().item() == pytest.approx(0.01, rel=0.5)


def test_suppression_keeps_what_a_plain_loop_keeps():
    boxes = random_boxes(60, 4)
    generator = torch.Generator().manual_seed(5)
    scores = torch.rand(60, generator=generator)
    groups = torch.randint(0, 3, (60,), generator=generator)
    kept: list[int] = []
    for place in sorted(range(60), key=lambda place: -float(scores[place])):
        rivals = [other for other in kept if groups[other] == groups[place]]
        overlaps = [float(box_iou(boxes[[place]], boxes[[other]])) for other in rivals]
        if all(overlap <= 0.5 for overlap in overlaps):
            kept.append(place)
    found = suppress(boxes, scores, groups, overlap=0.5)
    assert found.tolist() == kept and len(kept) < 60
    assert not len(suppress(boxes[:0], scores[:0], groups[:0], overlap=0.5))


def test_anchors_are_matched_by_the_rules_of_retinanet():
    anchors = torch.tensor([[0, 0, 10, 10], [0, 0, 10, 22], [0, 0, 10, 40], [50, 50, 53, 60.0]])
    boxes = torch.tensor([[0, 0, 10, 10], [50, 50, 60, 60.0]])
    # 1, then 10/22 between 0.4 and 0.5, then 1/4; the last overlaps the second box most, by 0.3.
    assert detection.match_anchors(anchors, boxes).tolist() == [0, -2, -1, 1]
    assert detection.match_anchors(anchors, boxes[:0]).tolist() == [-1] * 4


def test_the_loss_of_detection_is_that_of_a_loop_over_anchors():
    generator = torch.Generator().manual_seed(6)
    anchors = anchor_boxes(32, 32, (8, 16))
    outputs = torch.randn(len(anchors), 3 + 4, generator=generator, dtype=torch.float64)
    labels = torch.zeros(3, COLUMNS)
    labels[0, :5] = torch.tensor([2, 3, 30, 28, 1.0])
    labels[1] = torch.tensor([0, 0, 20, 20, 2, 400, 1, 1.0])  # a crowd is not trained on
    labels[2, CLASS] = -1
    matched = detection.match_anchors(anchors, labels[:1, :4]).tolist()
    total, found = 0.0, matched.count(0)
    for place, owner in enumerate(matched):
        numbers = outputs[place].tolist()
        for kind in range(3):
            score = 1 / (1 + math.exp(-numbers[kind]))
            if owner == 0 and kind == 1:
                total -= 0.25 * (1 - score) ** 2 * math.log(score)
            elif owner != -2:
                total -= 0.75 * score**2 * math.log(1 - score)
        if owner == 0:
            left, top, right, bottom = anchors[place].tolist()
            wide, high = right - left, bottom - top
            wanted = (
                (16 - (left + right) / 2) / wide,
                (15.5 - (top + bottom) / 2) / high,
                math.log(28 / wide),
                math.log(25 / high),
            )
            total += sum(abs(a - b) for a, b in zip(numbers[3:], wanted, strict=True))
    assert found >= 1
    loss = detection.detection_loss(outputs, labels, anchors)
    assert float(loss) == pytest.approx(total / found, rel=1e-5)
    empty = labels[1:]
    assert float(detection.detection_loss(outputs, empty, anchors)) > 0


def test_detections_are_the_boxes_that_the_outputs_say():
    anchors = anchor_boxes(32, 32, (8,))
    outputs = torch.full((len(anchors), 2 + 4), -10.0)
    outputs[:, 2:] = 0
    box = torch.tensor([[4.0, 6, 20, 18]])
    for place, score in ((60, 2.0), (61, 1.0)):  # two anchors of the same object
        outputs[place, 1] = score
        outputs[place, 2:] = box_offsets(box, anchors[[place]])[0]
    found = detection.detect(outputs, anchors, 32, 32)
    torch.testing.assert_close(found.boxes, box)
    assert found.classes.tolist() == [1] and float(found.scores) == pytest.approx(0.8808, abs=1e-4)


def objects(*rows: tuple[float, ...]) -> TrueObjects:
    table = torch.tensor(rows).view(-1, 5)
    areas = (table[:, 2] - table[:, 0]) * (table[:, 3] - table[:, 1])
    return TrueObjects(table[:, :4], table[:, 4], areas, torch.zeros(len(table)))


def finds(*rows: tuple[float, ...]) -> FoundObjects:
    table = torch.tensor(rows).view(-1, 6)
    return FoundObjects(table[:, :4], table[:, 4], table[:, 5].long())


def precision_at(truth: list[TrueObjects], found: list[FoundObjects], bound: float) -> float:
    """Average precision of one class at one overlap, by its definition at 101 recalls."""
    ranked = []
    for image, each in enumerate(found):
        for box, score in zip(each.boxes.tolist(), each.scores.tolist(), strict=True):
            ranked.append((score, image, box))
    ranked.sort(key=lambda one: -one[0])
    taken: set[tuple[int, int]] = set()
    hits = []
    for _, image, box in ranked:
        best, chosen = bound, None
        for place, true in enumerate(truth[image].boxes.tolist()):
            overlap = overlap_by_pixels(box, true)
            if (image, place) not in taken and overlap >= best:
                best, chosen = overlap, place
        hits.append(chosen is not None)
        if chosen is not None:
            taken.add((image, chosen))
    total = sum(len(each.boxes) for each in truth)
    points = []
    for place in range(1, len(hits) + 1):
        right = sum(hits[:place])
        points.append((right / total, right / place))
    best = [
        max([p for recall, p in points if recall >= wanted / 100 - 1e-12], default=0.0)
        for wanted in range(101)
    ]
    return sum(best) / 101


def test_average_precision_is_that_of_its_definition():
    truth = [objects((0, 0, 20, 20, 0), (30, 30, 60, 60, 0)), objects((5, 5, 25, 45, 0)), objects()]
    found = [
        finds((0, 0, 20, 18, 0.9, 0), (31, 30, 60, 60, 0.5, 0), (0, 0, 19, 20, 0.4, 0)),
        finds((5, 5, 25, 30, 0.8, 0)),
        finds((1, 1, 9, 9, 0.7, 0)),
    ]
    metrics = average_precision(truth, found, 1)
    bounds = [0.5 + 0.05 * step for step in range(10)]
    wanted = [precision_at(truth, found, bound) for bound in bounds]
    assert metrics["map"] == pytest.approx(sum(wanted) / 10, abs=1e-9)
    assert metrics["ap50"] == pytest.approx(wanted[0], abs=1e-9) and 0 < wanted[0] < 1
    assert metrics["ap75"] == pytest.approx(wanted[5], abs=1e-9) and wanted[5] < wanted[0]
    assert metrics["ap_large"] is None
    nothing = average_precision(truth, [finds()] * 3, 1)
    assert nothing["map"] == 0 and nothing["ap_large"] is None
    exact = [FoundObjects(each.boxes, torch.ones(len(each.boxes)), each.classes) for each in truth]
    assert average_precision(truth, exact, 1)["map"] == pytest.approx(1.0)


def test_without_pycocotools_a_run_says_how_to_install_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    import sys

    monkeypatch.setitem(sys.modules, "pycocotools.coco", None)
    with pytest.raises(MissingExtraError, match="pycocotools"):
        train(config("retinanet", "shapes_detection"), tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("model", "data", "metric"),
    [
        ("resnet_segmenter", "shapes_segmentation", "test_iou"),
        ("retinanet", "shapes_detection", "test_map"),
    ],
)
def test_a_run_learns_writes_its_metric_and_resumes_to_the_same_bits(
    tmp_path: Path, model: str, data: str, metric: str
):
    from gatewise.train import StopSignal, Watcher

    chosen = config(model, data, "augment.flip = true", "optimiser.lr = 0.01")
    whole = train(chosen, tmp_path / "whole")
    epochs = records(tmp_path / "whole")
    assert whole is not None and whole.status == "finished"
    assert all(0 <= epoch[metric] <= 1 for epoch in epochs)
    assert epochs[1]["train_loss"] < epochs[0]["train_loss"]

    class AfterThree(Watcher):
        def step(self, step: Step) -> None:
            if step.step == 3:  # in the second epoch
                stop.asked = True

    stop = StopSignal()
    assert train(chosen, tmp_path / "halves", watchers=[AfterThree()], stop=stop) is None
    again = train(chosen, tmp_path / "halves")
    assert again is not None and again.weights_sha256 == whole.weights_sha256


def test_what_does_not_go_together_is_refused(tmp_path: Path):
    def refused(chosen: RunConfig, words: str) -> None:
        with pytest.raises(ArgumentError, match=words):
            train(chosen, tmp_path / "run")

    refused(config("resnet_segmenter", "shapes_detection"), "choose one of retinanet")
    refused(config("retinanet", "shapes_segmentation"), "choose one of resnet_segmenter")
    refused(config("small_cnn", "shapes_segmentation"), "a class for every pixel")
    refused(config("retinanet", "digits", data_options={}), "outputs for each example")
    refused(config("retinanet", "shapes_detection", "augment.shift = 1"), "augment.flip")
    refused(config("retinanet", "shapes_detection", "loss.label_smoothing = 0.1"), "smoothing")
    refused(config("resnet_segmenter", "shapes_segmentation", 'loss.name = "mse"'), "mse")
    options = {**SEGMENTER, "classes": 3}
    refused(config("resnet_segmenter", "shapes_segmentation", model_options=options), "7 classes")


@pytest.mark.parametrize(
    "name", ["resnet_segmenter", pytest.param("retinanet", marks=pytest.mark.slow)]
)
def test_units_are_swapped_in_networks_of_dense_prediction(name: str):
    network = gw.models.create_model(
        name, classes=3, **(DETECTOR if name == "retinanet" else SEGMENTER)
    )
    x = torch.randn(2, 3, 32, 32)
    swapped = gw.swap(network.eval(), "silu", x)
    assert swapped(x).shape == network(x).shape and not torch.equal(swapped(x), network(x))
    assert not any(isinstance(module, torch.nn.ReLU) for module in swapped.modules())
