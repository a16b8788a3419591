"""Every command that a diagnosis advises is run, and does what its sentence says."""

import importlib.util
import json
import shlex
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from torch import nn

import gatewise as gw
from gatewise.analysis.diagnosis import Advice, advice

FACTORY = """
import torch
from torch import nn


def make(kind):
    torch.manual_seed(0)
    first = nn.Conv2d(3, 24, 3)
    unit = nn.GELU() if kind == "soft" else nn.ReLU()
    rest = (nn.Conv2d(24, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(32, 12))
    model = nn.Sequential(first, unit, nn.MaxPool2d(2), *rest)
    with torch.no_grad():
        if kind == "opposite":
            first.weight[12:] = -2 * first.weight[:12]
        if kind == "dead":
            first.bias[:6] = -1e3
        if kind == "seldom":
            first.bias -= 1.1
        if kind == "plain":  # too few different filters to rebuild an image after pooling
            first.weight[8:] = first.weight[:8].repeat(2, 1, 1, 1)
        if kind == "similar":
            first.weight[1] = first.weight[0] * 1.5
        model[-1].weight.mul_(4)
    return model


def opposite():
    return make("opposite")


def dead():
    return make("dead")


def seldom():
    return make("seldom")


def similar():
    return make("similar")


def soft():
    return make("soft")


def plain():
    return make("plain")
"""


@pytest.fixture
def home(tmp_path, monkeypatch):
    (tmp_path / "nets.py").write_text(FACTORY)
    monkeypatch.chdir(tmp_path)
    x = np.random.default_rng(0).standard_normal((120, 3, 10, 10)).astype(np.float32)
    np.save("x.npy", x)
    return tmp_path


