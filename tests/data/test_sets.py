"""Every set of the table is what it says.

Files that are not the published ones are refused, nothing is half used.
"""

import gzip
import hashlib
import struct
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from data.pickles import batch
from gatewise_papers.data import mnist, parse_matlab
from gatewise_papers.iieu import CLASS, NO_OBJECT

import gatewise as gw
from gatewise.data import (
    DETECTION,
    EXAMPLES,
    SEGMENTATION,
    DataSet,
    Form,
    Published,
    Split,
    catalogue,
    datasets,
    load,
    moments,
    shuffled_pixels,
    state,
)
from gatewise.data.sets import draw_signals
from gatewise.errors import ArgumentError, DamagedFileError, FileError

NAMES = [
    "abs_line",
    "cifar10",
    "cifar100",
    "coco_detection",
    "digits",
    "fashion_mnist",
    "hard_pair",
    "image_folder",
    "imagenet",
    "kitti_materials",
    "mnist",
    "one_point",
    "random_labels",
    "random_plane",
    "same_input",
    "shapes_detection",
    "shapes_segmentation",
    "signals",
    "svhn",
    "text",
]
BUILT_IN = [name for name in NAMES if not datasets()[name].files and datasets()[name].sizes]
FETCHED = [name for name in NAMES if datasets()[name].files]


LABELS = {EXAMPLES: torch.int64, SEGMENTATION: torch.uint8, DETECTION: torch.float32}


def check(found: DataSet):
    """What must hold of every set."""
    for split in (found.train, found.test):
        assert len(split) == len(split.images) == len(split.labels) > 0
        assert tuple(split.images.shape[1:]) == found.shape and split.images.dtype in (
            torch.uint8,
            torch.float32,
        )
        if found.classes:
            task = datasets()[found.name.split(" ")[0]].task
            classes = split.labels[..., CLASS] if task == DETECTION else split.labels
            assert split.labels.dtype == LABELS[task]
            assert (NO_OBJECT if task == DETECTION else 0) <= classes.min()
            assert classes.max() < found.classes
        else:
            assert split.labels.dtype == torch.float32
    images = found.train.images.double() / (255 if found.train.images.dtype == torch.uint8 else 1)
    for channel, (mean, std) in enumerate(zip(found.mean, found.std, strict=True)):
        values = images[:, channel]
        assert values.mean().item() == pytest.approx(mean, abs=1e-12)
        constant = values.min() == values.max()
        assert std == (
            1.0 if constant else pytest.approx(values.std(correction=0).item(), rel=1e-9)
        )
    assert len(found.digest) == 64


def test_the_table_is_closed_and_every_entry_says_where_to_get_it():
    assert list(datasets()) == NAMES and gw.data.datasets() == datasets()
    for source in datasets().values():
        assert source.title and source.home and source.fetch and source.licence
        assert source.files or "fetch" in source.fetch or source.name == "image_folder"
        assert all(len(form.sha256) == 64 for file in source.files for form in file.forms.values())
    with pytest.raises(TypeError):
        datasets()["mine"] = None


@pytest.mark.parametrize("wrong", ["minst", "", 3, None])
def test_an_unknown_name_is_refused(wrong: object):
    with pytest.raises(
        ArgumentError, match="did you mean 'mnist'" if wrong == "minst" else "no data set"
    ):
        load(wrong)


@pytest.mark.parametrize("name", NAMES)
def test_an_unknown_option_is_refused_before_a_file_is_looked_for(name: str):
    with pytest.raises(ArgumentError, match="no option of that name"):
        load(name, folder="/nowhere", tarin=3)


@pytest.mark.parametrize("name", BUILT_IN)
def test_a_built_in_set_is_what_the_table_says_and_the_same_every_time(name: str):
    found, source = load(name), datasets()[name]
    check(found)
    assert (len(found.train), len(found.test)) == source.sizes
    assert (found.classes, found.shape, found.name) == (source.classes, source.shape, name)
    assert load(name).digest == found.digest and state(name).word == "built in"


