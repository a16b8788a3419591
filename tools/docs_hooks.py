"""Hooks of the documentation site.

Links from ``docs/`` to files of the repository are written as text: the site has no such page. The
explorer is copied next to the pages. Scripts from other hosts are left out: the site makes no
request. The theme loads one to let browsers search pages that are opened as files.
"""

import re
import shutil
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
EXPLORER = ROOT / "src/gatewise/report/explorer/explorer.html"
_FOREIGN_SCRIPT = re.compile(r"""<script src=["']https?://[^"']*["'][^>]*></script>""")
_OUTSIDE = re.compile(r"(?<!!)\[([^\]]+)\]\(\.\./[^)]+\)")


def on_page_markdown(markdown: str, **_: Any) -> str:
    """Return the page with links to files outside of the site as text."""
    return _OUTSIDE.sub(r"\1", markdown)


def on_post_page(output: str, **_: Any) -> str:
    """Return the page without scripts from other hosts."""
    return _FOREIGN_SCRIPT.sub("", output)


def on_post_template(output_content: str, **_: Any) -> str:
    """Return a page that has no text of its own, such as 404, without scripts from other hosts."""
    return _FOREIGN_SCRIPT.sub("", output_content)


def on_post_build(config: Any, **_: Any) -> None:
    """Copy the explorer into the site."""
    shutil.copyfile(EXPLORER, Path(config["site_dir"]) / "explorer_of_gates.html")
