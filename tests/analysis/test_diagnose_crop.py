"""Reconstruction counts only pixels that the first layer reads, whatever the size of the images."""

import pytest
import torch
from torch import nn

import gatewise as gw

CASES = [
    # kernel, stride, padding, dilation, pooling, sides of the images
    (3, 2, 0, 1, None, (129, 129)),
    (3, 2, 0, 1, None, (128, 100)),
    (5, 3, 0, 1, None, (64, 33)),
    (3, 2, 0, 2, None, (40, 41)),  # with gaps: every other pixel is never read
    (2, 3, 0, 1, None, (30, 32)),
    ((3, 5), (2, 4), (0, 1), 1, None, (63, 70)),
    (3, 2, 0, 1, nn.MaxPool2d(2), (64, 64)),
    (3, 1, 0, 1, nn.MaxPool2d(3, 2, ceil_mode=True), (64, 66)),
]


def _network(kernel, stride, padding, dilation, pool, filters=96):
    conv = nn.Conv2d(3, filters, kernel, stride, padding, dilation)
    first = [conv, nn.ReLU()] if pool is None else [conv, nn.ReLU(), pool]
    end = [nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(filters, 4)]
    return nn.Sequential(*first, *end).eval()


def _facts(model, images):
    diagnosis = gw.diagnose(model, images, questions=["reconstruction"])
    return diagnosis.to_dict()["questions"][0]["facts"]


def _read_pixels(conv, pool, size):
    """Pixels that change the output, by changing each of them. Independent of the library."""
    conv = nn.Conv2d(1, 1, conv.kernel_size, conv.stride, conv.padding, conv.dilation, bias=False)
    nn.init.ones_(conv.weight)
    pixels = torch.eye(size[0] * size[1]).reshape(-1, 1, *size)
    y = conv(pixels)
    if pool is not None:
        y = pool(y)
    return (y.flatten(1) != 0).any(1).reshape(size)


@pytest.mark.slow
@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation", "pool", "size"), CASES)
def test_a_border_that_the_layer_never_reads_is_not_lost(
    kernel, stride, padding, dilation, pool, size
):
    # 96 filters of at most 75 numbers: CReLU keeps everything that the layer reads.
    torch.manual_seed(0)
    model = _network(kernel, stride, padding, dilation, pool)
    coarse = torch.randn(4, 3, 8, 8)
    images = nn.functional.interpolate(coarse, size=size, mode="bicubic")
    ratios = _facts(model, images)["ratios"]
    assert ratios["crelu"] < 0.01
    assert ratios["random"] < 0.01


@pytest.mark.parametrize(("kernel", "stride", "padding", "dilation", "pool", "size"), CASES)
def test_read_pixels_by_changing_each_of_them(kernel, stride, padding, dilation, pool, size):
    size = tuple(min(side, 33) for side in size)
    model = _network(kernel, stride, padding, dilation, pool, filters=8)
    x = torch.randn(2, 3, *size)
    result = gw.analysis.reconstruct(model[0], x, pool=pool)
    assert torch.equal(result.read, _read_pixels(model[0], pool, size))
    error = ((result.x - result.image) * result.read).flatten(1).norm(dim=1)
    length = (result.x * result.read).flatten(1).norm(dim=1)
    torch.testing.assert_close(result.ratio, error / length)


@pytest.mark.slow
def test_ratios_do_not_depend_on_where_the_image_ends():
    torch.manual_seed(1)
    model = _network(3, 2, 0, 1, None, filters=10)
    image = nn.functional.interpolate(torch.randn(4, 3, 9, 9), size=(131, 131), mode="bicubic")
    values = []
    for side in (128, 129, 130, 131):
        values.append(_facts(model, image[:, :, :side, :side])["ratios"]["relu"])
    assert max(values) - min(values) < 0.05


def test_the_line_says_what_the_ratio_is():
    torch.manual_seed(0)
    diagnosis = gw.diagnose(
        _network(3, 1, 1, 1, None, filters=6),
        torch.randn(4, 3, 16, 16),
        questions=["reconstruction"],
    )
    assert "norm" in diagnosis["reconstruction"].line


class _Scaled(nn.Module):
    """A network that scales its input before the first layer."""

    def __init__(self, conv):
        super().__init__()
        self.conv = conv
        self.end = nn.Linear(conv.out_channels, 2)

    def forward(self, x):
        return self.end(torch.relu(self.conv((x - 5) / 0.2)).mean((2, 3)))


def test_the_layer_is_rebuilt_from_what_it_reads():
    torch.manual_seed(0)
    conv = nn.Conv2d(3, 6, 3, 3)  # patches that do not overlap: few iterations are enough
    x = torch.randn(4, 3, 12, 12)
    ratio = _facts(_Scaled(conv), x)["ratios"]["crelu"]
    expected = gw.analysis.reconstruct(conv, (x - 5) / 0.2).ratio.mean()
    assert float(expected) > 0.1
    assert ratio == pytest.approx(float(expected), abs=1e-3)


def test_ratios_are_those_of_the_pseudo_inverse():
    # A dense matrix of the layer, solved by singular values. Its shifted filters are nearly
    # dependent: at a tolerance of 1e-4, conjugate gradients stop at other ratios.
    torch.manual_seed(0)
    conv = nn.Conv2d(1, 8, 2, 3)
    x = torch.randn(4, 1, 14, 14)
    model = nn.Sequential(conv, nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(8, 2))
    facts = _facts(model, x)
    assert facts["at_most"] == []
    pixels = torch.eye(14 * 14).reshape(-1, 1, 14, 14)
    with torch.no_grad():
        matrix = (conv(pixels) - conv(torch.zeros(1, 1, 14, 14))).flatten(1).T.double()
        known = conv(x).flatten(1) > 0
    read = (matrix != 0).any(0)
    errors = []
    for image, rows in zip(x.double().flatten(1), known, strict=True):
        rebuilt = torch.linalg.pinv(matrix[rows], rtol=1e-9) @ (matrix[rows] @ image)
        errors.append((rebuilt - image)[read].norm() / image[read].norm())
    assert facts["ratios"]["relu"] == pytest.approx(float(sum(errors)) / 4, abs=1e-3)
