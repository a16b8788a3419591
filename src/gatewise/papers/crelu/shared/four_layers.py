"""The network in the place of the paper's best one.

CReLU after the first four convolutions, none of them pooled.

All-CNN-B reads images of 227 pixels, and ImageNet is not to be had here. largeCNN reads CIFAR's,
and like All-CNN-B it has a stride in its third convolution and no pooling in the first four.
"""

from gatewise.papers.crelu.shared.training import Form

MODEL = "large_cnn"
AT = (1, 2, 3, 4)
FORMS = {"CReLU": Form("crelu", {"at": AT, "filters": "same"}), "ReLU": Form("relu", {})}
DATA = "cifar10"
INSTEAD = "largeCNN on CIFAR-10 in the place of All-CNN-B on ImageNet"
