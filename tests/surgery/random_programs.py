"""Random models as source text, each with a second text that says what it must compute.

A model has branches, views, activations in place on them, shared modules, hooks and buffers. Its
``truth`` is written by the generator beside ``forward``: it knows which memory every variable is a
view of, and has no views, no in-place calls, no modules and no hooks. ``acts[k]`` is the function
that activation number ``k`` of the text must be.
"""

import importlib.util
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import ModuleType
from typing import Any

HEAD = '''"""Generated."""
import torch
from torch import nn
from torch.nn import functional as F

'''
WIDTH = 6


@dataclass
class Variable:
    """A variable of the generated code: a view of a memory, ``"whole"``, ``"pairs"`` or a slice."""

    name: str
    memory: str
    view: str = "whole"


@dataclass
class Program:
    """The text of one model, while it is written."""

    rng: random.Random
    setup: list[str] = field(default_factory=list)
    code: list[str] = field(default_factory=list)
    truth: list[str] = field(default_factory=list)
    lines: list[int] = field(default_factory=list)  # of ``code``, by activation
    modules: list[str | None] = field(default_factory=list)  # attribute, by activation
    scale: dict[str, tuple[float, float]] = field(default_factory=dict)  # hooks, by attribute
    count: int = 0
    indent: str = ""

    def new(self, letter: str) -> str:
        self.count += 1
        return f"{letter}{self.count}"

    def say(self, code: str, truth: str) -> None:
        self.code.append(self.indent + code)
        if truth:
            self.truth.append(self.indent + truth)

    def activation(self, attribute: str | None = None) -> str:
        """Number the activation that the next line of code calls; return its name in the truth."""
        self.lines.append(len(self.code))
        self.modules.append(attribute)
        number = len(self.lines) - 1
        before, after = self.scale.get(attribute or "", (1.0, 1.0))
        return f"(lambda v: {after} * acts[{number}]({before} * v))"


def value(variable: Variable) -> str:
    """The value of a variable in terms of memories, ``(N, 6)`` or half as wide."""
    if variable.view == "left":
        return f"{variable.memory}[:, :3]"
    return (
        f"{variable.memory}.reshape(-1, {WIDTH})" if variable.view == "pairs" else variable.memory
    )


def written(variable: Variable, function: str) -> str:
    """The memory of a variable after ``function`` was applied in place."""
    memory = variable.memory
    if variable.view == "left":
        return f"{memory} = torch.cat(({function}({memory}[:, :3]), {memory}[:, 3:]), 1)"
    return f"{memory} = {function}({memory})"


def read(variable: Variable) -> str:
    """The variable in code, as rows of width 6."""
    return f"{variable.name}.reshape(-1, {WIDTH})" if variable.view == "pairs" else variable.name


