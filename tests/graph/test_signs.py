"""Which tensors are known to be never negative.

Checked against what the network makes of random inputs.
"""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.graph import find_sites, is_never_negative

NEVER = {
    "a rectifier": lambda x: x.relu(),
    "pooled": lambda x: F.avg_pool2d(F.max_pool2d(x.relu(), 2), 2),
    "joined": lambda x: torch.cat((x.relu(), x.sigmoid()), 1)[:, 1:],
    "added": lambda x: x.relu() + 2 * x.exp() + 0.5,
    "multiplied": lambda x: (x.relu() * x.abs()).mean((2, 3)) / 3,
    "split": lambda x: x.relu().chunk(2, 1)[1].flatten(1),
}
MAYBE = {
    "the input": lambda x: x + 0,
    "less something": lambda x: x.relu() - 0.1,
    "times a negative number": lambda x: x.relu() * -1,
    "less, as a sum": lambda x: torch.add(x.relu(), x.relu(), alpha=-2),
    "added to anything": lambda x: x.relu() + x,
    "joined to anything": lambda x: torch.cat((x.relu(), x), 1),
    "from whole numbers": lambda x: x.sigmoid() * (x * 4).long().to(torch.float32),
    "a rectifier that leaks": lambda x: F.leaky_relu(x),
}


class Function(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x)


@pytest.mark.parametrize("name", [*NEVER, *MAYBE])
def test_what_is_said_to_be_never_negative_is_not(name: str):
    model, x = Function((NEVER | MAYBE)[name]), torch.randn(2, 4, 8, 8)
    graph = find_sites(model, x).readings["eval"].graph
    last = graph.nodes[-1].inputs[0]
    assert is_never_negative(last) == (name in NEVER)
    assert bool((model(x) >= 0).all()) == (name in NEVER)


def test_numbers():
    assert (
        is_never_negative(0)
        and is_never_negative(0.5)
        and not is_never_negative(-1)
        and not is_never_negative(None)
    )
