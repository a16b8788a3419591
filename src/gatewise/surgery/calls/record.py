"""Record every call of an activation that a model makes, and where it is in the source.

The model runs once, eagerly, under a torch function mode. The mode sees every call of torch,
in-place and functional forms included. The Python frame that made the call gives its source
position. The model is not changed: buffers and the random state are restored.
"""

import ast
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import CodeType, FrameType
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.fx import GraphModule
from torch.overrides import TorchFunctionMode

from gatewise.errors import ArgumentError
from gatewise.graph import STARTS, run_on_copies, untouched
from gatewise.surgery.calls.aliases import Watch, Watched
from gatewise.surgery.calls.call_site import CallSite, Position
from gatewise.surgery.calls.call_units import HOLDER, CallUnits
from gatewise.surgery.calls.callee import (
    attribute_of,
    calls_function,
    form_of,
    input_of,
    is_chosen,
    outermost_wrapper,
)
from gatewise.surgery.calls.frames import caller, function_frame, position_of, stack
from gatewise.surgery.calls.functions import (
    activation,
    arguments_of,
    is_torchs_own,
    may_be_activation,
)
from gatewise.surgery.calls.methods import Method, looks_like_method, methods_by_code
from gatewise.surgery.calls.reads import operand_count, plain_name, reader_form
from gatewise.surgery.calls.source_text import (
    Source,
    Unreadable,
    can_rebind,
    goes_through_children,
    keeps_name,
    loop_around,
    source_of,
)
from gatewise.surgery.calls.sums import SUM, is_sum, sum_form, writes_into_first
from gatewise.units import UnitModule


def record_calls(
    model: nn.Module,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    also: Collection[str] = (),
) -> list[CallSite]:
    """Return every call of an activation in ``model(*args, **kwargs)``, in order of execution.

    Calls that cannot be rewritten are listed with the reason. Calls that share a unit are listed
    separately.

    Args:
        model: The model, which runs in its current mode (train or eval).
        args: The positional arguments.
        kwargs: The keyword arguments.
        also: Paths of layers whose calls are listed too, with their class as ``op``. Units can be
            bound to such layers.
    """
    return record_run(model, args, kwargs, also=also).calls


class Recording(NamedTuple):
    """What one run of a model has called, in order of execution.

    Attributes:
        calls: The calls of :func:`record_calls`.
        sums: The additions of two tensors.
        readers: The calls of the operators ``ops``, with the form that each is written in.
    """

    calls: list[CallSite]
    sums: list[CallSite]
    readers: list[CallSite]


def record_run(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    *,
    also: Collection[str] = (),
    ops: Collection[str] = (),
) -> Recording:
    """Run the model, and return what it has called.

    Args:
        model: The model, which runs in its current mode (train or eval).
        args: The positional arguments.
        kwargs: The keyword arguments.
        also: Paths of layers whose calls are listed too.
        ops: Operators whose calls are listed as readers, by name, for example ``"add"``.
    """
    if not isinstance(model, nn.Module):
        raise ArgumentError(
            "record_calls: model is not a module",
            got=type(model).__name__,
            allowed="a torch.nn.Module",
        )
    try:
        # Without gradients, torch may use fused kernels that hide the activation.
        recorder = _recorded_run(model, args, kwargs or {}, also, ops, gradients=True)
    except RuntimeError:
        # With gradients, torch refuses to write into parts of a tensor that chunk has returned.
        recorder = _recorded_run(model, args, kwargs or {}, also, ops, gradients=False)
    try:
        return Recording(
            _finished_calls(recorder.events),
            _finished_calls(recorder.sums),
            _finished_calls(recorder.readers),
        )
    finally:
        recorder.forget()


def _recorded_run(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    also: Collection[str],
    ops: Collection[str],
    *,
    gradients: bool,
) -> "_Recorder":
    """Run the model once; the recorder must be told to forget what it holds."""
    recorder = _Recorder(model, also, ops)
    try:
        with untouched(model, buffers=True), torch.set_grad_enabled(gradients):
            with recorder.counting(), recorder:
                run_on_copies(model, args, kwargs)
            recorder.finish()  # while attributes are as the run has left them
    except BaseException:
        recorder.forget()
        raise
    return recorder


@dataclass
class _Event:
    """One call as it was seen, before the whole run is known.

    ``run`` numbers the executions of the innermost function around the call.
    """

    site: CallSite
    run: int
    path: list[ast.AST] = field(default_factory=list)
    watched: Watched | None = None


