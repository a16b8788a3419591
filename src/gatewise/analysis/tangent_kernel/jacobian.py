"""The kernel of parameters without a closed form, from per-sample gradients.

Note [Vectorised, and checked]. ``torch.func`` cannot vectorise every model, and reports that by
errors of many types. Some of its results are also wrong: in torch 2.13, ``vmap`` of ``jacrev``
through ``nn.PReLU`` is silently wrong when there are as many samples as outputs. So outputs are
differentiated in a loop, with one level of ``vmap``. For every number of samples, the result for
one sample is compared with plain autograd. If either fails, samples are differentiated in a loop.
"""

import warnings

import torch
from torch import Tensor
from torch.func import functional_call, vjp, vmap

from gatewise.analysis.tangent_kernel.arguments import run
from gatewise.analysis.tangent_kernel.gram import same_numbers
from gatewise.analysis.tangent_kernel.model_state import Subject

Jacobian = dict[str, Tensor]  # for each parameter, (N, o, numbers)


class Jacobians:
    """Per-sample Jacobians with respect to the parameters ``rest``.

    They are vectorised over samples where that is correct, and computed in a loop elsewhere.
    """

    def __init__(self, subject: Subject, rest: dict[str, Tensor]) -> None:
        self.subject = subject
        self.rest = rest
        self.vectorised: dict[int, bool] = {}  # by number of samples: whether it is correct

    def of(self, inputs: tuple[Tensor, ...]) -> Jacobian:
        """Return the Jacobians of some samples."""
        samples = inputs[0].shape[0]
        if self.vectorised.get(samples, True):
            jacobians = self._all_at_once(inputs)
            if samples not in self.vectorised:
                self.vectorised[samples] = jacobians is not None and self._is_correct(
                    jacobians,
                    inputs,
                    samples // 2,
                )
            if jacobians is not None and self.vectorised[samples]:
                return jacobians
        by_sample = [self._one(_row(inputs, sample)) for sample in range(samples)]
        return {name: torch.cat([rows[name] for rows in by_sample]) for name in self.rest}

    def _all_at_once(self, inputs: tuple[Tensor, ...]) -> Jacobian | None:
        self.subject.require_grad_only(())
        rest = {name: parameter.detach() for name, parameter in self.rest.items()}
        in_dims = (None, *(0 for _ in inputs))
        copies = [x.clone() for x in inputs]
        try:
            with warnings.catch_warnings():
                # An operator without a batching rule is slower, and still correct.
                warnings.filterwarnings("ignore", message="There is a performance drop")
                jacobians: Jacobian = vmap(self._of_sample, in_dims=in_dims)(rest, *copies)
        except Exception:  # of any type: see the note
            return None
        return {name: jacobian.detach().flatten(2) for name, jacobian in jacobians.items()}

    def _of_sample(self, rest: dict[str, Tensor], *sample: Tensor) -> dict[str, Tensor]:
        def outputs(parameters: dict[str, Tensor]) -> Tensor:
            batch = tuple(x.unsqueeze(0) for x in sample)
            return functional_call(self.subject.model, parameters, batch).reshape(-1)

        row, pull_back, *_ = vjp(outputs, rest)
        directions = torch.eye(len(row), dtype=row.dtype, device=row.device)
        gradients = [pull_back(direction)[0] for direction in directions]
        return {name: torch.stack([by_name[name] for by_name in gradients]) for name in rest}

    def _is_correct(self, jacobians: Jacobian, inputs: tuple[Tensor, ...], sample: int) -> bool:
        alone = self._one(_row(inputs, sample))
        return all(same_numbers(jacobians[name][sample], alone[name][0]) for name in self.rest)

    def _one(self, sample: tuple[Tensor, ...]) -> Jacobian:
        self.subject.require_grad_only(self.rest.values())
        row = run(self.subject.model, sample, self.subject.like)[0]
        self.subject.remove_parameter_hooks()
        parameters = list(self.rest.values())
        by_output = [_gradients(output, parameters) for output in row]
        jacobians = {}
        for name, gradients in zip(self.rest, zip(*by_output, strict=True), strict=True):
            jacobians[name] = torch.stack(gradients).flatten(1)[None]
        return jacobians


def _row(inputs: tuple[Tensor, ...], sample: int) -> tuple[Tensor, ...]:
    return tuple(x[sample : sample + 1].clone() for x in inputs)


def _gradients(output: Tensor, parameters: list[Tensor]) -> list[Tensor]:
    if not output.requires_grad:  # this sample does not use any of the parameters
        return [torch.zeros_like(parameter) for parameter in parameters]
    gradients = torch.autograd.grad(
        output,
        parameters,
        retain_graph=True,
        allow_unused=True,
        materialize_grads=True,
    )
    return [slope.to_dense() if slope.is_sparse else slope for slope in gradients]
