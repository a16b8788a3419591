"""SplineCam on the networks that `benchmarks/partition.py` hands over, run by a Python of its own.

SplineCam (Humayun et al., 2023, arXiv:2302.12828) is not on PyPI. With a copy of its repository on
GitHub, AhmedImtiazPrio/splinecam, in the folder `copy` (graph.py, utils.py, wrappers.py and
global_config.py are used), at the commit d743182de0684f2ebb4532ce315254f6a39856d5:

    sed -i '6d;191d;218d;240d' copy/splinecam/utils.py
    python -m venv peer
    peer/bin/pip install -c constraints.txt torch numpy scipy networkx igraph tqdm
    python benchmarks/partition.py --splinecam peer/bin/python copy

The four lines that `sed` removes are `@torch.jit.script` above `region_eccentricity_2d` and three
functions `get_square_slice_from_...`. Torch 2.13 refuses to script them, because they have
arguments with a default value and no type, so the module cannot be imported. None of the four is
called here.

It runs on one thread of the processor in float64, progress bars off, through its
`to_next_layer_partition` layer by layer, and gives the regions and the affine map of each, as ours
does; without the decision boundary, which is a step of its own in both. Its compiled functions have
run once before time is taken.

It searches its graphs for cycles with graph-tool, which PyPI has not either (conda has). Where that
is missing, :class:`Graph` stands in for the part of it that SplineCam calls: a directed graph of
small lists, and breadth-first search. Nothing else is replaced. What is spent in the conversion to
that graph and in the whole search (SplineCam's own code included) is told apart, so that a ratio
can be given to which the stand-in adds nothing.
"""

import contextlib
import importlib
import io
import itertools
import json
import os
import sys
import time
import types
from collections import defaultdict, deque
from collections.abc import Callable, Iterator
from importlib import metadata
from pathlib import Path
from typing import Any, NamedTuple

os.environ["OMP_NUM_THREADS"] = "1"
os.environ["TQDM_DISABLE"] = "1"

import numpy as np
import torch
from torch import Tensor, nn

AT_A_TIME = 1024  # regions whose maps are multiplied at once: all at once would need a gigabyte


class Edge(NamedTuple):
    """As graph-tool's: its two ends, and the key of its properties."""

    source: int
    target: int


class Identity:
    """The index of a vertex is the vertex."""

    def __getitem__(self, vertex: int) -> int:
        return vertex


class Graph:
    """What SplineCam asks of graph-tool's graphs. Vertices are numbers, edges are pairs."""

    vertex_index = Identity()

    def __init__(self, other: "Graph | None" = None, directed: bool = True) -> None:
        copied = other is not None
        self.out = [list(each) for each in other.out] if copied else []
        self.entering = list(other.entering) if copied else []
        self.vp = {name: dict(values) for name, values in other.vp.items()} if copied else {}
        self.ep = (
            {name: defaultdict(int, values) for name, values in other.ep.items()} if copied else {}
        )
        self.vertex_properties, self.edge_properties = self.vp, self.ep

    def new_vertex_property(self, kind: str) -> dict[int, Any]:
        """Values by vertex."""
        return {}

    def new_edge_property(self, kind: str) -> dict[Edge, Any]:
        """Values by edge; 0, as there, for one that was given none."""
        return defaultdict(int)

    def add_vertex(self, count: int) -> None:
        """``count`` of them."""
        self.out += [[] for _ in range(count)]
        self.entering += [0] * count

    def vertex(self, index: int) -> int:
        """The vertex of that number."""
        return index

    def set_directed(self, directed: bool) -> None:
        """Make every edge lead from its first end to its second."""

    def set_fast_edge_removal(self) -> None:
        """It always is."""

    def add_edge(self, source: int, target: int) -> Edge:
        """From the one to the other."""
        self.out[source].append(target)
        self.entering[target] += 1
        return Edge(source, target)

    def remove_edge(self, edge: Edge) -> None:
        """An error if it is not there.

        The last edge of the vertex takes its place, as in graph-tool.
        """
        leaving = self.out[edge.source]
        place = leaving.index(edge.target)
        leaving[place] = leaving[-1]
        leaving.pop()
        self.entering[edge.target] -= 1

    def edge(self, source: int, target: int) -> Edge | None:
        """The edge between them, if there is one."""
        return Edge(source, target) if target in self.out[source] else None

    def edges(self) -> Iterator[Edge]:
        """All edges."""
        return (
            Edge(source, target) for source, leaving in enumerate(self.out) for target in leaving
        )

    def get_edges(self) -> list[Edge]:
        """All edges, as they are now."""
        return list(self.edges())

    def get_in_degrees(self, vertices: list[int]) -> list[int]:
        """How many edges lead to each."""
        return [self.entering[each] for each in vertices]

    def get_out_degrees(self, vertices: list[int]) -> list[int]:
        """How many edges leave each."""
        return [len(self.out[each]) for each in vertices]


def shortest_path(graph: Graph, source: int, target: int) -> tuple[list[int], list[Edge]]:
    """Vertices and edges of a path with the fewest edges; none if there is no path."""
    reached, waiting = {source: source}, deque([source])
    while waiting and target not in reached:
        at = waiting.popleft()
        for vertex in graph.out[at]:
            if vertex not in reached:
                reached[vertex] = at
                waiting.append(vertex)
    if target not in reached:
        return [], []
    vertices = [target]
    while vertices[-1] != source:
        vertices.append(reached[vertices[-1]])
    vertices.reverse()
    return vertices, [Edge(*pair) for pair in itertools.pairwise(vertices)]