def values(images: torch.Tensor) -> list[list[float]]:
    return images.flatten(1).tolist()


def test_digits_are_those_of_scikit_learn():
    from sklearn.datasets import load_digits

    bunch, found = load_digits(), load("digits")
    splits = (found.train, found.test)
    mine = {
        (*image, label)
        for s in splits
        for image, label in zip(values(s.images), s.labels.tolist(), strict=True)
    }
    wanted = torch.from_numpy(bunch.images / 16)
    theirs = {
        (*image, int(label)) for image, label in zip(values(wanted), bunch.target, strict=True)
    }
    assert mine == theirs and len(found.train) + len(found.test) == 1797
    assert found.train.labels[:10].tolist() == [5, 3, 0, 4, 1, 2, 3, 5, 5, 2]


def test_a_smaller_training_split_of_the_digits_is_the_beginning_of_the_larger():
    large, small = load("digits"), load("digits", train=300)
    check(small)
    assert (len(small.train), len(small.test)) == (300, 1497)
    assert torch.equal(small.train.images, large.train.images[:300])
    assert torch.equal(small.test.labels[-360:], large.test.labels)
    assert small.digest != large.digest
    for wrong in (0, 1797, 3.0, True):
        with pytest.raises(ArgumentError, match="train"):
            load("digits", train=wrong)


def test_test_images_can_be_shifted_each_in_one_fixed_way():
    plain, moved = load("digits", train=300), load("digits", train=300, shift_test=1)
    assert torch.equal(plain.train.images, moved.train.images) and torch.equal(
        plain.test.labels, moved.test.labels
    )
    assert plain.mean == moved.mean and plain.digest != moved.digest
    assert torch.equal(moved.test.images, load("digits", train=300, shift_test=1).test.images)
    shifts = {}
    for before, after in zip(plain.test.images, moved.test.images, strict=True):
        padded = torch.nn.functional.pad(before, (1, 1, 1, 1))
        fits = [
            (y, x)
            for y in range(3)
            for x in range(3)
            if torch.equal(padded[:, y : y + 8, x : x + 8], after)
        ]
        assert fits
        shifts[fits[0]] = shifts.get(fits[0], 0) + 1
    assert (
        len(shifts) == 9 and min(shifts.values()) > 100
    )  # of 1,497: all nine, about equally often


@pytest.mark.parametrize("wrong", [-1, 9, 1.0, True, "1"])
def test_a_wrong_shift_of_the_test_images_is_refused(wrong):
    with pytest.raises(ArgumentError, match="shift_test must be a number of pixels"):
        load("digits", shift_test=wrong)


def test_the_line_has_the_papers_smallest_loss():
    found = load("abs_line", count=2000).train
    x, y = found.images.flatten().double(), found.labels.double()
    assert torch.equal(y, x.abs()) and x.min() > -1 and x.max() < 1
    features = torch.stack([x.clamp(min=0), torch.ones_like(x)], 1)
    best = torch.linalg.lstsq(features, y.unsqueeze(1)).solution.flatten()
    loss = 2 * (features @ best - y).square().mean()  # the integral over [-1, 1], whose length is 2
    assert best.tolist() == pytest.approx(
        [2 / 5, 2 / 5], abs=1e-5
    ) and loss.item() == pytest.approx(2 / 15, abs=1e-5)


def test_the_sets_of_the_gated_networks_are_as_in_the_paper():
    same, plane, pair, one = (
        load(name).train for name in ("same_input", "random_plane", "hard_pair", "one_point")
    )
    assert (same.images == 1).all() and len(same) == 200 and same.labels.abs().max() <= 1
    assert abs(same.labels.mean()) < 6 / (3 * 200) ** 0.5 and same.labels.unique().numel() == 200
    assert plane.images.shape == (100, 2, 1, 1) and plane.images.abs().max() <= 1
    assert torch.equal(pair.images[1], 2 * pair.images[0]) and pair.labels.tolist() == [1, -1]
    assert one.images.item() == one.labels.item() == 1
    assert load("same_input", seed=1).digest != load("same_input").digest


