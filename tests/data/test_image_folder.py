"""A folder of one's own images.

Decoded as pillow decodes them, and refused by name where something is wrong.
"""

import builtins
import os
import sys
from pathlib import Path

import numpy
import pytest
import torch
from PIL import Image

import gatewise as gw
from gatewise.cli.options import DataRequest, find_data
from gatewise.data import StreamedSplit, load, state
from gatewise.errors import ArgumentError, DamagedFileError, FileError, MissingExtraError
from gatewise.files import read_tensors
from gatewise.train import read_recipe, run_config, train


def paint(path: Path, *, width: int = 16, height: int = 16) -> torch.Tensor:
    """Put a random picture there; its pixels."""
    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = numpy.random.default_rng(len(str(path))).integers(
        0, 256, (height, width, 3), dtype=numpy.uint8
    )
    Image.fromarray(pixels).save(path)
    return torch.from_numpy(pixels).permute(2, 0, 1)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    for split in ("train", "test"):
        for name in ("zebra/a.png", "zebra/b.ppm", "ape/c.bmp"):
            paint(tmp_path / split / name)
    return tmp_path


def test_classes_are_numbered_by_name_and_pixels_are_kept(home: Path):
    found = load("image_folder", folder=home, size=16)
    assert (
        found.classes == 2
        and found.shape == (3, 16, 16)
        and found.train.labels.tolist() == [0, 1, 1]
    )
    wanted = [paint(home / "train" / name) for name in ("ape/c.bmp", "zebra/a.png", "zebra/b.ppm")]
    assert torch.equal(found.train.images, torch.stack(wanted))
    assert state("image_folder").word == "your own"


def test_other_sizes_are_scaled_and_cut_from_the_centre(home: Path):
    pixels = paint(home / "train/ape/c.bmp", width=40, height=16)
    found = load("image_folder", folder=home, size=16)
    assert torch.equal(found.train.images[0], pixels[:, :, 12:28])
    small = load("image_folder", folder=home, size=8)
    wanted = Image.open(home / "train/zebra/a.png").resize((8, 8), Image.Resampling.BILINEAR)
    assert torch.equal(
        small.train.images[1], torch.from_numpy(numpy.array(wanted)).permute(2, 0, 1)
    )


def test_grey_images_become_coloured_and_dots_are_passed_over(home: Path):
    Image.new("L", (16, 16), 77).save(home / "train/ape/c.bmp")
    (home / "train/.DS_Store").write_text("x"), (home / "train/ape/.hidden").write_text("x")
    assert (load("image_folder", folder=home, size=16).train.images[0] == 77).all()


def test_val_does_for_test(home: Path):
    (home / "test").rename(home / "val")
    assert len(load("image_folder", folder=home, size=8).test) == 3


def test_a_changed_file_is_decoded_again(home: Path):
    before = load("image_folder", folder=home, size=16)
    path = home / "train/ape/c.bmp"
    Image.new("RGB", (16, 16), (1, 2, 3)).save(path)
    os.utime(path, ns=(0, 0))
    after = load("image_folder", folder=home, size=16)
    assert after.train.images[0, :, 0, 0].tolist() == [1, 2, 3] and after.digest != before.digest


@pytest.mark.parametrize(
    ("name", "content", "error"),
    [
        ("train/ape/notes.txt", b"hello", "not an image"),
        ("train/loose.png", b"", "folders of classes"),
        ("train/ape/page.jpg", b"<html>404</html>", "cannot be read as an image"),
        ("train/ape/empty.png", b"", "cannot be read as an image"),
        (
            "train/ape/program.png",
            b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 9 9\n",
            "cannot be read as an image",
        ),
    ],
)
def test_what_is_not_an_image_is_named(home: Path, name: str, content: bytes, error: str):
    (home / name).write_bytes(content)
    with pytest.raises(FileError, match=error) as problem:
        load("image_folder", folder=home, size=8)
    assert Path(name).name in str(problem.value) and not (home / "gatewise-decoded").exists()


