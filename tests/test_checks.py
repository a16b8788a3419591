"""One set of checks of arguments for all parts."""

import math
import re
from fractions import Fraction

import numpy as np
import pytest
import torch

from gatewise.checks import check_choice, check_count, check_flag, check_number, selects
from gatewise.errors import ArgumentError


def test_numbers_of_any_kind_become_floats():
    for value in (2, 2.0, np.float32(2), np.int64(2), Fraction(2)):
        checked = check_number("owner", "name", value, least=2, most=2)
        assert checked == 2.0 and type(checked) is float


@pytest.mark.parametrize(
    ("limits", "allowed", "wrong"),
    [
        ({}, "a finite number", (True, "2", None, math.nan, math.inf, 10**400, 2j)),
        ({"above": 0, "most": 1}, "a finite number > 0 and <= 1", (0, 1.1)),
        ({"least": 0, "below": 1}, "a finite number >= 0 and < 1", (-0.1, 1)),
    ],
)
def test_wrong_numbers_are_refused(limits, allowed, wrong):
    for value in wrong:
        with pytest.raises(ArgumentError, match=r"^owner: name is not allowed; got: ") as problem:
            check_number("owner", "name", value, **limits)
        assert problem.value.allowed == allowed


def test_counts_become_integers_in_their_range():
    assert type(check_count("owner", "name", np.int32(3))) is int
    for value in (0, -1, True, 1.0, "1", None, 2**31, math.nan):
        with pytest.raises(ArgumentError, match=r"allowed: an integer >= 1$"):
            check_count("owner", "name", value)
    with pytest.raises(ArgumentError, match="an integer >= 2 and <= 8; fix: name=3"):
        check_count("owner", "name", 9, least=2, most=8, fix="name=3")


def test_flags_and_choices():
    assert check_flag("owner", "name", False) is False
    assert check_choice("owner", "name", "a", ("a", "b")) == "a"
    for value in (0, "False", None):
        with pytest.raises(ArgumentError, match="allowed: True or False"):
            check_flag("owner", "name", value)
    for value in ("c", None, ["a"], 1):
        with pytest.raises(ArgumentError, match="allowed: 'a', 'b'"):
            check_choice("owner", "name", value, ("a", "b"))


def test_checks_are_traced_by_torch_compile():
    def scaled(x, factor, times):
        return x * check_number("scaled", "factor", factor, above=0) ** check_count("s", "t", times)

    compiled = torch.compile(scaled, fullgraph=True, dynamic=True, backend="eager")
    x = torch.ones(3)
    for factor in (0.5, 0.25, 3.0):
        assert torch.equal(compiled(x, factor, 2), scaled(x, factor, 2))


def test_one_grammar_selects_names():
    names = ["layer1.0", "layer1.1", "head"]
    cases = {
        None: names,
        "layer1.*": names[:2],
        "re:1$": [names[1]],
        ("head", "*.0"): [names[0], names[2]],
        re.compile("hea"): [names[2]],
        str.isalpha: [names[2]],
    }
    for where, expected in cases.items():
        assert [name for name in names if selects(where, name)] == expected
    for where, words in ((3, "cannot select"), (["*", 3], "cannot select"), ("re:(", "expression")):
        with pytest.raises(ArgumentError, match=words):
            selects(where, "head")
