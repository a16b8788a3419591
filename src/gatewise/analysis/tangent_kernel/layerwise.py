"""The closed forms of all covered layers, from one forward pass and one backward pass per output.

Each layer adds its part to the kernel as soon as the backward passes have reached it.
"""

from collections import Counter
from collections.abc import Iterable
from typing import NoReturn

import torch
from torch import Tensor, nn

from gatewise.analysis.tangent_kernel.arguments import run
from gatewise.analysis.tangent_kernel.execution_plan import LAYERWISE, Plan
from gatewise.analysis.tangent_kernel.gram import KernelBlock, same_numbers
from gatewise.analysis.tangent_kernel.hooks import Call, Recorder
from gatewise.analysis.tangent_kernel.layer_rules import add_layer
from gatewise.analysis.tangent_kernel.model_state import Subject
from gatewise.analysis.tangent_kernel.row_checks import RotatedRun, run_rotated_halves
from gatewise.errors import Limitation, NotApplicableError

WRONG_ROWS = "the rows of its layer's input are not those of the samples"
OTHER_LAYERS = "which layers are called depends on the samples"


class UnfitParameters(Exception):  # noqa: N818 (a signal to plan again, never seen by a user)
    """Parameters turned out to have no closed form in this model; gives the reason by name."""

    def __init__(self, reasons: dict[str, str]) -> None:
        self.reasons = reasons
        super().__init__(reasons)


class RowsMayMove(Exception):  # noqa: N818 (a signal to start again, never seen by a user)
    """A batch showed that rows may be moved on their way through the model."""


class Layerwise:
    """Adds the parts of the kernel that the layers ``plan.covered`` contribute."""

    def __init__(self, subject: Subject, plan: Plan, *, careful: bool) -> None:
        """Create it.

        Args:
            subject: the model and its chosen parameters.
            plan: which layers are covered.
            careful: whether to run every batch a second time, because rows may move.
        """
        self.subject = subject
        self.plan = plan
        self.careful = careful
        # Parameters are in the graph so that their uses can be counted. Torch refuses to
        # differentiate by the weight of a layer whose input has changed in place.
        self.counted = dict(subject.chosen)
        for module in plan.overwritten:
            for name in plan.covered[module].values():
                self.counted.pop(name, None)

    def add(self, block: KernelBlock, inputs: tuple[Tensor, ...], probed: int | None) -> None:
        """Add the parts of a block.

        Args:
            block: where to add them.
            inputs: the samples of its rows and columns.
            probed: which row of ``inputs`` the plan was made with, or None.

        Raises:
            UnfitParameters: if the batch shows that parameters have no closed form.
            RowsMayMove: if the batch shows that rows may move.
        """
        rotated = None
        if self.careful and len(inputs[0]) > 1:
            rotated = run_rotated_halves(self.subject, inputs, self.plan.covered)
        samples = inputs
        if self.plan.changes_input:
            samples = tuple(x.clone() for x in inputs)
        self.subject.require_grad_only(self.counted.values())
        recorder = Recorder(samples, copied=self.plan.overwritten)
        with recorder.on(self.plan.hooked):
            output = run(self.subject.model, samples, self.plan.output)
        check_row(self.plan.output, output, probed)
        graph = recorder.read_graph(output)
        calls = recorder.calls
        self._check_calls(calls, probed, output.shape[0])
        if rotated is not None:
            check_rows(self.subject, inputs, output, rotated)
            self._check_order(rotated, calls)
        elif not self.careful:
            if not graph.rows_stay or not all(call.input_traced for call in calls):
                raise RowsMayMove
        self._check_uses(graph.uses, calls)
        Backward(block, self.plan, calls, recorder).run(output)

    def _check_calls(self, calls: list[Call], probed: int | None, samples: int) -> None:
        """Each call must be what it was in the probe, with a row for every sample."""
        if [call.module for call in calls] != [call.module for call in self.plan.calls]:
            self._give_up(self.plan.covered, OTHER_LAYERS)
        for call, before in zip(calls, self.plan.calls, strict=True):
            if call.unusable is not None or call.reconfigured:
                reason = call.unusable or "its layer's settings change after a call"
                self._give_up([call.module], reason)
            lost = call.overwritten and call.input is call.source
            if call.input.shape[0] != samples or lost:
                self._give_up([call.module], "its layer's input depends on the batch")
            if probed is not None and not same_numbers(call.input[probed], before.input[0]):
                self._give_up([call.module], WRONG_ROWS)

    def _check_order(self, rotated: RotatedRun, calls: list[Call]) -> None:
        """Rows that enter a layer must be the same with other samples in the batch."""
        reordered = rotated.reordered_layers([(call.module, call.input) for call in calls])
        if reordered is None:
            self._give_up(self.plan.covered, OTHER_LAYERS)
        if reordered:
            self._give_up(reordered, WRONG_ROWS)

    def _check_uses(self, uses: Counter[int], calls: list[Call]) -> None:
        """A parameter must be used as often as its layer is called: never, if the probe did not."""
        counts = Counter(call.module for call in calls if call.reached)
        expected = {}
        for name, route in self.plan.routes.items():
            if route == LAYERWISE:
                expected[name] = 0
        for module, names in self.plan.covered.items():
            expected |= dict.fromkeys(names.values(), counts[module])
        reasons = {}
        for name, count in expected.items():
            if name in self.counted and uses[id(self.counted[name])] != count:
                reasons[name] = "how often it is used depends on the samples"
        if reasons:
            raise UnfitParameters(reasons)

    def _give_up(self, modules: Iterable[nn.Module], reason: str) -> NoReturn:
        reasons: dict[str, str] = {}
        for module in modules:
            reasons |= dict.fromkeys(self.plan.covered[module].values(), reason)
        raise UnfitParameters(reasons)