def test_a_format_that_is_not_one_of_the_four_is_refused_whatever_its_name(home: Path):
    Image.new("RGB", (16, 16)).save(home / "train/zebra/a.png", format="GIF")
    with pytest.raises(DamagedFileError, match=r"a\.png"):
        load("image_folder", folder=home, size=8)


def test_sixteen_bits_are_refused_and_not_cut_off_at_white(home: Path):
    Image.fromarray(numpy.full((16, 16), 30_000, dtype=numpy.uint16)).save(
        home / "train" / "ape" / "deep.png"
    )
    with pytest.raises(DamagedFileError, match="not one of 8 bits"):
        load("image_folder", folder=home, size=16)


def test_a_cut_image_is_refused(home: Path):
    path = home / "train/zebra/a.png"
    path.write_bytes(path.read_bytes()[:-40])
    with pytest.raises(DamagedFileError, match=r"a\.png"):
        load("image_folder", folder=home, size=8)


def test_an_image_that_claims_to_be_enormous_is_refused(
    home: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("gatewise.data.inputs.image_files.MOST_PIXELS", 255)
    with pytest.raises(DamagedFileError, match="16 by 16"):
        load("image_folder", folder=home, size=8)
    monkeypatch.setattr("gatewise.data.sets.image_folder.MOST_BYTES", 1000)
    with pytest.raises(ArgumentError, match="too much memory"):
        load("image_folder", folder=home, size=8)


def test_missing_splits_and_unequal_classes_are_refused(home: Path, tmp_path: Path):
    paint(home / "train/third/a.png")
    with pytest.raises(FileError, match="same in both"):
        load("image_folder", folder=home)
    (home / "test/third").mkdir()
    with pytest.raises(FileError, match="no images"):
        load("image_folder", folder=home)
    (home / "test").rename(home / "elsewhere")
    with pytest.raises(FileError, match="split"):
        load("image_folder", folder=home)


@pytest.mark.parametrize("size", [0, 5000, 8.0, None])
def test_a_wrong_size_is_refused(home: Path, size: object):
    with pytest.raises(ArgumentError, match="size"):
        load("image_folder", folder=home, size=size)


def test_without_pillow_it_is_said_how_to_have_it(home: Path, monkeypatch: pytest.MonkeyPatch):
    real = builtins.__import__

    def without(name: str, *rest: object):
        if name == "PIL":
            raise ImportError(name)
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingExtraError, match=r"pip install .*pillow"):
        load("image_folder", folder=home, size=8)


def test_a_streamed_folder_has_the_same_pixels_and_decodes_only_what_is_read(home, monkeypatch):
    kept = load("image_folder", folder=home, size=8)
    read: list[str] = []
    module = sys.modules["gatewise.data.sets.image_folder"]
    decode = module.decode_image
    monkeypatch.setattr(module, "decode_image", lambda path: read.append(path.name) or decode(path))
    found = load("image_folder", folder=home, size=8, stream=True)
    assert read == [] and found.shape == kept.shape and found.classes == 2
    assert found.train.images.shape == (3, 3, 8, 8)
    assert torch.equal(found.train.images[torch.tensor([2, 0])], kept.train.images[[2, 0]])
    assert read == ["b.ppm", "c.bmp"]
    assert torch.equal(found.train.labels, kept.train.labels)
    assert torch.equal(found.test.images[:], kept.test.images)
    mask = found.train.labels == 1
    assert torch.equal(found.train.images[mask], kept.train.images[mask])
    assert torch.equal(found.train.take(mask).images[:], kept.train.take(mask).images)
    assert torch.equal(found.train.images[1], kept.train.images[1])
    assert torch.equal(found.train.images[[0, 2]], kept.train.images[[0, 2]])
    with pytest.raises(ArgumentError, match="one value for each row"):
        found.train.images[mask[:2]]


def test_own_comparisons_say_that_they_need_images_in_memory(home):
    data = load("image_folder", folder=home, size=8, stream=True)
    with pytest.raises(ArgumentError, match="stream=False"):
        gw.compare(lambda: torch.nn.Sequential(torch.nn.ReLU()), ["relu", "gelu"], data)