class Stopwatch:
    """Processor time spent inside the functions it was put around."""

    def __init__(self) -> None:
        self.seconds = 0.0

    def around(self, owner: Any, name: str) -> None:
        """Measure every call of ``owner.name``."""
        function = getattr(owner, name)

        def timed(*arguments: Any, **options: Any) -> Any:
            start = time.process_time()
            try:
                return function(*arguments, **options)
            finally:
                self.seconds += time.process_time() - start

        setattr(owner, name, timed)


def graph_tool() -> str:
    """The version of graph-tool; "stand-in" where it is missing and ours was put in its place."""
    try:
        return importlib.import_module("graph_tool").__version__
    except ImportError:
        topology = types.ModuleType("graph_tool.topology")
        package = types.ModuleType("graph_tool")
        vars(topology)["shortest_path"] = shortest_path
        vars(package).update(Graph=Graph, topology=topology)
        sys.modules.update({"graph_tool": package, "graph_tool.topology": topology})
        return "stand-in"


def splinecam(folder: Path) -> tuple[Any, Any, Any]:
    """Its modules graph, utils and wrappers, without its imports for plots and for models."""
    package = types.ModuleType("splinecam")
    package.__path__ = [str(folder / "splinecam")]
    sys.modules["splinecam"] = package
    return tuple(
        importlib.import_module(f"splinecam.{name}") for name in ("graph", "utils", "wrappers")
    )


def dense(weights: list[Tensor], biases: list[Tensor]) -> nn.Sequential:
    """The ReLU network of these weights."""
    parts: list[nn.Module] = []
    for weight, bias in zip(weights, biases, strict=True):
        layer = nn.Linear(weight.shape[1], weight.shape[0], dtype=torch.float64)
        layer.load_state_dict({"weight": weight, "bias": bias})
        parts += [layer, nn.ReLU()]
    return nn.Sequential(*parts[:-1]).eval()


def read(path: Path) -> tuple[nn.Sequential, Tensor, Tensor]:
    """The network, its slice (input as an affine function of two coordinates) and the polygon."""
    with np.load(path, allow_pickle=False) as given:
        arrays = {name: torch.from_numpy(given[name]) for name in given.files}
    count = sum(name.startswith("weight") for name in arrays)
    model = dense(*([arrays[f"{kind}{i}"] for i in range(count)] for kind in ("weight", "bias")))
    return model, arrays["slice"], arrays["polygon"]


def partition(
    modules: tuple[Any, Any, Any], model: nn.Sequential, plane: Tensor, polygon: Tensor
) -> list[Tensor]:
    """The regions, and on the way the affine map of the last hidden layer on each."""
    graph, utils, wrappers = modules
    double, cpu = torch.float64, "cpu"
    network = wrappers.model_wrapper(
        model, input_shape=(len(plane),), T=plane, dtype=double, device=cpu
    )
    regions, maps = [polygon], network.layers[0].get_weights()[None]
    for i in range(1, len(network.layers) - 1):  # the last layer has no kinks
        regions, parents = graph.to_next_layer_partition(
            regions, maps, i, network, dtype=double, device=cpu
        )
        inside = utils.get_region_means(regions, dims=2, dtype=double, device=cpu)
        active = network.layers[i].get_activation_pattern(network.layers[:i].forward(inside))
        parents = torch.as_tensor([int(each) for each in parents])
        weights = network.layers[i].get_weights()
        groups = zip(active.split(AT_A_TIME), parents.split(AT_A_TIME), strict=True)
        maps = torch.cat([utils.get_Abw(q, weights, maps[those]) for q, those in groups])
    return regions


def measured(
    run: Callable[[], list[Tensor]], search: Stopwatch
) -> tuple[list[Tensor], dict[str, float]]:
    """What ``run`` gives, and its processor time: in all, and in the search for cycles."""
    search.seconds = 0.0
    start = time.process_time()
    with torch.no_grad(), contextlib.redirect_stdout(io.StringIO()):
        found = run()
    return found, {"seconds": time.process_time() - start, "search": search.seconds}


def main(copy: Path, folder: Path) -> None:
    """Run each network in ``folder``; write a point per region; print times and versions."""
    torch.set_num_threads(1)
    tool = graph_tool()
    modules = splinecam(copy)
    search = Stopwatch()
    search.around(modules[0].ig.Graph, "to_graph_tool")
    search.around(modules[0], "find_cycles_in_graph")
    given = sorted(folder.glob("*.npz"))
    measured(lambda: partition(modules, *read(given[0])), search)  # compiles
    times = {}
    for path in given:
        network = read(path)
        regions, times[path.stem] = measured(
            lambda network=network: partition(modules, *network), search
        )
        np.save(path.with_suffix(".npy"), torch.stack([each.mean(0) for each in regions]).numpy())
        print(path.stem, len(regions), times[path.stem], file=sys.stderr, flush=True)
    versions = {name: metadata.version(name) for name in ("torch", "networkx", "igraph")}
    print(json.dumps({"times": times, "versions": {**versions, "graph-tool": tool}}))


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
