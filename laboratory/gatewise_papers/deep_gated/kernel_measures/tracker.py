"""A callback that records nu_t = y' H_t^-1 y during training."""

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from gatewise.analysis import ntk
from gatewise.analysis.record import new_axes
from gatewise.errors import ArgumentError, Limitation, NotApplicableError, unknown_name
from gatewise_papers.deep_gated.kernel_measures.label_alignment import alignment
from gatewise_papers.deep_gated.path_kernels import path_kernel

HAT = "_hat"  # suffix of a kernel that is divided by its trace


@dataclass(frozen=True)
class AlignmentRecord:
    """nu for each kernel after ``step`` steps; None if the kernel has no inverse."""

    step: int
    nu: dict[str, float | None]


class AlignmentTracker:
    """Records nu of some kernels of ``model`` every few training steps, on a few labelled inputs.

    Call it with the number of steps done. Kernels are computed in float64 on a copy of the model,
    so the model is left unchanged. One record on 200 inputs of a network 784-100^5-1 takes as long
    as about ten of its training steps with 64 examples. With ``every=k`` that cost is spread over
    k steps.
    """

    def __init__(
        self,
        model: nn.Module,
        x: Tensor,
        y: Tensor,
        *,
        kernels: tuple[str, ...] = ("K", "K_hat"),
        every: int = 1,
        ridge: float | None = None,
    ) -> None:
        """Create a tracker.

        Args:
            model: the model that is trained.
            x: a few inputs.
            y: their labels.
            kernels: any of ``K`` (the tangent kernel), ``K_w`` and ``K_a`` (its parts by the
                strengths and by the gates of a deep gated network with a separate gate network)
                and ``M`` (the path features). With the suffix ``_hat`` the kernel is divided by
                its trace.
            every: the number of steps from one record to the next.
            ridge: as for :func:`gatewise.alignment`. Without it, nu of a singular kernel is None.
        """
        for name in kernels:
            if name.removesuffix(HAT) not in KERNELS:
                raise unknown_name("kernel", name, [*KERNELS, *(f"{k}{HAT}" for k in KERNELS)])
        if not isinstance(every, int) or every < 1:
            raise ArgumentError("every must be a number of steps", got=every, allowed="1 or more")
        self.model = model
        self.x = x
        self.y = y
        self.kernels = tuple(kernels)
        self.every = every
        self.ridge = ridge
        self.records: list[AlignmentRecord] = []
        self._started: float | None = None
        self._spent = 0.0

    def __call__(self, step: int) -> AlignmentRecord | None:
        """Add and return a record if ``step`` is a multiple of ``every``."""
        if step % self.every:
            return None
        start = time.process_time()
        if self._started is None:
            self._started = start
        self.records.append(AlignmentRecord(step, self._measure()))
        self._spent += time.process_time() - start
        return self.records[-1]

    @property
    def share(self) -> float:
        """The share of the processor time since the first call that the tracker has used."""
        if self._started is None:
            return 0.0
        return min(1.0, self._spent / max(time.process_time() - self._started, 1e-9))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file: the steps, and nu by kernel."""
        return {
            "steps": self._steps,
            "nu": {name: self._values(name) for name in self.kernels},
            "share": self.share,
            "ridge": self.ridge,
        }

    def plot(self, axes: Any = None) -> Any:
        """Draw nu by step, one line for each kernel; return matplotlib's axes."""
        axes = new_axes((5, 3.6)) if axes is None else axes
        for name in self.kernels:
            axes.plot(self._steps, self._values(name), label=name)
        axes.set(xlabel="steps", ylabel="nu", yscale="log")
        axes.legend(frameon=False)
        return axes

    @property
    def _steps(self) -> list[int]:
        return [record.step for record in self.records]

    def _values(self, name: str) -> list[float | None]:
        return [record.nu[name] for record in self.records]

    def _measure(self) -> dict[str, float | None]:
        model = copy.deepcopy(self.model).double()
        x = self.x.double()
        kernels: dict[str, Tensor] = {}
        nu: dict[str, float | None] = {}
        for name in self.kernels:
            base = name.removesuffix(HAT)
            if base not in kernels:
                kernels[base] = KERNELS[base](model, x)
            nu[name] = self._nu(kernels[base], name.endswith(HAT))
        return nu

    def _nu(self, kernel: Tensor, normalise: bool) -> float | None:
        try:
            return alignment(kernel, self.y, normalise=normalise, ridge=self.ridge).nu
        except NotApplicableError as error:
            if error.limitation is Limitation.SINGULAR_KERNEL:
                return None
            raise


def _tangent_kernel(model: nn.Module, x: Tensor) -> Tensor:
    return _square(ntk(model, x))


def _strengths(model: nn.Module, x: Tensor) -> Tensor:
    return _square(ntk(model, x, parameters=_parts(model)[0]))


def _gates(model: nn.Module, x: Tensor) -> Tensor:
    return _square(ntk(model, x, parameters=_parts(model)[1]))


def _features(model: nn.Module, x: Tensor) -> Tensor:
    return path_kernel(model, x, kind="features")


def _square(kernel: Tensor) -> Tensor:
    """Return the kernel of a network with one output, and raise for more."""
    if kernel.ndim != 2:
        raise ArgumentError(
            "the alignment is defined for a network with one output",
            got=f"kernel {tuple(kernel.shape)}",
        )
    return kernel


def _parts(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The parameters of the strengths and those of the gates, if they are separate."""
    strengths = _parameters(model, "strength_parameters")
    gates = _parameters(model, "gate_parameters")
    if not gates or set(map(id, strengths)) & set(map(id, gates)):
        raise ArgumentError(
            "K_w and K_a need a network whose gates have parameters of their own",
            got=type(model).__name__,
            allowed="DeepGatedNetwork with gate='galu' or 'soft_galu'",
        )
    return strengths, gates


def _parameters(model: Any, name: str) -> list[nn.Parameter]:
    """What the model's method of that name returns; nothing if there is no such method."""
    if hasattr(model, name):
        return list(getattr(model, name)())
    return []


KERNELS: dict[str, Callable[[nn.Module, Tensor], Tensor]] = {
    "K": _tangent_kernel,
    "K_w": _strengths,
    "K_a": _gates,
    "M": _features,
}
