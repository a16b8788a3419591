"""Deep gated networks: definition, special cases, what trains, and initial weights."""

import itertools
import math
from functools import partial

import pytest
import torch
from gatewise_papers import deep_gated
from gatewise_papers.deep_gated import DeepGatedConvNetwork, DeepGatedNetwork, delta
from gatewise_papers.deep_gated.layers import Gate
from loops import for_each
from torch import Tensor, nn

import gatewise as gw
from gatewise.errors import ArgumentError, UnknownNameError

GATES = ("linear", "random", "relu", "galu", "soft_relu", "soft_galu")
N = 5


def dense(gate: str, **options) -> DeepGatedNetwork:
    extra = {"examples": N} if gate == "random" else {}
    return DeepGatedNetwork(3, 6, 4, gate=gate, dtype=torch.float64, **extra, **options)


def convolutional(gate: str, **options) -> DeepGatedConvNetwork:
    extra = {"examples": N} if gate == "random" else {}
    options = {"kernel_size": 2, "padding": "circular", "head": "average", "dense": (4,), **options}
    return DeepGatedConvNetwork(
        (2, 5, 4), (3, 4), gate=gate, dtype=torch.float64, **extra, **options
    )


def inputs(make) -> Tensor:
    return torch.randn(N, *((3,) if make is dense else (2, 5, 4)), dtype=torch.float64)


def index_for(gate: str) -> Tensor | None:
    return torch.arange(N) if gate == "random" else None


def by_definition(model: DeepGatedNetwork, x: Tensor, gates: list[Tensor]) -> Tensor:
    """Table 1 of the paper, one matrix after another."""
    z = x
    for layer, gate in zip(model.weights, gates, strict=False):
        z = (z @ layer.weight.T) * gate
    return z @ model.weights[-1].weight.T


def chi(q: Tensor, beta: float = 4.0, eps: float = 0.1) -> Tensor:
    return (1 + eps) / (1 + torch.exp(-beta * q))


def gates_by_definition(layers, x: Tensor, soft: bool) -> list[Tensor]:
    """Table 2: a network's gates are made of its own responses, and gate itself too."""
    z, gates = x, []
    for layer in layers:
        q = z @ layer.weight.T
        gates.append(chi(q) if soft else (q > 0).double())
        z = q * gates[-1]
    return gates


