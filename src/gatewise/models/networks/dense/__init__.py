"""Networks of dense prediction on a ResNet: segmentation and detection."""

from gatewise.models.networks.dense import retinanet as retinanet
from gatewise.models.networks.dense import segmenter as segmenter
from gatewise.models.networks.dense.boxes import anchor_boxes as anchor_boxes
from gatewise.models.networks.dense.boxes import box_iou as box_iou
from gatewise.models.networks.dense.boxes import box_offsets as box_offsets
from gatewise.models.networks.dense.boxes import moved_boxes as moved_boxes
from gatewise.models.networks.dense.boxes import suppress as suppress
from gatewise.models.networks.dense.retinanet import RetinaNet as RetinaNet
