"""The channel dimension is the one whose channels a layer can permute without changing others."""

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.graph import broadcast_dim, find_sites, group_of, order_of
from gatewise.graph.shapes import align

IMAGE = (2, 6, 8, 8)
ROWS = (2, 5, 6)

CASES = {
    "batch norm": (lambda: nn.BatchNorm2d(6), IMAGE, lambda y: y.relu()),
    "group norm": (lambda: nn.Conv2d(6, 6, 1), IMAGE, lambda y: F.group_norm(y, 6).relu()),
    "layer norm": (lambda: nn.Linear(6, 6), ROWS, lambda y: F.gelu(y)),
    "1d": (lambda: nn.Conv1d(6, 6, 3), (2, 6, 9), lambda y: y.relu()),
    "3d": (lambda: nn.Conv3d(6, 6, 1), (2, 6, 2, 2, 2), lambda y: y.relu()),
    "transposed": (lambda: nn.ConvTranspose2d(6, 6, 2), IMAGE, lambda y: y.relu()),
    "permuted": (lambda: nn.Conv2d(6, 6, 1), IMAGE, lambda y: y.permute(0, 2, 3, 1).relu()),
    "moved": (lambda: nn.Conv2d(6, 6, 1), IMAGE, lambda y: y.movedim(1, -1).relu()),
    "moved in front": (
        lambda: nn.Conv2d(6, 6, 1),
        IMAGE,
        lambda y: y.movedim((2, 3), (0, 1)).relu(),
    ),
    "swapped": (lambda: nn.Conv2d(6, 6, 1), IMAGE, lambda y: y.swapaxes(1, 3).relu()),
    "transposed rows": (lambda: nn.Linear(6, 6), ROWS, lambda y: y.transpose(1, 2).relu()),
    "mT": (lambda: nn.Linear(6, 6), ROWS, lambda y: y.mT.relu()),
    "flattened pixels": (lambda: nn.Conv2d(6, 6, 1), IMAGE, lambda y: y.flatten(2).relu()),
    "reduced": (lambda: nn.Conv2d(6, 6, 1), IMAGE, lambda y: y.mean((2, 3)).relu()),
    "reduced first": (lambda: nn.Conv2d(6, 6, 1), IMAGE, lambda y: y.mean(0).relu()),
    "selected": (lambda: nn.Conv2d(6, 6, 1), IMAGE, lambda y: y.select(0, 0).relu()),
    "sliced": (lambda: nn.Conv2d(6, 6, 1), IMAGE, lambda y: y[..., 2:].relu()),
    "unsqueezed": (lambda: nn.Conv2d(6, 6, 1), IMAGE, lambda y: y.unsqueeze(1).relu()),
    "pooled": (lambda: nn.Conv2d(6, 6, 1), IMAGE, lambda y: F.avg_pool2d(y, 2).relu()),
    "padded": (lambda: nn.Conv2d(6, 6, 1), IMAGE, lambda y: F.pad(y, (1, 1)).relu()),
    "unbatched": (lambda: nn.Conv2d(6, 6, 1), (6, 4, 4), lambda y: y.relu()),
    "added": (lambda: nn.Linear(6, 6), (6,), lambda y: (y + torch.zeros(3, 4, 1)).relu()),
    "expanded": (lambda: nn.Linear(6, 6), (1, 6), lambda y: y.expand(3, 4, 6).relu()),
}


class Case(nn.Module):
    def __init__(self, layer: nn.Module, rest):
        super().__init__()
        self.layer, self.rest = layer, rest

    def forward(self, x: Tensor) -> Tensor:
        return self.rest(self.layer(x))


def permuted(layer: nn.Module, order: Tensor) -> None:
    """Let the layer compute its output channels in another order."""
    for name, parameter in layer.named_parameters():
        dim = 1 if isinstance(layer, nn.ConvTranspose2d) and name == "weight" else 0
        parameter.data = parameter.data.index_select(dim, order)


@pytest.mark.parametrize("name", CASES)
def test_permuted_filters_permute_the_channel_dimension(name: str):
    make, shape, rest = CASES[name]
    torch.manual_seed(0)
    model, x = Case(make(), rest).eval(), torch.randn(shape)
    if isinstance(model.layer, nn.BatchNorm2d):
        model.layer.weight.data = torch.rand(6) + 0.5
        x = x[:, :1].expand(-1, 6, -1, -1).contiguous()  # the norm has no filters to permute
    (site,) = find_sites(model, x, modes=("eval",))
    order = torch.randperm(6)
    before = model(x)
    permuted(model.layer, order)
    assert site.channels == 6
    assert torch.allclose(model(x), before.index_select(site.dim, order), atol=1e-6)


