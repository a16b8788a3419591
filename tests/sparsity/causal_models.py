"""Small causal language models of transformers, and data for them."""

import torch
from torch import nn
from zoo import declare_missing_torchvision_operators


def llama(length: int = 64, *, tied: bool = True) -> tuple[nn.Module, list[dict]]:
    """A Llama of two layers, and four batches of two texts."""
    declare_missing_torchvision_operators()
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        num_hidden_layers=2,
        hidden_size=64,
        intermediate_size=128,
        num_attention_heads=4,
        vocab_size=97,
        tie_word_embeddings=tied,
        bos_token_id=0,
        eos_token_id=1,
    )
    model = LlamaForCausalLM(config).eval()
    return model, [texts(length) for _ in range(4)]


def bert() -> tuple[nn.Module, list[dict]]:
    """A BERT of one layer, which is not causal, and two batches of two sentences."""
    declare_missing_torchvision_operators()
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(
        num_hidden_layers=1,
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=2,
        vocab_size=97,
    )
    return BertModel(config).eval(), [{"input_ids": texts(20)["input_ids"]} for _ in range(2)]


def texts(length: int) -> dict:
    ids = torch.randint(2, 97, (2, length))
    return {"input_ids": ids, "labels": ids}