@dataclass
class _ModuleCall:
    """An unfinished call of a module that may be an activation, and the calls it has made."""

    module: nn.Module
    frame: FrameType
    shape: torch.Size | None
    inside: list[_Event] = field(default_factory=list)
    computes_one: bool = False  # whether it calls what an activation may be written with


class _Recorder(TorchFunctionMode):
    """The function mode that sees all calls of torch while the model runs."""

    def __init__(
        self,
        model: nn.Module,
        also: Collection[str],
        ops: Collection[str],
    ) -> None:
        super().__init__()
        self.also = {id(model.get_submodule(name)) for name in also}
        self.ops = frozenset(ops)
        self.model = model
        self.paths = {id(module): name for name, module in reversed(list(model.named_modules()))}
        self.parameters = {id(parameter): name for name, parameter in model.named_parameters()}
        self.put_in: set[int] = set()  # units of earlier rewrites
        for holder in model.modules():
            if isinstance(holder, CallUnits):
                self.put_in.update(map(id, holder.modules()))
        self.calls: Counter[int] = Counter()
        self.events: list[_Event] = []
        self.sums: list[_Event] = []
        self.readers: list[_Event] = []
        self.unfinished: list[_ModuleCall] = []
        self.watch = Watch()
        # Frames are stored with their number, because the id of a freed frame is used again.
        self.runs: dict[int, tuple[FrameType, int]] = {}
        self.methods: dict[type, dict[int, Method]] = {}
        self.sources: dict[Method, Source] = {}

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        frame = caller(sys._getframe(1))
        self.watch.see(func, args, kwargs, frame)
        if is_sum(func, args):
            self.sums.append(self._event(frame, SUM, inplace=writes_into_first(func)))
        if self.ops and (name := plain_name(func)) in self.ops:
            self.readers.append(self._event(frame, name, reader=True))
        what = activation(func)
        if what is None:
            if self.unfinished and plain_name(func) in STARTS:
                self.unfinished[-1].computes_one = True
            return func(*args, **kwargs)
        inplace = what.inplace or kwargs.get("inplace") is True
        arguments = arguments_of(what.op, args, kwargs)
        plain = tuple((name, self._plain(value)) for name, value in arguments.items())
        frame, wrapper = outermost_wrapper(frame, what.op, self._is_method)
        event = self._event(frame, what.op, wrapper=wrapper, arguments=plain, inplace=inplace)
        self._current_events().append(event)
        if not inplace:
            return func(*args, **kwargs)
        # The copy has other memory, so later reads of the old memory use another name.
        written = args[0] if args else kwargs["input"]
        event.watched = self.watch.start(written, frame)
        return func(*args, **kwargs).clone()  # Note [Watching a tensor]

    def _current_events(self) -> list[_Event]:
        """Return the list for the next event: of the innermost module call, or of the run."""
        return self.unfinished[-1].inside if self.unfinished else self.events

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the calls of every module, and record calls of activation modules as one call."""
        handles = []
        for module in self.model.modules():
            handles.append(module.register_forward_pre_hook(self._enter))
            if module is not self.model and may_be_activation(module):
                handles.append(module.register_forward_hook(self._leave))
        try:
            yield
        finally:
            for handle in handles:
                handle.remove()

    def _enter(self, module: nn.Module, args: tuple[Any, ...]) -> None:
        """Note that a module is called."""
        self.calls[id(module)] += 1
        if module is self.model:
            return  # no frame of the model calls the model itself
        frame = caller(sys._getframe(1))
        if id(module) in self.also:
            self.events.append(self._event(frame, type(module).__name__, module=module))
        if may_be_activation(module):
            shape = args[0].shape if len(args) == 1 and isinstance(args[0], Tensor) else None
            self.unfinished.append(_ModuleCall(module, frame, shape))

    def _leave(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        """Record an activation module as one call, or the calls it has made."""
        call = self.unfinished.pop()
        same_shape = isinstance(output, Tensor) and call.shape in (None, output.shape)
        is_activation = isinstance(module, UnitModule) or (
            same_shape and (bool(call.inside) or call.computes_one)
        )
        self._current_events().extend([self._module_event(call)] if is_activation else call.inside)

    def _module_event(self, call: _ModuleCall) -> _Event:
        """Return the event for a call of an activation module."""
        op = type(call.module).__name__
        arguments = ()
        if call.inside and is_torchs_own(call.module):
            op = call.inside[0].site.op
            arguments = call.inside[0].site.arguments
        inplace = any(event.site.inplace for event in call.inside)
        event = self._event(
            call.frame, op, module=call.module, arguments=arguments, inplace=inplace
        )
        for inner in call.inside:
            if inner.watched and inner.watched.tensor is not None:
                # From now on, the variables of the function that called the module count.
                event.watched = self.watch.start(inner.watched.tensor, call.frame)
                break
        return event

    def _plain(self, value: Any) -> Any:
        """Return an argument as a value that JSON can store."""
        if isinstance(value, Tensor):
            name = self.parameters.get(id(value))
            return f"parameter {name}" if name else f"tensor {tuple(value.shape)}"
        return value if isinstance(value, bool | int | float | str | None) else repr(value)

    def _event(
        self,
        frame: FrameType,
        op: str,
        *,
        module: nn.Module | None = None,
        reader: bool = False,
        wrapper: CodeType | None = None,
        **facts: Any,
    ) -> _Event:
        """Return the event for a call of ``op`` that ``frame`` makes.

        Args:
            frame: The frame that makes the call.
            op: The activation, addition or operator.
            module: The module that is called, if it is one.
            reader: Whether units go around the operands of the call.
            wrapper: The code of a function that is called and calls the activation.
            **facts: Further fields of :class:`CallSite`.
        """
        owner, method, refused = self._owner(frame)
        position = position_of(frame)
        code = frame.f_code
        site = CallSite(
            owner=self.paths.get(id(owner), ""),
            call=max(self.calls[id(owner)] - 1, 0),
            method=method.name if method else code.co_name,
            defined_in=method.defined_in if method else "",
            code=getattr(code, "co_qualname", code.co_name),
            file=code.co_filename,
            digest="",
            position=position or (frame.f_lineno or 0, 0, 0, 0),
            op=op,
            form="",
            module=None if module is None else self.paths[id(module)],
            **facts,
        )
        run = self._run(function_frame(frame))
        refused = self._refused_owner(owner, module) or refused
        if method is None or refused:
            return _Event(replace(site, refused=refused), run)
        event = _Event(site, run)
        return self._read(event, method, frame, position, module, reader=reader, wrapper=wrapper)

    def _refused_owner(self, owner: nn.Module | None, module: nn.Module | None) -> str | None:
        """Return why calls of this owner cannot be rewritten, if so."""
        if {id(owner), id(module)} & self.put_in:
            return "rewritten"
        if isinstance(owner, GraphModule):
            return "graph"
        if isinstance(owner, nn.Sequential | nn.ModuleList | nn.ModuleDict):
            return "container"
        if hasattr(owner, HOLDER) and not isinstance(getattr(owner, HOLDER), CallUnits):
            return "name_taken"
        return None

    def _read(
        self,
        event: _Event,
        method: Method,
        frame: FrameType,
        position: Position | None,
        module: nn.Module | None,
        *,
        reader: bool,
        wrapper: CodeType | None,
    ) -> _Event:
        """Add to the event what the source text says about the call."""
        try:
            source = self._source(method)
            event.site = replace(event.site, digest=source.text.digest)
            event.path = self._path(source, position, method)
        except Unreadable as reason:
            event.site = replace(event.site, refused=str(reason))
            return event
        call = event.path[0]
        op = event.site.op
        form = attribute = None
        refused = "not_recognised"
        if reader:
            form = reader_form(call, frame, op)
            operands = operand_count(call, form or "")
            event.site = replace(event.site, arguments=(("operands", operands),))
        elif op == SUM and module is None:
            form = sum_form(call, frame)
        elif isinstance(call, ast.Call):
            if wrapper is None:
                form = form_of(call, frame, op, module)
            elif calls_function(call, frame, wrapper):
                form = "argument"
            attribute = attribute_of(call, method.own_name)
            function: Any = method.function  # a field, not a method
            if module is None and form != "self" and is_chosen(call, frame, function):
                form, refused = None, "chosen"
        refused = None if form else refused
        event.site = replace(event.site, form=form or "", attribute=attribute, refused=refused)
        return event

    def _path(
        self,
        source: Source,
        position: Position | None,
        method: Method,
    ) -> list[ast.AST]:
        """Return the call and the nodes around it, or raise :class:`Unreadable`."""
        if position is None:
            raise Unreadable("no_positions")
        path = source.ancestors(position)
        if not path:
            raise Unreadable("not_recognised")
        if not keeps_name(path, method.own_name):
            raise Unreadable("own_name")
        if goes_through_children(source.node, method.own_name):
            raise Unreadable("container")
        return path

    def _owner(self, frame: FrameType) -> tuple[nn.Module | None, Method | None, str | None]:
        """Return the module whose method makes the call, and that method.

        The third value is the reason, a key of ``REFUSALS``, if no method can be blamed.
        """
        for outer in stack(frame):
            code = outer.f_code
            module = outer.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
            if not isinstance(module, nn.Module) or id(module) not in self.paths:
                continue
            methods = self._methods(type(module))
            method = methods.get(id(code))
            if method and code.co_name == method.function.__code__.co_name:
                same = methods.get(id(frame.f_code)) == method
                return module, method, None if same else "free_function"
            if outer is frame and looks_like_method(type(module), code):
                return module, None, "decorated"
        return None, None, "free_function"

    def _is_method(self, frame: FrameType) -> bool:
        """Whether ``frame`` runs a method of a module of the model."""
        _, method, refused = self._owner(frame)
        return method is not None and refused is None

    def _methods(self, kind: type) -> dict[int, Method]:
        """Return the methods of a class by code, computed once."""
        if kind not in self.methods:
            self.methods[kind] = methods_by_code(kind)
        return self.methods[kind]

    def _source(self, method: Method) -> Source:
        """Return the source of a method, read once."""
        if method not in self.sources:
            self.sources[method] = source_of(method.function)  # pyright: ignore[reportArgumentType]  a field, not a method
        return self.sources[method]

    def _run(self, frame: FrameType) -> int:
        """Return the number of the execution that ``frame`` belongs to."""
        return self.runs.setdefault(id(frame), (frame, len(self.runs)))[1]

    def finish(self) -> None:
        """Release the frames of the run, and look at what is left of it."""
        self.runs.clear()
        self.watch.finish()

    def forget(self) -> None:
        """Release all frames and their tensors, which in turn hold the recorder."""
        self.events.clear()
        self.sums.clear()
        self.readers.clear()
        self.unfinished.clear()
        self.runs.clear()
        self.watch.tensors.clear()


def _finished_calls(events: list[_Event]) -> list[CallSite]:
    """Return the calls with what only the whole run can tell: sharing, iterations and reuse."""
    iterations: Counter[tuple[Any, int]] = Counter()  # so far, by place and run
    runs: dict[Any, set[int]] = {}
    most: Counter[Any] = Counter()
    modules = Counter(event.site.module for event in events)
    numbers = []
    for event in events:
        place = event.site.place
        numbers.append(iterations[place, event.run])
        iterations[place, event.run] += 1
        runs.setdefault(place, set()).add(event.run)
        most[place] = max(most[place], iterations[place, event.run])
    calls = []
    for event, number in zip(events, numbers, strict=True):
        site = event.site
        reused = site.module is not None and modules[site.module] > 1
        shared = len(runs[site.place]) > 1
        site = replace(site, reused=reused, shared=shared)
        calls.append(_finished(event, site, number, most[site.place]))
    return calls


def _finished(event: _Event, site: CallSite, number: int, most: int) -> CallSite:
    """Add iterations and aliasing: the call is number ``number`` of at most ``most`` in a run."""
    if site.refused:
        watched = event.watched
        aliased = watched is not None and watched.read and watched.held_outside
        return replace(site, aliased=aliased)
    loop = loop_around(event.path)
    if _is_aliased(event, replaced=site.module is not None and not site.reused):
        site = replace(site, refused="aliased", aliased=True)
    elif event.watched is not None and event.watched.kept:
        site = replace(site, refused="kept", aliased=True)
    if loop.inside and loop.every_iteration:
        return replace(site, iteration=number, iterations=most)
    return replace(site, shared=site.shared or most > 1)


def _is_aliased(event: _Event, *, replaced: bool) -> bool:
    """Whether a unit that returns a new tensor would change the program.

    See Note [Watching a tensor].

    Args:
        event: The call.
        replaced: Whether a module is replaced, and the call stays as it is written.
    """
    watched = event.watched
    call = event.path[0]
    if watched is None or not isinstance(call, ast.Call):
        return False
    if replaced:
        return watched.read
    source = input_of(call, event.site.form)
    result_unused = isinstance(event.path[1], ast.Expr)
    if not isinstance(source, ast.Name) or not can_rebind(event.path, source.id):
        return result_unused or watched.read
    other_names = bool(watched.names - {source.id})
    after = watched.read_after and (watched.held_outside or not result_unused)
    return watched.read and (other_names or after)
