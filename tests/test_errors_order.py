"""The message of an error on the command line: what is wrong, then the fix."""

import pytest
import torch
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError, UnknownNameError


def test_the_fix_stands_behind_what_is_wrong():
    error = ArgumentError("seed: not a number", got="x; fix: y", allowed="0 to 9", fix="seed=3")
    assert str(error) == "seed: not a number; got: x; fix: y; allowed: 0 to 9; fix: seed=3"
    assert error.fix_first() == "seed: not a number; fix: seed=3; got: x; fix: y; allowed: 0 to 9"
    assert ArgumentError("seed: none", got=3).fix_first() == "seed: none; got: 3"


def test_the_nearest_name_stands_before_a_list_of_names():
    with pytest.raises(UnknownNameError) as refused:
        gw.swap(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), "gelo", torch.zeros(1, 2))
    said = str(refused.value)
    assert said.index("did you mean 'gelu'?") < said.index("allowed: abs")
    assert refused.value.fix_first().startswith(f"{refused.value.what}; fix: did you mean 'gelu'?")
