"""Contract of layers: checks that do not depend on what a layer computes."""

import copy
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from gatewise.errors import ArgumentError
from gatewise.testing.case import Subject, require
from gatewise.testing.modes import close

if TYPE_CHECKING:
    from gatewise.testing.layer import Layer


def repr_begins_with_the_class_name(layer: "Layer") -> None:
    """The ``repr`` starts with the name of the class."""
    module = layer.build()
    require(
        repr(module).startswith(f"{type(module).__name__}("),
        "repr does not begin with the class name",
    )


def state_survives(layer: "Layer") -> None:
    """A deep copy, and a layer with other weights that loads the state, give the same bits."""
    module = layer.build()
    x = layer.sample()
    want = module(x)
    require(torch.equal(copy.deepcopy(module)(x), want), "a deep copy gives different values")
    fresh = layer.build(seed=layer.seed + 1)
    fresh.load_state_dict(module.state_dict())
    require(torch.equal(fresh(x), want), "a loaded state gives different values")


def bad_input_gets_our_error(layer: "Layer") -> None:
    """Integers, complex numbers, booleans, lists and None raise an ArgumentError."""
    bad: dict[str, object] = {"a list": [1.0, 2.0], "None": None}
    for dtype in (torch.int64, torch.bool, torch.complex64):
        bad[str(dtype)] = torch.ones(layer.shape, dtype=dtype)
    require_refusals(layer.build(), bad)


def a_wrong_shape_gets_our_error(layer: "Layer") -> None:
    """One channel too many and a number without dimensions raise an ArgumentError."""
    shape = list(layer.shape)
    shape[layer.channel_dim] += 1
    bad: dict[str, object] = {
        "one channel too many": torch.ones(shape),
        "a single number": torch.ones(()),
    }
    require_refusals(layer.build(), bad)


def other_dtypes_work_or_get_our_error(layer: "Layer") -> None:
    """An input of another dtype than the weights keeps its dtype, or raises an ArgumentError."""
    pairs = ((torch.float32, torch.bfloat16), (torch.float64, torch.float32))
    for weights, inputs in pairs:
        what = f"{inputs} input to {weights} weights"
        try:
            out = layer.build(weights)(layer.sample(inputs))
        except ArgumentError:
            continue
        except Exception as error:
            require(
                False,
                f"{what} raises {type(error).__name__} instead of ArgumentError",
                got=str(error),
            )
        else:
            require(out.dtype == inputs, f"{what} changes the dtype", got=out.dtype)


def finite_input_never_gives_nan(layer: "Layer") -> None:
    """Zeros, tiny and huge numbers, mixed or alone, give no NaN in output or gradients."""
    for name, x in _extremes(layer).items():
        _require_no_nan(layer.build(), x, name)


def finite_input_never_gives_nan_in_training(layer: "Layer") -> None:
    """The same holds in training mode."""
    for name, x in _extremes(layer).items():
        _require_no_nan(layer.build().train(), x, name)


def the_largest_numbers_never_give_nan(layer: "Layer") -> None:
    """Inputs up to the largest float32, whose magnitudes add up to no more, give no NaN.

    This holds in evaluation and in training.
    """
    for name, x in _largest(layer).items():
        for module in (layer.build(), layer.build().train()):
            _require_no_nan(module, x, name)


def the_largest_numbers_everywhere_never_give_nan(layer: "Layer") -> None:
    """Inputs with the largest float32 or its negative everywhere, or between them, give no NaN.

    This holds in evaluation and in training.
    """
    _require_no_nan_everywhere(layer, torch.float32)


def the_largest_float16_everywhere_never_gives_nan(layer: "Layer") -> None:
    """The same holds for a float16 layer and the largest float16."""
    _require_no_nan_everywhere(layer, torch.float16)


def batches_do_not_matter(layer: "Layer") -> None:
    """In evaluation one row at a time gives the rows of the whole batch.

    An empty batch gives an empty result.
    """
    module = layer.build()
    x = layer.sample(shape=(5, *layer.shape[1:]))
    whole = module(x)
    singly = torch.cat([module(row) for row in x.split(1)])
    require(
        close(singly, whole, layer.tolerance),
        "a batch of one gives different values from a batch of five",
    )
    empty = x[:0].clone().requires_grad_()
    out = module(empty)
    require(
        out.shape == (0, *whole.shape[1:]),
        "an empty batch gives the wrong shape",
        got=tuple(out.shape),
    )
    out.sum().backward()
    require(_gradients_are_finite(module), "an empty batch gives a gradient that is not finite")


