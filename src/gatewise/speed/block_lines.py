"""Lines of the benchmark for layers and whole networks."""

from collections.abc import Callable

import torch
from torch import Tensor, nn

from gatewise.fused import start_recording, stop_recording
from gatewise.layers import PSConv2d
from gatewise.models import create_model
from gatewise.speed.line import Line, Measured
from gatewise.speed.measuring import Timing, compare_times, forward_and_backward, kept_bytes
from gatewise.speed.placing import place
from gatewise.units import create_unit, iieu_b, patch_norm

BATCH, PIXELS = 8, 112
# Images, input and output channels, kernel and pixels of a convolution; its memory format; the
# target.
READERS = {
    "3x3_64_64": ((16, 64, 64, 3, 56), torch.contiguous_format, 0.93),
    "1x1_64_256_channels_last": ((16, 64, 256, 1, 56), torch.channels_last, 0.85),
    "1x1_64_256": ((16, 64, 256, 1, 56), torch.contiguous_format, 1.0),
    "3x3_256_256": ((16, 256, 256, 3, 14), torch.contiguous_format, 1.0),
    # The first two layers of the network fast_cifar, which the studies on CIFAR-10 train.
    "3x3_12_6_channels_last": ((256, 12, 6, 3, 31), torch.channels_last, 1.0),
    "3x3_23_23_channels_last": ((256, 23, 23, 3, 15), torch.channels_last, 1.0),
}


def block_lines() -> list[Line]:
    """Return the lines of IIEU, Meta-ACON and CReLU with its reader."""
    return [
        Line(
            "relu/iieu_b_elementwise",
            "elementwise part of IIEU-B over native relu, forward and backward, 32x64x56x56",
            1.3,
            "at most",
            _iieu_elementwise,
        ),
        Line(
            "relu/meta_acon",
            "Meta-ACON with its network over native relu, forward and backward, 32x64x56x56",
            1.8,
            "at most",
            _meta_acon,
        ),
        Line(
            "resnet14/inference",
            "throughput of ResNet-14 with IIEU-B over ReLU, inference",
            0.90,
            "at least",
            lambda seconds: _networks(seconds, training=False),
        ),
        Line(
            "resnet14/training",
            "throughput of ResNet-14 with IIEU-B over ReLU, training",
            0.85,
            "at least",
            lambda seconds: _networks(seconds, training=True),
        ),
        Line(
            "resnet14/kept",
            "bytes that ResNet-14 with IIEU-B keeps for the backward pass over ReLU's",
            1.4,
            "at most",
            _network_bytes,
        ),
        Line(
            "patch_norm/3x3",
            "patch norm over the 3x3 convolution 64->64 at 56 pixels, forward and backward",
            0.05,
            "at most",
            _patch_norm,
        ),
        *_reader_lines(),
    ]


def _reader_lines() -> list[Line]:
    """Return the lines of CReLU and phase selection with the layer that reads them."""
    lines = []
    for name, (maps, layout, target) in READERS.items():
        lines.append(
            Line(
                f"crelu_reader/{name}",
                f"CReLU and its reader over the eager concatenation and its reader, {name}",
                target,
                "at most",
                _crelu_reader(maps, layout),
            )
        )
        lines.append(
            Line(
                f"psc_reader/{name}",
                f"PSConv2d over the eager concatenation and its reader, {name}",
                target,
                "at most",
                _psc_reader(maps, layout, training=True),
            )
        )
        lines.append(
            Line(
                f"psc_inference/{name}",
                f"PSConv2d over the eager concatenation and its reader, {name}, forward",
                target,
                "at most",
                _psc_reader(maps, layout, training=False),
            )
        )
    return lines


def _maps(*shape: int) -> Tensor:
    return place(torch.randn(shape, generator=torch.Generator().manual_seed(0)))


def _named(step: Callable[[], object]) -> str:
    """Run a step and return which form of the units ran."""
    recording = start_recording()
    step()
    return stop_recording(recording)


def _iieu_elementwise(seconds: float) -> Measured:
    x = _maps(32, 64, 56, 56)
    patch = x.square().sum(1, keepdim=True).sqrt()
    norms = place(torch.linspace(0.5, 2.0, 64)).requires_grad_()
    shift = place(torch.full((32, 64), 0.5)).requires_grad_()
    eta = place(torch.full((64,), 0.05)).requires_grad_()
    gradient = torch.ones_like(x)

    def step() -> object:
        leaf = x.detach().requires_grad_()
        y = iieu_b(leaf, patch, norms, shift, eta)
        return torch.autograd.grad(y, (leaf, norms, shift, eta), gradient)

    return compare_times(step, forward_and_backward(torch.relu, x, []), seconds=seconds), _named(
        step
    )


