"""X4: no name leads out of its folder: 2,000 names from hostile pieces, and Hypothesis's own."""

import itertools
import os
import random
from pathlib import Path, PureWindowsPath

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from gatewise.errors import UnsafePathError
from gatewise.files import confine, write_bytes

PIECES = [
    "..",
    ".",
    "",
    "/",
    "//",
    "\\",
    "\\\\",
    "..\\",
    "../",
    "...",
    "~",
    "~root",
    "C:",
    "c:\\",
    "\\\\?\\",
    "//server/share",
    "\0",
    "\n",
    "\r",
    "\x1b[2J",
    "\x7f",
    "\x85",
    "\u200b",
    "\u202e",
    "\u2028",
    "\ufeff",
    "\ud800",
    "\udc80",
    "\U000e0001",
    "con",
    "NUL",
    "aux.txt",
    "COM1",
    "lpt9.tar.gz",
    "COM¹",
    "CONIN$",
    "nul ",
    "con.",
    "file.",
    "file ",
    " file",
    "a:b",
    "file::$DATA",
    "*",
    "?",
    "<",
    ">",
    "|",
    '"',
    "%2e%2e",
    "%00",
    "..%2f",
    "\uff0e\uff0e",
    "\u2215",
    "\u2044",
    "e\u0301",
    "\u212b",
    "\ufb01",
    "link",
    "link/x",
    "inner",
    "loop",
    "dangling",
    "up",
    "etc/passwd",
    "a" * 255,
    "a" * 256,
    "é" * 128,
    "a/" * 400,
    "n" * 4096,
    ".gatewise-0123456789abcdef.tmp",
    "$HOME",
    "`id`",
    "-rf",
    "good",
    "a.b",
    "名前",
]
GOOD = [
    "a",
    "a.b",
    "a/b/c",
    "名前",
    "é",
    ".hidden",
    "-x",
    "con1",
    "console",
    "com",
    "common.txt",
    "lpt",
    "nulls/x",
    "a b",
    "e" * 255,
    "é" * 127,
    "...a",
    "~",
    "%2e",
    "a/" * 499 + "b",
    "inner",
    "inner/x",
    "x/" + "y" * 255,
]


@pytest.fixture
def folder(tmp_path):
    """A folder with links that lead out, in circles, nowhere, and inside.

    And something outside to hit.
    """
    return make_folder(tmp_path)


def make_folder(outer: Path) -> Path:
    folder = outer / "folder"
    (folder / "real").mkdir(parents=True)
    (outer / "secret").mkdir()
    (folder / "link").symlink_to(outer / "secret")
    (folder / "up").symlink_to("..")
    (folder / "self").symlink_to(".")
    (folder / "dangling").symlink_to(outer / "not-yet")
    (folder / "loop").symlink_to("loop")
    (folder / "inner").symlink_to("real")
    return folder


def generated() -> list[str]:
    chance = random.Random(4)  # noqa: S311  not for secrets
    pairs = ["".join(pair) for pair in itertools.product(PIECES, repeat=2)]
    paths = ["/".join(chance.choices(PIECES, k=chance.randint(2, 4))) for _ in range(900)]
    return [*PIECES, *chance.sample(pairs, 1100), *paths]


NAMES = generated()


def stays(folder: Path, name: str) -> bool:
    """Either refused, or below the folder by the system's own reckoning and by that of Windows.

    True if accepted.
    """
    try:
        path = confine(folder, name)
    except UnsafePathError as problem:
        assert str(folder) in str(problem) and str(problem).isprintable() and problem.fix
        return False
    root = os.path.realpath(folder)
    assert os.path.realpath(path).startswith(root + os.sep)
    assert path == folder / name
    windows = PureWindowsPath("C:/root") / name
    assert (
        windows.parts[:2] == ("C:\\", "root")
        and ".." not in windows.parts
        and not windows.is_reserved()
    )
    return True


def outside(folder: Path) -> set[str]:
    return {str(path) for path in folder.parent.rglob("*") if folder not in path.parents}


def test_two_thousand_hostile_names_never_write_outside_the_folder(folder):
    assert len(set(NAMES)) >= 1900 and len(NAMES) >= 2000
    before = outside(folder)
    accepted = [name for name in NAMES if stays(folder, name)]
    assert 0.01 < len(accepted) / len(NAMES) < 0.5
    for name in accepted:
        path = confine(folder, name)
        if not path.is_dir() and not any(parent.is_file() for parent in path.parents):
            path.parent.mkdir(parents=True, exist_ok=True)
            write_bytes(path, b"x")
    assert outside(folder) == before and list((folder.parent / "secret").iterdir()) == []


@pytest.mark.slow
@given(
    st.text() | st.lists(st.sampled_from(PIECES) | st.text(max_size=3), max_size=5).map("/".join)
)
@example("../x")
@example("link/x")
def test_no_name_hypothesis_thinks_of_leads_outside(name):
    stays(FOLDER, name)


@pytest.fixture(scope="module", autouse=True)
def shared_folder(tmp_path_factory):
    global FOLDER
    FOLDER = make_folder(tmp_path_factory.mktemp("outer"))


@pytest.mark.parametrize("name", GOOD, ids=lambda name: ascii(name[:20]))
def test_ordinary_names_are_accepted(folder, name):
    assert stays(folder, name)


BAD = {
    "empty": ["", "a//b", "/etc/passwd", "a/"],
    "a dot or two": ["..", "a/../b", "./a", "inner/../../x"],
    "cannot be seen": ["a\0b", "a\nb", "\u202etxt", "\ud800"],
    "one of the signs": ["a\\b", "C:x", "a?", "a*b", 'a"', "<a", "a>b", "a|b"],
    "ends in": ["a.", "a ", "a /b"],
    "begins with a space": [" a"],
    "device": [
        "NUL",
        "x/con.tar.gz",
        "Com1 .txt",
        "lpt³",
        "conout$",
        "prn",
        "aux.c",
        "conin$.x",
        "COM0",
    ],
    "unfinished write": [".gatewise-0123456789abcdef.tmp", "x/.gatewise-0123456789abcdef.tmp"],
    "255 bytes": ["é" * 128, "a" * 256],
    "1000 bytes": ["a/" * 500 + "b", "é/" * 334],
    "normal form C": ["e\u0301", "\u212b"],
    "symbolic link": ["link", "link/x", "up/x", "dangling", "loop", "loop/x", "self"],
    "not a string": [None, b"a", Path("a")],
}


@pytest.mark.parametrize(
    ("words", "name"), [(words, name) for words, names in BAD.items() for name in names], ids=ascii
)
def test_each_kind_of_hostile_name_is_refused_for_its_own_reason(folder, name, words):
    with pytest.raises(UnsafePathError, match=words) as caught:
        confine(folder, name)
    assert caught.value.allowed and caught.value.fix


def test_a_folder_reached_through_a_link_is_as_good_as_any(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "way").symlink_to("real")
    assert confine(tmp_path / "way", "a/b") == tmp_path / "way" / "a" / "b"
    assert confine(str(tmp_path / "not yet"), "a") == tmp_path / "not yet" / "a"
