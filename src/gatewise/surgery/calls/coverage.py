"""Find out which modules and branches of a model's code a run reaches.

Note [Branches]. A branch is one outcome of a conditional jump in the byte code of a function that
has run: an ``if``, a conditional expression, ``and``, ``or``, a condition of a comprehension, a
``case``. The body of a loop, an ``except`` clause and a method that ``self.name`` refers to are
parts that may not have run, too. An outcome that only raises an error is no path of the model. A
condition that reads nothing but attributes of the module (``self.training``, ``self.downsample is
not None``) is a setting: no input decides it, unless the code that ran assigns the attribute, or
it is a tensor. Functions count if they are in a file that defines a class of the model, or in a
file outside of Python's own and of installed packages. Those of torch and of this library do not.
"""

import ast
import dis
import inspect
import linecache
import re
import sys
import sysconfig
import textwrap
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import CodeType, FrameType
from typing import Any, TypeGuard

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from gatewise.graph import OPERATORS
from gatewise.surgery.calls.methods import code_tree

_OWN = str(Path(__file__).parents[2])
_TORCH = str(Path(torch.__file__).parent)
_INSTALLED = tuple(sysconfig.get_paths()[name] for name in ("stdlib", "purelib", "platlib"))
_HEADER = re.compile(r"^(?:if|elif|while)\s+(.+?):.*$")
_METADATA = {"__get__", "__set__", "__delete__", "requires_grad_", "size", "dim", "numel"}
_QUESTIONS = {"isinstance", "hasattr", "getattr", "len", "callable", "bool", "type"}
_CONTAINERS = (nn.ModuleList, nn.ModuleDict, nn.ParameterList, nn.ParameterDict)
FUNCTION_NAMES = {name for operator in OPERATORS.values() for name in operator.functions}
_NOTHING = (nn.Identity, nn.modules.dropout._DropoutNd)  # computing nothing that a path could miss


@dataclass(frozen=True)
class Jump:
    """A conditional jump: its offset, where it goes, and the offsets of the next instruction.

    Attributes:
        offset: of the instruction.
        target: where it jumps to.
        following: the offsets of the instruction behind it.
        lines: first and last line of its condition in the source.
        columns: first and last column.
        kind: ``"condition"``; ``"loop"``, which jumps when the loop ends; or ``"except"``.
    """

    offset: int
    target: int
    following: frozenset[int]
    lines: tuple[int, int]
    columns: tuple[int, int]
    kind: str = "condition"


