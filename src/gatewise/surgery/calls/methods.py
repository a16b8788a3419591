"""From a running piece of code back to the method, and to the class that defines it."""

from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType

from torch import nn

ORIGINAL = "_gatewise_original"  # on a generated method: the function it was made from
HOME = "_gatewise_home"  # on a generated class: the class whose methods it replaces

_TELLING = (  # of a code object, besides its constants
    "co_name",
    "co_qualname",
    "co_firstlineno",
    "co_code",
    "co_names",
    "co_varnames",
    "co_freevars",
    "co_cellvars",
    "co_flags",
    "co_argcount",
    "co_kwonlyargcount",
    "co_posonlyargcount",
    "co_linetable",
    "co_exceptiontable",
)
_COMPREHENSIONS = {"<listcomp>", "<setcomp>", "<dictcomp>", "<genexpr>"}


@dataclass(frozen=True)
class Method:
    """A method as its class defined it: decorators taken off, earlier rewrites too."""

    home: type
    name: str
    function: FunctionType

    @property
    def defined_in(self) -> str:
        """The defining class, as text."""
        return name_of(self.home)

    @property
    def own_name(self) -> str:
        """What the method calls its module: ``self``."""
        return self.function.__code__.co_varnames[0]


def name_of(kind: type) -> str:
    """A class as text: ``package.module:Outer.Inner``."""
    return f"{kind.__module__}:{kind.__qualname__}"


def methods_by_code(kind: type) -> dict[int, Method]:
    """The methods of ``kind`` by the id of each of their code objects, those of nested functions included."""
    table: dict[int, Method] = {}
    for home in kind.__mro__:
        if home in (nn.Module, object):
            break
        for name, value in vars(home).items():
            for function in layers_of(value, f"{home.__qualname__}.{name}"):
                method = Method(
                    vars(home).get(HOME, home), name, getattr(function, ORIGINAL, function)
                )
                for code in code_tree(function.__code__):
                    table.setdefault(id(code), method)
    return table


def layers_of(value: object, qualified_name: str) -> Iterator[FunctionType]:
    """``value`` and the functions that it wraps as a decorator does, outermost first."""
    while isinstance(value, FunctionType):
        yield value
        value = next(wrapped_in(value, qualified_name), None)


def wrapped_in(function: FunctionType, qualified_name: str) -> Iterator[FunctionType]:
    """Functions in the closure of ``function`` that are the method it decorates."""
    for cell in function.__closure__ or ():
        inside = content(cell)
        if isinstance(inside, FunctionType) and inside is not function:
            if (
                inside is function.__dict__.get("__wrapped__")
                or inside.__qualname__ == qualified_name
            ):
                yield inside


def content(cell: object) -> object:
    """What a closure's cell holds, None while it is empty."""
    try:
        return cell.cell_contents  # type: ignore[attr-defined]
    except ValueError:
        return None


def code_tree(code: CodeType) -> Iterator[CodeType]:
    """``code`` and every code object nested in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from code_tree(constant)


def same_code(a: CodeType, b: CodeType) -> bool:
    """Whether two code objects do the same at the same places.

    Not ``a == b``, which before python 3.12 also compares what the interpreter has noted about code
    that has run.
    """
    if any(getattr(a, name, None) != getattr(b, name, None) for name in _TELLING):
        return False
    pairs = list(zip(a.co_consts, b.co_consts, strict=False))
    return len(a.co_consts) == len(b.co_consts) and all(_same_constant(x, y) for x, y in pairs)


def _same_constant(a: object, b: object) -> bool:
    if isinstance(a, CodeType) and isinstance(b, CodeType):
        return same_code(a, b)
    return type(a) is type(b) and repr(a) == repr(b)  # by text, for 0.0 and -0.0 are equal


def is_comprehension(code: CodeType) -> bool:
    """Whether ``code`` is the frame of a comprehension, which has one of its own before python 3.12."""
    return code.co_name in _COMPREHENSIONS


def looks_like_method(kind: type, code: CodeType) -> bool:
    """Whether ``code`` was defined in the body of ``kind`` or of a class it comes from."""
    name = getattr(code, "co_qualname", None)  # python 3.11
    return any(name == f"{home.__qualname__}.{code.co_name}" for home in kind.__mro__)
