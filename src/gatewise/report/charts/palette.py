"""The colours of charts by name.

``page.css`` and ``charts.css`` have those with a meaning, some lighter in dark mode. The categories
are defined here alone: :func:`category_style` writes them for the page.
"""

# Names with a meaning: the subject, a second series, better, worse, neither, and the background.
MEANINGS = {
    "base": "#2b5fb8",
    "two": "#b35c00",
    "up": "#0a7a5c",
    "down": "#b4432b",
    "flat": "#5f666d",
    "light": "#7f8993",
}
# Note [Sixteen lines that can be told apart]: seven colours (those of Okabe and Ito, darkened until
# the contrast with white is 3) are drawn solid, the next five dashed, and the last four dotted. By
# eye, any two are at least 19 apart (CIEDE2000; 20 in dark mode). With simulated colour blindness,
# two of the same line style are at least 10 apart (14 in dark mode). The contrast with the
# background is at least 3. tests/report/test_palette.py measures this.
CATEGORIES = {
    "hue-1": "#0068a6",
    "hue-2": "#c25000",
    "hue-3": "#0d9b6e",
    "hue-4": "#bc7faa",
    "hue-5": "#029bea",
    "hue-6": "#000000",
    "hue-7": "#ca8505",
    "hue-8": "#ea00ff",
    "hue-9": "#999804",
    "hue-10": "#d71462",
    "hue-11": "#1a5032",
    "hue-12": "#830086",
    "hue-13": "#a50016",
    "hue-14": "#0f32ce",
    "hue-15": "#9185ef",
    "hue-16": "#662c3d",
}
# The same in dark mode.
DARK_CATEGORIES = {
    "hue-1": "#2b93f6",
    "hue-2": "#b45a06",
    "hue-3": "#008180",
    "hue-4": "#ff8a92",
    "hue-5": "#5fd8ff",
    "hue-6": "#e8eaec",
    "hue-7": "#ffcd65",
    "hue-8": "#e41132",
    "hue-9": "#ac20ff",
    "hue-10": "#00ffea",
    "hue-11": "#cd4188",
    "hue-12": "#3bcc0d",
    "hue-13": "#e3ff09",
    "hue-14": "#777567",
    "hue-15": "#b39de9",
    "hue-16": "#0b8625",
}
SOLID = 7
DASHED = 12
# Ten steps of viridis from dark to light, for series in order of a size.
SIZES = {
    "size-0": "#440154",
    "size-1": "#482475",
    "size-2": "#414487",
    "size-3": "#355f8d",
    "size-4": "#2a788e",
    "size-5": "#21918c",
    "size-6": "#22a884",
    "size-7": "#44bf70",
    "size-8": "#7ad151",
    "size-9": "#bddf26",
}
COLOURS = MEANINGS | CATEGORIES | SIZES


def size_colours(count: int) -> list[str]:
    """Names of ``count`` colours from dark to light, evenly spread over the steps."""
    steps = list(SIZES)
    last = max(count - 1, 1)
    return [steps[round((len(steps) - 1) * place / last)] for place in range(count)]


def category_style() -> str:
    """Return the style sheet of the categories: light, on paper too, and dark on a screen."""

    def properties(palette: dict[str, str]) -> str:
        return ":root{" + ";".join(f"--{name}:{colour}" for name, colour in palette.items()) + "}"

    classes = "".join(f".c-{name}{{--c:var(--{name})}}" for name in CATEGORIES)
    dark = f"@media screen and (prefers-color-scheme:dark){{{properties(DARK_CATEGORIES)}}}"
    return f"{properties(CATEGORIES)}\n{dark}\n{classes}\n"


def first_dash(colour: str) -> int:
    """Return the line style of the first series of a colour.

    Args:
        colour: A name of the palette. See Note [Sixteen lines that can be told apart].
    """
    if colour not in CATEGORIES:
        return 0
    place = list(CATEGORIES).index(colour)
    return (place >= SOLID) + (place >= DASHED)