@dataclass
class Coverage:
    """What the runs inside :meth:`watching` have reached.

    Attributes:
        model: the model.
        modules: ids of the modules that were called, or whose parameters were read.
        outcomes: by code, the conditional jumps that were executed, and where they went.
        executed: by code with conditional jumps, the offsets of the instructions that were
            executed.
        unknown: why it is not known what an example reaches; empty if it is known.
    """

    model: nn.Module
    modules: set[int] = field(default_factory=set)
    outcomes: dict[CodeType, set[tuple[int, bool]]] = field(default_factory=dict)
    executed: dict[CodeType, set[int]] = field(default_factory=dict)
    unknown: str = ""

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Watch the model, which the caller runs within the context."""
        files = _files_of(self.model)
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

    def _enter(self, frame: FrameType, files: frozenset[str]) -> Any:
        """Trace the instructions of a function of the model."""
        file = frame.f_code.co_filename
        if file not in files and not _is_of_user(file):
            return None
        jumps = jumps_of(frame.f_code)
        outcomes = self.outcomes.setdefault(frame.f_code, set())
        if not jumps:
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        executed = self.executed.setdefault(frame.f_code, set())
        last = -1

        def step(frame: FrameType, event: str, value: Any) -> Any:
            nonlocal last
            if event == "opcode":
                if last in jumps:
                    outcomes.add((last, frame.f_lasti not in jumps[last].following))
                last = frame.f_lasti
                executed.add(last)
            return step

        return step

    def unreached(self, reached: Iterable[str] = ()) -> "Unreached":
        """Return what no run has reached.

        Args:
            reached: paths of modules that are known to run otherwise.
        """
        if self.unknown:
            return Unreached(branches=(f"what an example reaches is not known: {self.unknown}",))
        branches: list[str] = []
        settings: list[str] = []
        installed: list[str] = []
        state = _stored_names(self.outcomes)
        tensors = {name.rpartition(".")[2] for name in self.model.state_dict(keep_vars=True)}
        for code, outcomes in self.outcomes.items():
            for offset, jump in jumps_of(code).items():
                seen = {jumped for place, jumped in outcomes if place == offset}
                part = _missing_part(code, jump, seen)
                if part is None:
                    continue
                is_setting = part.may_be_setting and _is_setting(part.read, code, state, tensors)
                ours = branches if _is_of_user(code.co_filename) else installed
                target = settings if is_setting else ours
                words = f"{Path(code.co_filename).name}:{jump.lines[0]}: {part.words}"
                if words not in target:
                    target.append(words)
        for words, of_user in self._methods():
            (branches if of_user else installed).append(words)
        installed += _optional_outputs(self.model)
        modules = tuple(self._modules(set(reached)))
        return Unreached(modules, tuple(branches), tuple(settings), tuple(installed))

    def branches_on_training(self) -> bool:
        """Return whether code that ran has a branch which the training mode decides."""
        for code in self.outcomes:
            if "training" in code.co_names:
                if any("training" in _text(code, jump) for jump in jumps_of(code).values()):
                    return True
        return False

    def _methods(self) -> list[tuple[str, bool]]:
        """Return the methods that code which ran refers to, and that no run has called.

        With each one, whether a file of the user refers to it.
        """
        own = _methods_of(self.model)
        missing: dict[str, bool] = {}
        for code in self.outcomes:
            names = list(_referred_methods(code, self.executed.get(code)))
            for pattern in _looked_up(code):
                names += filter(pattern.fullmatch, own)
            for name in names:
                codes = own.get(name, frozenset())
                if codes and not any(each in self.outcomes for each in codes):
                    words = f"method {name}, which {code.co_name} refers to"
                    missing[words] = missing.get(words, False) or _is_of_user(code.co_filename)
        called = {name for words in missing for name in own if words.startswith(f"method {name},")}
        for name, codes in own.items():
            if name in called or any(each in self.outcomes for each in codes):
                continue
            functions = {each for code in codes for each in _activations_in(code)}
            if functions:
                words = f"method {name}, which calls {', '.join(sorted(functions))} itself"
                missing[words] = any(_is_of_user(code.co_filename) for code in codes)
        return list(missing.items())

    def _modules(self, reached: set[str]) -> list[str]:
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
    """Modules by path; branches that an input decides, and branches that settings decide.

    ``installed`` has branches in files of installed packages, which are not the user's own.
    """

    modules: tuple[str, ...] = ()
    branches: tuple[str, ...] = ()
    settings: tuple[str, ...] = ()
    installed: tuple[str, ...] = ()

    @property
    def parts(self) -> tuple[str, ...]:
        """Modules and branches in words, without settings and files of installed packages."""
        return (*(f"module {path}" for path in self.modules), *self.branches)


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


def _optional_outputs(model: nn.Module) -> list[str]:
    """Return the outputs that a configuration in the style of Hugging Face switches off."""
    config = getattr(model, "config", None)
    names = ("output_hidden_states", "output_attentions", "output_router_logits")
    return [f"optional output {name}" for name in names if getattr(config, name, None) is False]


def _is_of_user(file: str) -> bool:
    """Whether a file is neither Python's own nor of an installed package."""
    return not file.startswith((_OWN, _TORCH, "<", *_INSTALLED))


def _methods_of(model: nn.Module) -> dict[str, frozenset[CodeType]]:
    """Return the code of the methods of the model's classes by name, this library's left out."""
    files = _files_of(model)
    methods: dict[str, set[CodeType]] = {}
    for kind in {type(module) for module in model.modules()}:
        for home in kind.__mro__:
            for name, value in vars(home).items():
                code = getattr(inspect.unwrap(value), "__code__", None) if callable(value) else None
                if code is not None and code.co_filename in files:
                    methods.setdefault(name, set()).add(code)
    return {name: frozenset(codes) for name, codes in methods.items()}


def _activations_in(code: CodeType) -> set[str]:
    """Return the names of activation functions that ``code``, or a function in it, refers to."""
    names = {name.rstrip("_") for each in code_tree(code) for name in each.co_names}
    return names & FUNCTION_NAMES


