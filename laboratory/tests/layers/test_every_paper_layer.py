"""What every layer of the papers keeps, one example of each, as the product's layers do."""

from functools import partial

import pytest
from gatewise_papers.deep_gated import OutsideGatedLinear
from gatewise_papers.maso import MASO, ApodizedConv2d
from gatewise_papers.psc import LowRankPSConv2d, StaticPSConv2d, StaticPSLinear
from layers import size_checks
from layers.every_layer import SideBySide, check_onnx, one_of_each
from layers.every_paper_layer import PAPER_EXAMPLES
from layers.size_checks import MAPS, ROWS
from loops import for_each

from gatewise.testing import check_layer

LINEAR = {
    "split": (partial(StaticPSLinear, 300, 8, split=0.5), ROWS),
    "split, in groups": (partial(StaticPSConv2d, 8, 6, 3, split=0.5, groups=2), MAPS),
    "low rank": (partial(LowRankPSConv2d, 8, 6, 3, rank=2), MAPS),
    "apodized": (partial(ApodizedConv2d, 8, 6, 3), MAPS),
    "outside": (partial(OutsideGatedLinear, 300, 8, gate="constant", bias=True), ROWS),
    "maso": (partial(MASO, 300, 8, 3), ROWS),
}
# Another function in evaluation while it is traced, or one that cannot be compared: a random gate.
BRANCHING = {"split, linear", "split 1d", "split 2d"}
MODES = ("low rank 2d", "glu", "outside 2d", "maso, soft", "soft conv 2d")


@pytest.mark.filterwarnings(
    "ignore::gatewise.errors.RectifiedInputWarning"
)  # some of the inputs are all positive
@for_each("name", PAPER_EXAMPLES)
def test_finite_input_gives_no_nan(name: str):
    size_checks.check_no_nan(PAPER_EXAMPLES[name])


@for_each("name", LINEAR)
def test_a_response_to_numbers_far_out_is_that_of_float64_and_passes_no_gradient(name: str):
    size_checks.check_far_out(*LINEAR[name])


@for_each("name", LINEAR)
def test_a_sample_far_out_changes_neither_the_others_nor_their_gradients(name: str):
    size_checks.check_one_sample_far_out(*LINEAR[name])


@pytest.mark.parametrize("name", LINEAR)
def test_up_to_the_margin_everything_is_as_it_was(name: str, monkeypatch: pytest.MonkeyPatch):
    size_checks.check_up_to_the_margin(*LINEAR[name], monkeypatch)


@pytest.mark.parametrize("name", sorted(PAPER_EXAMPLES.keys() - BRANCHING))
def test_the_form_without_a_look_gives_the_same_bits_for_usual_inputs(
    name: str, monkeypatch: pytest.MonkeyPatch
):
    size_checks.check_form_without_a_look(PAPER_EXAMPLES[name], monkeypatch)


@for_each("name", ["low rank", "outside"])
def test_infinities_and_nan_stay_what_they_are(name: str):
    size_checks.check_infinities_and_nan(*LINEAR[name])


@for_each("name", MODES)
def test_batched_layers_give_no_nan_either(name: str):
    size_checks.check_batched(PAPER_EXAMPLES[name])


@pytest.mark.slow
@for_each("name", MODES)
def test_exported_and_compiled_layers_give_no_nan_either(name: str):
    size_checks.check_exported(PAPER_EXAMPLES[name])
    size_checks.check_compiled(PAPER_EXAMPLES[name])


@pytest.mark.slow
def test_every_layer_trains_in_two_processes():
    width = SideBySide(PAPER_EXAMPLES).inputs
    check_layer(
        lambda: SideBySide(PAPER_EXAMPLES), (4, width), only=["trains_in_two_processes"], ddp=True
    )


@pytest.mark.slow
@pytest.mark.onnx
def test_every_layer_exports_to_onnx():
    check_onnx(one_of_each(PAPER_EXAMPLES))
