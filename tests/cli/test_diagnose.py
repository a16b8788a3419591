"""``gatewise diagnose``.

What it prints and writes, for every kind of model reference and of data.
"""

import json
import shlex

import numpy as np
import pytest
import torch
from torch import nn
from zoo import declare_missing_torchvision_operators

from gatewise.analysis.diagnosis.questions import QUESTIONS
from gatewise.files import write_tensors

FACTORY = """
import torch
from torch import nn


def network(width=8):
    torch.manual_seed(width)
    first = (nn.Conv2d(3, width, 3, padding=1), nn.ReLU())
    return nn.Sequential(*first, nn.Conv2d(width, 4, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(4))


def paired():
    made = network(24)
    made(torch.zeros(1, 3, 8, 8))
    weight = made[0].weight.data
    weight[12:] = -weight[:12]
    return made


def rows():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
"""


@pytest.fixture
def factory(tmp_path):
    path = tmp_path / "mine.py"
    path.write_text(FACTORY)
    return path


def test_an_unknown_question_lists_all(run, factory) -> None:
    message = run("diagnose", f"{factory}:rows", "--input", "2x6", "--questions", "gatess").stderr
    assert "did you mean 'gates'?" in message
    assert ", ".join(sorted(QUESTIONS)) in " ".join(message.split())


def test_a_factory_with_arrays_gives_a_page_a_record_and_a_summary(run, factory, tmp_path) -> None:
    pixels = np.random.default_rng(0).integers(0, 256, (30, 3, 8, 8), dtype=np.uint8)
    np.save(tmp_path / "images.npy", pixels)
    out = tmp_path / "looked"
    ended = run(
        "diagnose",
        f"{factory}:paired",
        "--data",
        tmp_path / "images.npy",
        "--examples",
        20,
        "--out",
        out,
        "--questions",
        "sites,pairing",
        "--questions",
        "gates",
        "--seconds",
        1,
    )
    assert ended.exit_code == 0, ended.output
    record = json.loads((out / "diagnosis.json").read_text())
    assert [each["name"] for each in record["questions"]] == ["sites", "gates", "pairing"]
    assert (
        record["data"]["examples"] == 20
        and record["data"]["real"]
        and "images.npy" in record["data"]["about"]
    )
    assert (out / "index.html").read_text().startswith("<!doctype html>")
    assert (
        "2 activation layers: 2 relu." in ended.stdout and str(out / "index.html") in ended.stderr
    )
    assert "checking: Do layers have opposite filters" in ended.stderr
    command = record["advice"][0]["command"]
    assert f"{factory}:paired --input 2x3x8x8" in command and command in ended.stdout.replace(
        "\n", " "
    )


def test_a_command_that_is_advised_works(run, factory, tmp_path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    np.save(
        "images.npy", np.random.default_rng(0).standard_normal((10, 3, 8, 8)).astype(np.float32)
    )
    run(
        "diagnose",
        f"{factory}:paired",
        "--data",
        "images.npy",
        "--questions",
        "pairing",
        "--out",
        "looked",
    )
    advice = json.loads((tmp_path / "looked" / "diagnosis.json").read_text())["advice"]
    program, *words = shlex.split(
        next(each["command"] for each in advice if "half" in each["command"])
    )
    assert (
        program == "gatewise"
        and run(*words).exit_code == 0
        and (tmp_path / "crelu.safetensors").exists()
    )


def test_without_data_inputs_are_random_and_the_page_says_so(run, factory, tmp_path) -> None:
    out = tmp_path / "looked"
    ended = run(
        "diagnose",
        f"{factory}:rows",
        "--input",
        "2x6",
        "--questions",
        "sites,gates,kernel",
        "--out",
        out,
    )
    assert ended.exit_code == 0, ended.output
    record = json.loads((out / "diagnosis.json").read_text())
    assert not record["data"]["real"] and record["data"]["examples"] == 100
    states = {each["name"]: (each["state"], each["reason"]) for each in record["questions"]}
    assert (
        states["gates"] == ("does not apply", "no real inputs")
        and states["kernel"][0] == "answered"
    )
    assert "Random inputs." in (out / "index.html").read_text()


def test_random_inputs_without_checkpoints_ask_and_say_no_more_than_that(run, factory, tmp_path):
    ended = run("diagnose", f"{factory}:rows", "--input", "2x6", "--out", tmp_path / "out")
    words = " ".join(ended.stdout.split())
    assert "Inputs: random numbers, so not checked." in words
    assert "input check not checked" not in words
    record = json.loads((tmp_path / "out" / "diagnosis.json").read_text())
    names = [each["name"] for each in record["questions"]]
    assert names == ["sites", "gates", "pairing", "cost"]
    assert "checkpoints" not in ended.stderr
    assert "gw." not in words  # calls of Python are no commands


def test_report_writes_the_page_of_a_folder_again(run, factory, tmp_path) -> None:
    out = tmp_path / "looked"
    run("diagnose", f"{factory}:rows", "--input", "2x6", "--questions", "prior", "--out", out)
    page = (out / "index.html").read_text()
    (out / "index.html").unlink()
    for arguments, target in (
        ((), out / "index.html"),
        (("--out", tmp_path / "page.html"), tmp_path / "page.html"),
    ):
        ended = run("report", out, *arguments)
        assert ended.exit_code == 0, ended.output
        assert target.read_text() == page


def test_json_is_the_record(run, factory, tmp_path) -> None:
    out = tmp_path / "looked"
    ended = run(
        "diagnose",
        f"{factory}:rows",
        "--input",
        "2x6",
        "--questions",
        "prior",
        "--out",
        out,
        "--json",
    )
    assert json.loads(ended.stdout) == json.loads((out / "diagnosis.json").read_text())


def test_own_weights_are_looked_at(run, factory, tmp_path) -> None:
    made = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2))
    made[0].weight.data[4:] = -made[0].weight.data[:4]
    write_tensors(tmp_path / "own.safetensors", made.state_dict())
    out = tmp_path / "looked"
    ended = run(
        "diagnose",
        f"{factory}:rows",
        "--input",
        "2x6",
        "--questions",
        "pairing",
        "--out",
        out,
        "--weights",
        tmp_path / "own.safetensors",
    )
    assert ended.exit_code == 0, ended.output
    facts = json.loads((out / "diagnosis.json").read_text())["questions"][0]["facts"]
    assert facts["layers"][0]["mean"] == pytest.approx(-1, abs=1e-6)