def _referred_methods(code: CodeType, executed: set[int] | None) -> Iterator[str]:
    """Yield the names in executed ``self.name``; without ``executed``, everything was."""
    previous = None
    for instruction in dis.get_instructions(code):
        is_attribute = instruction.opname in ("LOAD_ATTR", "LOAD_METHOD")
        if is_attribute and previous is not None and previous.argval == "self":
            if executed is None or instruction.offset in executed:
                yield instruction.argval
        previous = instruction


@lru_cache(maxsize=4096)
def _looked_up(code: CodeType) -> tuple[re.Pattern[str], ...]:
    """Return the names in ``getattr(self, f"act{number}")``, as patterns."""
    if "getattr" not in code.co_names:
        return ()
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(code)))
    except (OSError, SyntaxError, TypeError):
        return ()
    patterns = []
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call) or getattr(node.func, "id", "") != "getattr":
            continue
        name = node.args[1] if len(node.args) > 1 else None
        if isinstance(name, ast.JoinedStr):
            parts = (getattr(part, "value", None) for part in name.values)
            texts = [re.escape(part) if isinstance(part, str) else ".*" for part in parts]
            if set(texts) != {".*"}:
                patterns.append(re.compile("".join(texts)))
    return tuple(patterns)


def _stored_names(codes: Iterable[CodeType]) -> set[str]:
    """Return the names of attributes that the codes assign."""
    names = set()
    for code in codes:
        for instruction in dis.get_instructions(code):
            if instruction.opname == "STORE_ATTR":
                names.add(instruction.argval)
    return names


def _is_part(module: nn.Module) -> bool:
    """Whether the module is no layer: it holds what others call, or defines no forward."""
    forward = getattr(type(module), "forward", None)
    return forward is None or forward is nn.Module.forward


def _files_of(model: nn.Module) -> frozenset[str]:
    """Return the files that define the classes of the model."""
    files = set()
    for kind in {type(module) for module in model.modules()}:
        for home in kind.__mro__:
            for value in vars(home).values():
                code = getattr(value, "__code__", None)
                if code is not None:
                    files.add(code.co_filename)
    return frozenset(file for file in files if not file.startswith((_OWN, _TORCH)))


@lru_cache(maxsize=4096)
def jumps_of(code: CodeType) -> dict[int, Jump]:
    """Return the conditional jumps of ``code`` by their offset."""
    instructions = list(dis.get_instructions(code))
    jumps = {}
    for number, instruction in enumerate(instructions):
        kind = _kind_of_jump(instructions, number)
        if not kind:
            continue
        following = set()
        for later in instructions[number + 1 :]:
            following.add(later.offset)
            if later.opname != "EXTENDED_ARG":
                break
        place = getattr(instruction, "positions", None)  # from Python 3.11 on
        line = getattr(place, "lineno", None) or code.co_firstlineno
        last_line = getattr(place, "end_lineno", None) or line
        columns = (getattr(place, "col_offset", None), getattr(place, "end_col_offset", None))
        jumps[instruction.offset] = Jump(
            instruction.offset,
            instruction.argval,
            frozenset(following),
            (line, last_line),
            (columns[0] or 0, -1 if columns[1] is None else columns[1]),
            kind,
        )
    return jumps


def _kind_of_jump(instructions: list[dis.Instruction], number: int) -> str:
    name = instructions[number].opname
    if name == "FOR_ITER":
        return "loop"
    if "JUMP" not in name or "_IF_" not in name:
        return ""
    before = instructions[number - 1].opname if number else ""
    return "except" if before == "CHECK_EXC_MATCH" else "condition"


@dataclass(frozen=True)
class _MissingPart:
    """A part of the source that did not run: words for it, and what decides about it."""

    words: str
    read: str
    may_be_setting: bool = True


def _missing_part(code: CodeType, jump: Jump, seen: set[bool]) -> _MissingPart | None:
    """Return what did not run, if a jump had only one outcome."""
    if jump.kind == "except":
        if seen or _only_raises(code, jump, jumped=False):
            return None
        line = _line(code, jump).strip().partition(":")[0]
        return _MissingPart(f"`{line}` was never entered", line, may_be_setting=False)
    if jump.kind == "loop":
        text = _iterated(_text(code, jump))
        words = f"the loop over `{text}` was never entered"
        return _MissingPart(words, text) if seen == {True} else None
    if len(seen) != 1 or _only_raises(code, jump, jumped=not min(seen)):
        return None
    condition = _condition(code, jump)
    outcome = str(_when_true(code, jump, condition.text) is min(seen)).lower()
    words = f"`{condition.text}` was always {outcome}"
    if not condition.exact:
        words = f"one outcome of `{condition.text}`"
    return _MissingPart(words, condition.text, not condition.text.startswith("case "))


