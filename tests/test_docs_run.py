"""What the documentation shows runs.

Python blocks, `gatewise` lines with their exit codes, docstring examples.
"""

import ast
import doctest
import importlib
import importlib.metadata
import re
import shlex
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest
from forked_scripts import run_in_child
from zoo import declare_missing_torchvision_operators

import gatewise

declare_missing_torchvision_operators()  # the recorders import torchvision where it is installed

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").rglob("*.md"))]
COMMAND = str(Path(sys.executable).parent / "gatewise")
BLOCK = re.compile(
    r"^(?P<skip><!-- not run: .+ -->\n)?```(?P<language>\w+)\n(?P<text>(?s:.*?))^```$", re.MULTILINE
)


@dataclass(frozen=True)
class Example:
    page: str
    line: int
    language: str
    text: str


def examples(page: str, text: str) -> list[Example]:
    """The blocks of a page that are to run.

    ``<!-- not run: reason -->`` on the line before leaves one out.
    """
    found = [
        (m, text.count("\n", 0, m.start("text")) + 1) for m in BLOCK.finditer(text) if not m["skip"]
    ]
    return [Example(page, line, m["language"], m["text"]) for m, line in found]


def commands(example: Example) -> list[tuple[str, int]]:
    """Each `gatewise` line of a shell block with its exit code.

    0, or what `$ echo $?` shows after it.
    """
    prompt = "$ " if example.language == "console" else ""
    lines = example.text.splitlines()
    found = []
    for number, line in enumerate(lines):
        if line.startswith(f"{prompt}gatewise "):
            rest = "\n".join(until_next_command(lines[number + 1 :]))
            shown = re.search(r"^\$ echo \$\?\n(\d+)$", rest, re.MULTILINE)
            found.append((line.removeprefix(prompt), int(shown[1]) if shown else 0))
    return found


def until_next_command(lines: list[str]) -> list[str]:
    following = [number for number, line in enumerate(lines) if line.startswith("$ gatewise ")]
    return lines[: following[0]] if following else lines


ALL = [example for page in PAGES for example in examples(page.name, page.read_text())]
PYTHON = [pytest.param(e, id=f"{e.page}:{e.line}") for e in ALL if e.language == "python"]
SHELL = [
    pytest.param(e, id=f"{e.page}:{e.line}")
    for e in ALL
    if e.language in ("bash", "console") and commands(e)
]


@pytest.mark.parametrize("example", PYTHON)
def test_python_block_runs(example: Example, tmp_path: Path):
    script = tmp_path / "example.py"
    script.write_text(example.text)
    code, output = run_in_child(script)
    assert code == 0, output


@pytest.mark.slow
@pytest.mark.parametrize("example", SHELL)
def test_command_lines_end_as_shown(example: Example, tmp_path: Path):
    for line, code in commands(example):
        arguments = shlex.split(line, comments=True)[1:]
        done = subprocess.run([COMMAND, *arguments], cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == code, f"{line}\n{done.stdout}{done.stderr}"


PACKAGE = Path(gatewise.__path__[0])
MODULES = [
    ".".join(("gatewise", *path.relative_to(PACKAGE).with_suffix("").parts)).removesuffix(
        ".__init__"
    )
    for path in sorted(PACKAGE.rglob("*.py"))
    if ">>>" in path.read_text()
]


@pytest.mark.parametrize("module", MODULES)
def test_docstring_examples_give_what_they_show(module: str):
    result = doctest.testmod(importlib.import_module(module), optionflags=doctest.ELLIPSIS)
    assert result.attempted
    assert result.failed == 0


def test_make_targets_in_the_docs_exist():
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    shown = {
        name
        for page in PAGES
        for name in re.findall(r"(?:^|`)make ([a-z-]+)", page.read_text(), re.MULTILINE)
    }
    assert {"demo", "test"} <= shown <= targets


def test_version_is_the_same_everywhere():
    version = gatewise.__version__
    assert importlib.metadata.version("gatewise") == version, "set up again: touch pyproject.toml"
    assert f"\nversion: {version}\n" in (ROOT / "CITATION.cff").read_text()
    assert f"\n## [{version}]" in (ROOT / "CHANGELOG.md").read_text()


def test_blocks_and_exit_codes_are_found():
    page = "x\n```python\n1\n```\n<!-- not run: a reason -->\n```python\n2\n```\n"
    page += "```console\n$ gatewise a\nout\n$ gatewise b\n$ echo $?\n2\n```\n"
    python, console = examples("page", page)
    assert (python.line, python.text) == (3, "1\n")
    assert commands(console) == [("gatewise a", 0), ("gatewise b", 2)]
    assert commands(Example("page", 1, "bash", "gatewise list units # all\nmake demo\n")) == [
        ("gatewise list units # all", 0)
    ]


def test_python_blocks_parse():
    blocks = [example for example in ALL if example.language == "python"]
    for example in blocks:
        assert ast.parse(example.text, f"{example.page}:{example.line}").body
    assert len(blocks) > 20
