"""The explorer of gates in a real browser, against the catalogue and against torch.

One browser and one page: the curves are those of the Python units, a slider can be dragged, the
networks train as torch trains them, and their regions are those of ``gw.analysis.partition``.
"""

import base64
import hashlib
import json
import os
import random
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest
import torch
from browser import Browser, Page, settle
from torch import nn

import gatewise as gw
from gatewise.report.explorer import explorer_page

ROOT = Path(__file__).parents[2]
BUILT = ROOT / "src/gatewise/report/explorer/explorer.html"
SOURCES = ROOT / "explorer"
PLANE = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
WINDOW = (-3.0, 3.0, -3.0, 3.0)
XS = [-6.0, -3.3, -2.51, -1.2, -0.41, -0.013, 0.013, 0.37, 1.1, 2.49, 3.4, 6.0]

# Units whose numbers are options of their module: what the page calls them, and options of Python.
OPTIONS = {
    "relu": {},
    "leaky_relu": {"slope": 0.31},
    "abs": {},
    "crelu": {},
    "leaky_crelu": {"slope": 0.23},
    "beta_vq of relu": {"beta": 0.62},
    "beta_vq of leaky_relu": {"beta": 0.37},
    "beta_vq of abs": {"beta": 0.71},
    "silu": {},
    "swish": {"beta": 2.3},
    "soft_relu": {"beta": 3.1, "eps": 0.2},
    "elu": {"alpha": 0.7},
    "gelu": {},
    "mish": {},
    "softplus": {"beta": 1.7},
    "prelu": {"slope": -0.2},
    "acon_c": {"p1": 1.1, "p2": -0.4, "beta": 1.6},
    "smu": {"mu": 1.9, "alpha": 0.1},
    "smu1": {"mu": 0.6, "alpha": 0.2},
    "erfact": {"alpha": 0.9, "beta": 0.8},
    "pserf": {"gamma": 1.1, "delta": 0.9},
    "celu": {},
    "hardsigmoid": {},
    "hardswish": {},
    "hardtanh": {},
    "leaky_relu2": {},
    "logsigmoid": {},
    "relu2": {},
    "relu6": {},
    "selu": {},
    "sigmoid": {},
    "softsign": {},
    "tanh": {},
    "tanhshrink": {},
    "telu": {},
}
# Units of two inputs, that jump, or whose numbers are trained per layer or channel.
NOT_OFFERED = {"bilinear", "clamped_swiglu", "geglu", "glu", "reglu", "situ_glu", "swiglu"}
NOT_OFFERED |= {"gelu_tanh", "jump_relu", "threshold", "dyt", "star_relu", "xielu"}


@pytest.fixture(scope="module")
def browser():
    with Browser() as running:
        yield running


@pytest.fixture(scope="module")
def page(browser):
    return browser.open(BUILT, width=1280, height=900)


def show(page: Page, address: str, step: int) -> None:
    """Load an address and wait until the networks are trained."""
    page.evaluate(f"location.hash = {json.dumps(f'{address}&step={step}')}")
    settle(page, f"explorer.step() === {step} && !explorer.busy()", 120)


def value_and_slope(key: str, function) -> tuple[torch.Tensor, torch.Tensor]:
    x = torch.tensor(XS, dtype=torch.float64, requires_grad=True)
    out = function(x)
    slopes = [torch.autograd.grad(part.sum(), x, retain_graph=True)[0] for part in out]
    return torch.stack(list(out)).detach(), torch.stack(slopes)


def python_curve(key: str, options: dict):
    name, _, pieces = key.partition(" of ")
    fixed = {"pieces": pieces} if pieces else {}
    channels = {"channels": 1} if name == "acon_c" else {}
    unit = gw.create_unit(name, **fixed, **channels, **options).double()
    return value_and_slope(key, lambda x: unit(x[:, None]).T)


