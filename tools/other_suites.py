"""Run another project's tests as they are and with gatewise, and print what differs.

    python tools/other_suites.py FOLDER TEST [TEST ...] --swap UNIT [--preserve] [-k EXPRESSION]
    python tools/other_suites.py FOLDER TEST [TEST ...] --act-layer SiLU [-k EXPRESSION]

FOLDER is a checkout of Hugging Face transformers or of timm, in the version that is installed, and
TEST is a test file in it. pytest runs there as it is, and once more for every ``--swap`` and
``--act-layer``. With ``--swap`` every model that a test builds is swapped when it was built:
Hugging Face models when their constructor returns, also inside ``from_pretrained``, and timm models
when ``create_model`` returns. With ``--act-layer`` timm models are built with the unit as their
``act_layer``. A model that cannot be swapped is used as it is, and counted with the reason.

Versions other than the installed ones go into a folder of their own (``pip install --no-deps
--target FOLDER transformers==...``), which ``--path`` names.

Nothing is read from the network. The exit code is 0 if no test is worse with gatewise.
"""

import argparse
import functools
import importlib
import json
import os
import subprocess
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

SETTINGS = "GATEWISE_OTHER_SUITE"  # the plugin's settings, as JSON
WORST_FIRST = ("error", "failed", "passed", "skipped")


def main() -> int:
    """Run both, print the differences."""
    arguments = _arguments()
    before = _run(arguments, None)["outcomes"]
    print(f"as is: {_counted(before)}", flush=True)
    changes = [(unit, False) for unit in arguments.swap]
    changes += [(unit, True) for unit in arguments.act_layer]
    is_worse = False
    for unit, act_layer in changes:
        result = _run(arguments, unit, act_layer=act_layer)
        after = result["outcomes"]
        print(f"{'act_layer' if act_layer else 'swapped to'} {unit}: {_counted(after)}")
        print("models:", json.dumps(result["models"]))
        for kind, reason in result["refused"].items():
            print(f"not swapped: {kind}: {reason}")
        for test in sorted(before.keys() | after.keys()):
            old, new = before.get(test, "missing"), after.get(test, "missing")
            if old != new:
                is_worse |= new in ("failed", "error", "missing")
                print(f"{old} -> {new}: {test} {result['reasons'].get(test, '')}")
        sys.stdout.flush()
    return int(is_worse)


def _counted(outcomes: dict[str, str]) -> str:
    counts = Counter(outcomes.values())
    shown = (f"{counts[name]} {name}" for name in WORST_FIRST if counts[name])
    return ", ".join(shown) or "no tests"


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", type=Path, help="the checkout")
    parser.add_argument("tests", nargs="+", help="test files, relative to the folder")
    several: dict[str, Any] = {"action": "append", "default": []}
    parser.add_argument("--swap", metavar="UNIT", help="swap every model to this unit", **several)
    parser.add_argument(
        "--act-layer", metavar="CLASS", help="a class of gatewise.nn, for timm", **several
    )
    parser.add_argument("--preserve", action="store_true", help="keep the function")
    parser.add_argument(
        "--path", action="append", default=[], help="more folders of Python modules"
    )
    parser.add_argument("-k", dest="expression", default="", help="pytest's -k")
    parser.add_argument("--timeout", type=int, default=3600, help="seconds for each run")
    arguments = parser.parse_args()
    if not arguments.swap and not arguments.act_layer:
        parser.error("one of --swap and --act-layer is needed")
    return arguments


