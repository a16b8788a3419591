"""LaTeX as one line of plain text, for terminals and pages."""

import re

_SYMBOLS = {
    "alpha": "α",
    "beta": "β",
    "gamma": "γ",
    "delta": "δ",
    "epsilon": "ε",
    "varepsilon": "ε",
    "eta": "η",
    "theta": "θ",
    "lambda": "λ",
    "mu": "μ",
    "nu": "ν",
    "rho": "ρ",
    "sigma": "σ",
    "tau": "τ",
    "phi": "φ",
    "varphi": "φ",
    "psi": "ψ",
    "omega": "ω",
    "pi": "π",
    "Phi": "Φ",
    "Sigma": "Σ",
    "sum": "Σ",
    "prod": "Π",
    "infty": "∞",
    "le": "≤",
    "leq": "≤",
    "ge": "≥",
    "geq": "≥",
    "ne": "≠",
    "neq": "≠",
    "in": "∈",
    "cdot": "·",
    "times": "×",
    "odot": "⊙",
    "ast": "*",
    "dots": "…",
    "ldots": "…",
    "cdots": "⋯",
    "to": "→",
    "rightarrow": "→",
    "mapsto": "↦",
    "pm": "±",
    "approx": "≈",
    "lvert": "|",
    "rvert": "|",
    "vert": "|",
    "mid": "|",
    "lVert": "‖",
    "rVert": "‖",
    "Vert": "‖",
    "langle": "⟨",
    "rangle": "⟩",
    "star": "⋆",
    "quad": " ",
    "qquad": "  ",
    "lfloor": "⌊",
    "rfloor": "⌋",
    "lceil": "⌈",
    "rceil": "⌉",
    "ell": "ℓ",
    "partial": "∂",
    "nabla": "∇",
    "colon": ":",
    "prime": "′",
    "top": "ᵀ",
    "wedge": "∧",
    "vee": "∨",
    "equiv": "≡",
    "propto": "∝",
    "circ": "∘",
}
_RAISED = dict(zip("0123456789+-()nijkrTx", "⁰¹²³⁴⁵⁶⁷⁸⁹⁺⁻⁽⁾ⁿⁱʲᵏʳᵀˣ", strict=True))
_LOWERED = dict(zip("0123456789+-()aeijkrx", "₀₁₂₃₄₅₆₇₈₉₊₋₍₎ₐₑᵢⱼₖᵣₓ", strict=True))
_QUIET = {
    "left",
    "right",
    "bigl",
    "bigr",
    "Bigl",
    "Bigr",
    "big",
    "Big",
    "displaystyle",
    "textstyle",
    "limits",
}
_ACCENTS = {
    "(?:bar|overline)": "\u0304",
    "(?:wide)?hat": "\u0302",
    "(?:wide)?tilde": "\u0303",
}  # combining characters, written after the letter
_GROUP = r"\{([^{}]*)\}"
# Escaped braces are kept as control characters until all other braces are gone.
_BRACES = str.maketrans({"{": "", "}": "", "\x01": "{", "\x02": "}", "\\": ""})


def plain(latex: str) -> str:
    r"""Return ``latex`` as plain text: ``\frac{1}{2}`` is ``1/2``, ``x^2`` is ``x²``."""
    text = re.sub(r"\\begin\{cases\}(.*?)\\end\{cases\}", _cases, latex, flags=re.DOTALL)
    text = text.replace(r"\{", "\x01").replace(r"\}", "\x02")
    text = re.sub(r"\\[,;:> ]|~", " ", text).replace(r"\!", "")
    before = ""
    while text != before:  # from the innermost braces outwards
        before = text
        text = _open_groups(text)
    text = re.sub(r"\\([A-Za-z]+)", _symbol, _scripts(text))
    text = text.translate(_BRACES)
    return re.sub(r"([(\[]) +| +(?=[)\],])", r"\1", re.sub(r"\s+", " ", text)).strip()


def _cases(match: re.Match[str]) -> str:
    """The rows of a case distinction, separated by semicolons."""
    rows = [row.strip().replace("&", " ") for row in match[1].split(r"\\") if row.strip()]
    return "; ".join(rows)


def _open_groups(text: str) -> str:
    """Replace the innermost braces and their commands."""
    text = re.sub(
        rf"\\[td]?frac\s*{_GROUP}\s*{_GROUP}",
        lambda m: f"{_wrap(m[1])}/{_wrap(m[2])}",
        text,
    )
    text = re.sub(rf"\\sqrt\s*{_GROUP}", lambda m: f"√{_wrap(m[1])}", text)
    text = re.sub(rf"\\(?:operatorname\*?|math[a-z]+|text[a-z]*|substack)\s*{_GROUP}", r"\1", text)
    for accent, mark in _ACCENTS.items():
        text = re.sub(rf"\\{accent}\s*{_GROUP}", rf"\1{mark}", text)
    text = re.sub(rf"([\^_]){_GROUP}", _script_group, text)
    return re.sub(rf"(?<![\^_A-Za-z}}]){_GROUP}", r"\1", text)


def _wrap(text: str) -> str:
    """``text`` in brackets, unless it is a single name, number or bracket."""
    return text if re.fullmatch(r"\s*(\\?[A-Za-z]+|[\d.]+|\(.*\)|.)\s*", text) else f"({text})"


def _script_group(match: re.Match[str]) -> str:
    """A raised or lowered group: in small letters if they exist, else in brackets."""
    table = _RAISED if match[1] == "^" else _LOWERED
    body = re.sub(r"\\([A-Za-z]+)", _symbol, match[2])
    if body and all(c in table for c in body):
        return "".join(table[c] for c in body)
    if len(body) > 1:
        return f"{match[1]}({body})"
    return match[1] + body


def _scripts(text: str) -> str:
    """Replace scripts of one character: ``x^2``, ``u_r``."""
    text = re.sub(r"\^([0-9+\-nijkT])", lambda m: _RAISED[m[1]], text)
    return re.sub(r"_([0-9aeijkrx])(?![A-Za-z])", lambda m: _LOWERED[m[1]], text)


def _symbol(match: re.Match[str]) -> str:
    """A command as a symbol; its name if there is no symbol."""
    name = match[1]
    return "" if name in _QUIET else _SYMBOLS.get(name, name)
