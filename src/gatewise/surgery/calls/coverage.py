"""Find out which modules and lines of a model's code no run reaches.

Note [Parts of the code]. The parts that may not run are the bodies of ``if``, ``for``, ``while``,
``case`` and ``except``, both sides of a conditional expression, the later operands of ``and`` and
``or``, and what a condition skips. A part that ends in ``raise`` is no path of the model. A
condition that reads nothing but attributes of the module (``self.training``, ``self.downsample is
not None``) is a setting: no input decides it, unless the code that ran assigns the attribute, or
it is a tensor. Functions count if they are in a file that defines a class of the model, or in a
file outside of Python's own and of installed packages. Those of torch and of this library do not.
"""

import ast
import dis
import inspect
import itertools
import sys
import sysconfig
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from gatewise.graph import OPERATORS
from gatewise.surgery.calls.methods import code_tree, is_comprehension
from gatewise.surgery.calls.source_text import Unreadable, definition_of, own_nodes

_OWN = str(Path(__file__).parents[2])
_TORCH = str(Path(torch.__file__).parent)
_INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
_METADATA = {"__get__", "__set__", "__delete__", "requires_grad_", "size", "dim", "numel"}
_QUESTIONS = {"isinstance", "hasattr", "getattr", "len", "callable", "bool", "type"}
_CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)
_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)
_FUNCTION_NAMES = {name for operator in OPERATORS.values() for name in operator.functions}
_NOTHING = (nn.Identity, nn.modules.dropout._DropoutNd)  # computing nothing that a path could miss


_Executions = dict[tuple[int, int, int, int], int]  # by first line and column, and last ones


@dataclass
class Coverage:
    """What the runs inside :meth:`watching` have reached.

    Attributes:
        model: the model.
        modules: ids of the modules that were called, or whose parameters were read.
        executed: by code, how often the instruction at each offset was executed.
        unknown: why it is not known what an example reaches; empty if it is known.
    """

    model: nn.Module
    modules: set[int] = field(default_factory=set)
    executed: dict[CodeType, Counter[int]] = field(default_factory=dict)
    unknown: str = ""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the model, which the caller runs within the context."""
        files = {code.co_filename for codes in self._methods().values() for code in codes}
        handles = []
        before = sys.gettrace()
        try:
            for module in self.model.modules():
                handles.append(module.register_forward_pre_hook(self._called))
            with _ParameterReads(self.model, self.modules):
                sys.settrace(lambda frame, event, value: self._enter(frame, files))
                yield
        finally:
            sys.settrace(before)
            for handle in handles:
                handle.remove()

    def _called(self, module: nn.Module, args: Any) -> None:
        self.modules.add(id(module))

    def _enter(self, frame: FrameType, files: set[str]) -> Any:
        """Trace the instructions of a function of the model."""
        code = frame.f_code
        if code.co_filename not in files and not _is_of_user(code.co_filename):
            return None
        if not code.co_flags & inspect.CO_OPTIMIZED:
            return None  # the body of a class or of a module
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        executed = self.executed.setdefault(code, Counter())

        def step(frame: FrameType, event: str, value: Any) -> Any:
            if event == "opcode":
                executed[frame.f_lasti] += 1
            return step

        return step

    def unreached(self, reached: Iterable[str] = ()) -> "Unreached":
        """Return what no run has reached.

        Args:
            reached: paths of modules that are known to run otherwise.
        """
        if self.unknown:
            return Unreached((f"what an example reaches is not known: {self.unknown}",))
        parts: dict[str, None] = {}  # in order, each once
        installed = 0
        state = set(self._stored_names())
        tensors = {name.rpartition(".")[2] for name in self.model.state_dict(keep_vars=True)}
        missing = {
            name: codes
            for name, codes in self._methods().items()
            if any(_is_of_user(code.co_filename) for code in codes)
            and not any(code in self.executed for code in codes)
        }
        for code in self.executed:
            if is_comprehension(code):
                continue  # a part of the function around it
            executions = _executions(code, self.executed)
            if not _is_of_user(code.co_filename):
                ran = {line for (line, *_), count in executions.items() if count}
                installed += len({line for line, *_ in executions} - ran)
                continue
            try:
                function = _Function(code, definition_of(code), executions)
            except Unreadable:
                function = None
            if function is None or not executions:  # Python may leave out the columns
                parts[f"{Path(code.co_filename).name}: {code.co_name} cannot be read"] = None
                continue
            parts |= dict.fromkeys(function.unreached(state, tensors))
            for name in sorted(function.referred() & missing.keys()):
                parts[f"method {name}, which {code.co_name} refers to"] = None
                missing.pop(name)
        for name, codes in missing.items():
            if activations := {each for code in codes for each in _activations_in(code)}:
                words = f"method {name}, which calls {', '.join(sorted(activations))} itself"
                parts[words] = None
        modules = (f"module {path}" for path in self._missing_modules(set(reached)))
        return Unreached((*modules, *parts), installed)

    def depends_on_training(self) -> bool:
        """Return whether code that ran reads the training mode of a module."""
        return any("training" in code.co_names for code in self.executed)

    def _methods(self) -> dict[str, set[CodeType]]:
        """Return the code of the methods of the model's classes, without torch's and ours.

        A constructor is none of them: it runs before the model is swapped.
        """
        methods: dict[str, set[CodeType]] = {}
        for kind in {type(module) for module in self.model.modules()}:
            for home in kind.__mro__:
                for name, value in vars(home).items():
                    if not callable(value) or name == "__init__":
                        continue
                    for function in (value, inspect.unwrap(value)):
                        code = getattr(function, "__code__", None)
                        if code is not None and not code.co_filename.startswith((_OWN, _TORCH)):
                            methods.setdefault(name, set()).add(code)
        return methods

    def _stored_names(self) -> Iterator[str]:
        """Yield the names of attributes that code which ran assigns."""
        for code in self.executed:
            for instruction in dis.get_instructions(code):
                if instruction.opname == "STORE_ATTR":
                    yield instruction.argval

    def _missing_modules(self, reached: set[str]) -> list[str]:
        """Return the outermost modules that no run has called."""
        missing: list[str] = []
        for path, module in self.model.named_modules():
            if id(module) in self.modules or path in reached or not path:
                continue
            if isinstance(module, (*_CONTAINERS, *_NOTHING)) or _is_part(module):
                continue
            if any(id(inner) in self.modules for inner in module.modules()):
                continue  # code around it calls its parts
            if not any(path.startswith(f"{outer}.") for outer in missing):
                missing.append(path)
        return missing


@dataclass(frozen=True)
class Unreached:
    """What no run has reached: modules and parts of the user's code, in words.

    ``installed`` is the number of lines in files of installed packages.
    """

    parts: tuple[str, ...] = ()
    installed: int = 0


class _ParameterReads(TorchFunctionMode):
    """Notes the modules whose parameters a function of torch receives."""

    leaves_units_alone = True  # units run in the form in which they will run later

    def __init__(self, model: nn.Module, modules: set[int]) -> None:
        super().__init__()
        self.modules = modules
        self.owners: dict[int, int] = {}
        for module in model.modules():
            for parameter in module.parameters(recurse=False):
                self.owners[id(parameter)] = id(module)

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        is_read = getattr(func, "__name__", "") not in _METADATA
        for value in (*args, *(kwargs or {}).values()) if is_read else ():
            if isinstance(value, Tensor) and id(value) in self.owners:
                self.modules.add(self.owners[id(value)])
        return func(*args, **(kwargs or {}))


def _is_of_user(file: str) -> bool:
    """Whether a file is neither Python's own nor of an installed package."""
    return not file.startswith((_OWN, _TORCH, "<", *_INSTALLED))


