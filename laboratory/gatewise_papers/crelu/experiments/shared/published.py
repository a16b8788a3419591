"""Words and numbers of the paper: Shang, Sohn, Almeida and Lee, 2016, arXiv:1603.05201."""

FIRST_LAYER_PAIRS = (
    "in the first layer the correlations with the partner are centred far below those of "
    "random filters (Figure 2)"
)
RANDOM_NEAR_ZERO = (
    "the mean of random filters' correlations is only slightly negative (section 2.1)"
)
PAIRING_LESSENS = "the centre shifts towards zero gradually when going deeper (Figure 2)"

POOLING_BOUND = (
    "the reconstruction ratio is at most the root of the largest kept eigenvalue over the least "
    "present one, less 1 (Theorem 2.2)"
)
TIGHTER_POOLING_BOUND = (
    "the reconstruction ratio is at most the root of 1 less the least present eigenvalue over the "
    "largest kept one (not in the paper)"
)
COMPLEXITY_BOUND = (
    "CReLU and a linear map have a Rademacher complexity of at most sqrt(d) B times that of the "
    "class (Theorem 4.1)"
)

BETTER_AT_EQUAL_FILTERS = "CReLU has lower test errors than ReLU with as many filters (Table 1)"
BETTER_AT_EQUAL_NEURONS = (
    "CReLU has lower test errors than ReLU with as many neurons and twice the parameters (Table 1)"
)
SMALLER_GAP = "the gap between train and test error is smaller with CReLU than with ReLU (Table 1)"
CAPACITY_HELPS_CIFAR_100 = "on CIFAR-100 larger networks are better, with both units (Table 1)"
Errors = dict[tuple[str, str], dict[str, float]]  # by data set and form, in per cent
# Single (train, test), average with its standard error, vote.
_COLUMNS: tuple[str, ...] = ("train", "test", "average", "average's standard", "vote")
TABLE1: Errors = {
    ("cifar10", "ReLU"): dict(zip(_COLUMNS, (1.09, 9.17, 10.20, 0.09, 7.55), strict=True)),
    ("cifar10", "ReLU, double"): dict(zip(_COLUMNS, (0.47, 8.65, 9.87, 0.09, 7.28), strict=True)),
    ("cifar10", "CReLU"): dict(zip(_COLUMNS, (4.23, 8.43, 9.39, 0.11, 7.09), strict=True)),
    ("cifar10", "CReLU, half"): dict(zip(_COLUMNS, (4.73, 8.37, 9.44, 0.09, 7.09), strict=True)),
    ("cifar100", "ReLU"): dict(zip(_COLUMNS, (13.68, 36.30, 38.52, 0.12, 31.26), strict=True)),
    ("cifar100", "ReLU, double"): dict(
        zip(_COLUMNS, (6.03, 34.77, 36.73, 0.15, 28.34), strict=True)
    ),
    ("cifar100", "CReLU"): dict(zip(_COLUMNS, (14.25, 31.48, 33.76, 0.12, 27.60), strict=True)),
    ("cifar100", "CReLU, half"): dict(
        zip(_COLUMNS, (21.01, 33.68, 36.20, 0.18, 29.93), strict=True)
    ),
}

MILLIONS = {
    "ReLU": 1.4,
    "ReLU, double": 5.6,
    "CReLU": 2.8,
    "CReLU, half": 0.7,
    "AllConvB": 9.4,
    "CReLU (all)": 4.7,
    "CReLU (conv1,4,7)": 8.6,
    "CReLU (conv1-4)": 10.1,
}
MILLIONS_IN_TEXT = 4.6  # of CReLU (all), for which Table 5 has 4.7

LEARNED_SPAN_MORE = "learned filters give back more of a layer's input than random ones (Table 6)"
RANDOM_RECOVER_LITTLE = "random filters give back only 1 % of it: a ratio of 0.99 (Table 6)"
TABLE6 = {  # by data set, layer and kind of filters; CIFAR-100's are not legible in our copy
    ("cifar10", "conv2", "learned"): 0.92,
    ("cifar10", "conv2", "random"): 0.99,
    ("cifar10", "conv5", "learned"): 0.96,
    ("cifar10", "conv5", "random"): 0.99,
}

CRELU_MORE_INVARIANT = (
    "invariance scores with CReLU are higher than with ReLU at every layer (Figure 4)"
)
POOLING_MORE_INVARIANT = (
    "scores rise after max-pooling: from conv2 to conv3, and from conv4 to conv6 (Figure 4)"
)
RISES_UNEVENLY = "scores rise with depth in general, but not monotonically (Figure 4)"

CRELU_DOES_NOT_PAIR = (
    "with CReLU the correlations with the partner align with those of random filters (Figure 5)"
)
PAIRS_VANISH = "the pairs of the network with ReLU vanish with CReLU (section 4.3)"
REASONABLE_IMAGES = "the features of conv1 to conv4 give back reasonable images (Figure 6)"

EARLY_CRELU_HELPS = "CReLU after the first convolutions lowers VGG's test error (Table 2)"
FEWER_PARAMETERS = "half the filters there make fewer parameters (section 3.1)"
_COLUMNS2: tuple[str, ...] = ("test", "average", "average's standard", "vote")
TABLE2: Errors = {
    ("cifar10", "VGG"): dict(zip(_COLUMNS2, (6.35, 6.90, 0.03, 5.43), strict=True)),
    ("cifar10", "conv1"): dict(zip(_COLUMNS2, (6.18, 6.45, 0.05, 5.22), strict=True)),
    ("cifar10", "conv1,3"): dict(zip(_COLUMNS2, (5.94, 6.45, 0.02, 5.09), strict=True)),
    ("cifar10", "conv1,3,5"): dict(zip(_COLUMNS2, (6.06, 6.45, 0.07, 5.16), strict=True)),
    ("cifar100", "VGG"): dict(zip(_COLUMNS2, (28.99, 30.27, 0.09, 26.85), strict=True)),
    ("cifar100", "conv1"): dict(zip(_COLUMNS2, (27.29, 28.43, 0.11, 24.67), strict=True)),
    ("cifar100", "conv1,3"): dict(zip(_COLUMNS2, (26.52, 27.79, 0.08, 23.93), strict=True)),
    ("cifar100", "conv1,3,5"): dict(zip(_COLUMNS2, (26.16, 27.67, 0.07, 23.66), strict=True)),
}

FIRST_FOUR_BEST = (
    "integrating CReLU into conv1-4 has the lowest errors of a centre crop (Table 4: 39.82 and "
    "18.28 %; the baseline 41.81 and 19.74 %)"
)
EVERY_CRELU_BETTER = "every network with CReLU has lower errors than the baseline (Table 4)"
# Table 4: top-1 and top-5 error in per cent on ImageNet, of a centre crop and of the mean scores of
# ten patches.
TABLE4: dict[str, tuple[float, float, float, float]] = {
    "baseline": (41.81, 19.74, 38.03, 17.17),
    "CReLU (all)": (40.93, 19.39, 37.28, 16.72),
    "CReLU (conv1,4,7)": (40.45, 18.58, 35.70, 15.32),
    "CReLU (conv1-4)": (39.82, 18.28, 36.20, 15.72),
    "CReLU (conv1-7)": (39.97, 18.33, 36.53, 16.01),
    "CReLU (conv1-9)": (40.15, 18.58, 36.50, 16.14),
}
