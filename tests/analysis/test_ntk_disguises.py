"""Layers that are not run as they seem.

With other weights, in another precision, behind hooks, inside a derivative.
"""

import pytest
import torch
from tangent_kernels import error, explicit_ntk
from torch import Tensor, nn
from torch.func import functional_call, grad, vmap
from torch.nn import functional as F
from torch.nn.modules.module import register_module_forward_hook
from torch.nn.utils import parametrizations, parametrize

import gatewise as gw
from gatewise.analysis.tangent_kernel import ntk_routes

EXACT = 1e-12


class Form(nn.Module):
    """Any layers, and a forward pass of one's own."""

    def __init__(self, forward, **layers: nn.Module):
        super().__init__()
        self.way = forward
        for name, layer in layers.items():
            self.add_module(name, layer)

    def forward(self, x: Tensor) -> Tensor:
        return self.way(self, x)


def form(forward) -> Form:
    return Form(forward, a=nn.Linear(4, 4), b=nn.Linear(4, 2))


def with_weights(layer: nn.Module, x: Tensor, change) -> Tensor:
    return functional_call(layer, {"weight": change(layer.weight)}, (x,))


def swapped_by_hand(m: Form, x: Tensor) -> Tensor:
    own = m.a._parameters["weight"]
    m.a._parameters["weight"] = own * 2
    hidden = m.a(x)
    m.a._parameters["weight"] = own
    return m.b(hidden.tanh())


def swapped_by_hooks() -> nn.Module:
    model, kept = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)), []

    def swap(layer, args):
        kept.append(layer._parameters["weight"])
        layer._parameters["weight"] = kept[-1] * 0.5

    def put_back(layer, args, output):
        layer._parameters["weight"] = kept.pop()

    model[0].register_forward_pre_hook(swap)
    model[0].register_forward_hook(put_back)
    return model


def crossed(m: Form, x: Tensor) -> Tensor:
    """Each of two layers is run with the other's parameters, as often as its own would be."""
    hidden = functional_call(m.a, dict(m.c.named_parameters()), (x,)).tanh()
    return m.b(functional_call(m.c, dict(m.a.named_parameters()), (hidden,)).tanh())


class Squared(nn.Linear):
    """Its weight is the square of its parameter of that name."""

    @property
    def weight(self):
        return self._parameters["weight"].square()


def squared() -> nn.Module:
    layer = nn.Linear(4, 2)
    layer.__class__ = Squared
    return layer


def set_anew(m: Form, x: Tensor) -> Tensor:
    """One kernel with two dilations, as it was afterwards."""
    first = m.c(x[:, None])
    m.c.dilation, m.c.padding = (2,), (2,)
    second = m.c(first.tanh())
    m.c.dilation, m.c.padding = (1,), (1,)
    return (first * second).flatten(1)


def widened() -> nn.Module:
    """A convolution whose padding and dilation were set after it was made."""
    model = nn.Sequential(
        nn.Unflatten(1, (1, 4)), nn.Conv1d(1, 2, 3, padding=1), nn.Tanh(), nn.Flatten()
    )
    model[1].dilation, model[1].padding = (2,), (2,)
    return model


def old_hook() -> nn.Module:
    model = nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2))
    model[0].register_backward_hook(
        lambda layer, into, out: tuple(None if each is None else 2 * each for each in into)
    )
    return model


def slope_by_autograd(m: Form, x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    energy = m.b(m.a(x).tanh()).square().sum()
    return torch.autograd.grad(energy, x, create_graph=True)[0]


def slope_by_func(m: Form, x: Tensor) -> Tensor:
    return vmap(grad(lambda z: m.b(m.a(z).tanh()).square().sum()))(x)


# how the model is made: part of the reason that its first parameter has no closed form, None if it
# has
DISGUISES = {
    "twice its weight": (
        lambda: form(lambda m, x: m.b(with_weights(m.a, x, lambda w: 2 * w))),
        "another tensor",
    ),
    "a convolution with the cube": (
        lambda: Form(
            lambda m, x: with_weights(m.c, x[:, None], lambda w: w**3).flatten(1),
            c=nn.Conv1d(1, 2, 3),
        ),
        "another tensor",
    ),
    "swapped by hand": (lambda: form(swapped_by_hand), "another tensor"),
    "swapped by hooks": (swapped_by_hooks, "another tensor"),
    "crossed": (
        lambda: Form(crossed, a=nn.Linear(4, 4), b=nn.Linear(4, 2), c=nn.Linear(4, 4)),
        "another tensor",
    ),
    "a property": (lambda: Form(lambda m, x: m.s(x).tanh(), s=squared()), "another tensor"),
    "set anew": (lambda: Form(set_anew, c=nn.Conv1d(1, 1, 3, padding=1)), "settings change"),
    "set later": (widened, None),
    "slopes by autograd": (lambda: form(slope_by_autograd), "in the forward pass"),
    "slopes by torch.func": (lambda: form(slope_by_func), "calls of its layer"),
    "vectorised inside": (
        lambda: form(lambda m, x: m.b(vmap(m.a)(x).tanh())),
        "calls of its layer",
    ),
    "an old backward hook": (old_hook, "old kind"),
}


@pytest.mark.filterwarnings("ignore:Using a non-full backward hook:FutureWarning")
@pytest.mark.parametrize("name", DISGUISES)
def test_a_layer_in_disguise_is_seen_through(name: str):
    make, reason = DISGUISES[name]
    model, x = make().double(), torch.randn(5, 4).double()
    want = explicit_ntk(model, x)
    assert error(gw.analysis.ntk(model, x), want) < EXACT
    assert error(gw.analysis.ntk(model, x, method="jacobian"), want) < EXACT
    route = next(iter(ntk_routes(model, x).values()))
    assert route == "layerwise" if reason is None else reason in route


def test_a_hook_on_all_modules_is_part_of_the_model():
    model, x = (
        nn.Sequential(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 2)).double(),
        torch.randn(5, 4).double(),
    )
    plain = gw.analysis.ntk(model, x)
    handle = register_module_forward_hook(
        lambda module, args, out: 2 * out if isinstance(module, nn.Linear) else None
    )
    try:
        want, got = explicit_ntk(model, x), gw.analysis.ntk(model, x)
    finally:
        handle.remove()
    assert error(got, want) < EXACT
    assert error(plain, want) > 0.1


