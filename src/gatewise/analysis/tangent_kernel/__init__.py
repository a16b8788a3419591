"""gatewise.analysis.tangent_kernel."""

from gatewise.analysis.tangent_kernel.arguments import choose_parameters as choose_parameters
from gatewise.analysis.tangent_kernel.execution_plan import plan as plan
from gatewise.analysis.tangent_kernel.gram import LONGEST as LONGEST
from gatewise.analysis.tangent_kernel.gram import Linear as Linear
from gatewise.analysis.tangent_kernel.gram import Pairs as Pairs
from gatewise.analysis.tangent_kernel.gram import inner as inner
from gatewise.analysis.tangent_kernel.jacobian import Jacobians as Jacobians
from gatewise.analysis.tangent_kernel.kernel import ntk as ntk
from gatewise.analysis.tangent_kernel.kernel import ntk_routes as ntk_routes
from gatewise.analysis.tangent_kernel.model_state import prepared as prepared
from gatewise.analysis.tangent_kernel.plain_models import is_plain as is_plain
from gatewise.analysis.tangent_kernel.winograd_backward import BackByTiles as BackByTiles
from gatewise.analysis.tangent_kernel.winograd_backward import back_by_tiles as back_by_tiles