def test_a_catalogue_model_on_a_catalogue_set(run, tmp_path) -> None:
    out = tmp_path / "looked"
    ended = run(
        "diagnose",
        "gatewise:mlp",
        "--data",
        "digits",
        "--examples",
        50,
        "--out",
        out,
        "--set",
        "features=64",
        "--questions",
        "gates,overlap",
    )
    assert ended.exit_code == 0, ended.output
    record = json.loads((out / "diagnosis.json").read_text())
    assert record["data"]["classes"] == 10 and "test images of digits" in record["data"]["about"]
    assert [each["state"] for each in record["questions"]] == ["answered", "answered"]


def kept(folder, *parts: float):
    """Weights of `rows` at moments of a training that there never was."""
    made = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)).state_dict()
    paths = [folder / f"at-{number}.safetensors" for number in range(len(parts))]
    for path, part in zip(paths, parts, strict=True):
        write_tensors(path, {name: value + part for name, value in made.items()})
    return paths


def test_checkpoints_are_gone_through_and_the_last_is_what_is_looked_at(
    run, factory, tmp_path
) -> None:
    x = np.random.default_rng(0).standard_normal((30, 6)).astype(np.float32)
    np.save(tmp_path / "rows.npy", x)
    paths = kept(tmp_path, 0.0, 0.2, 0.4)
    same = ("diagnose", f"{factory}:rows", "--data", tmp_path / "rows.npy")
    given = [word for path in paths for word in ("--checkpoints", path)]
    ended = run(
        *same,
        "--seconds",
        1,
        "--questions",
        "flips,film,prior",
        *given,
        "--out",
        tmp_path / "looked",
    )
    assert ended.exit_code == 0, ended.output
    record = json.loads((tmp_path / "looked" / "diagnosis.json").read_text())
    facts = {each["name"]: each["facts"] for each in record["questions"]}
    assert facts["film"]["names"] == ["at-0", "at-1", "at-2"] and len(facts["flips"]["steps"]) == 2
    alone = run(*same, "--questions", "prior", "--weights", paths[-1], "--out", tmp_path / "last")
    assert alone.exit_code == 0
    last = json.loads((tmp_path / "last" / "diagnosis.json").read_text())["questions"][0]["facts"]
    assert facts["prior"] == last


def test_the_folder_of_a_run_gives_its_checkpoints(run, tmp_path) -> None:
    trained = run(
        "train",
        "mlp",
        "--set",
        "features=64",
        "--set",
        "widths=[8]",
        "--epochs",
        2,
        "--keep-weights",
        1,
        "--out",
        tmp_path / "run",
    )
    assert trained.exit_code == 0, trained.output
    ended = run(
        "diagnose",
        "gatewise:mlp",
        "--set",
        "features=64",
        "--set",
        "widths=[8]",
        "--data",
        "digits",
        "--examples",
        50,
        "--questions",
        "flips",
        "--checkpoints",
        tmp_path / "run",
        "--out",
        tmp_path / "looked",
    )
    assert ended.exit_code == 0, ended.output
    steps = json.loads((tmp_path / "looked" / "diagnosis.json").read_text())["questions"][0][
        "facts"
    ]["steps"]
    assert [(step["from"], step["to"]) for step in steps] == [
        ("epoch 0", "epoch 1"),
        ("epoch 1", "epoch 2"),
    ]


def test_checkpoints_that_are_not_there_are_named(run, factory, tmp_path) -> None:
    for given, words in (
        (tmp_path / "none.safetensors", "there is no such file"),
        (tmp_path, "--keep-weights 1"),
    ):
        ended = run(
            "diagnose",
            f"{factory}:rows",
            "--input",
            "2x6",
            "--checkpoints",
            given,
            "--out",
            tmp_path / "looked",
        )
        assert ended.exit_code == 2 and words in ended.stderr.replace("\n", " ")
        assert not (tmp_path / "looked").exists()


