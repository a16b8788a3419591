"""Words and numbers of the paper: Lin et al., 2021, "Phase Selective Convolution", supplement."""

from fractions import Fraction

BEST_WEIGHT = BEST_BIAS = Fraction(2, 5)
LOWER_BOUND = Fraction(2, 15)
BOUND_HOLDS = (
    "w ReLU(x) + b cannot fit |x| on [-1, 1] with a squared error below 2/15 (supplement B)"
)
PHASES_FIT = "with a weight for each phase the error is 0 (section 3.1)"
EQUAL_PARAMETERS = (
    "the rank NM / (2 (N + M)) gives two compressed weights the parameters of a plain one "
    "(supplement A)"
)
LESS_FREEDOM = (
    "the sum of ranks, NM / (N + M), is strictly less than that of the gating approach, min(N, M)"
)

# The supplement has no trained network. These are the questions that it leaves open.
BETTER_THAN_RELU = "question: all forms of PSC are better than ReLU at equal parameters"
BETTER_THAN_CRELU = "question: all forms of PSC are better than CReLU at equal parameters"
