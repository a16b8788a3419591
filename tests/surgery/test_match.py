"""Widths at which a network, or a swap, costs as much as the original.

Against brute force and the models.
"""

import copy

import numpy as np
import pytest
import torch
from surgery.small_networks import plain
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError, UnknownNameError
from gatewise.surgery import Plan, plan, receipt, undo
from gatewise.surgery.planning import examples
from gatewise.surgery.propagate import cost
from gatewise.surgery.tools import match
from gatewise.surgery.tools.width_scaling import follow_each, scalable_sites, scaled


def count(model):
    return sum(value.numel() for value in model.parameters())


def two_layers(width, bias=True):
    return nn.Sequential(nn.Linear(20, width, bias=bias), nn.ReLU(), nn.Linear(width, 7))


def test_the_nearest_whole_width_is_found_as_by_trying_all():
    for target in (30, 500, 1234, 2790):
        found = match(two_layers, target, option="width", between=(1, 100), tolerance=1.0)
        best = min(range(1, 101), key=lambda width: abs(count(two_layers(width)) - target))
        assert abs(found.got - target) == abs(count(two_layers(best)) - target)
        assert found.got == count(two_layers(found.value)) and found.error == found.got / target - 1


def test_a_scale_is_found_for_a_network_of_the_catalogue():
    original = gw.models.create_model("resnet", depth=14)

    def factory(scale):
        return gw.models.create_model("resnet", depth=14, scale=scale, unit="psc", out_unit="relu")

    found = match(factory, original)
    assert abs(count(factory(found.value)) / count(original) - 1) <= 0.01


def test_operations_are_counted_on_the_example():
    x = torch.zeros(3, 20)
    target = two_layers(31)
    assert cost(target, "flops", x) == 3 * (2 * 20 * 31 + 31 + 2 * 31 * 7)
    assert match(two_layers, target, x, by="flops", option="width", between=(1, 100)).value == 31


def test_widths_that_the_factory_refuses_are_passed_over():
    def even(width):
        if width % 2:
            raise ArgumentError("width: is odd", got=width)
        return two_layers(width)

    assert match(even, count(two_layers(40)), option="width", between=(1, 99)).value == 40
    with pytest.raises(ArgumentError, match="accepts none of the 3 widths tried"):
        match(lambda width: even(2 * width + 1), 500, option="width", between=(1, 3))


def multiples(of):
    def factory(width):
        assert width % of == 0, f"{width} is no multiple of {of}"  # as torch's own attention has it
        return two_layers(width)

    return factory


@pytest.mark.parametrize("of", [2, 16, 64, 1000])
def test_no_whole_width_that_the_factory_takes_is_missed(of):
    widths = range(of, 4099, of)
    for target in (1, 700, 30_000, 57_000, 200_000):
        found = match(multiples(of), target, option="width", between=(1, 4098), tolerance=1e9)
        best = min(
            abs(28 * width + 7 - target) for width in widths
        )  # (20 + 1) width + (width + 1) 7
        assert abs(found.got - target) == best and found.value in widths


@pytest.mark.parametrize("parts", [8, 10])
def test_shares_that_people_write_are_tried(parts):
    def factory(scale):
        if not (scale * parts).is_integer():
            raise ValueError(f"{scale} is no multiple of 1 / {parts}")
        return two_layers(int(scale * parts * 3))

    for share in (1 / parts, 3 / parts, 1.5, 3.5):
        assert match(factory, count(factory(share))).value == share


def test_a_factory_that_takes_nothing_is_asked_a_bounded_number_of_times():
    asked = []

    def factory(width):
        asked.append(width)
        raise ValueError("never")

    with pytest.raises(ArgumentError, match=r"accepts none of the 65536 widths tried \(never\)"):
        match(factory, 500, option="width", between=(1, 10**9))
    assert len(asked) == len(set(asked)) == 65536


def test_an_example_that_does_not_fit_is_tried_at_one_width():
    asked = []

    def factory(width):
        asked.append(width)
        return two_layers(width)

    with pytest.raises(
        ArgumentError,
        match=r"cannot be counted at width=1 \(example: the model cannot be run on it",
    ):
        match(factory, 500, torch.zeros(3, 21), by="flops", option="width", between=(1, 9))
    assert asked == [1]


