"""The colours of charts by name. ``charts.css`` has the same names, some lighter in dark mode."""

# Names with a meaning: the subject, a second series, better, worse, neither, and the background.
MEANINGS = {
    "base": "#2b5fb8",
    "two": "#b35c00",
    "up": "#0a7a5c",
    "down": "#b4432b",
    "flat": "#5f666d",
    "light": "#7f8993",
}
# Note [Sixteen lines that can be told apart]: seven colours (Okabe and Ito) are drawn solid, the
# next five dashed, and the last four dotted. By eye, any two are at least 19 apart (CIEDE2000; 20
# in dark mode). With simulated colour blindness, two of the same line style are at least 10 apart
# (14 in dark mode). tests/report/test_palette.py measures this.
CATEGORIES = {
    "hue-1": "#0072b2",
    "hue-2": "#d55e00",
    "hue-3": "#009e73",
    "hue-4": "#cc79a7",
    "hue-5": "#56b4e9",
    "hue-6": "#000000",
    "hue-7": "#e69f00",
    "hue-8": "#ea00ff",
    "hue-9": "#999800",
    "hue-10": "#d71462",
    "hue-11": "#1b5032",
    "hue-12": "#830086",
    "hue-13": "#b2000f",
    "hue-14": "#1f3bcb",
    "hue-15": "#9185ee",
    "hue-16": "#722b3e",
}
# The same in dark mode, as page.css has them.
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


def first_dash(colour: str) -> int:
    """Return the line style of the first series of a colour.

    Args:
        colour: A name of the palette. See Note [Sixteen lines that can be told apart].
    """
    if colour not in CATEGORIES:
        return 0
    place = list(CATEGORIES).index(colour)
    return (place >= SOLID) + (place >= DASHED)
