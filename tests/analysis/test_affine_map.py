"""The affine map of a network at a point.

Against products of explicit matrices, and against the network itself.
"""

import copy

import pytest
import torch
from analysis.max_affine_networks import NAMES, networks
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.errors import ArgumentError

DOUBLE = torch.float64


def points(shape: tuple[int, ...], n: int = 3, seed: int = 1) -> Tensor:
    return torch.randn(n, *shape, dtype=DOUBLE, generator=torch.Generator().manual_seed(seed))


def matrix(layer: nn.Module, shape: torch.Size) -> Tensor:
    """A linear layer without its offset, as a dense matrix: what it makes of every unit vector."""
    basis = torch.eye(shape.numel(), dtype=DOUBLE).reshape(-1, *shape)
    return (layer(basis) - layer(torch.zeros(1, *shape, dtype=DOUBLE))).flatten(1).T


def chain_product(model: nn.Sequential, x: Tensor) -> tuple[Tensor, Tensor]:
    """``A`` and ``b`` of a chain at one input (1, *input), from matrices and recorded gates."""
    A, b = torch.eye(x.numel(), dtype=DOUBLE), torch.zeros(x.numel(), dtype=DOUBLE)
    with torch.no_grad():
        for layer in model:
            y = layer(x.clone())
            step = gate_matrix(layer, x, y)
            offset = torch.zeros(y.numel(), dtype=DOUBLE)
            if step is None:
                step = matrix(layer, x.shape[1:])
                offset = layer(torch.zeros_like(x)).flatten()
            A, b, x = step @ A, step @ b + offset, y
    return A, b


def gate_matrix(layer: nn.Module, x: Tensor, y: Tensor) -> Tensor | None:
    """For a unit or a max-pooling: which input goes into each output with which factor."""
    z = x.flatten()
    size = z.numel()
    if isinstance(layer, nn.MaxPool2d):
        _, where = F.max_pool2d(x, 2, return_indices=True)
        planes = torch.arange(x.shape[1]).reshape(1, -1, 1, 1) * x[0, 0].numel()
        return torch.eye(size, dtype=DOUBLE)[(where + planes).flatten()]
    if isinstance(layer, gw.nn.Maxout):
        groups = z.reshape(-1, layer.pieces)
        return torch.eye(size, dtype=DOUBLE)[
            groups.argmax(1) + torch.arange(len(groups)) * layer.pieces
        ]
    if isinstance(layer, gw.nn.CReLU):
        return torch.cat((torch.diag((z > 0).to(DOUBLE)), -torch.diag((z < 0).to(DOUBLE))))
    if isinstance(layer, nn.ReLU | nn.LeakyReLU | nn.PReLU | gw.nn.Abs | gw.nn.LeakyReLU):
        return torch.diag(y.flatten() / z)
    return None