@pytest.mark.parametrize("bad", range(3))
def test_a_bad_checkpoint_is_named_as_the_file_it_is(run, factory, tmp_path, bad: int) -> None:
    paths = kept(tmp_path, *(np.nan if bad == number else 0.1 * number for number in range(3)))
    other = tmp_path / "other.safetensors"
    write_tensors(other, nn.Linear(3, 2).state_dict())
    wrong = [*paths[:bad], other, *paths[bad + 1 :]]
    for given, words in (
        (paths, f"({paths[bad]}) contains NaN or infinity; fix: leave it out"),
        (wrong, f"({other}) does not fit the model"),
    ):
        ended = run(
            "diagnose",
            f"{factory}:rows",
            "--input",
            "2x6",
            "--out",
            tmp_path / "looked",
            *(word for path in given for word in ("--checkpoints", path)),
        )
        said = ended.stderr.replace("\n", " ")
        assert (
            ended.exit_code == 2
            and f"checkpoint {bad + 1} {words}" in said
            and "--weights" not in said
        )


@pytest.mark.slow
@pytest.mark.networks
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
)
def test_networks_of_others_give_pages(run, tmp_path) -> None:
    declare_missing_torchvision_operators()
    config = {
        "model_type": "bert",
        "architectures": ["BertForSequenceClassification"],
        "hidden_size": 32,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 48,
        "vocab_size": 50,
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    cases = {
        "hf": (f"hf:{tmp_path / 'config.json'}", "--input", "input_ids=int:2x7"),
        "timm": (
            "timm:resnet18",
            "--input",
            "2x3x32x32",
            "--questions",
            "sites,pairing,reconstruction",
        ),
    }
    for name, arguments in cases.items():
        ended = run("diagnose", *arguments, "--out", tmp_path / name, "--seconds", 2)
        assert ended.exit_code == 0, ended.output
        record = json.loads((tmp_path / name / "diagnosis.json").read_text())
        assert {each["state"] for each in record["questions"]} <= {"answered", "does not apply"}, (
            record["questions"]
        )
        assert record["questions"][0]["state"] == "answered"


BAD = [
    (("gatewise:mlp", "--data", "nothing"), "nothing"),
    (("gatewise:mlp", "--data", "missing.npy"), "cannot be read"),
    (("gatewise:mlp", "--data", "digits", "--size", "0"), "--size is not allowed"),
    (("gatewise:mlp", "--data", "a.npy", "--data", "digits"), "allowed: one of: a data set"),
    (("gatewise:mlp", "--questions", "nothing"), "there is no question of that name"),
    (("gatewise:mlp", "--input", "2x5"), "cannot be run"),
    (("nonsense",), "not a reference to a model"),
]


@pytest.mark.parametrize(("arguments", "words"), BAD, ids=range(len(BAD)))
def test_bad_input_is_one_line_and_exit_2(run, tmp_path, arguments, words) -> None:
    ended = run("diagnose", *arguments, "--out", tmp_path / "looked")
    assert ended.exit_code == 2 and words in ended.stderr.replace("\n", " ")
    assert not (tmp_path / "looked").exists()


def test_pickled_arrays_are_refused(run, tmp_path) -> None:
    np.save(tmp_path / "bad.npy", np.array([{"a": 1}, {"b": 2}], dtype=object), allow_pickle=True)
    ended = run(
        "diagnose", "gatewise:mlp", "--data", tmp_path / "bad.npy", "--out", tmp_path / "looked"
    )
    assert ended.exit_code == 2 and "not an array of numbers" in ended.stderr.replace("\n", " ")


def test_a_file_in_the_folders_place_is_refused(run, tmp_path) -> None:
    (tmp_path / "looked").write_text("mine")
    ended = run("diagnose", "gatewise:mlp", "--out", tmp_path / "looked")
    assert ended.exit_code == 2 and (tmp_path / "looked").read_text() == "mine"


def test_nan_in_the_data_is_named(run, tmp_path) -> None:
    x = torch.randn(4, 784)
    x[2, 3] = torch.nan
    np.save(tmp_path / "x.npy", x.numpy())
    ended = run(
        "diagnose", "gatewise:mlp", "--data", tmp_path / "x.npy", "--out", tmp_path / "looked"
    )
    assert ended.exit_code == 2 and "batch 0 contains NaN or infinity" in ended.stderr.replace(
        "\n", " "
    )


def test_one_input_is_said_to_be_one(run, factory, tmp_path) -> None:
    np.save(tmp_path / "one.npy", np.zeros((1, 6), dtype=np.float32))
    for given in (("--data", tmp_path / "one.npy"), ("--input", "2x6", "--examples", 1)):
        ended = run(
            "diagnose",
            f"{factory}:rows",
            *given,
            "--questions",
            "sites",
            "--out",
            tmp_path / "looked",
        )
        assert ended.exit_code == 0, ended.output
        about = json.loads((tmp_path / "looked" / "diagnosis.json").read_text())["data"]["about"]
        assert about.startswith(("1 input of ", "1 random input "))
