"""Which responses of a layer are determined by the features after its unit.

A unit has one feature for each response (ReLU) or several (CReLU: one for each sign). A feature
determines the response if no other response has the same feature: with ReLU where the response is
positive, with CReLU everywhere by one of the two features, with leaky ReLU everywhere, with |x|
nowhere. Features that differ only by rounding do not count as different, for example ELU far below
0.
"""

import copy
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from gatewise.errors import Limitation, NotApplicableError
from gatewise.units import Unit, create_unit, get_unit, registered_units

LARGEST_RESPONSE = 1e3  # responses at least up to here are compared with each other
SMALLEST_RESPONSE = 1e-9  # apart from 0
# A feature whose slope is below this share of the steepest does not determine its response.
FLAT = 1e-6
NEXT = 16 * torch.finfo(torch.float64).eps  # responses as near as this, relatively, are the same
# Units whose features are clamped multiples of the response, known where they are positive.
SIGNS = {"crelu": (1.0, -1.0), "relu": (1.0,)}
SAMPLE = 64  # rows on which a unit is tested for looking at other responses
SEVERAL_RESPONSES = "looks at more than one response, so that no feature determines one"


@dataclass(frozen=True, eq=False)
class Curves:
    """A feature as a function of the response.

    Attributes:
        points: responses, ascending (points,).
        values: the feature of each channel there (points, channels).
    """

    points: Tensor
    values: Tensor

    def is_invertible(self, response: Tensor, feature: Tensor) -> Tensor:
        """Where no other response has the same feature. Shape: (rows, channels)."""
        response = response.contiguous()
        apart = NEXT * response.abs()  # torch may round a feature otherwise in a longer tensor
        above = torch.searchsorted(self.points, response + apart, right=True)
        above = above.clamp(1, len(self.points) - 1)
        below = torch.searchsorted(self.points, response - apart).clamp(min=1) - 1
        rising = _is_between(feature, self.values, below, above)
        falling = _is_between(-feature, -self.values, below, above)
        slopes = (self.values.diff(dim=0) / self.points.diff()[:, None]).abs()
        is_steep = slopes.gather(0, above - 1) > FLAT * slopes.amax(0)
        return (rising | falling) & is_steep


def _is_between(feature: Tensor, values: Tensor, below: Tensor, above: Tensor) -> Tensor:
    """Whether a feature is above those of all smaller responses and below those of all larger."""
    largest_before = values.cummax(0).values.gather(0, below)
    smallest_after = values.flip(0).cummin(0).values.flip(0).gather(0, above)
    return (feature > largest_before) & (feature < smallest_after)


