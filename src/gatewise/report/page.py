"""Text becomes HTML here and nowhere else.

Every value of every record is escaped by the template engine.
"""

import base64
import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, *, kit: bool = False, **records: Any) -> str:
    """The page ``template`` filled from ``records``; each string in them is text, never markup.

    With ``kit`` it has the style of charts, tables and pictures, and our one script, which only
    adds to a page that is complete without it.
    """
    css = _own("page.css") + (_own("charts.css") if kit else "")
    script = _own("page.js") if kit else ""
    allowed = policy(css, script, images=kit)
    return (
        _templates()
        .get_template(template)
        .render(css=css, script=script, policy=allowed, **records)
    )


def policy(css: str, script: str = "", *, images: bool = False) -> str:
    """A content security policy that allows this one style sheet and, if given, this one script.

    Nothing is fetched.

    With ``images`` it also allows pictures whose bytes are in the page.
    """
    parts = ["default-src 'none'", f"style-src 'sha256-{_digest(css)}'"]
    parts += [f"script-src 'sha256-{_digest(script)}'"] * bool(script) + ["img-src data:"] * images
    return "; ".join([*parts, "base-uri 'none'", "form-action 'none'"])


def _own(name: str) -> str:
    return (TEMPLATES / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    return base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()


@lru_cache(maxsize=1)
def _templates() -> Any:
    import jinja2
    from markupsafe import Markup

    from gatewise.report import words
    from gatewise.report.charts import lay_out, runs

    loader = jinja2.FileSystemLoader(TEMPLATES)
    found = jinja2.Environment(
        loader=loader,
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    found.filters["our_own"] = (
        Markup  # style sheet and script: our own files, named in the policy by their digests
    )
    found.filters |= {"number": words.number, "count": words.count, "ulps": words.ulps}
    found.filters |= {
        "laid_out": lay_out,
        "runs": runs,
        "kind": lambda record: type(record).__name__,
    }
    return found
