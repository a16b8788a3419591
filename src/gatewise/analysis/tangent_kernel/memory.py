"""How many samples fit in the memory a user gives: estimates from one sample, on the safe side."""

from dataclasses import dataclass

from torch import nn

from gatewise.analysis.tangent_kernel.execution_plan import Plan
from gatewise.errors import Limitation, NotApplicableError

# of what the kernel leaves, for the samples of a block; the rest is for sums over their pairs
SHARE = 0.75


@dataclass(frozen=True)
class Room:
    """The memory for a kernel of ``rows`` by ``columns`` samples with ``outputs`` outputs each."""

    memory: int
    rows: int
    columns: int
    outputs: int
    symmetric: bool

    @property
    def fixed(self) -> int:
        """Bytes of the kernel itself: summed in float64, then mirrored, then in its own dtype."""
        return 3 * 8 * self.rows * self.columns * self.outputs**2

    @property
    def workspace(self) -> int:
        """Bytes for sums over pairs of samples."""
        return max(1, int((self.memory - self.fixed) * (1 - SHARE)))

    def holds(self, samples: int) -> bool:
        """Whether all samples, which take so many bytes, fit at once."""
        return samples <= int(max(0, self.memory - self.fixed) * SHARE)

    def block(self, sample: int) -> int:
        """Rows and columns of a block whose samples take ``sample`` bytes each.

        All of them, or as many as fit.
        """
        fitting = int(max(0, self.memory - self.fixed) * SHARE) // max(1, sample)
        together = self.rows if self.symmetric else self.rows + self.columns
        return max(self.rows, self.columns) if together <= fitting else fitting // 2

    def check(self, *samples: int) -> None:
        """Refuse a budget in which not even a pair of samples fits, and say which would do."""
        pair = 1 if self.symmetric and self.rows == 1 else 2
        smallest = self.fixed + int(pair * max(samples) / SHARE) + 1024
        if self.memory < smallest:
            got, allowed = f"{self.memory} bytes", f"at least {smallest} bytes for these samples"
            raise NotApplicableError(
                Limitation.TOO_LARGE,
                "ntk: memory is too small",
                got=got,
                allowed=allowed,
                fix=f"memory={smallest}",
            )


def layerwise_bytes(plan: Plan) -> int:
    """Bytes a sample takes in a forward and a backward pass.

    Graph, slopes of the layers, and one layer's windows.
    """
    if not plan.covered:
        return 0
    outputs, size = plan.output.shape[1], plan.output.element_size()
    left = [call.left.numel() * size for call in plan.calls if call.reached]
    if outputs > 1 or len(left) > len(plan.covered):
        kept = outputs * sum(left)
    else:
        kept = 2 * max(left, default=0)  # a layer's slopes are dropped before the next one's come
    windows = max(
        (_windows(call.module) * call.entered.numel() * size for call in plan.calls), default=0
    )
    return plan.tape + kept + outputs * windows + 3 * max(left, default=0)


def _windows(module: nn.Module) -> int:
    """How often a layer's input is laid out.

    For a convolution once for each tap of a row of its kernel, and before.
    """
    return 2 + module.kernel_size[-1] if isinstance(module, nn.modules.conv._ConvNd) else 1


def jacobian_bytes(plan: Plan) -> int:
    """Bytes a sample takes on the way of the Jacobian.

    Its graph for each output, and its gradients.
    """
    numbers = sum(parameter.numel() for parameter in plan.rest.values())
    outputs, size = plan.output.shape[1], plan.output.element_size()
    return plan.tape * (1 + outputs) + 3 * outputs * numbers * size if plan.rest else 0
