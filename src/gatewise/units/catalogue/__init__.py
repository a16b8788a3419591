"""The catalogue: one unit per file.

Importing a file registers its unit. To add a unit, add its file and one import line here.
"""

from gatewise.units.catalogue.abs import Abs as Abs
from gatewise.units.catalogue.acon_c import ACONC as ACONC
from gatewise.units.catalogue.beta_vq import BetaVQ as BetaVQ
from gatewise.units.catalogue.bilinear import Bilinear as Bilinear
from gatewise.units.catalogue.celu import CELU as CELU
from gatewise.units.catalogue.clamped_swiglu import ClampedSwiGLU as ClampedSwiGLU
from gatewise.units.catalogue.crelu import CReLU as CReLU
from gatewise.units.catalogue.dyt import DyT as DyT
from gatewise.units.catalogue.elu import ELU as ELU
from gatewise.units.catalogue.erfact import ErfAct as ErfAct
from gatewise.units.catalogue.frelu import FReLU as FReLU
from gatewise.units.catalogue.geglu import GEGLU as GEGLU
from gatewise.units.catalogue.gelu import GELU as GELU
from gatewise.units.catalogue.gelu_tanh import GELUTanh as GELUTanh
from gatewise.units.catalogue.glu import GLU as GLU
from gatewise.units.catalogue.hardsigmoid import Hardsigmoid as Hardsigmoid
from gatewise.units.catalogue.hardswish import Hardswish as Hardswish
from gatewise.units.catalogue.hardtanh import Hardtanh as Hardtanh
from gatewise.units.catalogue.iieu_b import IIEUB as IIEUB
from gatewise.units.catalogue.jump_relu import JumpReLU as JumpReLU
from gatewise.units.catalogue.leaky_crelu import LeakyCReLU as LeakyCReLU
from gatewise.units.catalogue.leaky_relu import LeakyReLU as LeakyReLU
from gatewise.units.catalogue.leaky_relu2 import LeakyReLU2 as LeakyReLU2
from gatewise.units.catalogue.logsigmoid import LogSigmoid as LogSigmoid
from gatewise.units.catalogue.maxout import Maxout as Maxout
from gatewise.units.catalogue.meta_acon import MetaACON as MetaACON
from gatewise.units.catalogue.mish import Mish as Mish
from gatewise.units.catalogue.pau import PAU as PAU
from gatewise.units.catalogue.prelu import PReLU as PReLU
from gatewise.units.catalogue.pserf import Pserf as Pserf
from gatewise.units.catalogue.pwlu import PWLU as PWLU
from gatewise.units.catalogue.reglu import ReGLU as ReGLU
from gatewise.units.catalogue.relu import ReLU as ReLU
from gatewise.units.catalogue.relu2 import ReLU2 as ReLU2
from gatewise.units.catalogue.relu6 import ReLU6 as ReLU6
from gatewise.units.catalogue.selu import SELU as SELU
from gatewise.units.catalogue.sigmoid import Sigmoid as Sigmoid
from gatewise.units.catalogue.silu import SiLU as SiLU
from gatewise.units.catalogue.situ_glu import SiTUGLU as SiTUGLU
from gatewise.units.catalogue.smu import SMU as SMU
from gatewise.units.catalogue.smu1 import SMU1 as SMU1
from gatewise.units.catalogue.soft_relu import SoftReLU as SoftReLU
from gatewise.units.catalogue.softplus import Softplus as Softplus
from gatewise.units.catalogue.softsign import Softsign as Softsign
from gatewise.units.catalogue.star_relu import StarReLU as StarReLU
from gatewise.units.catalogue.swiglu import SwiGLU as SwiGLU
from gatewise.units.catalogue.swish import Swish as Swish
from gatewise.units.catalogue.tanh import Tanh as Tanh
from gatewise.units.catalogue.tanhshrink import Tanhshrink as Tanhshrink
from gatewise.units.catalogue.telu import TeLU as TeLU
from gatewise.units.catalogue.threshold import Threshold as Threshold
from gatewise.units.catalogue.xielu import XIELU as XIELU
from gatewise.units.contract import registered_units as _registered_units

# Only the classes: a wildcard import without this list would also bring the modules.
__all__ = [  # pyright: ignore[reportUnsupportedDunderAll] - the imports above are the list
    unit.module.__name__ for unit in _registered_units().values()
]
