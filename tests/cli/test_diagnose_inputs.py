"""The inputs of ``gatewise diagnose``: images, arrays, Arrow data sets, text, and weights."""

import json
import shlex
import signal
import subprocess
import sys
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import torch
from torch import nn
from zoo import declare_missing_torchvision_operators

from gatewise.data import Preprocessing, find_images, model_preprocessing, prepare_images

FACTORY = """
import torch
from torch import nn


def network():
    torch.manual_seed(0)
    end = (nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 12))
    return nn.Sequential(nn.Conv2d(3, 6, 3), nn.ReLU(), *end)


def reused():
    class Reused(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.conv1 = nn.Conv2d(3, 24, 3)
            self.relu = nn.ReLU()
            self.conv2 = nn.Conv2d(24, 16, 3)
            self.fc = nn.Linear(16, 12)
            self.conv1.weight.data[12:] = -self.conv1.weight.data[:12]

        def forward(self, x):
            x = self.relu(self.conv2(self.relu(self.conv1(x))))
            return self.fc(x.mean((2, 3)))

    return Reused()


def tokens():
    torch.manual_seed(0)
    return nn.Sequential(nn.Embedding(300, 8), nn.Linear(8, 16), nn.GELU(), nn.Linear(16, 300))


def double(image):
    import numpy as np

    return torch.from_numpy(np.asarray(image).copy()).permute(2, 0, 1).float() * 2
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    (tmp_path / "mine.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def picture(path, seed: int, size=(9, 7)) -> np.ndarray:
    from PIL import Image

    path.parent.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(seed).integers(0, 256, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(pixels).save(path)
    return pixels


def diagnosed(run, *arguments, model="mine.py:network", questions="gates"):
    ended = run("diagnose", model, "--questions", questions, "--out", "out", *arguments)
    assert ended.exit_code == 0, ended.output
    return json.loads(Path("out/diagnosis.json").read_text()), ended


FLAT = ["a.png", "b.png", "c.jpg", "note.txt", ".hidden.png"]
NESTED = ["x/deep/a.png", "x/b.png", "y/z/c.png"]
CLASSES = ["cat/a.png", "cat/b.png", "dog/c.png"]
SPLITS = ["train/cat/a.png", "train/dog/b.png", "val/cat/c.png", "val/dog/d.png", "val/dog/e.png"]


@pytest.mark.parametrize(
    ("names", "count", "labels"),
    [(FLAT, 3, None), (NESTED, 3, 2), (CLASSES, 3, 2), (SPLITS, 3, 2), (["one/a.png"], 1, None)],
)
def test_any_folder_of_images_is_taken(run, home, names, count, labels) -> None:
    for number, name in enumerate(names):
        path = home / "images" / name
        if path.suffix == ".txt":
            path.write_text("not an image")
        else:
            picture(path, number)
    found = find_images(home / "images")
    assert len(found.paths) == count
    assert (None if found.labels is None else len(set(found.labels))) == labels
    record, _ = diagnosed(run, "--data", "images")
    assert record["data"]["examples"] == count and record["data"]["shapes"] == [[3, 7, 9]]
    assert record["data"]["classes"] == labels


def test_a_folder_without_images_and_images_of_many_sizes_say_what_to_do(run, home) -> None:
    (home / "empty").mkdir()
    (home / "empty" / "a.csv").write_text("1")
    ended = run("diagnose", "mine.py:network", "--data", "empty")
    assert ended.exit_code == 2 and "no image" in ended.stderr and ".csv" in ended.stderr
    for number, size in enumerate([(9, 7), (20, 30)]):
        picture(home / "images" / f"{number}.png", number, size)
    ended = run("diagnose", "mine.py:network", "--data", "images")
    assert ended.exit_code == 2 and "differ in size" in ended.stderr and "--size" in ended.stderr
    record, _ = diagnosed(run, "--data", "images", "--size", 8)
    assert record["data"]["shapes"] == [[3, 8, 8]]
    (home / "images" / "broken.png").write_bytes(b"\x89PNG nothing")
    record, _ = diagnosed(run, "--data", "images", "--size", 8)
    assert record["data"]["examples"] == 2 and "1 damaged" in record["data"]["about"]


def test_stated_preprocessing_is_what_numpy_computes() -> None:
    from PIL import Image

    pixels = np.random.default_rng(0).integers(0, 256, (6, 5, 3), dtype=np.uint8)
    steps = Preprocessing("", scale=255.0, bgr=True, mean=(104, 117, 123), std=(2.0,))
    made = prepare_images([Image.fromarray(pixels)], steps)[0]
    expected = (pixels[:, :, ::-1].astype(np.float64) - [104, 117, 123]) / 2
    np.testing.assert_allclose(made.permute(1, 2, 0).numpy(), expected, atol=1e-4)


def test_what_is_known_about_preprocessing_is_said_first(run, home) -> None:
    for number in range(12):
        picture(home / "images" / f"{number}.png", number)
    record, ended = diagnosed(run, "--data", "images")
    assert not record["data"]["preprocessing_known"]
    assert ended.stdout.startswith("Preprocessing not known: each channel scaled to mean 0")
    page = (home / "out" / "index.html").read_text()
    assert page.index("Preprocessing not known.") < page.index('class="net"')
    record, ended = diagnosed(
        run, "--data", "images", "--mean", "104,117,123", "--scale", 255, "--bgr", "--std", "1"
    )
    assert record["data"]["preprocessing_known"] and "not known" not in ended.stdout
    assert "blue channel first, mean 104, 117, 123 subtracted" in record["data"]["preprocessing"]
    record, _ = diagnosed(run, "--data", "images", "--transform", "mine.py:double")
    assert "mine.py:double" in record["data"]["preprocessing"]
    for bad in (("--mean", "a,b"), ("--std", "0"), ("--mean", "1,2")):
        ended = run("diagnose", "mine.py:network", "--data", "images", *bad)
        assert ended.exit_code == 2 and bad[0].removeprefix("--") in ended.stderr


def test_the_model_s_own_preprocessing_is_read_from_its_library(tmp_path) -> None:
    class Timm(nn.Module):
        pretrained_cfg: ClassVar = {
            "architecture": "net",
            "input_size": (3, 160, 192),
            "crop_pct": 0.8,
            "interpolation": "bicubic",
            "mean": (0.5, 0.4, 0.3),
            "std": (0.2, 0.3, 0.4),
        }

    steps = model_preprocessing("mine.py", "make", Timm(), {})
    assert steps.size == (160, 192) and steps.resize == 200 and steps.filter == "bicubic"
    assert steps.mean == (0.5, 0.4, 0.3) and "timm's net" in steps.text
    config = {
        "do_resize": True,
        "size": {"shortest_edge": 256},
        "do_center_crop": True,
        "crop_size": {"height": 224, "width": 224},
        "resample": 3,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": [0.1, 0.2, 0.3],
        "image_std": [0.5, 0.5, 0.5],
    }
    (tmp_path / "preprocessor_config.json").write_text(json.dumps(config))
    steps = model_preprocessing("hf", str(tmp_path / "config.json"), nn.Identity(), {})
    assert (steps.size, steps.resize, steps.filter) == ((224, 224), 256, "bicubic")
    assert steps.scale == pytest.approx(1.0) and steps.mean == (0.1, 0.2, 0.3)
    assert model_preprocessing("mine.py", "make", nn.Identity(), {}) is None


@pytest.mark.slow
def test_torchvisions_transform_is_that_of_its_weights() -> None:
    declare_missing_torchvision_operators()
    from PIL import Image
    from torchvision import models

    steps = model_preprocessing("torchvision", "resnet18", nn.Identity(), {})
    assert steps.size == (224, 224) and steps.resize == 256
    pixels = np.random.default_rng(0).integers(0, 256, (300, 400, 3), dtype=np.uint8)
    smooth = Image.fromarray(pixels).resize((40, 30)).resize((400, 300))
    theirs = models.get_model_weights("resnet18").DEFAULT.transforms()(smooth)
    ours = prepare_images([smooth], steps)[0]
    assert float((theirs - ours).abs().max()) < 0.05  # one pixel step is 0.017


def test_arrays_in_npz_have_labels_and_pickles_are_refused(run, home) -> None:
    x = np.random.default_rng(0).standard_normal((10, 3, 6, 6)).astype(np.float32)
    np.savez("some.npz", x=x, y=np.arange(10) % 3)
    record, _ = diagnosed(run, "--data", "some.npz")
    assert record["data"]["classes"] == 3 and record["data"]["examples"] == 10
    assert record["data"]["preprocessing_known"]
    np.savez("two.npz", one=x, two=x)
    ended = run("diagnose", "mine.py:network", "--data", "two.npz")
    assert ended.exit_code == 2 and "not clear which array" in ended.stderr
    np.savez("bad.npz", x=np.array([{"a": 1}], dtype=object))
    ended = run("diagnose", "mine.py:network", "--data", "bad.npz")
    assert ended.exit_code == 2 and "not an array of numbers" in ended.stderr
    (home / "cut.npz").write_bytes((home / "some.npz").read_bytes()[:200])
    assert run("diagnose", "mine.py:network", "--data", "cut.npz").exit_code == 2


def arrow_folder(folder, columns: dict, split: str | None = None) -> None:
    """What ``save_to_disk`` of Hugging Face's datasets writes."""
    arrow = pytest.importorskip("pyarrow")
    home = folder / split if split else folder
    home.mkdir(parents=True)
    table = arrow.table(columns)
    with arrow.OSFile(str(home / "data-00000-of-00001.arrow"), "wb") as sink:
        with arrow.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
    (home / "state.json").write_text("{}")
    if split:
        (folder / "dataset_dict.json").write_text(json.dumps({"splits": ["train", split]}))


