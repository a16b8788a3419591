"""What has no kernel, or cannot be asked for, is refused in words.

And the model is left as it was, always.
"""

import copy

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import gatewise as gw
from gatewise.errors import ArgumentError

X = torch.randn(4, 5)


def model() -> nn.Module:
    return nn.Sequential(nn.Linear(5, 4), nn.Tanh(), nn.Linear(4, 2))


class Calls(nn.Module):
    """A layer, and any function after it."""

    def __init__(self, function, layer: nn.Module | None = None):
        super().__init__()
        self.layer, self.function = layer or nn.Linear(5, 2), function

    def forward(self, x: Tensor) -> Tensor:
        return self.function(self.layer(x))


def with_nan() -> nn.Module:
    broken = model()
    broken[0].weight.data[0, 0] = torch.nan
    return broken


def huge() -> nn.Module:
    """Finite outputs, and a kernel beyond float32."""
    return Calls(lambda y: 1e25 * y)


REFUSED = {  # what is asked: what the error says
    "no module": (lambda: gw.analysis.ntk(torch.tanh, X), "a model is needed"),
    "no parameters": (lambda: gw.analysis.ntk(nn.Tanh(), X), "the model has no parameters"),
    "nothing trained": (
        lambda: gw.analysis.ntk(model().requires_grad_(False), X),
        r"requires a gradient.*parameters='\*'",
    ),
    "no such name": (
        lambda: gw.analysis.ntk(model(), X, parameters="conv.*"),
        r"matches nothing; got: conv\.\*; allowed: 0\.weight",
    ),
    "one of two names": (
        lambda: gw.analysis.ntk(model(), X, parameters=["0.*", "b"]),
        r"does not have; got: b; allowed: 0\.weight",
    ),
    "another's parameter": (
        lambda: gw.analysis.ntk(model(), X, parameters=model().parameters()),
        r"got: a tensor of shape \(4, 5\)",
    ),
    "a number": (
        lambda: gw.analysis.ntk(model(), X, parameters=3),
        "parameters is not a choice of parameters; got: int",
    ),
    "no samples": (
        lambda: gw.analysis.ntk(model(), X[:0]),
        r"x has no samples; got: shape \(0, 5\)",
    ),
    "a scalar": (lambda: gw.analysis.ntk(model(), torch.tensor(1.0)), "x has no samples"),
    "a list": (
        lambda: gw.analysis.ntk(model(), [[1.0]]),
        "x must be a tensor or a tuple of tensors; got: list",
    ),
    "an empty tuple": (lambda: gw.analysis.ntk(model(), ()), "got: an empty tuple"),
    "two batch sizes": (
        lambda: gw.analysis.ntk(nn.Bilinear(5, 5, 1), (X, X[:2])),
        "x differ in their number of samples",
    ),
    "another shape": (
        lambda: gw.analysis.ntk(model(), X, torch.randn(4, 6)),
        r"x2 differs from x.*\(4, 6\)",
    ),
    "another dtype": (
        lambda: gw.analysis.ntk(model(), X, X.double()),
        r"x2 differs from x.*float64",
    ),
    "integers": (
        lambda: gw.analysis.ntk(model(), torch.ones(4, 5).long()),
        r"cannot be run on x \(RuntimeError.*got: torch.int64 \(1, 5\)",
    ),
    "doubles for floats": (
        lambda: gw.analysis.ntk(model(), X.double()),
        r"got: torch.float64 \(1, 5\).*parameters are torch.float32",
    ),
    "too many features": (
        lambda: gw.analysis.ntk(model(), torch.randn(4, 6)),
        "cannot be run on x",
    ),
    "half precision": (
        lambda: gw.analysis.ntk(model().half(), X.half()),
        r"float32 or float64; got: 0\.weight: torch.float16",
    ),
    "complex": (
        lambda: gw.analysis.ntk(nn.Linear(5, 1, dtype=torch.complex64), X + 0j),
        "must be float32 or float64",
    ),
    "two dtypes": (
        lambda: gw.analysis.ntk(nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 1).double()), X),
        "differ in dtype or device",
    ),
    "two devices": (
        lambda: gw.analysis.ntk(nn.Sequential(nn.Linear(5, 4), nn.Linear(4, 1, device="meta")), X),
        "dtype or device",
    ),
    "lazy": (lambda: gw.analysis.ntk(nn.LazyLinear(3), X), "a lazy layer has no weights yet"),
    "a tuple back": (
        lambda: gw.analysis.ntk(Calls(lambda y: (y, y)), X),
        "must return one tensor; got: tuple",
    ),
    "no batch back": (
        lambda: gw.analysis.ntk(Calls(lambda y: y.mean()), X),
        r"a row of numbers for each sample; got: shape \(\)",
    ),
    "batch elsewhere": (
        lambda: gw.analysis.ntk(Calls(lambda y: y.mT), X),
        r"got: shape \(2, 1\) for 1 samples",
    ),
    "no numbers back": (
        lambda: gw.analysis.ntk(Calls(lambda y: y[:, :0]), X),
        "a row of numbers for each sample",
    ),
    "integers back": (
        lambda: gw.analysis.ntk(Calls(lambda y: y.argmax(1)), X),
        "of its parameters' dtype; got: torch.int64",
    ),
    "batch norm": (
        lambda: gw.analysis.ntk(nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3)), X),
        r"BatchNorm1d at '1'; fix: model.eval\(\)",
    ),
    "batch statistics": (
        lambda: gw.analysis.ntk(
            nn.Sequential(nn.Linear(5, 3), nn.BatchNorm1d(3, track_running_stats=False)).eval(), X
        ),
        "fix: build it with track_running_stats=True",
    ),
    "dropout": (
        lambda: gw.analysis.ntk(nn.Sequential(nn.Linear(5, 3), nn.Dropout()), X),
        r"draws at random.*Dropout at '1'; fix: model.eval",
    ),
    "attention dropout": (
        lambda: gw.analysis.ntk(nn.MultiheadAttention(4, 2, dropout=0.1), X),
        "draws at random",
    ),
    "random rectifier": (
        lambda: gw.analysis.ntk(nn.Sequential(nn.Linear(5, 3), nn.RReLU()), X),
        "draws at random",
    ),
    "dropout in a function": (
        lambda: gw.analysis.ntk(Calls(lambda y: F.dropout(y, 0.5)), X),
        r"draws at random.*F\.dropout\(\.\.\., training=self\.training\)",
    ),
    "mean over the batch": (
        lambda: gw.analysis.ntk(Calls(lambda y: y - y.mean(0)), X),
        "mixes samples or draws at random",
    ),
    "running sum": (lambda: gw.analysis.ntk(Calls(lambda y: y.cumsum(0)), X), "mixes samples"),
    "mean, by jacobian": (
        lambda: gw.analysis.ntk(Calls(lambda y: y - y.mean(0)), X, method="jacobian"),
        "mixes samples",
    ),
    "max norm": (
        lambda: gw.analysis.ntk(nn.Embedding(5, 2, max_norm=1.0), torch.ones(4, 1).long()),
        "changes its weights",
    ),
    "frequencies": (
        lambda: gw.analysis.ntk(
            nn.Embedding(5, 2, scale_grad_by_freq=True), torch.ones(4, 1).long()
        ),
        "not derivatives",
    ),
    "hidden parts": (
        lambda: gw.analysis.ntk(Calls(lambda y: checkpoint(torch.tanh, y, use_reentrant=True)), X),
        "a reentrant checkpoint hides the parameters",
    ),
    "nan in the weights": (lambda: gw.analysis.ntk(with_nan(), X), "output is not finite"),
    "nan in a sample": (
        lambda: gw.analysis.ntk(model(), torch.cat((X, torch.full((1, 5), torch.nan)))),
        "kernel is not finite",
    ),
    "overflow": (
        lambda: gw.analysis.ntk(huge(), X),
        "the kernel is not finite; got: row 0, column 0; fix: .*float64",
    ),
    "no values": (
        lambda: gw.analysis.ntk(model(), X.to("meta")),
        "x has no values; got: a tensor on the meta device",
    ),
    "no memory": (
        lambda: gw.analysis.ntk(model(), X, memory=0),
        "memory is not allowed",
    ),
    "memory in words": (
        lambda: gw.analysis.ntk(model(), X, memory="1 GiB"),
        "memory is not allowed",
    ),
    "little memory": (
        lambda: gw.analysis.ntk(model(), X, memory=100),
        r"too small; got: 100 bytes; allowed: at least \d+ bytes",
    ),
    "another method": (
        lambda: gw.analysis.ntk(model(), X, method="jacobain"),
        "did you mean 'jacobian'",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_asked_for_is_refused_in_words(name: str):
    ask, says = REFUSED[name]
    with pytest.raises(ArgumentError, match=says) as caught:
        ask()
    assert str(caught.value).startswith(("ntk: ", "there is no method of ntk"))
    assert "\n" not in str(caught.value)


class Restless(nn.Module):
    """Counts its calls, keeps a number of the last, and has parameters of every state."""

    def __init__(self):
        super().__init__()
        self.a, self.b, self.out = (
            nn.Linear(5, 4),
            nn.Linear(4, 4).requires_grad_(False),
            nn.Linear(4, 1),
        )
        self.unit = nn.PReLU()
        self.register_buffer("calls", torch.zeros(()))
        self.register_buffer("last", torch.zeros(1))
        self.break_at = None

    def forward(self, x: Tensor) -> Tensor:
        self.calls += 1
        self.last = x[0, :3].detach()
        if self.break_at == x.shape[0]:
            raise RuntimeError("broken")
        return self.out(self.unit(self.b(self.a(x).relu_())))


def facts(model: nn.Module) -> dict:
    return {
        "state": copy.deepcopy(model.state_dict()),
        "flags": [p.requires_grad for p in model.parameters()],
        "grads": [None if p.grad is None else p.grad.clone() for p in model.parameters()],
        "training": [m.training for m in model.modules()],
        "hooks": [len(m._forward_hooks) + len(m._forward_pre_hooks) for m in model.modules()],
        "random": torch.get_rng_state(),
        "buffers": [id(buffer) for buffer in model.buffers()],
        "fused attention": torch.backends.mha.get_fastpath_enabled(),
        "gradients": torch.is_grad_enabled(),
    }


@pytest.mark.parametrize("break_at", [None, 1, 4])
@pytest.mark.parametrize("method", ["auto", "jacobian"])
def test_the_model_is_left_as_it_was_also_after_an_error(break_at: int | None, method: str):
    model = Restless()
    model.a.weight.grad = torch.ones(4, 5)
    model.unit.train(False)
    model.break_at = break_at
    before, x = facts(model), X.clone()
    if break_at is None:
        gw.analysis.ntk(model, x, method=method, parameters="*")
    else:
        with pytest.raises(ArgumentError, match="broken"):
            gw.analysis.ntk(model, x, method=method, parameters="*")
    torch.testing.assert_close(facts(model), before, rtol=0, atol=0)
    assert torch.equal(x, X)


@pytest.mark.parametrize(
    "mode", [torch.no_grad, torch.inference_mode, lambda: torch.autocast("cpu", torch.bfloat16)]
)
def test_the_callers_modes_do_not_matter(mode):
    model = Calls(torch.tanh)
    want = gw.analysis.ntk(model, X)
    with mode():
        assert torch.equal(gw.analysis.ntk(model, X), want)
        assert torch.equal(gw.analysis.ntk(model, X + 0), want)


def test_an_input_that_needs_a_gradient_gets_none():
    x = X.clone().requires_grad_()
    kernel = gw.analysis.ntk(model(), x)
    assert not kernel.requires_grad and x.grad is None and x.requires_grad
