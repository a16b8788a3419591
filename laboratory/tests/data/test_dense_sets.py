"""Masks and boxes: drawn shapes, KITTI-Materials and COCO in small folders made by hand."""

import json
from pathlib import Path

import pytest
import torch
from gatewise_papers.iieu import (
    AREA,
    BOX,
    CLASS,
    CROWD,
    NO_OBJECT,
    SCALE,
    SHAPES,
    draw_shapes,
    mirror_boxes,
    mirror_masks,
)
from loops import for_each
from PIL import Image

from gatewise.data import load
from gatewise.data.data_set import content_digest
from gatewise.errors import ArgumentError, DamagedFileError, FileError

DRAWN = draw_shapes(64, size=48)


def test_the_drawn_bytes_are_the_same_for_ever():
    digest = content_digest((DRAWN.images, DRAWN.masks, DRAWN.boxes))
    assert digest == "1cc4e2a33a25df8cf5e889986ced5cbd38059c0f4d573c8b3ce2b87d6c697b9b"


def test_fewer_images_are_the_beginning_of_more_and_test_images_are_others():
    few = draw_shapes(5, size=48)
    assert torch.equal(few.images, DRAWN.images[:5])
    assert torch.equal(draw_shapes(3, size=48, first=2).masks, DRAWN.masks[2:5])
    data = load("shapes_segmentation", train=5, test=5, size=48)
    assert torch.equal(data.train.images, DRAWN.images[:5])
    assert not torch.equal(data.test.images, data.train.images)
    boxes = load("shapes_detection", train=5, test=5, size=48)
    assert torch.equal(boxes.train.images, data.train.images)
    assert torch.equal(boxes.train.labels, DRAWN.boxes[:5])
    assert not torch.equal(draw_shapes(5, size=48, seed=1).images, few.images)


def test_boxes_surround_what_the_masks_show():
    """Counted pixel by pixel: a class of a mask that one object has gives its box and its area."""
    checked = 0
    for mask, rows in zip(DRAWN.masks.tolist(), DRAWN.boxes, strict=True):
        objects = rows[rows[:, CLASS] != NO_OBJECT]
        assert len(objects) >= 1 and bool((objects[:, SCALE] == 1).all())
        kinds = objects[:, CLASS].tolist()
        for row in objects.tolist():
            if kinds.count(row[CLASS]) > 1:
                continue
            places = [
                (x, y)
                for y, line in enumerate(mask)
                for x, kind in enumerate(line)
                if kind == row[CLASS] + 1
            ]
            xs, ys = [x for x, _ in places], [y for _, y in places]
            assert row[BOX] == [min(xs), min(ys), max(xs) + 1, max(ys) + 1]
            assert row[AREA] == len(places) and row[CROWD] == 0
            checked += 1
    assert checked > 50
    seen = set(DRAWN.masks.flatten().tolist())
    assert seen == set(range(len(SHAPES) + 1))


def test_objects_differ_from_their_background():
    """A drawn pixel is brighter or darker than the mean of the background in every channel."""
    images = DRAWN.images.float()
    for image, mask in zip(images, DRAWN.masks, strict=True):
        inside = image[:, mask > 0].mean(1)
        outside = image[:, mask == 0].mean(1)
        assert (inside - outside).abs().max() > 16


@for_each("wrong", [{"size": 8}, {"size": 64.0}, {"train": 0}, {"seed": -1}])
def test_impossible_drawings_are_refused(wrong: dict):
    with pytest.raises(ArgumentError):
        load("shapes_detection", **wrong)


def test_mirrored_labels_belong_to_mirrored_images():
    masks = mirror_masks(DRAWN.masks)
    boxes = mirror_boxes(DRAWN.boxes, 48)
    assert torch.equal(mirror_boxes(boxes, 48), DRAWN.boxes)
    for mask, rows in zip(masks, boxes, strict=True):
        for row in rows[rows[:, CLASS] != NO_OBJECT].tolist():
            left, top, right, bottom = (int(edge) for edge in row[BOX])
            inside = mask[top:bottom, left:right] == row[CLASS] + 1
            assert inside.sum() >= row[AREA] and inside.any(0)[0] and inside.any(0)[-1]


