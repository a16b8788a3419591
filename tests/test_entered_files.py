"""How many source files the README's calls enter. ``ARCHITECTURE.md`` states the counts."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def test_the_readmes_swap_and_a_diagnosis_of_its_model_enter_fewer_files_than_before_the_redesign():
    # In a process of its own: other tests import libraries that a swap takes notice of.
    command = [sys.executable, str(ROOT / "tools/entered_files.py")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    line = done.stdout.splitlines()[0]
    found = re.fullmatch(r"README's model: gw.swap enters (\d+) files, gw.diagnose (\d+)", line)
    assert found is not None, line
    swap, diagnose = map(int, found.groups())
    assert 0 < swap < 47
    assert 0 < diagnose < 105
    stated = re.search(r"\| 47 / 105 \| (\d+) / (\d+) ", (ROOT / "ARCHITECTURE.md").read_text())
    assert stated is not None
    assert int(stated[1]) < 47 and int(stated[2]) < 105