def test_signals_differ_by_their_strokes_and_are_moved_and_noisy():
    found = load("signals", train=500, test=200)
    assert found.train.images.shape == (500, 1, 1, 40) and len(found.test) == 200
    assert torch.equal(found.train.labels.bincount(), torch.full((10,), 50))
    assert load("signals", train=500, test=200, seed=1).digest != found.digest
    values, labels = draw_signals(20_000, 3)
    assert values.shape == (20_000, 40) and values.isfinite().all()
    # Signals of one class differ more among each other than the means of classes: strokes move.
    means = torch.stack([values[labels == kind].mean(0) for kind in range(10)])
    spread = torch.stack([values[labels == kind].std(0).mean() for kind in range(10)]).mean()
    assert means.std(0).mean() < spread / 2
    # At its fixed place a stroke would be far above the noise.
    assert values.std() > 1.2 * 0.094


def test_random_labels_have_the_shape_asked_for():
    found = load("random_labels", count=50, classes=3, shape=(3, 4, 5), seed=2)
    check(found)
    assert (
        found.shape == (3, 4, 5)
        and found.classes == 3
        and set(found.train.labels.tolist()) == {0, 1, 2}
    )
    assert not torch.equal(found.train.images, found.test.images)
    for wrong in (
        {"shape": (3, 4)},
        {"shape": (0, 1, 1)},
        {"count": 0},
        {"classes": 0},
        {"seed": -1},
    ):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            load("random_labels", **wrong)


@pytest.mark.parametrize("name", FETCHED)
def test_a_missing_set_says_where_to_get_it_and_where_to_put_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    source = datasets()[name]
    with pytest.raises(FileError, match="missing") as error:
        load(name, folder=tmp_path)
    assert source.fetch in str(error.value) and str(tmp_path / source.files[0].name) in str(
        error.value
    )
    assert "http" in source.fetch and state(name, folder=tmp_path).word == "missing"
    assert list(tmp_path.iterdir()) == []
    monkeypatch.delenv("GATEWISE_DATA", raising=False)
    with pytest.raises(FileError, match="set GATEWISE_DATA") as error:
        load(name)
    assert source.fetch in str(error.value) and state(name).word == "missing"


def form_of(data: bytes) -> Form:
    return Form(hashlib.sha256(data).hexdigest(), len(data))


def publish(name: str, home: Path, contents: dict[str, bytes], monkeypatch: pytest.MonkeyPatch):
    """Let these be the published files of the set, and put them where they belong."""
    files = []
    for path, data in contents.items():
        (home / path).parent.mkdir(parents=True, exist_ok=True)
        (home / path).write_bytes(data)
        packed = path.endswith(".gz")
        files.append(
            Published(path.removesuffix(".gz"), **{"packed" if packed else "plain": form_of(data)})
        )
    monkeypatch.setitem(catalogue._SOURCES, name, replace(datasets()[name], files=tuple(files)))
    return files


def make_cifar(home: Path, monkeypatch: pytest.MonkeyPatch, name: str = "cifar10") -> Split:
    """Six batches of four images each, or two, published for this test.

    What they hold, in order.
    """
    paths = [file.path for file in datasets()[name].files]
    images = torch.randint(0, 256, (len(paths) * 4, 3, 32, 32), dtype=torch.uint8)
    labels = torch.arange(len(paths) * 4) % 10
    key = "labels" if name == "cifar10" else "fine_labels"
    parts = zip(paths, images.split(4), labels.split(4), strict=True)
    contents = {path: batch(bytes(i.flatten().tolist()), j.tolist(), key) for path, i, j in parts}
    publish(name, home, contents, monkeypatch)
    return Split(images, labels)