def _activations_in(code: CodeType) -> set[str]:
    """Return the names of activation functions that ``code``, or a function in it, refers to."""
    names = {name.rstrip("_") for each in code_tree(code) for name in each.co_names}
    return names & _FUNCTION_NAMES


def _is_part(module: nn.Module) -> bool:
    """Whether the module is no layer: it holds what others call, or defines no forward."""
    forward = getattr(type(module), "forward", None)
    return forward is None or forward is nn.Module.forward


@dataclass(frozen=True)
class _Choice:
    """What decides, and the parts of which one runs then; an empty part is nothing."""

    test: ast.AST
    parts: tuple[list[Any], ...]


def _choices(function: ast.AST) -> Iterator[_Choice]:
    """Yield the choices in the text of a function, see Note [Parts of the code]."""
    inner: set[ast.AST] = set()  # conditions inside a condition, which counts as a whole
    errors: dict[ast.AST, list[Any]] = {}  # by the statement before
    for node in (function, *own_nodes(function)):
        if isinstance(body := getattr(node, "body", None), list):
            errors |= {a: [b] for a, b in itertools.pairwise(body) if isinstance(b, ast.Raise)}
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            inner.update(ast.walk(node.test))
        if isinstance(node, ast.If):
            yield _Choice(node.test, (node.body, node.orelse or errors.get(node, [])))
        elif isinstance(node, ast.IfExp):
            yield _Choice(node.test, ([node.body], [node.orelse]))
        elif isinstance(node, ast.While):
            yield _Choice(node.test, (node.body,))
        elif isinstance(node, ast.For):
            yield _Choice(node.iter, (node.body,))
        elif isinstance(node, ast.Try):
            bodies = tuple(handler.body for handler in node.handlers)
            yield _Choice(node.body[0], bodies)
        elif isinstance(node, ast.Match):
            last = node.cases[-1]
            is_default = last.guard is None and getattr(last.pattern, "pattern", last) is None
            bodies = tuple(case.body for case in node.cases)
            yield _Choice(node.subject, bodies if is_default else (*bodies, []))
        elif isinstance(node, ast.BoolOp) and node not in inner:
            for first, then in itertools.pairwise(node.values):
                yield _Choice(first, ([then],))
        elif isinstance(node, _COMPREHENSIONS):
            element = node.key if isinstance(node, ast.DictComp) else node.elt
            for test in itertools.chain(*(generator.ifs for generator in node.generators)):
                yield _Choice(test, ([element], []))


