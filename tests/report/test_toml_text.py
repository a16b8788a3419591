"""TOML that is written is read back as what it was."""

import tomllib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.errors import ArgumentError
from gatewise.report.comparison import toml_text

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False) | TEXT
NESTED = st.recursive(
    PLAIN, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4)
)


@given(st.dictionaries(TEXT, NESTED, max_size=5))
def test_any_table_comes_back(table):
    assert tomllib.loads(toml_text(table)) == table


def test_what_toml_cannot_say_is_left_out_or_refused():
    assert toml_text({"a": None, "b": {"c": None, "d": 1}}) == "b = { d = 1 }\n"
    with pytest.raises(ArgumentError):
        toml_text({"a": object()})
