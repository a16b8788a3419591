"""No activation of 34 real networks is overlooked.

Counted by reading them, and by watching torch's dispatcher.
"""

from collections import Counter

import pytest
import torch
from graph.independent_count import count_activations
from torch import nn
from zoo import ZOO, build

from gatewise.graph import SiteGraph, find_sites
from gatewise.graph.trace import split_example

QUICK = {"hf:GPT2": 2, "hf:RegNet": 16, "hf:Wav2Vec2": 5, "tv:resnet18": 17, "tv:squeezenet1_1": 26}
ALL = 1139

pytestmark = [
    pytest.mark.networks,
    pytest.mark.filterwarnings(
        "ignore::DeprecationWarning", "ignore::FutureWarning", "ignore::UserWarning"
    ),
]


def by_path(model: nn.Module, graph: SiteGraph) -> Counter[str]:
    """Count the sites of the eval graph by the first name of their module."""
    names = {id(module): path for path, module in reversed(list(model.named_modules()))}
    sites = [site for site in graph if "eval" in site.modes]
    return Counter(names[id(model.get_submodule(site.path))] for site in sites)


def counted(name: str) -> int:
    model, example = build(name)
    seen = count_activations(model, *split_example(example))
    assert by_path(model, find_sites(model, example)) == seen
    return sum(seen.values())


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_every_activation_that_the_dispatcher_runs_is_a_site(name: str):
    assert counted(name) == QUICK[name]


@pytest.mark.slow
def test_every_activation_of_all_networks_is_a_site():
    assert sum(counted(name) for name in ZOO) == ALL


def test_the_dispatcher_sees_calls_of_every_kind_and_a_site_left_out_is_noticed():
    class Careless(nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.act = nn.Linear(4, 4), nn.Tanh()

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return torch.relu_(self.act(self.act(self.a(x))).sigmoid() - 0.5)

    model, x = Careless(), torch.randn(2, 4)
    seen = count_activations(model, (x,), {})
    graph = find_sites(model, x)
    assert seen == {"act": 2, "": 2} == by_path(model, graph)
    fewer = SiteGraph(graph.sites[1:], graph.readings, graph.aliases)
    assert by_path(model, fewer) != seen
