"""The compiled and the numpy form of a partition agree with each other and with the model."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils import parametrizations

import gatewise as gw
from gatewise.analysis import Partition
from gatewise.analysis.planes import native_splitter
from gatewise.errors import ArgumentError

compiled = pytest.mark.skipif(not native_splitter(), reason="no C compiler")


def chains() -> dict[str, nn.Module]:
    return {
        "relu": nn.Sequential(
            nn.Linear(6, 9), nn.ReLU(inplace=True), nn.Linear(9, 17), nn.ReLU(), nn.Linear(17, 2)
        ),
        "leaky, no bias": nn.Sequential(
            nn.Linear(6, 40, bias=False), nn.LeakyReLU(0.3), nn.Linear(40, 3)
        ),
        "no unit between": nn.Sequential(
            nn.Linear(6, 4), nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 1)
        ),
        "ends in a unit": nn.Sequential(nn.Linear(6, 7), gw.nn.Abs(), nn.Linear(7, 5), nn.ReLU()),
        "one layer": nn.Linear(6, 3),
        "one unit": nn.Sequential(nn.Linear(6, 11), gw.nn.ReLU()),
        "nested, dropout": nn.Sequential(
            nn.Sequential(nn.Linear(6, 8), nn.Dropout(0.5), nn.PReLU(8)),
            nn.Identity(),
            nn.Linear(8, 2),
        ),
        "wide": nn.Sequential(
            nn.Linear(6, 67),
            nn.ReLU(),
            nn.Linear(67, 33),
            gw.nn.LeakyReLU(slope=-0.4),
            nn.Linear(33, 4),
        ),
    }


def points(*shape: int) -> Tensor:
    return torch.randn(3, *shape, generator=torch.Generator().manual_seed(5), dtype=torch.float64)


def both_forms(model: nn.Module, *shape: int, extent: float = 1.5) -> tuple[Partition, Partition]:
    """The partition in both forms, after checking that they agree."""
    three = points(*shape)
    native = gw.analysis.partition(model, three, extent=extent, form="native")
    plain = gw.analysis.partition(model, three, extent=extent, form="numpy")
    assert isinstance(native, Partition) and isinstance(plain, Partition)
    a, b = np.argsort(native.patterns), np.argsort(plain.patterns)
    np.testing.assert_array_equal(native.patterns[a], plain.patterns[b])
    np.testing.assert_allclose(native.maps[a], plain.maps[b], rtol=1e-12, atol=1e-12)
    least = 1e-14 * native.slice.area
    np.testing.assert_allclose(native.areas[a], plain.areas[b], rtol=1e-9, atol=least)
    assert len(native.neighbours()) == len(plain.neighbours())
    return native, plain


@compiled
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["double", "single"])
@pytest.mark.parametrize("name", list(chains()))
def test_both_forms_have_the_same_regions(name: str, dtype: torch.dtype):
    torch.manual_seed(1)
    found, _ = both_forms(chains()[name].to(dtype).eval(), 6)
    assert found.count == len(set(found.patterns.tolist()))
    assert found.count > 5 or name == "one layer"


@compiled
def test_pictures_are_flattened_first():
    model = nn.Sequential(nn.Flatten(), nn.Linear(12, 20), nn.ReLU(), nn.Linear(20, 2)).double()
    both_forms(model, 3, 2, 2)


def changed(change: Callable[[nn.Sequential], object]) -> nn.Sequential:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 2)).double()
    change(model)
    return model


class Twice(nn.Linear):
    """Not what its parent does."""

    def forward(self, x: Tensor) -> Tensor:
        return 2 * super().forward(x)


CHANGES = {
    "a forward hook": lambda m: m[1].register_forward_hook(lambda module, given, y: 2 * y),
    "a hook before": lambda m: m[2].register_forward_pre_hook(
        lambda module, given: (given[0] + 1,)
    ),
    "a method of its own": lambda m: setattr(
        m[0], "forward", lambda x: nn.functional.linear(x, m[0].weight) + 1
    ),
    "a parametrisation": lambda m: parametrizations.weight_norm(m[0]),
    "a class of its own": lambda m: m.__setitem__(0, Twice(6, 8).double()),
    "two units": lambda m: m.__setitem__(1, nn.Sequential(nn.ReLU(), nn.LeakyReLU(0.1))),
    "a unit first": lambda m: m.__setitem__(0, nn.Sequential(nn.LeakyReLU(0.1), m[0])),
    "another unit": lambda m: m.__setitem__(1, nn.ReLU6()),
    "a norm": lambda m: m.__setitem__(
        1, nn.Sequential(nn.BatchNorm1d(8).double().eval(), nn.ReLU())
    ),
}


@pytest.mark.parametrize("name", list(CHANGES))
def test_regions_are_those_of_a_changed_model(name: str):
    model = changed(CHANGES[name])
    found = gw.analysis.partition(model, points(6))
    with torch.no_grad():
        theirs = model(found.slice.inputs(found.centroids))
    ours = found.maps[:, 0] + (found.maps[:, 1:] * found.centroids[:, :, None]).sum(1)
    torch.testing.assert_close(ours, theirs, rtol=1e-10, atol=1e-12)


class Own(nn.Module):
    """Dense layers that code calls in several ways."""

    def __init__(self, how: str) -> None:
        super().__init__()
        self.how, self.first, self.last = how, nn.Linear(6, 8), nn.Linear(8, 2)
        self.slope = nn.Parameter(torch.tensor([0.3]))

    def forward(self, x: Tensor) -> Tensor:
        z = self.first(x)
        match self.how:
            case "functional":
                return self.last(torch.relu(z))
            case "learned slope, in place, reshaped":
                return self.last(
                    nn.functional.prelu(z, self.slope).abs_().reshape(len(x), -1).contiguous()
                )
            case "leaky":
                return nn.functional.leaky_relu_(self.last(nn.functional.leaky_relu(z, -0.2)), 0.4)
            case "skip":
                return self.last(torch.relu(z) + z)
            case "reads an earlier tensor":
                torch.relu(z)
                return self.last(z)
            case "gives an earlier tensor":
                self.last(torch.relu(z))
                return z
            case "computed weight":
                return nn.functional.linear(torch.relu(z), 2 * self.last.weight, self.last.bias)
            case _:
                return self.last(nn.functional.relu6(z))


@compiled
@pytest.mark.parametrize(
    "how",
    [
        "functional",
        "leaky",
        "learned slope, in place, reshaped",
        "skip",
        "reads an earlier tensor",
        "gives an earlier tensor",
        "computed weight",
        "relu6",
    ],
)
def test_both_forms_follow_the_calls_of_a_model(how: str):
    torch.manual_seed(2)
    both_forms(Own(how).double(), 6, extent=3.0)


@compiled
def test_hooks_of_all_modules_are_seen():
    model = changed(lambda _: None)
    without, _ = both_forms(model, 6)
    handle = nn.modules.module.register_module_forward_hook(
        lambda module, given, y: y + 0.002 if isinstance(module, nn.Linear) else None
    )
    try:
        shifted, _ = both_forms(model, 6)
    finally:
        handle.remove()
    assert not torch.equal(shifted.maps[0], without.maps[0])


@compiled
@pytest.mark.parametrize("shape", [(1,), ()])
def test_a_bias_that_is_broadcast_is_every_units(shape: tuple[int, ...]):
    bias = nn.Parameter(torch.full(shape, 0.3, dtype=torch.float64))
    both_forms(changed(lambda m: setattr(m[0], "bias", bias)), 6)


def test_weights_that_do_not_fit_are_named():
    narrow = nn.Parameter(torch.randn(2, 3, dtype=torch.float64))
    for change in (
        lambda m: setattr(m[2], "weight", narrow),
        lambda m: m.__setitem__(1, nn.PReLU(5).double()),
    ):
        with pytest.raises(ArgumentError, match="cannot be run"):
            gw.analysis.partition(changed(change), points(6))


def test_inputs_of_another_width_are_named():
    model = nn.Sequential(nn.Linear(5, 8), nn.ReLU(), nn.Linear(8, 2))
    with pytest.raises(ArgumentError, match="6"):
        gw.analysis.partition(model, points(6))


@compiled
def test_regions_are_counted_against_the_limit():
    torch.manual_seed(1)
    model = chains()["relu"].double()
    count = gw.analysis.partition(model, points(6)).count
    assert gw.analysis.partition(model, points(6), limit=count).count == count
    with pytest.raises(ArgumentError, match="more regions than limit"):
        gw.analysis.partition(model, points(6), limit=count - 1)