class InvertibleFeatures:
    """The features of a unit, and where each of them determines the response."""

    def __init__(self, unit: str | nn.Module, channels: int) -> None:
        """Look up the unit.

        Args:
            unit: the name of a unit with its default options, or a module of one.
            channels: the number of channels of the responses.
        """
        self.unit = unit
        self.channels = channels
        self.spec = _spec(unit)
        self.name = self.spec.name if self.spec else type(unit).__name__
        options = getattr(unit, "options", {})
        # A weighted sum of the features is the response: then all responses are known.
        self.complete = self.spec is not None and "identity" in self.spec.fact("spans", **options)

    def parts(self, response: Tensor) -> tuple[list[Tensor], list[Tensor]]:
        """The features of responses (n, K, *size), and where each determines the response.

        Returns:
            Features and masks, each a list with one tensor (n, K, *size) for each part of the unit.
        """
        if isinstance(self.unit, str) and self.unit in SIGNS:
            features = [(sign * response).clamp(min=0) for sign in SIGNS[self.unit]]
            return features, [feature > 0 for feature in features]
        module = self._module()
        channels_last = response.movedim(1, -1)
        rows = channels_last.reshape(-1, self.channels)
        flat = self._features(module, rows)
        self._check_independence(module, response, rows, flat)
        points = _points(rows)
        curves = self._features(module, points[:, None].expand(-1, self.channels))
        features = []
        masks = []
        for curve, feature in zip(curves, flat, strict=True):
            mask = Curves(points, curve).is_invertible(rows, feature)
            features.append(feature.reshape(channels_last.shape).movedim(-1, 1))
            masks.append(mask.reshape(channels_last.shape).movedim(-1, 1))
        if not any(bool(mask.any()) for mask in masks) and bool(rows.any()):
            raise self._error("determines no response: each has another with the same feature")
        return features, masks

    def _module(self) -> nn.Module:
        if self.spec is not None and self.spec.family == "context":
            raise self._error(SEVERAL_RESPONSES)
        if isinstance(self.unit, nn.Module):
            return copy.deepcopy(self.unit).double().cpu().eval()
        with torch.random.fork_rng(devices=[]):
            return create_unit(self.unit, channels=self.channels).double().eval()

    def _features(self, module: nn.Module, rows: Tensor) -> list[Tensor]:
        """The features of rows (m, K), one tensor (m, K) for each part."""
        output = self._apply(module, rows, f"rows of {self.channels} responses")
        is_table = isinstance(output, Tensor) and output.dim() == 2 and len(output) == len(rows)
        if not is_table or output.shape[1] % self.channels:
            raise self._error("does not have the same number of features for every response")
        if not bool(output.isfinite().all()):
            raise self._error("has features that are not finite")
        return list(output.split(self.channels, 1))

    def _apply(self, module: nn.Module, x: Tensor, what: str) -> Any:
        """The module's output for a copy of ``x``: the module may work in place."""
        try:
            with torch.no_grad():
                return module(x.clone(memory_format=torch.contiguous_format))
        except Exception as problem:  # whatever a module of the user raises
            reason = str(problem).splitlines()[0] if str(problem) else type(problem).__name__
            raise self._error(f"cannot be applied to {what} ({reason})") from problem

    def _check_independence(
        self,
        module: nn.Module,
        response: Tensor,
        rows: Tensor,
        flat: list[Tensor],
    ) -> None:
        """Raise if features depend on other positions, other channels or other inputs."""
        by_rows = torch.cat(flat, 1).reshape(*response.movedim(1, -1).shape[:-1], -1)
        by_rows = by_rows.movedim(-1, 1)
        by_maps = self._apply(module, response, f"responses of shape {tuple(response.shape)}")
        if not isinstance(by_maps, Tensor) or by_maps.shape != by_rows.shape:
            raise self._error(SEVERAL_RESPONSES)
        independent = torch.allclose(by_maps, by_rows, rtol=1e-9, atol=1e-12)
        # Rotate each channel by another number of rows, so that all neighbours change.
        rotated = self._features(module, _rotate_channels(rows[:SAMPLE], 1))
        for part, expected in zip(rotated, flat, strict=True):
            restored = _rotate_channels(part, -1)
            independent &= torch.allclose(restored, expected[:SAMPLE], rtol=1e-9, atol=1e-12)
        if not independent:
            raise self._error(SEVERAL_RESPONSES)

    def _error(self, why: str) -> NotApplicableError:
        return NotApplicableError(
            Limitation.UNSUPPORTED_UNIT,
            f"reconstruct: {self.name} {why}",
            got=self.name,
            allowed="a unit, or its module, whose features determine responses: "
            "'crelu', 'relu', 'leaky_relu', ...",
        )


def _rotate_channels(rows: Tensor, direction: int) -> Tensor:
    """Rotate column k of ``rows`` by k rows."""
    return torch.stack([column.roll(direction * k) for k, column in enumerate(rows.T)], 1)


def _spec(unit: Any) -> Unit | None:
    if not isinstance(unit, nn.Module):
        return get_unit(unit)
    for spec in registered_units().values():
        if spec.module is type(unit):
            return spec
    return None


def _points(rows: Tensor) -> Tensor:
    """Ascending responses over twice the range of ``rows``, densest around 0."""
    largest = max(LARGEST_RESPONSE, 2 * float(rows.abs().max()))
    low = torch.tensor(SMALLEST_RESPONSE).log10()
    high = torch.tensor(largest).log10()
    positive = torch.logspace(low, high, 1001, dtype=torch.float64)
    zero = torch.zeros(1, dtype=torch.float64)
    even = torch.linspace(-20, 20, 2001, dtype=torch.float64)
    return torch.cat((-positive, zero, positive, even)).unique()
