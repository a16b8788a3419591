"""Time of the calls of a model, and memory that they keep for the backward pass."""

import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from gatewise.graph import Graph, Node, Scope, run_graph

Storages = dict[int, int]  # address: bytes


class SavedTensors:
    """The storages that autograd keeps for the backward pass, without parameters and buffers.

    Attributes:
        all: All storages.
        open_calls: The storages of each call that is running, the innermost last.
    """

    def __init__(self, model: nn.Module) -> None:
        weights = (*model.parameters(), *model.buffers())
        self.of_model = {weight.untyped_storage().data_ptr() for weight in weights}
        self.all: Storages = {}
        self.open_calls: list[Storages] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Record what autograd keeps while the context is active."""
        with torch.autograd.graph.saved_tensors_hooks(self._keep, lambda tensor: tensor):
            yield

    def _keep(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        address = storage.data_ptr()  # several saved tensors may share one storage
        if address not in self.of_model:
            for storages in (self.all, *self.open_calls):
                storages[address] = storage.nbytes()
        return tensor.detach()  # autograd would never free an output that it keeps itself


class ModuleProfiler:
    """Time and kept storages of the calls of some modules, in the model's own run.

    Args:
        modules: The modules by their path.
        saved: Records what autograd keeps.
    """

    def __init__(self, modules: Mapping[str, nn.Module], saved: SavedTensors) -> None:
        self.modules = modules
        self.saved = saved
        self.seconds: dict[Scope, float] = {}
        self.storages: dict[Scope, Storages] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Measure calls while the context is active. Of several runs the least time is kept."""
        calls: Counter[str] = Counter()
        starts: list[tuple[Scope, float]] = []

        def enter(path: str) -> Callable[..., None]:
            def hook(*_: Any) -> None:
                self.saved.open_calls.append({})
                starts.append(((path, calls[path]), time.perf_counter()))
                calls[path] += 1

            return hook

        def leave(*_: Any) -> None:
            now = time.perf_counter()
            scope, start = starts.pop()
            self.seconds[scope] = min(now - start, self.seconds.get(scope, now - start))
            self.storages[scope] = self.saved.open_calls.pop()

        handles = []
        for path, module in self.modules.items():
            handles.append(module.register_forward_pre_hook(enter(path)))
            handles.append(module.register_forward_hook(leave))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def time_nodes(
    graph: Graph,
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    repeats: int,
) -> dict[Node, float]:
    """Return the least time in seconds of every operator of a graph.

    Args:
        graph: The graph of the model.
        model: The model.
        args: Positional arguments of the model.
        kwargs: Keyword arguments of the model.
        repeats: The number of runs, after one to warm up.
    """
    seconds: dict[Node, float] = {}
    last = 0.0

    def measure(node: Node, value: Any) -> None:
        nonlocal last
        taken = time.perf_counter() - last
        seconds[node] = min(taken, seconds.get(node, taken))
        last = time.perf_counter()  # again, so that the bookkeeping above is not timed

    for _ in range(repeats + 1):
        last = time.perf_counter()
        with torch.no_grad():  # the first run warms up; it cannot be the least
            run_graph(graph, model, args, kwargs, keep=graph.nodes, tell=measure)
    return seconds


def saved_by_nodes(
    graph: Graph,
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
) -> dict[Node, Storages]:
    """Return the storages that every operator of a graph keeps for the backward pass.

    Args:
        graph: The graph of the model.
        model: The model.
        args: Positional arguments of the model.
        kwargs: Keyword arguments of the model.
    """
    saved = SavedTensors(model)
    saved.open_calls = [{}]
    by_node: dict[Node, Storages] = defaultdict(dict)

    def keep(node: Node, value: Any) -> None:
        by_node[node] = saved.open_calls[0]
        saved.open_calls[0] = {}

    with torch.enable_grad(), saved.watching():
        run_graph(graph, model, args, kwargs, keep=graph.nodes, tell=keep)
    return by_node


def train_step(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Run the model and compute the gradients of the sum of its outputs, which are discarded.

    Args:
        model: The model.
        args: Positional arguments of the model.
        kwargs: Keyword arguments of the model.

    Returns:
        Whether anything can be trained.
    """
    with torch.enable_grad():
        outputs = []
        for output in tree_leaves(model(*args, **kwargs)):
            if isinstance(output, Tensor) and output.requires_grad and output.is_floating_point():
                outputs.append(output.sum())
        weights = [weight for weight in model.parameters() if weight.requires_grad]
        if not outputs or not weights:
            return False
        torch.autograd.grad(outputs, weights, allow_unused=True)
    return True
