"""The tangent kernel equals the product of explicit Jacobians, for networks of every kind."""

import pytest
import torch
from gatewise_papers import deep_gated
from tangent_kernels import error, explicit_ntk
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw

EXACT = 1e-12  # float64: a few thousand roundings of 1e-16 each

# torch says, once, that it makes a copy for uneven padding
pytestmark = pytest.mark.filterwarnings(
    "ignore:Using padding='same' with even kernel lengths:UserWarning"
)


class Residual(nn.Module):
    """Blocks whose rectifiers work in place."""

    def __init__(self):
        super().__init__()
        self.into, self.out = nn.Linear(5, 6), nn.Linear(6, 2)
        self.blocks = nn.ModuleList(
            nn.Sequential(nn.Linear(6, 6), nn.ReLU(inplace=True)) for _ in range(3)
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.into(x)
        for block in self.blocks:
            x = F.leaky_relu_(x + block(x))
        return self.out(x)


class Attention(nn.Module):
    def __init__(self):
        super().__init__()
        self.block = nn.TransformerEncoderLayer(
            8, 2, 12, dropout=0.0, batch_first=True, norm_first=False
        )
        self.out = nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.block(x).mean(1))


class Recurrent(nn.Module):
    def __init__(self):
        super().__init__()
        self.cells, self.out = nn.LSTM(3, 4, batch_first=True), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.cells(x)[0][:, -1])


class Words(nn.Module):
    def __init__(self, **options):
        super().__init__()
        self.table, self.out = nn.Embedding(7, 4, **options), nn.Linear(4, 2)

    def forward(self, words: Tensor) -> Tensor:
        return self.out(self.table(words).tanh().sum(1))


class TimeFirst(nn.Module):
    """Its layers see time along the first dimension, with as many steps as there are samples."""

    def __init__(self):
        super().__init__()
        self.into, self.norm, self.out = nn.Linear(3, 4), nn.LayerNorm(4), nn.Linear(4, 1)

    def forward(self, x: Tensor) -> Tensor:
        return self.out(self.norm(self.into(x.transpose(0, 1)).tanh()).sum(0))


def mlp(outputs: int = 1, activation=nn.ReLU) -> nn.Module:
    return nn.Sequential(
        nn.Linear(5, 8),
        activation(),
        nn.Linear(8, 7, bias=False),
        activation(),
        nn.Linear(7, outputs),
    )


def head(*layers: nn.Module, outputs: int = 2) -> nn.Module:
    return nn.Sequential(*layers, nn.Flatten(), nn.LazyLinear(outputs))


def convolutions(**options) -> nn.Module:
    return head(
        nn.Conv2d(4, 8, 3, **options),
        nn.ReLU(inplace=True),
        nn.Conv2d(8, 6, (2, 3), bias=False),
        nn.Tanh(),
    )


def normed() -> nn.Module:
    model = head(
        nn.Conv2d(4, 6, 3),
        nn.BatchNorm2d(6),
        nn.ReLU(),
        nn.Conv2d(6, 4, 1),
        nn.GroupNorm(2, 4),
        nn.GELU(),
    )
    model(torch.randn(16, 4, 8, 9))  # running statistics that are not those of a new layer
    with torch.no_grad():
        for parameter in model.parameters():
            parameter += 0.1 * torch.randn_like(parameter)
    return model.eval()


def other_norms() -> nn.Module:
    return head(
        nn.Conv1d(3, 4, 3),
        nn.InstanceNorm1d(4, affine=True),
        nn.Tanh(),
        nn.LayerNorm((4, 7)),
        nn.RMSNorm(7),
    )


