"""Every public call leaves a model, and the random state, as they were."""

import copy
import random
import warnings
from collections import deque

import numpy as np
import pytest
import torch
from gatewise_papers import deep_gated
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

import gatewise as gw
from gatewise.errors import GatewiseError

X = torch.randn(4, 8)


class Block(nn.Module):
    """Two activations, and one linear layer between them that a case changes."""

    def __init__(self, change=None):
        super().__init__()
        self.first = nn.Linear(8, 8)
        middle = nn.Linear(8, 8)
        self.middle = middle if change is None else change(middle)
        self.norm = nn.BatchNorm1d(8)
        self.last = nn.Linear(8, 3)

    def forward(self, x):
        return self.last(F.relu(self.norm(self.middle(F.relu(self.first(x))))))


class Noisy(Block):
    """Draws from generators of its own, and from the global ones."""

    def __init__(self):
        super().__init__()
        self.generator = torch.Generator()
        self.numpy_generator = np.random.default_rng(0)
        self.python_generator = random.Random(0)  # noqa: S311  not for secrets
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        self.kept = x.detach()
        noise = torch.randn(x.shape, generator=self.generator) + torch.randn(x.shape)
        scale = self.numpy_generator.random() + self.python_generator.random()
        scale += np.random.rand() + random.random()  # noqa: S311  the global states
        return super().forward(x + 1e-6 * scale * noise)


class Shared(Block):
    """One layer and one activation under two names, with one weight for two layers."""

    def __init__(self):
        super().__init__()
        self.again = self.middle
        self.act = self.other_act = nn.ReLU()
        self.last.weight = nn.Parameter(torch.randn(3, 8))
        self.tied = nn.Linear(8, 3)
        self.tied.weight = self.last.weight

    def forward(self, x):
        h = self.other_act(self.again(self.act(self.middle(x))))
        return self.last(h) + self.tied(h)


class Caching(Block):
    """Keeps what it derives from a parameter, and other things, in plain attributes."""

    def __init__(self, *, filled=False):
        super().__init__()
        self.bias = nn.Parameter(torch.randn(16))
        self.cache = {}
        self.nested = {"sizes": {}}
        self.history = []
        self.seen = set()
        self.recent = deque(maxlen=2)
        self.total = torch.zeros(8)
        if filled:
            self.eval()(X)  # with gradients: torch copies no such tensor

    def forward(self, x):
        if "bias" not in self.cache:
            self.cache["bias"] = self.bias[torch.arange(8)]
        sizes = self.nested["sizes"]
        if len(x) not in sizes:
            sizes[len(x)] = self.bias[:8] * 2
        self.last_bias = self.cache["bias"]
        self.history.append(self.last_bias)
        self.seen.add(x.dtype)
        self.recent.append(len(x))
        self.total += 1
        return super().forward(x + self.cache["bias"] + sizes[len(x)])


def hooked():
    model = Block()
    model.first.register_forward_hook(lambda module, inputs, output: output * 1.0)
    model.norm.register_forward_pre_hook(lambda module, inputs: None)
    model.last.register_full_backward_hook(lambda module, before, after: None)
    model.last.weight.register_hook(lambda gradient: gradient)
    return model


def half_frozen():
    model = Block()
    model.first.requires_grad_(False)
    model.norm.eval()
    model(X).sum().backward()
    return model


def old_spectral_norm(layer):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.utils.spectral_norm(layer)


def old_weight_norm(layer):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return nn.utils.weight_norm(layer)


MODELS = {
    "plain": Block,
    "old spectral norm": lambda: Block(old_spectral_norm),
    "spectral norm": lambda: Block(parametrizations.spectral_norm),
    "old weight norm": lambda: Block(old_weight_norm),
    "weight norm": lambda: Block(parametrizations.weight_norm),
    "lazy": lambda: Block(lambda layer: nn.LazyLinear(8)),
    "hooks": hooked,
    "shared": Shared,
    "generators": Noisy,
    "half frozen": half_frozen,
    "caching": lambda: Caching().eval(),
    "caching in training": Caching,
    "filled cache": lambda: Caching(filled=True),
    "swapped": lambda: gw.swap(Block(), "swish", X),
}
QUICK = ("old spectral norm", "generators", "caching")
CALLS = {
    "find_sites": lambda model: gw.find_sites(model, X),
    "plan": lambda model: gw.plan(model, "silu", X),
    "plan crelu": lambda model: gw.plan(model, "crelu", X),
    "plan psc": lambda model: gw.plan(model, "psc", X, put_back=True),
    "swap": lambda model: gw.swap(model, "silu", X),
    "swap crelu": lambda model: gw.swap(model, "crelu", X, preserve=True),
    "gates": lambda model: gw.gates(model, [X]),
    "gate_flips": lambda model: gw.analysis.gate_flips(model, [X], model),
    "gate_overlap": lambda model: gw.analysis.gate_overlap(model, [X]),
    "invariance": lambda model: gw.analysis.invariance(model, [X]),
    "identify": lambda model: gw.identify(model, example=X[:1]),
    "cost": lambda model: gw.cost(model, X, repeats=1),
    "ntk": lambda model: gw.analysis.ntk(model, X),
    "path_kernel": lambda model: deep_gated.path_kernel(model, X),
    "paths": lambda model: deep_gated.paths(model, X),
    "subnetworks": lambda model: deep_gated.subnetworks(model, X),
    "partition": lambda model: gw.analysis.partition(model, X[:3], steps=8),
    "affine_map": lambda model: gw.analysis.affine_map(model, X),
    "pairing": lambda model: gw.analysis.pairing(model, draws=2),
    "orthogonality": lambda model: gw.analysis.orthogonality(model),
    "region_prior": lambda model: gw.analysis.region_prior(model, draws=2),
    "merge_pairs": lambda model: gw.surgery.merge_pairs(model, X, tolerance=0.1),
    "merge_curve": lambda model: gw.surgery.merge_curve(model, X, tolerances=[0.1]),
    "orthogonalize": lambda model: gw.surgery.orthogonalize(model, X),
    "deploy": lambda model: gw.surgery.deploy(model, X),
    "match": lambda model: gw.surgery.match(lambda width: model, X, "relu"),
}


