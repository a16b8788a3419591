"""Small language models: decoders in the style of GPT and of Llama, with any unit or GLU.

Note [Equal parameters]. A feed-forward part is a linear layer, a unit, and a linear layer. A
pointwise unit has ``expansion`` times as many channels as the network is wide. A unit that returns
r channels for each one it reads (1/2 for a gated linear unit, 2 for CReLU) gets 2 / (1 + r) times
as many channels before it, rounded, so that both layers together have as many parameters. For a
gated linear unit this is the usual rule: two thirds of the width for each of gate and value.
"""

import inspect
from fractions import Fraction

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.errors import ArgumentError
from gatewise.layers import OpenGate
from gatewise.models.blocks import Block, Slot, UnitChoice, check_scale, check_sizes, slot_of
from gatewise.models.catalogue import network
from gatewise.units import get_unit

TOKENS = 256  # bytes
LENGTH = 128
BASE = 10_000.0  # of the rotary angles
START = 0.02  # standard deviation of embeddings


class TokenEmbedding(nn.Embedding):
    """An embedding that starts small, so that the first blocks are not drowned by it."""

    def reset_parameters(self) -> None:
        """Draw the weights."""
        nn.init.normal_(self.weight, std=START)


class Attention(nn.Module):
    """Causal attention: a token reads itself and those before it.

    ``gate`` is open: ``gw.swap(model, "gated_attention", x)`` puts a gate there.

    Args:
        width: of the stream.
        heads: number of heads.
        bias: whether the linear layers have biases.
        rotary: whether queries and keys are rotated by their position.
        length: the longest row, for the rotation.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        *,
        bias: bool,
        rotary: bool,
        length: int,
    ) -> None:
        super().__init__()
        self.heads = heads
        self.rotary = rotary
        self.qkv = nn.Linear(width, 3 * width, bias=bias)
        self.gate = OpenGate(width, heads)
        self.out = nn.Linear(width, width, bias=bias)
        if rotary:
            cos, sin = _angles(width // heads, length)
            self.register_buffer("cos", cos, persistent=False)
            self.register_buffer("sin", sin, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        parts = self.qkv(x).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        query, key, value = parts.unbind(0)  # each (rows, heads, length, width / heads)
        if self.rotary:
            query = self._rotated(query)
            key = self._rotated(key)
        mixed = F.scaled_dot_product_attention(query, key, value, is_causal=True)
        return self.out(self.gate(x, mixed.transpose(1, 2).flatten(2)))

    def _rotated(self, x: Tensor) -> Tensor:
        """Rotate each pair of numbers by an angle in proportion to the position."""
        cos = self.get_buffer("cos")[: x.shape[-2]]
        sin = self.get_buffer("sin")[: x.shape[-2]]
        first, second = x.chunk(2, dim=-1)
        return torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)


class FeedForward(nn.Module):
    """A linear layer, a unit, and a linear layer. See Note [Equal parameters].

    Args:
        width: of the stream.
        hidden: channels between the layers, for a pointwise unit.
        slot: the unit.
        bias: whether the linear layers have biases.
    """

    def __init__(self, width: int, hidden: int, slot: Slot, *, bias: bool) -> None:
        super().__init__()
        channels = matched_channels(width, hidden, slot.ratio, bias=bias)
        self.up = Block(nn.Linear(width, channels, bias=bias), None, None, channels)
        self.up.unit = _unit(slot, channels)
        self.down = nn.Linear(int(channels * slot.ratio), width, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(self.up(x))


class DecoderBlock(nn.Module):
    """Attention and a feed-forward part, each after a norm and added to the stream.

    Args:
        width: of the stream.
        heads: of the attention.
        hidden: channels of the feed-forward part, for a pointwise unit.
        slot: its unit.
        llama: root mean square norms, rotary positions and no biases, in place of layer norms and
            biases.
        length: the longest row.
    """

    def __init__(
        self,
        width: int,
        heads: int,
        hidden: int,
        slot: Slot,
        *,
        llama: bool,
        length: int,
    ) -> None:
        super().__init__()
        self.norm1 = _norm(width, llama)
        self.attention = Attention(width, heads, bias=not llama, rotary=llama, length=length)
        self.norm2 = _norm(width, llama)
        self.feed_forward = FeedForward(width, hidden, slot, bias=not llama)

    def forward(self, x: Tensor) -> Tensor:
        x = x + self.attention(self.norm1(x))
        return x + self.feed_forward(self.norm2(x))


class Decoder(nn.Module):
    """A language model: the scores of the next token at every place of a row.

    Shape: ``(rows, length), integers -> (rows, length, classes)``.

    Args:
        slot: the unit of the feed-forward parts.
        llama: the style of the blocks, see :class:`DecoderBlock`.
        width: of the stream.
        depth: number of blocks.
        heads: of each attention.
        hidden: channels of a feed-forward part, for a pointwise unit.
        classes: number of tokens.
        length: the longest row.
    """

    def __init__(
        self,
        slot: Slot,
        *,
        llama: bool,
        width: int,
        depth: int,
        heads: int,
        hidden: int,
        classes: int,
        length: int,
    ) -> None:
        super().__init__()
        self.length = length
        self.tokens = TokenEmbedding(classes, width)
        self.positions = None if llama else TokenEmbedding(length, width)
        blocks = []
        for _ in range(depth):
            blocks.append(DecoderBlock(width, heads, hidden, slot, llama=llama, length=length))
        self.blocks = nn.Sequential(*blocks)
        self.norm = _norm(width, llama)
        self.head = nn.Linear(width, classes, bias=False)

    def forward(self, tokens: Tensor) -> Tensor:
        if tokens.dim() != 2 or tokens.shape[1] > self.length:
            raise ArgumentError(
                "the decoder reads rows of tokens",
                got=f"shape {tuple(tokens.shape)}",
                allowed=f"(rows, length) with a length up to {self.length}",
                fix="cut the rows, or build the network with a larger length",
            )
        x = self.tokens(tokens)
        if self.positions is not None:
            x = x + self.positions.weight[: tokens.shape[1]]
        return self.head(self.norm(self.blocks(x)))


@network(title="Small GPT-style decoder", reads=(LENGTH,), tokens=TOKENS, paper="gatewise")
def small_gpt(
    *,
    unit: UnitChoice = "gelu",
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    expansion: float = 4.0,
    classes: int = TOKENS,
    length: int = LENGTH,
) -> Decoder:
    """Layer norms, learned positions and biases, as in GPT-2. See Note [Equal parameters].

    A unit with parameters has one set of them in each feed-forward part.

    Args:
        unit: the unit of the feed-forward parts: pointwise, or a gated linear unit.
        width: of the stream.
        depth: number of blocks.
        heads: of each attention; they divide the width.
        expansion: channels between the layers of a feed-forward part, for a pointwise unit, divided
            by the width.
        classes: number of tokens.
        length: the longest row.
    """
    return _decoder("small_gpt", unit, False, width, depth, heads, expansion, classes, length)


@network(title="Small Llama-style decoder", reads=(LENGTH,), tokens=TOKENS, paper="gatewise")
def small_llama(
    *,
    unit: UnitChoice = "swiglu",
    width: int = 128,
    depth: int = 4,
    heads: int = 4,
    expansion: float = 4.0,
    classes: int = TOKENS,
    length: int = LENGTH,
) -> Decoder:
    """Root mean square norms, rotary positions and no biases. See Note [Equal parameters].

    A unit with parameters has one set of them in each feed-forward part.

    Args:
        unit: the unit of the feed-forward parts: pointwise, or a gated linear unit.
        width: of the stream.
        depth: number of blocks.
        heads: of each attention; the width of a head is even.
        expansion: channels between the layers of a feed-forward part, for a pointwise unit, divided
            by the width.
        classes: number of tokens.
        length: the longest row.
    """
    return _decoder("small_llama", unit, True, width, depth, heads, expansion, classes, length)


def matched_channels(
    width: int,
    hidden: int,
    ratio: Fraction,
    *,
    bias: bool,
) -> int:
    """Return the channels before a unit at which both layers have as many parameters.

    See Note [Equal parameters].

    Args:
        width: of the stream.
        hidden: channels of a pointwise unit.
        ratio: channels after the unit for each before it.
        bias: whether the layers have biases.
    """
    extra = 1 if bias else 0  # the first layer has a bias for each channel
    exact = Fraction(hidden * (2 * width + extra)) / (width * (1 + ratio) + extra)
    step = ratio.denominator
    return max(1, round(exact / step)) * step


def _decoder(
    name: str,
    unit: UnitChoice,
    llama: bool,
    width: int,
    depth: int,
    heads: int,
    expansion: float,
    classes: int,
    length: int,
) -> Decoder:
    """Check the options and return the network."""
    check_sizes(name, width=width, depth=depth, heads=heads, classes=classes, length=length)
    step = 2 * heads if llama else heads  # rotary positions turn pairs of numbers
    if width % step:
        raise ArgumentError(
            f"{name}: option width is not allowed",
            got=f"width {width} with {heads} heads",
            allowed=f"a multiple of {step}",
        )
    return Decoder(
        _checked_slot(unit),
        llama=llama,
        width=width,
        depth=depth,
        heads=heads,
        hidden=check_scale(name, expansion, width, name="expansion"),
        classes=classes,
        length=length,
    )


def _checked_slot(unit: UnitChoice) -> Slot:
    """Return the slot of a unit; raise an error if the unit needs more than one response."""
    slot = slot_of(unit)
    if slot.defers or slot.binds or slot.needs_maps:
        raise ArgumentError(
            f"{slot.unit} cannot stand in a feed-forward part: it reads more than its input there",
            fix="choose a pointwise unit or a gated linear unit",
        )
    return slot


def _unit(slot: Slot, channels: int) -> nn.Module:
    """Return the module of a unit that reads (rows, length, channels)."""
    known = get_unit(slot.unit)
    options = dict(slot.options)
    if "dim" in known.options:
        options.setdefault("dim", -1)
    if "channels" in known.options and known.options["channels"].default is inspect.Parameter.empty:
        options["channels"] = channels
    return known.create(**options)


def _norm(width: int, llama: bool) -> nn.Module:
    """Return the norm of a style."""
    return nn.RMSNorm(width, eps=1e-5) if llama else nn.LayerNorm(width)


def _angles(width: int, length: int) -> tuple[Tensor, Tensor]:
    """Return cosines and sines of the angles at every position, (length, width / 2)."""
    rates = BASE ** (-torch.arange(0, width, 2, dtype=torch.float64) / width)
    angles = torch.arange(length, dtype=torch.float64)[:, None] * rates
    return angles.cos().float(), angles.sin().float()
