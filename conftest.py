"""What tests may need beyond the development tools, and what happens where a machine lacks it.

A test marked ``data``, ``browser``, ``onnx``, ``real`` or ``networks`` is left out where its need
is not met, and the run ends by saying so and how to have it. With ``GATEWISE_REQUIRE_ALL=1`` (as
in ``.ci/run``) it fails instead. Tests marked ``slow`` show on more cases what a quicker test
shows, or take long. They are not collected unless ``GATEWISE_FULL=1`` is set (``make test-full``).
"""

import importlib.util
import os
import random
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

import hypothesis
import pytest

FULL = os.environ.get("GATEWISE_FULL") == "1"
REQUIRE_ALL = os.environ.get("GATEWISE_REQUIRE_ALL") == "1"
LEFT_OUT = "left out"

hypothesis.settings.register_profile("quick", deadline=None, derandomize=True)
hypothesis.settings.register_profile("full", deadline=None, max_examples=2000)
hypothesis.settings.load_profile("full" if FULL else "quick")


def pytest_configure() -> None:
    """Let tests compute in bfloat16 where torch would otherwise end the process.

    Test processes and the programs that tests start inherit the variable.
    """
    from gatewise.devices import INSTRUCTIONS_VARIABLE, WITHOUT_TILES, bfloat16_kills

    if INSTRUCTIONS_VARIABLE not in os.environ and bfloat16_kills():
        os.environ[INSTRUCTIONS_VARIABLE] = WITHOUT_TILES
        bfloat16_kills.cache_clear()


def has_data() -> bool:
    folder = os.environ.get("GATEWISE_DATA")
    return bool(folder) and (Path(folder) / "cifar-10-batches-py").is_dir()


def has_browser() -> bool:
    return any(shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome"))


def has_onnx() -> bool:
    return all(importlib.util.find_spec(name) for name in ("onnx", "onnxruntime", "onnxscript"))


def has_networks() -> bool:
    return all(
        importlib.util.find_spec(name)
        for name in ("timm", "torchvision", "transformers", "torch_pruning")
    )


def has_real_models() -> bool:
    from real_models.packages import SMALLEST, missing

    return not missing(SMALLEST) and bool(importlib.util.find_spec("efficientnet_lite_pytorch"))


# marker: (whether its need is met, how to have it, whether GATEWISE_REQUIRE_ALL covers it)
NEEDS = {
    "data": (
        has_data(),
        "set GATEWISE_DATA to a folder that holds the data sets (make test GATEWISE_DATA=folder)",
        True,
    ),
    "browser": (has_browser(), "install Chromium or Chrome", True),
    "onnx": (has_onnx(), 'install the extra (pip install -e ".[onnx]")', True),
    "networks": (has_networks(), "install them (make test does)", True),
    "real": (has_real_models(), "run make real-smallest", True),
}


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave slow tests out of the run, and count them as deselected."""
    if FULL:
        return
    slow = [item for item in items if item.get_closest_marker("slow")]
    if slow:
        config.hook.pytest_deselected(items=slow)
        items[:] = [item for item in items if not item.get_closest_marker("slow")]


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Leave out, or refuse to leave out, a test whose need is not met.

    Start the others from one seed.
    """
    for marker, (met, remedy, required) in NEEDS.items():
        if met or not item.get_closest_marker(marker):
            continue
        if required and REQUIRE_ALL:
            pytest.fail(
                f"no test may be left out here, and this one needs `{marker}`: {remedy}",
                pytrace=False,
            )
        pytest.skip(f"{LEFT_OUT} ({marker}): {remedy}")
    random.seed(0)
    if "torch" in sys.modules:
        sys.modules["torch"].manual_seed(0)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say which marked tests were left out, and how to have them."""
    reasons = (report.longrepr[2] for report in terminalreporter.stats.get("skipped", []))
    left_out = Counter(reason.removeprefix("Skipped: ") for reason in reasons if LEFT_OUT in reason)
    if left_out:
        terminalreporter.section("tests left out")
    for reason, count in sorted(left_out.items()):
        kind, remedy = reason.removeprefix(f"{LEFT_OUT} ").split(": ", 1)
        terminalreporter.write_line(f"{count} {kind.strip('()')}: to have them, {remedy}")


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """The folder of the real data sets; only for tests marked ``data``."""
    return Path(os.environ["GATEWISE_DATA"])


@pytest.fixture(scope="session")
def full() -> bool:
    """Whether the full counts were asked for."""
    return FULL


@pytest.fixture
def place(tmp_path):
    """A folder in memory where there is one.

    What a kill leaves does not depend on syncing, only the time does.
    """
    memory = Path("/dev/shm")  # noqa: S108  a folder of its own is made in it
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else tmp_path) as folder:
        yield Path(folder)
