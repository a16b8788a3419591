"""The papers' networks, built from layers and units: any unit goes into any of them, or they say why not."""

from gatewise.models._block import unit_places as unit_places
from gatewise.models._catalogue import Model as Model
from gatewise.models._catalogue import find_model as find_model
from gatewise.models._catalogue import model as model
from gatewise.models._catalogue import models as models
from gatewise.models.all_cnn import all_cnn as all_cnn
from gatewise.models.all_cnn import all_cnn_crelu as all_cnn_crelu
from gatewise.models.convpool_cnn import convpool_cnn as convpool_cnn
from gatewise.models.large_cnn import large_cnn as large_cnn
from gatewise.models.mobilenet_v2 import mobilenet_v2 as mobilenet_v2
from gatewise.models.resnet import resnet as resnet
from gatewise.models.resnet_cifar import resnet_cifar as resnet_cifar
from gatewise.models.shufflenet_v2 import shufflenet_v2 as shufflenet_v2
from gatewise.models.small import mlp as mlp
from gatewise.models.small import small_cnn as small_cnn
from gatewise.models.vgg_cifar import vgg_cifar as vgg_cifar
from gatewise.models.wide_resnet import wide_resnet as wide_resnet
