"""Tables of a configuration file, written as TOML and harmed.

Values, keys and text that no file should have.
"""

import copy
import json
import math
import random
import re

HOSTILE = [
    "__import__('os').system('touch marker')",
    "$(touch marker)",
    "{{ 1 }}",
    "../../etc/passwd",
    "os.system",
    "\u202e",
    "é" * 50,
    "x" * 5000,
    "",
    "\x1b[31m",
    "%s%n",
    "nan",
    "[red]",
    "torch.nn:ReLU",
    "file.py:factory",
]
VALUES = [
    None,
    True,
    False,
    0,
    -1,
    1,
    10**9,
    10**18,
    -(10**18),
    0.0,
    -0.5,
    1e-300,
    1e300,
    math.nan,
    math.inf,
    -math.inf,
    [],
    [1, 2, 3],
    ["a"],
    {},
    {"a": {"b": {"c": 1}}},
    [[[[1]]]],
    *HOSTILE,
]


def toml(value) -> str:
    """A value in TOML, as one line; None, which TOML lacks, as a bare word that is not TOML."""
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key_of(key)} = {toml(each)}" for key, each in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(toml, value)) + "]"
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=True)
    return str(value).lower() if isinstance(value, bool | float) or value is None else str(value)


def key_of(key: str) -> str:
    return key if re.fullmatch(r"[A-Za-z0-9_-]+", key) else json.dumps(key)


def written(table: dict) -> str:
    return "".join(f"{key_of(key)} = {toml(value)}\n" for key, value in table.items())


def places(table: dict, path: tuple = ()) -> list[tuple]:
    found = []
    for key, value in table.items():
        found.append((*path, key))
        if isinstance(value, dict):
            found += places(value, (*path, key))
        elif isinstance(value, list):
            tables = [(number, each) for number, each in enumerate(value) if isinstance(each, dict)]
            found += [
                place for number, each in tables for place in places(each, (*path, key, number))
            ]
    return found


def mutate(table: dict, chance: random.Random) -> str:
    """The table after one to three changes, as text."""
    table = copy.deepcopy(table)
    for _ in range(chance.choice([1, 1, 1, 2, 3])):
        *path, key = chance.choice(places(table) or [("epochs",)])
        inner = table
        for step in path:
            inner = inner[step]
        kind = chance.choice(["value", "value", "value", "misspell", "extra", "remove", "nest"])
        if kind == "misspell":
            inner[key[:-1] + chance.choice("xyz_")] = inner.pop(key, 1)
        elif kind == "extra":
            inner[chance.choice([*HOSTILE, "epoch", "lr", "optimizer", "unit"])] = chance.choice(
                VALUES
            )
        elif kind == "remove":
            inner.pop(key, None)
        elif kind == "nest":
            inner[key] = {key: inner.get(key)}
        else:
            inner[key] = chance.choice(VALUES)
    return harm(written(table), chance)


def harm(text: str, chance: random.Random) -> str:
    """Now and then the text itself: cut, doubled, a letter exchanged, brackets without end."""
    kind, place = chance.random(), chance.randrange(len(text) + 1)
    if kind < 0.03:
        return text[:place]
    if kind < 0.06:
        return text + text
    if kind < 0.09:
        return text[:place] + chance.choice("[]{}=\"'#\n\0é") + text[place + 1 :]
    return text + "deep = " + "[" * 3000 if kind < 0.1 else text
