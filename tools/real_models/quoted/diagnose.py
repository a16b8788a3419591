"""What the gates of EfficientNet-Lite0 do on photographs."""

from real_models.catalogue import model_named

import gatewise as gw

loaded = model_named("EfficientNet-Lite0").load()
model, photographs = loaded.model, [images for images, _ in loaded.batches]
# quoted from here
print(gw.diagnose(model, photographs))  # EfficientNet-Lite0, 100 views of 20 photographs