def _run(
    arguments: argparse.Namespace, unit: str | None, *, act_layer: bool = False
) -> dict[str, dict[str, Any]]:
    """Run pytest once; outcome and reason of every test, and how many models were swapped."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        settings = {
            "report": str(report),
            "unit": unit,
            "preserve": arguments.preserve,
            "act_layer": act_layer,
        }
        here = Path(__file__).resolve().parent
        paths = [*arguments.path, str(here), str(here.parent / "src"), os.environ.get("PYTHONPATH")]
        environment = {
            **os.environ,
            SETTINGS: json.dumps(settings),
            "PYTHONPATH": os.pathsep.join(filter(None, paths)),
            "HF_HUB_OFFLINE": "1",
        }
        command = [sys.executable, "-m", "pytest", "-q", "-p", "other_suites", "--tb=line"]
        command.append("--disable-warnings")
        command += ["-p", "no:cacheprovider", "-c", os.devnull, "--rootdir", ".", *arguments.tests]
        if arguments.expression:
            command += ["-k", arguments.expression]
        done = subprocess.run(  # noqa: S603  pytest, on the folder that the user names
            command,
            cwd=arguments.folder,
            env=environment,
            timeout=arguments.timeout,
            capture_output=True,
            text=True,
            check=False,
        )
        if not report.is_file():
            sys.exit(f"pytest did not run:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        result = json.loads(report.read_text())
        if not result["outcomes"]:
            sys.exit(f"pytest ran no test:\n{done.stdout[-3000:]}{done.stderr[-3000:]}")
        return result


# --- what follows is the pytest plugin ------------------------------------------------------------


class Swapping:
    """Swaps models when they were built; plans are made once for each class and set of shapes."""

    def __init__(self, settings: dict[str, Any]) -> None:
        self.settings = settings
        self.outcomes: dict[str, str] = {}
        self.reasons: dict[str, str] = {}
        self.models: Counter[str] = Counter()
        self.refused: dict[str, str] = {}
        self.plans: dict[Any, Any] = {}
        self.depth = threading.local()

    def swap(self, model: Any, example: Callable[[], Any]) -> Any:
        """Swap ``model`` in place, if it can be swapped."""
        import gatewise as gw
        from gatewise.surgery.planning import signature_of

        unit = self.settings["unit"]
        key = (type(model), json.dumps(signature_of(model)))
        if key not in self.plans:
            options = {"preserve": True} if self.settings["preserve"] else {}
            try:
                with _without_cache(model):
                    self.plans[key] = gw.plan(model, unit, example(), **options)
            except Exception as problem:
                self.refused[type(model).__name__] = str(problem)[:300]
                if not next(model.parameters()).is_meta:
                    self.plans[key] = None
        plan = self.plans.get(key)
        self.models["swapped" if plan else "not swapped"] += 1
        if plan is not None:
            replace(plan, examples=()).apply(model, inplace=True)
        return model

    def swap_transformers(self) -> None:
        """Swap every Hugging Face model when the constructor of its own class returns."""
        base = importlib.import_module("transformers.modeling_utils").PreTrainedModel
        for kind in _subclasses(base):
            if "__init__" in vars(kind) and not kind.__init__.__qualname__.startswith("Swapping."):
                self._wrap_constructor(kind)

    def _wrap_constructor(self, kind: type) -> None:
        build = kind.__init__

        @functools.wraps(build)
        def construct(model: Any, *args: Any, **options: Any) -> None:
            level = getattr(self.depth, "level", 0)
            self.depth.level = level + 1
            try:
                build(model, *args, **options)
            finally:
                self.depth.level = level
            if level == 0:
                self.swap(model, lambda: _example(model))

        construct.__qualname__ = f"Swapping.{kind.__name__}.__init__"
        kind.__init__ = construct

    def swap_timm(self) -> None:
        """Swap every model that ``timm.create_model`` returns, or build it with the unit."""
        timm = importlib.import_module("timm")
        create = timm.create_model
        unit = self.settings["unit"]

        @functools.wraps(create)
        def create_model(name: str, *args: Any, **options: Any) -> Any:
            if self.settings["act_layer"]:
                layer = getattr(importlib.import_module("gatewise.nn"), unit)
                self.models["act_layer"] += 1
                return create(name, *args, **{"act_layer": layer, **options})
            model = create(name, *args, **options)
            return self.swap(model, lambda: _image(model))

        for module in [timm, *sys.modules.values()]:
            if getattr(module, "create_model", None) is create:
                module.create_model = create_model


def _subclasses(kind: type) -> Iterator[type]:
    for other in kind.__subclasses__():
        yield other
        yield from _subclasses(other)


def _without_cache(model: Any) -> Any:
    """A context in which a language model returns no cache."""
    from unittest.mock import patch

    config = getattr(model, "config", None)
    if getattr(config, "use_cache", False):
        return patch.object(config, "use_cache", False)
    from contextlib import nullcontext

    return nullcontext()


def _example(model: Any) -> Any:
    import torch

    parameter = next(model.parameters())
    if model.main_input_name == "pixel_values":
        channels = getattr(model.config, "num_channels", 3)
        example = {"pixel_values": torch.randn(2, channels, 32, 32, device="cpu")}
    else:
        tokens = torch.arange(10, device="cpu").view(2, 5) % model.config.vocab_size
        example = {"input_ids": tokens}
    return {name: value.to(parameter.device) for name, value in example.items()}


def _image(model: Any) -> Any:
    import torch

    channels, *sides = model.pretrained_cfg["input_size"]
    return torch.randn(2, channels, *sides)


def pytest_configure(config: pytest.Config) -> None:
    """Start the plugin, if it was this program that started pytest."""
    if SETTINGS not in os.environ:
        return
    swapping = Swapping(json.loads(os.environ[SETTINGS]))
    config.stash[_KEY] = swapping
    if swapping.settings["unit"] is not None and importlib.util.find_spec("timm"):
        swapping.swap_timm()


_KEY: pytest.StashKey[Swapping] = pytest.StashKey()
_KEPT: list[Any] = []


def _declare_missing_operators() -> None:
    """Let torchvision be imported beside a torch that its compiled part does not fit."""
    import torch

    try:
        torch.ops.torchvision.nms  # noqa: B018  the look is what raises
    except AttributeError:
        library = torch.library.Library("torchvision", "DEF")
        for name in ("nms", "qnms"):
            library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
        _KEPT.append(library)


if SETTINGS in os.environ:  # at import: a suite's own conftest may import torchvision
    _declare_missing_operators()


def pytest_collection_finish(session: pytest.Session) -> None:
    """Wrap the classes that the tests have imported."""
    swapping = session.config.stash.get(_KEY, None)
    if swapping and swapping.settings["unit"] is not None and "transformers" in sys.modules:
        swapping.swap_transformers()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Any:
    """Keep the worst outcome of each test."""
    report = yield
    swapping = item.config.stash.get(_KEY, None)
    if swapping:
        outcome = report.outcome
        if outcome == "failed" and report.when != "call":
            outcome = "error"
        if report.when == "call" or outcome != "passed":
            swapping.outcomes[item.nodeid] = outcome
        if report.failed:
            swapping.reasons[item.nodeid] = str(report.longrepr).strip().splitlines()[-1][:300]
    return report


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Write the outcomes."""
    swapping = session.config.stash.get(_KEY, None)
    if swapping:
        names = ("outcomes", "reasons", "models", "refused")
        result = {name: dict(getattr(swapping, name)) for name in names}
        Path(swapping.settings["report"]).write_text(json.dumps(result))


if __name__ == "__main__":
    sys.exit(main())