IMAGES, ROW, VOLUME = (4, 8, 9), (3, 9), (2, 4, 5, 6)
NETWORKS = {
    "mlp": (mlp, (5,)),
    "mlp, three outputs": (lambda: mlp(3), (5,)),
    "mlp, in place": (lambda: mlp(2, lambda: nn.ELU(inplace=True)), (5,)),
    "a layer alone": (lambda: nn.Linear(5, 3), (5,)),
    "layers on positions": (lambda: head(nn.Linear(9, 3), nn.Tanh(), nn.Linear(3, 2)), ROW),
    "wide layer on few positions": (lambda: head(nn.Linear(90, 80), nn.Tanh(), outputs=1), (2, 90)),
    "residual": (Residual, (5,)),
    "convolution": (convolutions, IMAGES),
    "strided": (lambda: convolutions(stride=(2, 1), padding=1), IMAGES),
    "dilated": (lambda: convolutions(dilation=(1, 2), padding=(0, 2)), IMAGES),
    "same padding": (lambda: head(nn.Conv2d(4, 3, (2, 4), padding="same"), nn.Tanh()), IMAGES),
    "grouped": (lambda: convolutions(groups=2), IMAGES),
    "depthwise": (lambda: convolutions(groups=4, padding=1), IMAGES),
    "circular": (lambda: convolutions(padding=2, padding_mode="circular"), IMAGES),
    "reflected": (lambda: convolutions(padding=(1, 2), padding_mode="reflect", stride=2), IMAGES),
    "replicated": (lambda: convolutions(padding=1, padding_mode="replicate"), IMAGES),
    "one position": (lambda: head(nn.Conv2d(4, 5, (8, 9)), nn.Tanh()), IMAGES),
    "grouped, one position": (
        lambda: head(nn.Conv2d(4, 6, (8, 9), groups=2), nn.Tanh(), outputs=1),
        IMAGES,
    ),
    "pooled": (lambda: nn.Sequential(convolutions(), nn.Linear(2, 1)), IMAGES),
    "1d": (
        lambda: head(nn.Conv1d(3, 4, 3, stride=2, padding=1), nn.Softplus(), nn.MaxPool1d(2)),
        ROW,
    ),
    "3d": (
        lambda: head(
            nn.Conv3d(2, 3, (2, 3, 2), stride=(1, 2, 1), padding=1, dilation=(2, 1, 1)), nn.ReLU()
        ),
        VOLUME,
    ),
    "batch norm": (normed, IMAGES),
    "other norms": (other_norms, ROW),
    "transformer": (Attention, (3, 8)),
    "lstm": (Recurrent, (4, 3)),
    "time first": (TimeFirst, (6, 3)),
    "units of our own": (
        lambda: nn.Sequential(nn.Linear(5, 4), gw.nn.PReLU(channels=4), nn.Linear(4, 1)),
        (5,),
    ),
    "layers of our own": (
        lambda: head(gw.nn.PSConv2d(4, 3, 3), nn.Tanh(), gw.nn.PSConv2d(3, 2, 2)),
        IMAGES,
    ),
    "gates": (
        lambda: nn.Sequential(deep_gated.GatedLinear(5, 4, gate="silu"), nn.Linear(4, 2)),
        (5,),
    ),
}
SAMPLES = 6


def built(name: str, dtype: torch.dtype = torch.float64) -> tuple[nn.Module, Tensor]:
    make, shape = NETWORKS[name]
    model, x = make(), torch.randn(SAMPLES, *shape)
    model(x)  # lazy layers
    return model.to(dtype), x.to(dtype)


@pytest.mark.parametrize("name", NETWORKS)
def test_kernel_is_the_product_of_explicit_jacobians(name: str):
    model, x = built(name)
    assert error(gw.analysis.ntk(model, x), explicit_ntk(model, x)) < EXACT


@pytest.mark.parametrize("name", NETWORKS)
def test_cross_block_is_the_product_of_two_jacobians(name: str):
    model, x = built(name)
    assert error(gw.analysis.ntk(model, x[:2], x[2:]), explicit_ntk(model, x[:2], x[2:])) < EXACT


@pytest.mark.parametrize("name", NETWORKS)
def test_both_routes_agree(name: str):
    model, x = built(name)
    assert error(gw.analysis.ntk(model, x, method="jacobian"), gw.analysis.ntk(model, x)) < EXACT


@pytest.mark.parametrize("name", NETWORKS)
def test_float32_is_within_a_millionth_of_the_largest_entry(name: str):
    model, x = built(name, torch.float32)
    kernel = gw.analysis.ntk(model, x)
    assert kernel.dtype == torch.float32
    assert error(kernel, explicit_ntk(model.double(), x.double())) < 1e-6


@pytest.mark.parametrize("name", NETWORKS)
def test_kernel_of_a_set_with_itself_is_symmetric_to_the_bit(name: str):
    model, x = built(name, torch.float32)
    kernel = gw.analysis.ntk(model, x)
    assert torch.equal(kernel, kernel.permute(1, 0, 3, 2) if kernel.dim() == 4 else kernel.mT)
    assert kernel.is_contiguous() and not kernel.requires_grad


@pytest.mark.parametrize("options", [{}, {"padding_idx": 2}, {"sparse": True}])
def test_embedding_rows_count_where_they_are_looked_up(options: dict):
    model, words = Words(**options).double(), torch.randint(0, 7, (5, 4))
    want = explicit_ntk(model, words)
    assert error(gw.analysis.ntk(model, words), want) < EXACT
    assert error(gw.analysis.ntk(model, words, method="jacobian"), want) < EXACT


def test_several_inputs_are_given_as_a_tuple():
    model = nn.Bilinear(3, 4, 2).double()
    x = (torch.randn(5, 3).double(), torch.randn(5, 4).double())
    assert error(gw.analysis.ntk(model, x), explicit_ntk(model, x)) < EXACT
    x2 = tuple(each[:2] + 1 for each in x)
    assert error(gw.analysis.ntk(model, x, x2), explicit_ntk(model, x, x2)) < EXACT


def test_an_output_without_channels_is_one_output():
    model = nn.Sequential(nn.Linear(5, 1), nn.Flatten(0)).double()
    x = torch.randn(4, 5).double()
    assert error(gw.analysis.ntk(model, x), x @ x.mT + 1) < EXACT


def test_outputs_of_any_shape_are_counted_in_order():
    model = nn.Sequential(nn.Linear(5, 6), nn.Unflatten(1, (2, 3))).double()
    x = torch.randn(4, 5).double()
    want = (x @ x.mT + 1)[:, :, None, None] * torch.eye(6).double()
    assert error(gw.analysis.ntk(model, x), want) < EXACT