def test_a_hugging_face_data_set_of_images_is_read(run, home) -> None:
    rows = []
    for number in range(8):
        path = home / "x.png"
        picture(path, number)
        rows.append({"bytes": path.read_bytes(), "path": None})
    arrow_folder(home / "set", {"image": rows, "label": [0, 1, 2, 3] * 2}, "test")
    record, _ = diagnosed(run, "--data", "set")
    assert record["data"]["examples"] == 8 and record["data"]["classes"] == 4
    arrow_folder(home / "paths", {"image": [{"bytes": None, "path": "/etc/passwd"}]})
    ended = run("diagnose", "mine.py:network", "--data", "paths")
    assert ended.exit_code == 2 and "only their paths" in ended.stderr


def tokenizer(path) -> None:
    from tokenizers import Tokenizer, models, pre_tokenizers

    words = {f"w{number}": number for number in range(300)}
    made = Tokenizer(models.WordLevel(words, unk_token="w0"))  # noqa: S106 - a word
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    made.save(str(path))


def test_text_is_read_as_bytes_for_a_model_whose_tokens_are_bytes(run, home) -> None:
    text = "déjà vu, " * 30
    (home / "some.txt").write_text(text, encoding="utf-8")
    small = ("--set", "width=16", "--set", "depth=1", "--set", "heads=2")
    options = ("--data", "some.txt", "--length", 20, *small)
    record, _ = diagnosed(run, *options, model="gatewise:small_gpt")
    assert record["data"]["examples"] == len(text.encode()) // 20
    assert "rows of 20 bytes of some.txt" in record["data"]["about"]
    ended = run("diagnose", "gatewise:small_gpt", *options, "--set", "classes=300")
    assert ended.exit_code == 2 and "--tokenizer" in ended.stderr
    ended = run("diagnose", "gatewise:small_gpt", "--data", "some.txt", "--length", 999)
    assert ended.exit_code == 2 and f"{len(text.encode())} bytes" in ended.stderr


