"""What the features behind a unit give back of the responses before it.

A unit has one part (ReLU) or several (CReLU: both phases), and each part is a function of one
response. A part gives a response back where no other response has the same feature: ReLU where it
is positive, CReLU by one phase or the other, leaky ReLU everywhere, |x| nowhere. What is told apart
by rounding alone is not: ELU far below 0.
"""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.errors import Limitation, NotApplicableError
from gatewise.units import Unit, create_unit, get_unit, registered_units

FURTHEST = 1e3  # responses that are compared with each other, at least
FINEST = 1e-9
FLAT = 1e-6  # of the steepest slope: where a feature moves less, the response is not read from it
PHASES = {
    "crelu": (1.0, -1.0),
    "relu": (1.0,),
}  # units whose parts are phases: known where they are positive
SAMPLE = 64  # responses on which it is seen whether a unit looks at its own number alone


@dataclass(frozen=True, eq=False)
class Curves:
    """Every part's feature (points, channels) over growing responses (points,)."""

    points: Tensor
    values: Tensor

    def gives_back(self, response: Tensor, feature: Tensor) -> Tensor:
        """Where (rows, channels) no other response has the same feature."""
        above = torch.searchsorted(self.points, response.contiguous(), right=True).clamp(
            1, len(self.points) - 1
        )
        before = torch.searchsorted(self.points, response.contiguous()).clamp(min=1)
        rising = self._between(feature, self.values, above, before)
        falling = self._between(-feature, -self.values, above, before)
        return (rising | falling) & (self._slope(above) > FLAT * self._steepest)

    def _between(self, feature: Tensor, values: Tensor, above: Tensor, before: Tensor) -> Tensor:
        """Whether the feature is more than that of all smaller responses and less than that of all larger ones."""
        below = values.cummax(0).values.gather(0, before - 1)
        return (feature > below) & (
            feature < values.flip(0).cummin(0).values.flip(0).gather(0, above)
        )

    def _slope(self, above: Tensor) -> Tensor:
        return (self.values.diff(dim=0) / self.points.diff()[:, None]).abs().gather(0, above - 1)

    @property
    def _steepest(self) -> Tensor:
        return (self.values.diff(dim=0) / self.points.diff()[:, None]).abs().amax(0)


class GivenBack:
    """The features of a unit, and where each of them says what the response was."""

    def __init__(self, unit: str | nn.Module, channels: int) -> None:
        self.spec = _spec(unit)
        self.name = self.spec.name if self.spec else type(unit).__name__
        self.channels = channels
        self._given = unit
        options = getattr(unit, "options", {})
        # A weighted sum of the parts is the response: then nothing need be looked at.
        self.whole = self.spec is not None and "identity" in self.spec.fact("spans", **options)

    def parts(self, response: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """For responses (n, K, *size).

        The features of each part, and 1 where they give the response back.
        """
        if isinstance(self._given, str) and self._given in PHASES:
            phases = [(sign * response).clamp(min=0) for sign in PHASES[self._given]]
            return phases, [each > 0 for each in phases]
        module = self._module()
        rows = response.movedim(1, -1).reshape(-1, self.channels)
        flat = self._features(module, rows)
        self._check_alone(module, response, rows, flat)
        points = _points(rows)
        curves = self._features(module, points[:, None].expand(-1, self.channels))
        known = [
            Curves(points, curve).gives_back(rows, part)
            for curve, part in zip(curves, flat, strict=True)
        ]
        shape = response.movedim(1, -1).shape
        features, given = (
            [each.reshape(shape).movedim(-1, 1) for each in found] for found in (flat, known)
        )
        if not any(bool(each.any()) for each in given) and bool(rows.any()):
            raise self._refuse("gives no response back: each has another with the same feature")
        return features, given

    def _module(self) -> nn.Module:
        spec = self.spec
        if spec is not None and spec.family == "context":
            raise self._refuse("looks at more than one response, so that no feature gives one back")
        if isinstance(self._given, nn.Module):
            return copy.deepcopy(self._given).double().cpu().eval()
        with torch.random.fork_rng(devices=[]):
            return create_unit(self._given, channels=self.channels).double().eval()

    def _features(self, module: nn.Module, rows: Tensor) -> list[Tensor]:
        """Of rows (m, K), a tensor (m, K) for each part."""
        made = self._applied(module, rows, f"rows of {self.channels} responses")
        if (
            not isinstance(made, Tensor)
            or made.dim() != 2
            or len(made) != len(rows)
            or made.shape[1] % self.channels
        ):
            raise self._refuse("has not a feature of its own, or several, for every response")
        if not bool(made.isfinite().all()):
            raise self._refuse("has features that are not finite")
        return list(made.split(self.channels, 1))

    def _applied(self, module: nn.Module, given: Tensor, what: str) -> Any:
        """What the module makes of a copy of ``given``, which one that works in place would change."""
        try:
            with torch.no_grad():
                return module(given.clone(memory_format=torch.contiguous_format))
        except Exception as problem:  # whatever a module of the user's raises
            reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
            raise self._refuse(f"cannot be applied to {what} ({reason})") from problem

    def _check_alone(
        self, module: nn.Module, response: Tensor, rows: Tensor, flat: list[Tensor]
    ) -> None:
        """Refuse a unit whose features depend on other places, other channels or other inputs."""
        whole = torch.cat(flat, 1).reshape(*response.movedim(1, -1).shape[:-1], -1).movedim(-1, 1)
        there = self._applied(module, response, f"responses of shape {tuple(response.shape)}")
        few = rows[:SAMPLE]
        turned = torch.stack([few[:, k].roll(k) for k in range(self.channels)], 1)
        back = [
            torch.stack([part[:, k].roll(-k) for k in range(self.channels)], 1)
            for part in self._features(module, turned)
        ]
        same = isinstance(there, Tensor) and there.shape == whole.shape
        same = same and torch.allclose(there, whole, rtol=1e-9, atol=1e-12)
        alone = all(
            torch.allclose(a, b[:SAMPLE], rtol=1e-9, atol=1e-12)
            for a, b in zip(back, flat, strict=True)
        )
        if not same or not alone:
            raise self._refuse("looks at more than one response, so that no feature gives one back")

    def _refuse(self, why: str) -> NotApplicableError:
        return NotApplicableError(
            Limitation.UNSUPPORTED_UNIT,
            f"reconstruct: {self.name} {why}",
            got=self.name,
            allowed="'crelu', 'relu', 'leaky_relu', ...: a unit, or its module, whose features say what responses were",
        )


def _spec(unit: Any) -> Unit | None:
    if isinstance(unit, nn.Module):
        return next(
            (each for each in registered_units().values() if each.module is type(unit)), None
        )
    return get_unit(unit)


def _points(rows: Tensor) -> Tensor:
    """Growing responses over twice the range of ``rows``, finest about 0."""
    furthest = max(FURTHEST, 2 * float(rows.abs().max()))
    by_size = torch.logspace(
        torch.tensor(FINEST).log10(), torch.tensor(furthest).log10(), 1001, dtype=torch.float64
    )
    zero = torch.zeros(1, dtype=torch.float64)
    evenly = torch.linspace(-20, 20, 2001, dtype=torch.float64)
    return torch.cat((-by_size, zero, by_size, evenly)).unique()