def test_an_output_that_does_not_reach_every_layer():
    class TwoHeads(nn.Module):
        def __init__(self):
            super().__init__()
            self.trunk, self.a, self.b, self.unused = (nn.Linear(4, 4) for _ in range(4))

        def forward(self, x: Tensor) -> Tensor:
            x = self.trunk(x).tanh()
            self.unused(x)
            return torch.stack(
                (self.a(x).sum(1), self.b(x).tanh().sum(1), x[:, 0], torch.ones(len(x)).double()), 1
            )

    model, x = TwoHeads().double(), torch.randn(5, 4).double()
    assert error(gw.analysis.ntk(model, x), explicit_ntk(model, x)) < EXACT


class TwoNetworks(nn.Module):
    """A gated network: one network's responses gate another's."""

    def __init__(self):
        super().__init__()
        self.strength = nn.ModuleList(
            [nn.Linear(4, 5, bias=False), nn.Linear(5, 5, bias=False), nn.Linear(5, 1)]
        )
        self.gates = nn.ModuleList([nn.Linear(4, 5, bias=False), nn.Linear(5, 5, bias=False)])

    def forward(self, x: Tensor) -> Tensor:
        z, q = x, x
        for strength, gates in zip(self.strength, self.gates, strict=False):
            q = gates(q)
            gate = torch.sigmoid(4 * q)
            z, q = strength(z) * gate, q * gate
        return self.strength[-1](z)


def test_kernel_of_a_gated_network_is_that_of_its_weights_plus_that_of_its_gates():
    model, x = TwoNetworks().double(), torch.randn(6, 4).double()
    weights = gw.analysis.ntk(model, x, parameters="strength.*")
    gates = gw.analysis.ntk(model, x, parameters=model.gates.parameters())
    assert error(weights, explicit_ntk(model, x, parameters=model.strength.parameters())) < EXACT
    assert error(gates, explicit_ntk(model, x, parameters=model.gates.parameters())) < EXACT
    assert error(weights + gates, gw.analysis.ntk(model, x)) < EXACT


class Overwriting(nn.Module):
    """Changes in place what a layer has read.

    Torch cannot differentiate by that layer's weight afterwards.
    """

    def __init__(self, *, careful: bool):
        super().__init__()
        self.into, self.middle, self.out, self.careful = (
            nn.Linear(5, 6),
            nn.Linear(6, 6),
            nn.Linear(6, 2),
            careful,
        )

    def forward(self, x: Tensor) -> Tensor:
        x = self.into(x)
        branch = self.middle(x)
        x = x * 2 if self.careful else x.mul_(2)
        return self.out((x + branch).tanh())


def test_an_input_that_is_overwritten_later_counts_as_it_was_read():
    model, careful, x = (
        Overwriting(careful=False).double(),
        Overwriting(careful=True).double(),
        torch.randn(6, 5).double(),
    )
    careful.load_state_dict(model.state_dict())
    assert error(gw.analysis.ntk(model, x), explicit_ntk(careful, x)) < EXACT


def test_an_input_that_the_model_overwrites_is_the_callers_again():
    model = nn.Sequential(
        nn.ReLU(inplace=True), nn.Linear(5, 3), nn.Tanh(), nn.Linear(3, 1)
    ).double()
    x = torch.randn(6, 5).double()
    before = x.clone()
    for method in ("auto", "jacobian"):
        assert error(gw.analysis.ntk(model, x, method=method), explicit_ntk(model, x)) < EXACT
        assert torch.equal(x, before)


def test_frozen_parameters_do_not_count_unless_asked_for():
    model, x = mlp().double(), torch.randn(6, 5).double()
    model[2].requires_grad_(False)
    model[4].bias.requires_grad_(False)
    assert error(gw.analysis.ntk(model, x), explicit_ntk(model, x)) < EXACT
    everything = gw.analysis.ntk(model, x, parameters="*")
    assert error(everything, explicit_ntk(model.requires_grad_(), x)) < EXACT


@pytest.mark.parametrize(
    "choice",
    [
        "0.weight",
        ["0.weight", "2.*"],
        lambda name, parameter: parameter.dim() == 1,
        lambda name, parameter: name.endswith("weight"),
    ],
)
def test_parameters_are_chosen_by_name_pattern_or_predicate(choice):
    model, x = mlp().double(), torch.randn(6, 5).double()
    names = {
        "0.weight": ["0.weight"],
        "['0.weight', '2.*']": ["0.weight", "2.weight"],
    }.get(
        str(choice),
        [name for name, p in model.named_parameters() if callable(choice) and choice(name, p)],
    )
    want = explicit_ntk(
        model, x, parameters=[dict(model.named_parameters())[name] for name in names]
    )
    assert error(gw.analysis.ntk(model, x, parameters=choice), want) < EXACT


def test_one_sample_has_a_kernel():
    model, x = built("convolution")
    assert error(gw.analysis.ntk(model, x[:1]), explicit_ntk(model, x[:1])) < EXACT
