"""Networks of dense prediction on a ResNet: segmentation and detection."""

from gatewise_papers.iieu.networks.dense import retinanet as retinanet
from gatewise_papers.iieu.networks.dense import segmenter as segmenter
from gatewise_papers.iieu.networks.dense.boxes import anchor_boxes as anchor_boxes
from gatewise_papers.iieu.networks.dense.boxes import box_iou as box_iou
from gatewise_papers.iieu.networks.dense.boxes import box_offsets as box_offsets
from gatewise_papers.iieu.networks.dense.boxes import moved_boxes as moved_boxes
from gatewise_papers.iieu.networks.dense.boxes import suppress as suppress
from gatewise_papers.iieu.networks.dense.retinanet import RetinaNet as RetinaNet