def test_streamed_images_can_be_diagnosed(home, monkeypatch):
    request = DataRequest(
        names=["image_folder"],
        examples=2,
        reference="gatewise:mlp",
        network=torch.nn.Flatten(),
        model_options={},
        folder=str(home),
    )
    whole = load("image_folder", folder=home)
    kept = find_data(request)
    module = sys.modules["gatewise.data.sets.image_folder"]
    monkeypatch.setattr(module, "MOST_IN_MEMORY", 1)
    monkeypatch.setattr(module, "MEAN", whole.mean)
    monkeypatch.setattr(module, "STD", whole.std)
    assert isinstance(load("image_folder", folder=home).test, StreamedSplit)
    for one, other in zip(kept.batches, find_data(request).batches, strict=True):
        assert torch.equal(one[0], other[0])


def test_large_folders_are_streamed_unless_the_user_says(home, monkeypatch):
    module = sys.modules["gatewise.data.sets.image_folder"]
    monkeypatch.setattr(module, "MOST_IN_MEMORY", 6 * 3 * 8 * 8 - 1)
    assert isinstance(load("image_folder", folder=home, size=8).train, StreamedSplit)
    assert isinstance(load("image_folder", folder=home, size=7).train.images, torch.Tensor)
    in_memory = load("image_folder", folder=home, size=8, stream=False)
    assert isinstance(in_memory.train.images, torch.Tensor)
    monkeypatch.setattr(module, "MOST_BYTES", 6 * 3 * 8 * 8 - 1)
    with pytest.raises(ArgumentError, match="stream=True"):
        load("image_folder", folder=home, size=8, stream=False)
    with pytest.raises(ArgumentError, match="stream must be"):
        load("image_folder", folder=home, size=8, stream="yes")


def test_parts_of_a_streamed_folder_are_those_of_the_folder_in_memory(home):
    choice = {"folder": home, "size": 8, "train": 2, "test": 1}
    kept = load("image_folder", **choice)
    found = load("image_folder", **choice, stream=True)
    whole = load("image_folder", folder=home, size=8, stream=True)
    assert torch.equal(found.train.images[:], kept.train.images)
    assert torch.equal(found.train.labels, kept.train.labels) and len(found.test) == 1
    assert found.digest != whole.digest and found.mean == whole.mean
    swapped = load("image_folder", folder=home, size=8, stream=True, classes=[1, 0])
    assert swapped.train.labels.tolist() == [1, 0, 0]
    with pytest.raises(ArgumentError, match="need images in memory"):
        load("image_folder", folder=home, size=8, stream=True, shift_test=1)


def test_a_streamed_folder_is_trained_on_as_one_in_memory(home, monkeypatch):
    module = sys.modules["gatewise.data.sets.image_folder"]
    kept = load("image_folder", folder=home, size=8)
    # The same normalisation, so that the weights can be compared.
    monkeypatch.setattr(module, "MEAN", kept.mean)
    monkeypatch.setattr(module, "STD", kept.std)
    monkeypatch.setenv("GATEWISE_DATA", str(home))
    recipe = read_recipe(
        "epochs = 2\nbatch = 2\noptimiser = {name = 'sgd', lr = 0.1}\naugment = {flip = true}"
    )
    weights = []
    for stream in (False, True):
        options = {"size": 8, "stream": stream}
        config = run_config(
            model="mlp",
            model_options={"widths": [4]},
            recipe=recipe,
            data="image_folder",
            data_options=options,
        )
        train(config, home.parent / f"run-{stream}")
        weights.append(read_tensors(home.parent / f"run-{stream}" / "weights.safetensors")[0])
    assert weights[0].keys() == weights[1].keys()
    for name, value in weights[0].items():
        assert torch.equal(value, weights[1][name]), name


def test_a_file_that_is_no_image_is_named_when_it_is_read(home):
    (home / "train/ape/c.bmp").write_bytes(b"<html>404</html>")
    found = load("image_folder", folder=home, size=8, stream=True)
    with pytest.raises(DamagedFileError, match=r"c\.bmp"):
        found.train.images[:1]