def test_cifar_is_the_batches_one_after_another(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    wanted = make_cifar(tmp_path, monkeypatch)
    for _ in range(2):  # decoded, and from what was kept
        found = load("cifar10", folder=tmp_path)
        check(found)
        assert torch.equal(found.train.images, wanted.images[:20]) and torch.equal(
            found.test.images, wanted.images[20:]
        )
        assert torch.equal(
            found.train.labels, wanted.labels[:20]
        ) and found.test.labels.tolist() == [0, 1, 2, 3]
    assert state("cifar10", folder=tmp_path).word == "present"


@pytest.mark.parametrize(
    "damage", ["cut", "one bit", "empty", "a page", "swapped", "folder", "loop"]
)
def test_a_damaged_batch_is_refused_and_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, damage: str
):
    make_cifar(tmp_path, monkeypatch)
    path, other = (
        tmp_path / "cifar-10-batches-py/test_batch",
        tmp_path / "cifar-10-batches-py/data_batch_1",
    )
    good = path.read_bytes()
    if damage in ("folder", "loop"):
        path.unlink()
        path.mkdir() if damage == "folder" else path.symlink_to(path)
    else:
        changed = good[:100] + bytes([good[100] ^ 1]) + good[101:]
        page = b"<html>404 not found</html>"
        contents = {
            "cut": good[:-1],
            "one bit": changed,
            "empty": b"",
            "a page": page,
            "swapped": other.read_bytes(),
        }
        path.write_bytes(contents[damage])
    with pytest.raises(FileError) as error:
        load("cifar10", folder=tmp_path)
    if damage not in ("folder", "loop"):
        assert form_of(good).sha256 in str(error.value) and form_of(
            path.read_bytes()
        ).sha256 in str(error.value)
    assert (
        state("cifar10", folder=tmp_path).word == "damaged"
        and not (tmp_path / "gatewise-decoded").exists()
    )


def test_other_files_are_taken_when_asked_for_and_the_name_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    wanted = make_cifar(tmp_path, monkeypatch, "cifar100")
    path = tmp_path / "cifar-100-python/test"
    path.write_bytes(batch(bytes(3072), [99], "fine_labels"))
    with pytest.raises(DamagedFileError, match="not the published file"):
        load("cifar100", folder=tmp_path)
    for _ in range(2):
        found = load("cifar100", folder=tmp_path, published=False)
        check(found)
        assert found.name == "cifar100 (other files)" and found.test.labels.tolist() == [99]
        assert torch.equal(found.train.images, wanted.images[:4])
    path.write_bytes(batch(bytes(3072), [98], "fine_labels"))  # changed files are decoded again
    assert load("cifar100", folder=tmp_path, published=False).test.labels.tolist() == [98]
    with pytest.raises(ArgumentError, match="published"):
        load("cifar100", folder=tmp_path, published="no")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x80\x02cos\nsystem\nU\x04true\x85R.", "os.system"),
        (batch(bytes(3072), [100], "fine_labels"), "label"),
        (batch(bytes(3072), [1], "labels"), "label"),
        (batch(bytes(3000), [1], "fine_labels", values=3000), "images"),
        (b"", "batch"),
    ],
)
def test_other_files_are_read_with_suspicion(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, content: bytes, said: str
):
    make_cifar(tmp_path, monkeypatch, "cifar100")
    (tmp_path / "cifar-100-python/train").write_bytes(content)
    with pytest.raises(DamagedFileError, match=said):
        load("cifar100", folder=tmp_path, published=False)
    assert not (tmp_path / "gatewise-decoded").exists()


def idx(values: torch.Tensor) -> bytes:
    header = bytes([0, 0, 8, values.dim()]) + struct.pack(f">{values.dim()}I", *values.shape)
    return gzip.compress(header + bytes(values.flatten().tolist()), mtime=0)