def write_kitti(folder: Path) -> Path:
    """Write four images of KITTI-Materials, 64 by 32 pixels."""
    home = folder / "KITTI_Materials"
    for part in ("image_2", "semantic"):
        (home / "train" / part).mkdir(parents=True)
    names = [f"0001_{number:06}" for number in range(4)]
    for place, name in enumerate(names):
        colour = Image.new("RGB", (64, 32), (10 * place, 0, 200))
        colour.save(home / "train" / "image_2" / f"{name}.png")
        mask = Image.new("L", (64, 32), place)
        mask.putpixel((5, 7), 255)
        mask.save(home / "train" / "semantic" / f"{name}.png")
    (home / "list_folder1").mkdir()
    (home / "list_folder1" / "train.txt").write_text("\n".join(names[:3]) + "\n")
    (home / "list_folder1" / "val.txt").write_text(names[3])
    return home


def test_kitti_materials_is_read_image_by_image(tmp_path: Path):
    write_kitti(tmp_path)
    data = load("kitti_materials", folder=tmp_path, height=32, width=64)
    assert (len(data.train), len(data.test), data.classes, data.shape) == (3, 1, 20, (3, 32, 64))
    index = torch.tensor([2, 0])
    images, masks = data.train.images[index], data.train.labels[index]
    assert images.shape == (2, 3, 32, 64) and images[0, :, 0, 0].tolist() == [20, 0, 200]
    assert masks.shape == (2, 32, 64) and masks[0, 0, 0] == 2 and masks[0, 7, 5] == 255
    assert torch.equal(data.train.take(index).images[:1], images[:1])
    assert len(data.train.first(2)) == 2 and data.train.images[3:].shape == (0, 3, 32, 64)
    smaller = load("kitti_materials", folder=tmp_path, height=32, width=32)
    assert smaller.train.labels[:1].shape == (1, 32, 32)
    assert set(smaller.train.labels[:1].unique().tolist()) <= {0, 255}
    assert smaller.digest != data.digest
    assert load("kitti_materials", folder=tmp_path, height=32, width=64).digest == data.digest


def test_a_palette_does_not_change_classes(tmp_path: Path):
    home = write_kitti(tmp_path)
    mask = Image.new("P", (64, 32), 7)
    mask.putpalette([200, 3, 9] * 256)
    mask.save(home / "train" / "semantic" / "0001_000000.png")
    data = load("kitti_materials", folder=tmp_path, height=32, width=64)
    assert data.train.labels[:1].unique().tolist() == [7]


@pytest.mark.parametrize(
    ("break_it", "error", "words"),
    [
        (lambda home: (home / "list_folder1" / "val.txt").unlink(), FileError, "list .* missing"),
        (
            lambda home: (home / "train" / "semantic" / "0001_000001.png").unlink(),
            FileError,
            "file of KITTI-Materials is missing",
        ),
        (
            lambda home: (home / "list_folder1" / "train.txt").write_text("../secret\n"),
            DamagedFileError,
            "not a list of image names",
        ),
        (
            lambda home: (home / "list_folder1" / "train.txt").write_text("a\na\n"),
            DamagedFileError,
            "not a list of image names",
        ),
    ],
)
def test_missing_and_malformed_files_of_kitti_are_named(
    tmp_path: Path, break_it, error: type, words: str
):
    break_it(write_kitti(tmp_path))
    with pytest.raises(error, match=words):
        load("kitti_materials", folder=tmp_path)


def test_a_mask_with_an_unknown_class_or_colours_is_refused_when_it_is_read(tmp_path: Path):
    home = write_kitti(tmp_path)
    data = load("kitti_materials", folder=tmp_path, height=32, width=64)
    path = home / "train" / "semantic" / "0001_000000.png"
    Image.new("L", (64, 32), 20).save(path)
    with pytest.raises(DamagedFileError, match="class 20"):
        data.train.labels[:1]
    Image.new("RGB", (64, 32)).save(path)
    with pytest.raises(DamagedFileError, match="mode RGB"):
        data.train.labels[:1]