def test_a_tensor_before_the_first_layer_has_the_channels_the_layer_reads():
    class Before(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.conv(torch.tanh(x))

    (site,) = find_sites(Before(), torch.randn(2, 3, 5, 5))
    assert (site.dim, site.channels) == (1, 3)


def test_channels_that_are_merged_with_pixels_are_not_told():
    model = nn.Sequential(nn.Conv2d(3, 4, 1), nn.Flatten(), nn.ReLU())
    (site,) = find_sites(model, torch.randn(2, 3, 5, 5))
    assert site.dim == 1 and site.channels == 100  # one dimension holds all of them

    class Mixed(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv = nn.Conv2d(3, 4, 1)

        def forward(self, x: Tensor) -> Tensor:
            return self.conv(x).reshape(2, 10, 10).relu()

    (site,) = find_sites(Mixed(), torch.randn(2, 3, 5, 5))
    assert site.dim is None and site.channels is None


@pytest.mark.parametrize(
    ("before", "after", "groups"),
    [
        ((2, 8, 4, 4), (2, 128), [((0,), (0,)), ((1, 2, 3), (1,))]),
        ((2, 8, 3), (2, 4, 2, 3), [((0,), (0,)), ((1,), (1, 2)), ((2,), (3,))]),
        ((6, 1, 4), (6, 4), [((0,), (0,)), ((2,), (1,))]),
        ((4, 6), (6, 4), [((0, 1), (0, 1))]),
        ((), (1,), []),
    ],
)
def test_align_examples(before, after, groups):
    assert align(before, after) == groups


@pytest.mark.parametrize("seed", range(20))
def test_groups_hold_the_same_elements(seed: int):
    """An index that is constant along a group's dimensions before is so after the reshape."""
    generator = torch.Generator().manual_seed(seed)
    factors = [[2, 3, 2, 1], [4, 3, 1], [12], [3, 2, 2], [2, 2, 3]]
    sizes = [factors[i] for i in torch.randint(5, (2,), generator=generator).tolist()]
    before = (*sizes[0], 5)
    after = (*sizes[1], 5)
    groups = align(before, after)
    covered_before = [dim for ours, _ in groups for dim in ours]
    assert covered_before == [dim for dim, size in enumerate(before) if size != 1]
    for ours, theirs in groups:
        number = torch.zeros(before, dtype=torch.long)  # of the element within the group
        for dim in ours:
            shape = [1] * len(before)
            shape[dim] = before[dim]
            number = number * before[dim] + torch.arange(before[dim]).reshape(shape)
        reshaped = number.reshape(after)
        for dim in range(len(after)):
            if dim not in theirs:
                assert bool((reshaped == reshaped.select(dim, 0).unsqueeze(dim)).all())
        assert group_of(ours[0], before, after) == (ours, theirs)


MOVES = {
    "permute": lambda x: x.permute(2, 0, 3, 1),
    "negative": lambda x: x.permute(-1, 0, -2, 1),
    "transpose": lambda x: x.transpose(-1, 1),
    "swapaxes": lambda x: x.swapaxes(0, -1),
    "movedim": lambda x: x.movedim((0, 1), (-1, 0)),
    "movedim back": lambda x: x.movedim(3, 1),
    "mT": lambda x: x.mT,
    "unsqueeze": lambda x: x.unsqueeze(-2),
    "squeeze": lambda x: x.unsqueeze(0).squeeze(0),
    "squeeze all": lambda x: x[:, :1].squeeze(),
    "not one": lambda x: x.squeeze(1),
    "t": lambda x: x[0, 0].t(),
}


@pytest.mark.parametrize("name", MOVES)
def test_the_order_of_moved_dimensions_is_torchs(name: str):
    class Move(nn.Module):
        def forward(self, x: Tensor) -> Tensor:
            return MOVES[name](x)

    x = torch.randn(2, 3, 4, 5)
    graph = find_sites_graph(Move(), x)
    moved = [node for node in graph if order_of(node) is not None]
    assert moved
    for node in moved:
        source = torch.empty(node.inputs[0].shape)
        order = order_of(node)
        shape = tuple(1 if dim == -1 else source.shape[dim] for dim in order)
        assert shape == node.shape
        strides = [source.stride(dim) for dim in order if dim != -1]
        value = node.overload(**{**node.arguments, "self": source})
        kept = [stride for stride, dim in zip(value.stride(), order, strict=True) if dim != -1]
        assert kept == strides


def find_sites_graph(model: nn.Module, x: Tensor):
    return find_sites(model, x, modes=("eval",)).readings["eval"].graph


@pytest.mark.parametrize(
    ("shape", "other"), [((2, 3, 4), (3, 1)), ((2, 3, 4), (4,)), ((2, 3), (5, 2, 3)), ((2,), ())]
)
def test_broadcast_dim_is_where_torch_puts_it(shape, other):
    whole = torch.broadcast_shapes(shape, other)
    for dim in range(len(whole)):
        place = broadcast_dim(dim, len(whole), other)
        grown = None if place is None else other[place]
        padded = (1,) * (len(whole) - len(other)) + tuple(other)
        assert (grown is None) == (padded[dim] == 1)
        if grown is not None:
            assert grown == whole[dim]


class Packed(nn.Module):
    """One layer makes a gate and a value, which are split."""

    def __init__(self, split):
        super().__init__()
        self.layer = nn.Linear(4, 12)
        self.split = split

    def forward(self, x: Tensor) -> Tensor:
        gate, value = self.split(self.layer(x))
        return torch.relu(gate) * value


@pytest.mark.parametrize(
    ("split", "dim", "channels"),
    [
        (lambda h: h.chunk(2, dim=-1), 2, 6),
        (lambda h: h.split([6, 6], dim=-1), 2, 6),
        (lambda h: h.chunk(2, dim=1), 2, 12),
        (lambda h: h.unbind(1), 1, 12),
        (lambda h: h.unflatten(-1, (2, 6)).unbind(-2), None, None),
    ],
)
def test_the_channels_of_the_parts_of_a_split(split, dim: int | None, channels: int | None):
    (site,) = find_sites(Packed(split), torch.randn(3, 2, 4))
    assert (site.dim, site.channels) == (dim, channels)
