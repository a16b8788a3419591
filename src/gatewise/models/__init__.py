"""Small networks for images, rows and text, built from layers and units.

Any unit can be placed in any of them. Where a unit does not fit, an error says why.
"""

from gatewise.models import networks as networks
from gatewise.models.blocks import Block as Block
from gatewise.models.blocks import phase_layers as phase_layers
from gatewise.models.blocks import unit_places as unit_places
from gatewise.models.catalogue import Model as Model
from gatewise.models.catalogue import create_model as create_model
from gatewise.models.catalogue import get_model as get_model
from gatewise.models.catalogue import list_models as list_models
from gatewise.models.catalogue import network as network
from gatewise.models.catalogue import registered_models as registered_models
