"""The contract of layers lets a good layer pass, and names what is wrong with a broken one."""

import pytest
import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError, ContractError, UnknownNameError
from gatewise.testing import LAYER_CHECKS, check_layer
from gatewise.units.catalogue import PReLU
from gatewise.units.contract import LeafModule, check_input

SHAPE = (3, 4)


class Dense(LeafModule, nn.Linear):
    """A linear layer with our manners: the input's dtype, our errors."""

    def forward(self, input: Tensor) -> Tensor:
        check_input("dense", input)
        if input.dim() < 1 or input.shape[-1] != self.in_features:
            raise ArgumentError("dense: wrong number of features", got=tuple(input.shape))
        return self.compute(input)

    def compute(self, input: Tensor) -> Tensor:
        if not torch.is_autocast_enabled("cpu") and input.dtype != self.weight.dtype:
            raise ArgumentError("dense: wrong dtype", got=input.dtype)
        return super().forward(input).to(input.dtype)


class Filter(LeafModule, nn.Conv2d):
    """A convolution with our manners."""

    def forward(self, input: Tensor) -> Tensor:
        check_input("filter", input)
        if input.dim() != 4 or input.shape[1] != self.in_channels:
            raise ArgumentError("filter: wrong shape", got=tuple(input.shape))
        if not torch.is_autocast_enabled("cpu") and input.dtype != self.weight.dtype:
            raise ArgumentError("filter: wrong dtype", got=input.dtype)
        return super().forward(input).to(input.dtype)


class Normed(Dense):
    def compute(self, input: Tensor) -> Tensor:
        return super().compute(input / input.norm(dim=-1, keepdim=True))


class NormedBackward(Dense):
    def compute(self, input: Tensor) -> Tensor:
        return super().compute(input) * input.square().sum(-1, keepdim=True).sqrt().clamp(max=1.0)


class NanForward(Dense):
    def compute(self, input: Tensor) -> Tensor:
        return super().compute(input) + torch.where(input.detach() == 0, torch.nan, 0.0).sum(
            -1, keepdim=True
        )


class Overflowing(Dense):
    def compute(self, input: Tensor) -> Tensor:
        return super().compute(input) + (4 * input - 3 * input - input).sum(-1, keepdim=True)


class Lenient(nn.Linear):
    def forward(self, input: Tensor) -> Tensor:
        if not isinstance(input, Tensor):
            raise ArgumentError("lenient: not a tensor")
        return super().forward(input.real.to(self.weight.dtype))


class Unset(Dense):
    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.register_buffer("scale", torch.ones(1))


class Idle(Dense):
    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.idle = nn.Parameter(torch.ones(1))


class Breaking(Dense):
    def compute(self, input: Tensor) -> Tensor:
        return super().compute(-input if input.sum().item() > 1e9 else input)


class PerSize(Dense):
    def compute(self, input: Tensor) -> Tensor:
        return super().compute(input) * (1.0 if len(input) % 2 else 1.0 + 1e-9)


class Widening(Dense):
    def compute(self, input: Tensor) -> Tensor:
        return super().compute(input).float()


class Cutting(Dense):
    def compute(self, input: Tensor) -> Tensor:
        return super().compute(input) + super().compute(input.detach())


class Rude(nn.Linear):
    pass


class BatchMean(Dense):
    def compute(self, input: Tensor) -> Tensor:
        return super().compute(input - input.mean(0))


class Forgetful(Dense):
    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.register_buffer("mask", torch.rand(sizes[1]), persistent=False)

    def compute(self, input: Tensor) -> Tensor:
        return super().compute(input) * self.mask.to(input.dtype)


class Hidden(Dense):
    def __repr__(self) -> str:
        return "a layer"


class Local(Dense):
    def __init__(self, *sizes: int) -> None:
        super().__init__(*sizes)
        self.twist = lambda x: x  # cannot be sent to another process


class Restriding(Filter):
    def forward(self, input: Tensor) -> Tensor:
        return super().forward(input).contiguous()


class Raw(Dense):
    def forward(self, input: Tensor) -> Tensor:
        check_input("raw", input)
        return nn.Linear.forward(self, input)


def failed(layer: type[nn.Module], **options) -> set[str]:
    """The names of the checks that ``layer`` fails."""
    sizes, shape = ((2, 3, 3), (2, 2, 5, 4)) if issubclass(layer, nn.Conv2d) else ((4, 3), SHAPE)
    with pytest.raises(ContractError) as caught:
        check_layer(lambda: layer(*sizes), shape, **options)
    return {
        line.split()[1] for line in str(caught.value).splitlines() if line.startswith("  failed: ")
    }


