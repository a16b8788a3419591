"""The unit iieu_b: derivatives by hand, three ways to call it, and the contract of units."""

import copy

import pytest
import torch
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.layers.iieu import ConvIIEU
from gatewise.testing import check_layer, check_unit


def test_every_derivative_is_the_one_worked_out_by_hand():
    x = torch.linspace(-4, 4, 401, dtype=torch.float64).requires_grad_()
    norm, shift, eta = (
        torch.full((401,), v, dtype=torch.float64).requires_grad_() for v in (1.7, 0.4, 0.2)
    )
    y = gw.functional.iieu_b(x, norm, 1.0, shift, eta, dim=0)
    got = torch.autograd.grad(y.sum(), (x, norm, shift, eta))
    e, nu, t = 1.7, 0.4, 0.2
    m = x.detach() / e + nu - t
    below = m < 0
    assert 50 < int(below.sum()) < 350
    a, slope = torch.where(below, t * m.exp(), t + m), torch.where(below, t * m.exp(), 1.0)
    want = (
        a + slope * x / e,
        -slope * x**2 / e**2,
        slope * x,
        torch.where(below, x * m.exp() * (1 - t), 0.0),
    )
    for mine, by_hand in zip(got, want, strict=True):
        torch.testing.assert_close(mine, by_hand.detach(), rtol=1e-12, atol=1e-14)
    torch.testing.assert_close(y, a * x, rtol=1e-13, atol=1e-15)


def test_the_lower_branch_is_deepest_where_the_response_is_minus_the_lengths():
    e, nu, eta = 1.3, 0.1, 0.3
    x = torch.linspace(-8, 0, 80001, dtype=torch.float64)
    y = gw.functional.iieu_b(x, e, shift=nu, eta=eta)
    y = torch.where(x / e + nu < eta, y, 0.0)
    assert y.argmin() == (x + e).abs().argmin()
    assert y.min().item() == pytest.approx(
        -eta * e * torch.tensor(nu - eta - 1).exp().item(), rel=1e-6
    )


def test_the_weight_is_continuous_and_its_right_hand_derivative_holds_at_the_corner():
    eta = torch.tensor(0.25, dtype=torch.float64)
    x = torch.tensor([-0.25 - 1e-9, -0.25, -0.25 + 1e-9], dtype=torch.float64, requires_grad=True)
    y = gw.functional.iieu_b(x, 1.0, shift=0.5, eta=eta)
    torch.testing.assert_close(y, eta * x, rtol=1e-8, atol=0)
    (slopes,) = torch.autograd.grad(y.sum(), x)
    torch.testing.assert_close(slopes.tolist(), [0.25 - 0.25 * 0.25, 0.0, 0.0], rtol=0, atol=1e-8)


def test_a_length_of_0_means_similarity_0_with_finite_gradients():
    x = torch.tensor([[-2.0, 3.0]], requires_grad=True)
    patch = torch.zeros(1, 1, requires_grad=True)
    y = gw.functional.iieu_b(x, patch, torch.tensor([0.0, 2.0]), shift=0.4)
    torch.testing.assert_close(y, 0.4 * x)
    gradients = torch.autograd.grad(y.sum(), (x, patch))
    assert gradients[0].tolist() == [[pytest.approx(0.4)] * 2] and gradients[1].tolist() == [[0.0]]
    assert torch.equal(
        gw.functional.iieu_b(x, 0.0, shift=0.4), gw.functional.iieu_b(x, patch, shift=0.4)
    )


def test_at_a_threshold_of_0_the_threshold_still_has_a_gradient():
    x = torch.tensor([[-2.0]], dtype=torch.float64)
    eta = torch.zeros(1, dtype=torch.float64, requires_grad=True)
    y = gw.functional.iieu_b(x, 1.0, shift=0.5, eta=eta)
    (gradient,) = torch.autograd.grad(y.sum(), eta)
    assert y.item() == 0
    assert float(gradient) == pytest.approx(-2 * torch.tensor(-1.5).exp().item())


def test_no_branch_that_is_not_taken_overflows():
    x = torch.tensor([[1e6, -1e6, 3e38, -3e38]], requires_grad=True)
    y = gw.functional.iieu_b(x, 1.0)
    assert y[0, 0] > 0.99e12 and y[0, 1] == 0 and y[0, 2] == torch.inf and y[0, 3] == 0
    (gradient,) = torch.autograd.grad(y.sum(), x)
    assert not gradient.isnan().any() and gradient[0, 1] == 0


