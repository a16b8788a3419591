"""What a swap does when nothing is said: it keeps the function where the unit can."""

import copy
import inspect
import threading

import pytest
import torch
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError, CoarseUnitWarning


def mixed() -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1),
        nn.BatchNorm2d(8),
        nn.ReLU(),
        nn.Conv2d(8, 6, 3),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(6, 4),
    )


def images() -> torch.Tensor:
    return torch.randn(2, 3, 9, 9, generator=torch.Generator().manual_seed(1))


def dense(act: type[nn.Module] = nn.ReLU) -> nn.Sequential:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 8), act(), nn.Linear(8, 8), nn.ReLU(), nn.Linear(8, 3)).eval()


def rows(dtype: torch.dtype = torch.float32) -> torch.Tensor:
    return torch.randn(4, 8, generator=torch.Generator().manual_seed(2)).to(dtype)


# The function


@pytest.mark.parametrize("unit", ["crelu", "concat_act", "psc"])
def test_nothing_is_thrown_away_by_default(unit: str):
    model, x = mixed().eval(), images()
    swapped = gw.swap(model, unit, x)
    receipt = gw.receipt(swapped)
    assert receipt.preserve and receipt.proved
    assert receipt.parameters[1] > receipt.parameters[0]
    torch.testing.assert_close(swapped(x), model(x), rtol=1e-5, atol=1e-6)


def test_a_site_that_cannot_keep_the_function_changes_and_has_no_new_weights_yet():
    model, x = dense(nn.GELU), rows()
    swapped = gw.swap(model, "crelu", x)
    receipt = gw.receipt(swapped)
    assert not receipt.preserve and len(receipt.sites) == 2 and receipt.proved
    by_hand = copy.deepcopy(model)
    by_hand[1] = nn.ReLU()
    torch.testing.assert_close(swapped(x), by_hand(x), rtol=1e-5, atol=1e-6)
    assert not swapped[2].weight[:, 8:].any()


def test_halving_and_new_weights_are_asked_for():
    model, x = dense(), rows()
    for choice in ({"width": "half"}, {"preserve": False}):
        halved = gw.swap(model, "crelu", x, **choice)
        assert halved[0].out_features == 4 and not gw.receipt(halved).preserve
    drawn = gw.swap(model, "crelu", x, preserve=False, width="same")
    assert drawn[2].weight[:, 8:].abs().min() > 0


def test_the_options_are_in_the_signature():
    names = set(inspect.signature(gw.swap).parameters)
    options = "where preserve width match policy inplace optimizer unit_dtype".split()
    assert names >= set(options)


# What comparisons start from. The numbers are those of the first release.
INITIAL = {
    "crelu": {
        "0.weight": ((4, 3, 3, 3), -0.74752, 1.40986),
        "3.weight": ((3, 8, 3, 3), 0.7324, 1.00825),
        "7.weight": ((4, 6), 1.52868, 1.28269),
    },
    "crelu same": {
        "0.weight": ((8, 3, 3, 3), -1.99171, 2.61514),
        "3.weight": ((6, 16, 3, 3), 0.84832, 4.24511),
        "7.weight": ((4, 12), 3.38436, 2.25049),
    },
    "psc": {
        "3.weight": ((6, 8, 3, 3), 0.35021, 2.11797),
        "3.weight_neg": ((6, 8, 3, 3), 0.0, 0.0),
    },
    "iieu_b": {"2.eta": ((8,), 0.4, 0.02), "4.shift.weight": ((6,), 0.06, 0.0006)},
    "swish": {"2.beta": ((8,), 8.0, 8.0), "7.weight": ((4, 6), 1.52868, 1.28269)},
}


@pytest.mark.parametrize("arm", INITIAL)
def test_the_initial_weights_of_comparisons_stay(arm: str):
    model = mixed()
    unit, _, width = arm.partition(" ")
    plan = gw.plan(model, unit, images(), preserve=False, width=width or None)
    torch.manual_seed(5)
    plan.apply(model)
    weights = dict(model.named_parameters())
    for name, (shape, total, squares) in INITIAL[arm].items():
        weight = weights[name].detach().double()
        assert tuple(weight.shape) == shape
        assert weight.sum().item() == pytest.approx(total, abs=1e-5)
        assert weight.square().sum().item() == pytest.approx(squares, abs=1e-5)


ARMS = ("relu", "gelu", "silu", "elu", "relu2", "crelu", "psc", "iieu_b")


@pytest.mark.parametrize("unit", ARMS)
def test_every_arm_of_fast_cifar_has_all_seven_sites(unit: str):
    pool = "behind" if unit == "iieu_b" else "before"
    network = gw.models.create_model("fast_cifar", widths=(4, 8, 8), pool=pool, whitening="once")
    x = torch.randn(2, 3, 32, 32)
    assert len(gw.find_sites(network, x)) == 7
    swapped = gw.swap(network, unit, x, preserve=False)
    assert len(gw.receipt(swapped).sites) == 7 and not gw.receipt(swapped).refused


def test_a_pool_before_a_unit_that_reads_its_layer_is_refused():
    with pytest.raises(ArgumentError, match="no pool can stand between"):
        gw.models.create_model("fast_cifar", unit="iieu_b", pool="before")