def layout_does_not_matter(layer: "Layer") -> None:
    """A strided and a batch-last input give the values of a contiguous one."""
    module = layer.build()
    x = layer.sample()
    want = module(x)
    wide = torch.empty(*x.shape[:-1], 2 * x.shape[-1])
    strided = wide[..., ::2].copy_(x)
    batch_last = x.movedim(0, -1).contiguous().movedim(-1, 0)
    for name, view in {"strided": strided, "batch-last": batch_last}.items():
        require(
            close(module(view), want, layer.tolerance),
            f"{name} input gives different values from contiguous",
        )


def channels_last_is_kept(layer: "Layer") -> None:
    """A 4-dimensional channels-last input gives a channels-last output with the same values."""
    if len(layer.shape) != 4:
        return
    module = layer.build()
    x = layer.sample()
    out = module(x.contiguous(memory_format=torch.channels_last))
    require(close(out, module(x), layer.tolerance), "channels_last gives different values")
    kept = out.dim() != 4 or out.is_contiguous(memory_format=torch.channels_last)
    require(kept, "channels_last is lost", got=f"strides {out.stride()}")


def every_parameter_receives_a_gradient(layer: "Layer") -> None:
    """In training every parameter gets a finite gradient, as distributed training requires."""
    module = layer.build().train()
    out = module(layer.sample())
    # Not ones, whose gradient a normalisation may cancel.
    generator = torch.Generator().manual_seed(layer.seed)
    out.backward(torch.randn(out.shape, generator=generator))
    missing = []
    for name, parameter in module.named_parameters():
        if parameter.requires_grad and parameter.grad is None:
            missing.append(name)
    require(not missing, "parameters without a gradient after backward", got=", ".join(missing))
    require(_gradients_are_finite(module), "a gradient is not finite in training")


def half_precision_layers_work(layer: "Layer") -> None:
    """A bfloat16 or float16 layer takes and returns its dtype, and stays near float32."""
    want = layer.build()(layer.sample())
    for dtype in (torch.bfloat16, torch.float16):
        out = layer.build(dtype)(layer.sample(dtype))
        require(
            out.dtype == dtype,
            "the output does not have the dtype of the input",
            got=out.dtype,
            allowed=dtype,
        )
        require(close(out, want, 0.1), f"{dtype} is far from float32")


def works_on_the_meta_device(layer: Subject) -> None:
    """Shapes are known without computing.

    ``to_empty`` and then ``reset_parameters`` set every parameter and buffer.
    """
    module = layer.build(device="meta")
    want = layer.build()(layer.sample())
    out = module(torch.empty(layer.shape, device="meta"))
    same = out.shape == want.shape and out.dtype == want.dtype
    require(
        same,
        "the meta device gives a different shape or dtype",
        got=(tuple(out.shape), out.dtype),
    )
    filled = module.to_empty(device="cpu")
    # NaN marks what `reset_parameters` leaves unset.
    with torch.no_grad():
        for value in _floats(filled).values():
            value.fill_(torch.nan)
    reset(filled)
    unset = [name for name, value in _floats(filled).items() if value.isnan().any()]
    require(not unset, "reset_parameters does not set every value", got=", ".join(unset))
    require(
        bool(filled(layer.sample()).isfinite().all()),
        "to_empty and reset_parameters do not give a working layer",
    )


def reset(module: nn.Module) -> None:
    """Give ``module`` new weights by its ``reset_parameters``, or by those of its parts."""
    reset_parameters = getattr(module, "reset_parameters", None)
    if callable(reset_parameters):
        reset_parameters()
        return
    for part in module.children():
        reset(part)


def _floats(module: nn.Module) -> dict[str, Tensor]:
    held = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: value for name, value in held.items() if value.is_floating_point()}