@pytest.mark.parametrize(
    "shift",
    [
        0.3,
        torch.full((3,), 0.3),
        torch.full((2, 3), 0.3),
        torch.full((2, 3, 4), 0.3),
        torch.full((1, 1, 4), 0.3),
    ],
)
def test_the_shift_may_be_given_per_channel_per_sample_or_in_full(shift):
    x = torch.randn(2, 3, 4)
    torch.testing.assert_close(
        gw.functional.iieu_b(x, 2.0, shift=shift), gw.functional.iieu_b(x, 2.0, shift=0.3)
    )
    last = shift.movedim(1, -1) if isinstance(shift, torch.Tensor) and shift.dim() == 3 else shift
    turned = gw.functional.iieu_b(x.movedim(1, -1), 2.0, shift=last, dim=-1)
    torch.testing.assert_close(turned.movedim(-1, 1), gw.functional.iieu_b(x, 2.0, shift=0.3))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("patch", torch.ones(2, 3, 5)),
        ("patch", torch.ones(3, 2)),
        ("patch", "long"),
        ("filter_norm", torch.ones(4)),
        ("shift", torch.ones(2, 4)),
        ("shift", torch.ones(1, 2, 3, 4)),
        ("eta", torch.ones(2, 3)),
        ("eta", None),
        ("patch", torch.ones(2, 1, 4, dtype=torch.float64)),
    ],
)
def test_arguments_that_do_not_fit_are_refused(name, value):
    with pytest.raises(ArgumentError):
        gw.functional.iieu_b(torch.ones(2, 3, 4), **({"patch": 1.0} | {name: value}))


# ------------------------------------------------------------------------------------------------


