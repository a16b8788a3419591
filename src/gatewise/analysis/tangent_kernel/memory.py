"""How many samples fit in the memory that a user allows, estimated from one sample."""

from dataclasses import dataclass

from torch import nn

from gatewise.analysis.tangent_kernel.execution_plan import Plan
from gatewise.errors import Limitation, NotApplicableError

# Share of the memory beyond the kernel itself that the samples of a block may take. The rest is
# for sums over pairs of samples.
SAMPLE_SHARE = 0.75


@dataclass(frozen=True)
class MemoryBudget:
    """The memory for a kernel.

    Attributes:
        memory: bytes that may be used.
        rows: samples of the first set.
        columns: samples of the second set.
        outputs: outputs of the model per sample.
        symmetric: whether both sets are the same.
    """

    memory: int
    rows: int
    columns: int
    outputs: int
    symmetric: bool

    @property
    def kernel_bytes(self) -> int:
        """Bytes of the kernel itself: summed in float64, mirrored, and in its final dtype."""
        return 3 * 8 * self.rows * self.columns * self.outputs**2

    @property
    def sample_bytes(self) -> int:
        """Bytes that the samples of a block may take."""
        return int(max(0, self.memory - self.kernel_bytes) * SAMPLE_SHARE)

    @property
    def workspace(self) -> int:
        """Bytes for sums over pairs of samples."""
        return max(1, int((self.memory - self.kernel_bytes) * (1 - SAMPLE_SHARE)))

    def block_size(self, per_sample: int) -> int:
        """Rows and columns of a block whose samples take ``per_sample`` bytes each.

        All samples if they fit, and half of the number that fits otherwise.
        """
        fitting = self.sample_bytes // max(1, per_sample)
        together = self.rows if self.symmetric else self.rows + self.columns
        if together <= fitting:
            return max(self.rows, self.columns)
        return fitting // 2

    def check(self, *per_sample: int) -> None:
        """Raise if not even one pair of samples fits, and say how much memory is enough."""
        pair = 1 if self.symmetric and self.rows == 1 else 2
        smallest = self.kernel_bytes + int(pair * max(per_sample) / SAMPLE_SHARE) + 1024
        if self.memory < smallest:
            raise NotApplicableError(
                Limitation.TOO_LARGE,
                "ntk: memory is too small",
                got=f"{self.memory} bytes",
                allowed=f"at least {smallest} bytes for these samples",
                fix=f"memory={smallest}",
            )


def layerwise_bytes(plan: Plan) -> int:
    """Bytes that a sample takes in a forward and a backward pass.

    They are the saved tensors, the slopes of the layers, and the windows of one layer.
    """
    if not plan.covered:
        return 0
    outputs = plan.output.shape[1]
    size = plan.output.element_size()
    slopes = [call.output_shape.numel() * size for call in plan.calls if call.reached]
    largest = max(slopes, default=0)
    if outputs > 1 or len(slopes) > len(plan.covered):
        kept = outputs * sum(slopes)
    else:
        kept = 2 * largest  # a layer's slopes are freed before those of the next arrive
    windows = 0
    for call in plan.calls:
        windows = max(windows, _window_copies(call.module) * call.input.numel() * size)
    return plan.saved_bytes + kept + outputs * windows + 3 * largest


def _window_copies(module: nn.Module) -> int:
    """How many copies of a layer's input its windows take.

    A convolution takes one for each tap of a row of its kernel, and two before that.
    """
    if isinstance(module, nn.modules.conv._ConvNd):
        return 2 + module.kernel_size[-1]
    return 1


def jacobian_bytes(plan: Plan) -> int:
    """Bytes that a sample takes for its Jacobian: a graph for each output, and the gradients."""
    if not plan.rest:
        return 0
    numbers = sum(parameter.numel() for parameter in plan.rest.values())
    outputs = plan.output.shape[1]
    gradients = 3 * outputs * numbers * plan.output.element_size()
    return plan.saved_bytes * (1 + outputs) + gradients