def statement(program: Program, scope: list[Variable]) -> None:
    """Write one random statement that uses and extends ``scope``."""
    rng = program.rng
    source = rng.choice(scope)
    kind = rng.choices(
        (
            "linear",
            "act",
            "act module",
            "in place",
            "module in place",
            "view",
            "add",
            "buffer",
            "block",
        ),
        (3, 3, 2, 3, 2, 3, 2, 1, 5),
    )[0]
    full = [variable for variable in scope if variable.view != "left"]
    if kind == "block":
        _block(program, scope, rng.choice(full))
    elif kind == "linear":
        source = rng.choice(full)
        layer = program.new("layer")
        program.setup.append(f"self.{layer} = nn.Linear({WIDTH}, {WIDTH})")
        made = Variable(program.new("v"), program.new("m"))
        program.say(
            f"{made.name} = self.{layer}({read(source)})",
            f"{made.memory} = self.{layer}({value(source)})",
        )
        scope.append(made)
    elif kind == "act":
        made = Variable(program.new("v"), program.new("m"), source.view)
        function = program.activation()
        form = rng.choice(("F.relu({})", "{}.relu()", "torch.relu({})", "F.relu(input={})"))
        program.say(
            f"{made.name} = {form.format(source.name)}",
            f"{made.memory} = {function}({value(source)})",
        )
        if made.view == "left":
            made.view = "narrow"
            program.code[-1] += ".repeat(1, 2)"
            program.truth[-1] += ".repeat(1, 2)"
            made.view = "whole"
        scope.append(made)
    elif kind == "act module":
        source = rng.choice(full)
        attribute = _module(program, inplace=False)
        made = Variable(program.new("v"), program.new("m"), source.view)
        function = program.activation(attribute)
        program.say(
            f"{made.name} = self.{attribute}({source.name})",
            f"{made.memory} = {function}({value(source)})",
        )
        scope.append(made)
    elif kind == "in place":
        function = program.activation()
        form = rng.choice(
            ("F.relu_({})", "{}.relu_()", "F.relu({}, inplace=True)", "F.relu({}, True)")
        )
        _in_place(program, scope, source, form.format(source.name), function)
    elif kind == "module in place":
        attribute = _module(program, inplace=True)
        function = program.activation(attribute)
        _in_place(program, scope, source, f"self.{attribute}({source.name})", function)
    elif kind == "view":
        source = rng.choice(full)
        view = rng.choice(("pairs", "left", "whole"))
        made = Variable(program.new("v"), source.memory, view)
        form = {"pairs": "{}.view(-1, 2, 3)", "left": "{}[:, :3]", "whole": "{}.view(-1, 6)"}[view]
        base = source.name if source.view == "whole" else f"{source.name}.view(-1, {WIDTH})"
        program.say(f"{made.name} = {form.format(base)}", "")
        scope.append(made)
    elif kind == "add":
        one, other = rng.choice(full), rng.choice(full)
        made = Variable(program.new("v"), program.new("m"))
        program.say(
            f"{made.name} = {read(one)} + 0.5 * {read(other)}",
            f"{made.memory} = {value(one)} + 0.5 * {value(other)}",
        )
        scope.append(made)
    else:
        buffer = program.new("buffer")
        program.setup.append(f'self.register_buffer("{buffer}", torch.randn({WIDTH}))')
        source = rng.choice(full)
        made = Variable(program.new("v"), program.new("m"))
        program.say(f"self.{buffer} *= 1", "")
        program.say(
            f"{made.name} = {read(source)} + self.{buffer}",
            f"{made.memory} = {value(source)} + self.{buffer}",
        )
        scope.append(made)


def _block(program: Program, scope: list[Variable], source: Variable) -> None:
    """An activation between two layers, whose output nothing else reads."""
    first, last, hidden = (program.new(name) for name in ("layer", "layer", "hidden"))
    for layer in (first, last):
        program.setup.append(f"self.{layer} = nn.Linear({WIDTH}, {WIDTH})")
    made = Variable(program.new("v"), program.new("m"))
    program.say(
        f"{hidden} = self.{first}({read(source)})",
        f"m_{hidden} = self.{first}({value(source)})",
    )
    attribute = None
    form = program.rng.choice(("F.relu({})", "F.relu({}, inplace=True)", "{}.relu()", "module"))
    if form == "module":
        attribute = _module(program, inplace=program.rng.random() < 0.5)
        form = f"self.{attribute}({{}})"
    function = program.activation(attribute)
    program.say(
        f"{made.name} = self.{last}({form.format(hidden)})",
        f"{made.memory} = self.{last}({function}(m_{hidden}))",
    )
    scope.append(made)


def _in_place(
    program: Program, scope: list[Variable], source: Variable, call: str, function: str
) -> None:
    """An activation in place: its result is dropped, assigned to the same or to another name."""
    how = program.rng.choice(("drop", "same", "other"))
    if how == "other":
        made = Variable(program.new("v"), source.memory, source.view)
        program.say(f"{made.name} = {call}", written(source, function))
        scope.append(made)
    else:
        prefix = f"{source.name} = " if how == "same" else ""
        program.say(f"{prefix}{call}", written(source, function))


def _module(program: Program, *, inplace: bool) -> str:
    """An activation module, mostly a new one, with hooks at times.

    A hook would see the result of an in-place call and return another tensor, so only modules that
    are not in place have them.
    """
    known = [name for name in program.scale if name.startswith("same" if inplace else "act")]
    if known and program.rng.random() < 0.3:
        return program.rng.choice(known)
    name = program.new("same" if inplace else "act")
    program.setup.append(f"self.{name} = nn.ReLU(inplace={inplace})")
    before = after = 1.0
    if not inplace and program.rng.random() < 0.3:
        after = 2.0
        program.setup.append(f"self.{name}.register_forward_hook(double)")
    if not inplace and program.rng.random() < 0.2:
        before = 0.5
        program.setup.append(f"self.{name}.register_forward_pre_hook(halve)")
    program.scale[name] = (before, after)
    return name


