"""Data of dense prediction: masks to segment and boxes to detect."""

from gatewise.data.dense import coco as coco
from gatewise.data.dense import kitti_materials as kitti_materials
from gatewise.data.dense.labels import AREA as AREA
from gatewise.data.dense.labels import BOX as BOX
from gatewise.data.dense.labels import CLASS as CLASS
from gatewise.data.dense.labels import COLUMNS as COLUMNS
from gatewise.data.dense.labels import CROWD as CROWD
from gatewise.data.dense.labels import IGNORED as IGNORED
from gatewise.data.dense.labels import NO_OBJECT as NO_OBJECT
from gatewise.data.dense.labels import SCALE as SCALE
from gatewise.data.dense.labels import mirror_boxes as mirror_boxes
from gatewise.data.dense.labels import mirror_masks as mirror_masks
from gatewise.data.dense.shapes import SHAPES as SHAPES
from gatewise.data.dense.shapes import DrawnShapes as DrawnShapes
from gatewise.data.dense.shapes import draw_shapes as draw_shapes