def annotations() -> dict:
    """Two classes whose identifiers have a gap, and three images, one of them empty."""
    return {
        "categories": [{"id": 7, "name": "train"}, {"id": 3, "name": "car"}],
        "images": [
            {"id": 10, "file_name": "a.jpg", "width": 200, "height": 100},
            {"id": 11, "file_name": "b.jpg", "width": 50, "height": 100},
            {"id": 12, "file_name": "c.jpg", "width": 64, "height": 64},
        ],
        "annotations": [
            {"image_id": 10, "category_id": 7, "bbox": [20, 10, 40, 30], "area": 900.5},
            {"image_id": 10, "category_id": 3, "bbox": [190, 90, 40, 30], "area": 5, "iscrowd": 1},
            {"image_id": 11, "category_id": 3, "bbox": [0, 0, 50, 100], "area": 5000},
            {"image_id": 11, "category_id": 3, "bbox": [4, 4, 0.5, 30], "area": 15},
        ],
    }


def write_coco(folder: Path) -> None:
    """Write a COCO of three images."""
    (folder / "annotations").mkdir()
    for part in ("train2017", "val2017"):
        table = annotations()
        (folder / "annotations" / f"instances_{part}.json").write_text(json.dumps(table))
        (folder / part).mkdir()
        for image in table["images"]:
            size = (image["width"], image["height"])
            Image.new("RGB", size, (250, 250, 250)).save(folder / part / image["file_name"])


def test_coco_is_read_with_boxes_scaled_like_the_images(tmp_path: Path):
    write_coco(tmp_path)
    data = load("coco_detection", folder=tmp_path, size=100)
    assert (len(data.train), len(data.test), data.classes) == (2, 3, 2)  # no empty image to train
    wide, tall = data.train.labels
    assert wide[0].tolist() == [10, 5, 30, 20, 1, 900.5, 0, 0.5]
    assert wide[1].tolist() == [95, 45, 100, 50, 0, 5, 1, 0.5]  # cut at the edge of the image
    assert tall[0].tolist() == [0, 0, 50, 100, 0, 5000, 0, 1]
    assert tall[1, CLASS] == NO_OBJECT  # its box was half a pixel wide
    images = data.train.images[:]
    assert images.shape == (2, 3, 100, 100)
    assert images[0, :, :50].min() > 240 and images[0, :, 51:].max() == 0
    assert images[1, :, :, :50].min() > 240 and images[1, :, :, 51:].max() == 0
    assert data.test.labels[2, :, CLASS].tolist() == [NO_OBJECT] * 2


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda table: table.pop("images"), "KeyError"),
        (lambda table: table["annotations"][0].update(image_id=99), "KeyError: 99"),
        (lambda table: table["annotations"][0].update(bbox=[1, 2]), "ValueError"),
        (lambda table: table["images"][0].update(file_name="../a.jpg"), "image '../a.jpg'"),
        (lambda table: table["images"][0].update(width=0), "0 by 100"),
        (lambda table: table.update(categories=[]), "KeyError"),
    ],
)
def test_malformed_annotations_are_refused(tmp_path: Path, change, words: str):
    write_coco(tmp_path)
    table = annotations()
    change(table)
    path = tmp_path / "annotations" / "instances_val2017.json"
    path.write_text(json.dumps(table))
    with pytest.raises(DamagedFileError, match="not a file of annotations") as caught:
        load("coco_detection", folder=tmp_path, size=100)
    assert words in str(caught.value)
    path.write_text("{")
    with pytest.raises(DamagedFileError, match="not a file of annotations"):
        load("coco_detection", folder=tmp_path, size=100)


def test_missing_files_of_coco_are_named_and_classes_must_agree(tmp_path: Path):
    write_coco(tmp_path)
    table = annotations()
    table["categories"][0]["name"] = "tram"
    path = tmp_path / "annotations" / "instances_val2017.json"
    path.write_text(json.dumps(table))
    with pytest.raises(DamagedFileError, match="different classes"):
        load("coco_detection", folder=tmp_path)
    path.unlink()
    with pytest.raises(FileError, match="annotations is missing"):
        load("coco_detection", folder=tmp_path)
    (tmp_path / "train2017" / "a.jpg").unlink()
    with pytest.raises(FileError, match="image of the annotations is missing"):
        load("coco_detection", folder=tmp_path)
