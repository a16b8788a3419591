"""Models that move rows, mix samples in a few rows only, or draw random numbers."""

import random

import pytest
import torch
from tangent_kernels import error, explicit_ntk
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence

import gatewise as gw
from gatewise.analysis.tangent_kernel import choose_parameters, ntk_routes, plan_kernel, prepared
from gatewise.errors import ArgumentError

EXACT = 1e-12


class Moves(nn.Module):
    """Moves rows before a layer, and back after it."""

    def __init__(self, order):
        super().__init__()
        self.a, self.b, self.order = nn.Linear(4, 4), nn.Linear(4, 1), order

    def forward(self, x: Tensor) -> Tensor:
        order = self.order(x)
        return self.b(self.a(x[order]).tanh()[order.argsort()])


class AsMatrix(Moves):
    """The same, back by a product with a matrix."""

    def forward(self, x: Tensor) -> Tensor:
        order = self.order(x)
        return self.b(F.one_hot(order.argsort()).to(x) @ self.a(x[order]).tanh())


class AsSum(Moves):
    """The same, back by a sum over everything times zero or one."""

    def forward(self, x: Tensor) -> Tensor:
        order = self.order(x)
        there = F.one_hot(order.argsort()).to(x)[:, :, None]
        return self.b((there * self.a(x[order]).tanh()).sum(1))


class AsPool(Moves):
    """The layer after that; moved, and back, by the largest of everything times zero or one."""

    def __init__(self, order):
        super().__init__(order)
        self.c = nn.Linear(4, 4)

    def forward(self, x: Tensor) -> Tensor:
        order = self.order(x)
        moved = self._moved(self.a(x), order)
        return self.b(self._moved(self.c(moved), order.argsort()))

    @staticmethod
    def _moved(rows: Tensor, order: Tensor) -> Tensor:
        there = F.one_hot(order).to(rows)[:, None, :, None]
        return F.max_pool2d(there * rows.sigmoid(), (len(rows), 1)).view(rows.shape)


class AsViews(Moves):
    """Every second row first, and back, by views."""

    def forward(self, x: Tensor) -> Tensor:
        if len(x) % 2:
            return self.b(self.a(x).tanh())
        apart = x.view(-1, 2, 4).transpose(0, 1).reshape(-1, 4)
        return self.b(self.a(apart).tanh().view(2, -1, 4).transpose(0, 1).reshape(-1, 4))


def pairs_but_the_last(x: Tensor) -> Tensor:
    """1 0 3 2 4 5 for six samples: only some rows move, and none in a batch of one."""
    order = torch.arange(len(x))
    if len(x) > 3:
        order[:4] = torch.tensor([1, 0, 3, 2])
    return order


def rotated(x: Tensor) -> Tensor:
    return torch.arange(len(x)).roll(1)


def by_first_number(x: Tensor) -> Tensor:
    return x[:, 0].argsort()


def two_swapped() -> Tensor:
    """In order by their first number, but for two neighbours."""
    x = torch.randn(9, 4).double()
    x[:, 0] = torch.tensor([1.0, 0.0, *range(2, 9)])
    return x


@pytest.mark.parametrize("order", [pairs_but_the_last, rotated, by_first_number])
@pytest.mark.parametrize("kind", [Moves, AsMatrix, AsSum, AsPool, AsViews])
@pytest.mark.parametrize("samples", [2, 4, 9])
def test_rows_that_move_and_come_back_are_noticed(order, kind, samples: int):
    model, x = kind(order).double(), two_swapped()[:samples]
    want = explicit_ntk(model, x)
    assert error(gw.analysis.ntk(model, x), want) < EXACT
    assert error(gw.analysis.ntk(model, x[:2], x), want[:2]) < EXACT


def test_two_swapped_rows_are_noticed_in_small_blocks_too():
    model, x = Moves(by_first_number).double(), two_swapped()
    assert error(gw.analysis.ntk(model, x, memory=8000), explicit_ntk(model, x)) < EXACT


class Sorted(nn.Module):
    """A recurrent network that wants the longest sequence first."""

    def __init__(self):
        super().__init__()
        self.enter, self.cell, self.out = (
            nn.Linear(3, 3),
            nn.GRU(3, 4, batch_first=True),
            nn.Linear(4, 1),
        )

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        order = lengths.argsort(descending=True, stable=True)
        packed = pack_padded_sequence(self.enter(x[order]).tanh(), lengths[order], batch_first=True)
        return self.out(self.cell(packed)[1][0])[order.argsort()]


