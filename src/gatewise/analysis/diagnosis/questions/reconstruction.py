"""The question how much of an image can be rebuilt from the features of the first layer."""

from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.utils import parametrize
from torch.nn.utils.fusion import fuse_conv_bn_eval

from gatewise.analysis.diagnosis.context import DiagnosisContext
from gatewise.analysis.diagnosis.model_unit import unit_at
from gatewise.analysis.diagnosis.pictures import picture
from gatewise.analysis.diagnosis.pooling_theorem import theorem_facts
from gatewise.analysis.diagnosis.question import Finding, Question
from gatewise.analysis.diagnosis.words import layer_name, percentage
from gatewise.analysis.filters import (
    CONVOLUTIONS,
    Reconstruction,
    empty_like,
    random_ratio,
    read_places,
    reconstruct,
)
from gatewise.errors import Limitation, NotApplicableError
from gatewise.graph import ACTIVATIONS, Node
from gatewise.graph import CONVOLUTIONS as CONVOLUTION_OPS

IMAGES = 4
LARGEST_SIDE = 64  # pixels of the part of an image that is rebuilt
# Of the conjugate gradients. With filters that are nearly dependent, 0.12 was read at the coarse
# tolerance where the ratio is 0.07. If the fine one is not reached soon, the coarse one gives an
# upper bound: conjugate gradients come closer to the solution with every step.
FINE, COARSE = 1e-7, 1e-4
FINE_NUMBERS = 4_000_000  # iterations at the fine tolerance, times pixels of an image
ITERATIONS = 3000
BETWEEN = {"batch_norm", "max_pool2d", *ACTIVATIONS}  # allowed between convolution and pooling
RATIO = "|x - x'| / |x|, norms over the pixels that the layer reads, not a share of the pixels"
ALWAYS_COMPARED = {"relu", "crelu"}
POOL_ARGUMENTS = ("kernel_size", "stride", "padding", "dilation", "ceil_mode")


def _answer(context: DiagnosisContext) -> Finding:
    """Rebuild some images from the features of the first convolution, with several units.

    The units are CReLU, ReLU and that of the model, with and without the pooling after them. For
    comparison, CReLU after random filters.
    """
    node, conv = _first_convolution(context)
    layer = node.scope[0]
    images = _input_of(conv, context)
    conv, pool = _with_norm_and_pool(node, conv, context)
    x = _centre(images, conv, pool)
    pooled = "" if pool is None else "_pooled"
    results = {"crelu": _rebuild(conv, x, "crelu"), "relu": _rebuild(conv, x, "relu")}
    if pool is not None:
        for unit in ("crelu", "relu"):
            results[f"{unit}_pooled"] = _rebuild(conv, x, unit, pool)
    unit, by_model = _by_model_unit(context, layer, conv, x, pool)
    if by_model is not None:
        results[f"own{pooled}"] = by_model
    # What filters with nothing learned would keep.
    results["random"] = _rebuild(_with_random_filters(conv), x, "crelu")
    ratios = {name: float(result.ratio.mean()) for name, result in results.items()}
    crelu = results["crelu"]
    equations = float(results[f"crelu{pooled}"].equations.double().mean())
    facts: dict[str, Any] = {
        "layer": layer,
        "images": len(x),
        "shape": list(x.shape[1:]),
        "ratios": ratios,
        "ratio_is": RATIO,
        "pooled": pool is not None,
        "per_image": {name: result.ratio.tolist() for name, result in results.items()},
        "equations": equations,
        "unknowns": crelu.unknowns,
        "at_most": [name for name, result in results.items() if result.tolerance == COARSE],
        "iterations": max(result.iterations for result in results.values()),
        "method": crelu.method,
        "pictures": _pictures(x, results),
        "by_chance": random_ratio(min(round(equations), crelu.unknowns), crelu.unknowns),
        "bound": None if pool is None else theorem_facts(conv, pool, x),
        "unit": unit,
    }
    return Finding(_line(context, facts), facts, crelu)


