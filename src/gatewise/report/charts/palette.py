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
# Seven colours that people with colour blindness can distinguish (Okabe and Ito).
CATEGORIES = {
    "hue-1": "#0072b2",
    "hue-2": "#d55e00",
    "hue-3": "#009e73",
    "hue-4": "#cc79a7",
    "hue-5": "#56b4e9",
    "hue-6": "#000000",
    "hue-7": "#e69f00",
}
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
