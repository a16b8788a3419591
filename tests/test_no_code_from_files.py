"""Promise X1: reading a file never runs code.

What could run code does not occur in the sources, under any spelling.
"""

import ast
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "gatewise"

FORBIDDEN_MODULES = {
    "pickle",
    "_pickle",
    "pickletools",
    "cloudpickle",
    "dill",
    "joblib",
    "marshal",
    "shelve",
    "torch.hub",
    "torch.package",
}
FORBIDDEN_NAMES = {
    "eval",
    "exec",
    "compile",
    "builtins.eval",
    "builtins.exec",
    "builtins.compile",
    "os.system",
    "os.popen",
    "subprocess.getoutput",
    "subprocess.getstatusoutput",
    "torch.load",
    "torch.serialization.load",
    "torch.jit.load",
    "torch.hub.load",
    "yaml.load",
    "yaml.load_all",
    "yaml.full_load",
    "yaml.unsafe_load",
    "pandas.read_pickle",
}
FORBIDDEN_CALLS = {
    "types.FunctionType",
    "types.CodeType",
}  # to ask whether something is one is harmless
MUST_BE_FALSE = {"allow_pickle", "shell"}  # keywords of any call

# What a few files need. Each says why at its head or beside the call.
# - `calls/compiling.py` makes functions from the text of a class that is already imported, and
#   executes none of it. `fusing.py` copies a function.
# - `pickled_weights.py` reads weights of `torch.save`, in one call, with `weights_only=True`.
# - `cifar_batches.py` lists the operations of a pickle first and refuses all but arrays of numbers.
# - `workers.py` sends work to its own worker processes through a pipe, and reads no file.
PICKLED_WEIGHTS = "files/pickled_weights.py"
ALLOWED = {
    "surgery/calls/compiling.py": {"compile", "types.FunctionType"},
    "units/contract/fusing.py": {"types.FunctionType"},
    "data/sets/cifar_batches.py": {
        "pickle",
        "pickletools",
        "pickletools.genops",
        "pickle.Unpickler",
    },
    "studies/engine/workers.py": {"pickle", "cloudpickle", "cloudpickle.dumps", "pickle.loads"},
    PICKLED_WEIGHTS: {"torch.load"},
}


def dotted(node: ast.AST) -> str | None:
    """``a.b.c`` for a chain of attributes of a name, ``getattr(a, "b")`` included."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        home = dotted(node.value)
        return home and f"{home}.{node.attr}"
    if isinstance(node, ast.Call) and dotted(node.func) == "getattr" and len(node.args) > 1:
        home, name = dotted(node.args[0]), node.args[1]
        return f"{home}.{name.value}" if home and isinstance(name, ast.Constant) else None
    return None


def imports(tree: ast.AST) -> Iterator[tuple[int, str, str]]:
    """Line, name in this file, and full name of each import."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                top = alias.name.split(".")[0]
                yield node.lineno, alias.asname or top, alias.name if alias.asname else top
                yield node.lineno, "", alias.name
        elif isinstance(node, ast.ImportFrom):
            for alias in node.names:
                yield node.lineno, alias.asname or alias.name, f"{node.module}.{alias.name}"


def is_forbidden_module(name: str) -> bool:
    return any(name == module or name.startswith(f"{module}.") for module in FORBIDDEN_MODULES)


def ways_to_run_code(text: str, allowed: Collection[str] = ()) -> list[str]:
    tree = ast.parse(text)
    found, aliases = [], {}
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    for line, local, full in imports(tree):
        aliases[local] = full
        if (is_forbidden_module(full) or full in FORBIDDEN_NAMES) and full not in allowed:
            found.append(f"line {line}: import of {full}")
    for node in ast.walk(tree):
        if name := dotted(node):
            first, _, rest = name.partition(".")
            full = aliases.get(first, first) + (f".{rest}" if rest else "")
            forbidden = full in FORBIDDEN_NAMES or (id(node) in called and full in FORBIDDEN_CALLS)
            if (forbidden or (rest and is_forbidden_module(full))) and full not in allowed:
                found.append(f"line {node.lineno}: {full}")
        if isinstance(node, ast.Call):
            found += [
                f"line {node.lineno}: {k.arg}={ast.unparse(k.value)}"
                for k in node.keywords
                if is_open_door(k)
            ]
    return sorted(set(found))


def is_open_door(keyword: ast.keyword) -> bool:
    literally_false = isinstance(keyword.value, ast.Constant) and keyword.value.value is False
    return keyword.arg in MUST_BE_FALSE and not literally_false


def test_one_call_reads_pickled_weights_and_it_reads_only_tensors():
    calls = []
    for path in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and dotted(node.func) == "torch.load":
                keywords = {k.arg: ast.unparse(k.value) for k in node.keywords}
                calls.append((path.relative_to(SOURCE).as_posix(), keywords))
    ((path, keywords),) = calls
    assert path == PICKLED_WEIGHTS
    assert keywords["weights_only"] == "True" and keywords["mmap"] == "True"


def test_sources_have_no_way_to_run_code_from_a_file():
    files = sorted(SOURCE.rglob("*.py"))
    allowed = {path: ALLOWED.get(path.relative_to(SOURCE).as_posix(), ()) for path in files}
    found = [
        f"{path} {way}"
        for path in files
        for way in ways_to_run_code(path.read_text(), allowed[path])
    ]
    assert files
    assert not found, "\n" + "\n".join(found)


def test_what_is_allowed_in_one_file_is_needed_there_and_caught_elsewhere():
    for name, allowed in ALLOWED.items():
        text = (SOURCE / name).read_text()
        found = {way.split(": ")[1].removeprefix("import of ") for way in ways_to_run_code(text)}
        assert found == allowed


@pytest.mark.parametrize(
    "planted",
    [
        "import pickle",
        "import pickle as harmless",
        "from pickle import loads as parse",
        "def late():\n    import cloudpickle",
        "import joblib.numpy_pickle",
        "import torch\ntorch.load('a.pt', weights_only=True)",
        "import torch as t\nread = t.load",
        "from torch import load",
        "from torch.serialization import load as read",
        "import torch\ngetattr(torch, 'load')('a.pt')",
        "import torch\ntorch.hub.load('a', 'b')",
        "eval('1')",
        "list(map(eval, 'abc'))",
        "exec(open('a').read())",
        "import builtins\nbuiltins.exec('')",
        "compile('1', '', 'eval')",
        "import types\ntypes.FunctionType(code, {})",
        "from types import FunctionType as F\nF(code, {})",
        "import numpy as np\nnp.load('a.npy', allow_pickle=True)",
        "import numpy as np\nnp.load('a.npy', allow_pickle=flag)",
        "import yaml\nyaml.load(text, Loader=yaml.Loader)",
        "from yaml import unsafe_load",
        "import subprocess\nsubprocess.run('ls', shell=True)",
        "import os\nos.system('ls')",
        "from os import system",
    ],
)
def test_a_planted_way_is_caught(planted: str):
    assert ways_to_run_code(planted)


@pytest.mark.parametrize(
    "harmless",
    [
        "model.eval()",
        "import numpy as np\nnp.load('a.npy', allow_pickle=False)",
        "import subprocess\nsubprocess.run(['ls'], shell=False)",
        "import torch\ntorch.nn.Module().load_state_dict({})",
        "from safetensors.torch import load_file",
        "import json\njson.load(open('a.json'))",
        "'eval'",
        "import re, torch\nre.compile('a'), torch.compile(model)",
        "import types\nisinstance(f, types.FunctionType)",
    ],
)
def test_what_is_harmless_passes(harmless: str):
    assert ways_to_run_code(harmless) == []