def _line(context: DiagnosisContext, facts: Mapping[str, Any]) -> str:
    """Return the ratios in words. Units that the model does not have are named as such."""
    ratios = facts["ratios"]
    layer = layer_name(facts["layer"])
    pooled = "_pooled" if facts["pooled"] else ""
    words = {}
    for name, ratio in ratios.items():
        bound = "at most " if name in facts["at_most"] else ""
        words[name] = f"{bound}{percentage(ratio)}"
    crelu = words[f"crelu{pooled}"]
    relu = words[f"relu{pooled}"]
    if not any(facts["layer"] in context.layers_before(site) for site in context.gates):
        return (
            f"No activation follows {layer}. An image rebuilt from all its responses is off by "
            f"{crelu} of its norm; from their positive parts, by {relu}."
        )
    after = " and pooling" if pooled else ""
    line = f"An image rebuilt from ReLU after {layer}{after} is off by {relu} of its norm. "
    line += f"From CReLU, it is off by {crelu}"
    if f"own{pooled}" in ratios:
        line += f", and from the model's {facts['unit']} by {words[f'own{pooled}']}"
    return f"{line}."


def _input_of(conv: nn.Module, context: DiagnosisContext) -> Tensor:
    """Return what a layer reads of some images: the model may first scale or pad them."""
    read: list[Tensor] = []

    def keep(module: nn.Module, args: tuple[Any, ...]) -> None:
        read.append(args[0].detach().clone())

    handle = conv.register_forward_pre_hook(keep)
    try:
        with torch.no_grad():
            context.model(context.tensors(IMAGES))
    finally:
        handle.remove()
    return read[0]


def _by_model_unit(
    context: DiagnosisContext, layer: str, conv: Any, x: Tensor, pool: nn.Module | None
) -> tuple[str | None, Reconstruction | None]:
    """Return the unit that the model has after the layer, and what it keeps of the image.

    The second is ``None`` if the image cannot be rebuilt from the unit's features.
    """
    after = (site for site in context.gates if layer in context.layers_before(site))
    site = next(after, None)
    if site is None or site.unit in ALWAYS_COMPARED:
        return None, None
    module = unit_at(site, context.model)
    if module is None:
        return None, None
    try:
        return site.unit, _rebuild(conv, x, module, pool)
    except NotApplicableError:
        return site.unit, None


def _first_convolution(context: DiagnosisContext) -> tuple[Node, Any]:
    """Return the first convolution that reads the input of the model."""
    modules = dict(context.model.named_modules())
    if not any(isinstance(module, CONVOLUTIONS) for module in modules.values()):
        raise NotApplicableError(Limitation.NO_CONVOLUTION)
    if not context.has_images:
        raise NotApplicableError(Limitation.NO_IMAGES)
    for node in context.reading.graph:
        module = modules.get(node.scope[0])
        if node.op in CONVOLUTION_OPS and isinstance(module, CONVOLUTIONS) and _reads_input(node):
            _check_filters(module, node)
            return node, module
    raise NotApplicableError(Limitation.NO_CONVOLUTION, "no convolution reads the image itself")


def _check_filters(layer: nn.Module, node: Node) -> None:
    """Raise if a layer of a user's class convolves with other filters than its ``weight``."""
    if type(layer) in CONVOLUTIONS or parametrize.is_parametrized(layer):
        return
    weight = node.tensor("weight")
    if weight is None or weight.name != f"{node.scope[0]}.weight":
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            "the filters of the first convolution are computed, not stored",
            got=type(layer).__name__,
        )


def _reads_input(node: Node) -> bool:
    """Whether no convolution is between a node and the input of the model."""
    source = node.inputs[0]
    while source.op not in ("input", *CONVOLUTION_OPS) and source.inputs:
        source = source.inputs[0]
    return source.op == "input"


