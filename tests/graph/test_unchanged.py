"""A model is the same after it was run, whatever happened to it meanwhile."""

import copy
import random
from collections import OrderedDict, defaultdict, deque

import pytest
import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.graph import RandomState, untouched


def network() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(
        nn.Linear(4, 6), nn.BatchNorm1d(6), nn.ReLU(), nn.Dropout(0.5), nn.Linear(6, 2)
    )
    model[0].weight.requires_grad_(False)
    model[1].eval()
    model(torch.randn(8, 4)).sum().backward()
    model[4].register_forward_hook(lambda *args: None)
    model[4].weight.register_hook(lambda gradient: gradient)
    return model


def snapshot(model: nn.Module) -> dict[str, object]:
    """Everything that can be compared, by identity where identity matters."""
    facts: dict[str, object] = {
        "modes": [module.training for module in model.modules()],
        "buffers": [(id(buffer), buffer.tolist()) for buffer in model.buffers()],
        "random": torch.get_rng_state().tolist(),
        "python": random.getstate(),
    }
    for name, parameter in model.named_parameters():
        gradient = parameter.grad
        facts[name] = (
            id(parameter),
            parameter.requires_grad,
            id(gradient),
            None if gradient is None else gradient.tolist(),
            list(parameter._backward_hooks or ()),
        )
    for path, module in model.named_modules():
        facts[f"hooks of {path}"] = (
            list(module._forward_hooks),
            list(module._forward_pre_hooks),
            list(module._backward_hooks),
        )
    return facts


def set_modes(model: nn.Module) -> None:
    model.train()


def run_forward(model: nn.Module) -> None:
    model.train()(torch.randn(8, 4))


def run_backward(model: nn.Module) -> None:
    model.train()(torch.randn(8, 4)).square().sum().backward()


def change_flags(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.requires_grad_(not parameter.requires_grad)


def add_hooks(model: nn.Module) -> None:
    for module in model.modules():
        module.register_forward_hook(lambda *args: None)
        module.register_forward_pre_hook(lambda *args: None, with_kwargs=True)
        module.register_full_backward_hook(lambda *args: None)
    model[4].weight.register_hook(lambda gradient: 2 * gradient)
    model[4].bias.register_hook(lambda gradient: 2 * gradient)


def replace_parameters(model: nn.Module) -> None:
    model[4].weight = nn.Parameter(torch.zeros(2, 6))
    model[4].register_parameter("scale", nn.Parameter(torch.ones(1)))
    del model[0].bias


def remove_parameter_hooks(model: nn.Module) -> None:
    model[4].weight._backward_hooks = None


def clear_gradients(model: nn.Module) -> None:
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)


def draw(model: nn.Module) -> None:
    torch.rand(3)
    random.getrandbits(8)


def replace_buffers(model: nn.Module) -> None:
    model[1].running_mean = torch.ones(6)


CHANGES = (
    set_modes,
    run_forward,
    run_backward,
    change_flags,
    add_hooks,
    replace_parameters,
    remove_parameter_hooks,
    clear_gradients,
    draw,
    replace_buffers,
)


@pytest.mark.parametrize("change", CHANGES)
def test_everything_is_restored(change):
    model = network()
    before = snapshot(model)
    with untouched(model, buffers=True):
        change(model)
    assert snapshot(model) == before


@pytest.mark.parametrize("change", [run_backward, add_hooks, replace_parameters])
def test_everything_is_restored_after_an_error(change):
    model = network()
    before = snapshot(model)
    with pytest.raises(ZeroDivisionError), untouched(model, buffers=True):
        change(model)
        raise ZeroDivisionError
    assert snapshot(model) == before


def test_each_change_is_one():
    """The snapshot sees what the context restores."""
    for change in CHANGES:
        model = network()
        before = snapshot(model)
        change(model)
        assert snapshot(model) != before, change.__name__


