"""Networks of the catalogue as models of a comparison."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from torch import nn

from gatewise.models import create_model, get_model
from gatewise.studies.comparison.user_data import UserData


@dataclass(frozen=True)
class BuiltIn:
    """A function that builds a network of the catalogue, in any process.

    Attributes:
        name: of the network.
        options: of the network.
    """

    name: str
    options: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, **options: Any) -> nn.Module:
        """Build the network.

        Args:
            **options: in place of those that are kept.
        """
        return create_model(self.name, **{**self.options, **options})

    def fitting(self, data: UserData) -> "BuiltIn":
        """Return the network for these data: classes and sizes are theirs unless they are given.

        Args:
            data: of the comparison.
        """
        known = get_model(self.name).options
        if not data.shape:
            return self
        if len(data.shape) == 1:
            facts = {"classes": data.classes, "length": data.shape[0]}
        else:
            facts = {
                "classes": data.classes or 1,
                "channels": data.shape[0],
                "features": math.prod(data.shape),
            }
        given = {name: value for name, value in facts.items() if name in known}
        return BuiltIn(self.name, {**given, **self.options})
