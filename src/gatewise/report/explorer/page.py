"""The built page of the explorer."""

from pathlib import Path

BUILT = Path(__file__).parent / "explorer.html"


def explorer_page() -> str:
    """Return the explorer of gates as one HTML text that needs no other file and no network.

    ``npm run build`` in ``explorer/`` writes the file from its TypeScript sources.
    """
    return BUILT.read_text(encoding="utf-8")
