"""How far apart colours look: contrast, CIEDE2000, and simulated colour blindness.

Written for the tests of the palette, which has no such code.
"""

import math

import numpy as np

# Machado, Oliveira and Fernandes 2009, severity 1, for linear sRGB.
BLINDNESS = {
    "protanopia": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deuteranopia": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritanopia": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
TO_XYZ = np.array(
    [
        [0.4124564, 0.3575761, 0.1804375],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339, 0.1191920, 0.9503041],
    ]
)
WHITE = TO_XYZ.sum(1)


def linear(colour: str) -> np.ndarray:
    """Linear sRGB of ``#rrggbb``."""
    part = np.array([int(colour[place : place + 2], 16) / 255 for place in (1, 3, 5)])
    return np.where(part <= 0.04045, part / 12.92, ((part + 0.055) / 1.055) ** 2.4)


def seen(colour: str, blindness: str | None = None) -> np.ndarray:
    """CIELAB of a colour, as it is or as a person with that colour blindness sees it."""
    rgb = linear(colour)
    if blindness:
        rgb = np.clip(np.array(BLINDNESS[blindness]) @ rgb, 0, 1)
    ratio = TO_XYZ @ rgb / WHITE
    f = np.where(ratio > 216 / 24389, np.cbrt(ratio), (24389 / 27 * ratio + 16) / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


def contrast(colour: str, background: str) -> float:
    """The contrast of WCAG 2."""
    bright, dark = sorted((TO_XYZ[1] @ linear(c) for c in (colour, background)), reverse=True)
    return float((bright + 0.05) / (dark + 0.05))


def ciede2000(one: np.ndarray, other: np.ndarray) -> float:
    """The CIEDE2000 difference of two CIELAB colours."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    mean = (math.hypot(a1, b1) + math.hypot(a2, b2)) / 2
    g = 0.5 * (1 - math.sqrt(mean**7 / (mean**7 + 25.0**7)))
    a1, a2 = (1 + g) * a1, (1 + g) * a2
    c1, c2 = math.hypot(a1, b1), math.hypot(a2, b2)
    h1, h2 = (math.degrees(math.atan2(b, a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    turn = h2 - h1
    if c1 * c2 == 0:
        turn = 0.0
    elif abs(turn) > 180:
        turn -= math.copysign(360, turn)
    d_h = 2 * math.sqrt(c1 * c2) * math.sin(math.radians(turn / 2))
    light, chroma = (l1 + l2) / 2, (c1 + c2) / 2
    hue = h1 + h2
    if c1 * c2:
        hue = (h1 + h2) / 2
        if abs(h1 - h2) > 180:
            hue += 180 if h1 + h2 < 360 else -180
    t = (
        1
        - 0.17 * math.cos(math.radians(hue - 30))
        + 0.24 * math.cos(math.radians(2 * hue))
        + 0.32 * math.cos(math.radians(3 * hue + 6))
        - 0.20 * math.cos(math.radians(4 * hue - 63))
    )
    s_l = 1 + 0.015 * (light - 50) ** 2 / math.sqrt(20 + (light - 50) ** 2)
    s_c = 1 + 0.045 * chroma
    s_h = 1 + 0.015 * chroma * t
    bend = 2 * math.sqrt(chroma**7 / (chroma**7 + 25.0**7))
    r_t = -math.sin(math.radians(60 * math.exp(-(((hue - 275) / 25) ** 2)))) * bend
    d_l, d_c = (l2 - l1) / s_l, (c2 - c1) / s_c
    d_h /= s_h
    return math.sqrt(d_l**2 + d_c**2 + d_h**2 + r_t * d_c * d_h)
