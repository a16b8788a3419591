"""What every public layer keeps, one example of each.

No NaN at any magnitude, two processes, ONNX.
"""

import inspect
import logging
import warnings

import pytest
import torch
from layers.every_layer import EXAMPLES, SideBySide
from torch import nn

from gatewise import layers
from gatewise.errors import ContractError
from gatewise.testing import check_layer

NO_NAN = (
    "finite_input_never_gives_nan",
    "finite_input_never_gives_nan_in_training",
    "the_largest_numbers_never_give_nan",
    "the_largest_numbers_everywhere_never_give_nan",
    "the_largest_float16_everywhere_never_gives_nan",
)
# What docs/layers.md excepts.
TORCHS_OWN = (
    "torch's own layer: the gradient of the parametrised matrix overflows with its filters'"
)
TWO_GRADIENTS = "float16 cannot hold the gradients of a filter by its response and by its length"
SCORES = "attention is made of torch's linear layers and softmax, whose scores overflow"
ATTENTION = (
    "attention, heads",
    "attention, elements",
    "attention gate",
    "attention gate, elements",
)
EXCEPTED = {
    ("orthogonal", NO_NAN[3]): TORCHS_OWN,
    ("orthogonal", NO_NAN[4]): TORCHS_OWN,
    ("orthogonal, textbook", NO_NAN[2]): TORCHS_OWN,
    ("orthogonal, textbook", NO_NAN[3]): TORCHS_OWN,
    ("orthogonal, textbook", NO_NAN[4]): TORCHS_OWN,
    **{(name, check): SCORES for name in ATTENTION[:2] for check in NO_NAN},
    **{(name, NO_NAN[3]): SCORES for name in ATTENTION[2:]},
    (ATTENTION[3], NO_NAN[2]): SCORES,
    **{(name, NO_NAN[4]): TWO_GRADIENTS for name in EXAMPLES if name.startswith("iieu")},
}


def one_of_each() -> tuple[str, ...]:
    """The first example of every layer and gate; of orthogonal layers by Cholesky factors or QR."""
    found: dict[str, str] = {}
    for name, example in EXAMPLES.items():
        for public in example.of:
            if name != "orthogonal":
                found.setdefault(public, name)
    return tuple(dict.fromkeys(found.values()))


def test_there_is_an_example_of_every_public_layer():
    public = {name for name in layers.__all__ if inspect.isclass(getattr(layers, name))}
    assert {name for example in EXAMPLES.values() for name in example.of} == public | {"orthogonal"}


@pytest.mark.filterwarnings(
    "ignore::gatewise.errors.RectifiedInputWarning"
)  # some of the inputs are all positive
@pytest.mark.parametrize("name", EXAMPLES)
def test_finite_input_gives_no_nan(name: str):
    example = EXAMPLES[name]
    leave_out = {
        check: reason for (excepted, check), reason in EXCEPTED.items() if excepted == name
    }
    check_layer(example.make, example.shape, only=NO_NAN, leave_out=leave_out)


@pytest.mark.parametrize(("name", "check"), EXCEPTED)
def test_an_exception_is_one_still(name: str, check: str):
    with pytest.raises(ContractError, match=f"failed: {check} "):
        check_layer(EXAMPLES[name].make, EXAMPLES[name].shape, only=[check])


@pytest.mark.slow
def test_every_layer_trains_in_two_processes():
    names = tuple(EXAMPLES)
    width = SideBySide(names).inputs
    check_layer(lambda: SideBySide(names), (4, width), only=["trains_in_two_processes"], ddp=True)


@pytest.mark.slow
@pytest.mark.onnx
def test_every_layer_exports_to_onnx():
    import onnxruntime

    torch.manual_seed(0)
    module = Listed(SideBySide(one_of_each()).eval())
    x = torch.randn(4, module.parts.inputs)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        logging.getLogger("torch.onnx").setLevel(logging.ERROR)
        program = torch.onnx.export(module, (x,), dynamo=True, verbose=False)
    session = onnxruntime.InferenceSession(
        program.model_proto.SerializeToString(), providers=["CPUExecutionProvider"]
    )
    got = session.run(None, {session.get_inputs()[0].name: x.numpy()})
    for name, ours, theirs in zip(module.parts.names, module(x), got, strict=True):
        # roundings of sums of at most 18 terms of size 1, in another order
        torch.testing.assert_close(
            torch.from_numpy(theirs), ours, rtol=1e-5, atol=1e-5, msg=lambda m, n=name: f"{n}: {m}"
        )


class Listed(nn.Module):
    """The outputs of layers side by side, each for itself."""

    def __init__(self, parts: SideBySide) -> None:
        super().__init__()
        self.parts = parts

    def forward(self, x: torch.Tensor) -> list[torch.Tensor]:
        return self.parts.outputs(x)


@pytest.mark.slow
@pytest.mark.onnx
def test_orthogonal_filters_export_to_onnx_once_the_parametrisation_is_removed():
    layer = layers.orthogonal(nn.Linear(6, 4))
    with pytest.raises(ContractError, match="exports_to_onnx"):
        check_layer(lambda: layer, (4, 6), only=["exports_to_onnx"])
    nn.utils.parametrize.remove_parametrizations(layer, "weight")
    check_layer(lambda: layer, (4, 6), only=["exports_to_onnx"])
