"""``gatewise inspect``, ``plan`` and ``swap``: what they print and write, and how they end."""

import json

import pytest
import torch
from torch import nn

from gatewise.files import read_tensors
from gatewise.models import create_model as catalogue_model
from gatewise.surgery import Plan, plan, receipt

FACTORY = '''
import torch
from torch import nn


def network(width=8):
    torch.manual_seed(width)
    first = nn.Conv2d(3, width, 3)
    last = nn.Conv2d(width, 4, 1)
    return nn.Sequential(first, nn.BatchNorm2d(width), nn.ReLU(), last)


class Sized(nn.Module):
    """Its code has a width written out, so that what a plan promises cannot be run."""

    def __init__(self):
        super().__init__()
        self.layer, self.act, self.head = nn.Linear(3, 8), nn.ReLU(), nn.Linear(8, 2)

    def forward(self, x):
        y = self.act(self.layer(x))
        assert y.shape[-1] == 8
        return self.head(y)


class Reshaped(nn.Module):
    """Its code reshapes the last of two activations to a fixed size."""

    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(3, 8), nn.Linear(8, 8)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        y = self.second(self.first(x).relu()).relu().unsqueeze(1)
        return self.head(y.reshape(-1, 8))


number = 3


def wrong():
    return number


def broken():
    raise KeyError("nothing here")
'''


@pytest.fixture
def factory(tmp_path):
    """A file with factories of models."""
    path = tmp_path / "mine.py"
    path.write_text(FACTORY)
    return path


def test_sites_lists_every_site(run, factory):
    found = run("inspect", f"{factory}:network", "--input", "2x3x8x8")
    assert found.exit_code == 0 and "1 site." in found.stdout
    line = next(line for line in found.stdout.splitlines() if "relu" in line)
    assert line.split()[:3] == ["2", "relu", "-"] and "8" in line
    record = json.loads(run("inspect", f"{factory}:network", "--input", "2x3x8x8", "--json").stdout)
    assert [site["name"] for site in record["sites"]] == ["2"]


def test_what_is_no_site_is_said_once(run, tmp_path):
    (tmp_path / "lstm.py").write_text(
        "from torch import nn\n\n\nclass Reader(nn.Module):\n"
        "    def __init__(self):\n        super().__init__()\n"
        "        self.lstm, self.out = nn.LSTM(4, 5), nn.Linear(5, 2)\n\n"
        "    def forward(self, x):\n        return self.out(self.lstm(x)[0].relu())\n"
    )
    found = run("inspect", f"{tmp_path / 'lstm.py'}:Reader", "--input", "2x3x4")
    assert found.exit_code == 0 and found.stdout.count("not a site") == 1


def test_plan_prints_a_table_and_as_json_a_plan_that_can_be_carried_out(run, factory):
    arguments = (
        f"{factory}:network",
        "--unit",
        "crelu",
        "--width",
        "same",
        "--preserve",
        "--input",
        "2x3x8x8",
    )
    shown = run("swap", "--dry-run", *arguments)
    assert (
        shown.exit_code == 0
        and "8 to 16" in shown.stdout
        and "1 of 1 sites change." in shown.stdout
    )
    made = Plan.from_json(run("swap", "--dry-run", *arguments, "--json").stdout)
    torch.manual_seed(8)
    model = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1)
    ).eval()
    x = torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(made.apply(model, inplace=False)(x), model(x))


def test_options_of_model_and_unit_and_the_choice_of_sites_are_handed_on(run, factory):
    arguments = (
        f"{factory}:network",
        "--set",
        "width=12",
        "--unit",
        "leaky_relu",
        "--option",
        "slope=0.3",
    )
    made = Plan.from_json(
        run(
            "swap", "--dry-run", *arguments, "--input", "2x3x8x8", "--where", "re:^2$", "--json"
        ).stdout
    )
    assert made.entries[0].channels == 12 and made.entries[0].options["slope"] == 0.3
    wide = (f"{factory}:network", "--set", "width=200", "--unit", "psc", "--match", "parameters")
    matched = Plan.from_json(run("swap", "--dry-run", *wide, "--input", "2x3x8x8", "--json").stdout)
    assert abs(matched.parameters[1] / matched.parameters[0] - 1) <= 0.01 and matched.edits