def _when_true(code: CodeType, jump: Jump, condition: str) -> bool:
    """Return whether the jump is taken when its condition is true."""
    name = next(i.opname for i in dis.get_instructions(code) if i.offset == jump.offset)
    # ``is None`` and ``is not None`` have instructions of their own; the text has the condition.
    if name.endswith("NOT_NONE"):
        return "is not None" in condition
    if name.endswith("NONE"):
        return "is not None" not in condition
    return "IF_TRUE" in name


def _only_raises(code: CodeType, jump: Jump, *, jumped: bool) -> bool:
    """Return whether an outcome of the jump leads to an error without a further branch."""
    start = jump.target if jumped else min(jump.following)
    for instruction in dis.get_instructions(code):
        if instruction.offset < start:
            continue
        if instruction.opname in ("RAISE_VARARGS", "RERAISE"):
            return True
        if "JUMP" in instruction.opname or instruction.opname.startswith("RETURN"):
            return False
    return False


@dataclass(frozen=True)
class _Condition:
    """The condition of a jump in the source; ``exact`` if it is known where it begins and ends."""

    text: str
    exact: bool


def _condition(code: CodeType, jump: Jump) -> _Condition:
    """Return the condition of a jump.

    Python records the place of a comparison. For a plain name it records that of the statement or
    expression around it.
    """
    line = _line(code, jump).strip()
    if line.startswith("case "):
        return _Condition(line.partition(":")[0], exact=False)
    line = _text(code, jump)
    tree = _parsed(line)
    if tree is not None and isinstance(tree.body, ast.IfExp):
        return _Condition(ast.unparse(tree.body.test), exact=False)
    if tree is not None:
        return _Condition(line, exact=not isinstance(tree.body, ast.BoolOp | ast.UnaryOp))
    header = _HEADER.match(line)
    return _Condition(header.group(1) if header else line, exact=False)


def _line(code: CodeType, jump: Jump) -> str:
    """Return the line of a jump, or its number where the source is not kept (``python -c``)."""
    number = jump.lines[0]
    return linecache.getline(code.co_filename, number) or f"line {number} of {code.co_name}"


def _text(code: CodeType, jump: Jump) -> str:
    """Return the text of a jump in the source, or its line where Python records no more."""
    line = _line(code, jump).rstrip()
    first, last = jump.columns
    known = linecache.getline(code.co_filename, jump.lines[0])
    if known and jump.lines[0] == jump.lines[1] and last >= 0:
        line = line.encode()[first:last].decode(errors="replace")
    return line.strip()


def _iterated(text: str) -> str:
    """Return what the loop at the beginning of ``text`` goes over, or ``text``."""
    for complete in (text, f"{text} pass"):
        try:
            statement = ast.parse(complete).body[0]
        except SyntaxError:
            continue
        return ast.unparse(statement.iter) if isinstance(statement, ast.For) else text
    return text


def _parsed(text: str) -> ast.Expression | None:
    try:
        return ast.parse(text, mode="eval")
    except SyntaxError:
        return None


def _is_setting(text: str, code: CodeType, state: set[str], tensors: set[str]) -> bool:
    """Return whether a condition reads only attributes of the module that stay as they are.

    Args:
        text: the condition.
        code: the function that it is in.
        state: the names of attributes that code which ran assigns.
        tensors: the names of parameters and buffers. Whether they are ``None`` is a setting.
    """
    tree = _parsed(text)
    if tree is None or not code.co_varnames or code.co_varnames[0] != "self":
        return False
    questions = {id(node.left) for node in ast.walk(tree) if _is_none_question(node)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Name) and node.id != "self":
            if node.id in code.co_varnames or node.id in code.co_freevars:
                return False
        if isinstance(node, ast.Attribute):
            if node.attr in state or (node.attr in tensors and id(node) not in questions):
                return False
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") not in _QUESTIONS:
            return False
    return True


def _is_none_question(node: ast.AST) -> TypeGuard[ast.Compare]:
    """Return whether ``node`` is ``x is None`` or ``x is not None``."""
    return isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.Is | ast.IsNot)