def network(home: Path, name: str) -> nn.Module:
    spec = importlib.util.spec_from_file_location("nets", home / "nets.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return getattr(module, name)().eval()


def advice_for(run, name: str, questions: str, word: str) -> dict:
    asked = ("--data", "x.npy", "--questions", questions, "--out", "out")
    ended = run("diagnose", f"nets.py:{name}", *asked)
    assert ended.exit_code == 0, ended.output
    record = json.loads(Path("out/diagnosis.json").read_text())
    every = [*record["advice"], *record["more_advice"], *record["held_back"]]
    return next(item for item in every if word in item["command"])


def ran(run, command: str) -> dict:
    program, *words = shlex.split(command)
    ended = run(*words, "--json")
    assert program == "gatewise" and ended.exit_code == 0, ended.output
    return json.loads(ended.stdout)


def test_merging_keeps_the_outputs_and_merges_the_pairs_that_were_counted(run, home) -> None:
    advice = advice_for(run, "opposite", "pairing", "merge_pairs")
    assert advice["title"].startswith("24 filters of layer 0") and advice["strength"] == "strong"
    model = network(home, "opposite")
    example = torch.from_numpy(np.load("x.npy"))[:4]
    with torch.no_grad():
        before = model(example)
    names = {"gw": gw, "model": model, "x": example}
    changed = eval(advice["command"], names)  # noqa: S307 - the command is what is tested
    with torch.no_grad():
        torch.testing.assert_close(changed(example), before, atol=1e-4, rtol=1e-4)
    assert len(gw.receipt(changed).pairs) >= 1
    weights = [module for module in changed.modules() if isinstance(module, nn.Conv2d)]
    assert len(weights[0].weight) == 12


def test_counts_of_channels_have_commands_that_work(run, home) -> None:
    advice_for(run, "dead", "gates", "")
    record = json.loads(Path("out/diagnosis.json").read_text())
    calls = {each["name"]: each["call"] for each in record["findings"]}
    used = {name: call for name, call in calls.items() if call}
    numbers = {each["name"]: each["number"] for each in record["findings"]}
    assert used.keys() >= {"dead"} and not any(numbers[name] == "0" for name in used)
    assert not any(call.startswith("gw.") for call in used.values())  # this is a shell
    for name in used:
        file = "revived.safetensors" if name == "dead" else ""
        program, *words = shlex.split(calls[name])
        ended = run(*(word.replace("YOUR_DATA", "x.npy") for word in words), "--out", "again")
        assert program == "gatewise" and ended.exit_code == 0, ended.output
        assert not file or load_file(file)
    assert "commands" not in record


def test_half_width_saves_what_is_said(run, home) -> None:
    advice = advice_for(run, "opposite", "pairing", "--width half")
    receipt = ran(run, advice["command"])
    before, after = receipt["parameters"]
    assert f"{before - after:,} of {before:,} parameters" in advice["text"]


def test_leaky_relu_gives_dead_channels_a_gradient(run, home) -> None:
    advice = advice_for(run, "dead", "gates", "leaky_relu")
    assert "6 of 32 channels never fire on 120 inputs" in advice["text"]
    ran(run, advice["command"])
    words = shlex.split(advice["command"])
    where = words[words.index("--where") + 1]
    model = network(home, "dead")
    x = torch.from_numpy(np.load("x.npy"))
    changed = gw.swap(model, "leaky_relu", x[:2], where=where)
    for net, alive in ((model, False), (changed, True)):
        net.zero_grad()
        net(x).square().sum().backward()
        first = next(module for module in net.modules() if isinstance(module, nn.Conv2d))
        assert bool(first.weight.grad[:6].any()) == alive


def test_crelu_that_keeps_the_outputs_keeps_them(run, home) -> None:
    advice = advice_for(run, "plain", "reconstruction", "--preserve")
    assert "norm" in advice["text"]
    receipt = ran(run, advice["command"])
    before, after = receipt["parameters"]
    assert after > before  # the layer after it reads both signs
    assert len(receipt["entries"] if "entries" in receipt else receipt["sites"]) >= 1


def test_more_inputs_are_looked_at(run, home) -> None:
    advice = advice_for(run, "seldom", "gates,cost", "gatewise diagnose")
    assert advice["strength"] == "weak" and "layer 0" in advice["title"].lower()
    command = advice["command"].replace("YOUR_DATA", "x.npy")
    record = ran(run, f"{command} --out again")
    assert [item["name"] for item in record["questions"]] == ["gates", "cost"]


def test_orthogonal_filters_are_no_longer_alike(run, home) -> None:
    advice = advice_for(run, "similar", "orthogonality,pairing", "orthogonalize")
    model = network(home, "similar")
    changed = eval(advice["command"], {"gw": gw, "model": model})  # noqa: S307
    before = gw.analysis.orthogonality(model).layers[0].coherence
    rows = nn.functional.normalize(changed[0].weight.detach().flatten(1), dim=1)
    after = float((rows @ rows.T - torch.eye(len(rows))).abs().max())
    assert before > 0.98 and after < 1e-4


def test_advice_is_ordered_and_small_savings_are_left_out(home) -> None:
    model = network(home, "opposite")
    with torch.no_grad():
        model[0].bias[:6] = -1e3
    x = torch.from_numpy(np.load("x.npy"))
    made = gw.diagnose(model, x, seconds=0.5, questions="all")
    every = [*made.advice, *made.more_advice]
    assert len(made.advice) <= 3 and len(every) >= 2
    keys = [(item.strength == "weak", item.kind != "saving", -item.size) for item in every]
    assert keys == sorted(keys)
    assert all(item.size >= 0.01 for item in every if item.kind == "saving")
    assert all(item.strength in ("strong", "fair", "weak") for item in every)
    assert all(isinstance(item, Advice) and item.effect and item.effect_of for item in every)


def test_a_saving_below_the_floor_is_not_advised() -> None:
    torch.manual_seed(0)
    # The layer with opposite filters is one thousandth of the compute and of the parameters.
    model = nn.Sequential(
        nn.Conv2d(1, 16, 3, stride=8),
        nn.ReLU(),
        nn.Conv2d(16, 256, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(256, 64, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(64, 4),
    )
    model[0].weight.data[8:] = -model[0].weight.data[:8]
    made = gw.diagnose(model, torch.randn(8, 1, 35, 35), questions=["pairing"])
    assert made["pairing"].facts["layers"][0]["mean"] < -0.99
    assert not [item for item in (*made.advice, *made.more_advice) if "0" in item.layers]


@pytest.mark.parametrize(("unit", "advised"), [("gelu", True), ("crelu", False), ("relu", False)])
def test_relu_is_advised_only_where_it_can_take_the_place(unit: str, advised: bool) -> None:
    case = SimpleNamespace(row=lambda name: {}, swap=lambda *words, **options: "command")
    sites = [{"unit": unit, "name": "act", "share": 0.5, "seconds": 1.0}]
    found = advice._on_cost(case, {"sites": sites, "seconds": 2.0, "inputs": 8})
    assert (found is not None) == advised


def test_revive_gives_dead_channels_new_weights_and_keeps_the_outputs(run, home) -> None:
    words = ("diagnose", "nets.py:dead", "--data", "x.npy", "--questions", "gates", "--out", "out")
    ended = run(*words, "--revive", "alive.safetensors")
    assert ended.exit_code == 0, ended.output
    model, changed = network(home, "dead"), network(home, "dead")
    changed.load_state_dict(load_file("alive.safetensors"))
    x = torch.from_numpy(np.load("x.npy"))
    with torch.no_grad():
        torch.testing.assert_close(changed(x), model(x), atol=1e-4, rtol=1e-4)
    assert [len(dead) for dead in dead_channels(model, x)] == [6, 0]
    assert [len(dead) for dead in dead_channels(changed, x)] == [0, 0]
    ended = run("diagnose", "nets.py:dead", "--input", "2x3x10x10", "--revive", "a.safetensors")
    assert ended.exit_code == 2 and "--data" in ended.stderr


def dead_channels(model: nn.Module, x: torch.Tensor) -> list[tuple[int, ...]]:
    return [site.dead for site in gw.gates(model, [x]).sites]
