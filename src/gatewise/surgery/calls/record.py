"""Record every call of an activation that a model makes.

Who makes it, and where it stands in the source.

One eager run under a function mode, which sees what torch is called with, in-place and functional
forms included. The frame that made the call says the rest. Nothing of the model is changed: buffers
and the random state are put back.
"""

import ast
import sys
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from types import FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from gatewise.errors import ArgumentError
from gatewise.surgery.calls.aliases import Watch, Watched
from gatewise.surgery.calls.call_site import CallSite, Position
from gatewise.surgery.calls.call_units import HOLDER, CallUnits
from gatewise.surgery.calls.callee import attribute_of, form_of, input_of
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
    """Every call of an activation in ``model(*args, **kwargs)``, in order, in the mode (train, eval) it is in.

    Calls that cannot be rewritten are listed too, with the reason. Calls that share a unit are each listed. Calls of
    the submodules named in ``also`` are listed with them, their class being the ``op``: layers to bind units to.
    """
    return record_calls_and_sums(model, args, kwargs, also=also)[0]


def record_calls_and_sums(
    model: nn.Module,
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    also: Collection[str] = (),
) -> tuple[list[CallSite], list[CallSite]]:
    """The calls of :func:`record_calls`, and every addition of two tensors, in order."""
    calls, sums, _ = _record(model, args, kwargs, also=also)
    return calls, sums


def record_readers(
    model: nn.Module, args: tuple[Any, ...], kwargs: Mapping[str, Any] | None, ops: Collection[str]
) -> list[CallSite]:
    """Every call of the operators ``ops``, in order.

    Its form says how it is written, for units around operands.
    """
    return _record(model, args, kwargs, ops=ops)[2]


def _record(
    model: nn.Module,
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any] | None,
    *,
    also: Collection[str] = (),
    ops: Collection[str] = (),
) -> tuple[list[CallSite], list[CallSite], list[CallSite]]:
    if not isinstance(model, nn.Module):
        raise ArgumentError(
            "record_calls: model is not a module",
            got=type(model).__name__,
            allowed="a torch.nn.Module",
        )
    recorder = _Recorder(model, also, ops)
    try:
        with _left_as_found(model), recorder.counting(), recorder:
            model(*args, **(kwargs or {}))
        return (
            recorder.sites(recorder.events),
            recorder.sites(recorder.sums),
            recorder.sites(recorder.readers),
        )
    finally:
        recorder.forget()


@contextmanager
def _left_as_found(model: nn.Module) -> Iterator[None]:
    before = [(module._buffers, dict(module._buffers)) for module in model.modules()]
    values = [(buffer, buffer.detach().clone()) for buffer in model.buffers()]
    devices = sorted({p.device.index or 0 for p in model.parameters() if p.is_cuda})
    try:
        with (
            torch.random.fork_rng(devices),
            torch.enable_grad(),
        ):  # without gradients torch may take fused paths
            yield
    finally:
        for buffers, old in before:  # a forward may have put other tensors in their place
            buffers.clear()
            buffers.update(old)
        with torch.no_grad():
            for buffer, value in values:
                buffer.copy_(value)


@dataclass
class _Event:
    """One call as it was seen, before the whole run is known."""

    site: CallSite
    run: int  # which execution of the innermost function made the call
    path: list[ast.AST] = field(default_factory=list)
    watched: Watched | None = None


@dataclass
class _ModuleCall:
    """A call, under way, of a module that may be an activation, and what its inside calls."""

    module: nn.Module
    frame: FrameType
    shape: torch.Size | None
    inside: list[_Event] = field(default_factory=list)