@pytest.mark.slow
def test_a_good_linear_layer_keeps_the_whole_contract():
    receipt = check_layer(lambda: Dense(4, 3), SHAPE, channel_dim=-1)
    assert not receipt.failures
    assert len(receipt.outcomes) == len(LAYER_CHECKS)
    assert [o.check for o in receipt.outcomes if o.left_out] == ["trains_in_two_processes"]
    assert str(receipt).startswith(
        f"Dense: {len(LAYER_CHECKS) - 1} of {len(LAYER_CHECKS) - 1} checks passed"
    )


@pytest.mark.slow
def test_a_good_convolution_keeps_the_whole_contract():
    assert not check_layer(lambda: Filter(2, 3, 3, padding=1, stride=2), (2, 2, 5, 4)).failures


@pytest.mark.slow
def test_a_good_layer_trains_in_two_processes():
    receipt = check_layer(
        lambda: PReLU(channels=4), SHAPE, only=["trains_in_two_processes"], ddp=True
    )
    assert "1 of 1 checks passed" in str(receipt)


EAGER = [
    name
    for name in LAYER_CHECKS
    if "compile" not in name and "export" not in name and "traces" not in name
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("layer", "names"),
    [
        (Normed, {"finite_input_never_gives_nan", "finite_input_never_gives_nan_in_training"}),
        (
            NormedBackward,
            {"finite_input_never_gives_nan", "finite_input_never_gives_nan_in_training"},
        ),
        (NanForward, {"finite_input_never_gives_nan"}),
        (Lenient, {"bad_input_gets_our_error"}),
        (Unset, {"works_on_the_meta_device"}),
        (Idle, {"every_parameter_receives_a_gradient"}),
        (Cutting, {"gradients_match_finite_differences"}),
        (
            Rude,
            {
                "bad_input_gets_our_error",
                "a_wrong_shape_gets_our_error",
                "other_dtypes_work_or_get_our_error",
            },
        ),
        (Raw, {"a_wrong_shape_gets_our_error", "other_dtypes_work_or_get_our_error"}),
        (Widening, {"half_precision_layers_work", "autocast_keeps_the_input_dtype"}),
        (BatchMean, {"batches_do_not_matter"}),
        (Forgetful, {"state_survives", "works_on_the_meta_device"}),
        (Hidden, {"repr_begins_with_the_class_name"}),
        (Restriding, {"channels_last_is_kept"}),
    ],
)
def test_a_broken_layer_fails_the_check_that_names_it(layer: type[nn.Module], names: set[str]):
    assert names <= failed(layer, only=EAGER)


def test_an_overflow_on_the_way_is_named_where_dense_inputs_of_1e30_do_not_show_it():
    assert failed(Overflowing, only=[name for name in LAYER_CHECKS if "nan" in name]) == {
        "the_largest_numbers_never_give_nan",
        "the_largest_numbers_everywhere_never_give_nan",
        "the_largest_float16_everywhere_never_gives_nan",
    }


@pytest.mark.parametrize(
    "check", ["compiles_whole_and_once", "traces_through_aot_autograd", "exports"]
)
def test_a_graph_break_is_named(check: str):
    assert failed(Breaking, only=[check]) == {check}


def test_a_new_graph_per_batch_size_is_named():
    assert failed(PerSize, only=["compiles_whole_and_once"]) == {"compiles_whole_and_once"}


def test_a_layer_that_cannot_be_sent_to_another_process_is_named():
    assert failed(Local, only=["trains_in_two_processes"], ddp=True) == {"trains_in_two_processes"}


def test_a_check_left_out_is_in_the_receipt_with_its_reason():
    names = ["repr_begins_with_the_class_name", "state_survives"]
    receipt = check_layer(
        lambda: Hidden(4, 3), SHAPE, only=names, leave_out={names[0]: "it has a nickname"}
    )
    assert "left out: repr_begins_with_the_class_name: it has a nickname" in str(receipt)
    assert "1 of 1 checks passed" in str(receipt)


@pytest.mark.parametrize("options", [{"only": ["no_such"]}, {"leave_out": {"no_such": "reason"}}])
def test_an_unknown_check_is_an_error(options: dict):
    with pytest.raises(UnknownNameError, match="no check of that name"):
        check_layer(lambda: Dense(4, 3), SHAPE, **options)


def test_leaving_out_needs_a_reason():
    with pytest.raises(ArgumentError, match="without a reason"):
        check_layer(lambda: Dense(4, 3), SHAPE, leave_out={"exports": ""})
