"""Each section "Add a ..." of CONTRIBUTING.md is complete: it is followed on a copy of the package.

A section names its files on the line before a block: ``new file PATH``, ``change of PATH`` or
``check``. The checks run in a fresh process that imports the changed copy.
"""

import os
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
BLOCK = re.compile(
    r"^<!-- not run: (?P<what>new file|change of|check) ?(?P<path>\S*) -->\n"
    r"```\w+\n(?P<text>(?s:.*?))^```$",
    re.MULTILINE,
)
MOST_FILES = 2


@dataclass(frozen=True)
class Step:
    """One block of a section."""

    what: str  # "new file", "change of" or "check"
    path: str
    text: str


def sections(page: str) -> dict[str, list[Step]]:
    """The steps of every section "Add a ...", by its title."""
    steps = {}
    for section in re.split(r"^## ", page, flags=re.MULTILINE):
        title = section.partition("\n")[0]
        if title.startswith("Add a"):
            found = BLOCK.finditer(section)
            steps[title] = [Step(block["what"], block["path"], block["text"]) for block in found]
    return steps


def patched(text: str, change: str) -> str:
    """``text`` with a change applied: lines with a blank in front are found, + added, - removed."""
    lines = text.split("\n")
    position = 0
    for line in change.splitlines():
        if line.startswith("+"):
            lines.insert(position, line[1:])
            position += 1
        elif line.startswith("-"):
            position = lines.index(line[1:], position)
            del lines[position]
        else:
            position = lines.index(line[1:], position) + 1
    return "\n".join(lines)


STEPS = sections((ROOT / "CONTRIBUTING.md").read_text())


def test_every_kind_of_addition_has_a_section():
    wanted = ["a unit", "a swap", "an analysis", "a paper's table", "an operator"]
    assert list(STEPS) == [f"Add {kind}" for kind in wanted]


# One section in every run of the tests; the others where all tests run.
EVERY_RUN = "Add a swap"
ALL = [pytest.param(EVERY_RUN)]
ALL += [pytest.param(title, marks=pytest.mark.slow) for title in STEPS if title != EVERY_RUN]


@pytest.mark.parametrize("title", ALL)
def test_following_the_section_alone_touches_two_files_and_works(title: str, tmp_path: Path):
    steps = STEPS[title]
    for top in ("src", "laboratory"):
        ignored = shutil.ignore_patterns("__pycache__", "tests")
        shutil.copytree(ROOT / top, tmp_path / top, ignore=ignored)
    touched = set()
    for step in steps:
        path = tmp_path / step.path
        if step.what == "new file":
            assert not path.exists()
            path.write_text(step.text)
            touched.add(step.path)
        elif step.what == "change of":
            path.write_text(patched(path.read_text(), step.text))
            touched.add(step.path)
    assert 1 <= len(touched) <= MOST_FILES
    checks = [step.text for step in steps if step.what == "check"]
    assert len(checks) == 1
    folders = [str(tmp_path / "src"), str(tmp_path / "laboratory")]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(folders)}
    command = [sys.executable, "-c", checks[0]]
    done = subprocess.run(
        command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("title", list(STEPS))
def test_the_new_files_pass_the_linter(title: str, tmp_path: Path):
    """A newcomer who copies an example must not be stopped by ``make check``."""
    for step in STEPS[title]:
        if step.what == "new file":
            path = tmp_path / Path(step.path).name
            path.write_text(step.text)
            ruff = Path(sys.executable).with_name("ruff")
            config = ["--config", str(ROOT / "pyproject.toml")]
            for arguments in (["check", *config], ["format", "--check", *config]):
                ended = subprocess.run([ruff, *arguments, str(path)], capture_output=True)
                assert ended.returncode == 0, ended.stdout.decode()


def test_a_section_that_misses_its_registration_fails(tmp_path: Path):
    text = patched("a = 1\nb = 2\n", " a = 1\n+c = 3\n-b = 2\n")
    assert text == "a = 1\nc = 3\n"
    with pytest.raises(ValueError, match="not in list"):
        patched("a = 1\n", " b = 2\n+c = 3\n")
