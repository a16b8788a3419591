"""Half of the numbers inside SmolLM2 are skipped."""

from real_models.catalogue import model_named

import gatewise as gw

loaded = model_named("SmolLM2-135M").load()
model, text = loaded.model, loaded.batches
# quoted from here
sparse = gw.sparsify(model, text, target=0.5, levels=(), per_layer=False)
print(sparse)
