"""A small language model that is trained here in seconds, and blocks with gates."""

from functools import cache

import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw

PERIOD = 7


def rows(count: int, seed: int) -> tuple[Tensor, Tensor]:
    """Rows of a text of 16 letters with a rule, (count, 24), and the next letter everywhere.

    A letter is the sum of the last letter and of the one seven places before, modulo 16.
    """
    generator = torch.Generator().manual_seed(seed)
    letters = torch.randint(0, 16, (count, PERIOD), generator=generator)
    columns = list(letters.unbind(1))
    while len(columns) < 25:
        columns.append((columns[-1] + columns[-PERIOD]) % 16)
    text = torch.stack(columns, 1)
    return text[:, :-1], text[:, 1:]


@cache
def trained(unit: str = "swiglu") -> nn.Module:
    """A decoder after 150 steps: it has learned part of the rule."""
    with torch.random.fork_rng():
        torch.manual_seed(0)
        model = gw.models.create_model(
            "small_llama", unit=unit, width=32, depth=2, heads=2, classes=16, length=24
        )
        optimizer = torch.optim.AdamW(model.parameters(), 5e-3)
        for step in range(150):
            inputs, labels = rows(32, step + 1)
            loss = F.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    return model.eval()


def batches() -> list[tuple[Tensor, Tensor]]:
    """Four batches that the model was not trained on."""
    return [rows(16, 1000 + number) for number in range(4)]


class Gated(nn.Module):
    """A gated linear unit between two layers, as in Llama."""

    def __init__(self, width: int = 16, hidden: int = 40) -> None:
        super().__init__()
        self.gate = nn.Linear(width, hidden, bias=False)
        self.up = nn.Linear(width, hidden, bias=False)
        self.down = nn.Linear(hidden, width, bias=False)
        self.act = nn.SiLU()

    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(self.act(self.gate(x)) * self.up(x))


class FunctionalGated(Gated):
    def forward(self, x: Tensor) -> Tensor:
        return x + self.down(F.silu(self.gate(x)) * self.up(x))