HOOKS = """
def double(module, args, output):
    return output * 2.0


def halve(module, args):
    return (args[0] * 0.5,)

"""


@dataclass(frozen=True)
class Written:
    """A model's class as text, and where its activations are.

    Attributes:
        text: the class.
        lines: by activation, the line within ``text``, from 0.
        modules: by activation, the attribute that holds its module; ``None`` for a function.
        condition: how the branch is chosen, empty if there is none.
    """

    text: str
    lines: tuple[int, ...]
    modules: tuple[str | None, ...]
    condition: str


def write(seed: int) -> Written:
    """The text of model number ``seed``."""
    rng = random.Random(seed)  # noqa: S311  no secret
    program = Program(rng)
    scope = [Variable("x", "m0")]
    if rng.random() < 0.8:
        program.setup.append(f"self.stem = nn.Linear({WIDTH}, {WIDTH})")
        program.say("h = self.stem(x)", "mh = self.stem(m0)")
        scope = [Variable("h", "mh")]
    for _ in range(rng.randint(1, 3)):
        statement(program, scope)
    condition = rng.choice(("flag", "x.shape[0] > 4", "x.sum() > 0"))
    saved = condition
    if condition == "x.sum() > 0" and scope[0].name == "x":
        condition = saved = "flag"  # x may have been overwritten
    in_truth = {"x.shape[0] > 4": "m0.shape[0] > 4", "x.sum() > 0": "m0.sum() > 0"}
    joined = program.new("v")
    for test, in_truth_test in (
        (f"if {condition}:", f"if {in_truth.get(saved, saved)}:"),
        ("else:", "else:"),
    ):
        program.say(test, in_truth_test)
        program.indent = "    "
        inner = list(scope)
        for _ in range(rng.randint(1, 3)):
            statement(program, inner)
        # All that was made counts: a call whose result nobody uses would show nothing.
        made = [variable for variable in inner[len(scope) :] if variable.view != "left"]
        used = made or [rng.choice([each for each in inner if each.view != "left"])]
        program.say(
            f"{joined} = ({' + '.join(map(read, used))}) * 1.0",
            f"m_{joined} = ({' + '.join(map(value, used))}) * 1.0",
        )
        program.indent = ""
    scope.append(Variable(joined, f"m_{joined}"))
    for _ in range(rng.randint(0, 2)):
        statement(program, scope)
    full = [variable for variable in scope if variable.view != "left"]
    program.setup.append(f"self.out = nn.Linear({WIDTH}, 3)")
    program.say(
        f"return self.out({' + '.join(read(variable) for variable in full)})",
        f"return self.out({' + '.join(value(variable) for variable in full)})",
    )
    lines = [
        f"class Model{seed}(nn.Module):",
        "    def __init__(self):",
        "        super().__init__()",
    ]
    lines += [f"        {line}" for line in program.setup]
    lines += ["", "    def forward(self, x, flag=False):"]
    start = len(lines)
    lines += [f"        {line}" for line in program.code]
    lines += ["", "    def truth(self, m0, acts, flag=False):"]
    lines += [f"        {line}" for line in program.truth]
    return Written(
        "\n".join(lines) + "\n\n",
        tuple(start + line for line in program.lines),
        tuple(program.modules),
        saved,
    )


@dataclass(frozen=True)
class Generated:
    """A class that was imported from a file.

    Attributes:
        kind: the class.
        lines: by activation, the line in the file, from 1.
        modules: by activation, the attribute that holds its module.
        condition: how its branch is chosen.
    """

    kind: Callable[[], Any]
    lines: tuple[int, ...]
    modules: tuple[str | None, ...]
    condition: str


def generate(seeds: Sequence[int], folder: Path) -> list[Generated]:
    """Write the models of ``seeds`` to one file, and import it."""
    text = HEAD + HOOKS
    first_lines = []
    models = [write(seed) for seed in seeds]
    for model in models:
        first_lines.append(text.count("\n") + 1)
        text += model.text
    name = f"generated_{seeds[0]}_{seeds[-1]}"
    file = folder / f"{name}.py"
    file.write_text(text)
    spec = importlib.util.spec_from_file_location(name, file)
    assert spec is not None and spec.loader is not None
    module: ModuleType = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return [
        Generated(
            getattr(module, f"Model{seed}"),
            tuple(first + line for line in model.lines),
            model.modules,
            model.condition,
        )
        for seed, model, first in zip(seeds, models, first_lines, strict=True)
    ]
