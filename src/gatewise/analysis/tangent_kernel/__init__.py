"""The empirical neural tangent kernel of any model."""

from gatewise.analysis.tangent_kernel.arguments import choose_parameters as choose_parameters
from gatewise.analysis.tangent_kernel.execution_plan import plan_kernel as plan_kernel
from gatewise.analysis.tangent_kernel.gram import LONGEST_SUM as LONGEST_SUM
from gatewise.analysis.tangent_kernel.gram import KernelBlock as KernelBlock
from gatewise.analysis.tangent_kernel.gram import LinearForm as LinearForm
from gatewise.analysis.tangent_kernel.gram import inner_products as inner_products
from gatewise.analysis.tangent_kernel.jacobian import Jacobians as Jacobians
from gatewise.analysis.tangent_kernel.kernel import ntk as ntk
from gatewise.analysis.tangent_kernel.kernel import ntk_routes as ntk_routes
from gatewise.analysis.tangent_kernel.model_state import prepared as prepared
