"""Gated attention: a sigmoid gate on what attention returns, before the output projection."""

from gatewise.layers.attention.attention_gate import AttentionGate as AttentionGate
from gatewise.layers.attention.attention_gate import OpenGate as OpenGate
from gatewise.layers.attention.multihead import GatedMultiheadAttention as GatedMultiheadAttention