def _executions(code: CodeType, executed: Mapping[CodeType, Counter[int]]) -> _Executions:
    """Return how often what is at each place of the text of ``code`` ran, in order."""
    executions: _Executions = {}
    for each in _with_comprehensions(code):
        counts = executed.get(each, Counter())
        for number, (line, last_line, column, last_column) in enumerate(each.co_positions()):
            if line and last_line and column is not None and last_column is not None:
                place = (line, column, last_line, last_column)
                count = counts[2 * number]  # an instruction has two bytes
                # The same text may be compiled several times, for example that of `finally`.
                executions[place] = max(count, executions.get(place, 0))
    return executions


def _with_comprehensions(code: CodeType) -> list[CodeType]:
    """Return ``code`` and that of its comprehensions, which Python before 3.12 keeps apart."""
    return [code, *filter(is_comprehension, code_tree(code))]


@dataclass(frozen=True)
class _Function:
    """A function that ran: its code, its text, and how often what is in the text ran."""

    code: CodeType
    node: ast.AST
    executions: _Executions

    def count(self, nodes: list[Any]) -> int | None:
        """Return how often the first instruction of ``nodes`` ran; ``None`` if they have none."""
        if not nodes:
            return None
        start = (nodes[0].lineno, nodes[0].col_offset)
        stop = (nodes[-1].end_lineno, nodes[-1].end_col_offset)
        for place, count in self.executions.items():
            if start <= place[:2] and place[2:] <= stop:
                return count
        return None

    def unreached(self, state: set[str], tensors: set[str]) -> Iterator[str]:
        """Yield the parts that did not run, in words, without settings and errors."""
        file = Path(self.code.co_filename).name
        for choice in _choices(self.node):
            decided = self.count([choice.test])
            if not decided or self._is_setting(choice.test, state, tensors):
                continue
            counts = [self.count(part) for part in choice.parts]
            for part, count in zip(choice.parts, counts, strict=True):
                if count == 0 and not isinstance(part[-1], ast.Raise):
                    yield f"{file} {_lines_of(part, choice.test)}"
            if None in counts and any(counts) and decided <= sum(filter(None, counts)):
                line = getattr(choice.test, "lineno", 0)
                yield f"{file} line {line}: the other outcome of `{ast.unparse(choice.test)}`"

    def referred(self) -> set[str]:
        """Return the names in ``self.name`` that were executed."""
        return {
            node.attr
            for node in own_nodes(self.node)
            if isinstance(node, ast.Attribute)
            and isinstance(node.value, ast.Name)
            and node.value.id == "self"
            and self.count([node])
        }

    def _is_setting(self, choice: ast.AST, state: set[str], tensors: set[str]) -> bool:
        """Return whether only attributes of the module that stay as they are decide.

        Args:
            choice: what decides. Operands of ``and`` and ``or`` that did not run do not.
            state: the names of attributes that code which ran assigns.
            tensors: the names of parameters and buffers. Whether they are ``None`` is a setting.
        """
        if self.code.co_varnames[:1] != ("self",):
            return False
        codes = _with_comprehensions(self.code)
        variables = {name for code in codes for name in code.co_varnames + code.co_freevars}
        nodes = [node for test in self._operands(choice) for node in ast.walk(test)]
        questions = {
            id(node.left)  # of `x is None` and `x is not None`
            for node in nodes
            if isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot)
        }
        for node in nodes:
            if isinstance(node, ast.Name) and node.id in variables - {"self"}:
                return False
            if isinstance(node, ast.Attribute):
                if node.attr in state or (node.attr in tensors and id(node) not in questions):
                    return False
            if isinstance(node, ast.Call) and getattr(node.func, "id", "") not in _QUESTIONS:
                return False
        return True

    def _operands(self, test: ast.AST) -> Iterator[ast.AST]:
        """Yield ``test``, or the operands of ``and`` and ``or`` in it that ran."""
        if isinstance(test, ast.BoolOp):
            for value in test.values:
                if self.count([value]):
                    yield from self._operands(value)
        else:
            yield test


def _lines_of(part: list[Any], test: Any) -> str:
    """Return the lines of a part; its text if it is on the line of what decides about it."""
    first, last = part[0].lineno, part[-1].end_lineno
    if first <= test.end_lineno:
        return f"line {first}: `{ast.unparse(part[0])}`"
    return f"line {first}" if first == last else f"lines {first}-{last}"
