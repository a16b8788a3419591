"""Judge comparisons in which every unit is trained at every learning rate with every seed.

See Note [The factorial rule].
"""

from gatewise.stats.factorial.grid import EDGE_ROUNDS as EDGE_ROUNDS
from gatewise.stats.factorial.grid import FEWEST_RATES as FEWEST_RATES
from gatewise.stats.factorial.grid import equal_ratios as equal_ratios
from gatewise.stats.factorial.grid import grid_steps as grid_steps
from gatewise.stats.factorial.grid import planned_steps as planned_steps
from gatewise.stats.factorial.runs import FactorialRuns as FactorialRuns
from gatewise.stats.factorial.schedule import FIRST_SEEDS as FIRST_SEEDS
from gatewise.stats.factorial.schedule import Progress as Progress
from gatewise.stats.factorial.schedule import factorial_progress as factorial_progress
from gatewise.stats.factorial.single_rates import judge_single_rates as judge_single_rates
from gatewise.stats.factorial.verdicts import FactorialVerdicts as FactorialVerdicts
from gatewise.stats.factorial.verdicts import judge_factorial as judge_factorial
from gatewise.stats.factorial.verdicts import paired_t as paired_t
