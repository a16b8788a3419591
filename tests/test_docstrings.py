"""Docstrings of the public interface can be read by a docstring parser.

An ``Args:`` section names exactly the arguments of the signature, in order, one per paragraph.
"""

import importlib
import inspect
import re
from collections.abc import Callable, Iterator
from dataclasses import is_dataclass
from typing import Any

import pytest

import gatewise as gw

# Parts in which every public function or class with arguments has an `Args:` section.
COMPLETE = {"functional", "layers", "testing", "units"}
# Loading these imports a library that is not ours.
OPTIONAL = {"LightningRecorder", "TransformersRecorder"}

ENTRY = re.compile(r"^    (\*{0,2}\w+)(?: \([^)]*\))?: \S")
INDENT = "    "


def arguments_section(docstring: str) -> list[str] | None:
    """Lines of the ``Args:`` section without its header, or None if there is none."""
    lines = inspect.cleandoc(docstring).splitlines()
    for number, line in enumerate(lines):
        if line.startswith("Args:"):
            section = [line.removeprefix("Args:").strip()]
            for following in lines[number + 1 :]:
                if following.strip() and not following.startswith(INDENT):
                    break
                section.append(following)
            return section
    return None


def faults(docstring: str, names: list[str]) -> list[str]:
    """What a parser cannot read in the ``Args:`` section, and names that do not fit ``names``."""
    section = arguments_section(docstring)
    if section is None:
        return []
    wrong = []
    documented = []
    if section[0]:
        wrong.append(f"text after 'Args:': {section[0]!r}")
    for line in section[1:]:
        if not line.strip() or line.startswith(2 * INDENT):
            continue
        entry = ENTRY.match(line)
        if entry is None:
            wrong.append(f"not 'name: text': {line.strip()!r}")
        else:
            documented.append(entry.group(1))
    if documented != names:
        wrong.append(f"documents {documented}, the signature has {names}")
    return wrong


def argument_names(function: Callable[..., Any]) -> list[str]:
    """Names in the signature, with the stars of variable arguments, without ``self``."""
    stars = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}
    names = []
    for name, parameter in inspect.signature(function).parameters.items():
        if name not in ("self", "cls"):
            names.append(stars.get(parameter.kind, "") + name)
    return names


def part_of(thing: Any) -> str:
    """The part of the library that defines ``thing``; empty for things of other libraries."""
    package, _, rest = (getattr(thing, "__module__", None) or "").partition(".")
    return rest.split(".")[0] if package == "gatewise" else ""


def public_members() -> Iterator[tuple[str, Any]]:
    """Path and value of every name in ``gw.__all__`` and on the faces of its parts."""
    for name in gw.__all__:
        if name in OPTIONAL:
            continue
        yield name, getattr(gw, name)
        if inspect.ismodule(getattr(gw, name)):
            module = importlib.import_module(f"gatewise.{name}")
            for member in getattr(module, "__all__", dir(module)):
                if not member.startswith("_") and member not in OPTIONAL:
                    yield f"{name}.{member}", getattr(module, member)


def public_things() -> Iterator[tuple[str, Any]]:
    """The public functions and classes."""
    for path, thing in public_members():
        if (inspect.isfunction(thing) or inspect.isclass(thing)) and part_of(thing):
            yield path, thing


def methods(kind: type) -> Iterator[tuple[str, Callable[..., Any]]]:
    """Public methods that the class itself defines."""
    for name, member in vars(kind).items():
        function = getattr(member, "__func__", member)
        if not name.startswith("_") and inspect.isfunction(function) and part_of(function):
            yield name, function


def all_signatures() -> Iterator[tuple[str, str, Any]]:
    for path, thing in public_things():
        yield part_of(thing), path, thing
        if inspect.isclass(thing):
            for name, function in methods(thing):
                yield part_of(thing), f"{path}.{name}", function


def names_of(thing: Any) -> list[str]:
    """Argument names; none for a class that leaves construction to a class of another library."""
    if inspect.isclass(thing) and not part_of(thing.__init__) and not is_dataclass(thing):
        return []
    return argument_names(thing)


def test_args_sections_fit_their_signatures():
    wrong = []
    for _, path, thing in all_signatures():
        wrong += [f"{path}: {fault}" for fault in faults(thing.__doc__ or "", names_of(thing))]
    assert not wrong, "\n" + "\n".join(wrong)


def test_public_functions_and_classes_document_their_arguments():
    missing = []
    for path, thing in public_things():
        wanted = path.split(".")[0] in ("nn", "functional", "testing", "create_unit", "list_units")
        if wanted and part_of(thing) in COMPLETE and names_of(thing):
            if arguments_section(thing.__doc__ or "") is None:
                missing.append(path)
    assert not missing, "no Args section:\n" + "\n".join(missing)


def planted(x: int, *rest: int, scale: float = 1.0, **options: int) -> int:
    """Return a number."""
    return x


@pytest.mark.parametrize(
    "text",
    [
        "Args: x: a. *rest: b. scale: c. **options: d.",
        "Args:\n    x: a.\n    scale: c.",
        "Args:\n    x, *rest: a.\n    scale: c.\n    **options: d.",
        "Args:\n    x: a.\n    rest: b.\n    scale: c.\n    **options: d.",
        "Args:\n    x: a.\n    *rest: b.\n    scale: c.\n    more\n    **options: d.",
        "Args:\n    scale: c.\n    x: a.\n    *rest: b.\n    **options: d.",
    ],
)
def test_a_planted_fault_is_caught(text: str):
    assert faults(f"Return a number.\n\n{text}\n", argument_names(planted))


def test_a_right_section_is_let_pass():
    text = """Return a number.

    Args:
        x: The input, a number
            that goes on in a second line.
        *rest: Others.

        scale (float): A factor.
        **options: More.

    Returns:
        A number.
    """
    assert faults(text, argument_names(planted)) == []
    assert faults("Return a number.", argument_names(planted)) == []