def browser_curve(page: Page, key: str, numbers: list[float]):
    script = f"explorer.curve({json.dumps({'key': key, 'numbers': numbers})}, {XS})"
    parts = page.evaluate(script)
    return (torch.tensor([p[n] for p in parts], dtype=torch.float64) for n in ("value", "slope"))


@pytest.mark.browser
@pytest.mark.parametrize("key", OPTIONS)
def test_curves_are_those_of_the_units(page, key):
    numbers = list(OPTIONS[key].values())
    value, slope = browser_curve(page, key, numbers)
    expected, expected_slope = python_curve(key, OPTIONS[key])
    # Parameters of a module are made in float32: their numbers are off by up to 2^-24.
    torch.testing.assert_close(value, expected, rtol=4e-7, atol=4e-7)
    torch.testing.assert_close(slope, expected_slope, rtol=2e-6, atol=2e-6)


def probe_curves():
    """Units with a context or with tensors of numbers: the function with its arguments."""
    one = torch.ones(1, dtype=torch.float64)
    pau = gw.create_unit("pau").double()
    pwlu = gw.create_unit("pwlu").double()
    pwlu.slopes.data[:] = torch.tensor([0.3, 1.4])
    coefficients = [*pau.numerator.tolist(), *pau.denominator.tolist()]
    functions = {name: gw.get_unit(name).function for name in gw.list_units()}

    def meta_acon(x):
        switch = 0.8 * torch.ones(len(x), 1, dtype=torch.float64)
        return functions["meta_acon"](x[:, None], switch=switch, p1=1.1 * one, p2=-0.2 * one).T

    def iieu_b(x):
        y = functions["iieu_b"](x, patch=1.0, filter_norm=1.0, shift=0.4, eta=0.1, dim=0)
        return y[None]

    def maxout(x):
        return functions["maxout"](torch.stack((x, torch.full_like(x, 0.7)), 1)).T

    def frelu(x):
        return functions["frelu"](x, condition=torch.full_like(x, 0.6))[None]

    return {
        "pau": (coefficients, lambda x: pau(x)[None]),
        "pwlu": ([0.3, 1.4], lambda x: pwlu(x[:, None]).T),
        "meta_acon": ([1.1, -0.2, 0.8], meta_acon),
        "iieu_b": ([0.1, 0.4], iieu_b),
        "maxout": ([0.7], maxout),
        "frelu": ([0.6], frelu),
    }


@pytest.mark.browser
@pytest.mark.parametrize("key", ("pau", "pwlu", "meta_acon", "iieu_b", "maxout", "frelu"))
def test_curves_of_the_other_units(page, key):
    numbers, function = probe_curves()[key]
    value, slope = browser_curve(page, key, numbers)
    expected, expected_slope = value_and_slope(key, function)
    torch.testing.assert_close(value, expected, rtol=4e-7, atol=4e-7)
    torch.testing.assert_close(slope, expected_slope, rtol=2e-6, atol=2e-6)


@pytest.mark.browser
def test_every_unit_of_the_catalogue_is_offered(page):
    offered = page.evaluate("[...document.querySelectorAll('#unit-a option')].map(o => o.value)")
    units = {name.partition(" of ")[0] for name in offered}
    assert units == set(gw.list_units()) - NOT_OFFERED
    assert set(offered) == {*OPTIONS, *probe_curves()}


def exported(page: Page, side: str, unit: nn.Module) -> nn.Sequential:
    """The network of the page with its weights, as a torch model."""
    layers = []
    for layer in page.evaluate(f"explorer.weights('{side}')"):
        weight = torch.tensor(layer["weight"], dtype=torch.float64)
        made = nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
        made.weight.data = weight
        made.bias.data = torch.tensor(layer["bias"], dtype=torch.float64)
        layers.append(made)
    return nn.Sequential(layers[0], unit, layers[1], unit, layers[2])


ARMS = "a=relu&b=leaky_relu,0.1&data=spiral&width=16&seed=3&rate=0.01"