@pytest.fixture
def fashion(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, torch.Tensor]:
    """Fashion-MNIST of 30 and 12 images, published for this test."""
    module = sys.modules["gatewise_papers.data.mnist_files"]
    made = {}
    for split, count in (("train", 30), ("test", 12)):
        made[split, "images"] = torch.randint(0, 256, (count, 28, 28), dtype=torch.uint8)
        made[split, "labels"] = torch.arange(count).byte() % 10
    paths = {key: file.name for key, file in module.FASHION_FILES.items()}
    files = publish(
        "fashion_mnist", tmp_path, {paths[key]: idx(made[key]) for key in paths}, monkeypatch
    )
    monkeypatch.setattr(module, "FASHION_FILES", dict(zip(paths, files, strict=True)))
    return made


def test_fashion_mnist_is_read_from_its_idx_files(tmp_path: Path, fashion: dict):
    found = load("fashion_mnist", folder=tmp_path)
    check(found)
    assert torch.equal(found.train.images[:, 0], fashion["train", "images"])
    assert torch.equal(found.test.labels, fashion["test", "labels"].long())


def test_swapped_images_and_labels_are_refused(tmp_path: Path, fashion: dict):
    images, labels = (
        tmp_path / f"FashionMNIST/raw/t10k-{kind}-ubyte.gz"
        for kind in ("images-idx3", "labels-idx1")
    )
    content = images.read_bytes(), labels.read_bytes()
    labels.write_bytes(content[0]), images.write_bytes(content[1])
    with pytest.raises(DamagedFileError, match="not the published file") as error:
        load("fashion_mnist", folder=tmp_path)
    assert form_of(content[0]).sha256 in str(error.value)
    assert not (tmp_path / "gatewise-decoded").exists()


def test_some_classes_are_relabelled_in_the_order_given(tmp_path: Path, fashion: dict):
    found = load("fashion_mnist", folder=tmp_path, classes=(7, 4))
    check(found)
    assert found.classes == 2 and found.train.labels.tolist() == [1, 0] * 3
    wanted = fashion["train", "images"][[4, 7, 14, 17, 24, 27]]
    assert torch.equal(found.train.images[:, 0], wanted)
    for wrong in ((7,), (7, 7), (7, 10), (7, -1), 7, "74", (7, 4.0)):
        with pytest.raises(ArgumentError, match="classes"):
            load("fashion_mnist", folder=tmp_path, classes=wrong)


def test_fewer_examples_are_part_of_more(tmp_path: Path, fashion: dict):
    few, more = (load("fashion_mnist", folder=tmp_path, train=n, test=5) for n in (10, 20))
    check(few)
    assert (len(few.train), len(few.test)) == (10, 5) and torch.equal(
        few.train.images, more.train.images[:10]
    )
    assert few.train.labels.tolist() != list(range(10))  # not simply the first
    for wrong in ({"train": 31}, {"test": 13}, {"train": 0}):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            load("fashion_mnist", folder=tmp_path, **wrong)


def test_random_labels_and_pixels_keep_what_they_should(tmp_path: Path, fashion: dict):
    base = load("fashion_mnist", folder=tmp_path)
    labels = load("fashion_mnist", folder=tmp_path, random_labels=True)
    assert torch.equal(labels.train.images, base.train.images) and torch.equal(
        labels.test.labels, base.test.labels
    )
    assert (
        not torch.equal(labels.train.labels, base.train.labels)
        and len(labels.train.labels.unique()) > 5
    )
    pixels = load("fashion_mnist", folder=tmp_path, random_pixels=True)
    check(pixels)
    mine, theirs = pixels.train.images.flatten(1), base.train.images.flatten(1)
    assert (
        torch.equal(mine.sort(1).values, theirs.sort(1).values)
        and not (mine == theirs).all(1).any()
    )
    for wrong in ({"random_labels": "no"}, {"random_pixels": 1}):
        with pytest.raises(ArgumentError, match=next(iter(wrong))):
            load("fashion_mnist", folder=tmp_path, **wrong)
    same = load("fashion_mnist", folder=tmp_path, random_pixels=True, classes=(0, 1))
    assert same.train.images.shape == (6, 1, 28, 28)


