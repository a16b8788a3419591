"""JSON: allowed values, what is read back, and errors before anything is changed (part of S3)."""

import json
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gatewise.errors import ArgumentError, DamagedFileError, FileError
from gatewise.files import find_json, read_json, write_json
from gatewise.files.plain_json import DEEPEST, decode_json, encode

TEXT = st.text(st.characters(exclude_categories=["Cs"]))
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(TEXT, inner),
)


@pytest.mark.slow
@given(PLAIN)
def test_plain_values_come_back_equal_and_of_the_same_type(value):
    again = decode_json(encode(value))
    assert again == value and repr(again) == repr(value)  # repr tells 1 from True and 0.0 from -0.0


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


def test_the_file_is_standard_json_on_one_line(tmp_path):
    write_json(tmp_path / "a.json", {"b": [1, 2.5, None, True], "a": "é\n"})
    raw = (tmp_path / "a.json").read_bytes()
    assert list(json.loads(raw)) == ["b", "a"] and raw.endswith(b"}\n") and raw.count(b"\n") == 1
    assert read_json(str(tmp_path / "a.json")) == {"b": [1, 2.5, None, True], "a": "é\n"}


def test_the_largest_allowed_content_comes_back_and_a_larger_one_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr("gatewise.files.plain_json.LARGEST", 51)
    write_json(tmp_path / "a", "x" * 48)
    assert read_json(tmp_path / "a") == "x" * 48
    with pytest.raises(ArgumentError, match="52 bytes of JSON"):
        write_json(tmp_path / "a", "x" * 50)
    (tmp_path / "a").write_bytes(b'"' + b"x" * 60 + b'"')
    with pytest.raises(DamagedFileError, match="62 bytes, more than the 51"):
        read_json(tmp_path / "a")


def test_every_cut_is_noticed(tmp_path):
    write_json(tmp_path / "a", {"a": [1, -2.5e30, "é@"], "": None})
    good = (tmp_path / "a").read_bytes()
    for length in range(len(good) - 1):  # the last byte is a newline
        (tmp_path / "a").write_bytes(good[:length])
        with pytest.raises(DamagedFileError) as caught:
            read_json(tmp_path / "a")
        assert str(tmp_path / "a") in str(caught.value) and "\n" not in str(caught.value)


def test_a_file_that_is_not_there_is_none_or_an_error(tmp_path):
    assert find_json(tmp_path / "a") is None
    with pytest.raises(FileError, match="cannot read"):
        read_json(tmp_path / "a")
    write_json(tmp_path / "a", [])
    assert find_json(tmp_path / "a") == []


def test_files_of_earlier_versions_are_read_without_their_digest(tmp_path):
    (tmp_path / "a").write_text('{"sha256": "0", "content": [1]}')
    (tmp_path / "b").write_text('{"sha256": "0", "status": "done", "content": [1]}')
    assert read_json(tmp_path / "a") == [1]
    assert read_json(tmp_path / "b") == {"status": "done", "content": [1]}