@pytest.mark.parametrize(
    ("arguments", "options", "says"),
    [
        ((two_layers, 500), {"by": "bytes"}, "there is no budget of that name"),
        ((two_layers, 500), {"by": "flops"}, "needs an example"),
        ((two_layers, 500), {"between": (3, 3)}, "between is not a range"),
        ((two_layers, 500), {"between": (1.0, float("inf"))}, "between is not a range"),
        ((two_layers, 500), {"tolerance": float("nan")}, "tolerance is not allowed"),
        *(
            ((two_layers, 500), {"between": wrong}, "between is not a range")
            for wrong in (
                None,
                3,
                (1,),
                (1, 2, 3),
                ("a", "b"),
                "ab",
                (-5, 9),
                (True, 9),
                (1, None),
                {1: 2, 3: 4},
            )
        ),
        *(
            ((two_layers, 500), {"tolerance": wrong}, "tolerance is not allowed")
            for wrong in ("a", None, True, -1)
        ),
        *(
            ((two_layers, wrong), {"between": (1, 9)}, "target is neither a model nor a positive")
            for wrong in (0, True, "a", None, 5.0)
        ),
        (
            (two_layers, 10**9),
            {"option": "width", "between": (1, 9)},
            "no width between 1 and 9 is within 1.0%",
        ),
        (
            (lambda width: width, 500),
            {"option": "width", "between": (1, 10**9)},
            "factory does not return a model",
        ),
        (
            (two_layers, 500),
            {"option": "widht"},
            "no option in the factory of that name.*did you mean 'width'",
        ),
        (
            (two_layers, 500),
            {"option": "width"},
            r"cannot be called \(.*got: width=0.05; .*only whole numbers",
        ),
        (
            (lambda **all: two_layers(**all), 500),
            {"option": "depth"},
            "unexpected keyword argument 'depth'",
        ),
        (
            (lambda width, depth: nn.Linear(width, depth), 9),
            {"option": "width"},
            "no value for depth; fix: .*lambda",
        ),
        ((nn.Linear(2, 2).weight, 9), {}, "factory cannot be called"),
    ],
)
def test_what_cannot_be_matched_is_our_error(arguments, options, says):
    with pytest.raises(ArgumentError, match=says):
        match(*arguments, **options)


def test_whole_numbers_of_numpy_are_whole_numbers():
    ends = (np.int64(1), np.int32(100))
    found = match(
        two_layers, np.int64(287), option="width", between=ends, tolerance=np.float32(0.01)
    )
    assert found == match(two_layers, 287, option="width", between=(1, 100)) and found.value == 10
    assert type(found.value) is type(found.target) is int


def narrow(width=8):
    return nn.Sequential(
        nn.Conv2d(3, width, 3),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        nn.Conv2d(width, 6, 3),
        nn.ReLU(),
        nn.Conv2d(6, 4, 1),
    )


@pytest.mark.parametrize("ratio", [0.5, 1.5])
def test_scaling_keeps_the_first_filters_and_copies_what_is_beyond(ratio):
    model = narrow()
    x = torch.randn(2, 3, 9, 9)
    found = scaled(gw.find_sites(model, x), ["2"], ratio)
    assert found.widths == {"2": int(8 * ratio)}
    index = torch.arange(int(8 * ratio)) % 8
    edits = {(edit.name, edit.dim): edit for edit in found.edits.values()}
    assert torch.equal(edits["0.weight", 0].apply(model[0].weight), model[0].weight[index])
    assert torch.equal(
        edits["1.running_var", 0].apply(model[1].running_var), model[1].running_var[index]
    )
    columns = edits["3.weight", 1].apply(model[3].weight.detach())
    assert (
        torch.equal(columns[:, :8], model[3].weight[:, : len(index)]) and not columns[:, 8:].any()
    )
    assert {(each.path, each.attribute): each.after for each in found.settings.values()} == {
        **{
            ("0", "out_channels"): len(index),
            ("1", "num_features"): len(index),
            ("3", "in_channels"): len(index),
        },
    }


CASES = [
    ("crelu", "parameters", {"width": "same"}),
    ("crelu", "flops", {"width": "half"}),
    ("psc", "parameters", {}),
]


@pytest.mark.parametrize(("unit", "by", "options"), CASES)
def test_a_matched_swap_costs_what_the_original_does_within_one_per_cent(unit, by, options):
    model = nn.Sequential(
        *(
            nn.Conv2d(3, 64, 3),
            nn.BatchNorm2d(64),
            nn.ReLU(),
            nn.Conv2d(64, 48, 3),
            nn.ReLU(),
            nn.Conv2d(48, 48, 3),
        ),
        *(nn.ReLU(), nn.AdaptiveMaxPool2d(1), nn.Flatten(), nn.Linear(48, 4)),
    )
    x = torch.randn(2, 3, 12, 12)
    made = plan(model, unit, x, match=by, **options)
    new = made.apply(model, inplace=False)
    assert (
        abs(cost(new, by, x) / cost(model, by, x) - 1) <= 0.015
    )  # a unit's own elementwise work is not in the plan
    assert made.parameters == receipt(new).parameters == (count(model), count(new))
    before, after = made.parameters if by == "parameters" else made.operations
    assert abs(after / before - 1) <= 0.01
    again = Plan.from_json(made.to_json()).apply(copy.deepcopy(model), example=x)
    assert {name: value.shape for name, value in again.state_dict().items()} == {
        name: value.shape for name, value in new.state_dict().items()
    }
    new.load_state_dict(model.state_dict())
    assert torch.equal(undo(new, weights="original").eval()(x), model.eval()(x))