def test_swap_writes_weights_and_plan_that_give_the_changed_model_again(run, factory, tmp_path):
    out = tmp_path / "new.safetensors"
    ended = run(
        "swap", f"{factory}:network", "--unit", "iieu_b", "--input", "2x3x8x8", "--out", out
    )
    assert ended.exit_code == 0 and "1 site now iieu_b" in ended.stdout and str(out) in ended.stderr
    tensors, metadata = read_tensors(out)
    made = Plan.from_json((tmp_path / "new.plan.json").read_text())
    assert metadata == {"unit": "iieu_b", "plan": "new.plan.json"}
    torch.manual_seed(8)
    original = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1)
    ).eval()
    again = made.apply(original, inplace=False)
    again.load_state_dict(tensors)
    want = plan(original, "iieu_b", torch.randn(2, 3, 8, 8)).apply(original, inplace=False)
    x = torch.randn(3, 3, 8, 8)
    assert torch.equal(again(x), want(x))


CALLS = """
from torch import nn
from torch.nn import functional as F

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.b, self.c = nn.Linear(3, 8), nn.Linear(8, 8), nn.Linear(8, 2)
        self.act = nn.ReLU()

    def forward(self, x):
        return self.c(F.relu(self.b(self.act(self.a(x)))))

def make():
    return Net()
"""


@pytest.fixture
def calls(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "calls.py").write_text(CALLS)
    return ["calls.py:make", "--input", "4x3"]


def test_a_unit_in_a_swapped_model_is_one_site(run, calls):
    swapped = run("swap", *calls, "--unit", "crelu", "--preserve", "--out", "c.safetensors")
    assert swapped.exit_code == 0, swapped.output
    found = json.loads(run("inspect", *calls, "--weights", "c.safetensors", "--json").stdout)
    rows = [(site["name"], site["op"], site["channels"]) for site in found["sites"]]
    assert rows == [("act", "crelu", 16), ("gw.s0", "crelu", 16)]
    functions = found["functions"]["sites"]
    assert len(functions) == 2 and all("function='crelu'" in str(site) for site in functions)
    words = ["--weights", "c.safetensors", "--unit", "relu", "--where", r"re:^gw\.s0$"]
    refused = run("swap", *calls, *words, "--dry-run")
    assert refused.exit_code == 2 and "gw.undo(model) takes back the swap" in refused.stderr


def test_weights_with_a_plan_are_swapped_again_and_keep_both_plans(run, calls):
    run("swap", *calls, "--unit", "swish", "--out", "s.safetensors")
    words = ["--weights", "s.safetensors", "--unit", "crelu", "--where", r"re:^gw\.s0$"]
    planned = run("swap", *calls, *words, "--dry-run", "--json")
    assert planned.exit_code == 0, planned.output
    changes = [entry["change"] for entry in json.loads(planned.stdout)["entries"]]
    assert sorted(changes) == ["leave", "swap"]
    again = run("swap", *calls, *words, "--out", "t.safetensors")
    assert again.exit_code == 0, again.output
    found = json.loads(run("inspect", *calls, "--weights", "t.safetensors", "--json").stdout)
    assert [site["op"] for site in found["sites"]] == ["composite", "crelu"]


def test_swap_refuses_sites_before_a_reshape_to_a_fixed_size(run, factory, tmp_path):
    out = tmp_path / "new.safetensors"
    asked = (f"{factory}:Reshaped", "--unit", "crelu", "--input", "2x3", "--out", out, "--json")
    ended = run("swap", *asked)
    assert ended.exit_code == 0, ended.output
    record = json.loads(ended.stdout)
    assert len(record["sites"]) == 1 and record["proved"]
    assert "fixed size ((2, 1, 8) to (2, 8))" in "".join(record["refused"].values())


def test_swap_carries_out_a_plan_from_a_file_with_weights_from_a_file(run, factory, tmp_path):
    from safetensors.torch import save_file

    torch.manual_seed(77)
    trained = nn.Sequential(
        nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 4, 1)
    ).eval()
    save_file(trained.state_dict(), tmp_path / "old.safetensors")
    made = plan(trained, "crelu", torch.randn(2, 3, 8, 8), preserve=True)
    (tmp_path / "a.plan.json").write_text(made.to_json())
    files = ("--plan", tmp_path / "a.plan.json", "--weights", tmp_path / "old.safetensors")
    arguments = (
        f"{factory}:network",
        *files,
        "--input",
        "2x3x8x8",
        "--out",
        tmp_path / "b.safetensors",
        "--json",
    )
    found = json.loads(run("swap", *arguments).stdout)
    assert found["preserve"] and found["proof"]["output_float64"] <= 1e-12
    new = made.apply(trained, inplace=False)
    new.load_state_dict(read_tensors(tmp_path / "b.safetensors")[0])
    x = torch.randn(2, 3, 8, 8)
    torch.testing.assert_close(new(x), trained(x))
    assert receipt(new).unit == "crelu"


