"""Run the original model with other functions at its activations, without rewriting anything.

Note [The reference]. The changed model must compute what the original computes if the values of
its activations are replaced. The reference does only that. Every module runs the user's own code.
A function mode sees each call of an activation function; the ``forward`` of an activation module is
wrapped. The call is made as it is written. If it returned a new tensor, the unit's result is
returned instead. If it wrote into a tensor that existed before (``relu_``, ``inplace=True``,
``out=``), the unit's result is written into that tensor, so that every view and every other name
of the memory sees it. Nothing here uses recorded source positions or generated classes.

A call is identified by the module that makes it and by its number among that module's calls. If
the calls of the run are not those of the graph, the reference says so and proves nothing.
"""

from collections import defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from gatewise.graph import COMPOSITE, SiteNodes, example_tensors
from gatewise.surgery.calls import activation, same_activation

Function = Callable[[Tensor], Tensor]


@dataclass(frozen=True)
class Place:
    """One activation call of a module, in the order in which the module makes them.

    Attributes:
        site: the name of the site.
        op: the activation; ``"composite"`` for a module that is one as a whole.
    """

    site: str
    op: str


def places_of(
    model: nn.Module, found: Mapping[str, SiteNodes], others: Mapping[str, str]
) -> "Places":
    """Return the activation calls that a run of ``model`` makes, by the module that makes them.

    Args:
        model: the original.
        found: the sites of a graph of the model, by name.
        others: sites that are no activations of the graph, such as pooling, with the path of the
            module; every call of the module is one.
    """
    modules = dict(model.named_modules(remove_duplicate=False))
    calls: dict[int, list[tuple[Place, bool]]] = defaultdict(list)
    expected: list[tuple[int, str, str, str, bool]] = []
    for name, site in found.items():
        if not site.region:
            is_whole = site.kind != "functional"
            expected.append((site.order, site.path, name, site.op, is_whole))
        for order, op, path in site.inner:
            expected.append((order, path or site.path, name, op, bool(path)))
    for _, path, name, op, is_whole in sorted(expected):
        calls[id(modules[path])].append((Place(name, op), is_whole))
    whole: dict[int, list[Place]] = {}
    functional: dict[int, list[Place]] = {}
    for module, places in calls.items():
        # Under a second name of an activation module, the graph has the function that it calls.
        table = whole if any(is_whole for _, is_whole in places) else functional
        table[module] = [place for place, _ in places]
    every = {id(modules[path]): Place(name, COMPOSITE) for name, path in others.items()}
    return Places(whole, functional, every)


@dataclass(frozen=True)
class Places:
    """Calls of activation modules, and of activation functions, by the id of the module.

    Attributes:
        whole: calls of the module itself, which is an activation.
        functional: calls of functions that the module makes.
        every: modules all of whose calls are one site.
    """

    whole: Mapping[int, list[Place]]
    functional: Mapping[int, list[Place]]
    every: Mapping[int, Place]

    def is_activation(self, module: nn.Module) -> bool:
        """Whether a call of the module itself is a site."""
        return id(module) in self.whole or id(module) in self.every


