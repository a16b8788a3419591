"""One forward pass and one backward pass per output of the model.

Each layer adds its part as the latter comes by.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NoReturn

import torch
from torch import Tensor, nn

from gatewise.analysis.tangent_kernel.arguments import run
from gatewise.analysis.tangent_kernel.execution_plan import LAYERWISE, Plan
from gatewise.analysis.tangent_kernel.gram import Pairs, same_numbers
from gatewise.analysis.tangent_kernel.hooks import Call, Recorder
from gatewise.analysis.tangent_kernel.layer_rules import add_layer
from gatewise.analysis.tangent_kernel.model_state import Subject
from gatewise.analysis.tangent_kernel.row_checks import Apart, run_apart
from gatewise.errors import Limitation, NotApplicableError


class UnfitParameters(Exception):  # noqa: N818 (a signal to plan again, never seen by a user)
    """Parameters turned out to have no closed form in this model; says why for each name."""

    def __init__(self, reasons: dict[str, str]) -> None:
        self.reasons = reasons
        super().__init__(reasons)


class RowsMayMove(Exception):  # noqa: N818 (a signal to start again, never seen by a user)
    """A batch showed what one sample did not: rows may be moved on their way through the model."""


class Layerwise:
    """The part of a kernel that the layers ``plan.covered`` contribute.

    ``careful`` if rows may move.
    """

    def __init__(self, subject: Subject, plan: Plan, *, careful: bool) -> None:
        self.subject, self.plan, self.careful = subject, plan, careful
        # Parameters are in the graph to be counted. Torch would not go back through a layer whose
        # input has changed.
        unwatched = {name for module in plan.overwritten for name in plan.covered[module].values()}
        self.watched = {
            name: parameter for name, parameter in subject.chosen.items() if name not in unwatched
        }

    def add(self, pairs: Pairs, inputs: tuple[Tensor, ...], probed: int | None) -> None:
        """Add a block. Row ``probed`` of ``inputs`` is the sample that the plan was made with."""
        apart = (
            run_apart(self.subject, inputs, self.plan.covered)
            if self.careful and len(inputs[0]) > 1
            else None
        )
        samples = tuple(each.clone() for each in inputs) if self.plan.changes_input else inputs
        self.subject.require_grad_only(self.watched.values())
        recorder = Recorder(samples, copied=self.plan.overwritten)
        with recorder.on(self.plan.tapped):
            output = run(self.subject.model, samples, self.plan.output)
        check_row(self.plan.output, output, probed)
        graph = recorder.read_graph(output)
        self._check_calls(recorder.calls, probed, output.shape[0])
        if apart is not None:
            check_rows(self.subject, inputs, output, apart)
            self._check_order(apart, recorder.calls)
        elif not self.careful and not (
            graph.rows_stay and all(call.given for call in recorder.calls)
        ):
            raise RowsMayMove
        calls: dict[nn.Module, list[Call]] = {module: [] for module in self.plan.covered}
        for call in recorder.calls:
            if call.reached:
                calls[call.module].append(call)
        self._check_uses(graph.uses, calls)
        Backward(pairs, self.plan, calls, recorder).run(output)

    def _check_calls(self, calls: list[Call], probed: int | None, samples: int) -> None:
        """Each call must be what it was in the probe, with a row for every sample."""
        if [call.module for call in calls] != [call.module for call in self.plan.calls]:
            self._give_up(self.plan.covered, "which layers are called depends on the samples")
        for call, before in zip(calls, self.plan.calls, strict=True):
            if call.oddity is not None or call.set_anew:
                self._give_up([call.module], call.oddity or "its layer is set anew after a call")
            if call.entered.shape[0] != samples or (
                call.overwritten and call.entered is call.source
            ):
                self._give_up([call.module], "its layer's input depends on the batch")
            if probed is not None and not same_numbers(call.entered[probed], before.entered[0]):
                self._give_up(
                    [call.module], "the rows of its layer's input are not those of the samples"
                )

    def _check_order(self, apart: Apart, calls: list[Call]) -> None:
        """Rows that enter a layer must be the same in other company."""
        moved = apart.moved((call.module, call.entered) for call in calls)
        if moved is None:
            self._give_up(self.plan.covered, "which layers are called depends on the samples")
        if moved:
            self._give_up(moved, "the rows of its layer's input are not those of the samples")

    def _check_uses(self, uses: Counter[int], calls: dict[nn.Module, list[Call]]) -> None:
        """As many uses as calls; none of what the probe did not use."""
        expected = dict.fromkeys(
            (name for name, way in self.plan.routes.items() if way == LAYERWISE), 0
        )
        for module, names in self.plan.covered.items():
            expected |= dict.fromkeys(names.values(), len(calls[module]))
        wrong = [
            name
            for name in expected.keys() & self.watched
            if uses[id(self.watched[name])] != expected[name]
        ]
        if wrong:
            raise UnfitParameters(
                dict.fromkeys(wrong, "how often it is used depends on the samples")
            )

    def _give_up(self, modules: Iterable[nn.Module], reason: str) -> NoReturn:
        raise UnfitParameters(
            {name: reason for module in modules for name in self.plan.covered[module].values()}
        )


class Backward:
    """The backward passes: a layer is added, and its slopes dropped, as soon as the last of them has come."""

    def __init__(
        self, pairs: Pairs, plan: Plan, calls: dict[nn.Module, list[Call]], recorder: Recorder
    ) -> None:
        self.pairs, self.plan, self.calls, self.recorder = pairs, plan, calls, recorder
        self.outputs = plan.output.shape[1]
        self.awaited = Counter({module: self.outputs * len(own) for module, own in calls.items()})

    def run(self, output: Tensor) -> None:
        """Go back from each column of ``output``, ``(N, o)``, in turn."""
        self.recorder.calls = []
        self.recorder.received = self._receive
        for column in range(self.outputs):
            self.recorder.output = column
            direction = torch.zeros_like(output)
            direction[:, column] = 1
            more = column + 1 < self.outputs
            torch.autograd.grad(
                output, self.recorder.anchor, direction, retain_graph=more, allow_unused=True
            )
        for module in list(self.calls):  # those that some outputs do not depend on
            self._add(module)
        self.recorder.received = None  # which leads back here

    def _receive(self, call: Call) -> None:
        self.awaited[call.module] -= 1
        if self.awaited[call.module] == 0:
            self._add(call.module)

    @torch.no_grad()
    def _add(self, module: nn.Module) -> None:
        calls = [call for call in self.calls.pop(module) if call.slopes]
        if calls:
            add_layer(self.pairs, module, calls, self.outputs, covered=self.plan.covered[module])
        for call in calls:
            call.forget()


def check_rows(subject: Subject, inputs: tuple[Tensor, ...], output: Tensor, apart: Apart) -> None:
    """The outputs of a batch must be the same in other company.

    Rounding may explain a difference: one sample alone.
    """
    far = (output.detach() - apart.output).abs().nan_to_num(0.0, posinf=0.0).amax(1)
    row = int(far.argmax())
    if same_numbers(output[row].detach(), apart.output[row], _sizes(output)):
        return
    subject.require_grad_only(())
    check_row(
        run(subject.model, tuple(x[row : row + 1].clone() for x in inputs), subject.like).detach(),
        output,
        row,
    )


def _sizes(output: Tensor) -> Tensor:
    """Of the whole batch: one sample's output may cancel down to rounding.

    Those that are not finite come later.
    """
    return output.detach().abs().nan_to_num(0.0, posinf=0.0).amax()


def check_row(single: Tensor, output: Tensor, row: int | None) -> None:
    """The outputs for a sample must be the same alone, ``(1, o)``, and in a batch, ``(N, o)``."""
    if row is None:
        return
    if not single.isfinite().all():
        got = single[0][~single[0].isfinite()][0].item()
        raise NotApplicableError(
            Limitation.NOT_FINITE,
            "ntk: the model's output is not finite",
            got=got,
            fix="look at x and the weights",
        )
    alone, among = single[0], output[row].detach()
    if not same_numbers(among, alone, _sizes(output)):
        what = "ntk: the model gives a sample another output in a batch than alone: it mixes samples or draws at random"
        fix = "model.eval(), or wrap the model so that each output depends on its own sample"
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            what,
            got=f"{among.flatten()[:3].tolist()}, alone {alone[:3].tolist()}",
            fix=fix,
        )
