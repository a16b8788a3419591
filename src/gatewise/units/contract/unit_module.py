"""The base classes of units' modules, and checks of their options and inputs.

Note [Cheap calls]. A small activation costs 2 microseconds, so a unit may add no more than 0.2. The
usual call, with an ordinary tensor of float32 or float64, passes a few comparisons and computes the
unit's expression. Everything else takes the unit's function, which looks more closely. Trained
numbers are read from the dictionary of a module's parameters: an attribute of ``nn.Module`` that is
a parameter takes 0.4 microseconds.
"""

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.jit._script import RecursiveScriptModule

from gatewise.checks import check_flag, check_number, is_size
from gatewise.errors import ArgumentError
from gatewise.units.contract.factory import FLOATS, WIDE, allocating
from gatewise.units.contract.fusing import run_fused
from gatewise.units.contract.leaf_module import LeafModule, as_leaf

Device = torch.device | str | None
DType = torch.dtype | None
DENSE = torch.strided


class UnitModule(LeafModule):
    """A module whose ``forward(x)`` is its unit's function called with ``arguments(x)``.

    A class states how an ordinary tensor of float32 or float64 is computed: by ``forward``, or by
    ``expression``, a function of the tensor and of the options in the order of the unit's function.
    Half types take that function. A class without a constructor gets one whose options are those of
    the function, when its unit is registered.

    Every unit takes ``inplace=True``, which networks pass to the activation class that they are
    given, and ignores it: the result is always a new tensor.

    Args:
        **options: the options of the unit, which the representation shows.
    """

    inplace: bool = False  # some networks read it of their activations
    expression: ClassVar[Callable[..., Tensor]]
    fused: bool = False  # set by `fuse`, on a module
    fusable: ClassVar[bool] = True  # no: there is a kernel for it, which `fuse` leaves alone
    # Set at the registration of the unit: its function, the names of the arguments that the module
    # gives it, and of those that train.
    function: ClassVar[Callable[..., Tensor]]
    argument_names: ClassVar[tuple[str, ...]] = ()
    trained: ClassVar[tuple[str, ...]] = ()
    # What `fuse` compiles in place of the function.
    fused_function: ClassVar[Callable[..., Tensor] | None] = None

    def __init_subclass__(cls, **arguments: Any) -> None:
        super().__init_subclass__(**arguments)
        if "__init__" in vars(cls):
            cls.__init__ = ignoring_inplace(vars(cls)["__init__"])

    @staticmethod
    def as_leaf(forward: Callable[..., Any]) -> Callable[..., Any]:
        """Return a ``forward``, of one tensor or more, as a leaf that costs little."""
        if len(inspect.signature(forward).parameters) != 2:
            return as_leaf(forward)
        return _cheap_leaf(forward)

    @classmethod
    def leaf_of(cls, expression: Callable[..., Tensor]) -> Callable[..., Any]:
        """Return the ``forward`` of a class from its expression."""
        names = cls.argument_names
        if len(names) < 2:
            return _leaf_of_expression(expression, *names)
        return _cheap_leaf(lambda self, x: expression(x, *[getattr(self, n) for n in names]))

    def __init__(self, **options: Any) -> None:
        super().__init__()
        self.options = options
        check_dim_option(type(self).__name__, options.get("dim", 1))

    def arguments(self, x: Tensor) -> dict[str, Any]:
        """Return the arguments with which the unit's function computes what this module computes.

        Args:
            x: the input of the module.
        """
        return {name: getattr(self, name) for name in self.argument_names}

    def extra_repr(self) -> str:
        """Return the options that differ from their defaults."""
        defaults = inspect.signature(type(self)).parameters
        shown = []
        for name, value in self.options.items():
            # 1 and True are equal, but not the same option.
            default = defaults[name].default
            if type(value) is not type(default) or value != default:
                shown.append(f"{name}={value!r}")
        return ", ".join(shown)


def _cheap_leaf(forward: Callable[[Any, Tensor], Tensor]) -> Callable[..., Any]:
    """Return a ``forward`` of one tensor as a leaf. See Note [Cheap calls]."""

    def call(self: Any, x: Tensor) -> Tensor:
        if type(x) is Tensor and x.dtype in WIDE and x.layout is DENSE and not x.is_nested:
            if type(self) is not RecursiveScriptModule and not self.fused:
                return forward(self, x)
        return otherwise(self, x)

    otherwise = _close_look(call, forward)
    return _ignored(call)