class _Recorder(TorchFunctionMode):
    def __init__(self, model: nn.Module, also: Collection[str], ops: Collection[str]) -> None:
        super().__init__()
        self.also = {id(model.get_submodule(name)) for name in also}
        self.ops = frozenset(ops)
        self.model = model
        self.paths = {id(module): name for name, module in reversed(list(model.named_modules()))}
        self.parameters = {id(parameter): name for name, parameter in model.named_parameters()}
        holders = [module for module in model.modules() if isinstance(module, CallUnits)]
        self.put_in = {id(module) for holder in holders for module in holder.modules()}
        self.calls: Counter[int] = Counter()
        self.events: list[_Event] = []
        self.sums: list[_Event] = []
        self.readers: list[_Event] = []
        self.under_way: list[_ModuleCall] = []
        self.watch = Watch()
        self.runs: dict[
            int, tuple[FrameType, int]
        ] = {}  # frames are kept, so that no id is used twice
        self.methods: dict[type, dict[int, Method]] = {}
        self.sources: dict[Method, Source] = {}

    # What is seen
    # --------------------------------------------------------------------------------------------------

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs, frame = kwargs or {}, caller(sys._getframe(1))
        self.watch.see(func, args, kwargs, frame)
        if is_sum(func, args):
            self.sums.append(self._event(frame, SUM, inplace=writes_into_first(func)))
        if self.ops and (name := plain_name(func)) in self.ops:
            self.readers.append(self._event(frame, name, reader=True))
        what = activation(func)
        if what is None:
            return func(*args, **kwargs)
        inplace = what.inplace or kwargs.get("inplace") is True
        given = tuple(
            (name, self._plain(value))
            for name, value in arguments_of(what.op, args, kwargs).items()
        )
        event = self._event(frame, what.op, arguments=given, inplace=inplace)
        (self.under_way[-1].inside if self.under_way else self.events).append(event)
        if not inplace:
            return func(*args, **kwargs)
        written = args[0] if args else kwargs["input"]
        event.watched = self.watch.start(written, frame)
        return func(*args, **kwargs).clone()  # Note [Watching a tensor]

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the calls of every module, and see those of activation modules as a whole."""
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
        self.calls[id(module)] += 1
        if id(module) in self.also:
            self.events.append(
                self._event(caller(sys._getframe(1)), type(module).__name__, module=module)
            )
        if module is not self.model and may_be_activation(module):
            shape = args[0].shape if len(args) == 1 and isinstance(args[0], Tensor) else None
            self.under_way.append(_ModuleCall(module, caller(sys._getframe(1)), shape))

    def _leave(self, module: nn.Module, args: tuple[Any, ...], output: Any) -> None:
        call = self.under_way.pop()
        same_shape = isinstance(output, Tensor) and call.shape in (None, output.shape)
        whole = isinstance(module, UnitModule) or (bool(call.inside) and same_shape)
        home = self.under_way[-1].inside if self.under_way else self.events
        home.extend([self._module_event(call)] if whole else call.inside)

    def _module_event(self, call: _ModuleCall) -> _Event:
        op, arguments = type(call.module).__name__, ()
        if is_torchs_own(call.module):
            op, arguments = call.inside[0].site.op, call.inside[0].site.arguments
        inplace = any(event.site.inplace for event in call.inside)
        event = self._event(
            call.frame, op, module=call.module, arguments=arguments, inplace=inplace
        )
        event.watched = next((each.watched for each in call.inside if each.watched), None)
        if event.watched:  # known from now on by the names of whoever called the module
            event.watched = self.watch.start(event.watched.tensor, call.frame)
        return event

    def _plain(self, value: Any) -> Any:
        if isinstance(value, Tensor):
            name = self.parameters.get(id(value))
            return f"parameter {name}" if name else f"tensor {tuple(value.shape)}"
        return value if isinstance(value, bool | int | float | str | None) else repr(value)

    # Where it stands
    # -----------------------------------------------------------------------------------------------

    def _event(
        self,
        frame: FrameType,
        op: str,
        *,
        module: nn.Module | None = None,
        reader: bool = False,
        **facts: Any,
    ) -> _Event:
        owner, method, refused = self._owner(frame)
        position, code = position_of(frame), frame.f_code
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
        return self._read(_Event(site, run), method, frame, position, module, reader=reader)

    def _refused_owner(self, owner: nn.Module | None, module: nn.Module | None) -> str | None:
        if {id(owner), id(module)} & self.put_in:
            return "rewritten"
        if isinstance(owner, nn.Sequential | nn.ModuleList | nn.ModuleDict):
            return "container"
        return (
            "name_taken"
            if hasattr(owner, HOLDER) and not isinstance(getattr(owner, HOLDER), CallUnits)
            else None
        )

    def _read(
        self,
        event: _Event,
        method: Method,
        frame: FrameType,
        position: Position | None,
        module: nn.Module | None,
        *,
        reader: bool,
    ) -> _Event:
        """The event with what the source says."""
        try:
            source = self._source(method)
            event.site = replace(event.site, digest=source.text.digest)
            event.path = self._path(source, position, method)
        except Unreadable as reason:
            event.site = replace(event.site, refused=str(reason))
            return event
        call, op, attribute = event.path[0], event.site.op, None
        if reader:
            form = reader_form(call, frame, op)
            event.site = replace(
                event.site, arguments=(("operands", operand_count(call, form or "")),)
            )
        elif op == SUM and module is None:
            form = sum_form(call, frame)
        else:
            form = form_of(call, frame, op, module) if isinstance(call, ast.Call) else None
            attribute = attribute_of(call, method.own_name) if isinstance(call, ast.Call) else None
        refused = None if form else "not_recognised"
        event.site = replace(event.site, form=form or "", attribute=attribute, refused=refused)
        return event

    def _path(self, source: Source, position: Position | None, method: Method) -> list[ast.AST]:
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
        """The module whose method is running, that method, and why the call cannot be said to stand in it."""
        for outer in stack(frame):
            code = outer.f_code
            own = outer.f_locals.get(code.co_varnames[0]) if code.co_argcount else None
            if not isinstance(own, nn.Module) or id(own) not in self.paths:
                continue
            methods = self._methods(type(own))
            method = methods.get(id(code))
            if method and code.co_name == method.function.__code__.co_name:
                return (
                    own,
                    method,
                    None if methods.get(id(frame.f_code)) == method else "free_function",
                )
            if outer is frame and looks_like_method(type(own), code):
                return own, None, "decorated"
        return None, None, "free_function"

    def _methods(self, kind: type) -> dict[int, Method]:
        if kind not in self.methods:
            self.methods[kind] = methods_by_code(kind)
        return self.methods[kind]

    def _source(self, method: Method) -> Source:
        if method not in self.sources:
            self.sources[method] = source_of(method.function)  # pyright: ignore[reportArgumentType]  a field, not a method
        return self.sources[method]

    def _run(self, frame: FrameType) -> int:
        return self.runs.setdefault(id(frame), (frame, len(self.runs)))[1]

    def forget(self) -> None:
        """Let go of all frames, and so of the tensors in them: they hold the recorder in turn."""
        for kept in (
            self.events,
            self.sums,
            self.readers,
            self.under_way,
            self.runs,
            self.watch.tensors,
        ):
            kept.clear()

    # What the whole run tells
    # --------------------------------------------------------------------------------------

    @staticmethod
    def sites(events: list[_Event]) -> list[CallSite]:
        """The calls, with what only the whole run can tell.

        Sharing, iterations, reuse, other readers.
        """
        rounds: Counter[tuple[Any, int]] = Counter()
        runs: dict[Any, set[int]] = {}
        most: Counter[Any] = Counter()
        modules = Counter(event.site.module for event in events)
        numbers = []
        for event in events:
            place = event.site.place
            numbers.append(rounds[place, event.run])
            rounds[place, event.run] += 1
            runs.setdefault(place, set()).add(event.run)
            most[place] = max(most[place], rounds[place, event.run])
        found = []
        for event, number in zip(events, numbers, strict=True):
            site, place = event.site, event.site.place
            site = replace(site, reused=site.module is not None and modules[site.module] > 1)
            found.append(_finished(event, site, number, most[place], shared=len(runs[place]) > 1))
        return found


def _finished(event: _Event, site: CallSite, number: int, most: int, *, shared: bool) -> CallSite:
    if site.refused:
        watched = event.watched
        return replace(
            site,
            shared=shared,
            aliased=watched is not None and watched.read and watched.held_outside,
        )
    loop = loop_around(event.path)
    if _is_aliased(event):
        site = replace(site, refused="aliased", aliased=True)
    if loop.inside and loop.every_round:
        return replace(site, iteration=number, iterations=most, shared=shared)
    return replace(site, shared=shared or most > 1)


def _is_aliased(event: _Event) -> bool:
    """Whether a unit that returns a new tensor would be another program.

    Note [Watching a tensor].
    """
    watched, call = event.watched, event.path[0]
    if watched is None or not isinstance(call, ast.Call):
        return False
    given = input_of(call, event.site.form)
    name = given.id if isinstance(given, ast.Name) and can_rebind(event.path, given.id) else None
    thrown_away = isinstance(event.path[1], ast.Expr)
    if name is None:
        return thrown_away or watched.read
    other_names = bool(watched.names - {name})
    after = watched.read_after and (watched.held_outside or not thrown_away)
    return watched.read and (other_names or after)