@pytest.mark.slow
def test_operations_of_bound_units_are_counted_on_the_changed_model():
    x = torch.randn(2, 3, 12, 12)
    model = nn.Sequential(
        nn.Conv2d(3, 200, 1), nn.ReLU(), nn.Conv2d(200, 120, 1), nn.ReLU(), nn.Conv2d(120, 4, 1)
    )
    assert cost(gw.swap(model, "iieu_b", x), "flops", x) > 1.01 * cost(model, "flops", x)
    new = plan(model, "iieu_b", x, match="flops").apply(model, inplace=False)
    assert abs(cost(new, "flops", x) / cost(model, "flops", x) - 1) <= 0.01


@pytest.fixture
def readings(monkeypatch: pytest.MonkeyPatch) -> list[nn.Module]:
    """The models that are read while plans are made."""
    read, made = examples.find_sites, []
    monkeypatch.setattr(
        examples,
        "find_sites",
        lambda model, example, **more: made.append(model) or read(model, example, **more),
    )
    return made


@pytest.mark.slow
@pytest.mark.parametrize(("unit", "by", "options"), CASES)
def test_widths_are_found_by_reading_the_model_and_one_that_is_scaled(readings, unit, by, options):
    model, x = gw.models.create_model("resnet_cifar", depth=8), torch.randn(2, 3, 16, 16)
    made = plan(model, unit, x, match=by, **options)
    before, after = made.parameters if by == "parameters" else made.operations
    assert len(readings) <= 3 and abs(after / before - 1) <= 0.01


@pytest.mark.slow
def test_an_estimate_that_leaves_out_what_units_bring_is_corrected(readings):
    model = nn.Sequential(
        *(
            nn.Conv2d(3, 300, 1),
            nn.ReLU(),
            nn.Conv2d(300, 20, 1),
            nn.ReLU(),
            nn.Conv2d(20, 300, 1),
            nn.ReLU(),
        ),
        nn.Conv2d(300, 3, 1),
    )
    made = plan(
        model, "frelu", torch.randn(2, 3, 6, 6), match="parameters"
    )  # a window of nine weights per channel
    assert len(readings) > 2 and made.entries[0].after < 300
    assert abs(count(made.apply(model, inplace=False)) / count(model) - 1) <= 0.01


@pytest.mark.parametrize("ratio", [0.6, 1.4])
def test_sites_scaled_at_once_are_what_they_are_one_after_the_other(ratio):
    graph = gw.find_sites(
        gw.models.create_model("resnet_cifar", depth=8), torch.randn(2, 3, 16, 16)
    )
    names = scalable_sites(graph)
    found = scaled(graph, names, ratio)
    each = follow_each(graph, found.widths)
    assert found.widths == each.widths and len(names) > 2
    assert found.edits.keys() == each.edits.keys() and found.settings == each.settings
    assert all(edit.same_as(each.edits[key]) for key, edit in found.edits.items())


@pytest.mark.slow
def test_where_no_ratio_fits_single_widths_are_moved():
    model, x = gw.models.create_model("resnet_cifar", depth=8), torch.randn(2, 3, 16, 16)
    made = plan(model, "crelu", x, match="flops", width="half")
    assert (
        abs(made.operations[1] / made.operations[0] - 1) <= 0.01
        and "slightly more or less" in made.notes[-1]
    )
    new = made.apply(model, inplace=False)
    assert abs(cost(new, "flops", x) / cost(model, "flops", x) - 1) <= 0.015


def test_a_site_that_does_not_go_with_the_others_is_left():
    class Twice(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = nn.Linear(6, 8), nn.Linear(8, 3)

        def forward(self, x):
            return self.b(self.a(x).relu()) + self.b(torch.tanh(x.repeat(1, 2)[:, :8]))

    model, x = Twice(), torch.randn(2, 6)
    graph = gw.find_sites(model, x)
    assert scaled(graph, [site.name for site in graph], 0.5).widths == {}


def test_a_swap_that_already_fits_is_not_scaled():
    made = plan(plain(), "gelu", torch.randn(2, 3, 8, 8), match="parameters")
    assert not made.edits and made.parameters[0] == made.parameters[1]


def test_matching_is_refused_where_it_is_impossible():
    x = torch.randn(2, 3, 8, 8)
    with pytest.raises(UnknownNameError, match="no budget"):
        plan(plain(), "crelu", x, match="bytes")
    with pytest.raises(ArgumentError, match="cannot compute the same function"):
        plan(plain(), "crelu", x, preserve=True, match="parameters")
    with pytest.raises(
        ArgumentError, match=r"0 widths to choose; fix: .*gw.surgery.match\(factory, target\)"
    ):
        plan(nn.Sequential(nn.ReLU(), nn.Conv2d(3, 2, 1)), "prelu", x, match="parameters")


def test_a_site_that_cannot_be_scaled_is_left():
    graph = gw.find_sites(nn.Sequential(nn.ReLU(), nn.Conv2d(3, 2, 1)), torch.randn(2, 3, 4, 4))
    assert scaled(graph, ["0"], 0.5).widths == {}
