"""The message of an error on the command line: what is wrong, then the fix."""

from gatewise.errors import ArgumentError


def test_the_fix_stands_behind_what_is_wrong():
    error = ArgumentError("seed: not a number", got="x; fix: y", allowed="0 to 9", fix="seed=3")
    assert str(error) == "seed: not a number; got: x; fix: y; allowed: 0 to 9; fix: seed=3"
    assert error.fix_first() == "seed: not a number; fix: seed=3; got: x; fix: y; allowed: 0 to 9"
    assert ArgumentError("seed: none", got=3).fix_first() == "seed: none; got: 3"
