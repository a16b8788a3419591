"""JSON: allowed values, what is read back, and errors before anything is changed (part of S3)."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.errors import ArgumentError
from gatewise.files import DEEPEST, decode, encode, read_json, write_json

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)


@pytest.mark.thorough
@given(PLAIN)
def test_plain_values_come_back_equal_and_of_the_same_type(value):
    again = decode(encode(value))
    assert again == value and repr(again) == repr(value)  # repr tells 1 from True and 0.0 from -0.0


def test_the_file_is_standard_json_that_says_its_digest(tmp_path):
    write_json(tmp_path / "a.json", {"b": [1, 2.5, None, True], "a": "é\n"})
    raw = (tmp_path / "a.json").read_bytes()
    plain = json.loads(raw)
    assert list(plain) == ["sha256", "content"] and list(plain["content"]) == ["b", "a"]
    assert raw.endswith(b"}\n") and raw.count(b"\n") == 1
    assert read_json(str(tmp_path / "a.json")) == {"b": [1, 2.5, None, True], "a": "é\n"}


def test_anyone_can_check_the_seal_by_the_rule_in_the_note(tmp_path):
    import hashlib

    write_json(tmp_path / "a.json", {"n": 1})
    raw = (tmp_path / "a.json").read_bytes()
    seal = json.loads(raw)["sha256"]
    assert hashlib.sha256(raw.replace(seal.encode(), b"0" * 64)).hexdigest() == seal


def test_a_tuple_comes_back_as_a_list(tmp_path):
    write_json(tmp_path / "a", (1, (2,)))
    assert read_json(tmp_path / "a") == [1, [2]]


LOOP: list = []
LOOP.append(LOOP)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"a": [0, math.nan]}, r"content\['a'\]\[1\] cannot .*nan"),
        (math.inf, "content cannot .*inf"),
        ([-math.inf], r"content\[0\] cannot .*-inf"),
        ({"x": {1: 2}}, r"a key of content\['x'\] cannot .*got: a int;"),
        ({None: 1}, "a key of content .*a NoneType"),
        ({10**5000: 1}, "a key of content .*a int"),
        ({"a": {1, 2}}, r"content\['a'\] .*a set"),
        (b"bytes", "a bytes"),
        (object(), "a object"),
        ("\ud800", "surrogates"),
        ({"\ud800": 1}, "surrogates"),
        (LOOP, "more than 100 levels"),
        (10**5000, "digits"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_would_not_come_back_is_refused_and_the_old_file_stays(tmp_path, content, words):
    write_json(tmp_path / "a", "old")
    with pytest.raises(ArgumentError, match=words) as caught:
        write_json(tmp_path / "a", content)
    assert caught.value.fix and len(str(caught.value)) < 1000
    assert read_json(tmp_path / "a") == "old" and len(list(tmp_path.iterdir())) == 1


def nested(depth):
    value = 1
    for _ in range(depth):
        value = [value]
    return value


def test_the_deepest_allowed_content_comes_back(tmp_path):
    write_json(tmp_path / "a", nested(DEEPEST))
    assert read_json(tmp_path / "a") == nested(DEEPEST)
    with pytest.raises(ArgumentError, match="100 levels"):
        write_json(tmp_path / "a", nested(DEEPEST + 1))


def test_the_largest_allowed_content_comes_back_and_a_larger_one_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("gatewise.files.plain_json.LARGEST", 50)
    monkeypatch.setattr("gatewise.files.envelope.LARGEST", 50)
    monkeypatch.setattr("gatewise.files.envelope.ROOM", 92)  # exactly what is around the content
    write_json(tmp_path / "a", "x" * 48)
    assert read_json(tmp_path / "a") == "x" * 48
    with pytest.raises(ArgumentError, match="51 bytes of JSON"):
        write_json(tmp_path / "a", "x" * 49)