def test_a_swap_that_is_not_what_was_promised_ends_with_1_and_writes_nothing(
    run, factory, tmp_path
):
    out = tmp_path / "new.safetensors"
    arguments = ("--unit", "crelu", "--width", "same", "--input", "2x3", "--out", out)
    ended = run("swap", f"{factory}:Sized", *arguments)
    assert ended.exit_code == 1 and "cannot be run" in ended.stderr
    assert not out.exists() and not (tmp_path / "new.plan.json").exists()


BAD = [
    (("inspect", "nothing"), "not a reference to a model"),
    (("inspect", "gatewise:resnett"), "did you mean 'resnet'"),
    (("inspect", "no.such.package:factory", "--input", "2x3"), "the module cannot be imported"),
    (("inspect", "math:factorio", "--input", "2x3"), "math has no function of that name"),
    (("inspect", "missing.py:network", "--input", "2x3"), "there is no such file"),
    (("inspect", "hf:missing.json", "--input", "2x3"), "the configuration cannot be read"),
    (("inspect", "FILE:wrong", "--input", "2x3"), "does not return a model"),
    (("inspect", "FILE:broken", "--input", "2x3"), "KeyError: 'nothing here'"),
    (
        ("inspect", "FILE:network", "--set", "widht=4", "--input", "2x3"),
        "pass arguments with --set NAME=VALUE",
    ),
    (("inspect", "FILE:network"), "needs the shape of an example"),
    (("inspect", "FILE:network", "--input", "2x3xx8"), "is not a shape"),
    (("inspect", "FILE:network", "--input", "2x0x8"), "empty or too large"),
    (("inspect", "FILE:network", "--input", "2x5x8x8"), "the model cannot be run on it"),
    (
        ("inspect", "FILE:network", "--input", "x=2x3x8x8", "--input", "2x3"),
        "name all inputs or none",
    ),
    (
        ("inspect", "FILE:network", "--set", "width", "--input", "2x3x8x8"),
        "not of the form KEY=VALUE",
    ),
    (
        ("swap", "FILE:network", "--dry-run", "--unit", "crelux", "--input", "2x3x8x8"),
        "did you mean 'crelu'",
    ),
    (
        ("swap", "FILE:network", "--dry-run", "--unit", "pcs", "--input", "2x3x8x8"),
        "did you mean 'psc'",
    ),
    (
        (
            "swap",
            "FILE:network",
            "--dry-run",
            "--unit",
            "relu",
            "--where",
            "x*",
            "--input",
            "2x3x8x8",
        ),
        "no activation site matches",
    ),
    (
        (
            "swap",
            "FILE:network",
            "--dry-run",
            "--unit",
            "crelu",
            "--width",
            "third",
            "--input",
            "2x3x8x8",
        ),
        "there is no width",
    ),
    (
        ("swap", "FILE:network", "--unit", "relu", "--out", "TMP/a.bin", "--input", "2x3x8x8"),
        "allowed: .safetensors",
    ),
    (
        ("swap", "FILE:network", "--out", "TMP/a.safetensors", "--input", "2x3x8x8"),
        "needs either a unit or a plan",
    ),
    (
        (
            "swap",
            "FILE:network",
            "--plan",
            "TMP",
            "--out",
            "TMP/a.safetensors",
            "--input",
            "2x3x8x8",
        ),
        "cannot be read",
    ),
]


@pytest.mark.parametrize(("arguments", "says"), BAD, ids=[says for _, says in BAD])
def test_bad_input_is_one_line_and_exit_2(run, factory, arguments, says):
    given = [
        each.replace("FILE", str(factory)).replace("TMP", str(factory.parent)) for each in arguments
    ]
    ended = run(*given)
    assert ended.exit_code == 2
    assert "Traceback" not in ended.output and says in ended.stderr.replace("\n", "")


@pytest.mark.parametrize(
    ("text", "says"), [("{", "is not JSON"), ("[1]", "no model_type"), ("{}", "no model_type")]
)
@pytest.mark.networks
def test_a_configuration_that_is_none_is_our_error(run, tmp_path, text, says):
    (tmp_path / "config.json").write_text(text)
    ended = run("inspect", f"hf:{tmp_path / 'config.json'}", "--input", "ids=int:2x5")
    assert ended.exit_code == 2 and says in ended.stderr


def test_a_network_of_the_catalogue_needs_no_input(run):
    found = json.loads(
        run(
            "swap",
            "gatewise:resnet_cifar",
            "--dry-run",
            "--unit",
            "gelu",
            "--where",
            "*stem*",
            "--json",
        ).stdout
    )
    assert (
        found["parameters"]
        == [sum(each.numel() for each in catalogue_model("resnet_cifar").parameters())] * 2
    )