@pytest.mark.parametrize(
    "lengths", [[4, 5, 4, 4, 4, 4], [3, 5, 2, 2, 1, 1], [5, 4, 3, 2, 1, 1], [2, 2, 2, 2, 2, 2]]
)
def test_sequences_sorted_by_length_keep_their_places(lengths: list[int]):
    model, x = Sorted().double(), (torch.randn(6, 5, 3).double(), torch.tensor(lengths))
    assert error(gw.analysis.ntk(model, x), explicit_ntk(model, x)) < EXACT


def test_equal_rows_whose_order_matters_later_are_noticed():
    class Constant(nn.Module):
        """What enters the layer is the same for all samples; what leaves it is turned round."""

        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            return self.a(torch.ones_like(x)).flip(0) * x[:, :2]

    model, x = Constant().double(), torch.randn(5, 4).double()
    assert error(gw.analysis.ntk(model, x), explicit_ntk(model, x)) < EXACT


def rows_stay(model: nn.Module, x: Tensor) -> bool:
    chosen = choose_parameters(model, None)
    with prepared(model, chosen, x.device) as subject:
        return plan_kernel(subject, (x[:1],), method="auto", unfit={}).rows_stay


def test_common_networks_show_in_their_graph_that_rows_stay():
    dense = nn.Sequential(nn.Linear(4, 4), nn.ReLU(), nn.LayerNorm(4), nn.Linear(4, 2))
    image = nn.Sequential(
        nn.Conv2d(3, 2, 3), nn.BatchNorm2d(2), nn.ReLU(True), nn.MaxPool2d(2), nn.Flatten()
    )
    assert rows_stay(dense, torch.randn(3, 4))
    assert rows_stay(nn.Sequential(image, nn.Linear(18, 1)).eval(), torch.randn(2, 3, 8, 8))
    assert rows_stay(
        gw.models.create_model("resnet_cifar", depth=8, classes=2).eval(), torch.randn(2, 3, 8, 8)
    )
    assert not rows_stay(Moves(by_first_number), torch.randn(3, 4))
    assert not rows_stay(Divided(own=True), torch.randn(3, 4))


class Divided(nn.Module):
    """The largest number of the batch, divides all: its own sample sees no difference."""

    def __init__(self, own: bool):
        super().__init__()
        self.a, self.b, self.own = nn.Linear(4, 4), nn.Linear(4, 1), own

    def forward(self, x: Tensor) -> Tensor:
        if self.own:
            return self.b(self.a(x / x.abs().amax()).tanh())
        hidden = self.a(x)
        return self.b((hidden / hidden.abs().amax()).tanh())


@pytest.mark.parametrize("largest", range(6))
@pytest.mark.parametrize("method", ["auto", "jacobian"])
@pytest.mark.parametrize("own", [True, False], ids=["input", "hidden"])
def test_mixing_that_leaves_one_sample_alone_is_refused(largest: int, method: str, own: bool):
    model, x = Divided(own).double(), torch.randn(6, 4).double()
    x[largest] *= 10
    with pytest.raises(ArgumentError, match="mixes samples"):
        gw.analysis.ntk(model, x, method=method)


class Draws(nn.Module):
    def __init__(self, draw):
        super().__init__()
        self.a, self.b, self.draw = nn.Linear(4, 4), nn.Linear(4, 1), draw

    def forward(self, x: Tensor) -> Tensor:
        return self.b(self.draw(self.a(x).tanh()))


DRAWN = {
    "gates": lambda h: h * (torch.rand(len(h), 1) < 0.99),
    "dropout": lambda h: F.dropout(h, 0.01),
    "python": lambda h: h * (random.random() < 2),  # noqa: S311 (what models do)
    "in batches only": lambda h: h if len(h) == 1 else h * (torch.rand(len(h), 1) < 2),
}


@pytest.mark.parametrize("name", DRAWN)
@pytest.mark.parametrize("method", ["auto", "jacobian"])
def test_a_model_that_draws_is_refused_whatever_it_drew_and_the_streams_are_put_back(
    name: str, method: str
):
    model, x = Draws(DRAWN[name]).eval(), torch.randn(6, 4)
    before = torch.get_rng_state(), random.getstate()
    with pytest.raises(ArgumentError, match=r"draws at random.*fix: model\.eval\(\)"):
        gw.analysis.ntk(model, x, method=method)
    assert torch.equal(torch.get_rng_state(), before[0])
    assert random.getstate() == before[1]


def test_an_input_changed_behind_autograds_back_is_kept():
    class Behind(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(4, 2)

        def forward(self, x: Tensor) -> Tensor:
            x.data.mul_(0.5)
            return self.a(x).tanh()

    model, x = Behind().double(), torch.randn(5, 4).double()
    before = x.clone()
    assert set(ntk_routes(model, x).values()) == {"layerwise"}
    assert error(gw.analysis.ntk(model, x), explicit_ntk(model, x)) < EXACT
    assert torch.equal(x, before)
