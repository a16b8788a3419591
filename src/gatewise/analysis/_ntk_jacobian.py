"""The kernel of parameters without a closed form: gradients of each sample, some samples at a time."""

import warnings
from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import functional_call, jacrev, vmap

from gatewise.analysis._ntk_arguments import run
from gatewise.analysis._ntk_state import Subject

Jacobian = dict[str, Tensor]  # of each parameter, (N, o, numbers)


class Jacobians:
    """Per-sample Jacobians with respect to ``rest``: vectorised where the model allows, else sample by sample."""

    def __init__(self, subject: Subject, rest: dict[str, Tensor]) -> None:
        self.subject, self.rest = subject, rest
        self.vectorised = True

    def of(self, inputs: tuple[Tensor, ...]) -> Jacobian:
        """The Jacobians of some samples."""
        if self.vectorised:
            try:
                return self._all_at_once(inputs)
            except Exception:  # torch.func meets things it cannot vectorise in many ways; the loop below meets none
                self.vectorised = False
        each = [self._one(tuple(x[i : i + 1].clone() for x in inputs)) for i in range(inputs[0].shape[0])]
        return {name: torch.cat([one[name] for one in each]) for name in self.rest}

    def _all_at_once(self, inputs: tuple[Tensor, ...]) -> Jacobian:
        self.subject.flags.only(())

        def outputs(parameters: dict[str, Tensor], *sample: Tensor) -> Tensor:
            batch = tuple(x.unsqueeze(0) for x in sample)
            return functional_call(self.subject.model, parameters, batch).reshape(-1)

        rest = {name: parameter.detach() for name, parameter in self.rest.items()}
        batched: Callable[..., dict[str, Tensor]] = vmap(jacrev(outputs), in_dims=(None, *(0 for _ in inputs)))
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="There is a performance drop")  # slower, and still right
            found = batched(rest, *(x.clone() for x in inputs))
        return {name: jacobian.detach().flatten(2) for name, jacobian in found.items()}

    def _one(self, sample: tuple[Tensor, ...]) -> Jacobian:
        self.subject.flags.only(self.rest.values())
        row = run(self.subject.model, sample, self.subject.like)[0]
        rest = list(self.rest.values())
        found = zip(*(_gradients(output, rest) for output in row), strict=True)
        return {name: torch.stack(each).flatten(1)[None] for name, each in zip(self.rest, found, strict=True)}


def _gradients(output: Tensor, parameters: list[Tensor]) -> list[Tensor]:
    if not output.requires_grad:  # this sample does not use them
        return [torch.zeros_like(parameter) for parameter in parameters]
    found = torch.autograd.grad(output, parameters, retain_graph=True, allow_unused=True, materialize_grads=True)
    return [slope.to_dense() if slope.is_sparse else slope for slope in found]
