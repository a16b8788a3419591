"""Contract: derivatives of every kind are right (N1, N2)."""

import math
from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import functional_call, jacrev, jvp, vmap

from gatewise.testing.case import Case, Subject, require

# Central differences with step 1e-5 have a truncation error of 1e-10 f''' and a rounding error of
# 1e-11 f. The bounds allow f''' up to about 1000.
STEP = 1e-5
ABSOLUTE = 1e-7
RELATIVE = 1e-6
# The number of input and parameter elements above which random projections replace the Jacobian.
MANY = 600


def gradients_match_finite_differences(case: Subject) -> None:
    """First derivatives match in reverse, forward and batched mode, in float64.

    They are taken to the input and to the parameters.
    """
    function, inputs = _function_of_everything(case)
    options = {"check_forward_ad": True, "check_batched_grad": True}
    _gradcheck(torch.autograd.gradcheck, function, inputs, **options)


def second_gradients_match_finite_differences(case: Subject) -> None:
    """Second derivatives to input and parameters match (float64)."""
    function, inputs = _function_of_everything(case)
    _gradcheck(torch.autograd.gradgradcheck, function, inputs)


def derivative_at_each_kink_is_the_declared_one(case: Case) -> None:
    """N2: the derivative at a kink is the declared one."""
    for kink, declared in case.kinks.items():
        # NaN declares that either one-sided derivative is right.
        if math.isnan(declared):
            continue
        x = torch.full((1, case.channels, 2), kink, dtype=torch.float64, requires_grad=True)
        y = case.function(x)
        (got,) = torch.autograd.grad(y, x, torch.ones_like(y))
        right = torch.full_like(got, declared)
        require(
            torch.allclose(got, right, rtol=1e-7, atol=1e-12),
            f"the derivative at {kink} is not the declared one",
            got=float(got.flatten()[0]),
            allowed=declared,
        )


def functional_transforms_agree(case: Subject) -> None:
    """Results of vmap, jacrev and jvp equal those of plain calls and reverse mode."""
    x = case.smooth_sample(3)
    module = case.build(torch.float64)
    direct = torch.stack([module(part) for part in x])
    batched = vmap(module)(x)
    require(torch.allclose(batched, direct, rtol=1e-12, atol=1e-14), "vmap differs from a loop")
    # A random projection to one number, so that a gradient is a vector.
    weights = torch.randn(direct[0].shape, dtype=torch.float64)

    def scalar(part: Tensor) -> Tensor:
        return (module(part) * weights).sum()

    gradient = jacrev(scalar)(x[0])
    leaf = x[0].clone().requires_grad_()
    (reverse,) = torch.autograd.grad(scalar(leaf), leaf)
    require(
        torch.allclose(gradient, reverse, rtol=1e-12, atol=1e-14), "jacrev differs from backward"
    )
    direction = torch.randn_like(x[0])
    forward = jvp(scalar, (x[0],), (direction,))[1]
    require(
        torch.allclose(forward, (reverse * direction).sum(), rtol=1e-9, atol=1e-9),
        "jvp differs from backward",
    )


def float32_parameters_move_in_a_half_precision_model(case: Case) -> None:
    """With ``unit_dtype`` float32, a parameter with a gradient moves at a small learning rate.

    In bfloat16 itself, a step of 1e-5 is lost in any number above 0.005.
    """
    module = case.build().train()
    if not list(module.parameters()):
        return
    module.unit_dtype = torch.float32
    module.to(torch.bfloat16)
    before = {name: parameter.detach().clone() for name, parameter in module.named_parameters()}
    optimizer = torch.optim.Adam(module.parameters(), lr=1e-5)
    module(case.sample(torch.bfloat16)).float().square().mean().backward()
    optimizer.step()
    for name, parameter in module.named_parameters():
        has_gradient = parameter.grad is not None and parameter.grad != 0
        stays = bool(((parameter == before[name]) & has_gradient).any())
        require(
            parameter.dtype == torch.float32 and not stays,
            "a parameter with a gradient does not move in a bfloat16 model",
            got=name,
        )


def _function_of_everything(case: Subject) -> tuple[Callable[..., Tensor], tuple[Tensor, ...]]:
    """Return the module as a function of input and parameters, and float64 values for them.

    The values are away from kinks.
    """
    module = case.build(torch.float64)
    names = [n for n, _ in module.named_parameters()]
    buffers = dict(module.named_buffers())

    def function(x: Tensor, *parameters: Tensor) -> Tensor:
        values = dict(zip(names, parameters, strict=True)) | buffers
        return functional_call(module, values, (x,))

    inputs = [case.smooth_sample().requires_grad_()]
    for parameter in module.parameters():
        inputs.append(parameter.detach().clone().requires_grad_())
    return function, tuple(inputs)


def _gradcheck(
    check: Callable[..., bool],
    function: Callable[..., Tensor],
    inputs: tuple[Tensor, ...],
    **options: bool,
) -> None:
    options["fast_mode"] = sum(t.numel() for t in inputs) > MANY
    try:
        ok = check(
            function,
            inputs,
            eps=STEP,
            atol=ABSOLUTE,
            rtol=RELATIVE,
            raise_exception=True,
            **options,
        )
    except RuntimeError as error:  # gradcheck's own exception type
        require(
            False,
            "analytical and numerical derivatives differ",
            got=str(error).strip().splitlines()[0],
        )
    else:
        require(ok, "analytical and numerical derivatives differ")
