"""The networks of the catalogue, one file each. Importing a file registers its networks."""

from gatewise.models.networks import all_cnn as all_cnn
from gatewise.models.networks import convpool_cnn as convpool_cnn
from gatewise.models.networks import decoder as decoder
from gatewise.models.networks import deep_gated as deep_gated
from gatewise.models.networks import dense as dense
from gatewise.models.networks import fast_cifar as fast_cifar
from gatewise.models.networks import large_cnn as large_cnn
from gatewise.models.networks import mobilenet_v2 as mobilenet_v2
from gatewise.models.networks import resnet as resnet
from gatewise.models.networks import resnet_cifar as resnet_cifar
from gatewise.models.networks import shufflenet_v2 as shufflenet_v2
from gatewise.models.networks import signal_cnn as signal_cnn
from gatewise.models.networks import small as small
from gatewise.models.networks import vgg_cifar as vgg_cifar
from gatewise.models.networks import wide_resnet as wide_resnet
from gatewise.models.networks.dense import RetinaNet as RetinaNet
from gatewise.models.networks.dense import anchor_boxes as anchor_boxes
from gatewise.models.networks.dense import box_iou as box_iou
from gatewise.models.networks.dense import box_offsets as box_offsets
from gatewise.models.networks.dense import moved_boxes as moved_boxes
from gatewise.models.networks.dense import suppress as suppress