class Reference(TorchFunctionMode):
    """A context in which ``model`` has other functions at some of its activations.

    Attributes:
        seen: the sites whose values were replaced.
        problems: calls that could not be identified or replaced.
        recomputed: whether calls were made again after the model had returned, as by activation
            checkpoints.
    """

    leaves_units_alone = True  # units run in the form in which they will run later

    def __init__(self, model: nn.Module, places: Places, functions: Mapping[str, Function]) -> None:
        super().__init__()
        self.model = model
        self.places = places
        self.functions = functions
        self.seen: set[str] = set()
        self.problems: list[str] = []
        self.recomputed = False
        self._running: list[nn.Module] = []
        self._counts: dict[tuple[int, bool], int] = defaultdict(int)
        self._returned = False
        self._handles: list[Any] = []
        self._forwards: list[tuple[nn.Module, Any]] = []

    def __enter__(self) -> "Reference":
        for module in self.model.modules():
            self._handles.append(module.register_forward_pre_hook(self._enter, prepend=True))
            self._handles.append(module.register_forward_hook(self._leave, always_call=True))
            if self.places.is_activation(module):
                self._forwards.append((module, vars(module).get("forward")))
                vars(module)["forward"] = self._wrapped(module, module.forward)
        super().__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        problem: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        super().__exit__(kind, problem, traceback)
        for handle in self._handles:
            handle.remove()
        for module, forward in self._forwards:
            if forward is None:
                vars(module).pop("forward", None)
            else:
                vars(module)["forward"] = forward
        self._handles.clear()
        self._forwards.clear()

    def _enter(self, module: nn.Module, args: Any) -> None:
        self._running.append(module)
        if self._returned:  # torch switches modes off in a backward pass, but not hooks
            self.recomputed = True

    def _leave(self, module: nn.Module, args: Any, output: Any) -> None:
        while self._running and self._running.pop() is not module:
            pass  # an exception that the model caught has skipped the hook of an inner module
        if module is self.model:
            self._returned = True

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        what = activation(func)
        module = self._running[-1] if self._running else self.model
        if what is None or self.places.is_activation(module):
            return func(*args, **kwargs)
        source = args[0] if args else kwargs.get("input")
        if not isinstance(source, Tensor) or not source.is_floating_point():
            return func(*args, **kwargs)
        place = self._next(module, what.op, whole=False)
        return self._replaced(place, source, lambda: func(*args, **kwargs), kwargs.get("out"))

    def _wrapped(self, module: nn.Module, forward: Callable[..., Any]) -> Callable[..., Any]:
        def replaced(*args: Any, **kwargs: Any) -> Any:
            place = self._next(module, COMPOSITE, whole=True)
            tensors = list(example_tensors((args, kwargs)))
            if place is not None and place.site in self.functions and len(tensors) != 1:
                self.problems.append(f"{place.site} has {len(tensors)} tensors as arguments")
                place = None
            return self._replaced(
                place, tensors[0] if tensors else None, lambda: forward(*args, **kwargs)
            )

        return replaced

    def _next(self, module: nn.Module, op: str, *, whole: bool) -> Place | None:
        """Return the place of the next call of or in ``module``; ``None`` if the graph has none."""
        if id(module) in self.places.every:
            return self.places.every[id(module)]
        places = (self.places.whole if whole else self.places.functional).get(id(module), [])
        number = self._counts[id(module), whole]
        self._counts[id(module), whole] += 1
        if self._returned and places:
            self.recomputed = True
            number %= len(places)
        if number >= len(places):
            if any(place.site in self.functions for place in places):
                self.problems.append(
                    f"{type(module).__name__} calls {op} more often than the graph"
                )
            return None
        place = places[number]
        if not whole and not same_activation(place.op, op):
            if any(place.site in self.functions for place in places):
                self.problems.append(f"{place.site} calls {op}, and {place.op} in the graph")
            return None
        return place

    def _replaced(
        self, place: Place | None, source: Any, call: Callable[[], Any], out: Any = None
    ) -> Any:
        """Make a call, with the values of the place's function if it has one.

        Args:
            place: which call it is.
            source: the activation's input.
            call: makes the call as it is written.
            out: the tensor that the call was told to write to.
        """
        function = self.functions.get(place.site) if place is not None else None
        if place is None or function is None:
            return call()
        before = source.clone()
        version = _version(source)
        with torch.no_grad():  # its own gradient must not depend on what is overwritten below
            result = call()
        if not isinstance(result, Tensor):
            self.problems.append(f"{place.site} returns {type(result).__name__}")
            return result
        self.seen.add(place.site)
        if _version(source) == version and result is not out:
            return function(before)  # later code may write into the input
        if result is not out and not _has_memory_of(result, source):
            self.problems.append(f"{place.site} writes into its input and returns another tensor")
        return _write(result, function(before))


def _version(tensor: Tensor) -> int | None:
    """Return how often the tensor was written to; torch does not count it in inference mode."""
    return None if tensor.is_inference() else tensor._version


def _write(target: Tensor, values: Tensor) -> Tensor:
    """Write ``values`` into the memory of ``target``, or return them if the shapes differ."""
    if target.shape != values.shape:
        return values
    return target.copy_(values)


def _has_memory_of(result: Tensor, source: Tensor) -> bool:
    return result.untyped_storage()._cdata == source.untyped_storage()._cdata
