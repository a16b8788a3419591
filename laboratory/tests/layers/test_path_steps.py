"""Reading a network as linear maps and gates.

Applied one after another, the steps are the network.
"""

import pytest
import torch
from gatewise_papers import deep_gated
from gatewise_papers.deep_gated import Dense, Gate, path_steps
from loops import for_each
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError

UNITS = [
    nn.ReLU(),
    nn.LeakyReLU(0.2),
    nn.SiLU(),
    nn.Identity(),
    gw.nn.ReLU(),
    gw.nn.LeakyReLU(slope=0.25),
    gw.nn.Abs(),
    gw.nn.SoftReLU(beta=3.0),
    gw.nn.SiLU(),
]


def dense(unit: nn.Module) -> tuple[nn.Module, tuple[int, ...]]:
    return nn.Sequential(
        nn.Linear(3, 4, bias=False), nn.Sequential(unit, nn.Linear(4, 2, bias=False))
    ), (3,)


def convolutional(unit: nn.Module) -> tuple[nn.Module, tuple[int, ...]]:
    layers = [
        nn.Conv2d(4, 6, 3, padding=1, groups=2, bias=False),
        unit,
        nn.AvgPool2d(2, padding=1),
        unit,
        nn.Conv2d(6, 3, 2, stride=2, padding=1, padding_mode="circular", dilation=2, bias=False),
        unit,
        nn.Flatten(),
        nn.LazyLinear(2, bias=False),
    ]
    return nn.Sequential(*layers), (4, 7, 6)


def sequences(unit: nn.Module) -> tuple[nn.Module, tuple[int, ...]]:
    layers = [
        nn.Conv1d(2, 3, 2, padding="same", padding_mode="circular", bias=False),
        unit,
        nn.AvgPool1d(2),
        nn.Conv1d(3, 3, 3, padding="valid", bias=False),
        unit,
        nn.AdaptiveAvgPool1d(1),
        nn.Flatten(),
    ]
    return nn.Sequential(*layers), (2, 9)


@pytest.mark.parametrize("make", [dense, convolutional, sequences])
@pytest.mark.parametrize(
    "unit", UNITS, ids=lambda unit: f"{type(unit).__module__[:8]} {type(unit).__name__}"
)
def test_the_steps_one_after_another_are_the_network(make, unit: nn.Module):
    model, shape = make(unit)
    model = model.double()
    x = torch.randn(5, *shape, dtype=torch.float64)
    want, z = model(x), x
    for step in path_steps(model, x):
        z = step.apply(z)
    torch.testing.assert_close(z, want, rtol=1e-12, atol=1e-14)


def test_gates_of_a_relu_network_are_zero_or_one_and_carry_no_gradient():
    model, _ = dense(nn.ReLU())
    (gate,) = (step for step in path_steps(model, torch.randn(50, 3)) if isinstance(step, Gate))
    assert set(gate.values.unique().tolist()) == {0.0, 1.0}
    assert not gate.values.requires_grad


@for_each(
    ("module", "match"),
    [
        (nn.Linear(3, 2), "bias"),
        (nn.Tanh(), "Tanh"),
        (nn.MaxPool2d(2), "MaxPool2d"),
        (nn.BatchNorm1d(3), "BatchNorm1d"),
        (nn.Conv2d(3, 2, 3, padding=1, padding_mode="reflect", bias=False), "reflect"),
        (nn.AvgPool2d(2, ceil_mode=True), "the same weights"),
        (nn.Flatten(2), "Flatten"),
        (nn.AdaptiveAvgPool2d(2), "AdaptiveAvgPool2d"),
    ],
)
def test_what_has_no_path_view_is_named(module: nn.Module, match: str):
    with pytest.raises(ArgumentError, match=match):
        path_steps(nn.Sequential(module), torch.randn(2, 3))


def test_an_index_is_for_random_gates_only():
    with pytest.raises(ArgumentError, match="only random gates"):
        path_steps(dense(nn.ReLU())[0], torch.randn(2, 3), index=torch.arange(2))


class Residual(nn.Sequential):
    def forward(self, x):
        return x + super().forward(x)


class Doubled(nn.Linear):
    def forward(self, x):
        return 2 * super().forward(x)


class Shifted(nn.ReLU):
    def forward(self, x):
        return super().forward(x) + 1


class Rotated(nn.Conv1d):
    def _conv_forward(self, x, weight, bias):
        return super()._conv_forward(x.roll(1, 2), weight, bias)


class Sharper(gw.nn.SoftReLU):
    def arguments(self, x):
        return {"beta": 9.0, "eps": 0.0}


class Called(nn.Identity):
    def __call__(self, x):
        return 3 * x


def replaced() -> nn.Module:
    layer = nn.Linear(4, 4, bias=False)
    layer.forward = lambda x: 2 * x
    return layer


CHANGED = [
    Residual(nn.Linear(4, 4, bias=False), nn.ReLU()),
    Doubled(4, 4, bias=False),
    Shifted(),
    Sharper(),
    Called(),
    replaced(),
]


@pytest.mark.parametrize("module", CHANGED, ids=lambda module: type(module).__name__)
def test_a_module_that_computes_something_else_is_not_read_as_its_class(module: nn.Module):
    model = nn.Sequential(nn.Linear(3, 4, bias=False), module, nn.Linear(4, 1, bias=False))
    for ask in (
        path_steps,
        deep_gated.paths,
        deep_gated.path_kernel,
        deep_gated.subnetworks,
        deep_gated.bundle_kernel,
    ):
        with pytest.raises(ArgumentError, match="cannot be read"):
            ask(model, torch.randn(5, 3))


