"""Execute the notebooks of the documentation, and turn them into pages of the site.

python tools/docs_notebooks.py docs/tutorials/*.ipynb

writes each notebook again with the outputs of its cells: printed text, the value of the last
expression, and figures of matplotlib. The files are ordinary notebooks that Jupyter opens. Cells
run in this process, in an empty folder, without Jupyter.
"""

import ast
import base64
import contextlib
import io
import json
import linecache
import os
import sys
import tempfile
import traceback
from pathlib import Path
from typing import Any

FENCE = "```"
LONGEST = 12_000  # characters of one output


def read(path: Path) -> dict[str, Any]:
    """Return a notebook as plain data."""
    return json.loads(path.read_text(encoding="utf-8"))


def write(path: Path, notebook: dict[str, Any]) -> None:
    """Write a notebook."""
    path.write_text(json.dumps(notebook, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def execute(notebook: dict[str, Any], name: str) -> None:
    """Run the code cells in order, and replace their outputs.

    Args:
        notebook: The notebook, changed in place.
        name: Its name, for error messages.

    Raises:
        RuntimeError: If a cell fails.
    """
    import matplotlib

    matplotlib.use("Agg")
    space: dict[str, Any] = {"__name__": "__main__"}
    number = 0
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        number += 1
        cell["execution_count"] = number
        source = "".join(cell["source"])
        try:
            cell["outputs"] = _run(source, space, number)
        except Exception:
            told = traceback.format_exc()
            raise RuntimeError(f"{name}, cell {number} failed:\n{source}\n{told}") from None


def _run(source: str, space: dict[str, Any], number: int) -> list[dict[str, Any]]:
    """Run one cell and return its outputs."""
    from matplotlib import pyplot

    tree = ast.parse(source)
    # Where inspect looks for the source of what a cell defines: a swap rewrites it.
    name = f"<cell {number}>"
    linecache.cache[name] = (len(source), None, source.splitlines(keepends=True), name)
    last = tree.body.pop() if tree.body and isinstance(tree.body[-1], ast.Expr) else None
    printed = io.StringIO()
    value = None
    with contextlib.redirect_stdout(printed):
        exec(compile(tree, name, "exec"), space)  # noqa: S102  our own notebooks
        if isinstance(last, ast.Expr):
            code = compile(ast.Expression(last.value), name, "eval")
            value = eval(code, space)  # noqa: S307  the same
    outputs: list[dict[str, Any]] = []
    if printed.getvalue():
        outputs.append(
            {"output_type": "stream", "name": "stdout", "text": _lines(printed.getvalue())}
        )
    if value is not None:
        data: dict[str, Any] = {"text/plain": _lines(repr(value))}
        if hasattr(value, "savefig"):  # a figure, drawn here and not again with the open ones
            data = {"image/png": _png(value)}
            pyplot.close(value)
        outputs.append(
            {
                "output_type": "execute_result",
                "execution_count": number,
                "data": data,
                "metadata": {},
            }
        )
    return [*outputs, *_figures()]


def _lines(text: str) -> list[str]:
    """A text as a notebook stores it."""
    return text[:LONGEST].splitlines(keepends=True)


def _figures() -> list[dict[str, Any]]:
    """The open figures of matplotlib, closed."""
    from matplotlib import pyplot

    outputs: list[dict[str, Any]] = []
    for figure in map(pyplot.figure, pyplot.get_fignums()):
        data = {"image/png": _png(figure)}
        outputs.append({"output_type": "display_data", "data": data, "metadata": {}})
    pyplot.close("all")
    return outputs


def _png(figure: Any) -> str:
    """A figure of matplotlib as the text that a notebook stores."""
    image = io.BytesIO()
    figure.savefig(image, format="png", dpi=80, bbox_inches="tight", metadata={"Software": ""})
    return base64.b64encode(image.getvalue()).decode()


def page(path: Path) -> tuple[str, dict[str, bytes]]:
    """Return an executed notebook as Markdown, and its pictures by name.

    Args:
        path: The notebook.
    """
    pictures: dict[str, bytes] = {}
    parts = []
    for cell in read(path)["cells"]:
        source = "".join(cell["source"])
        if cell["cell_type"] == "markdown":
            parts.append(source.replace(".ipynb)", ".md)"))  # another page, not a file
            continue
        parts.append(f"{FENCE}python\n{source}\n{FENCE}")
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{path.stem}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode(data["image/png"])
                parts.append(f"![Figure drawn by the code above]({name})")
                continue
            text = "".join(output.get("text") or data["text/plain"]).rstrip("\n")
            parts.append(f"{FENCE}text\n{text}\n{FENCE}")
    top = (
        f"[This page as a notebook]({path.name}): outputs were made by running it, "
        "and the tests run it again."
    )
    head, _, rest = "\n\n".join(parts).partition("\n")
    return f"{head}\n\n{top}\n{rest}\n", pictures


def main(names: list[str]) -> None:
    """Execute notebooks and write them again."""
    paths = [Path(name).resolve() for name in names]
    for path in paths:
        notebook = read(path)
        with tempfile.TemporaryDirectory() as folder:
            os.chdir(folder)
            execute(notebook, path.name)
            os.chdir(path.parent)
        write(path, notebook)
        print(f"executed {path.name}")


if __name__ == "__main__":
    main(sys.argv[1:])
