"""Run a model for comparison.

With other tensors in place of its own, leaving everything as it was.
"""

import warnings
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from types import FunctionType
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_map_only

from gatewise.errors import RectifiedInputWarning, first_line
from gatewise.graph import example_tensors, untouched
from gatewise.surgery.planning import float_dtypes
from gatewise.surgery.proof.failures import OriginalFailedError, SwapFailed

LARGE = 1 << 25  # entries of a weight whose gradient is not computed: it would take gigabytes
SEED = 0

State = dict[str, Tensor]
Arguments = tuple[tuple[Any, ...], dict[str, Any]]
ModelCall = Callable[[nn.Module], Any]  # such as one that calls another method than forward


# Functions with dropout inside, and the place of ``dropout_p`` among their arguments.
ATTENTION = {"scaled_dot_product_attention": 4, "multi_head_attention_forward": 10}


class WithoutDropout(TorchFunctionMode):
    """Dropout passes its input: masks of other widths would differ."""

    leaves_units_alone = True  # so that compiled forms run under it, as they will later

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        name = getattr(func, "__name__", "")
        if "dropout" in name and "dropout_p" not in kwargs:
            return args[0] if args else kwargs["input"]
        if name in ATTENTION:
            place = ATTENTION[name]
            if len(args) > place:
                args = (*args[:place], 0.0, *args[place + 1 :])
            else:
                kwargs["dropout_p"] = 0.0
        return func(*args, **kwargs)


@dataclass(frozen=True)
class Run:
    """The result of one run: outputs, gradients by parameter, and bytes saved for backward."""

    outputs: tuple[Tensor, ...]
    gradients: dict[str, Tensor]
    saved: int


def state_of(model: nn.Module, dtype: torch.dtype) -> State:
    """A copy of the parameters and buffers, floating ones in ``dtype``."""
    found: State = {}
    for name, value in (*model.named_parameters(), *model.named_buffers()):
        floating = value.is_floating_point()
        found[name] = value.detach().to(dtype if floating else value.dtype, copy=True)
        found[name].requires_grad_(floating and value.requires_grad)
    return found


def single_precision(model: nn.Module) -> State | None:
    """``None`` if the model is in float32 already."""
    return None if {*float_dtypes(model)} <= {torch.float32} else state_of(model, torch.float32)


def run(
    model: nn.Module,
    example: Any,
    state: State | None = None,
    *,
    training: bool = False,
    dtype: torch.dtype | None = torch.float32,
    inside: AbstractContextManager[Any] | None = None,
    largest: int = LARGE,
) -> Run:
    """One run, with the tensors of ``state`` in place of the model's own; all is left as it was.

    In training with gradients, and without dropout.

    Args:
        model: the model.
        example: positional and keyword arguments.
        state: tensors to use in place of the model's own.
        training: whether to run in training mode, forwards and backwards.
        dtype: of the example without ``state``; ``None`` leaves it as it is.
        inside: a context to run the model in.
        largest: the most entries of a parameter whose gradient is computed. With 0 there is no
            backward pass; only what it would read is checked.
    """
    if state is not None:
        floating = (value.dtype for value in state.values() if value.is_floating_point())
        dtype = next(floating, dtype)
        # The model may write into its buffers.
        buffers = {name for name, _ in model.named_buffers()}
        state = {name: value.clone() if name in buffers else value for name, value in state.items()}
    # Copies: the model may write into its arguments.
    args, kwargs = tree_map_only(Tensor, torch.clone, cast(example, dtype))

    def call() -> tuple[Tensor, ...]:
        if state is None:
            return floating_tensors(model(*args, **kwargs))
        return floating_tensors(torch.func.functional_call(model, state, args, kwargs))

    with left_unchanged(model, buffers=state is None):
        torch.manual_seed(SEED)
        model.train(training)
        with inside or nullcontext():
            if training:
                return run_backwards(call, state or dict(model.named_parameters()), largest)
            with torch.no_grad():
                return Run(call(), {}, 0)


def of_original(action: Callable[[], Run]) -> Run:
    """Run the original.

    Raises:
        OriginalFailedError: it cannot be run in this way.
    """
    try:
        return action()
    except Exception as problem:  # the model's own code may raise anything
        raise OriginalFailedError(first_line(problem)) from problem


def of_changed(action: Callable[[], Run], *, trained: bool = False) -> Run:
    """Run the changed model.

    Raises:
        SwapFailed: it cannot be run; with ``trained``, not trained.
    """
    try:
        return action()
    except Exception as problem:
        cause = "the model's code may contain a fixed size"
        if trained:
            cause += ", or an operation in place on what a unit needs for its gradient"
        done = "trained" if trained else "run"
        raise SwapFailed(
            f"swap: the changed model cannot be {done} ({first_line(problem)})",
            fix=f"{cause}; leave out the sites before it with where=",
        ) from problem


