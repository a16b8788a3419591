"""The nonlinearities, one file each. Adding a unit is one file and one import line here."""

from gatewise.units._create import create as create
from gatewise.units._module import TrainableUnit as TrainableUnit
from gatewise.units._module import UnitModule as UnitModule
from gatewise.units._spec import FAMILIES as FAMILIES
from gatewise.units._spec import PAPERS as PAPERS
from gatewise.units._spec import Bound as Bound
from gatewise.units._spec import Limits as Limits
from gatewise.units._spec import Promise as Promise
from gatewise.units._spec import Unit as Unit
from gatewise.units._spec import find_unit as find_unit
from gatewise.units._spec import promise as promise
from gatewise.units._spec import unit as unit
from gatewise.units._spec import unit_facts as unit_facts
from gatewise.units._spec import units as units
from gatewise.units.abs import Abs as Abs
from gatewise.units.acon_c import ACONC as ACONC
from gatewise.units.beta_vq import BetaVQ as BetaVQ
from gatewise.units.crelu import CReLU as CReLU
from gatewise.units.elu import ELU as ELU
from gatewise.units.erfact import ErfAct as ErfAct
from gatewise.units.frelu import FReLU as FReLU
from gatewise.units.gelu import GELU as GELU
from gatewise.units.iieu_b import IIEUB as IIEUB
from gatewise.units.leaky_relu import LeakyReLU as LeakyReLU
from gatewise.units.maxout import Maxout as Maxout
from gatewise.units.meta_acon import MetaACON as MetaACON
from gatewise.units.mish import Mish as Mish
from gatewise.units.pau import PAU as PAU
from gatewise.units.prelu import PReLU as PReLU
from gatewise.units.pserf import Pserf as Pserf
from gatewise.units.pwlu import PWLU as PWLU

# isort: off: the catalogue's order, by family
from gatewise.units.relu import ReLU as ReLU
from gatewise.units.silu import SiLU as SiLU
from gatewise.units.smu import SMU as SMU
from gatewise.units.smu1 import SMU1 as SMU1
from gatewise.units.soft_relu import SoftReLU as SoftReLU
from gatewise.units.softplus import Softplus as Softplus
from gatewise.units.swish import Swish as Swish
