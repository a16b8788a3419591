"""Questions about layers where the inputs pass: what is there, and what a first layer forgets."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from gatewise.analysis.diagnosis.context import Subject
from gatewise.analysis.diagnosis.finding import DoesNotApply, Finding
from gatewise.analysis.diagnosis.model_unit import own_unit
from gatewise.analysis.diagnosis.pictures import picture
from gatewise.analysis.diagnosis.questions.pooling_theorem import theorem_facts
from gatewise.analysis.diagnosis.words import called, few, plural, share
from gatewise.analysis.filters import CONVOLUTIONS, Reconstruction, random_ratio, reconstruct
from gatewise.errors import ArgumentError
from gatewise.graph import ACTIVATIONS, Node
from gatewise.graph import CONVOLUTIONS as CONVOLUTION_OPS

IMAGES = 4
LARGEST_SIDE = 64  # pixels of the part of an image that is reconstructed
TOLERANCE = 1e-4  # of the conjugate gradients: ratios are then good to three digits or so
BETWEEN = {
    "batch_norm",
    "max_pool2d",
    *ACTIVATIONS,
}  # what is followed from the convolution to its pooling
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
        {
            "name": site.name,
            "op": site.op,
            "kind": site.kind,
            "role": site.role,
            "channels": site.channels,
            "producers": list(site.producers),
            "consumers": list(site.consumers),
        }
        for site in graph
    ]
    line = f"{plural(len(graph), 'activation site')}: {few([f'{count} {op}' for op, count in kinds.items()], 5)}."
    return Finding(line, {"sites": rows, "notes": list(graph.notes)}, graph)


def ask_reconstruction(subject: Subject) -> Finding:
    """What do the first convolution's features still know of the image?"""
    node, conv = _first_convolution(subject)
    conv, pool = _with_norm_and_pool(node, conv, subject)
    x = _middle(subject.tensors(IMAGES), conv)
    known = {"crelu": _known(conv, x, "crelu"), "relu": _known(conv, x, "relu")}
    if pool is not None:
        known |= {f"{unit}_pooled": _known(conv, x, unit, pool) for unit in ("crelu", "relu")}
    after = "_pooled" if pool is not None else ""
    unit, by_own = _by_own_unit(subject, node.scope[0], conv, x, pool)
    known |= {} if by_own is None else {f"own{after}": by_own}
    known["random"] = _known(_random_twin(conv), x, "crelu")
    means = {name: float(each.ratio.mean()) for name, each in known.items()}
    path, both, kept = node.scope[0], known["crelu"], known[f"crelu{after}"]
    equations = float(kept.equations.double().mean())
    facts: dict[str, Any] = {
        "layer": path,
        "images": len(x),
        "shape": list(x.shape[1:]),
        "ratios": means,
        "pooled": pool is not None,
        "per_image": {name: each.ratio.tolist() for name, each in known.items()},
        "equations": equations,
        "unknowns": both.unknowns,
        "tolerance": TOLERANCE,
        "iterations": max(each.iterations for each in known.values()),
        "method": both.method,
        "pictures": _pictures(x, known),
        "by_chance": random_ratio(min(round(equations), both.unknowns), both.unknowns),
        "bound": None if pool is None else theorem_facts(conv, pool, x),
        "unit": unit,
    }
    line = f"From both phases of {called(path)}{' after pooling' if after else ''} the image comes back but for "
    line += f"{share(means[f'crelu{after}'])}, from the positive one (ReLU) but for {share(means[f'relu{after}'])}"
    line += (
        f", from its own {unit} but for {share(means[f'own{after}'])}" if by_own is not None else ""
    )
    return Finding(f"{line}.", facts, both)


def _by_own_unit(
    subject: Subject, path: str, conv: Any, x: Tensor, pool: nn.Module | None
) -> tuple[str | None, Reconstruction | None]:
    """What the unit that stands behind the layer gives back, where it is another than ReLU.

    None where it does not.
    """
    found = own_unit(subject, path)
    if found is None:
        return None, None
    try:
        return found[0], _known(conv, x, found[1], pool)
    except ArgumentError:
        return found[0], None


def _first_convolution(subject: Subject) -> tuple[Node, Any]:
    """The first convolution that reads the model's input itself."""
    modules = dict(subject.model.named_modules())
    if not any(isinstance(module, CONVOLUTIONS) for module in modules.values()):
        raise DoesNotApply("no convolution")
    if not subject.has_images:
        raise DoesNotApply("no images")
    for node in subject.reading.graph:
        module = modules.get(node.scope[0])
        if node.op in CONVOLUTION_OPS and isinstance(module, CONVOLUTIONS) and _reads_input(node):
            return node, module
    raise DoesNotApply("no convolution", "none reads the image itself")


def _with_norm_and_pool(node: Node, conv: Any, subject: Subject) -> tuple[Any, nn.MaxPool2d | None]:
    """The convolution with the norm after it folded in, and the max-pooling after the unit, if they are there."""
    pool, after = None, _next(node, subject)
    while pool is None and after is not None:
        node, after = after, _next(after, subject)
        norm = subject.model.get_submodule(node.scope[0]) if node.op == "batch_norm" else None
        if isinstance(norm, nn.BatchNorm2d) and norm.running_mean is not None:
            conv = fuse_conv_bn_eval(conv, norm)
        if node.op == "max_pool2d":
            pool = _pool(node)
    return conv, pool


def _next(node: Node, subject: Subject) -> Node | None:
    """What alone reads a tensor, if it is a norm, a unit or a pooling.

    A unit of several operators as a whole.
    """
    if len(node.users) == 1 and node.users[0].op in BETWEEN:
        return node.users[0]
    ends = (site.output for site in subject.gates if site.response is node)
    return next((end for end in ends if all(user.index <= end.index for user in node.users)), None)


def _pool(node: Node) -> nn.MaxPool2d:
    keys = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")
    given: dict[str, Any] = {
        key: node.arguments[key] for key in keys if node.arguments.get(key) not in (None, [], ())
    }
    tidy: dict[str, Any] = {
        key: tuple(value) if isinstance(value, list) else value for key, value in given.items()
    }
    return nn.MaxPool2d(**tidy)


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


def _known(
    conv: Any, x: Tensor, unit: str | nn.Module, pool: nn.Module | None = None
) -> Reconstruction:
    return reconstruct(
        conv, x, unit=unit, pool=pool, tolerance=TOLERANCE, most_iterations=ITERATIONS
    )


def _random_twin(conv: Any) -> nn.Module:
    """The same convolution with random normal filters of unit length, its bias gone."""
    twin = type(conv)(
        conv.in_channels,
        conv.out_channels,
        conv.kernel_size,
        conv.stride,
        conv.padding,
        conv.dilation,
        conv.groups,
        bias=False,
        padding_mode=conv.padding_mode,
    )
    random = torch.randn(twin.weight.shape, generator=torch.Generator().manual_seed(0))
    twin.weight.data = nn.functional.normalize(random.flatten(1), dim=1).reshape(twin.weight.shape)
    return twin.to(conv.weight.device)


def _pictures(x: Tensor, known: Mapping[str, Reconstruction]) -> list[dict[str, Any]]:
    found = []
    for place, image in enumerate(x):
        low, high = float(image.min()), float(image.max())
        shown = {"input": image} | {name: each.image[place] for name, each in known.items()}
        found.append({name: picture(each, low=low, high=high) for name, each in shown.items()})
    return found