def attributes(model):
    """Everything that the modules hold: objects by identity, tensors also by value."""
    state = {}
    for path, module in model.named_modules(remove_duplicate=False):
        state[path, "class"] = type(module)
        for name, value in vars(module).items():
            if isinstance(value, dict | list | set | deque):
                state[path, name] = (id(value), contents(value))
            elif isinstance(value, torch.Tensor):
                state[path, name] = (id(value), value.tolist())
            elif isinstance(value, int | float | str | bool | tuple | frozenset | type(None)):
                state[path, name] = value
            else:
                state[path, name] = id(value)
    return state


def contents(value):
    """What is in a container, by identity, and what is in the containers inside it."""
    if isinstance(value, dict):
        return [(key, id(inner), contents(inner)) for key, inner in value.items()]
    if isinstance(value, list | set | deque):
        return [(id(inner), contents(inner)) for inner in value]
    return None


def values(model):
    state = {}
    for name, value in (*model.named_parameters(), *model.named_buffers()):
        lazy = nn.parameter.is_lazy(value)
        gradient = value.grad
        state[name] = (
            None if lazy else value.detach().clone(),
            value.requires_grad,
            id(gradient),
            None if gradient is None else gradient.clone(),
            list(value._backward_hooks or ()),
        )
    return state


def generators(model):
    states = [torch.get_rng_state(), random.getstate(), str(np.random.get_state())]
    if isinstance(model, Noisy):
        states.append(model.generator.get_state())
        states.append(str(model.numpy_generator.bit_generator.state))
        states.append(model.python_generator.getstate())
    return states


def can_be_copied(model):
    try:
        copy.deepcopy(model)
    except RuntimeError:
        return False
    return True


def same(first, second):
    if isinstance(first, torch.Tensor):
        return torch.equal(first, second)
    if isinstance(first, list | tuple):
        return len(first) == len(second) and all(map(same, first, second))
    return first == second


@pytest.mark.parametrize("call", CALLS)
@pytest.mark.parametrize(
    "kind",
    [pytest.param(kind, marks=() if kind in QUICK else pytest.mark.slow) for kind in MODELS],
)
def test_a_model_is_left_as_it_was(kind, call):
    model = MODELS[kind]()
    before = (attributes(model), values(model), generators(model), can_be_copied(model))
    # deepcopy asks old-style norms for nothing, but may draw: start from one state
    drawn = generators(model)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            CALLS[call](model)
        except GatewiseError:
            pass  # a refusal leaves the model as it was, too
    after = (attributes(model), values(model))
    assert same(drawn, generators(model)), "random state"
    assert before[0] == after[0], differing(before[0], after[0])
    assert before[1].keys() == after[1].keys()
    for name, value in before[1].items():
        assert same(value, after[1][name]), name
    assert can_be_copied(model) == before[3]


def differing(before, after):
    return [key for key in {**before, **after} if before.get(key) != after.get(key)]


def test_lazy_modules_are_refused_by_name():
    with pytest.raises(GatewiseError, match=r"no shape yet; got: middle\.weight"):
        gw.find_sites(MODELS["lazy"](), X)


@pytest.mark.slow
def test_a_diagnosis_leaves_a_model_as_it_was():
    for kind in ("old spectral norm", "generators", "half frozen", "caching", "filled cache"):
        model = MODELS[kind]()
        before = (attributes(model), generators(model), can_be_copied(model))
        gw.diagnose(model, [X], seconds=1.0, questions="all")
        assert differing(before[0], attributes(model)) == []
        assert same(before[1], generators(model))
        assert can_be_copied(model) == before[2]


def test_a_model_with_a_cache_computes_the_same_after_it_was_read():
    """No tensor of a trace is left in the cache, also if the weights change afterwards."""
    torch.manual_seed(0)
    model = Caching().eval()
    twin = copy.deepcopy(model)
    for mode in (False, True):
        gw.find_sites(model.train(mode), X)
        assert model.cache == model.nested["sizes"] == {}
    with torch.no_grad():
        for each in (model, twin):
            each.bias.mul_(3)
    assert torch.equal(model.eval()(X), twin(X))


def test_a_model_with_a_filled_cache_is_copied_with_the_cached_values():
    model = Caching(filled=True)
    changed = gw.swap(model, "silu", X)
    kept, copied = model.cache["bias"], changed.cache["bias"]
    assert not kept.is_leaf and copied is changed.last_bias
    assert copied.is_leaf and torch.equal(copied, kept)
    assert copied.data_ptr() != kept.data_ptr()