class Block(nn.Module):
    """Convolution, norm and a unit bound to the convolution, each in its own slot."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, 4, 3, stride=2, padding=1)
        self.norm = nn.BatchNorm2d(4)
        self.act = gw.create_unit("iieu_b", conv=self.conv, norm=self.norm)

    def forward(self, x):
        return self.act(self.norm(self.conv(x)), x)


class Handed(Block):
    """The same, where the unit holds no reference and is handed the layer."""

    def __init__(self) -> None:
        super().__init__()
        self.act = gw.create_unit("iieu_b", channels=4)

    def forward(self, x):
        return self.act(self.norm(self.conv(x)), x, conv=self.conv)


def test_a_bound_unit_does_not_register_the_layer_again():
    block = Block()
    assert [name for name, _ in block.act.named_parameters()] == [
        "eta",
        "shift.weight",
        "shift.bias",
    ]
    assert {name.split(".")[0] for name in block.state_dict()} == {"conv", "norm", "act"}
    assert not list(block.act.named_modules(remove_duplicate=False))[2:]  # itself and its Term-B
    assert len(block.state_dict()) == 2 + 5 + 3


def test_bound_handed_and_wrapped_forms_compute_the_same():
    block, handed = Block(), Handed()
    handed.load_state_dict(block.state_dict())
    whole = ConvIIEU(block.conv, block.norm)
    x = torch.randn(2, 3, 7, 6)
    for each in (block, handed, whole):
        each.eval()
    assert torch.equal(block(x), whole(x))
    assert torch.equal(handed(x), whole(x))


def test_a_copy_of_a_block_reads_the_copys_convolution():
    block = Block().eval()
    twin, x = copy.deepcopy(block), torch.randn(2, 3, 7, 6)
    want = block(x)
    with torch.no_grad():
        block.conv.weight.mul_(5)
    assert torch.equal(twin(x), want)
    with torch.no_grad():
        twin.conv.weight.mul_(5)
    assert torch.equal(twin(x), block(x)) and not torch.equal(twin(x), want)


@pytest.mark.slow
@pytest.mark.parametrize("build", [Block, Handed])
def test_units_in_their_own_slot_work_in_every_mode(build):
    check_layer(
        build,
        (2, 3, 4, 4),
        seed=3,
        only=[
            "state_survives",
            "compiles_whole_and_once",
            "exports",
            "gradients_match_finite_differences",
            "every_parameter_receives_a_gradient",
        ]
        if build is Block
        else ["exports", "state_survives"],
    )


def test_without_a_layer_the_unit_is_that_of_the_identity():
    unit = gw.nn.IIEUB(channels=5)
    conv = nn.Conv2d(5, 5, 1, bias=False)
    nn.init.dirac_(conv.weight)
    layer = ConvIIEU(conv)
    layer.unit.load_state_dict(unit.state_dict())
    x = torch.randn(2, 5, 4, 3)
    torch.testing.assert_close(unit(x), layer(x))
    torch.testing.assert_close(
        gw.nn.IIEUB(channels=5, dim=-1)(x.movedim(1, -1)), unit(x).movedim(1, -1)
    )
    torch.testing.assert_close(unit.terms(x).similarity, torch.nn.functional.normalize(x, dim=1))


def test_a_unit_bound_to_a_linear_layer_works_on_sequences():
    linear = nn.Linear(5, 4)
    unit = gw.create_unit("iieu_b", conv=linear)
    x = torch.randn(2, 7, 5)
    assert unit(linear(x), x).shape == (2, 7, 4)
    assert unit.dim == -1 and unit.channels == 4


def test_a_bound_unit_is_made_where_the_layer_is_and_in_its_dtype():
    unit = gw.create_unit("iieu_b", conv=nn.Conv2d(3, 4, 3, device="meta", dtype=torch.bfloat16))
    assert unit.eta.device.type == unit.shift.bias.device.type == "meta"
    assert unit.eta.dtype == unit.shift.weight.dtype == torch.bfloat16


def test_half_of_what_the_unit_needs_is_an_error_that_says_which():
    conv, x = nn.Conv2d(3, 4, 1), torch.randn(2, 3, 4, 4)
    with pytest.raises(ArgumentError, match="no input of the layer"):
        gw.create_unit("iieu_b", conv=conv)(conv(x))
    with pytest.raises(ArgumentError, match="no layer"):
        gw.create_unit("iieu_b", channels=4)(conv(x), x)
    with pytest.raises(ArgumentError):
        gw.create_unit("iieu_b", channels=4)(conv(x), x, conv=nn.ReLU())
    with pytest.raises(ArgumentError):
        gw.create_unit("iieu_b")
    with pytest.raises(ArgumentError):
        gw.create_unit("iieu_b", conv=conv, channels=5)
    with pytest.raises(ArgumentError, match="batch dimension"):
        gw.create_unit("iieu_b", channels=4, dim=0)(torch.ones(4, 4))


def test_a_kept_filter_norm_outlives_changes_of_the_layer():
    block, x = Block().eval(), torch.randn(2, 3, 7, 6)
    y, want = block.norm(block.conv(x)), block(x)
    block.act.keep_filter_norm(block.conv)
    with torch.no_grad():
        block.conv.weight.mul_(3)
    # A stored length is a sum in another order, and rounded once more.
    torch.testing.assert_close(block.act(y, x), want, rtol=2.0**-20, atol=2.0**-24)


def test_lengths_are_not_detached():
    conv, x = nn.Conv2d(3, 4, 3), torch.randn(1, 3, 5, 5, requires_grad=True)
    unit = gw.create_unit("iieu_b", conv=conv)
    response = conv(x).detach()  # so that gradients come by the lengths alone
    gradients = torch.autograd.grad(unit(response, x).square().sum(), (conv.weight, x))
    assert all(g.abs().max() > 1e-3 for g in gradients)


@pytest.mark.slow
def test_iieu_b_keeps_the_contract_of_units():
    check_unit("iieu_b", channels=6)


@pytest.mark.slow
@pytest.mark.parametrize("options", gw.get_unit("iieu_b").samples[1:], ids=str)
def test_iieu_b_with_other_options_keeps_the_part_of_it_that_depends_on_them(options):
    names = (
        "module_and_function_agree parameters_are_declared state_survives repr_can_be_read_back "
        "bad_input_gets_our_error wide_parameters_are_refused gradients_match_finite_differences "
        "functional_transforms_agree channels_last_is_kept "
        "exports autocast_keeps_the_input_dtype half_precision_modules_work "
        "works_on_the_meta_device trains"
    )
    check_unit("iieu_b", only=names.split(), **options)