@pytest.mark.parametrize("again", [True, False], ids=["read again by a function", "read once"])
def test_autocast_inside_a_model_hides_no_use(again: bool):
    def forward(m: Form, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            hidden = m.a(x).tanh()
            return (F.linear(hidden, m.a.weight) if again else m.b(hidden)).float()

    model, x = form(forward), torch.randn(5, 4)
    assert ntk_routes(model, x)["a.weight"].startswith("jacobian")
    # With a copy for each use, gradients of two uses are added in float32 and not in bfloat16,
    # whose eps is 2**-7.
    assert error(gw.analysis.ntk(model, x), explicit_ntk(model, x)) < (2**-7 if again else 1e-6)


def test_hooks_on_parameters_are_no_part_of_the_model():
    model, x = (
        nn.Sequential(nn.Linear(4, 4), nn.PReLU(4), nn.Linear(4, 2)).double(),
        torch.randn(5, 4).double(),
    )
    want, calls = explicit_ntk(model, x), []
    handles = [
        each.register_hook(lambda slope: calls.append(1) or 0 * slope)
        for each in model.parameters()
    ]
    for method in ("auto", "jacobian"):
        assert error(gw.analysis.ntk(model, x, method=method), want) < EXACT
    assert not calls
    model(x).sum().backward()
    assert len(calls) == 5 and not model[0].weight.grad.any()  # they are there again
    for handle in handles:
        handle.remove()
    assert error(explicit_ntk(model, x), want) == 0


def test_hooks_that_a_forward_pass_sets_on_parameters_are_left_out_too():
    def forward(m: Form, x: Tensor) -> Tensor:
        for parameter in m.parameters():
            if parameter.requires_grad:
                parameter.register_hook(lambda slope: 0 * slope)
        return m.b(m.a(x).tanh())

    model, x = form(forward).double(), torch.randn(5, 4).double()
    want = gw.analysis.ntk(nn.Sequential(model.a, nn.Tanh(), model.b), x)
    for method in ("auto", "jacobian"):
        assert error(gw.analysis.ntk(model, x, method=method), want) < EXACT
    assert not model.a.weight._backward_hooks


def test_cached_parametrisations_make_no_difference():
    model = nn.Sequential(
        parametrizations.weight_norm(nn.Linear(4, 4)), nn.Tanh(), nn.Linear(4, 2)
    ).double()
    x = torch.randn(5, 4).double()
    want = explicit_ntk(model, x)
    with parametrize.cached():
        assert error(gw.analysis.ntk(model, x), want) < EXACT
        with torch.no_grad():
            model(x)  # fills the cache with weights that have no graph
        assert error(gw.analysis.ntk(model, x), want) < EXACT
        assert parametrize._cache_enabled


def test_one_token_per_sample_is_a_batch_of_tokens():
    model = nn.Sequential(nn.Embedding(5, 3, padding_idx=1), nn.Tanh(), nn.Linear(3, 2)).double()
    x = torch.tensor([0, 1, 1, 4, 3, 0])
    assert set(ntk_routes(model, x).values()) == {"layerwise"}
    assert error(gw.analysis.ntk(model, x), explicit_ntk(model, x)) < EXACT


def test_memory_is_kept_to_where_torch_cannot_say_what_a_model_keeps():
    model, x = form(slope_by_func).double(), torch.randn(9, 4).double()
    want = explicit_ntk(model, x)
    with pytest.raises(gw.errors.ArgumentError, match=r"too small.*fix: memory=\d+") as refused:
        gw.analysis.ntk(model, x, memory=1)
    smallest = int(str(refused.value).rpartition("=")[2])
    assert error(gw.analysis.ntk(model, x, memory=smallest), want) < EXACT
