"""Words and numbers of the paper: Balestriero and Baraniuk, 2019, "From Hard to Soft"."""

RATES = (0.001, 0.0005, 0.0001)
# Table 2: accuracy in percent and its deviation over 5 runs, at these learning rates of Adam.
ACCURACY: dict[str, dict[str, tuple[tuple[float, float], ...]]] = {
    "SVHN": {
        "baseline": ((94.3, 0.1), (94.4, 0.1), (93.4, 0.0)),
        "ortho": ((94.6, 0.2), (95.0, 0.2), (93.8, 0.1)),
    },
    "CIFAR-10": {
        "baseline": ((80.3, 0.4), (80.2, 0.2), (76.2, 0.3)),
        "ortho": ((84.0, 0.3), (82.3, 0.1), (79.1, 0.2)),
    },
    "CIFAR-100": {
        "baseline": ((43.6, 0.2), (44.1, 0.4), (37.5, 0.5)),
        "ortho": ((46.1, 0.2), (46.3, 0.2), (42.1, 0.3)),
    },
}
GRAM_SCHMIDT = 61.2  # CIFAR-100, one run, swish
PENALTY_HELPS = (
    "the penalty on filters that are not orthogonal improves the accuracy "
    "at every learning rate on {}"
)
EXACT_IS_BEST = (
    "exactly orthogonal filters with swish are far better than all others on CIFAR-100 "
    "(61.2, at most 46.3 %)"
)
EXACT_BEATS_SWISH = (
    "exactly orthogonal filters are better with swish in both networks (a control: the paper "
    "compares with ReLU)"
)
BETA_BEATS_SWISH = (
    "the beta forms of leaky ReLU and the absolute value could outperform swish (section 6)"
)
SOME_NONCONVEX = "some of the forms between hard and linear are nonconvex (Figure 1)"
HARD_ROW = "hard vector quantisation gives ReLU and max-pooling (Table 1)"
SOFT_ROW = "soft vector quantisation gives SiLU and softmax-pooling (Table 1)"
BETA_ROW = "beta vector quantisation gives swish and beta-softmax-pooling (Table 1)"
