"""Which layers depend on a site's channels.

Ours against Torch-Pruning's dependency graph, found in another way.
"""

import pytest
import torch
from torch import nn
from zoo import build

from gatewise.graph import GATES, Reading, Site, SiteGraph, find_sites, producers
from gatewise.surgery.propagate import follow
from gatewise.surgery.reasons import Refusal

pytestmark = [
    pytest.mark.networks,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]
LAYERS = (nn.Conv2d, nn.Linear, nn.BatchNorm2d)
Group = set[tuple[str, str]]


def ours(graph: SiteGraph, site: Site, model: nn.Module) -> Group | None:
    """Layers with the side that is edited when the site is widened, streams and gates included."""
    for layout in ("block", "interleaved"):
        try:
            edits = follow(graph, {site.name: layout}, "streams").edits
        except Refusal:
            continue
        return {side(name, dim, model) for name, dim in edits}
    return None


def side(name: str, dim: int, model: nn.Module) -> tuple[str, str]:
    path = name.rpartition(".")[0]
    matrix = isinstance(model.get_submodule(path), nn.Conv2d | nn.Linear) and name.endswith(
        "weight"
    )
    return path, "in" if matrix and dim == 1 else "out"


def theirs(model: nn.Module, dependencies, producer: str) -> Group:
    """Layers with the side that is cut when a channel of ``producer`` is removed."""
    import torch_pruning

    layer = model.get_submodule(producer)
    group = dependencies.get_pruning_group(layer, torch_pruning.prune_conv_out_channels, idxs=[0])
    paths = {module: path for path, module in model.named_modules()}
    found = [(dependency.target.module, dependency.handler.__name__) for dependency, _ in group]
    return {
        (paths[module], "in" if "in_channels" in handler else "out")
        for module, handler in found
        if isinstance(module, LAYERS)
    }


def in_front(reading: Reading, site: Site) -> Group:
    """The layer that makes the site's input, and the norms between.

    Cut by them, not widened by us.
    """
    node, found = reading.site_nodes[site.name].input, set()
    while node.op in ("batch_norm", "conv2d"):
        found.add((node.scope[0], "out"))
        if node.op == "conv2d":
            break
        node = node.inputs[0]
    return found


def comparable(reading: Reading, site: Site) -> bool:
    """Their start is a convolution.

    It has to be the only one in front of the site, and read by nothing else.
    """
    node = reading.site_nodes[site.name].input
    made = producers(node)
    return (
        len(made) == 1
        and made[0].op == "conv2d"
        and made[0].arguments["groups"] == 1
        and bool(in_front(reading, site))
    )


def compare(name: str) -> tuple[int, int]:
    import torch_pruning

    model, example = build(name)
    graph = find_sites(model, example)
    dependencies = torch_pruning.DependencyGraph().build_dependency(model, example_inputs=example)
    equal = other = 0
    for site in graph:
        mine = (
            None
            if site.op in GATES or not comparable(graph.readings["eval"], site)
            else ours(graph, site, model)
        )
        if mine is None:
            other += 1
            continue
        front = in_front(graph.readings["eval"], site)
        group = theirs(
            model,
            dependencies,
            next(path for path, _ in front if isinstance(model.get_submodule(path), nn.Conv2d)),
        )
        assert mine == group - front, site.name
        equal += 1
    return equal, other


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "least"), [("tv:resnet18", 8), ("tv:squeezenet1_1", 24), ("hf:ResNet", 9)]
)
def test_the_same_layers_depend_on_a_sites_channels(name: str, least: int):
    equal, other = compare(name)
    assert equal >= least, (equal, other)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "least"),
    [("timm:resnet50", 30), ("tv:vgg16_bn", 12), ("tv:inception_v3", 90), ("tv:mnasnet0_5", 10)],
)
def test_the_same_layers_depend_on_a_sites_channels_in_more_networks(name: str, least: int):
    torch.set_num_threads(1)
    equal, other = compare(name)
    assert equal >= least, (equal, other)