@pytest.mark.slow
@pytest.mark.networks
@pytest.mark.filterwarnings(
    "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
)
def test_models_of_the_three_libraries_are_found_by_their_names(run, tmp_path):
    from zoo import declare_missing_torchvision_operators

    declare_missing_torchvision_operators()
    config = {
        "model_type": "bert",
        "architectures": ["BertForSequenceClassification"],
        "vocab_size": 60,
        "hidden_size": 16,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "intermediate_size": 32,
        "auto_map": {"AutoModel": "evil.Code"},
    }
    (tmp_path / "config.json").write_text(json.dumps(config))
    cases = [
        ("torchvision:squeezenet1_1", ("--input", "2x3x64x64"), 26),
        ("timm:resnet10t", ("--input", "2x3x64x64"), 11),
        (f"hf:{tmp_path / 'config.json'}", ("--input", "input_ids=int:2x5"), 2),
    ]
    for reference, arguments, sites in cases:
        ended = run("inspect", reference, *arguments, "--json")
        assert ended.exit_code == 0, ended.output
        assert len(json.loads(ended.stdout)["sites"]) == sites
    for reference in ("torchvision:resnet19", "timm:resnet19x"):
        ended = run("inspect", reference)
        assert ended.exit_code == 2 and "has no model of that name" in ended.stderr


def test_a_library_that_is_not_installed_is_said_with_the_command_that_adds_it(run, monkeypatch):
    import sys

    for name, reference in (("timm", "timm:resnet18"), ("transformers", "hf:config.json")):
        monkeypatch.setitem(sys.modules, name, None)
        ended = run("inspect", reference, "--input", "2x3x8x8")
        assert ended.exit_code == 2 and f"pip install '{name}" in ended.stderr


def test_a_library_that_cannot_be_imported_in_full_is_said_with_what_stopped_it(
    run, monkeypatch, tmp_path
):
    """As transformers does beside a torchvision for another torch.

    Its members are imported when asked for.
    """
    import sys
    from types import ModuleType, SimpleNamespace

    class Lazy(ModuleType):
        def __getattr__(self, name: str):
            try:
                raise RuntimeError("operator torchvision::nms does not exist")
            except RuntimeError as problem:
                raise ModuleNotFoundError(f"Could not import module {name!r}") from problem

    library = Lazy("transformers")
    library.AutoConfig = SimpleNamespace(for_model=lambda kind, **options: SimpleNamespace())
    monkeypatch.setitem(sys.modules, "transformers", library)
    (tmp_path / "config.json").write_text('{"model_type": "bert", "architectures": ["BertModel"]}')
    ended = run("inspect", f"hf:{tmp_path / 'config.json'}", "--input", "int:2x5")
    said = " ".join(ended.stderr.split())
    assert ended.exit_code == 2 and "transformers's BertModel cannot be imported" in said
    assert "torchvision::nms does not exist" in said and "that fit the installed torch" in said


def test_a_factory_that_cannot_import_its_library_is_said_with_what_stopped_it(run, tmp_path):
    (tmp_path / "net.py").write_text(
        "def make():\n"
        "    try:\n        raise RuntimeError('operator torchvision::nms does not exist')\n"
        "    except RuntimeError as problem:\n"
        "        raise ModuleNotFoundError('Could not import module BertModel') from problem\n"
    )
    ended = run("inspect", f"{tmp_path / 'net.py'}:make", "--input", "2x3")
    said = " ".join(ended.stderr.split())
    assert ended.exit_code == 2 and "Could not import module BertModel" in said
    assert "Cause: RuntimeError: operator torchvision::nms does not exist" in said
    assert "that fit the installed torch" in said


def test_a_file_that_was_named_as_a_module_is_found(run, factory, monkeypatch):
    monkeypatch.chdir(factory.parent)
    ended = run("inspect", "mine:network", "--input", "2x3x8x8")
    assert ended.exit_code == 2 and "did you mean mine.py:...?" in " ".join(ended.stderr.split())


def test_a_plan_names_the_readers_that_are_given_the_activation_again(run):
    wanted = (
        "--unit",
        "psc",
        "--preserve",
        "--option",
        "put_back=true",
        "--set",
        "depth=8",
        "--set",
        "scale=0.25",
    )
    shown = run("swap", "gatewise:resnet_cifar", "--dry-run", *wanted, "--input", "2x3x8x8")
    assert (
        shown.exit_code == 0
        and "put back where add in features.stage1.0 reads features.stem.unit" in shown.stdout
    )