def _extremes(layer: "Layer") -> dict[str, Tensor]:
    """Finite inputs that overflow, underflow or divide by zero in careless code."""
    generator = torch.Generator().manual_seed(layer.seed)
    powers = torch.rand(layer.shape, generator=generator, dtype=torch.float64) * 2 - 1
    signs = torch.where(torch.rand(layer.shape, generator=generator) < 0.5, -1.0, 1.0)
    holes = torch.rand(layer.shape, generator=generator) < 0.3
    wide = (layer.largest**powers * signs).float()
    return {
        "of all magnitudes": wide,
        "of all magnitudes, with zeros": torch.where(holes, 0.0, wide),
        "all zero": torch.zeros(layer.shape),
        "all negative zero": -torch.zeros(layer.shape),
        "all tiny": signs / layer.largest,
        "all huge": signs * layer.largest,
        "all huge and positive": torch.full(layer.shape, layer.largest),
        "of one huge element among zeros": torch.where(wide == wide.max(), layer.largest, 0.0),
        "constant": torch.ones(layer.shape),
    }


def _largest(layer: "Layer") -> dict[str, Tensor]:
    """Return the largest finite inputs for which sums with weights of at most 1 are finite."""
    generator = torch.Generator().manual_seed(layer.seed)
    signs = torch.where(torch.rand(layer.shape, generator=generator) < 0.5, -1.0, 1.0)
    powers = torch.rand(layer.shape, generator=generator, dtype=torch.float64) * 2 - 1
    largest = torch.finfo(torch.float32).max
    share = largest / signs.numel()
    alone = torch.zeros(signs.numel())
    alone[-1] = largest
    pair = torch.zeros(signs.numel())
    pair[0] = largest / 2
    pair[-1] = -largest / 2
    return {
        "of the largest number among zeros": alone.reshape(layer.shape),
        "of its negative among zeros": -alone.flip(0).reshape(layer.shape),
        "of two halves of the largest number": pair.reshape(layer.shape),
        "that shares the largest number": signs * share,
        "that shares the largest number, all positive": torch.full(layer.shape, share),
        "of all magnitudes up to a share of the largest number": (signs * share**powers).float(),
    }


def _everywhere(layer: "Layer", dtype: torch.dtype) -> dict[str, Tensor]:
    """Return inputs for which every sum overflows: upwards, downwards, or both ways at once."""
    generator = torch.Generator().manual_seed(layer.seed)
    largest = torch.finfo(dtype).max
    inputs = {"of the largest number everywhere": torch.full(layer.shape, largest, dtype=dtype)}
    for draw in range(3):
        signs = torch.where(torch.rand(layer.shape, generator=generator) < 0.5, -1.0, 1.0)
        shares = torch.rand(layer.shape, generator=generator)
        name = f"the largest numbers of either sign, draw {draw}"
        inputs[f"of {name}"] = (signs * largest).to(dtype)
        inputs[f"between {name}"] = (shares * signs * largest).to(dtype)
    return inputs


def _require_no_nan_everywhere(layer: "Layer", dtype: torch.dtype) -> None:
    for name, x in _everywhere(layer, dtype).items():
        for module in (layer.build(dtype), layer.build(dtype).train()):
            _require_no_nan(module, x, name)


def _require_no_nan(module: nn.Module, x: Tensor, name: str) -> None:
    leaf = x.clone().requires_grad_()
    out = module(leaf)
    require(not out.isnan().any(), f"an input {name} gives NaN")
    if not out.requires_grad:
        return
    out.backward(torch.ones_like(out))
    wrong = []
    for target, tensor in [("the input", leaf), *module.named_parameters()]:
        if tensor.grad is not None and tensor.grad.isnan().any():
            wrong.append(target)
    require(not wrong, f"an input {name} gives a NaN gradient", got=f"to {', '.join(wrong)}")


def require_refusals(module: nn.Module, bad: dict[str, object]) -> None:
    """Require an ArgumentError for each of the inputs ``bad``."""
    for name, value in bad.items():
        try:
            module(value)
        except ArgumentError:
            continue
        except Exception as error:
            require(
                False,
                f"{name} raises {type(error).__name__} instead of ArgumentError",
                got=str(error),
            )
        require(False, f"{name} is accepted")


def _gradients_are_finite(module: nn.Module) -> bool:
    gradients = [p.grad for p in module.parameters() if p.grad is not None]
    return all(bool(gradient.isfinite().all()) for gradient in gradients)
