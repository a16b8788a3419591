"""Every use of a parameter counts.

What a layer's calls do not show is noticed, and taken another way.
"""

import pytest
import torch
from tangent_kernels import error, explicit_ntk
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, parametrize, prune
from torch.utils.checkpoint import checkpoint

import gatewise as gw
from gatewise.analysis.tangent_kernel import Jacobians, ntk_routes

EXACT = 1e-12


class Form(nn.Module):
    """Two square layers, an output, and a forward pass of one's own."""

    def __init__(self, forward):
        super().__init__()
        self.a, self.b, self.out, self.way = (
            nn.Linear(4, 4),
            nn.Linear(4, 4),
            nn.Linear(4, 2),
            forward,
        )

    def forward(self, x: Tensor) -> Tensor:
        return self.way(self, x)


def tied() -> nn.Module:
    model = Form(lambda m, x: m.out(m.b(m.a(x).tanh()).tanh()))
    model.b.weight = model.a.weight
    return model


def with_hook() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    model[0].register_forward_hook(lambda module, args, output: output * 3)
    model[2].register_forward_pre_hook(lambda module, args: (args[0].sin(),))
    return model


def own_forward() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    model[0].forward = lambda x: F.linear(x, model[0].weight, model[0].bias) * 2
    return model


class Doubled(nn.Linear):
    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


class Twice(nn.Module):
    def forward(self, weight: Tensor) -> Tensor:
        return 2 * weight


def reparametrised() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    parametrize.register_parametrization(model[0], "weight", Twice())
    return model


def pruned() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    prune.l1_unstructured(model[0], "weight", 0.5)
    return model


def run_in_parts(m: Form, x: Tensor) -> Tensor:
    return m.out(
        checkpoint(lambda z: m.b(m.a(z).tanh()).tanh(), x.requires_grad_(), use_reentrant=False)
    )


def branch_on_data(m: Form, x: Tensor) -> Tensor:
    """Each sample is sent to one of two experts, which sees only its own samples."""
    out = torch.zeros_like(x)
    for expert, chosen in ((m.a, x[:, 0] > 0), (m.b, x[:, 0] <= 0)):
        if chosen.any():
            out[chosen] = expert(x[chosen])
    return m.out(out.tanh())


FORMS = {  # how the model is made: which parameters have no closed form
    "called three times": (lambda: Form(lambda m, x: m.out(m.a(m.a(m.a(x).tanh()).tanh()))), set()),
    "called on two shapes": (
        lambda: Form(lambda m, x: m.out(m.a(x) + m.a(torch.stack((x, x.sin()), 1)).sum(1).tanh())),
        set(),
    ),
    "called by keyword": (
        lambda: Form(lambda m, x: m.out(m.a(input=x).tanh())),
        {"a.weight", "a.bias"},
    ),
    "tied": (tied, {"a.weight"}),
    "weight read by a function": (
        lambda: Form(lambda m, x: m.out(F.linear(m.a(x).tanh(), m.a.weight))),
        {"a.weight"},
    ),
    "bias read by a function": (
        lambda: Form(lambda m, x: m.out(m.a(x).tanh() * m.a.bias)),
        {"a.bias"},
    ),
    "weight read by a loss": (
        lambda: Form(lambda m, x: m.out(m.a(x)) + m.b.weight.square().sum()),
        {"b.weight"},
    ),
    "never called": (lambda: Form(lambda m, x: m.out(x)), set()),
    "called, and its result dropped": (
        lambda: Form(lambda m, x: (m.a(x), m.out(m.b(x).sin()))[1]),
        set(),
    ),
    "called in no_grad": (
        lambda: Form(lambda m, x: m.out(m.b(x) * torch.no_grad()(m.a)(x))),
        set(),
    ),
    "detached": (lambda: Form(lambda m, x: m.out(m.b(x) * m.a(x).detach())), set()),
    "output hooked": (with_hook, set()),
    "forward of its own": (own_forward, {"0.weight", "0.bias"}),
    "subclass": (
        lambda: nn.Sequential(Doubled(4, 4), nn.Tanh(), nn.Linear(4, 2)),
        {"0.weight", "0.bias"},
    ),
    "reparametrised": (reparametrised, {"0.parametrizations.weight.original"}),
    "weight norm": (
        lambda: nn.Sequential(
            parametrizations.weight_norm(nn.Linear(4, 4)), nn.Tanh(), nn.Linear(4, 2)
        ),
        {"0.parametrizations.weight.original0", "0.parametrizations.weight.original1"},
    ),
    "pruned": (pruned, {"0.weight_orig"}),
    "checkpointed": (lambda: Form(run_in_parts), set()),
    "rows turned round": (lambda: Form(lambda m, x: m.out(m.a(x.flip(0)).tanh().flip(0))), None),
    "rows side by side": (
        lambda: Form(lambda m, x: m.out(m.a(torch.cat((x, x.sin()))).tanh()[: len(x)])),
        {"a.weight", "a.bias"},
    ),
    "experts": (lambda: Form(branch_on_data), None),
}


