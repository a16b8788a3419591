"""Words and numbers of the paper: Lakshminarayanan and Singh, 2020, "Deep Gated Networks"."""

WIDER_IS_NEARER_IDEAL = (
    "the cumulative eigenvalues of the wider network are nearer to the ideal ones (Figure 1)"
)
ENTRIES_FOLLOW_IDEAL = "diagonal and other entries of K_0 follow equation 5 (Figure 2)"
DEPTH_HELPS_RANDOM = "with random gates, training converges faster with depth (Figure 3)"
DEPTH_HURTS_NARROW = "at a fixed width, depth beyond a point hurts (section 2)"
DEPTH_HELPS_GALU = "with GaLU gates, convergence gets better with depth (Figure 4)"
DEPTH_WHITENS_GALU = "with GaLU gates, the cumulative eigenvalues get better with depth (Figure 4)"
GALU_OPTIMISES_BETTER = "GaLU networks optimise better than ReLU networks (Figure 4)"
GALU_SPECTRUM_BETTER = (
    "the cumulative eigenvalues of GaLU networks are better than those of ReLU networks (Figure 4)"
)
GALU_TRAINS_FASTER = "GaLU trains a bit faster than ReLU (Figure 5)"
RELU_GENERALISES_BETTER = "ReLU generalises better than GaLU on MNIST (Figure 5)"
MNIST_TEST_RELU, MNIST_TEST_GALU = 0.985, 0.965
NU_FALLS = "nu of the normalised path features falls during training (Figure 6)"
ADAPTING_BEATS_FROZEN_GATES = (
    "the three networks with adaptable gates generalise better than frozen GaLU (Experiment 3)"
)
ADAPTING_BEATS_SAME_START = (
    "a ReLU network generalises better than one whose gates stay at its start (Experiment 4)"
)
LEARNED_BEATS_UNLEARNED = (
    "GaLU with learned gates generalises better than with unlearned ones (Experiment 5)"
)
NU_SMALLER_ADAPTING = "nu is smaller where gates adapt than where they are frozen (Figure 8)"
NU_SMALLER_LEARNED = "nu is smaller with learned gates than with unlearned ones (Figure 8)"
SAME_RATE_AT_ANY_DEPTH = "with step size 0.1/d the error falls alike at every depth (Experiment 8)"
FASTER_THAN_IDEAL = "the error falls faster than by 0.81 a step, because K_t grows (Experiment 8)"
IDEAL_RATIO = 0.81
GATES_ALONE_LEARN = "a network learns from its gates alone, with frozen weights (Experiment 6)"
GATES_ALONE_REACH = "training the gates alone gives 56 % test accuracy on CIFAR-10 (Experiment 6)"
ONLY_GATES_TEST = 0.56
# Table 4: training and test accuracy on CIFAR-10; of soft-ReLU by (beta, eps).
LINEAR_ACCURACY, RELU_ACCURACY = (0.5042, 0.3939), (0.99, 0.71)
SOFT_RELU_TEST = {
    (1, 0.1): 0.59,
    (2, 0.1): 0.64,
    (4, 0.1): 0.68,
    (8, 0.1): 0.71,
    (12, 0.1): 0.71,
    (16, 0.1): 0.72,
    (20, 0.1): 0.72,
    (24, 0.1): 0.72,
    (1, 0.4): 0.56,
    (2, 0.4): 0.63,
    (4, 0.4): 0.68,
    (8, 0.4): 0.71,
    (12, 0.4): 0.71,
    (16, 0.4): 0.71,
    (20, 0.4): 0.71,
    (24, 0.4): 0.71,
}
SOFT_RELU_TRAIN = 0.99  # at every beta and eps
SOFT_IS_COMPARABLE = (
    "at moderately high beta soft-ReLU generalises as ReLU does (72 and 71 %; Experiment 7)"
)
STEEPER_IS_BETTER = (
    "soft-ReLU generalises better with a larger beta (59 % at beta 1, 72 % at 16, eps 0.1; Table 4)"
)
LINEAR_IS_WORST = (
    "the deep linear network generalises worst (39 %; ReLU 71, soft-ReLU 56 to 72 %; Table 4)"
)