# Threads


def test_swaps_in_several_threads_wait_for_each_other():
    failures: list[Exception] = []

    def work() -> None:
        try:
            for _ in range(3):
                gw.swap(dense(), "crelu", rows())
        except Exception as problem:
            failures.append(problem)

    threads = [threading.Thread(target=work) for _ in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures and not torch.compiler.is_compiling()


# The type of units


@pytest.mark.parametrize("unit", ["swish", "prelu", "xielu", "pau", "frelu"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_units_keep_their_type_and_learn_in_a_model_of_16_bit_numbers(
    unit: str, dtype: torch.dtype
):
    maps = unit == "frelu"
    model, x = (mixed(), images()) if maps else (dense(), rows())
    swapped = gw.swap(model.to(dtype), unit, x.to(dtype), unit_dtype=torch.float32)
    swapped = copy.deepcopy(swapped).to(torch.bfloat16).train()
    layers = {name for name, _ in model.named_parameters()}
    for name, parameter in swapped.named_parameters():
        expected = torch.bfloat16 if name in layers else torch.float32
        assert parameter.dtype is expected, name
    outputs = swapped(x.bfloat16())
    assert outputs.dtype is torch.bfloat16
    first = swapped[2] if maps else swapped[1]
    before = [parameter.detach().clone() for parameter in first.parameters()]
    optimizer = torch.optim.SGD(swapped.parameters(), lr=1e-4)
    outputs.float().square().sum().backward()
    optimizer.step()
    moved = [not torch.equal(*pair) for pair in zip(before, first.parameters(), strict=True)]
    used = [
        bool(parameter.grad is not None and parameter.grad.any())
        for parameter in first.parameters()
    ]
    assert any(moved) and moved == used


def test_a_finer_type_is_followed_and_the_plan_keeps_the_choice():
    model, x = dense(), rows()
    plan = gw.plan(model, "swish", x, unit_dtype=torch.float32)
    swapped = gw.surgery.Plan.from_json(plan.to_json()).apply(model, example=x)
    assert swapped.to(torch.float16)[1].beta.dtype is torch.float32
    assert swapped.double()[1].beta.dtype is torch.float64


def test_a_coarse_type_is_said_with_its_smallest_step():
    with pytest.warns(CoarseUnitWarning, match="swish.*bfloat16.*0.0078") as caught:
        gw.swap(dense().bfloat16(), "swish", rows(torch.bfloat16))
    assert caught[0].filename == __file__


@pytest.mark.parametrize("dtype", [torch.int64, "float32"])
def test_other_unit_dtypes_are_refused(dtype):
    with pytest.raises(ArgumentError, match="unit_dtype"):
        gw.swap(dense(), "swish", rows(), unit_dtype=dtype)


# Optimizers


def stepped(make, model: nn.Module) -> torch.optim.Optimizer:
    optimizer = make(model.parameters())
    model(rows()).square().sum().backward()
    optimizer.step()
    return optimizer


def test_numbers_of_units_get_no_weight_decay_and_undo_takes_the_group_back():
    model = dense().train()
    optimizer = stepped(lambda p: torch.optim.AdamW(p, lr=0.01, weight_decay=0.1), model)
    gw.swap(model, "swish", rows(), inplace=True, optimizer=optimizer)
    layers, units = optimizer.param_groups
    assert units["weight_decay"] == 0 and units["lr"] == layers["lr"] == 0.01
    assert {id(p) for p in units["params"]} == {id(model[1].beta), id(model[3].beta)}
    gw.undo(model, optimizer=optimizer)
    assert len(optimizer.param_groups) == 1


def test_a_prelu_that_takes_a_prelus_place_has_no_weight_decay():
    model = dense(nn.PReLU)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, weight_decay=0.1)
    gw.swap(model, "swish", rows(), inplace=True, optimizer=optimizer)
    assert len(optimizer.param_groups[1]["params"]) == 2


def test_only_what_the_swap_made_is_added():
    model = dense()
    first = torch.optim.SGD(model[0].parameters(), lr=0.1)
    held = {id(p) for p in model[0].parameters()}
    gw.swap(model, "swish", rows(), inplace=True, optimizer=first)
    units = {id(model[1].beta), id(model[3].beta)}
    assert {id(p) for group in first.param_groups for p in group["params"]} == held | units


@pytest.mark.parametrize(
    "make",
    [
        lambda p: torch.optim.Adafactor(p, lr=0.01),
        lambda p: torch.optim.LBFGS(p, max_iter=1),
    ],
)
def test_an_optimizer_that_cannot_go_on_is_refused_at_once(make):
    model, x = dense(), rows()
    optimizer = make(model.parameters())

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = model(x).square().sum()
        loss.backward()
        return loss

    optimizer.step(closure)
    before = [id(p) for group in optimizer.param_groups for p in group["params"]]
    with pytest.raises(ArgumentError, match=f"optimizer: {type(optimizer).__name__}"):
        gw.swap(model, "crelu", x, inplace=True, optimizer=optimizer)
    assert [id(p) for group in optimizer.param_groups for p in group["params"]] == before
    assert [id(p) for p in model.parameters()] == before
    optimizer.step(closure)