def _with_norm_and_pool(
    node: Node, conv: Any, context: DiagnosisContext
) -> tuple[Any, nn.MaxPool2d | None]:
    """Return the convolution with the norm after it folded in, and the max-pooling after it."""
    following = _next(node, context)
    while following is not None:
        if following.op == "max_pool2d":
            return conv, _pool(following)
        if following.op == "batch_norm":
            norm = context.model.get_submodule(following.scope[0])
            # A norm with the statistics of the batch is no fixed scale and cannot be folded in.
            if isinstance(norm, nn.BatchNorm2d) and norm.running_mean is not None:
                conv = fuse_conv_bn_eval(conv, norm)
        following = _next(following, context)
    return conv, None


def _next(node: Node, context: DiagnosisContext) -> Node | None:
    """Return the only reader of a tensor, if it is a norm, a unit or a pooling.

    For a unit of several operators this is its last operator.
    """
    if len(node.users) == 1 and node.users[0].op in BETWEEN:
        return node.users[0]
    for site in context.gates:
        end = site.output
        if site.response is node and all(user.index <= end.index for user in node.users):
            return end
    return None


def _pool(node: Node) -> nn.MaxPool2d:
    """Return the module of a max-pooling in the graph."""
    options: dict[str, Any] = {}
    for key in POOL_ARGUMENTS:
        value = node.arguments.get(key)
        if value not in (None, [], ()):
            options[key] = tuple(value) if isinstance(value, list) else value
    return nn.MaxPool2d(**options)


def _centre(x: Tensor, conv: Any, pool: nn.Module | None) -> Tensor:
    """Return the centre of images, of a size that the layer reads to its border.

    On large images, conjugate gradients would take more than a second.
    """
    side = max(LARGEST_SIDE, 4 * max(conv.kernel_size))
    height, width = (min(size, side) for size in x.shape[2:])
    height = _read_side(height, lambda size: read_places(conv, (size, width), pool).any(1))
    width = _read_side(width, lambda size: read_places(conv, (height, size), pool).any(0))
    top = (x.shape[2] - height) // 2
    left = (x.shape[3] - width) // 2
    return x[:, :, top : top + height, left : left + width].detach()


def _read_side(side: int, read: Callable[[int], Tensor]) -> int:
    """Return the longest side, up to ``side``, whose first and last place the layer reads."""
    for size in range(side, side // 2, -1):
        places = read(size)
        if bool(places[0] & places[-1]):
            return size
    return side


def _rebuild(
    conv: Any, x: Tensor, unit: str | nn.Module, pool: nn.Module | None = None
) -> Reconstruction:
    """Rebuild images, with the coarse tolerance if the fine one is not reached."""
    soon = min(ITERATIONS, max(100, FINE_NUMBERS // x[0].numel()))
    try:
        return reconstruct(conv, x, unit=unit, pool=pool, tolerance=FINE, most_iterations=soon)
    except NotApplicableError as problem:
        if problem.limitation is not Limitation.NOT_CONVERGED:
            raise
    return reconstruct(conv, x, unit=unit, pool=pool, tolerance=COARSE, most_iterations=ITERATIONS)


def _with_random_filters(conv: Any) -> nn.Module:
    """Return the same convolution with random normal filters of unit length and no bias."""
    layer = empty_like(conv, bias=False)
    shape = layer.weight.shape
    random = torch.randn(shape, generator=torch.Generator().manual_seed(0))
    layer.weight.data = nn.functional.normalize(random.flatten(1), dim=1).reshape(shape)
    return layer.to(conv.weight.device)


def _pictures(x: Tensor, results: Mapping[str, Reconstruction]) -> list[dict[str, Any]]:
    """Return each input and all its reconstructions, on the scale of the input."""
    rows = []
    for place, image in enumerate(x):
        low = float(image.min())
        high = float(image.max())
        row = {"input": picture(image, low=low, high=high)}
        for name, result in results.items():
            row[name] = picture(result.image[place], low=low, high=high)
        rows.append(row)
    return rows


RECONSTRUCTION = Question(
    "reconstruction", "How much of the image does the first layer keep?", _answer
)
