"""Words and numbers of the paper: Cai, 2023, "IIEU", ICCV, supplement."""

# Tables 1 and 2, in this order: lowest training loss, its epoch, first epochs below 3.0, 2.5 and
# 2.0, top-1 in percent.
CONVERGENCE_METRICS: tuple[str, ...] = (
    "lowest",
    "lowest_at",
    "below_3.0",
    "below_2.5",
    "below_2.0",
    "top1",
)
CONVERGENCE: dict[int, dict[str, tuple[float | None, ...]]] = {
    14: {
        "ReLU": (2.74, 119, 98, None, None, 68.7),
        "LkReLU": (2.72, 122, 98, None, None, 68.8),
        "GELU": (2.66, 122, 93, None, None, 69.6),
        "SiLU": (2.66, 120, 93, None, None, 69.6),
        "Swish": (2.65, 117, 91, None, None, 69.9),
        "ELU": (2.71, 119, 98, None, None, 69.1),
        "Softplus": (2.67, 122, 94, None, None, 69.5),
        "Pserf": (2.66, 117, 93, None, None, 69.4),
        "Mish": (2.66, 122, 93, None, None, 69.4),
        "ACON-C": (2.61, 121, 91, None, None, 69.0),
        "Meta-ACON": (2.43, 117, 79, 112, None, 70.4),
        "SMU-1": (2.75, 117, 99, None, None, 68.5),
        "SMU": (2.63, 119, 91, None, None, 70.0),
        "IIEU-B": (2.21, 130, 57, 97, None, 73.2),
        "IIEU-DC": (2.07, 124, 44, 90, None, 74.8),
    },
    26: {
        "ReLU": (2.26, 119, 68, 102, None, 74.9),
        "LkReLU": (2.24, 121, 65, 100, None, 74.9),
        "GELU": (2.18, 119, 57, 96, None, 75.7),
        "SiLU": (2.16, 119, 53, 96, None, 75.8),
        "Swish": (2.15, 119, 53, 96, None, 76.1),
        "ELU": (2.20, 119, 60, 99, None, 75.5),
        "Softplus": (2.19, 117, 60, 99, None, 75.7),
        "Pserf": (2.19, 119, 57, 98, None, 75.7),
        "Mish": (2.17, 120, 56, 96, None, 75.8),
        "ACON-C": (2.19, 122, 62, 99, None, 75.6),
        "Meta-ACON": (2.05, 126, 46, 90, None, 76.5),
        "SMU-1": (2.31, 119, 75, 106, None, 75.1),
        "SMU": (2.15, 119, 53, 95, None, 76.1),
        "IIEU-B": (1.86, 124, 23, 74, 107, 77.7),
        "IIEU-DC": (1.80, 126, 20, 71, 104, 78.7),
    },
}
BETTER_IN_SMALL = (
    "IIEU-B is more accurate than ReLU (Tables 1 and 2; here in a network of other design)"
)
RELU_TOP_1 = {14: 0.687, 26: 0.749}
LOWEST_LOSS = "IIEU-B and IIEU-DC reach clearly lower training losses than all others (section E.1)"
FASTEST = (
    "IIEU-B and IIEU-DC reach each loss threshold in fewer epochs than all others (section E.1)"
)
HIGHEST_EVERYWHERE = (
    "IIEU-B and IIEU-DC have the highest top-1 accuracies on MobileNetV2 and ShuffleNetV2 (E.1)"
)
LOWEST_EVERYWHERE = (
    "IIEU-B and IIEU-DC have the lowest losses on MobileNetV2 and ShuffleNetV2 (section E.1)"
)
HIGHEST_ACCURACY = {
    14: "IIEU-B and IIEU-DC have the highest accuracies "
    "(ImageNet: 73.2, 74.8 %; ReLU 68.7, best other 70.4 %)",
    26: "IIEU-B and IIEU-DC have the highest accuracies "
    "(ImageNet: 77.7, 78.7 %; ReLU 74.9, best other 76.5 %)",
}

# Table 3: parameters in millions, FLOPs in thousand millions, by depth; one decimal is printed.
SIZES: dict[str, dict[int, tuple[float, float]]] = {
    "ReLU": {14: (10.1, 1.5), 26: (16.0, 2.4), 50: (25.6, 4.1)},
    "IIEU-B": {14: (10.1, 1.5), 26: (16.0, 2.4), 50: (25.6, 4.2)},
    "IIEU-DC": {14: (10.8, 1.5), 26: (17.5, 2.4), 50: (28.3, 4.2)},
}
SIZES_AS_PRINTED = "parameters and FLOPs of the nine networks, to one decimal (Table 3)"
FEW_PARAMETERS = "IIEU-B adds about 0.3 % to the parameters of the ReLU networks (section E.2)"
FEW_OPERATIONS = "IIEU-B adds about 1.3 % to the FLOPs of the ReLU networks (section E.2)"

