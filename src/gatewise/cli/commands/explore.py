"""``gatewise explore``: write the explorer of gates."""

from pathlib import Path
from typing import Annotated

import typer

from gatewise.cli.output import check_target, print_note

Out = Annotated[Path, typer.Option("--out", metavar="FILE", help="The page to write (.html).")]


def explore(out: Out = Path("explorer.html")) -> None:
    """Write an HTML page on which you drag activation functions and watch networks train.

    The page is one file and needs no network. Two small networks train side by side on a 2-d
    problem, with their linear regions drawn.

    Example: `gatewise explore --out explorer.html`
    """
    from gatewise.files import write_text
    from gatewise.report import explorer_page

    target = check_target(out, (".html", ".htm"))
    write_text(target, explorer_page())
    print_note(f"wrote {target}. Open it in a browser; it works offline.")