@for_each("gate", GATES)
def test_a_dense_network_is_its_definition(gate: str):
    model, x = dense(gate), inputs(dense)
    want = {
        "linear": lambda: [torch.ones(N, 6, dtype=torch.float64)] * 3,
        "random": lambda: [each.open.double() for each in model.random],
        "relu": lambda: gates_by_definition(model.weights[:-1], x, soft=False),
        "galu": lambda: gates_by_definition(model.gating, x, soft=False),
        "soft_relu": lambda: gates_by_definition(model.weights[:-1], x, soft=True),
        "soft_galu": lambda: gates_by_definition(model.gating, x, soft=True),
    }[gate]()
    got = model.gates(x, index_for(gate))
    assert len(got) == 3
    for mine, theirs in zip(got, want, strict=True):
        torch.testing.assert_close(mine, theirs, rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(
        model(x, index_for(gate)), by_definition(model, x, want), rtol=1e-12, atol=1e-13
    )


@for_each("make", [dense, convolutional])
@for_each("gate", GATES)
def test_output_gates_responses_and_steps_agree(make, gate: str):
    model, x, index = make(gate), inputs(make), index_for(gate)
    out, gates = model(x, index), model.gates(x, index)
    torch.testing.assert_close(model(x, None, gates=gates), out, rtol=1e-13, atol=1e-14)
    shared = [gate[:1] for gate in gates]
    torch.testing.assert_close(model(x, gates=shared)[:1], out[:1], rtol=1e-13, atol=1e-14)
    z = x
    for step in model.path_steps(x, index):
        z = step.apply(z)
    torch.testing.assert_close(z, out, rtol=1e-13, atol=1e-14)
    shapes = [tuple(gate.shape) for gate in gates]
    assert (
        shapes
        == [tuple(q.shape) for q in model.responses(x, index)]
        == [(N, *units) for units in model.units]
    )


@for_each("gate", ["relu", "galu", "soft_relu", "soft_galu"])
def test_gates_and_their_slopes_come_from_the_gate_responses(gate: str):
    model, x = dense(gate), inputs(dense)
    for q, g, slope in zip(
        model.gate_responses(x), model.gates(x), model.gate_slopes(x), strict=True
    ):
        q = q.detach().requires_grad_()
        made = chi(q) if "soft" in gate else (q > 0).double()
        torch.testing.assert_close(g, made, rtol=1e-12, atol=1e-14)
        want = torch.autograd.grad(made.sum(), q)[0] if "soft" in gate else torch.zeros_like(q)
        torch.testing.assert_close(slope, want, rtol=1e-11, atol=1e-14)


def test_a_relu_network_is_exactly_the_special_case_whose_two_networks_are_one():
    model, x = dense("relu"), inputs(dense)
    parts = [part for layer in model.weights for part in (layer, nn.ReLU())]
    plain = nn.Sequential(*parts[:-1])
    assert torch.equal(model(x), plain(x))
    twin = dense("galu", same_start=True)
    twin.weights.load_state_dict(model.weights.state_dict())
    twin.gating.load_state_dict(model.weights[:-1].state_dict())
    assert torch.equal(twin(x), plain(x))
    (got,), (want,) = (
        torch.autograd.grad(net(x).sum(), net_weight)
        for net, net_weight in ((twin, twin.weights[1].weight), (plain, plain[2].weight))
    )
    assert torch.equal(got, want)


def test_a_convolutional_relu_network_is_torchs():
    model, x = (
        convolutional("relu", kernel_size=3, padding="zeros", head="flatten"),
        inputs(convolutional),
    )
    first, second, hidden, last = model.weights
    plain = nn.Sequential(
        first, nn.ReLU(), second, nn.ReLU(), nn.Flatten(), hidden, nn.ReLU(), last
    )
    assert torch.equal(model(x), plain(x))
    assert isinstance(first, nn.Conv2d) and first.bias is None and first.padding == "same"


def test_soft_relu_is_the_unit_of_that_name():
    model, x = dense("soft_relu", beta=8.0, eps=0.4), inputs(dense)
    parts = [part for layer in model.weights for part in (layer, gw.nn.SoftReLU(beta=8.0, eps=0.4))]
    torch.testing.assert_close(model(x), nn.Sequential(*parts[:-1])(x), rtol=1e-12, atol=1e-13)


def test_gates_of_a_trained_network_are_copied_and_stay():
    trained = dense("relu")
    for source in (trained, nn.Sequential(*trained.weights)):
        model, x = dense("galu", gates_from=source), inputs(dense)
        want = trained.gates(x)
        assert all(map(torch.equal, model.gates(x), want))
        model.reset_parameters()
        assert all(map(torch.equal, model.gates(x), want))
        assert not torch.equal(model.weights[0].weight, trained.weights[0].weight)
    soft = dense("soft_galu")
    assert all(map(torch.equal, dense("soft_galu", gates_from=soft).gates(x), soft.gates(x)))


def test_a_copy_does_not_follow_its_source():
    trained = dense("relu")
    model = dense("galu", gates_from=trained)
    before = model.gating[0].weight.clone()
    trained.reset_parameters()
    assert torch.equal(model.gating[0].weight, before)


def test_the_same_start_gives_both_networks_the_same_weights():
    model = dense("soft_galu", same_start=True)
    for _ in range(2):
        pairs = zip(model.gating, model.weights, strict=False)
        assert all(torch.equal(mine.weight, theirs.weight) for mine, theirs in pairs)
        model.reset_parameters()


@for_each(
    ("gate", "trains", "strength", "gating"),
    [
        ("linear", None, True, []),
        ("relu", None, True, []),
        ("galu", None, True, [False]),
        ("soft_galu", None, True, [True]),
        ("soft_galu", "weights", True, [False]),
        ("soft_galu", "gates", False, [True]),
    ],
)
def test_which_network_trains(gate: str, trains: str | None, strength: bool, gating: list[bool]):
    model, x = dense(gate, trains=trains), inputs(dense)
    assert all(p.requires_grad is strength for p in model.strength_parameters())
    assert sorted({p.requires_grad for p in model.gating.parameters()}) == gating
    model(x).square().sum().backward()
    for parameter in model.parameters():
        assert (parameter.grad is not None) is parameter.requires_grad
        assert parameter.grad is None or parameter.grad.abs().sum() > 0


def test_the_parameters_that_set_gates_are_told_apart():
    shapes = {gate: [tuple(p.shape) for p in dense(gate).gate_parameters()] for gate in GATES}
    hidden = [(6, 3), (6, 6), (6, 6)]
    assert shapes == {gate: [] if gate in ("linear", "random") else hidden for gate in GATES}
    model = dense("soft_relu")
    assert next(model.gate_parameters()) is next(model.strength_parameters())


def test_bernoulli_weights_are_plus_or_minus_sigma_with_equal_chance():
    generator = torch.Generator().manual_seed(1)
    model = DeepGatedNetwork(100, 100, 3, gate="galu", mu=0.5, generator=generator)
    for layer in [*model.weights, *model.gating]:
        assert layer.weight.abs().unique().tolist() == pytest.approx([math.sqrt(1 / 50)])
    signs = torch.cat([layer.weight.sign().flatten() for layer in model.gating])
    assert abs(signs.mean().item()) < 5 / math.sqrt(signs.numel())  # five standard deviations


@for_each("init", ["bernoulli", "normal", "uniform"])
def test_every_init_has_variance_sigma_squared(init: str):
    weight = DeepGatedNetwork(200, 200, 2, init=init, sigma=0.3).weights[0].weight
    # the variance of a sample variance is at most 2 sigma^4 / n (the normal's); six standard
    # deviations
    assert abs(weight.square().mean().item() / 0.09 - 1) < 6 * math.sqrt(2 / weight.numel())
    assert abs(weight.mean().item()) < 6 * 0.3 / math.sqrt(weight.numel())


def test_sigma_keeps_an_inputs_paths_at_one_whatever_the_widths():
    model = DeepGatedNetwork(7, (10, 20, 40), 4, mu=0.25)
    assert model.sigmas == pytest.approx([(0.25 * w) ** -0.5 for w in (10, 10, 20, 40)])
    assert DeepGatedNetwork(7, 10, 4, gate="linear").sigmas == pytest.approx([10**-0.5] * 4)
    assert DeepGatedNetwork(7, 10, 4, sigma=0.5).sigmas == (0.5,) * 4
    convolution = DeepGatedConvNetwork((3, 8, 8), (16, 32), 3)
    assert convolution.sigmas == pytest.approx(
        [(0.5 * w) ** -0.5 for w in (16 * 9, 16 * 9, 32 * 64)]
    )


@for_each("gate", GATES)
def test_a_generator_decides_everything_and_leaves_torchs_own_alone(gate: str):
    before = torch.get_rng_state()
    first, second = (dense(gate, generator=torch.Generator().manual_seed(4)) for _ in range(2))
    assert torch.equal(torch.get_rng_state(), before)
    state = second.state_dict()
    assert state and all(
        torch.equal(value, state[name]) for name, value in first.state_dict().items()
    )


def test_random_gates_have_no_answer_for_inputs_they_were_not_drawn_for():
    model, x = dense("random"), inputs(dense)
    with pytest.raises(ArgumentError, match="do not extend to test inputs"):
        model(x)
    with pytest.raises(ArgumentError, match="do not extend to test inputs"):
        model(x[:1], torch.tensor([N]))
    for index in ([0, 1], [0]):  # too few, and one that would silently serve all
        with pytest.raises(ArgumentError, match="gates do not fit"):
            model(x, torch.tensor(index))
    with pytest.raises(ArgumentError, match="gates do not fit"):
        model(x[0], torch.tensor([0]))


@for_each("make", [dense, convolutional])
@for_each("gate", GATES)
def test_stacked_seeds_run_as_one(make, gate: str):
    models, x, index = [make(gate) for _ in range(3)], inputs(make), index_for(gate)
    state = torch.func.stack_module_state(models)
    out = torch.func.vmap(lambda p, b: torch.func.functional_call(models[0], (p, b), (x, index)))(
        *state
    )
    for row, model in zip(out, models, strict=True):
        torch.testing.assert_close(row, model(x, index), rtol=1e-12, atol=1e-13)


def test_one_example_alone_gives_its_row():
    for make in (dense, convolutional):
        model, x = make("soft_galu"), inputs(make)
        torch.testing.assert_close(torch.func.vmap(model)(x), model(x), rtol=1e-12, atol=1e-14)
        torch.testing.assert_close(model(x[0]), model(x)[0], rtol=1e-12, atol=1e-14)


OVERFLOW = "several linear maps in a row overflow by themselves"
LEFT_OUT = {
    "traces_with_fx": "a network is no leaf, and it branches on its gates",
    "autocast_keeps_the_input_dtype": "layers of torch do as they do under autocast",
    "exports_to_onnx": "gated layers are exported in their own tests",
    "the_largest_numbers_never_give_nan": OVERFLOW,
    "the_largest_numbers_everywhere_never_give_nan": OVERFLOW,
    "the_largest_float16_everywhere_never_gives_nan": OVERFLOW,
}


@pytest.mark.slow
def test_a_dense_network_keeps_the_contract_of_layers():
    make = partial(DeepGatedNetwork, 4, 3, 3, gate="soft_galu", d_out=2)
    gw.testing.check_layer(make, (3, 4), channel_dim=-1, leave_out=LEFT_OUT)


@pytest.mark.slow
def test_a_convolutional_network_keeps_the_contract_of_layers():
    make = partial(DeepGatedConvNetwork, (2, 4, 4), (3,), gate="galu", head="average")
    gw.testing.check_layer(
        make, (2, 2, 4, 4), leave_out={**LEFT_OUT, "compiles_whole_and_once": "as the dense one"}
    )


@for_each("gate", ["relu", "soft_galu"])
def test_circular_convolutions_and_an_average_do_not_see_a_rotation(gate: str):
    model, x = convolutional(gate), inputs(convolutional)
    torch.testing.assert_close(model(x.roll((2, 1), (2, 3))), model(x), rtol=1e-11, atol=1e-13)
    plain = convolutional(gate, padding="zeros", kernel_size=3)
    assert not torch.allclose(plain(x.roll((2, 1), (2, 3))), plain(x))


def test_the_papers_network_for_cifar_has_its_layers():
    model = DeepGatedConvNetwork(
        (3, 32, 32), (64, 64, 128, 128), dense=(256, 256), d_out=10, device="meta"
    )
    assert [tuple(p.shape)[:2] for p in model.strength_parameters()] == [
        (64, 3),
        (64, 64),
        (128, 64),
        (128, 128),
        (256, 128 * 32 * 32),
        (256, 256),
        (10, 256),
    ]
    assert model.depth == 7


def test_sequences_have_convolutions_too():
    model = DeepGatedConvNetwork(
        (1, 6), (2, 3), 3, padding="none", gate="galu", dtype=torch.float64
    )
    x = torch.randn(N, 1, 6, dtype=torch.float64)
    assert model.units == ((2, 4), (3, 2))
    assert model(x).shape == (N, 1)


def test_a_state_loads_and_names_are_stable():
    names = ["weights.0.weight", "weights.1.weight", "weights.2.weight", "weights.3.weight"]
    assert list(dense("relu").state_dict()) == names
    assert list(dense("galu").state_dict()) == names + [f"gating.{i}.weight" for i in range(3)]
    assert list(dense("random").state_dict()) == names + [f"random.{i}.open" for i in range(3)]
    model, other, x = dense("random"), dense("random"), inputs(dense)
    other.load_state_dict(model.state_dict())
    assert torch.equal(other(x, torch.arange(N)), model(x, torch.arange(N)))


def test_networks_are_reached_by_gw_nn():
    assert (
        deep_gated.DeepGatedNetwork is DeepGatedNetwork
        and deep_gated.DeepGatedConvNetwork is DeepGatedConvNetwork
    )


def test_an_unknown_gate_gets_the_nearest_name():
    with pytest.raises(UnknownNameError, match="did you mean 'soft_galu'"):
        dense("softgalu")


@for_each("gate", ["galu", "relu", "linear"])
def test_gates_that_cannot_learn_are_not_trained(gate: str):
    with pytest.raises(ArgumentError, match=r"cannot be trained apart.*soft_galu"):
        dense(gate, trains="gates")


@for_each(
    ("options", "match"),
    [
        ({"gate": "random"}, "examples"),
        ({"examples": 3}, "examples"),
        ({"gate": "random", "examples": 0}, "examples"),
        ({"width": (4, 4)}, "depth - 1 hidden layers"),
        ({"width": 0}, "width"),
        ({"depth": 1}, "depth"),
        ({"d_out": 0}, "d_out"),
        ({"d_in": 2.0}, "d_in"),
        ({"mu": 0.0}, "mu"),
        ({"sigma": -1.0}, "sigma"),
        ({"beta": math.inf}, "beta"),
        ({"init": "he"}, "init"),
        ({"trains": "all"}, "trains"),
        ({"same_start": True}, "no gating network"),
        ({"gate": "galu", "gates_from": nn.Linear(3, 4)}, "no bias"),
        ({"gate": "galu", "gates_from": nn.Linear(2, 4, bias=False)}, "another shape"),
        ({"gate": "galu", "gates_from": 3}, "copied from a network"),
    ],
)
def test_options_that_make_no_sense_are_refused(options: dict, match: str):
    with pytest.raises(ArgumentError, match=match):
        DeepGatedNetwork(**{"d_in": 3, "width": 4, "depth": 4, **options})


@for_each(
    ("options", "match"),
    [
        ({"in_shape": (3,)}, "in_shape"),
        ({"in_shape": (3, 5, 5, 5)}, "in_shape"),
        ({"channels": ()}, "channels"),
        ({"channels": 3}, "channels"),
        ({"kernel_size": 2}, "even kernel"),
        ({"kernel_size": 7}, "larger than the input"),
        ({"padding": "reflect"}, "padding"),
        ({"head": "median"}, "head"),
        ({"padding": "none", "channels": (2, 2, 2)}, "use the input up"),
    ],
)
def test_convolutions_that_make_no_sense_are_refused(options: dict, match: str):
    with pytest.raises(ArgumentError, match=match):
        DeepGatedConvNetwork(**{"in_shape": (3, 5, 5), "channels": (4, 4), **options})


def test_inputs_that_do_not_fit_are_named():
    model = dense("relu")
    with pytest.raises(ArgumentError, match="another number of features"):
        model(torch.ones(2, 4, dtype=torch.float64))
    with pytest.raises(ArgumentError, match="different dtypes"):
        model(torch.ones(2, 3))
    with pytest.raises(ArgumentError, match="floating"):
        model(torch.ones(2, 3, dtype=torch.int64))
    with pytest.raises(ArgumentError, match="only random gates"):
        model(torch.ones(2, 3, dtype=torch.float64), torch.arange(2))
    with pytest.raises(ArgumentError, match="another shape"):
        convolutional("relu")(torch.ones(2, 2, 4, 5, dtype=torch.float64))
    with pytest.raises(ArgumentError, match="one tensor of gates"):
        model(torch.ones(2, 3, dtype=torch.float64), gates=[])
    with pytest.raises(ArgumentError, match="gates do not fit"):
        model(torch.ones(2, 3, dtype=torch.float64), gates=[torch.ones(2, 5)] * 3)
    with pytest.raises(ArgumentError, match="gates do not fit"):
        model(torch.ones(2, 3, dtype=torch.float64), gates=[torch.ones(3, 6)] * 3)
    with pytest.raises(ArgumentError, match="no response sets"):
        dense("linear").gate_responses(torch.ones(2, 3, dtype=torch.float64))


def test_a_max_over_positions_is_that_of_torch():
    model, x = (
        convolutional("relu", kernel_size=3, padding="zeros", head="max"),
        inputs(convolutional),
    )
    first, second, hidden, last = model.weights
    plain = nn.Sequential(
        first, nn.ReLU(), second, nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten()
    )
    plain.extend(nn.Sequential(hidden, nn.ReLU(), last))
    torch.testing.assert_close(model(x), plain(x))


@for_each("gate", ["linear", "relu", "galu", "soft_relu", "soft_galu"])
def test_with_the_chosen_position_as_a_gate_a_max_is_a_linear_map(gate: str):
    model, x = convolutional(gate, head="max"), inputs(convolutional)
    z = x
    steps = model.path_steps(x)
    for step in steps:
        z = step.apply(z)
    torch.testing.assert_close(z, model(x))
    positions = math.prod(model.units[1][1:])
    chosen = [step.values for step in steps if isinstance(step, Gate)][2].flatten(2)
    assert ((chosen == positions).sum(-1) == 1).all()
    assert ((chosen == 0).sum(-1) == positions - 1).all()


@for_each("gate", ["galu", "soft_galu"])
def test_the_gating_network_chooses_the_position_of_a_max(gate: str):
    """Each convolution is written out as sums, and each position is searched for one by one."""
    model, x = convolutional(gate, head="max"), inputs(convolutional)
    model.requires_grad_(False)
    kernels = [[layer.weight for layer in layers] for layers in (model.weights, model.gating)]

    def respond(z: Tensor, kernel: Tensor) -> Tensor:
        shifts = [(0, 0), (0, 1), (1, 0), (1, 1)]
        return sum(
            torch.einsum(
                "nchw,oc->nohw", z.roll((-down, -right), (2, 3)), kernel[:, :, down, right]
            )
            for down, right in shifts
        )

    def gate_of(q: Tensor) -> Tensor:
        return chi(q) if model.kind.soft else (q > 0).double()

    strength, features = x, x
    for weights, gating in zip(kernels[0][:2], kernels[1][:2], strict=True):
        response = respond(features, gating)
        strength = respond(strength, weights) * gate_of(response)
        features = response * gate_of(response)
    chosen = torch.zeros(2, N, 4, dtype=torch.float64)
    for n, channel in itertools.product(range(N), range(4)):
        places = itertools.product(range(5), range(4))
        row, column = max(places, key=lambda place: float(features[n, channel][place]))
        chosen[0, n, channel] = strength[n, channel, row, column]
        chosen[1, n, channel] = features[n, channel, row, column]
    open_units = gate_of(chosen[1] @ kernels[1][2].T)
    want = (chosen[0] @ kernels[0][2].T * open_units) @ kernels[0][3].T
    torch.testing.assert_close(model(x), want)
    torch.testing.assert_close(model(x, gates=model.gates(x)), want)
    # A maximum of the strength network's own responses would not follow their sign.
    model.weights[1].weight.neg_()
    torch.testing.assert_close(model(x), -want)


def test_a_rotated_input_has_the_same_max_with_circular_convolutions():
    model, x = convolutional("galu", head="max"), inputs(convolutional)
    torch.testing.assert_close(model(x.roll(1, -1)), model(x))


def test_gate_learning_refuses_a_max():
    model, x = convolutional("soft_galu", head="max"), inputs(convolutional)
    with pytest.raises(ArgumentError, match="maximum over positions"):
        delta(model, x)
