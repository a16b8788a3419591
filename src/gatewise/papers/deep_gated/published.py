"""What the paper says: Lakshminarayanan and Singh, 2020, "Deep Gated Networks". Its words and numbers, never ours."""

WIDER_IS_NEARER_IDEAL = "the cumulative eigenvalues of the wider network are nearer to the ideal ones (Figure 1)"
ENTRIES_FOLLOW_IDEAL = "diagonal and other entries of K_0 follow equation 5 (Figure 2)"
DEPTH_HELPS_RANDOM = "with random gates, training converges faster with depth (Figure 3)"
DEPTH_HURTS_NARROW = "at a fixed width, depth beyond a point hurts (section 2)"
DEPTH_HELPS_GALU = "with GaLU gates, convergence gets better with depth (Figure 4)"
DEPTH_WHITENS_GALU = "with GaLU gates, the cumulative eigenvalues get better with depth (Figure 4)"
GALU_OPTIMISES_BETTER = "GaLU networks optimise better than ReLU networks (Figure 4)"
GALU_SPECTRUM_BETTER = "the cumulative eigenvalues of GaLU networks are better than those of ReLU networks (Figure 4)"
GALU_TRAINS_FASTER = "GaLU trains a bit faster than ReLU (Figure 5)"
RELU_GENERALISES_BETTER = "ReLU generalises better than GaLU on MNIST (Figure 5)"
MNIST_TEST_RELU, MNIST_TEST_GALU = 0.985, 0.965
NU_FALLS = "nu of the normalised path features falls during training (Figure 6)"
ADAPTING_BEATS_FROZEN_GATES = (
    "the three networks with adaptable gates generalise better than frozen GaLU (Experiment 3)"
)
ADAPTING_BEATS_SAME_START = "a ReLU network generalises better than one whose gates stay at its start (Experiment 4)"
LEARNED_BEATS_UNLEARNED = "GaLU with learned gates generalises better than with unlearned ones (Experiment 5)"
NU_SMALLER_ADAPTING = "nu is smaller where gates adapt than where they are frozen (Figure 8)"
NU_SMALLER_LEARNED = "nu is smaller with learned gates than with unlearned ones (Figure 8)"
SAME_RATE_AT_ANY_DEPTH = "with step size 0.1/d the error falls alike at every depth (Experiment 8)"
FASTER_THAN_IDEAL = "the error falls faster than by 0.81 a step, because K_t grows (Experiment 8)"
IDEAL_RATIO = 0.81