def _leaf_of_expression(expression: Callable[..., Tensor], name: str = "") -> Callable[..., Any]:
    """Return the ``forward`` of a unit with at most one option. See Note [Cheap calls]."""

    def call(self: Any, x: Tensor) -> Tensor:
        if type(x) is Tensor and x.dtype in WIDE and x.layout is DENSE and not x.is_nested:
            if type(self) is not RecursiveScriptModule and not self.fused:
                return expression(x, getattr(self, name)) if name else expression(x)
        return otherwise(self, x)

    otherwise = _close_look(call, call)
    return _ignored(call)


def _close_look(
    leaf: Callable[..., Any],
    forward: Callable[[Any, Tensor], Tensor],
) -> Callable[..., Any]:
    """Return a leaf for an input that may be anything.

    Args:
        leaf: where the function of a registered unit is found.
        forward: runs in classes that are not registered.
    """

    def look_closely(self: Any, x: Tensor) -> Tensor:
        function: Any = vars(leaf).get("function")
        if function is None:
            return forward(self, check_input(type(self).__name__, x))
        check_input(function.__name__, x)
        if self.fused and type(x) is Tensor:
            return run_fused(self, function, x)
        return function(x, **self.arguments(x))

    return as_leaf(look_closely)


def _ignored(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let torch.jit.script leave a function to Python."""
    ignore: Any = torch.jit.ignore  # its types do not say that it takes a function
    return ignore(function)


def ignoring_inplace(build: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor that also takes ``inplace``, and ignores it."""

    @functools.wraps(build)
    def construct(self: UnitModule, *args: Any, inplace: bool = False, **options: Any) -> None:
        check_flag(type(self).__name__, "inplace", inplace)
        build(self, *args, **options)

    return construct


class TrainableUnit(UnitModule):
    """A unit whose trainable numbers start at given values, one number each or one per channel.

    All parameters are 1-dimensional. Optimiser recipes that spare parameters from weight decay go
    by that.

    Args:
        channels: the number of channels for one set of parameters per channel; ``None`` for one set
            in all.
        dim: the channel dimension of the input.
        device: the device of the parameters.
        dtype: the dtype of the parameters.
        **options: the start values, and further options of the unit.
    """

    per_layer: ClassVar[tuple[str, ...]] = ()  # parameters of which there is one in all

    def __init__(
        self,
        *,
        channels: int | None = None,
        dim: int = 1,
        device: Device = None,
        dtype: DType = None,
        **options: Any,
    ) -> None:
        super().__init__(**options, channels=channels, dim=dim)
        unit = type(self).function.__name__
        self.starts = {name: check_number(unit, name, options[name]) for name in self.trained}
        self.dim = dim
        # One number for the whole layer is a channel count of 1.
        count = check_channels(unit, channels) or 1
        with allocating(unit, device, dtype):
            for name in self.trained:
                size = 1 if name in self.per_layer else count
                values = torch.empty(size, device=device, dtype=dtype)
                self.register_parameter(name, nn.Parameter(values))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set every parameter to its start value."""
        for name, value in self.starts.items():
            nn.init.constant_(self.get_parameter(name), value)

    @classmethod
    def leaf_of(cls, expression: Callable[..., Tensor]) -> Callable[..., Any]:
        """Return the ``forward`` of a class from its expression of tensor and numbers."""
        trained = cls.trained
        others = [name for name in cls.argument_names if name not in (*trained, "dim")]

        def forward(self: Any, x: Tensor) -> Tensor:
            numbers = aligned(x, self.dim, *map(self._parameters.get, trained))
            if numbers is None:
                return type(self).function(x, **self.arguments(x))
            if not others:
                return expression(x, *numbers)
            return expression(x, *numbers, *[getattr(self, name) for name in others])

        return _cheap_leaf(forward)


def aligned(x: Tensor, dim: int, *numbers: Tensor | None) -> Sequence[Tensor] | None:
    """Return trained numbers in shapes that broadcast with ``x``.

    Args:
        x: the input.
        dim: its channel dimension.
        *numbers: tensors of one number each, or of one per channel; ``None`` for one that is not a
            parameter of its module, such as a parametrized one.

    Returns:
        The numbers; ``None`` for what needs a closer look.
    """
    rank = x.dim()
    behind = -dim - 1 if dim < 0 else rank - dim - 1
    found: list[Tensor] = []
    for each in numbers:
        if each is None or each.dtype is not x.dtype or each.is_cpu is not x.is_cpu:
            return None
        found.append(each)
    size = found[-1].numel()
    if not 0 <= behind < rank or (size != 1 and x.shape[dim] != size):
        return None
    if size == 1 or behind == 0:
        return found
    return [each.view(-1, *[1] * behind) for each in found]


def check_channels(unit: str, channels: int | None, *, required: bool = False) -> int | None:
    """Return ``channels`` if it is a count with which a unit can be built."""
    if channels is None and not required:
        return None
    if channels is None or not is_size(channels, 1):
        raise ArgumentError(
            f"{unit}: channels must be a positive integer",
            got=channels,
            fix=f"create_unit({unit!r}, channels=C) with the number of input channels C",
        )
    return channels


def check_dim_option(unit: str, dim: int) -> int:
    """Return ``dim`` if it is an integer."""
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise ArgumentError(f"{unit}: dim is not allowed", got=dim, allowed="an integer")
    return dim


def check_generator(unit: str, generator: torch.Generator | None) -> torch.Generator | None:
    """Return ``generator`` if it is a generator of torch; ``None`` is torch's global one."""
    if generator is not None and not isinstance(generator, torch.Generator):
        allowed = "a torch.Generator, or None for torch's global one"
        raise ArgumentError(
            f"{unit}: generator is not allowed",
            got=generator,
            allowed=allowed,
        )
    return generator


def check_input(unit: str, x: Tensor) -> Tensor:
    """Return ``x`` if a unit can take it.

    Args:
        unit: the unit's name in the error message.
        x: the input.

    Raises:
        ArgumentError: if ``x`` is not a dense tensor of a real floating point dtype.
    """
    allowed = "a torch.Tensor of dtype float16, bfloat16, float32 or float64"
    if not isinstance(x, Tensor):
        raise ArgumentError(
            f"{unit}: the input must be a tensor",
            got=type(x).__name__,
            allowed=allowed,
        )
    if x.layout is not torch.strided or x.is_nested:
        nested = x.is_nested
        raise ArgumentError(
            f"{unit}: the input must be a dense tensor",
            got="a nested tensor" if nested else f"layout {x.layout}",
            allowed=allowed,
            fix="x.to_padded_tensor(0.0)" if nested else "x.to_dense()",
        )
    if x.dtype not in FLOATS:
        raise ArgumentError(
            f"{unit}: the input must have a real floating point dtype",
            got=x.dtype,
            allowed=allowed,
            fix="x.float()",
        )
    return x


def resolve_dim(unit: str, x: Tensor, dim: int) -> int:
    """Return ``dim`` counted from the front, if ``x`` has that dimension."""
    if isinstance(dim, bool) or not isinstance(dim, int):
        raise ArgumentError(f"{unit}: dim must be an integer", got=dim)
    if not -x.dim() <= dim < x.dim():
        raise ArgumentError(
            f"{unit}: the input has no dimension {dim}",
            got=f"shape {tuple(x.shape)}",
            allowed=f"{-x.dim()} <= dim < {x.dim()}",
            fix="pass the channel dimension as dim=..., or add a batch dimension",
        )
    return dim % x.dim()


def check_feature_maps(unit: str, x: Tensor, axis: int, channels: int) -> list[int]:
    """Return the dimensions of the positions of ``x``, over which a channel's mean is taken.

    Args:
        unit: the unit's name in error messages.
        x: the input, batch first.
        axis: the channel dimension of ``x``, counted from the front.
        channels: the number of channels of the unit.

    Raises:
        ArgumentError: for another number of channels, or samples without positions.
    """
    if x.shape[axis] != channels:
        raise ArgumentError(
            f"{unit}: wrong number of input channels",
            got=f"{x.shape[axis]} in shape {tuple(x.shape)}",
            allowed=channels,
        )
    if x.shape[0] and not x.numel():
        raise ArgumentError(
            f"{unit}: there is no position to take the mean over",
            got=f"shape {tuple(x.shape)}",
        )
    return [dim for dim in range(1, x.dim()) if dim != axis]


def describe_shape(value: object) -> str:
    """Return the shape of a tensor, or the type of anything else, for an error message."""
    if isinstance(value, Tensor):
        return f"shape {tuple(value.shape)}"
    return type(value).__name__