def test_a_convolution_with_an_inner_step_of_its_own_is_not_read():
    with pytest.raises(ArgumentError, match="_conv_forward"):
        path_steps(Rotated(1, 1, 2, bias=False), torch.randn(3, 1, 4))


def hooked(kind: str, place: int) -> nn.Module:
    model, _ = dense(nn.ReLU())
    module = [model, model[0], model[1], model[1][0]][place]
    getattr(module, f"register_{kind}")(lambda *_: None)
    return model


@for_each("kind", ["forward_hook", "forward_pre_hook"])
@for_each("place", range(4))
def test_a_module_with_hooks_is_not_read(kind: str, place: int):
    with pytest.raises(ArgumentError, match="forward hooks"):
        path_steps(hooked(kind, place), torch.randn(5, 3))


def test_a_deep_gated_network_with_hooks_is_not_read():
    for part in (lambda net: net, lambda net: net.weights[0]):
        net = deep_gated.DeepGatedNetwork(3, 4, 3)
        part(net).register_forward_hook(lambda module, args, out: 2 * out)
        with pytest.raises(ArgumentError, match="forward hooks"):
            deep_gated.path_kernel(net, torch.randn(5, 3))


class Scaled(deep_gated.DeepGatedNetwork):
    def forward(self, x, index=None, *, gates=None):
        return 1.01 * super().forward(x, index, gates=gates)


class Wrong(nn.Linear):
    def path_steps(self, x):
        return (Dense(self.weight[:1]),)


def test_steps_that_are_not_the_model_are_an_error_whoever_says_them():
    for model in (Scaled(3, 4, 3), Wrong(3, 2, bias=False)):
        with pytest.raises(ArgumentError, match="do not compute the same"):
            path_steps(model, torch.randn(5, 3))


def test_one_input_in_a_batch_is_enough_to_tell():
    class Clipped(deep_gated.DeepGatedNetwork):
        def forward(self, x, index=None, *, gates=None):
            return super().forward(x, index, gates=gates).clamp(-5.0, 5.0)

    model, x = Clipped(3, 4, 3, gate="linear"), 0.1 * torch.randn(50, 3)
    path_steps(model, x)
    x[31] = 1e3 * x[31]
    with pytest.raises(ArgumentError, match="for input 31"):
        path_steps(model, x)


def test_parametrized_weights_are_those_that_the_layer_uses():
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(3, 2, bias=False))
    (step,) = path_steps(layer, torch.randn(4, 3))
    assert isinstance(step, Dense) and torch.equal(step.weight, layer.weight)


@for_each("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.float64])
def test_rounding_is_no_difference(dtype: torch.dtype):
    """Deep, of a precision that is low, and with outputs whose summands cancel."""
    parts = [part for _ in range(30) for part in (nn.Linear(16, 16, bias=False), gw.nn.SoftReLU())]
    model = nn.Sequential(*parts, nn.Linear(16, 16, bias=False))
    with torch.no_grad():
        for layer in parts[::2]:
            layer.weight.mul_(3)
    steps = path_steps(model.to(dtype), torch.randn(20, 16, dtype=dtype))
    assert sum(isinstance(step, Dense) for step in steps) == 31


def test_reading_a_network_that_works_in_place_leaves_the_input_alone():
    x = torch.randn(5, 3)
    kept = x.clone()
    path_steps(nn.Sequential(nn.ReLU(inplace=True), nn.Linear(3, 1, bias=False)), x)
    assert torch.equal(x, kept)


MISFITS = [
    (
        nn.Sequential(nn.Conv1d(2, 3, 3, bias=False), nn.ReLU(), nn.Linear(4, 1, bias=False)),
        "input features of the linear layer",
    ),
    (
        nn.Sequential(nn.Linear(6, 4, bias=False), nn.Flatten(), nn.Linear(8, 1, bias=False)),
        "input features of the linear layer",
    ),
    (
        nn.Sequential(
            nn.Linear(6, 4, bias=False), nn.ReLU(), nn.Flatten(), nn.Linear(8, 1, bias=False)
        ),
        "linear layer",
    ),
    (nn.Sequential(nn.Conv1d(3, 1, 2, bias=False)), "input channels of the convolution"),
    (nn.Sequential(nn.Conv2d(2, 1, 2, bias=False)), "input channels of the convolution"),
    (nn.Sequential(nn.Conv1d(2, 1, 7, bias=False)), "cannot take"),
    (nn.Sequential(nn.Flatten(), nn.AvgPool1d(2)), "Average for"),
    (nn.Sequential(nn.Flatten(), nn.Linear(12, 1, bias=False)).double(), "cannot take"),
]


@for_each(("model", "match"), MISFITS)
def test_a_layer_that_does_not_see_a_batch_of_its_inputs_is_refused(model: nn.Module, match: str):
    for ask in (
        deep_gated.paths,
        deep_gated.path_kernel,
        deep_gated.subnetworks,
        deep_gated.bundle_kernel,
    ):
        with pytest.raises(ArgumentError, match=match):
            ask(model, torch.randn(4, 2, 6))