@pytest.mark.browser
def test_regions_are_those_of_partition_after_200_steps(page):
    show(page, ARMS, 200)
    for side, unit in (("a", nn.ReLU()), ("b", nn.LeakyReLU(0.1))):
        regions = gw.analysis.partition(exported(page, side, unit), PLANE, extent=WINDOW)
        assert page.evaluate(f"explorer.measured('{side}').regions") == regions.count
        assert page.evaluate(f"Number(document.getElementById('regions-{side}').textContent)") == (
            regions.count
        )


@pytest.mark.browser
@pytest.mark.parametrize("unit", ("crelu", "abs", "relu6", "hardtanh", "hardsigmoid", "pwlu"))
def test_regions_of_other_units_are_those_of_partition(page, unit):
    show(page, f"a=relu&b={unit}&data=rings&width=8&seed=2&rate=0.03", 60)
    net = exported(page, "b", gw.create_unit(unit))
    assert page.evaluate("explorer.measured('b').regions") == (
        gw.analysis.partition(net, PLANE, extent=WINDOW).count
    )


@pytest.mark.slow
@pytest.mark.browser
@pytest.mark.parametrize(
    "address, step",
    [
        (ARMS + "&changes=20:b:0.4;35:rate:0.03", 50),
        ("a=gelu&b=swish,1.5&data=moons&width=8&seed=7&rate=0.01&changes=10:b:-1;30:b:2", 40),
        ("a=crelu&b=acon_c,1.2,-0.3,1&data=xor&width=8&seed=5&rate=0.003", 40),
        ("a=relu&b=silu&data=own&points=0.5,1,0;-1,0.2,1;2,-2.5,1;0.1,0.3,0&width=4&seed=1", 30),
    ],
)
def test_the_copied_code_trains_the_same_networks(page, address, step, capsys):
    """The same points, first weights, batches, changes and optimiser, by torch's autograd."""
    show(page, address, step)
    names: dict = {}
    exec(page.evaluate("explorer.code()"), names)
    assert capsys.readouterr().out.startswith("a ")
    for side in ("a", "b"):
        linear = [m for m in names["nets"][side] if isinstance(m, nn.Linear)]
        for layer, shown in zip(linear, page.evaluate(f"explorer.weights('{side}')"), strict=True):
            weight = torch.tensor(shown["weight"], dtype=torch.float64)
            # float64 on both sides; the numbers of a trainable unit are float32 in torch.
            torch.testing.assert_close(layer.weight.data, weight, rtol=1e-4, atol=1e-5)


