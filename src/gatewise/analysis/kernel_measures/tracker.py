"""nu_t = y' H_t^-1 y along a training: a callback."""

import copy
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from torch import Tensor, nn

from gatewise.analysis.kernel_measures.label_alignment import alignment
from gatewise.analysis.path_kernels import path_kernel
from gatewise.analysis.tangent_kernel import ntk
from gatewise.errors import ArgumentError, Limitation, NotApplicableError, unknown_name

HAT = "_hat"  # the kernel divided by its trace


@dataclass(frozen=True)
class Seen:
    """What the tracker saw after ``step`` steps.

    Nu for each kernel, and None where the kernel has no inverse.
    """

    step: int
    nu: dict[str, float | None]


class AlignmentTracker:
    """Looks at ``model`` every so many steps, and keeps nu of the kernels asked for on a few labelled inputs.

    ``kernels`` are of ``K`` (the tangent kernel), ``K_w`` and ``K_a`` (its parts by the strengths and by the gates of a
    deep gated network with a gating network of its own), ``M`` (the path features); each also with ``_hat``: divided
    by its trace. They are computed in float64 on a copy, so the model is left as it is. ``ridge`` is that of
    :func:`gatewise.alignment`; without it, a singular kernel is kept as None.

    Call it with the number of steps done. ``share`` is the part of the processor time since the first look began that
    was spent looking: with ``every=k`` the cost of one look is spread over k steps. Looking at 200 inputs of a network
    784-100^5-1 takes as long as about ten of its training steps with 64 examples.
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
        for name in kernels:
            if name.removesuffix(HAT) not in KERNELS:
                raise unknown_name(
                    "kernel", name, [*KERNELS, *(f"{each}{HAT}" for each in KERNELS)]
                )
        if not isinstance(every, int) or every < 1:
            raise ArgumentError("every must be a number of steps", got=every, allowed="1 or more")
        self.model, self.x, self.y = model, x, y
        self.kernels, self.every, self.ridge = tuple(kernels), every, ridge
        self.seen: list[Seen] = []
        self._began: float | None = None
        self._looking = 0.0

    def __call__(self, step: int) -> Seen | None:
        """Look, if ``step`` is a multiple of ``every``."""
        if step % self.every:
            return None
        start = time.process_time()
        self._began = start if self._began is None else self._began
        self.seen.append(Seen(step, self._look()))
        self._looking += time.process_time() - start
        return self.seen[-1]

    @property
    def share(self) -> float:
        """The share of processor time that looking took, from the first look until now."""
        if self._began is None:
            return 0.0
        return min(1.0, self._looking / max(time.process_time() - self._began, 1e-9))

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers, for a file: the steps, and nu by kernel."""
        by_kernel = {name: [each.nu[name] for each in self.seen] for name in self.kernels}
        return {
            "steps": [each.step for each in self.seen],
            "nu": by_kernel,
            "share": self.share,
            "ridge": self.ridge,
        }

    def plot(self, axes: Any = None) -> Any:
        """Draw nu by step, one line for each kernel; return matplotlib's axes."""
        if axes is None:
            from matplotlib.figure import Figure

            axes = Figure(figsize=(5, 3.6), layout="constrained").subplots()
        for name in self.kernels:
            axes.plot(
                [each.step for each in self.seen], [each.nu[name] for each in self.seen], label=name
            )
        axes.set(xlabel="steps", ylabel="nu", yscale="log")
        axes.legend(frameon=False)
        return axes

    def _look(self) -> dict[str, float | None]:
        model, x = copy.deepcopy(self.model).double(), self.x.double()
        found = {
            base: KERNELS[base](model, x)
            for base in {name.removesuffix(HAT) for name in self.kernels}
        }
        return {
            name: self._nu(found[name.removesuffix(HAT)], name.endswith(HAT))
            for name in self.kernels
        }

    def _nu(self, kernel: Tensor, hat: bool) -> float | None:
        try:
            return alignment(kernel, self.y, normalise=hat, ridge=self.ridge).nu
        except NotApplicableError as error:
            if error.limitation is Limitation.SINGULAR_KERNEL:
                return None
            raise


def _whole(model: nn.Module, x: Tensor) -> Tensor:
    return _square(ntk(model, x))


def _strengths(model: nn.Module, x: Tensor) -> Tensor:
    return _square(ntk(model, x, parameters=_parts(model)[0]))


def _gates(model: nn.Module, x: Tensor) -> Tensor:
    return _square(ntk(model, x, parameters=_parts(model)[1]))


def _features(model: nn.Module, x: Tensor) -> Tensor:
    return path_kernel(model, x, kind="features")


def _square(kernel: Tensor) -> Tensor:
    """A kernel of one output."""
    if kernel.ndim != 2:
        raise ArgumentError(
            "the alignment is that of a network with one output",
            got=f"kernel {tuple(kernel.shape)}",
        )
    return kernel


def _parts(model: nn.Module) -> tuple[list[nn.Parameter], list[nn.Parameter]]:
    """The strengths and the gates of a network that has both, apart."""
    strengths, gates = (_asked(model, name) for name in ("strength_parameters", "gate_parameters"))
    if not gates or {id(each) for each in strengths} & {id(each) for each in gates}:
        raise ArgumentError(
            "K_w and K_a are of a network whose gates have parameters of their own",
            got=type(model).__name__,
            allowed="DeepGatedNetwork with gate='galu' or 'soft_galu'",
        )
    return strengths, gates


def _asked(model: Any, name: str) -> list[nn.Parameter]:
    """What the model's method of that name gives; nothing if it has none."""
    return list(getattr(model, name)()) if hasattr(model, name) else []


KERNELS: dict[str, Callable[[nn.Module, Tensor], Tensor]] = {
    "K": _whole,
    "K_w": _strengths,
    "K_a": _gates,
    "M": _features,
}
