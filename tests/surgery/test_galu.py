"""Gates from a second network: a copy gives the same function, any other gives the formula."""

import copy
import pickle
import threading

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional as F

import gatewise as gw
from gatewise.errors import ArgumentError
from gatewise.surgery import Plan
from gatewise.surgery.swaps import twin_of


class Net(nn.Module):
    """A module, a functional call, a reused module, batch norm and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.conv, self.norm, self.act = (
            nn.Conv2d(3, 6, 3),
            nn.BatchNorm2d(6),
            nn.ReLU(inplace=True),
        )
        self.mid, self.drop, self.head = nn.Conv2d(6, 6, 3), nn.Dropout(0.5), nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        x = self.act(self.norm(self.conv(x)))
        x = self.drop(self.act(self.mid(x))).mean((2, 3))
        return F.relu(self.head(x))


def case() -> tuple[nn.Module, Tensor]:
    torch.manual_seed(0)
    return Net().eval(), torch.randn(4, 3, 8, 8)


def test_with_a_copy_as_twin_function_and_gradients_are_preserved_and_proved():
    model, x = case()
    gated = gw.swap(model, "galu", x, preserve=True)
    receipt = gw.receipt(gated)
    assert len(receipt.sites) == 3 and not receipt.refused
    assert torch.equal(gated(x), model(x))
    proof = receipt.proof
    assert (
        max(proof.output_float64, proof.train_output, proof.gradient) <= 1e-12
        and proof.output_float32 <= 1e-5
    )
    assert receipt.parameters[1] == 2 * receipt.parameters[0]


def test_with_another_twin_it_is_responses_times_the_twins_gates():
    model, x = case()
    gated = gw.swap(model, "galu", x, twin="fresh").eval()
    twin = copy.deepcopy(model)
    twin.load_state_dict(plain_state(twin_of(gated)))
    gates, y = [], x
    for net, of_twin in ((twin, True), (model, False)):
        y = net.norm(net.conv(x))
        for layer in (net.mid, net.head, None):
            gates += [(y > 0).float()] if of_twin else []
            y = y.relu() if of_twin else y * gates.pop(0)
            y = y.mean((2, 3)) if layer is net.head else y
            y = layer(y) if layer is not None else y
    assert torch.allclose(gated(x), y, atol=1e-6)
    assert not torch.allclose(gated(x), model(x), atol=1e-3)


def plain_state(twin: nn.Module) -> dict[str, Tensor]:
    return {name: value for name, value in twin.state_dict().items() if ".gw." not in name}


def test_a_twin_of_hard_gates_is_frozen_and_of_others_is_trained():
    model, x = case()
    for gate, learns in (("hard", False), ("straight_through", True), ("soft", True)):
        gated = gw.swap(model, "galu", x, gate=gate).train()
        gated(x).sum().backward()
        trained = [
            name
            for name, p in twin_of(gated).named_parameters()
            if p.requires_grad and p.grad is not None
        ]
        assert bool(trained) is learns, gate
        assert gated.conv.weight.grad.abs().sum() > 0


def test_gates_stay_where_they_were_while_the_network_is_trained():
    model, x = case()
    gated = gw.swap(model, "galu", x, preserve=True)
    gated.conv.weight.data.mul_(-1)  # the twin's responses do not change sign
    gated.conv.bias.data.mul_(-1)
    reference = model.norm(-model.conv(x)) * (model.norm(model.conv(x)) > 0)
    seen = []
    gated.mid.register_forward_pre_hook(lambda _, args: seen.append(args[0]))
    gated(x)
    assert torch.allclose(seen[0], reference, atol=1e-6)


def test_copies_pickles_and_threads_compute_the_same():
    model, x = case()
    gated = gw.swap(model, "galu", x, preserve=True)
    wanted = model(x)
    assert torch.equal(copy.deepcopy(gated)(x), wanted)
    assert torch.equal(pickle.loads(pickle.dumps(gated))(x), wanted)
    inputs = [torch.randn(2, 3, 8, 8) for _ in range(8)]
    made: dict[int, Tensor] = {}
    threads = [
        threading.Thread(target=lambda i=i: made.update({i: gated(inputs[i])})) for i in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(torch.equal(made[i], model(inputs[i])) for i in range(8))


def test_undo_takes_units_twin_and_hooks_away():
    model, x = case()
    gated = gw.swap(model, "galu", x, preserve=True)
    back = gw.undo(gated)
    assert list(back.state_dict()) == list(model.state_dict())
    assert (
        not back._forward_hooks
        and not back._forward_pre_hooks
        and not back._forward_pre_hooks_with_kwargs
    )
    assert torch.equal(back(x), model(x)) and type(back) is Net


def test_a_model_whose_swap_fails_is_as_it_was(monkeypatch):
    from gatewise.surgery import applying

    model, x = case()
    plan = gw.plan(model, "galu", x)
    monkeypatch.setattr(applying, "prove", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        plan.apply(model)
    assert isinstance(model.act, nn.ReLU) and not model._forward_hooks and type(model) is Net
    with pytest.raises(ArgumentError, match="has no gate network"):
        twin_of(model)


def test_a_block_that_is_called_twice_gets_the_gates_of_each_call():
    class Twice(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.block = nn.Sequential(nn.Linear(5, 5), nn.ReLU())

        def forward(self, x: Tensor) -> Tensor:
            return self.block(self.block(x) - 0.3)

    torch.manual_seed(0)
    model, x = Twice(), torch.randn(6, 5)
    assert torch.equal(gw.swap(model, "galu", x, preserve=True)(x), model(x))


def test_a_sequential_does_not_call_the_twin_as_a_child():
    model, x = (
        nn.Sequential(nn.Linear(5, 4), nn.ReLU(), nn.Linear(4, 4), nn.ReLU()),
        torch.randn(3, 5),
    )
    gated = gw.swap(model, "galu", x, preserve=True)
    assert torch.equal(gated(x), model(x)) and type(twin_of(gated)) is nn.Sequential


def test_an_exception_inside_leaves_no_gates_behind():
    model, x = case()
    gated = gw.swap(model, "galu", x, preserve=True)
    for wrong in (torch.randn(1, 5, 8, 8), torch.randn(1, 3, 2, 2)):
        with pytest.raises(RuntimeError):
            gated(wrong)
    assert torch.equal(gated(x), model(x))


def test_a_part_run_on_its_own_is_our_error():
    model, x = case()
    gated = gw.swap(model, "galu", x)
    with pytest.raises(ArgumentError, match="there is no gate"):
        gated.gw.s0(torch.randn(1, 6, 4, 4))


def test_checkpoints_of_the_original_load_and_plans_can_be_kept():
    model, x = case()
    plan = Plan.from_json(gw.plan(model, "galu", x, preserve=True).to_json())
    gated = plan.apply(model, inplace=False, example=x)
    gated.load_state_dict(model.state_dict())
    assert torch.equal(gated(x), model(x))


def test_choices_that_cannot_preserve_and_unknown_ones_are_our_errors():
    model, x = case()
    for choice in ({"gate": "soft"}, {"twin": "fresh"}):
        with pytest.raises(ArgumentError, match="do not preserve the function"):
            gw.plan(model, "galu", x, preserve=True, **choice)
    for choice in ({"gate": "sotf"}, {"twin": "cpoy"}):
        with pytest.raises(ArgumentError, match="did you mean"):
            gw.plan(model, "galu", x, **choice)


def test_attention_with_dropout_is_proved_without_it():
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.2, batch_first=True)
    x = torch.randn(2, 5, 8)
    changed = gw.swap(model, "galu", x, preserve=True)
    assert gw.receipt(changed).proof.train_output <= 1e-12
    assert torch.allclose(changed.eval()(x), model.eval()(x), atol=1e-6)
