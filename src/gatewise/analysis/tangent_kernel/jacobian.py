"""The kernel of parameters without a closed form: gradients of each sample, some samples at a time.

Note [Vectorised, and looked at]. ``torch.func`` cannot vectorise every model, and says so by errors
of many kinds. Nor is all that it does vectorise right: in torch 2.13, ``vmap`` of ``jacrev``
through ``nn.PReLU`` is silently wrong when there are as many samples as outputs. So outputs are
taken in a loop, with one level of ``vmap``; and for every number of samples the result is compared
with plain autograd on one of them. Where either fails, samples are taken in a loop.
"""

import warnings

import torch
from torch import Tensor
from torch.func import functional_call, vjp, vmap

from gatewise.analysis.tangent_kernel.arguments import run
from gatewise.analysis.tangent_kernel.gram import same_numbers
from gatewise.analysis.tangent_kernel.model_state import Subject

Jacobian = dict[str, Tensor]  # of each parameter, (N, o, numbers)


class Jacobians:
    """Per-sample Jacobians with respect to ``rest``.

    Vectorised where that is right, else sample by sample.
    """

    def __init__(self, subject: Subject, rest: dict[str, Tensor]) -> None:
        self.subject, self.rest = subject, rest
        self.vectorised: dict[int, bool] = {}  # for a number of samples, whether it is right

    def of(self, inputs: tuple[Tensor, ...]) -> Jacobian:
        """The Jacobians of some samples."""
        samples = inputs[0].shape[0]
        if self.vectorised.get(samples, True):
            found = self._all_at_once(inputs)
            if samples not in self.vectorised:
                self.vectorised[samples] = found is not None and self._is_right(
                    found, inputs, samples // 2
                )
            if found is not None and self.vectorised[samples]:
                return found
        each = [self._one(_row(inputs, sample)) for sample in range(samples)]
        return {name: torch.cat([one[name] for one in each]) for name in self.rest}

    def _all_at_once(self, inputs: tuple[Tensor, ...]) -> Jacobian | None:
        self.subject.require_grad_only(())
        rest = {name: parameter.detach() for name, parameter in self.rest.items()}
        try:
            with warnings.catch_warnings():
                warnings.filterwarnings(
                    "ignore", message="There is a performance drop"
                )  # slower, and still right
                in_dims = (None, *(0 for _ in inputs))
                found: Jacobian = vmap(self._of_sample, in_dims=in_dims)(
                    rest, *(x.clone() for x in inputs)
                )
        except Exception:  # of any kind: see the note
            return None
        return {name: jacobian.detach().flatten(2) for name, jacobian in found.items()}

    def _of_sample(self, rest: dict[str, Tensor], *sample: Tensor) -> dict[str, Tensor]:
        def outputs(parameters: dict[str, Tensor]) -> Tensor:
            batch = tuple(x.unsqueeze(0) for x in sample)
            return functional_call(self.subject.model, parameters, batch).reshape(-1)

        row, pull_back, *_ = vjp(outputs, rest)
        found = [
            pull_back(direction)[0]
            for direction in torch.eye(len(row), dtype=row.dtype, device=row.device)
        ]
        return {name: torch.stack([each[name] for each in found]) for name in rest}

    def _is_right(self, found: Jacobian, inputs: tuple[Tensor, ...], sample: int) -> bool:
        alone = self._one(_row(inputs, sample))
        return all(same_numbers(found[name][sample], alone[name][0]) for name in self.rest)

    def _one(self, sample: tuple[Tensor, ...]) -> Jacobian:
        self.subject.require_grad_only(self.rest.values())
        row = run(self.subject.model, sample, self.subject.like)[0]
        self.subject.remove_parameter_hooks()
        rest = list(self.rest.values())
        found = zip(*(_gradients(output, rest) for output in row), strict=True)
        return {
            name: torch.stack(each).flatten(1)[None]
            for name, each in zip(self.rest, found, strict=True)
        }


def _row(inputs: tuple[Tensor, ...], sample: int) -> tuple[Tensor, ...]:
    return tuple(x[sample : sample + 1].clone() for x in inputs)


def _gradients(output: Tensor, parameters: list[Tensor]) -> list[Tensor]:
    if not output.requires_grad:  # this sample does not use them
        return [torch.zeros_like(parameter) for parameter in parameters]
    found = torch.autograd.grad(
        output, parameters, retain_graph=True, allow_unused=True, materialize_grads=True
    )
    return [slope.to_dense() if slope.is_sparse else slope for slope in found]
