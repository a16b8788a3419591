"""Questions about layers where the inputs pass: what is there, and what a first layer forgets."""

from typing import Any

import torch
from torch import Tensor, nn

from gatewise.analysis._diagnosis.finding import DoesNotApply, Finding
from gatewise.analysis._diagnosis.pictures import picture
from gatewise.analysis._diagnosis.subject import Subject
from gatewise.analysis._diagnosis.words import few, plural, share
from gatewise.analysis._filters import CONVOLUTIONS
from gatewise.analysis.reconstruct import Reconstruction, reconstruct
from gatewise.sites._node import Node
from gatewise.sites._ops import CONVOLUTIONS as CONVOLUTION_OPS

IMAGES = 4
LARGEST_SIDE = 64  # pixels of the part of an image that is reconstructed
TOLERANCE = 1e-6  # of the conjugate gradients: far below what a ratio or a picture shows
ITERATIONS = 3000


def ask_sites(subject: Subject) -> Finding:
    """Where are the nonlinearities, and what makes and reads each?"""
    graph = subject.graph
    if not len(graph):
        raise DoesNotApply("no gates", "; ".join(graph.notes))
    kinds: dict[str, int] = {}
    for site in graph:
        kinds[site.op] = kinds.get(site.op, 0) + 1
    rows = [
        {"name": site.name, "op": site.op, "kind": site.kind, "role": site.role, "channels": site.channels,
         "producers": list(site.producers), "consumers": list(site.consumers)}
        for site in graph
    ]  # fmt: skip
    line = f"{plural(len(graph), 'activation site')}: {few([f'{count} {op}' for op, count in kinds.items()], 5)}."
    return Finding(line, {"sites": rows, "notes": list(graph.notes)}, graph)


def ask_reconstruction(subject: Subject) -> Finding:
    """What do the first convolution's features still know of the image?"""
    path, conv = _first_convolution(subject)
    x = _middle(subject.tensors(IMAGES), conv)
    both, one = (_known(conv, x, unit) for unit in ("crelu", "relu"))
    chance = _known(_random_twin(conv), x, "crelu")
    means = {name: float(each.ratio.mean()) for name, each in (("crelu", both), ("relu", one), ("random", chance))}
    facts: dict[str, Any] = {
        "layer": path, "images": len(x), "shape": list(x.shape[1:]), "ratios": means,
        "per_image": {"crelu": both.ratio.tolist(), "relu": one.ratio.tolist(), "random": chance.ratio.tolist()},
        "equations": float(both.equations.double().mean()), "unknowns": both.unknowns,
        "iterations": max(both.iterations, one.iterations), "method": both.method,
    }  # fmt: skip
    if x.shape[1] in (1, 3):
        facts["pictures"] = _pictures(x, both, one, chance)
    line = f"From both phases of {path} the image comes back but for {share(means['crelu'])}, from the positive one"
    line += f" (ReLU) but for {share(means['relu'])}; random filters: {share(means['random'])}."
    return Finding(line, facts, both)


def _first_convolution(subject: Subject) -> tuple[str, Any]:
    """The first convolution that reads the model's input itself."""
    modules = dict(subject.model.named_modules())
    if not any(isinstance(module, CONVOLUTIONS) for module in modules.values()):
        raise DoesNotApply("no convolution")
    if not subject.has_images:
        raise DoesNotApply("no images")
    for node in subject.reading.graph:
        module = modules.get(node.scope[0])
        if node.op in CONVOLUTION_OPS and isinstance(module, CONVOLUTIONS) and _reads_input(node):
            return node.scope[0], module
    raise DoesNotApply("no convolution", "none reads the image itself")


def _reads_input(node: Node) -> bool:
    source = node.inputs[0]
    while source.op not in ("input", *CONVOLUTION_OPS) and source.inputs:
        source = source.inputs[0]
    return source.op == "input"


def _middle(x: Tensor, conv: Any) -> Tensor:
    """The middle of large images: conjugate gradients take a second for it, and minutes for all."""
    side = max(LARGEST_SIDE, 4 * max(conv.kernel_size))
    top, left = (max(0, (size - side) // 2) for size in x.shape[2:])
    return x[:, :, top : top + side, left : left + side].detach()


def _known(conv: Any, x: Tensor, unit: str) -> Reconstruction:
    return reconstruct(conv, x, unit=unit, tolerance=TOLERANCE, most_iterations=ITERATIONS)


def _random_twin(conv: Any) -> nn.Module:
    """The same convolution with random normal filters of unit length, its bias gone."""
    twin = type(conv)(
        conv.in_channels, conv.out_channels, conv.kernel_size, conv.stride, conv.padding, conv.dilation, conv.groups,
        bias=False, padding_mode=conv.padding_mode,
    )  # fmt: skip
    random = torch.randn(twin.weight.shape, generator=torch.Generator().manual_seed(0))
    twin.weight.data = nn.functional.normalize(random.flatten(1), dim=1).reshape(twin.weight.shape)
    return twin.to(conv.weight.device)


def _pictures(x: Tensor, both: Reconstruction, one: Reconstruction, chance: Reconstruction) -> list[dict[str, Any]]:
    found = []
    for place, image in enumerate(x):
        low, high = float(image.min()), float(image.max())
        shown = {"input": image, "crelu": both.image[place], "relu": one.image[place], "random": chance.image[place]}
        found.append({name: picture(each, low=low, high=high) for name, each in shown.items()})
    return found