def _meta_acon(seconds: float) -> Measured:
    x = _maps(32, 64, 56, 56)
    module = place(create_unit("meta_acon", channels=64))
    step = forward_and_backward(module, x, list(module.parameters()))
    return compare_times(step, forward_and_backward(torch.relu, x, []), seconds=seconds), _named(
        step
    )


def _network_pair() -> tuple[nn.Module, nn.Module, Tensor]:
    torch.manual_seed(0)
    pair = []
    for unit in ("iieu_b", "relu"):
        network = place(create_model("resnet", depth=14, unit=unit))
        network = network.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        pair.append(network)
    x = _maps(BATCH, 3, PIXELS, PIXELS).contiguous(memory_format=torch.channels_last)
    return pair[0], pair[1], x


def _networks(seconds: float, *, training: bool) -> Measured:
    ours, relu, x = _network_pair()

    def step_of(network: nn.Module) -> Callable[[], object]:
        network.train(training)

        def infer() -> object:
            with torch.no_grad():
                return network(x)

        def train() -> object:
            network.zero_grad()
            return network(x).square().mean().backward()

        return train if training else infer

    step = step_of(ours)
    # Throughput is the other way round than time.
    return compare_times(step_of(relu), step, seconds=3 * seconds), _named(step)


def _network_bytes(seconds: float) -> Measured:
    ours, relu, x = _network_pair()
    recording = start_recording()
    ours_bytes = kept_bytes(lambda: ours(x), *ours.parameters(), *ours.buffers())
    form = stop_recording(recording)
    ratio = ours_bytes / kept_bytes(lambda: relu(x), *relu.parameters(), *relu.buffers())
    return Timing(ratio, ratio, ratio, 1), form


def _patch_norm(seconds: float) -> Measured:
    conv = place(nn.Conv2d(64, 64, 3, padding=1, bias=False))
    x = _maps(16, 64, 56, 56)
    norm = forward_and_backward(lambda leaf: patch_norm(leaf, conv), x, [])
    step = forward_and_backward(conv, x, list(conv.parameters()))
    return compare_times(norm, step, seconds=seconds), _named(norm)


def _crelu_reader(
    maps: tuple[int, int, int, int, int],
    layout: torch.memory_format,
) -> Callable[[float], Measured]:
    images, channels, outputs, kernel, pixels = maps

    def measure(seconds: float) -> Measured:
        conv = nn.Conv2d(2 * channels, outputs, kernel, padding=kernel // 2, bias=False)
        conv = place(conv).to(memory_format=layout)  # pyright: ignore[reportCallIssue]
        x = _maps(images, channels, pixels, pixels).contiguous(memory_format=layout)
        unit = create_unit("crelu")
        ours = forward_and_backward(lambda leaf: conv(unit(leaf)), x, list(conv.parameters()))
        theirs = forward_and_backward(
            lambda leaf: conv(_concatenation(leaf)), x, list(conv.parameters())
        )
        return compare_times(ours, theirs, seconds=seconds), _named(ours)

    return measure


def _concatenation(x: Tensor) -> Tensor:
    return torch.cat((torch.relu(x), torch.relu(-x)), 1)


def _psc_reader(
    maps: tuple[int, int, int, int, int],
    layout: torch.memory_format,
    *,
    training: bool,
) -> Callable[[float], Measured]:
    images, channels, outputs, kernel, pixels = maps

    def measure(seconds: float) -> Measured:
        half = kernel // 2
        pair: list[nn.Module] = []
        for layer in (
            PSConv2d(channels, outputs, kernel, padding=half, bias=False),
            nn.Conv2d(2 * channels, outputs, kernel, padding=half, bias=False),
        ):
            pair.append(place(layer).to(memory_format=layout))  # pyright: ignore[reportCallIssue]
        psc, conv = pair
        x = _maps(images, channels, pixels, pixels).contiguous(memory_format=layout)

        def eager(x: Tensor) -> Tensor:
            return conv(_concatenation(x))

        if training:
            ours = forward_and_backward(psc, x, list(psc.parameters()))
            theirs = forward_and_backward(eager, x, list(conv.parameters()))
            return compare_times(ours, theirs, seconds=seconds), _named(ours)
        with torch.no_grad():
            timing = compare_times(lambda: psc(x), lambda: eager(x), seconds=seconds)
            return timing, _named(lambda: psc(x))

    return measure
