"""Text becomes HTML here and nowhere else: the template engine escapes every value of a record."""

import base64
import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

from gatewise.report.charts import category_style

TEMPLATES = Path(__file__).parent / "templates"


def render(
    template: str,
    *,
    interactive: bool = False,
    style: str = "",
    script: str = "",
    **records: Any,
) -> str:
    """Return the page ``template`` filled from ``records``.

    Args:
        template: The name of a file in ``templates``.
        style: The name of one more style sheet there.
        script: The name of another script there, in place of ours.
        interactive: Whether the page has our script, which only adds to a page that is complete
            without it, and may hold images.
        **records: What the template shows. Every string in them is text, never markup.
    """
    css = read_template("page.css") + read_template("charts.css") + category_style()
    css += read_template(style) if style else ""
    name = script or ("page.js" if interactive else "")
    code = read_template(name) if name else ""
    allowed = policy(css, code, images=interactive)
    page = environment().get_template(template)
    return page.render(css=css, script=code, policy=allowed, **records)


def policy(css: str, script: str = "", *, images: bool = False) -> str:
    """Return a content security policy under which the page fetches nothing.

    Args:
        css: The one style sheet that is allowed.
        script: The one script that is allowed; none if empty.
        images: Whether images are allowed whose bytes are in the page.
    """
    rules = ["default-src 'none'", f"style-src 'sha256-{_digest(css)}'"]
    if script:
        rules.append(f"script-src 'sha256-{_digest(script)}'")
    if images:
        rules.append("img-src data:")
    return "; ".join([*rules, "base-uri 'none'", "form-action 'none'"])


def read_template(name: str) -> str:
    """Return the text of a file in ``templates``."""
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """The SHA-256 of a text as a content security policy writes it."""
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@lru_cache(maxsize=1)
def environment() -> Any:
    """Return the template engine with the filters that our templates use."""
    import jinja2
    from markupsafe import Markup

    from gatewise import words
    from gatewise.report.charts import as_cells, lay_out

    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters |= {
        "number": words.number,
        "count": words.count,
        "ulps": words.ulps,
        "laid_out": lay_out,
        "cells": as_cells,
        "kind": lambda record: type(record).__name__,
        # Only for our own style sheet and script, which the policy names by their digests.
        "trusted": Markup,
    }
    return environment
