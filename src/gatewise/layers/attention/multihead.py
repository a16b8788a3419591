"""torch's multi-head attention with a gate before the output projection."""

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from gatewise.checks import check_count, check_flag, check_number
from gatewise.errors import ArgumentError
from gatewise.layers.attention.attention_gate import AttentionGate, masked_scores
from gatewise.units import Device, DType, allocating, check_input


class GatedMultiheadAttention(nn.Module):
    r"""Multi-head attention whose output is gated before the output projection.

    .. math:: y = W_o\,\bigl(\sigma(W_g x) \odot \mathrm{attention}(x W_q, k W_k, v W_v)\bigr) + b_o

    It is called as :class:`torch.nn.MultiheadAttention` and has parameters of the same names, with
    those of the gate besides: a state of that class can be loaded with ``strict=False``. It has no
    fused kernel of transformer layers. Keys and values have the width of the queries.

    Args:
        embed_dim: the number of features.
        num_heads: the number of heads.
        gate: ``"head"``: one gate for each head; ``"element"``: one for each number.
        scale: the factor of the gate, see :class:`AttentionGate`.
        start: ``"random"`` or ``"open"``, see :class:`AttentionGate`.
        dropout: the share of attention weights that is dropped in training.
        bias: whether the projections have biases. The gate has none.
        batch_first: whether the batch is the first dimension, and not the second.
        device: the device of the parameters.
        dtype: the dtype of the parameters.

    Shape: ``query (N, L, E)``, ``key (N, S, E)`` and ``value (N, S, E) -> (N, L, E)`` with
    ``batch_first``, else ``(L, N, E)`` and so on; without a batch ``(L, E)``.

    Qiu et al., 2025, "Gated Attention for Large Language Models", arXiv:2505.06708.
    """

    # torch's transformer layers ask for this before they use a kernel that knows no gate.
    _qkv_same_embed_dim = False

    def __init__(
        self,
        embed_dim: int,
        num_heads: int,
        *,
        gate: str = "head",
        scale: float = 1.0,
        start: str = "random",
        dropout: float = 0.0,
        bias: bool = True,
        batch_first: bool = False,
        device: Device = None,
        dtype: DType = None,
    ) -> None:
        super().__init__()
        name = "GatedMultiheadAttention"
        self.embed_dim = check_count(name, "embed_dim", embed_dim, least=1)
        self.num_heads = check_count(name, "num_heads", num_heads, least=1)
        self.dropout = check_number(name, "dropout", dropout, above=-1e-9, most=1)
        self.batch_first = check_flag(name, "batch_first", batch_first)
        check_flag(name, "bias", bias)
        self.gate = AttentionGate(
            embed_dim, num_heads, gate=gate, scale=scale, start=start, device=device, dtype=dtype
        )
        self.head_dim = embed_dim // num_heads
        self.in_proj_bias: nn.Parameter | None = None
        with allocating(name, device, dtype):
            self.in_proj_weight = nn.Parameter(
                torch.empty(3 * embed_dim, embed_dim, device=device, dtype=dtype)
            )
            if bias:
                empty = torch.empty(3 * embed_dim, device=device, dtype=dtype)
                self.in_proj_bias = nn.Parameter(empty)
            self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias, device=device, dtype=dtype)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the weights as torch does; biases start at 0."""
        nn.init.xavier_uniform_(self.in_proj_weight)
        self.out_proj.reset_parameters()
        self.gate.reset_parameters()
        for bias in (self.in_proj_bias, self.out_proj.bias):
            if bias is not None:
                nn.init.zeros_(bias)

    def forward(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """Attend, gate and project; arguments and results are those of torch's class.

        Args:
            query: the queries, from which the gates are computed, too.
            key: the keys.
            value: the values.
            key_padding_mask: ``(N, S)``, true for keys that are not read, or numbers to add.
            need_weights: whether to return the attention weights.
            attn_mask: ``(L, S)`` or ``(N * heads, L, S)``, true where a key is not read, or numbers
                to add.
            average_attn_weights: whether the weights are averaged over the heads.
            is_causal: a hint that ``attn_mask`` is causal, which needs that mask.

        Returns:
            The output, and the weights or ``None``.
        """
        self._check(query, key, value, attn_mask, is_causal)
        batched = query.dim() == 3
        if not batched:
            query, key, value = (tensor.unsqueeze(0) for tensor in (query, key, value))
            if key_padding_mask is not None:
                key_padding_mask = key_padding_mask.unsqueeze(0)
        elif not self.batch_first:
            query, key, value = (tensor.transpose(0, 1) for tensor in (query, key, value))
        mixed, weights = self._attend(query, key, value, key_padding_mask, attn_mask)
        output = self.out_proj(self.gate(query, mixed))
        returned = None
        if need_weights:
            returned = weights.mean(1) if average_attn_weights else weights
        if not batched:
            return output.squeeze(0), None if returned is None else returned.squeeze(0)
        return (output if self.batch_first else output.transpose(0, 1)), returned

    def _check(
        self, query: Tensor, key: Tensor, value: Tensor, attn_mask: Tensor | None, is_causal: bool
    ) -> None:
        for name, tensor in (("query", query), ("key", key), ("value", value)):
            check_input("GatedMultiheadAttention", tensor)
            if tensor.dim() != query.dim() or tensor.dim() not in (2, 3):
                raise ArgumentError(
                    f"GatedMultiheadAttention: {name} has a wrong number of dimensions",
                    got=tuple(tensor.shape),
                    allowed="three, or two without a batch, the same for all",
                )
            if tensor.shape[-1] != self.embed_dim:
                raise ArgumentError(
                    f"GatedMultiheadAttention: {name} has a wrong width",
                    got=tuple(tensor.shape),
                    allowed=f"(..., {self.embed_dim})",
                )
        if is_causal and attn_mask is None:
            raise ArgumentError(
                "GatedMultiheadAttention: is_causal needs the mask", fix="pass attn_mask, too"
            )

    def _attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None,
        attn_mask: Tensor | None,
    ) -> tuple[Tensor, Tensor]:
        """Return the outputs of the heads side by side, and the attention weights."""
        biases: tuple[Tensor | None, ...] = (None, None, None)
        if self.in_proj_bias is not None:
            biases = self.in_proj_bias.chunk(3)
        parts = zip((query, key, value), self.in_proj_weight.chunk(3), biases, strict=True)
        heads = [
            F.linear(*part).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for part in parts
        ]
        scores = heads[0] * self.head_dim**-0.5 @ heads[1].transpose(-1, -2)
        if key_padding_mask is not None:
            key_padding_mask = key_padding_mask[:, None, None, :]
        if attn_mask is not None and attn_mask.dim() == 3:
            attn_mask = attn_mask.unflatten(0, (-1, self.num_heads))
        weights = masked_scores(scores, attn_mask, key_padding_mask).softmax(-1)
        weights = F.dropout(weights, self.dropout, self.training)
        return (weights @ heads[2]).transpose(1, 2).flatten(2), weights