# Table 4: top-1 in percent, mean and deviation, CIFAR-100 with ResNet-56.
TERM_B: dict[str, tuple[float, float]] = {
    "layer norm": (77.2, 0.3),
    "group norm, G=C": (76.4, 0.2),
    "group norm, G=4": (76.9, 0.2),
    "group norm, G=2": (77.0, 0.3),
    "batch norm": (75.4, 0.3),
    "blank": (76.6, 0.3),
    "ReLU": (74.4, 0.3),
}
LAYER_NORM_BEST = (
    "layer norm has the highest accuracy of all groups (77.2 %; the next, G=2, 77.0 %)"
)
ALL_BEAT_RELU = (
    "every form of term-B is better than the ReLU baseline (75.4 to 77.2 against 74.4 %)"
)
BLANK_BEATS_BATCH = "the blank group is better than batch norm (76.6 against 75.4 %)"
ONE_GROUP_EACH_WORSE = (
    "group norm with G=C is worse than with 2 and 4 groups (76.4 against 77.0 and 76.9 %)"
)

# Table 5: images a second of ResNet-26 on one A100, parameters in millions, FLOPs in thousand
# millions, by unit.
THROUGHPUT = {
    "relu": 4688.4,
    "silu": 4559.5,
    "meta_acon": 3449.1,
    "pserf": 3417.8,
    "smu": 3444.6,
    "iieu_b": 3630.3,
}
PARAMETERS = {
    "relu": 16.0,
    "silu": 16.0,
    "meta_acon": 16.1,
    "pserf": 16.0,
    "smu": 16.0,
    "iieu_b": 16.0,
}
FLOPS = {"relu": 2.4, "silu": 2.4, "meta_acon": 2.4, "pserf": 2.4, "smu": 2.4, "iieu_b": 2.4}
SLOWER_THAN_COUNTED = (
    "IIEU-B loses more throughput than the FLOPs it adds, against ReLU and SiLU (section G)"
)
CLOSE_TO_OTHERS = (
    "IIEU-B's throughput is close to Meta-ACON's, Pserf's and SMU's "
    "(it is 5 to 6 % higher; section G)"
)

# Table 6: percent, RetinaNet on COCO. Parameters in millions.
DETECTION_METRICS: tuple[str, ...] = ("map", "ap50", "ap75", "ap_small", "ap_medium", "ap_large")
_DETECTION_NUMBERS: dict[str, tuple[float, ...]] = {
    "ReLU": (36.7, 56.0, 39.3, 21.0, 40.2, 48.2),
    "Swish": (37.2, 56.3, 39.9, 21.0, 41.1, 47.8),
    "Meta-ACON": (36.5, 55.9, 38.9, 19.9, 40.7, 50.6),
    "SMU": (37.5, 56.6, 40.2, 21.5, 41.5, 48.4),
    "IIEU-B": (38.2, 58.2, 40.6, 23.2, 42.1, 49.2),
    "IIEU-DC": (38.6, 59.0, 40.8, 22.2, 42.6, 50.7),
}
DETECTION: dict[str, dict[str, float]] = {
    name: dict(zip(DETECTION_METRICS, numbers, strict=True))
    for name, numbers in _DETECTION_NUMBERS.items()
}
DETECTION_PARAMETERS = {
    "ReLU": 37.7,
    "Swish": 37.7,
    "Meta-ACON": 37.9,
    "SMU": 37.7,
    "IIEU-B": 37.7,
    "IIEU-DC": 40.4,
}
DETECTION_BETTER = (
    "IIEU-B and IIEU-DC have a higher mean average precision than ReLU, Swish, Meta-ACON and SMU "
    "(38.2, 38.6 %; the others 36.5 to 37.5 %; Table 6)"
)
DETECTION_AS_PRINTED = (
    "parameters with ReLU, Swish, SMU, IIEU-B and IIEU-DC, to one decimal (Table 6)"
)

# Table 7: percent, KITTI-Materials. Parameters in millions.
MATERIALS: dict[str, dict[str, float]] = {
    "ReLU": {"iou": 40.2},
    "Swish": {"iou": 41.2},
    "Meta-ACON": {"iou": 41.7},
    "SMU": {"iou": 40.6},
    "IIEU-B": {"iou": 42.4},
}
MATERIALS_PARAMETERS = {
    "ReLU": 31.7,
    "Swish": 31.7,
    "Meta-ACON": 31.9,
    "SMU": 31.7,
    "IIEU-B": 31.7,
}
MATERIALS_BETTER = (
    "IIEU-B has a higher mean IoU than ReLU, Swish, Meta-ACON and SMU "
    "(42.4 %; the others 40.2 to 41.7 %; Table 7)"
)
MATERIALS_AS_PRINTED = "parameters with ReLU, Swish, SMU and IIEU-B, to one decimal (Table 7)"
