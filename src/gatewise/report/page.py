"""Text becomes HTML here and nowhere else: every value of every record is escaped by the template engine."""

import base64
import hashlib
from functools import lru_cache
from pathlib import Path
from typing import Any

TEMPLATES = Path(__file__).parent / "templates"


def render(template: str, **records: Any) -> str:
    """The page ``template`` filled from ``records``; each string in them is text, never markup."""
    css = (TEMPLATES / "page.css").read_text(encoding="utf-8")
    return _templates().get_template(template).render(css=css, policy=policy(css), **records)


def policy(css: str) -> str:
    """A content security policy that allows this one style sheet: no script, image, font or request."""
    digest = base64.b64encode(hashlib.sha256(css.encode()).digest()).decode()
    return f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"


@lru_cache(maxsize=1)
def _templates() -> Any:
    import jinja2
    from markupsafe import Markup

    from gatewise.report import words

    loader = jinja2.FileSystemLoader(TEMPLATES)
    found = jinja2.Environment(
        loader=loader, autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    found.filters["style_sheet"] = Markup  # our own file, named in the policy by its digest
    found.filters |= {"number": words.number, "count": words.count, "ulps": words.ulps}
    return found