@pytest.mark.browser
def test_an_address_gives_the_same_weights_after_a_number_was_moved(page):
    show(page, ARMS, 30)
    page.evaluate(
        "(() => { const d = document.getElementById('dial-b-slope'); d.value = 0.5;"
        "d.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    page.click("#step")
    settle(page, "explorer.step() === 31 && location.hash.includes('step=31')")
    before = page.evaluate("explorer.weights('b')")
    address = page.evaluate("location.hash")
    assert "changes=30:b:0.5" in address
    show(page, "a=relu&b=relu&data=xor", 1)
    page.evaluate(f"location.hash = {json.dumps(address)}")
    settle(page, "explorer.step() === 31 && !explorer.busy()")
    assert page.evaluate("explorer.weights('b')") == before


@pytest.mark.browser
def test_a_slider_can_be_dragged(page):
    show(page, "a=relu&b=beta_vq+of+relu,1&data=spiral&width=8&seed=1", 20)
    assert page.evaluate("explorer.measured('b').regions") > 1
    left, top, width, height = page.evaluate(
        "(() => { const b = document.getElementById('beta').getBoundingClientRect();"
        "return [b.x, b.y, b.width, b.height]; })()"
    )
    y = top + height / 2
    page.mouse("mousePressed", left + 9, y, button="left", clickCount=1)
    for share in (0.2, 0.35, 0.5):
        page.mouse("mouseMoved", left + share * width, y, button="left", buttons=1)
    page.mouse("mouseReleased", left + 0.5 * width, y, button="left", clickCount=1)
    settle(page, "!explorer.busy()")
    (change,) = page.evaluate("explorer.recipe().changes")
    assert change["step"] == 20 and abs(change["numbers"][0] - 0.5) < 0.03
    assert page.evaluate("explorer.measured('b').regions") is None
    assert 0 < page.evaluate("explorer.measured('b').entropy") < 1


@pytest.mark.browser
def test_pointing_at_a_map_shows_gates_and_the_affine_map(page):
    show(page, ARMS, 40)
    box = page.evaluate(
        "(() => { const m = document.getElementById('map-a'); m.scrollIntoView({block: 'center'});"
        "const b = m.getBoundingClientRect(); return [b.x, b.y, b.width]; })()"
    )
    page.mouse("mouseMoved", box[0] + box[2] * 0.7, box[1] + box[2] * 0.3)
    settle(page, "document.querySelectorAll('.probe')[0].textContent.includes('open paths')")
    text = page.evaluate("document.querySelectorAll('.probe')[0].textContent")
    assert "of 16 and" in text and "orange =" in text
    page.mouse("mouseMoved", 5, 5)
    page.evaluate("document.getElementById('map-a').focus()")
    page.call("Input.dispatchKeyEvent", type="keyDown", key="ArrowRight", code="ArrowRight")
    settle(page, "document.querySelectorAll('.probe')[0].textContent.includes('(0.10, 0.00)')")


@pytest.mark.browser
def test_nothing_is_drawn_when_nothing_changes(page):
    show(page, ARMS, 10)
    page.evaluate("document.activeElement.blur()")
    page.mouse("mouseMoved", 5, 5)
    settle(page, "!explorer.busy()")
    time.sleep(0.2)  # the address is written a moment after the last change
    before = page.evaluate("JSON.stringify(explorer.counters)")
    time.sleep(0.5)
    assert page.evaluate("JSON.stringify(explorer.counters)") == before
    page.evaluate("document.getElementById('step').click()")
    settle(page, f"JSON.stringify(explorer.counters) !== {json.dumps(before)}")


@pytest.mark.slow
@pytest.mark.browser
def test_random_addresses_do_not_break_the_page(page):
    draw = random.Random(0)  # noqa: S311 - words of a test
    words = ["relu", "nan", "1e999", "-1", "<b>", "a", "own", "x:y:z", "", ";;", "swish,abc"]
    names = ("a", "b", "data", "points", "width", "seed", "rate", "step", "changes")
    for _ in range(20):
        address = "&".join(f"{name}={draw.choice(words)}" for name in names)
        page.evaluate(f"location.hash = {json.dumps(address)}")
        settle(page, "!explorer.busy()")
    assert page.evaluate("document.querySelectorAll('canvas').length") == 2


def test_the_policy_of_the_page_allows_its_script_and_its_style():
    text = explorer_page()
    for tag in ("script", "style"):
        content = text.split(f"<{tag}>")[1].split(f"</{tag}>")[0]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{tag}-src 'sha256-{digest}'" in text


@pytest.mark.browser
def test_it_starts_paused_with_relu_beside_silu_and_a_slider_from_hard_to_soft(browser):
    first = browser.open(BUILT, width=1280, height=900)
    settle(first, "explorer.step() === 200 && !explorer.busy()", 120)
    assert first.evaluate("document.getElementById('play').textContent") == "Train"
    assert [first.evaluate(f"explorer.recipe().{side}.key") for side in "ab"] == ["relu", "silu"]
    words = first.evaluate("document.querySelector('.slider').innerText").split()
    assert words[0] == "hard" and "soft" in words
    before = first.evaluate("explorer.weights('b')")
    first.evaluate(
        "(() => { const d = document.getElementById('beta'); d.value = 0;"
        "d.dispatchEvent(new Event('input', {bubbles: true})); })()"
    )
    settle(first, "explorer.measured('b').regions > 1")  # hard gates, in the trained weights
    assert first.evaluate("explorer.weights('b')") == before


@pytest.mark.browser
def test_the_page_complains_of_nothing_and_requests_nothing(page):
    """The last test of this page: after all that the others did to it."""
    assert page.complaints == [] and page.requests == []


@pytest.mark.browser
def test_phone_width_does_not_scroll_sideways(browser):
    """After the tests of the other page: a page in the background is not animated."""
    narrow = browser.open(BUILT, width=400, height=800)
    settle(narrow, "explorer.step() > 0")
    narrow.evaluate("explorer.play(false)")
    assert narrow.evaluate("document.documentElement.scrollWidth") <= 400
    assert not narrow.complaints and not narrow.requests


def test_the_page_is_one_file_without_addresses_of_others():
    text = explorer_page()
    assert text == BUILT.read_text(encoding="utf-8")
    assert "default-src 'none'" in text
    for attribute in ('src="', "src='", 'href="http', "@import", "fetch(", "XMLHttpRequest"):
        assert attribute not in text


@pytest.mark.slow
def test_the_units_of_the_page_are_written_from_the_catalogue(tmp_path):
    target = tmp_path / "catalogue.ts"
    command = [sys.executable, str(ROOT / "tools/explorer_units.py"), str(target)]
    subprocess.run(command, check=True, capture_output=True)
    assert target.read_text() == (SOURCES / "src/catalogue.ts").read_text()


@pytest.mark.slow
def test_the_page_is_built_from_its_sources(tmp_path):
    """``npm ci`` from the lock file, then the build: the same bytes as the file that ships."""
    if shutil.which("npm") is None:
        pytest.skip("needs node and npm")
    copy = tmp_path / "explorer"
    shutil.copytree(SOURCES, copy, ignore=shutil.ignore_patterns("node_modules"))
    quiet = {**os.environ, "npm_config_update_notifier": "false"}
    installed = subprocess.run(
        ["npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund"],
        cwd=copy, env=quiet, capture_output=True, text=True, timeout=300,
    )  # fmt: skip
    if installed.returncode and re.search(
        r"\b(ENOTFOUND|ECONNREFUSED|EAI_AGAIN)\b", installed.stderr
    ):
        pytest.skip("the packages of the lock file cannot be downloaded here")
    assert installed.returncode == 0, installed.stderr
    target = tmp_path / "explorer.html"
    sliders = tmp_path / "gallery.js"
    command = ["node", "build.mjs", str(target), str(sliders)]
    subprocess.run(command, cwd=copy, check=True, capture_output=True, timeout=120)
    assert target.read_bytes() == BUILT.read_bytes()
    assert sliders.read_bytes() == (BUILT.parent.parent / "templates/gallery.js").read_bytes()


def test_the_lock_file_names_no_registry():
    lock = json.loads((SOURCES / "package-lock.json").read_text())
    assert all("resolved" not in package for package in lock["packages"].values())
    assert all("integrity" in p for name, p in lock["packages"].items() if name)


@pytest.mark.browser
def test_a_touch_shows_the_gates_at_a_point_and_they_stay(browser):
    page = browser.open(BUILT)
    page.look(width=400, height=800)
    page.evaluate("document.getElementById('play').click()")  # pause
    page.call("Emulation.setTouchEmulationEnabled", enabled=True)
    middle = page.evaluate(
        "(() => { const map = document.querySelector('canvas');"
        "map.scrollIntoView({block: 'center'}); const b = map.getBoundingClientRect();"
        "return [b.x + b.width / 2, b.y + b.height / 2]; })()"
    )
    settle(page, "document.body.innerText.includes('Point at the map')")
    touch = [{"x": middle[0], "y": middle[1]}]
    page.call("Input.dispatchTouchEvent", type="touchStart", touchPoints=touch)
    page.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])
    settle(page, "!document.body.innerText.includes('Point at the map')")
    assert not page.complaints