@pytest.mark.parametrize("name", FORMS)
def test_kernel_is_right_however_parameters_are_used(name: str):
    make, jacobian = FORMS[name]
    model, x = make().double(), torch.randn(5, 4).double()
    want = explicit_ntk(model, x)
    assert error(gw.analysis.ntk(model, x), want) < EXACT
    assert error(gw.analysis.ntk(model, x, method="jacobian"), want) < EXACT
    assert error(gw.analysis.ntk(model, x[:2], x[2:]), want[:2, 2:]) < EXACT
    if jacobian is not None:  # None: seen only in a batch
        routes = ntk_routes(model, x)
        assert {
            parameter for parameter, route in routes.items() if route != "layerwise"
        } == jacobian


def test_routes_say_why():
    routes = ntk_routes(tied(), torch.randn(3, 4))
    assert routes["a.weight"] == "jacobian: shared by 2 layers"
    assert routes["a.bias"] == routes["out.weight"] == "layerwise"
    used = ntk_routes(FORMS["weight read by a function"][0](), torch.randn(3, 4))
    assert used["a.weight"] == "jacobian: used 2 times in 1 calls of its layer"


def test_routes_are_of_the_chosen_parameters():
    model = nn.Sequential(nn.Linear(4, 4), nn.PReLU(), nn.Linear(4, 1))
    assert ntk_routes(model, torch.randn(3, 4), parameters="1.*") == {
        "1.weight": "jacobian: no closed form for weight of PReLU"
    }


def test_layerwise_refuses_what_has_no_closed_form():
    model = nn.Sequential(nn.Linear(4, 4), nn.PReLU(), nn.Linear(4, 1))
    with pytest.raises(
        gw.errors.ArgumentError, match=r"1\.weight: jacobian: no closed form for weight of PReLU"
    ):
        gw.analysis.ntk(model, torch.randn(3, 4), method="layerwise")
    x = torch.randn(3, 4)
    assert torch.equal(
        gw.analysis.ntk(model[0], x, method="layerwise"), gw.analysis.ntk(model[0], x)
    )


def test_a_layer_that_turns_out_unfit_is_refused_too():
    model = FORMS["rows turned round"][0]().double()
    with pytest.raises(
        gw.errors.ArgumentError, match="rows of its layer's input are not those of the samples"
    ):
        gw.analysis.ntk(model, torch.randn(5, 4).double(), method="layerwise")


@pytest.mark.parametrize("samples", [1, 2, 3, 4, 5, 6, 7, 12, 13])
def test_rows_that_are_turned_round_are_noticed_in_batches_of_any_size(samples: int):
    model, x = FORMS["rows turned round"][0]().double(), torch.randn(samples, 4).double()
    assert error(gw.analysis.ntk(model, x), explicit_ntk(model, x)) < EXACT


def test_a_compiled_model_is_the_model_inside():
    model, x = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)), torch.randn(3, 4)
    assert torch.equal(gw.analysis.ntk(torch.compile(model), x), gw.analysis.ntk(model, x))


def test_a_wrong_vectorised_jacobian_is_noticed(monkeypatch: pytest.MonkeyPatch):
    def planted(self, inputs):
        return {
            name: torch.ones(len(inputs[0]), 2, each.numel()).double()
            for name, each in self.rest.items()
        }

    monkeypatch.setattr(Jacobians, "_all_at_once", planted)
    model, x = FORMS["called three times"][0]().double(), torch.randn(5, 4).double()
    assert error(gw.analysis.ntk(model, x, method="jacobian"), explicit_ntk(model, x)) < EXACT
