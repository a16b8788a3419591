"""Inputs up to the largest number.

Right values, the same bits for usual ones, and in every mode torch has.
"""

from functools import partial

import pytest
from layers import size_checks
from layers.every_layer import EXAMPLES
from layers.size_checks import MAPS, ROWS
from torch import Tensor, nn

from gatewise import layers


class ResponseOf(nn.Module):
    """The response inside an IIEU layer."""

    def __init__(self, layer: layers.ConvIIEU) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        return self.layer.response(x)


# Responses and what is added up from them. Not those whose gates are settled early, which is
# another function there.
LINEAR = {
    "phases, linear": (partial(layers.PSLinear, 300, 8), ROWS),
    "phases 2d": (partial(layers.PSConv2d, 8, 6, 3, padding=1), MAPS),
    "phases 2d, reflected": (
        partial(layers.PSConv2d, 8, 6, 3, padding=1, padding_mode="reflect"),
        MAPS,
    ),
    "iieu's response": (lambda: ResponseOf(layers.ConvIIEU(nn.Conv2d(8, 6, 3))), MAPS),
}
MODES = ("phases 2d", "iieu 2d", "iieu, linear")


@pytest.mark.parametrize("name", LINEAR)
def test_a_response_to_numbers_far_out_is_that_of_float64_and_passes_no_gradient(name: str):
    size_checks.check_far_out(*LINEAR[name])


@pytest.mark.parametrize("name", LINEAR)
def test_a_sample_far_out_changes_neither_the_others_nor_their_gradients(name: str):
    size_checks.check_one_sample_far_out(*LINEAR[name])


@pytest.mark.parametrize("name", LINEAR)
def test_up_to_the_margin_everything_is_as_it_was(name: str, monkeypatch: pytest.MonkeyPatch):
    size_checks.check_up_to_the_margin(*LINEAR[name], monkeypatch)


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name != "gate, hard"])
def test_the_form_without_a_look_gives_the_same_bits_for_usual_inputs(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    size_checks.check_form_without_a_look(EXAMPLES[name], monkeypatch)


@pytest.mark.parametrize("name", ["phases, linear", "phases 2d", "iieu's response"])
def test_infinities_and_nan_stay_what_they_are(name: str):
    size_checks.check_infinities_and_nan(*LINEAR[name])


@pytest.mark.parametrize("name", MODES)
def test_batched_layers_give_no_nan_either(name: str):
    size_checks.check_batched(EXAMPLES[name])


@pytest.mark.parametrize(
    "name", [MODES[0], *(pytest.param(name, marks=pytest.mark.slow) for name in MODES[1:])]
)
def test_exported_layers_give_no_nan_either(name: str):
    size_checks.check_exported(EXAMPLES[name])


@pytest.mark.slow
@pytest.mark.parametrize("name", MODES)
def test_compiled_layers_give_no_nan_either(name: str):
    size_checks.check_compiled(EXAMPLES[name])


@pytest.mark.parametrize("name", [name for name in EXAMPLES if name.startswith("iieu")])
def test_iieu_in_float16_gives_no_nan(name: str):
    layer, x = size_checks.at_the_end(EXAMPLES[name])
    assert not layer.half()(x.sign().half() * 65504).isnan().any()
