#!/usr/bin/env python3
"""Draw the pictures of the documentation from pages, in Chromium.

    tools/docs_pictures.py PAGE...

``PAGE`` is the explorer's picture (``picture=explorer.html``) or a page whose screenshots in light,
dark and at 400 pixels are kept in ``docs/shots`` (``comparison=demo/report.html``, ``explorer=``,
``gallery=``, ``diagnosis=``, ``site=site/index.html``, ``readme=README.md``). Screenshots are of
the first screen.
"""

import base64
import io
import sys
import tempfile
import time
from pathlib import Path

from PIL import Image

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "tests"))
from browser import Browser, Page, settle  # noqa: E402 - the tests drive the same browser

DOCS = ROOT / "docs"
WINDOWS = {"light": (1280, 861, False), "dark": (1280, 861, True), "400": (400, 800, False)}
READY = (  # the explorer is trained and has counted the regions
    "!window.explorer || explorer.step() >= 200 && explorer.measured('a') && explorer.measured('b')"
)
README_STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; max-width: 830px; margin: 0 auto; padding: 32px 24px }
img { max-width: 100% } h1, h2 { border-bottom: 1px solid #8884; padding-bottom: .3em }
code, pre { background: #8882; border-radius: 4px; padding: .1em .3em } pre { padding: 1em }
pre code { background: none; padding: 0 } td, th { border: 1px solid #8884; padding: 6px 12px }
table { border-collapse: collapse } :root { color-scheme: light dark }
@media (prefers-color-scheme: dark) {
  body { background: #0d1117; color: #e6edf3 } a { color: #58a6ff }
}
"""


def main(arguments: list[str]) -> int:
    """Draw every picture that is asked for."""
    if not arguments or any("=" not in argument for argument in arguments):
        print(__doc__)
        return 2
    with Browser() as browser:
        for argument in arguments:
            name, _, path = argument.partition("=")
            if name == "picture":
                page = open_page(browser, Path(path), 1280, 900, dark=False)
                captured(page).save(DOCS / "explorer.png", optimize=True)
            else:
                shots(browser, name, Path(path))
    return 0


def open_page(browser: Browser, path: Path, width: int, height: int, *, dark: bool) -> Page:
    """Return the page in a window of this size, when it is ready."""
    page = browser.open(path, width=width, height=height, dark=dark)
    settle(page, READY, 60)
    time.sleep(1)
    return page


def captured(page: Page) -> Image.Image:
    """Return what the window shows."""
    found = page.call("Page.captureScreenshot", format="png")
    return Image.open(io.BytesIO(base64.b64decode(found["data"]))).convert("RGB")


def shots(browser: Browser, name: str, path: Path) -> None:
    """Write the first screen of a page in light, dark and at 400 pixels."""
    with tempfile.TemporaryDirectory() as folder:
        if path.suffix == ".md":
            path = readme_page(path, Path(folder))
        for kind, (width, height, dark) in WINDOWS.items():
            picture = captured(open_page(browser, path, width, height, dark=dark))
            picture.save(DOCS / "shots" / f"{name}-{kind}.webp", quality=80, method=6)


def readme_page(path: Path, folder: Path) -> Path:
    """Return the README as a page, with a base so that its pictures are found."""
    import markdown

    body = markdown.markdown(path.read_text(), extensions=["fenced_code", "tables"])
    base = path.resolve().parent.as_uri()
    head = f'<meta charset="utf-8"><base href="{base}/"><style>{README_STYLE}</style>'
    made = folder / "readme.html"
    made.write_text(f"<!doctype html>{head}{body}")
    return made


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
