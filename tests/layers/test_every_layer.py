"""What every public layer keeps, one example of each.

No NaN at any magnitude, two processes, ONNX.
"""

import inspect

import pytest
from layers.every_layer import EXAMPLES, SideBySide, check_onnx, one_of_each
from layers.size_checks import NO_NAN, check_no_nan
from torch import nn

from gatewise import layers
from gatewise.errors import ContractError
from gatewise.testing import check_layer

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


def test_there_is_an_example_of_every_public_layer():
    public = {name for name in layers.__all__ if inspect.isclass(getattr(layers, name))}
    public -= {"ConstantGate"}  # it takes no input
    assert {name for example in EXAMPLES.values() for name in example.of} == public | {"orthogonal"}


@pytest.mark.filterwarnings(
    "ignore::gatewise.errors.RectifiedInputWarning"
)  # some of the inputs are all positive
@pytest.mark.parametrize("name", EXAMPLES)
def test_finite_input_gives_no_nan(name: str):
    check_no_nan(EXAMPLES[name], [check for left, check in EXCEPTED if left == name])


@pytest.mark.parametrize(("name", "check"), EXCEPTED)
def test_an_exception_is_one_still(name: str, check: str):
    with pytest.raises(ContractError, match=f"failed: {check} "):
        check_layer(EXAMPLES[name].make, EXAMPLES[name].shape, only=[check])


@pytest.mark.slow
def test_every_layer_trains_in_two_processes():
    width = SideBySide(EXAMPLES).inputs
    check_layer(
        lambda: SideBySide(EXAMPLES), (4, width), only=["trains_in_two_processes"], ddp=True
    )


@pytest.mark.slow
@pytest.mark.onnx
def test_every_layer_exports_to_onnx():
    check_onnx(one_of_each(EXAMPLES))


@pytest.mark.slow
@pytest.mark.onnx
def test_orthogonal_filters_export_to_onnx_once_the_parametrisation_is_removed():
    layer = layers.orthogonal(nn.Linear(6, 4))
    with pytest.raises(ContractError, match="exports_to_onnx"):
        check_layer(lambda: layer, (4, 6), only=["exports_to_onnx"])
    nn.utils.parametrize.remove_parametrizations(layer, "weight")
    check_layer(lambda: layer, (4, 6), only=["exports_to_onnx"])
