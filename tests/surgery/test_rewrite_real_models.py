"""Rewritten calls of real networks, compared with a mode that replaces the same calls."""

import copy
import pickle

import pytest
import torch
from surgery.rewrite_blocks import Unit
from torch.overrides import TorchFunctionMode
from zoo import ZOO, torchvision

from gatewise.surgery.calls import activation, record_calls
from gatewise.surgery.rewrite import Transaction, rewrite_calls

pytestmark = pytest.mark.networks


class Replace(TorchFunctionMode):
    """The oracle: the n-th call of an activation, by whatever route, becomes the n-th unit."""

    def __init__(self, units):
        super().__init__()
        self.units = iter(units)

    def __torch_function__(self, func, types, args=(), kwargs=None):
        unit = next(self.units) if activation(func) else None
        return func(*args, **(kwargs or {})) if unit is None else unit(args[0])


# name: how it is made, an input, calls by (functional, reused module, module called once,
# container's)
MODELS = {
    "resnet18": (lambda: torchvision("resnet18"), torch.randn(2, 3, 32, 32), (0, 16, 1, 0)),
    "densenet121": (
        lambda: torchvision("densenet121", memory_efficient=True),
        torch.randn(2, 3, 32, 32),
        (1, 0, 116, 4),
    ),
    "googlenet": (
        lambda: torchvision("googlenet", init_weights=False, aux_logits=False),
        torch.randn(2, 3, 64, 64),
        (57, 0, 0, 0),
    ),
    "bert": (ZOO["hf:BERT"][0], torch.arange(24).reshape(2, 12), (0, 0, 3, 0)),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", MODELS)
def test_every_call_of_a_real_model_can_be_rewritten(name):
    make, example, counts = MODELS[name]
    model = make().eval()
    calls = record_calls(model, (example,))
    ours = [call for call in calls if not call.refused]
    assert {call.refused for call in calls} <= {None, "container"}
    functional, reused = (
        sum(call.module is None for call in ours),
        sum(call.reused for call in ours),
    )
    assert (functional, reused, len(ours) - functional - reused, len(calls) - len(ours)) == counts
    units = {call.slot: Unit(number) for number, call in enumerate(ours)}
    with torch.no_grad(), Replace([None if call.refused else units[call.slot] for call in calls]):
        want = output(model(example)).clone()
    old = model.state_dict().keys()
    work = Transaction(model)
    rewrite_calls(model, ours, [units[call.slot] for call in ours])
    for each in (model, copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        with torch.no_grad():
            assert torch.equal(output(each(example)), want)
    assert old <= model.state_dict().keys()
    work.roll_back()
    assert old == model.state_dict().keys()


def output(result):
    return result if isinstance(result, torch.Tensor) else result.logits