class Backward:
    """The backward passes.

    A layer is added, and its slopes are freed, as soon as its last slope has arrived.
    """

    def __init__(
        self,
        block: KernelBlock,
        plan: Plan,
        calls: list[Call],
        recorder: Recorder,
    ) -> None:
        self.block = block
        self.plan = plan
        self.recorder = recorder
        self.outputs = plan.output.shape[1]
        self.calls: dict[nn.Module, list[Call]] = {module: [] for module in plan.covered}
        for call in calls:
            if call.reached:
                self.calls[call.module].append(call)
        self.missing: Counter[nn.Module] = Counter()
        for module, layer_calls in self.calls.items():
            self.missing[module] = self.outputs * len(layer_calls)

    def run(self, output: Tensor) -> None:
        """Differentiate each column of ``output``, ``(N, o)``, in turn."""
        self.recorder.calls = []
        self.recorder.on_slope = self._receive
        for column in range(self.outputs):
            self.recorder.output = column
            direction = torch.zeros_like(output)
            direction[:, column] = 1
            torch.autograd.grad(
                output,
                self.recorder.anchor,
                direction,
                retain_graph=column + 1 < self.outputs,
                allow_unused=True,
            )
        for module in list(self.calls):  # layers that some outputs do not depend on
            self._add(module)
        self.recorder.on_slope = None  # it refers to this object, which refers to the recorder

    def _receive(self, call: Call) -> None:
        self.missing[call.module] -= 1
        if self.missing[call.module] == 0:
            self._add(call.module)

    @torch.no_grad()
    def _add(self, module: nn.Module) -> None:
        calls = [call for call in self.calls.pop(module) if call.slopes]
        if calls:
            add_layer(self.block, module, calls, self.outputs, covered=self.plan.covered[module])
        for call in calls:
            call.release()


def check_rows(
    subject: Subject,
    inputs: tuple[Tensor, ...],
    output: Tensor,
    rotated: RotatedRun,
) -> None:
    """Raise if the output of a sample depends on the other samples of its batch.

    The row that differs most is run alone, because rounding may explain a difference.
    """
    differences = (output.detach() - rotated.output).abs().nan_to_num(0.0, posinf=0.0)
    row = int(differences.amax(1).argmax())
    if same_numbers(output[row].detach(), rotated.output[row], _scale(output)):
        return
    subject.require_grad_only(())
    sample = tuple(x[row : row + 1].clone() for x in inputs)
    alone = run(subject.model, sample, subject.like).detach()
    check_row(alone, output, row)


def _scale(output: Tensor) -> Tensor:
    """The largest finite number of the whole batch: one sample's output may cancel to rounding."""
    return output.detach().abs().nan_to_num(0.0, posinf=0.0).amax()


def check_row(single: Tensor, output: Tensor, row: int | None) -> None:
    """Raise if a sample's output alone, ``(1, o)``, is not its output in a batch, ``(N, o)``."""
    if row is None:
        return
    if not single.isfinite().all():
        raise NotApplicableError(
            Limitation.NOT_FINITE,
            "ntk: the model's output is not finite",
            got=single[0][~single[0].isfinite()][0].item(),
            fix="check x and the weights for NaN and infinity",
        )
    alone = single[0]
    in_batch = output[row].detach()
    if not same_numbers(in_batch, alone, _scale(output)):
        raise NotApplicableError(
            Limitation.UNSUPPORTED_MODEL,
            "ntk: the model gives a sample another output in a batch than alone: "
            "it mixes samples or draws at random",
            got=f"{in_batch.flatten()[:3].tolist()}, alone {alone[:3].tolist()}",
            fix="model.eval(), or wrap the model so that each output depends on its own sample",
        )
