"""Find the method that a running piece of code belongs to, and the class that defines it."""

from collections.abc import Iterator
from dataclasses import dataclass
from types import CodeType, FunctionType

from torch import nn

ORIGINAL = "_gatewise_original"  # on a generated method: the function it was made from
HOME = "_gatewise_home"  # on a generated class: the class whose methods it replaces

# The attributes of a code object that decide what it does, besides its constants.
_CODE_ATTRIBUTES = (
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
    """A method as its class defines it, without decorators and without earlier rewrites."""

    home: type
    name: str
    function: FunctionType

    @property
    def defined_in(self) -> str:
        """The defining class, as text: see :func:`name_of`."""
        return name_of(self.home)

    @property
    def own_name(self) -> str:
        """The name of the method's first parameter, usually ``self``."""
        return self.function.__code__.co_varnames[0]


def name_of(kind: type) -> str:
    """Return a class as text: ``package.module:Outer.Inner``."""
    return f"{kind.__module__}:{kind.__qualname__}"


def methods_by_code(kind: type) -> dict[int, Method]:
    """Return the methods of ``kind`` by the id of their code objects, nested functions included."""
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
    """Yield ``value`` and the functions that it wraps as a decorator does, outermost first."""
    while isinstance(value, FunctionType):
        yield value
        value = next(wrapped_in(value, qualified_name), None)


def wrapped_in(function: FunctionType, qualified_name: str) -> Iterator[FunctionType]:
    """Yield the functions in the closure of ``function`` that are the method it decorates."""
    for cell in function.__closure__ or ():
        inside = content(cell)
        if not isinstance(inside, FunctionType) or inside is function:
            continue
        wrapped = function.__dict__.get("__wrapped__")
        if inside is wrapped or inside.__qualname__ == qualified_name:
            yield inside


def content(cell: object) -> object:
    """Return the content of a closure cell, or None if it is empty."""
    try:
        return cell.cell_contents  # type: ignore[attr-defined]
    except ValueError:
        return None


def code_tree(code: CodeType) -> Iterator[CodeType]:
    """Yield ``code`` and every code object nested in it."""
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from code_tree(constant)


def same_code(a: CodeType, b: CodeType) -> bool:
    """Whether two code objects do the same at the same source positions.

    ``a == b`` is too strict: before Python 3.12 it also compares optimisations that the interpreter
    stores in code that has run.
    """
    if any(getattr(a, name, None) != getattr(b, name, None) for name in _CODE_ATTRIBUTES):
        return False
    if len(a.co_consts) != len(b.co_consts):
        return False
    return all(map(_same_constant, a.co_consts, b.co_consts))


def _same_constant(a: object, b: object) -> bool:
    """Whether two constants of a code object are equal."""
    if isinstance(a, CodeType) and isinstance(b, CodeType):
        return same_code(a, b)
    return type(a) is type(b) and repr(a) == repr(b)  # as text, because 0.0 == -0.0


def is_comprehension(code: CodeType) -> bool:
    """Whether ``code`` is that of a comprehension, which has a frame before Python 3.12."""
    return code.co_name in _COMPREHENSIONS


def looks_like_method(kind: type, code: CodeType) -> bool:
    """Whether ``code`` was defined in the body of ``kind`` or of one of its base classes."""
    name = getattr(code, "co_qualname", None)  # from Python 3.11 on
    return any(name == f"{home.__qualname__}.{code.co_name}" for home in kind.__mro__)