def test_values_of_buffers_are_restored_unless_that_is_declined():
    model = nn.BatchNorm1d(3)
    with untouched(model, buffers=False):
        model(torch.randn(4, 3) + 5)
    assert model.running_mean.abs().min() > 0
    with untouched(model):
        model(torch.randn(4, 3) - 50)
    assert model.running_mean.min() > 0


def test_users_gradients_are_not_added_to():
    model = nn.Linear(3, 1)
    model(torch.ones(1, 3)).sum().backward()
    gradient = model.weight.grad
    with untouched(model):
        assert model.weight.grad is None
        model(torch.ones(1, 3)).sum().backward()
        assert model.weight.grad is not gradient
    assert model.weight.grad is gradient
    assert gradient.tolist() == [[1.0, 1.0, 1.0]]


def test_a_hook_that_removes_itself_stays_removed():
    """Put back, it would run a second time."""
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    calls = []

    def once(*_):
        calls.append(1)
        handle.remove()

    handle = model[0].register_forward_pre_hook(once)
    with untouched(model):
        model(torch.ones(1, 3))
    assert not model[0]._forward_pre_hooks
    assert model(torch.ones(1, 3)).shape == (1, 2)
    assert len(calls) == 1


def test_a_model_without_shapes_is_refused():
    with pytest.raises(ArgumentError, match="no shape yet"), untouched(nn.LazyLinear(2)):
        pass


class NoUpdates(dict):
    """A dictionary that forbids the methods of a plain one."""

    def clear(self):
        raise TypeError

    def update(self, *_, **__):
        raise TypeError


@pytest.mark.parametrize(
    ("make", "change"),
    [
        (dict, lambda held: held.__setitem__("new", 1)),
        (lambda: {"a": []}, lambda held: held["a"].append(held)),
        (lambda: {"a": 1, "b": 2}, lambda held: held.__setitem__("a", held.pop("a"))),
        (lambda: OrderedDict(a=1, b=2), lambda held: held.move_to_end("a")),
        (lambda: defaultdict(list, a=[1]), lambda held: held["b"]),
        (lambda: NoUpdates(a=1), lambda held: held.__setitem__("a", 2)),
        (lambda: [1, 2], lambda held: held.reverse()),
        (lambda: [{}], lambda held: held[0].update(a=1)),
        (lambda: ([],), lambda held: held[0].append(1)),
        (lambda: {1, 2}, lambda held: held.discard(1)),
        (lambda: deque([1, 2], maxlen=2), lambda held: held.append(3)),
    ],
)
def test_contents_of_containers_are_restored(make, change):
    model = nn.Sequential(nn.Linear(2, 2))
    model[0].held = held = make()
    before, order = copy.deepcopy(held), str(held)
    with untouched(model):
        change(held)
        assert str(held) != order
    assert model[0].held is held
    assert held == before and str(held) == order


def test_a_tensor_in_a_plain_attribute_has_its_values_back():
    model = nn.Linear(2, 2)
    model.count, model.others = torch.zeros(2), [torch.ones(1)]
    with untouched(model):
        model.count += 1
        model.others[0].zero_()
    assert model.count.tolist() == [0, 0] and model.others[0].tolist() == [1]


def test_contexts_can_be_nested():
    model = network()
    before = snapshot(model)
    with untouched(model):
        model.train()
        with untouched(model, buffers=True):
            run_backward(model)
            model.eval()
        assert all(module.training for module in model.modules())
    assert snapshot(model) == before


def test_a_model_on_the_meta_device_has_no_values_to_restore():
    with torch.device("meta"):
        model = nn.BatchNorm1d(3)
    with untouched(model, buffers=True):
        model.eval()
    assert model.training


def test_random_state_notices_a_draw():
    state = RandomState([torch.device("cpu")])
    assert not state.is_changed
    first: Tensor = torch.rand(2)
    assert state.is_changed
    state.restore()
    assert not state.is_changed
    assert torch.equal(torch.rand(2), first)
    state.restore()
    random.getrandbits(8)
    assert state.is_changed
    state.restore()
    assert not state.is_changed
