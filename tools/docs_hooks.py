"""Hooks of the documentation site.

Links from ``docs/`` to files of the repository are written as text: the site has no such page.
Notebooks become pages. Formulas between dollar signs become MathML. Files of the
project, the explorer and the gallery of units are written next to the pages. Scripts from other
hosts are left out: the site makes no request.
"""

import re
import shutil
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "tools"))

import docs_notebooks  # noqa: E402
import reference_page  # noqa: E402

EXPLORER = ROOT / "src/gatewise/report/explorer/explorer.html"
# Files of the repository that are pages of the site.
PROJECT_PAGES = {"ARCHITECTURE.md": "architecture.md", "CHANGELOG.md": "changelog.md"}
_FOREIGN_SCRIPT = re.compile(r"""<script src=["']https?://[^"']*["'][^>]*></script>""")
_OUTSIDE = re.compile(r"(?<!!)\[([^\]]+)\]\(\.\./[^)]+\)")
_OUTSIDE_OF_ROOT = re.compile(r"(?<!!)\[([^\]]+)\]\((?!https?:|#|docs/)[^)]+\)")
_ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):(?=<code>)")
_FORMULA = re.compile(r"^\$\$ (.+) \$\$$", re.MULTILINE)


def on_files(files: Any, config: Any) -> Any:
    """Add the reference, and the pages made from notebooks and from files of the repository."""
    from mkdocs.structure.files import File

    for file in list(files):
        if not file.src_uri.endswith(".ipynb"):
            continue
        text, pictures = docs_notebooks.page(Path(file.abs_src_path))
        folder = file.src_uri.rpartition("/")[0]
        files.append(File.generated(config, file.src_uri[:-6] + ".md", content=text))
        for name, picture in pictures.items():
            files.append(File.generated(config, f"{folder}/{name}", content=picture))
    for source, name in PROJECT_PAGES.items():
        text = (ROOT / source).read_text(encoding="utf-8")
        text = _OUTSIDE_OF_ROOT.sub(r"\1", text).replace("](docs/", "](")
        files.append(File.generated(config, name, content=text))
    for name, write in reference_page.PAGES.items():
        files.append(File.generated(config, name, content=write()))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Return the page with drawn formulas, and links to files outside of the site as text."""
    if "/" not in page.file.src_uri:
        markdown = _OUTSIDE.sub(r"\1", markdown)
    if "/" not in page.file.src_uri:  # the page of a notebook, not its file
        markdown = re.sub(r"\]\((tutorials/\w+)\.ipynb\)", r"](\1.md)", markdown)
    return _FORMULA.sub(lambda match: _drawn(match[1]), markdown)


def _drawn(latex: str) -> str:
    """Return a formula as MathML, which browsers draw without a script."""
    from latex2mathml.converter import convert

    return f'<p class="formula">{convert(latex, display="block")}</p>'


def on_page_content(html: str, **_: Any) -> str:
    """Return the page without the roles of reStructuredText, which docstrings use."""
    return _ROLE.sub("", html)


def on_post_page(output: str, **_: Any) -> str:
    """Return the page without scripts from other hosts."""
    return _FOREIGN_SCRIPT.sub("", output)


def on_post_template(output_content: str, **_: Any) -> str:
    """Return a page that has no text of its own, such as 404, without scripts from other hosts."""
    return _FOREIGN_SCRIPT.sub("", output_content)


def on_post_build(config: Any, **_: Any) -> None:
    """Write the explorer and the gallery of units into the site."""
    from gatewise.cli.commands.units_gallery import build
    from gatewise.report import gallery_page

    site = Path(config["site_dir"])
    shutil.copyfile(EXPLORER, site / "explorer_of_gates.html")
    gallery = gallery_page(build(errors=False))
    (site / "gallery_of_units.html").write_text(gallery, encoding="utf-8")
