"""A swap into SmolLM2 that keeps what it computes."""

from transformers import AutoModelForCausalLM, AutoTokenizer

import gatewise as gw

file = "SmolLM2-135M-Instruct.Q4_1.gguf"
model = AutoModelForCausalLM.from_pretrained(".", gguf_file=file)
tokenizer = AutoTokenizer.from_pretrained(".", gguf_file=file)
tokens = tokenizer("An activation function is a gate.", return_tensors="pt")

wide = gw.swap(model, "concat_act", dict(tokens))  # a copy that computes the same, ready to train
print(gw.receipt(wide))
