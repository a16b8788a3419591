"""The documentation site: every page is reachable, and every public name is in the reference."""

import importlib.util
import re
import subprocess
import sys
from pathlib import Path

import pytest

import gatewise

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"


def test_every_public_name_is_in_the_reference():
    text = (DOCS / "reference.md").read_text()
    entries = {line.rpartition(".")[2] for line in re.findall(r"^::: (\S+)$", text, re.MULTILINE)}
    parts = set(re.findall(r"^\| `gatewise\.(\w+)`", text, re.MULTILINE))
    assert set(gatewise.__all__) <= entries | parts
    for face in (gatewise.nn, gatewise.functional):
        names = {getattr(face, name).__qualname__ for name in face.__all__}
        assert names <= entries


def test_every_page_is_in_the_navigation():
    shown = set(re.findall(r": (\w+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    assert shown == {page.name for page in DOCS.glob("*.md")}


def test_links_between_pages_lead_to_files():
    for page in (ROOT / "README.md", *DOCS.glob("*.md")):
        for target in re.findall(r"\]\(([\w./-]+)(?:#[^)]*)?\)", page.read_text()):
            assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.thorough
def test_the_site_builds_strictly(tmp_path):
    if importlib.util.find_spec("mkdocs") is None or not importlib.util.find_spec("mkdocstrings"):
        pytest.skip("needs the extra docs")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-q", "-d", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    for page in tmp_path.rglob("*.html"):
        text = page.read_text()
        assert not re.search(r"""<(?:script|link|img)[^>]+(?:src|href)=["']https?://""", text), page
