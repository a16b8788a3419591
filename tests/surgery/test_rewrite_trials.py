"""Nineteen requirements for replacing calls, on one block that combines them."""

import copy
import os
import pickle
import subprocess
import sys
import traceback
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch
from surgery import nasty_block
from surgery.nasty_block import NAMES, ByHand, Nasty
from surgery.rewrite_blocks import Unit
from torch import nn

import gatewise
from gatewise.surgery.calls import record_calls
from gatewise.surgery.rewrite import rewrite_calls


def example(rows=5, seed=2):
    return torch.randn(rows, 6, generator=torch.Generator().manual_seed(seed))


def every_call(model):
    """All slots of the block in source order, whatever mode and flag they run in."""
    model.early = True
    calls = record_calls(model.train(), (example(),))
    model.early = False
    return calls


@pytest.fixture
def pair():
    model = Nasty()
    calls = every_call(model)
    units = [Unit(number) for number in range(len(NAMES))]
    hand = ByHand(copy.deepcopy(model), dict(zip(NAMES, copy.deepcopy(units), strict=True)))
    rewrite_calls(model, calls, units)
    return model.eval(), hand.eval()


@pytest.mark.parametrize("early", [True, False])
@pytest.mark.parametrize("training", [True, False])
def test_eager_training_and_conditional_calls(pair, training, early):
    model, hand = (module.train(training) for module in pair)
    model.early = hand.early = early
    assert torch.equal(model(example()), hand(example()))


def test_gradients_through_the_checkpoint(pair):
    for module in pair:
        module.train()(example()).square().sum().backward()
    model, hand = pair
    assert torch.equal(model.first.weight.grad, hand.first.weight.grad)
    named = [getattr(model.gw, f"s{number}") for number in (0, 1, 2, 3)]
    named += [model.gw.s4.get_submodule(str(number)) for number in range(3)] + [
        model.gw.s5,
        model.gw.s6,
    ]
    for unit, name in zip(named, NAMES, strict=True):
        want = hand.units[name].slope.grad
        assert (unit.slope.grad is None) == (want is None) and (
            want is None or torch.equal(unit.slope.grad, want)
        )


def test_names_of_parameters(pair):
    old = ["first.weight", "first.bias", "second.weight", "second.bias"]
    slots = ["s0", "s1", "s2", "s3", "s4.0", "s4.1", "s4.2", "s5", "s6"]
    assert list(pair[0].state_dict()) == old + [f"gw.{slot}.slope" for slot in slots]


def test_state_loads_into_another_rewritten_model(pair):
    other = Nasty()
    rewrite_calls(other, every_call(other), [Unit(30 + number) for number in range(len(NAMES))])
    other.load_state_dict(pair[0].state_dict())
    assert torch.equal(other.eval()(example()), pair[0](example()))


def test_the_class_is_a_subclass_of_the_same_name(pair):
    kind = type(pair[0])
    assert kind is not Nasty and issubclass(kind, Nasty) and repr(kind) == repr(Nasty)


def test_two_models_with_one_recipe_share_a_class(pair):
    other = Nasty()
    rewrite_calls(other, every_call(other), [Unit(0) for _ in NAMES])
    assert type(other) is type(pair[0])


def test_a_deep_copy_is_independent(pair):
    model, hand = pair
    copied = copy.deepcopy(model)
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    assert torch.equal(copied(example()), hand(example()))


@pytest.mark.slow
def test_pickle_in_a_fresh_process(pair, tmp_path):
    model, _ = pair
    (tmp_path / "model.pickle").write_bytes(pickle.dumps((model, example())))
    code = "import pickle, sys, torch; m, x = pickle.load(open(sys.argv[1], 'rb'))"
    code += "; torch.save(m(x), sys.argv[2])"
    tests, source = Path(nasty_block.__file__).parent.parent, Path(gatewise.__file__).parent.parent
    environment = os.environ | {"PYTHONPATH": f"{tests}{os.pathsep}{source}"}
    files = [str(tmp_path / "model.pickle"), str(tmp_path / "out.pt")]
    subprocess.run([sys.executable, "-c", code, *files], check=True, env=environment)
    assert torch.equal(torch.load(tmp_path / "out.pt"), model(example()))


@pytest.mark.slow
@pytest.mark.parametrize("training", [True, False])
def test_compile_in_one_graph(pair, training):
    model, hand = (module.train(training) for module in pair)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(example()), hand(example()), rtol=1e-6, atol=1e-6)
    compiled(example()).sum().backward()
    hand(example()).sum().backward()
    torch.testing.assert_close(
        model.first.weight.grad, hand.first.weight.grad, rtol=1e-5, atol=1e-5
    )


def test_compile_with_a_dynamic_batch(pair):
    model, hand = pair
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager", dynamic=True)
    for rows in (2, 5, 9):
        torch.testing.assert_close(
            compiled(example(rows)), hand(example(rows)), rtol=1e-6, atol=1e-6
        )


@pytest.mark.slow  # a C++ compiler runs
def test_compile_by_inductor(pair):
    model, hand = pair
    torch.testing.assert_close(
        torch.compile(model)(example()), hand(example()), rtol=1e-5, atol=1e-5
    )


@pytest.mark.parametrize("strict", [False, True])
def test_export(pair, strict):
    model, hand = pair
    model.save_memory = not strict
    with torch.no_grad():
        program = torch.export.export(model, (example(),), strict=strict)
    assert torch.equal(program.module()(example()), hand(example()))


def test_four_threads(pair):
    model, hand = pair
    inputs = [example(seed=seed) for seed in range(60)]
    with ThreadPoolExecutor(4) as pool:
        got = list(pool.map(model, inputs))
    assert all(torch.equal(output, hand(x)) for output, x in zip(got, inputs, strict=True))


def test_functional_call_and_vmap(pair):
    model, hand = pair
    zeros = {name: torch.zeros_like(value) for name, value in model.named_parameters()}
    got = torch.func.functional_call(model, zeros, (example(),))
    empty = {name: torch.zeros_like(value) for name, value in hand.named_parameters()}
    assert torch.equal(got, torch.func.functional_call(hand, empty, (example(),)))
    batch = torch.stack([example(seed=seed) for seed in range(3)])
    state = dict(model.named_parameters())
    mapped = torch.func.vmap(lambda x: torch.func.functional_call(model, state, (x,)))(batch)
    torch.testing.assert_close(mapped, torch.stack([hand(x) for x in batch]), rtol=1e-6, atol=1e-6)


def test_an_exception_in_a_unit_points_to_the_original_line(pair):
    model, _ = pair
    model.gw.s6.forward = nasty_block.explode
    with pytest.raises(RuntimeError, match="boom") as caught:
        model(example())
    frames = traceback.extract_tb(caught.value.__traceback__)
    ours = next(
        frame
        for frame in frames
        if frame.name == "forward" and frame.filename == nasty_block.__file__
    )
    lines = Path(nasty_block.__file__).read_text().splitlines()
    assert lines[ours.lineno - 1] == "        return y.relu() + x"
    del model.gw.s6.forward
    model(example())


def test_double(pair):
    model, hand = (module.double() for module in pair)
    assert torch.equal(model(example().double()), hand(example().double()))
    assert model(example().double()).dtype == torch.float64