@contextmanager
def left_unchanged(model: nn.Module, *, buffers: bool = False) -> Iterator[None]:
    """Run a model for a comparison: restore it on exit, and hide warnings meant for training."""
    with untouched(model, buffers=buffers), warnings.catch_warnings():
        warnings.simplefilter("ignore", RectifiedInputWarning)
        yield


def run_backwards(
    call: Callable[[], tuple[Tensor, ...]], state: State, largest: int = LARGE
) -> Run:
    """Run forward and backward; count the bytes that are kept for the gradients of ``state``."""
    saved: dict[int, int] = {}
    kept: list[tuple[Tensor, int]] = []
    own = {value.untyped_storage().data_ptr() for value in state.values()}

    def keep(tensor: Tensor) -> tuple[Tensor, int]:
        if (place := tensor.untyped_storage().data_ptr()) not in own:
            saved[place] = _bytes(tensor)
        tensor = tensor.detach()  # autograd would never free an output that it keeps itself
        if not largest:
            kept.append((tensor, tensor._version))
        return tensor, tensor._version

    with torch.enable_grad(), WithoutDropout():
        with torch.autograd.graph.saved_tensors_hooks(keep, _unchanged):
            outputs = call()
        total = sum(
            (weighted(output) for output in outputs if output.requires_grad), torch.zeros(())
        )
    for pair in kept:
        _unchanged(pair)
    named = {
        name: value
        for name, value in state.items()
        if value.requires_grad and value.numel() <= largest
    }
    names, values = list(named), list(named.values())
    # zeros for what was not used: new weights that no output depends on are not alive
    gradients: tuple[Tensor, ...] = ()
    if total.requires_grad and values:
        gradients = torch.autograd.grad(total, values, materialize_grads=True)
    found = dict(zip(names, gradients, strict=False))
    return Run(tuple(output.detach() for output in outputs), found, sum(saved.values()))


def _unchanged(kept: tuple[Tensor, int]) -> Tensor:
    """What was kept, unless it was written to since.

    Torch looks for that itself, but not where there are hooks.
    """
    tensor, version = kept
    if tensor._version != version:
        raise RuntimeError("what is needed for a gradient was changed by an inplace operation")
    return tensor


def _bytes(tensor: Tensor) -> int:
    """Of the whole storage.

    Numbers with a point count as float32, whatever precision they are computed in here.
    """
    size = tensor.element_size()
    return tensor.untyped_storage().nbytes() // size * (4 if tensor.is_floating_point() else size)


def weighted(output: Tensor) -> Tensor:
    """Return a randomly weighted sum, so that no gradient cancels by symmetry."""
    generator = torch.Generator().manual_seed(SEED)
    return (output * torch.randn(output.shape, generator=generator).to(output)).sum()


def cast(value: Any, dtype: torch.dtype | None) -> Any:
    """Every floating tensor in ``value`` in ``dtype``."""

    def change(tensor: Tensor) -> Tensor:
        return tensor.to(dtype) if dtype and tensor.is_floating_point() else tensor

    return tree_map_only(Tensor, change, value)


def first_of(example: Any) -> Any:
    """The first example of the batch, or ``example`` if its tensors have different batch sizes."""
    sizes = {tensor.shape[0] for tensor in example_tensors(example) if tensor.dim()}
    if len(sizes) != 1:
        return example
    return tree_map_only(Tensor, lambda value: value[:1] if value.dim() else value, example)


def floating_tensors(value: Any) -> tuple[Tensor, ...]:
    """The tensors in ``value`` that a gradient can be asked of."""
    return tuple(each for each in output_tensors(value) if each.is_floating_point())


def output_tensors(value: Any, seen: frozenset[int] = frozenset()) -> Iterator[Tensor]:
    """Every tensor in what a model returns: in nested containers, and in attributes of objects."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        yield from output_tensors(list(value.values()), seen)
    elif isinstance(value, list | tuple | set | frozenset | deque):
        for item in value:
            yield from output_tensors(item, seen)
    elif not isinstance(value, type | nn.Module | FunctionType) and id(value) not in seen:
        yield from output_tensors(_attributes(value), seen | {id(value)})


def _attributes(value: Any) -> dict[str, Any]:
    """The attributes of an object, in its dictionary or in slots."""
    attributes = dict(getattr(value, "__dict__", {}))
    for kind in type(value).__mro__:
        slots = vars(kind).get("__slots__", ())
        for name in (slots,) if isinstance(slots, str) else slots:
            if name != "__dict__" and hasattr(value, name):
                attributes[name] = getattr(value, name)
    return attributes
