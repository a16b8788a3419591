"""Time and memory for the backward pass, of a model's calls one by one."""

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


class Saved:
    """The storages that autograd keeps, parameters and buffers left out.

    Each call's are collected apart.
    """

    def __init__(self, model: nn.Module) -> None:
        held = (*model.parameters(), *model.buffers())
        self.model_s = {each.untyped_storage().data_ptr() for each in held}
        self.all: Storages = {}
        self.current: list[Storages] = []

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Within, what is kept is entered in ``all`` and in each of ``current``."""
        with torch.autograd.graph.saved_tensors_hooks(self._keep, lambda tensor: tensor):
            yield

    def _keep(self, tensor: Tensor) -> Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in self.model_s:
            for each in (self.all, *self.current):
                each[storage.data_ptr()] = storage.nbytes()
        return tensor


class ModuleMeter:
    """Seconds and kept storages of the calls of some modules, in the model's own run."""

    def __init__(self, modules: Mapping[str, nn.Module], saved: Saved) -> None:
        self.modules, self.saved = modules, saved
        self.seconds: dict[Scope, float] = {}
        self.storages: dict[Scope, Storages] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        """Within, calls are measured; the least time of several runs is kept."""
        calls: Counter[str] = Counter()
        starts: list[tuple[Scope, float]] = []

        def before(path: str) -> Callable[..., None]:
            def enter(*_: Any) -> None:
                self.saved.current.append({})
                starts.append(((path, calls[path]), time.perf_counter()))
                calls[path] += 1

            return enter

        def after(*_: Any) -> None:
            now = time.perf_counter()
            scope, start = starts.pop()
            self.seconds[scope] = min(now - start, self.seconds.get(scope, now - start))
            self.storages[scope] = self.saved.current.pop()

        handles = [
            each.register_forward_pre_hook(before(path)) for path, each in self.modules.items()
        ]
        handles += [each.register_forward_hook(after) for each in self.modules.values()]
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()


def time_nodes(
    graph: Graph, model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any], repeats: int
) -> dict[Node, float]:
    """The least seconds of every call of a graph."""
    least: dict[Node, float] = {}
    for _ in range(repeats + 1):
        last = time.perf_counter()

        def tell(node: Node, value: Any) -> None:
            nonlocal last
            now = time.perf_counter()
            least[node] = min(now - last, least.get(node, now - last))
            last = time.perf_counter()

        with torch.no_grad():
            run_graph(graph, model, args, kwargs, keep=graph.nodes, tell=tell)
    return least


def saved_by_nodes(
    graph: Graph, model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> dict[Node, Storages]:
    """The storages that every call of a graph keeps for the backward pass."""
    saved, found = Saved(model), defaultdict(dict)
    saved.current = [{}]

    def tell(node: Node, value: Any) -> None:
        found[node] = saved.current[0]
        saved.current[0] = {}

    with torch.enable_grad(), saved.watching():
        run_graph(graph, model, args, kwargs, keep=graph.nodes, tell=tell)
    return found


def train_step(model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> bool:
    """Forward and the gradients of the sum of the outputs, which are thrown away.

    Whether anything can be trained.
    """
    with torch.enable_grad():
        outputs = [each for each in tree_leaves(model(*args, **kwargs)) if isinstance(each, Tensor)]
        live = [each.sum() for each in outputs if each.requires_grad and each.is_floating_point()]
        weights = [each for each in model.parameters() if each.requires_grad]
        if not live or not weights:
            return False
        torch.autograd.grad(live, weights, allow_unused=True)
    return True