def test_text_and_token_numbers_are_inputs_of_language_models(run, home) -> None:
    pytest.importorskip("tokenizers")
    tokenizer(home / "tokenizer.json")
    text = " ".join(f"w{number % 300}" for number in range(100))
    (home / "some.txt").write_text(text)
    model = "mine.py:tokens"
    options = ("--tokenizer", "tokenizer.json", "--length", 12)
    record, _ = diagnosed(run, "--data", "some.txt", *options, model=model)
    assert record["data"]["shapes"] == [[12]] and record["data"]["examples"] == 8
    assert record["questions"][0]["state"] == "answered"
    ended = run("diagnose", model, "--data", "some.txt")
    assert ended.exit_code == 2 and "--tokenizer" in ended.stderr
    np.save("ids.npy", np.arange(60, dtype=np.int32).reshape(5, 12))
    record, _ = diagnosed(run, "--data", "ids.npy", model=model)
    assert record["data"]["shapes"] == [[12]]
    arrow_folder(home / "set", {"text": [text, text]})
    record, _ = diagnosed(run, "--data", "set", *options, model=model)
    assert record["data"]["examples"] > 8


def test_weights_of_torch_save_are_read_only_with_trust(run, home) -> None:
    torch.manual_seed(5)
    source = nn.Sequential(
        nn.Conv2d(3, 6, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(6, 12)
    )
    source[0].weight.data[3:] = -source[0].weight.data[:3]
    torch.save({"state_dict": source.state_dict(), "epoch": 3}, "w.pt")
    asked = ("diagnose", "mine.py:network", "--input", "2x3x8x8", "--questions", "pairing")
    ended = run(*asked, "--weights", "w.pt")
    command = "gatewise diagnose mine.py:network --weights w.pt --trust"
    assert ended.exit_code == 2 and command in ended.stderr.replace("\n", "")
    ended = run(*asked, "--weights", "w.pt", "--trust", "--out", "out", "--json")
    assert ended.exit_code == 0, ended.output
    row = json.loads(ended.stdout)["questions"][0]["facts"]["layers"][0]
    assert row["mean"] == pytest.approx(-1.0, abs=1e-5)


class Marker:
    """Runs code when it is unpickled without protection."""

    def __init__(self, path) -> None:
        self.path = path

    def __reduce__(self):
        return open, (str(self.path), "w")


def test_a_hostile_pickle_runs_nothing_even_with_trust(run, home) -> None:
    torch.save({"a": Marker(home / "marker")}, "bad.pt")
    ended = run("diagnose", "mine.py:network", "--weights", "bad.pt", "--trust")
    assert ended.exit_code == 2 and not (home / "marker").exists()


def test_an_advised_swap_changes_what_it_says_and_nothing_else(run, home) -> None:
    """One ReLU module is called twice; the advice is about its first call alone."""
    x = np.random.default_rng(0).standard_normal((40, 3, 8, 8)).astype(np.float32)
    np.save("x.npy", x)
    record, _ = diagnosed(run, "--data", "x.npy", model="mine.py:reused", questions="pairing")
    advice = next(item for item in record["advice"] if "half" in item["command"])
    assert advice["layers"] == ["conv1"]
    ended = run(*shlex.split(advice["command"])[1:], "--json")
    assert ended.exit_code == 0, ended.output
    receipt = json.loads(ended.stdout)
    before, after = receipt["parameters"]
    assert f"{before - after:,} of {before:,} parameters" in advice["text"]


def test_an_interrupted_diagnosis_keeps_what_is_finished_and_goes_on(
    run, home, monkeypatch
) -> None:
    import gatewise.analysis.diagnosis.questions as questions

    x = np.random.default_rng(0).standard_normal((12, 3, 8, 8)).astype(np.float32)
    np.save("x.npy", x)
    asked: list[str] = []
    real = dict(questions.QUESTIONS)

    def interrupting(name: str, stop: bool):
        question = real[name]

        def answer(context):
            asked.append(name)
            if stop:
                raise KeyboardInterrupt
            return question.answer(context)

        return type(question)(name, question.title, answer, question.reads_inputs)

    arguments = ("diagnose", "mine.py:network", "--data", "x.npy", "--out", "out")
    arguments += ("--questions", "sites,gates,pairing")
    for name in ("sites", "gates", "pairing"):
        monkeypatch.setitem(questions.QUESTIONS, name, interrupting(name, name == "pairing"))
    ended = run(*arguments)
    assert ended.exit_code == 130 and "run the same command to resume" in ended.stderr
    record = json.loads(Path("out/diagnosis.json").read_text())
    states = {item["name"]: item["state"] for item in record["questions"]}
    assert states == {"sites": "answered", "gates": "answered", "pairing": "not asked"}
    assert "Not asked yet" in (home / "out" / "index.html").read_text()
    asked.clear()
    monkeypatch.setitem(questions.QUESTIONS, "pairing", interrupting("pairing", False))
    ended = run(*arguments)
    assert ended.exit_code == 0 and asked == ["pairing"] and "resuming: 2" in ended.stderr
    assert not (home / "out" / "unfinished.json").exists()
    asked.clear()
    assert run(*arguments).exit_code == 0 and asked == ["sites", "gates", "pairing"]
    # Another command, or changed data, does not use the answers.
    monkeypatch.setitem(questions.QUESTIONS, "pairing", interrupting("pairing", True))
    assert run(*arguments).exit_code == 130
    np.save("x.npy", x + 1)
    asked.clear()
    assert run(*arguments).exit_code == 130 and asked == ["sites", "gates", "pairing"]


@pytest.mark.slow
def test_ctrl_c_in_a_real_process_writes_a_page(home) -> None:
    x = np.random.default_rng(0).standard_normal((200, 3, 32, 32)).astype(np.float32)
    np.save("x.npy", x)
    command = [sys.executable, "-m", "gatewise", "diagnose", "mine.py:network", "--data", "x.npy"]
    command += ["--out", "out", "--seconds", "60"]
    # A shell that runs the tests in the background has told its children to ignore SIGINT.
    with subprocess.Popen(
        command,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "share" in line:  # the third question has begun
                process.send_signal(signal.SIGINT)
                break
        rest = process.stderr.read()
        assert process.wait(300) == 130, rest
    record = json.loads(Path("out/diagnosis.json").read_text())
    states = [item["state"] for item in record["questions"]]
    assert states[0] == "answered" and "not asked" in states


def test_progress_fits_80_columns() -> None:
    import io

    from rich.console import Console

    from gatewise.analysis import QUESTIONS
    from gatewise.cli.output import Watch

    watch = Watch({name: question.title for name, question in QUESTIONS.items()})
    out = io.StringIO()
    console = Console(file=out, width=80, force_terminal=True, color_system=None)
    for name in QUESTIONS:
        watch(name, 50, 100)
    console.print(watch.bars.get_renderable())
    lines = out.getvalue().splitlines()
    assert len(lines) == len(QUESTIONS) and max(map(len, lines)) <= 80


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--size", -3], "--size is not allowed; got: -3"),
        (["--size", 8], "fix: name the inputs with --data"),
        (["--std", "0"], "--std: needs numbers above 0"),
        (["--scale", "0"], "--scale is not allowed"),
        (["--bgr"], "fix: name the inputs with --data"),
    ],
)
def test_how_inputs_are_prepared_is_checked_without_data_too(run, tmp_path, words, said) -> None:
    ended = run("diagnose", "small_cnn", *words, "--out", tmp_path / "out")
    assert ended.exit_code == 2 and said in ended.stderr and not (tmp_path / "out").exists()
