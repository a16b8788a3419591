"""Term-S against an unfolded convolution, and the range of equation 27."""

import pytest
import torch
from gatewise_papers import iieu
from torch import nn

import gatewise as gw
from gatewise.errors import ArgumentError


def network() -> nn.Module:
    torch.manual_seed(0)
    model = nn.Sequential(
        gw.nn.ConvIIEU(nn.Conv2d(3, 6, 3), nn.BatchNorm2d(6)),
        gw.nn.ConvIIEU(nn.Conv2d(6, 4, 3, padding=1, bias=False)),
        nn.Flatten(),
        gw.nn.LinearIIEU(nn.Linear(4 * 36, 5), nn.BatchNorm1d(5)),
    )
    with torch.no_grad():
        model[0].norm.weight.copy_(torch.tensor([1.0, -2.0, 0.5, 3.0, 1.0, -0.1]))
        model[0].norm.bias.normal_()
    for module in model.modules():
        if isinstance(module, nn.modules.batchnorm._BatchNorm):
            module.momentum = 1.0
    model(2 * torch.randn(8, 3, 8, 8) + 1)
    return model.eval().double()


@pytest.mark.slow
def test_similarities_are_those_of_unfolded_patches_and_lie_in_the_range() -> None:
    model = network()
    batches = [torch.randn(n, 3, 8, 8, dtype=torch.float64) for n in (5, 3)]
    found = iieu.term_s_range(model, batches)
    first = model[0]
    patches = nn.functional.unfold(torch.cat(batches), 3)  # (n, 27, positions)
    rows = first.conv.weight.detach().flatten(1)
    with torch.no_grad():
        response = first.norm(
            ((rows @ patches) + first.conv.bias[:, None]).reshape(8, 6, 6, 6)
        ).flatten(2)
        s = response / (rows.norm(dim=1)[:, None] * patches.norm(dim=1, keepdim=True))
    assert found.units[0].least == pytest.approx(float(s.min()), rel=1e-6)
    assert found.units[0].most == pytest.approx(float(s.max()), rel=1e-6)
    assert found.units[0].beyond_one == pytest.approx(float((s.abs() > 1).double().mean()))
    r = (first.norm.weight / (first.norm.running_var + first.norm.eps).sqrt()).detach()
    shift = (first.norm.bias + r * (first.conv.bias - first.norm.running_mean)).detach()
    lengths = rows.norm(dim=1)[:, None] * patches.norm(dim=1, keepdim=True)
    low = (-r.abs()[:, None] + shift[:, None] / lengths).min()
    high = (r.abs()[:, None] + shift[:, None] / lengths).max()
    assert found.units[0].bounds == pytest.approx((float(low), float(high)), rel=1e-6)
    for each in found.units:
        assert each.slack is not None and each.slack >= -1e-9
        assert (
            each.bounds is not None and each.bounds[0] <= each.least <= each.most <= each.bounds[1]
        )
    assert found.units[1].bounds == pytest.approx((-1, 1))  # without norm and bias: the cosine's


def test_a_patch_along_the_filter_attains_the_range() -> None:
    layer = gw.nn.LinearIIEU(nn.Linear(4, 1, bias=False)).double()
    along = layer.linear.weight.detach()
    found = iieu.term_s_range(nn.Sequential(layer), [torch.cat((3 * along, -along))])
    assert found.units[0].most == pytest.approx(1, abs=1e-6) and found.units[
        0
    ].least == pytest.approx(-1, abs=1e-6)
    assert found.units[0].slack == pytest.approx(0, abs=1e-6)


def test_records_print_save_and_draw_and_a_model_without_units_is_told() -> None:
    found = iieu.term_s_range(network(), [torch.randn(2, 3, 8, 8, dtype=torch.float64)])
    assert (
        "range of (27)" in repr(found)
        and "<pre>" in found._repr_html_()
        and found.plot() is not None
    )
    assert [each["name"] for each in found.to_dict()["units"]] == ["0.unit", "1.unit", "3.unit"]
    with pytest.raises(ArgumentError, match="no IIEU unit"):
        iieu.term_s_range(nn.Sequential(nn.Linear(2, 2), nn.ReLU()), [torch.randn(2, 2)])