def test_train_and_test_images_have_their_pixels_in_different_orders():
    ramp = torch.arange(784).view(1, 1, 28, 28)
    orders = [shuffled_pixels(ramp, seed=seed) for seed in (1, 2)]
    assert (orders[0] == orders[1]).float().mean() < 0.05
    assert all(torch.equal(order.flatten().sort().values, ramp.flatten()) for order in orders)


def matlab(**variables: object) -> bytes:
    from io import BytesIO

    from scipy.io import savemat

    file = BytesIO()
    savemat(file, variables, do_compression=True)
    return file.getvalue()


def test_svhn_is_read_from_its_matlab_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    images = torch.randint(0, 256, (11, 3, 32, 32), dtype=torch.uint8)
    labels = torch.tensor([10, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10]).byte()
    contents = {}
    for name, part in (("train", slice(0, 8)), ("test", slice(8, 11))):
        x, y = images[part].permute(2, 3, 1, 0).numpy(), labels[part].view(-1, 1).numpy()
        contents[f"svhn/{name}_32x32.mat"] = matlab(X=x, y=y)
    files = publish("svhn", tmp_path, contents, monkeypatch)
    monkeypatch.setattr(sys.modules["gatewise_papers.data.svhn"], "FILES", tuple(files))
    found = load("svhn", folder=tmp_path)
    check(found)
    assert torch.equal(found.train.images, images[:8]) and torch.equal(
        found.test.images, images[8:]
    )
    assert found.train.labels.tolist() == [
        0,
        1,
        2,
        3,
        4,
        5,
        6,
        7,
    ] and found.test.labels.tolist() == [8, 9, 0]


@pytest.mark.parametrize(
    "wrong",
    [
        b"",
        b"<html>404 not found</html>",
        matlab(X=[[1]], y=[[1]]),
        matlab(y=[[1]]),
        matlab(X=torch.zeros(32, 32, 3, 2).byte().numpy(), y=torch.ones(3, 1).byte().numpy()),
        matlab(X=torch.zeros(32, 32, 3, 2).byte().numpy(), y=torch.zeros(2, 1).byte().numpy()),
        matlab(X=torch.zeros(32, 32, 3, 2).byte().numpy(), y=torch.ones(2, 1).numpy()),
    ],
)
def test_what_is_not_such_a_matlab_file_is_refused(wrong: bytes):
    with pytest.raises(DamagedFileError, match="file"):
        parse_matlab("file", wrong)


def test_a_constant_channel_has_the_deviation_one():
    for images in (
        torch.full((49, 2, 3, 3), 77, dtype=torch.uint8),
        torch.full((49, 2, 3, 3), 0.1),
    ):
        images[0, 1, 0, 0] += 1
        mean, std = moments(images)
        value = images[0, 0, 0, 0].item() / (255 if images.dtype == torch.uint8 else 1)
        assert mean[0] == pytest.approx(value, rel=1e-14) and std[0] == 1.0 and 0 < std[1] < 0.1


def test_only_the_two_splits_of_mnist_are_known():
    with pytest.raises(ArgumentError, match="split"):
        mnist("validation")


def test_classes_of_a_split_are_chosen_in_order():
    some = Split(torch.arange(5).view(5, 1, 1), torch.tensor([4, 7, 1, 4, 7]))
    chosen = some.of_classes(7, 4)
    assert chosen.labels.tolist() == [4, 7, 4, 7] and chosen.images.flatten().tolist() == [
        0,
        1,
        3,
        4,
    ]
    assert len(chosen.first(3)) == 3
    with pytest.raises(ArgumentError, match="class"):
        some.of_classes(2)
