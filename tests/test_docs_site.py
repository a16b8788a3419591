"""The documentation site: every page is reachable, and every public name is in the reference."""

import importlib.util
import inspect
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest
from browser import Browser, settle

import gatewise

ROOT = Path(__file__).parent.parent
DOCS = ROOT / "docs"
# Pages that are made when the site is built.
MADE = {"architecture.md", "changelog.md", "reference.md", "reference_parts.md"}
NOTEBOOKS = sorted((DOCS / "tutorials").glob("*.ipynb"))


def load(path):
    """A tool as a module."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


REFERENCE = load(ROOT / "tools/reference_page.py")


def test_every_public_name_is_in_the_reference():
    text = REFERENCE.reference()
    entries = {line.rpartition(".")[2] for line in re.findall(r"^::: (\S+)$", text, re.MULTILINE)}
    public = {name for name in dir(gatewise) if not name.startswith("_")}
    assert public - set(gatewise._PARTS) <= entries
    for face in (gatewise.nn, gatewise.functional):
        names = {getattr(face, name).__qualname__ for name in face.__all__}
        assert names <= entries


@pytest.mark.parametrize("part", gatewise._PARTS)
def test_every_name_of_a_part_is_in_the_reference(part):
    text = REFERENCE.parts()
    section = text.partition(f"\n## gatewise.{part}\n")[2].partition("\n## ")[0]
    listed = set(re.findall(r"^\| `(\w+)`", section, re.MULTILINE))
    face = getattr(gatewise, part)
    for name in getattr(face, "__all__", dir(face)):
        value = getattr(face, name)
        module = getattr(value, "__module__", None) or ""
        ours = (inspect.isclass(value) or inspect.isroutine(value)) and module.startswith(
            "gatewise"
        )
        assert name.startswith("_") or not ours or name in listed, f"gatewise.{part}.{name}"


def test_every_page_is_in_the_navigation():
    shown = set(re.findall(r": ([\w/]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE))
    written = {page.name for page in DOCS.glob("*.md")}
    written |= {f"tutorials/{notebook.stem}.md" for notebook in NOTEBOOKS}
    assert shown == written | MADE


def test_links_between_pages_lead_to_files():
    for page in (ROOT / "README.md", *DOCS.glob("*.md")):
        prose = re.sub(r"`[^`\n]*`", "", page.read_text())  # code such as f[0](x) is no link
        for target in re.findall(r"\]\(([\w./-]+)(?:#[^)]*)?\)", prose):
            assert target in MADE or (page.parent / target).exists(), f"{page.name}: {target}"


def test_readme_is_short():
    assert len((ROOT / "README.md").read_text().splitlines()) <= 150


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_notebooks_have_the_outputs_of_their_cells(notebook):
    content = json.loads(notebook.read_text())
    assert content["nbformat"] == 4 and notebook.stat().st_size < 100_000
    code = [cell for cell in content["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in code] == list(range(1, len(code) + 1))
    assert sum(bool(cell["outputs"]) for cell in code) >= len(code) / 2
    for cell in code:
        assert all(output["output_type"] != "error" for output in cell["outputs"])


def test_the_tutorial_on_pretrained_networks_has_a_real_one():
    text = (DOCS / "tutorials" / "diagnose_pretrained.ipynb").read_text()
    assert "EfficientNet.from_name" in text and "weights_only=True" in text
    assert "top-1 accuracy 90%" in text


def test_there_are_five_tutorials():
    assert len(NOTEBOOKS) == 5


def runnable(notebook):
    """Return a notebook as a parameter; one reads the weights of a real network."""
    marks = [pytest.mark.real] if notebook.stem == "diagnose_pretrained" else []
    return pytest.param(notebook, id=notebook.stem, marks=marks)


@pytest.mark.slow
@pytest.mark.parametrize("notebook", [runnable(each) for each in NOTEBOOKS])
def test_notebooks_run(notebook, tmp_path):
    """Each cell runs, its assertions hold, and it gives outputs of the same kinds as before."""
    copy = tmp_path / notebook.name
    copy.write_bytes(notebook.read_bytes())
    command = [sys.executable, str(ROOT / "tools/docs_notebooks.py"), str(copy)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    before, after = (json.loads(path.read_text())["cells"] for path in (notebook, copy))
    for old, new in zip(before, after, strict=True):
        kinds = [
            [output["output_type"] for output in cell.get("outputs", ())] for cell in (old, new)
        ]
        assert kinds[0] == kinds[1]


def test_a_cell_that_fails_is_an_error(tmp_path):
    cell = {"cell_type": "code", "source": ["x = 1\n", "x / 0"], "outputs": []}
    broken = tmp_path / "broken.ipynb"
    broken.write_text(json.dumps({"cells": [cell]}))
    command = [sys.executable, str(ROOT / "tools/docs_notebooks.py"), str(broken)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode != 0 and "ZeroDivisionError" in done.stderr
    assert json.loads(broken.read_text())["cells"][0]["outputs"] == []


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The built site."""
    if importlib.util.find_spec("mkdocs") is None or not importlib.util.find_spec("mkdocstrings"):
        pytest.skip("needs the extra docs")
    folder = tmp_path_factory.mktemp("site")
    # Not with --quiet: it hides warnings before they are counted as errors.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-d", str(folder)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return folder


@pytest.mark.slow
def test_the_site_builds_strictly_and_asks_no_other_host(site):
    for page in site.rglob("*.html"):
        text = page.read_text()
        assert not re.search(r"""<(?:script|link|img)[^>]+(?:src|href)=["']https?://""", text), page
    reference = (site / "reference.html").read_text()
    assert 'id="gatewise.compare"' in reference
    assert reference.count('<p class="formula"><math') > 60  # of units, as module and as function
    tutorial = (site / "tutorials/which_unit.html").read_text()
    assert "which_unit-1.png" in tutorial and (site / "tutorials/which_unit-1.png").is_file()
    assert (site / "tutorials/which_unit.ipynb").is_file()
    count = f"{len(gatewise.list_units())} activation functions"
    assert count in (site / "gallery_of_units.html").read_text()


TYPE = """(() => {
  const field = document.querySelector('.md-search__input');
  field.focus();
  field.value = 'merge_pairs';
  field.dispatchEvent(new Event('input', {bubbles: true}));
  field.dispatchEvent(new KeyboardEvent('keyup', {bubbles: true, key: 's'}));
})()"""


@pytest.mark.slow
@pytest.mark.browser
def test_the_search_works_in_pages_opened_as_files(site):
    with Browser() as browser:
        page = browser.open(site / "index.html")
        page.evaluate(TYPE)
        settle(page, "document.querySelectorAll('.md-search-result__link').length > 0")
        links = page.evaluate(
            "[...document.querySelectorAll('.md-search-result__link')].map(link => link.href)"
        )
        assert any("reference.html" in link or "more_surgery.html" in link for link in links)
        assert not page.complaints
        assert all(address.startswith("file:") for address in page.requests)
