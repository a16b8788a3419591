"""Data of dense prediction: masks to segment and boxes to detect."""

from gatewise_papers.iieu.data import coco as coco
from gatewise_papers.iieu.data import imagenet as imagenet
from gatewise_papers.iieu.data import kitti_materials as kitti_materials
from gatewise_papers.iieu.data import shapes as shapes
from gatewise_papers.iieu.data.labels import AREA as AREA
from gatewise_papers.iieu.data.labels import BOX as BOX
from gatewise_papers.iieu.data.labels import CLASS as CLASS
from gatewise_papers.iieu.data.labels import COLUMNS as COLUMNS
from gatewise_papers.iieu.data.labels import CROWD as CROWD
from gatewise_papers.iieu.data.labels import IGNORED as IGNORED
from gatewise_papers.iieu.data.labels import NO_OBJECT as NO_OBJECT
from gatewise_papers.iieu.data.labels import SCALE as SCALE
from gatewise_papers.iieu.data.labels import mirror_boxes as mirror_boxes
from gatewise_papers.iieu.data.labels import mirror_masks as mirror_masks
from gatewise_papers.iieu.data.shapes import SHAPES as SHAPES
from gatewise_papers.iieu.data.shapes import DrawnShapes as DrawnShapes
from gatewise_papers.iieu.data.shapes import draw_shapes as draw_shapes
