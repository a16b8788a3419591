"""An orthogonal layer that can be sent to another process.

Torch does not pickle parametrised modules themselves.
"""

from torch import Tensor, nn

from gatewise.layers.orthonormal import orthogonal


class SentOrthogonal(nn.Module):
    def __init__(self, state: dict[str, Tensor] | None = None):
        super().__init__()
        self.layer = orthogonal(nn.Linear(6, 4), gain=True)
        if state is not None:
            self.load_state_dict(state)

    def __reduce__(self):
        return SentOrthogonal, (self.state_dict(),)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)