@pytest.mark.slow
@pytest.mark.parametrize(
    "name", ["relu", "leaky", "abs", "prelu", "maxout", "crelu", "batch norm", "pools"]
)
def test_it_is_the_product_of_the_layers_with_their_gates(name: str):
    model, shape = networks()[name]
    x = points(shape)
    found = gw.analysis.affine_map(model, x)
    for sample in range(len(x)):
        A, b = chain_product(model, x[sample : sample + 1])
        torch.testing.assert_close(found.A[sample].flatten(1), A, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(found.b[sample], b, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("name", NAMES)
def test_it_is_the_network_at_the_point_and_in_a_ball_around_it(name: str):
    model, shape = networks()[name]
    x = points(shape)
    kept = copy.deepcopy(model.state_dict())
    found = gw.analysis.affine_map(model, x)
    near = x + 1e-7 * points(shape, seed=2)
    with torch.no_grad():
        torch.testing.assert_close(found(), model(x.clone()), rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(found(near), model(near.clone()), rtol=1e-12, atol=1e-12)
    assert all(torch.equal(value, kept[key]) for key, value in model.state_dict().items())


def test_a_residual_network_with_functional_units_in_place_is_its_product_by_hand():
    model, shape = networks()["residual"]
    x = points(shape, 1)
    found = gw.analysis.affine_map(model, x)
    with torch.no_grad():
        eye = torch.eye(x.numel(), dtype=DOUBLE)
        z1 = model.first(x)
        first = torch.diag((z1 > 0).to(DOUBLE).flatten()) @ matrix(model.first, x.shape[1:])
        h = z1.relu()
        z2 = model.norm(model.second(h))
        inner = nn.Sequential(model.second, model.norm)
        second = torch.diag((z2 > 0).to(DOUBLE).flatten()) @ matrix(inner, h.shape[1:]) @ first
        z3 = h - z2.relu()
        gate = (z3 > 0) & (z3.relu() - 0.1 > 0)
        third = torch.diag(gate.to(DOUBLE).flatten()) @ (first - second)
        mean = third.reshape(4, -1, x.numel()).mean(1)
        largest = h.flatten(2).argmax(-1)[0] + torch.arange(4) * 16
        A = model.head.weight @ torch.cat((mean, first[largest])) @ eye
    torch.testing.assert_close(found.A[0].flatten(1), A, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(
    ("unit", "gate"),
    [
        (nn.SiLU(), torch.sigmoid),
        (nn.SiLU(inplace=True), torch.sigmoid),
        (nn.GELU(), torch.special.ndtr),
        (gw.nn.Swish(), torch.sigmoid),
        (nn.Mish(), lambda z: F.softplus(z).tanh()),
        (gw.nn.Mish(), lambda z: F.softplus(z).tanh()),
        (nn.Tanh(), lambda z: z.tanh() / z),
    ],
    ids=lambda value: (
        repr(value) if isinstance(value, nn.Module) else "gate"
    ),  # a function's repr has its address
)
def test_a_soft_unit_is_the_weighted_mean_of_its_pieces_with_the_weights_held(
    unit: nn.Module, gate
):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 6), unit, nn.Linear(6, 2)).double()
    x = points((4,))
    found = gw.analysis.affine_map(model, x)
    with torch.no_grad():
        T = gate(model[0](x))  # (n, 6)
        A = torch.einsum("ok,nk,ki->noi", model[2].weight, T, model[0].weight)
        b = (T * model[0].bias) @ model[2].weight.T + model[2].bias
    torch.testing.assert_close(found.A, A, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(found.b, b, rtol=1e-12, atol=1e-12)


def test_softplus_is_its_gate_times_the_input_and_the_gates_entropy():
    model = nn.Sequential(nn.Linear(1, 1), nn.Softplus()).double()
    found = gw.analysis.affine_map(model, points((1,), 5))
    with torch.no_grad():
        T = torch.sigmoid(model[0](points((1,), 5)))
        entropy = torch.special.entr(T) + torch.special.entr(1 - T)
        torch.testing.assert_close(found.A[:, 0], T * model[0].weight, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(found.b, T * model[0].bias + entropy, rtol=1e-12, atol=1e-12)


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.mix = nn.Linear(4, 12)

    def forward(self, x: Tensor) -> Tensor:
        q, k, v = self.mix(x).chunk(3, -1)
        return ((q @ k.transpose(1, 2)).softmax(-1) @ v).flatten(1)


def test_attention_is_affine_with_its_softmax_held():
    torch.manual_seed(0)
    model, x = Attention().double(), points((3, 4))
    found = gw.analysis.affine_map(model, x)
    with torch.no_grad():
        q, k, _ = model.mix(x).chunk(3, -1)
        T = (q @ k.transpose(1, 2)).softmax(-1)
        want = torch.einsum("nts,oi->ntosi", T, model.mix.weight[8:]).flatten(1, 2)
        torch.testing.assert_close(found.A, want, rtol=1e-12, atol=1e-12)
        torch.testing.assert_close(found(), model(x), rtol=1e-12, atol=1e-12)


class Squared(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x * x


@pytest.mark.parametrize(("part", "named"), [(Squared(), "mul"), (nn.LayerNorm(3), "layer_norm")])
def test_what_no_held_gate_makes_affine_is_refused_by_name(part: nn.Module, named: str):
    with pytest.raises(ArgumentError, match=f"not affine.*{named}"):
        gw.analysis.affine_map(nn.Sequential(part, nn.Linear(3, 1)), torch.randn(2, 3))


def test_train_mode_is_refused_where_the_batch_or_chance_would_matter():
    model = nn.Sequential(nn.Linear(3, 3), nn.BatchNorm1d(3))
    with pytest.raises(ArgumentError, match=r"train mode.*1: BatchNorm1d.*model\.eval\(\)"):
        gw.analysis.affine_map(model, torch.randn(2, 3))


def test_memory_that_does_not_suffice_says_how_much_and_how_to_get_less():
    model = nn.Linear(1000, 50)
    with pytest.raises(ArgumentError, match=r"0\.01 GiB for 40 inputs.*at most 5 inputs"):
        gw.analysis.affine_map(model, torch.randn(40, 1000), memory=2_000_000)
    with pytest.raises(ArgumentError, match=r"outputs=range\(12\)"):
        gw.analysis.affine_map(model, torch.randn(40, 1000), memory=100_000)
    assert gw.analysis.affine_map(
        model, torch.randn(1, 1000), memory=100_000, outputs=range(12)
    ).A.shape == (1, 12, 1000)


@pytest.mark.parametrize(
    ("x", "words"),
    [
        (torch.tensor([[1.0, float("nan")]]), "holds NaN"),
        (torch.ones(2, 2, dtype=torch.int64), "batch of numbers"),
        (torch.ones(2), "batch of numbers"),
        (torch.ones(2, 7), "cannot be run"),
    ],
)
def test_a_bad_input_is_named(x: Tensor, words: str):
    with pytest.raises(ArgumentError, match=words):
        gw.analysis.affine_map(nn.Linear(2, 1), x)


def test_a_weight_that_is_not_finite_is_named():
    model = nn.Sequential(nn.Linear(2, 1))
    model[0].bias.data[0] = torch.inf
    with pytest.raises(ArgumentError, match=r"0\.bias"):
        gw.analysis.affine_map(model, torch.ones(1, 2))


def test_templates_are_the_rows_scaled_to_one_and_can_be_drawn():
    model, shape = networks()["pools"]
    found = gw.analysis.affine_map(model, points(shape))
    templates = found.templates()
    assert templates.shape == (3, 3, 1, 8, 8)
    torch.testing.assert_close(templates.flatten(2).abs().amax(-1), torch.ones(3, 3, dtype=DOUBLE))
    assert len(found.plot(1).axes) == 4
    with pytest.raises(ArgumentError, match="no such sample"):
        found.plot(3)
    assert found.to_dict()["outputs"] == [0, 1, 2]
