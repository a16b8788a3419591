"""Examples in docstrings as blocks of code. Markdown would read ``>>>`` as a quotation.

The reference of the site loads this as an extension of griffe.
"""

from typing import Any

from griffe import Extension


def fenced(text: str) -> str:
    """Return ``text`` with every example, up to the next blank line, in a fence.

    Args:
        text: A docstring.
    """
    lines: list[str] = []
    inside = False
    indent = ""
    for line in text.splitlines():
        if not inside and line.lstrip().startswith(">>>"):
            indent = line[: len(line) - len(line.lstrip())]
            lines.append(f"{indent}```python")
            inside = True
        elif inside and not line.strip():
            lines.append(f"{indent}```")
            inside = False
        lines.append(line)
    if inside:
        lines.append(f"{indent}```")
    return "\n".join(lines)


class Examples(Extension):
    """Put the examples of every docstring into fences."""

    def on_instance(self, *, obj: Any, **_: Any) -> None:
        """Change the docstring of what was read."""
        if obj.docstring and ">>>" in obj.docstring.value and "```" not in obj.docstring.value:
            obj.docstring.value = fenced(obj.docstring.value)
