"""The residual networks of the IIEU paper."""

from gatewise_papers.iieu.networks import dense as dense
from gatewise_papers.iieu.networks import mobilenet_v2 as mobilenet_v2
from gatewise_papers.iieu.networks import resnet as resnet
from gatewise_papers.iieu.networks import resnet_cifar as resnet_cifar
from gatewise_papers.iieu.networks import shufflenet_v2 as shufflenet_v2
from gatewise_papers.iieu.networks import wide_resnet as wide_resnet
from gatewise_papers.iieu.networks.dense import RetinaNet as RetinaNet
from gatewise_papers.iieu.networks.dense import anchor_boxes as anchor_boxes
from gatewise_papers.iieu.networks.dense import box_iou as box_iou
from gatewise_papers.iieu.networks.dense import box_offsets as box_offsets
from gatewise_papers.iieu.networks.dense import moved_boxes as moved_boxes
from gatewise_papers.iieu.networks.dense import suppress as suppress
