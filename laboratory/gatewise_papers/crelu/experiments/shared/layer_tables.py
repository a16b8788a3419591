"""The convolutions of tables S1, S2 and S7 to S12 as printed: kernel, channels in, filters."""

Layers = tuple[tuple[int, int, int], ...]

S1 = (
    (3, 3, 96),
    (3, 96, 96),
    (3, 96, 192),
    (3, 192, 192),
    (3, 192, 192),
    (3, 192, 192),
    (1, 192, 192),
    (1, 192, 10),
)
S1_DOUBLE = (
    (3, 3, 192),
    (3, 192, 192),
    (3, 192, 384),
    (3, 384, 384),
    (3, 384, 384),
    (3, 384, 384),
    (1, 384, 384),
    (1, 384, 10),
)
S2 = (
    (3, 3, 96),
    (3, 192, 96),
    (3, 192, 192),
    (3, 384, 192),
    (3, 384, 192),
    (3, 384, 192),
    (1, 384, 192),
    (1, 384, 10),
)
S2_HALF = (
    (3, 3, 48),
    (3, 96, 48),
    (3, 96, 48),
    (3, 96, 96),
    (3, 192, 96),
    (3, 192, 96),
    (1, 192, 96),
    (1, 192, 10),
)
# Correction: 0.7M parameters need a third convolution of 96 filters.
S2_HALF_MENDED = (*S2_HALF[:2], (3, 96, 96), (3, 192, 96), *S2_HALF[4:])

_TOP = ((3, 384, 1024), (1, 1024, 1024), (1, 1024, 1000))
S7 = (
    (11, 3, 96),
    (1, 96, 96),
    (3, 96, 96),
    (5, 96, 256),
    (1, 256, 256),
    (3, 256, 256),
    (3, 256, 384),
    (1, 384, 384),
    (3, 384, 384),
    *_TOP,
)
S8 = (
    (11, 3, 96),
    (1, 192, 96),
    (3, 192, 96),
    (5, 192, 256),
    (1, 512, 256),
    (3, 256, 256),
    (3, 256, 384),
    (1, 384, 384),
    (3, 384, 384),
    *_TOP,
)
S9 = (
    (11, 3, 96),
    (1, 192, 96),
    (3, 192, 96),
    (5, 192, 256),
    (1, 512, 256),
    (3, 512, 256),
    (3, 512, 384),
    (1, 768, 384),
    (3, 384, 384),
    *_TOP,
)
S10 = (
    (11, 3, 96),
    (1, 192, 96),
    (3, 192, 96),
    (5, 192, 256),
    (1, 512, 256),
    (3, 512, 256),
    (3, 512, 384),
    (1, 768, 384),
    (3, 768, 384),
    (3, 768, 1024),
    (1, 1024, 1024),
    (1, 1024, 1000),
)
S11 = (
    (11, 3, 48),
    (1, 96, 48),
    (3, 96, 48),
    (5, 96, 128),
    (1, 256, 128),
    (3, 256, 128),
    (3, 256, 192),
    (1, 384, 192),
    (3, 384, 192),
    (3, 384, 512),
    (1, 512, 512),
    (1, 512, 1000),
)
# Correction: the tenth layer's CReLU gives 1024 channels, and only an eleventh that reads them
# gives 4.7M parameters.
S11_MENDED = (*S11[:10], (1, 1024, 512), (1, 512, 1000))
S12 = (
    (11, 3, 48),
    (1, 96, 96),
    (3, 96, 96),
    (5, 96, 128),
    (1, 256, 256),
    (3, 256, 256),
    (3, 256, 192),
    (1, 384, 384),
    (3, 384, 384),
    *_TOP,
)


def parameters(layers: Layers) -> int:
    """Return the number of weights and biases of the convolutions."""
    return sum(kernel**2 * channels * filters + filters for kernel, channels, filters in layers)


def with_third_layer(layers: Layers) -> Layers:
    """Return the layers with one more convolution like the second.

    The network's own authors have three convolutions before the first pool.
    """
    return (*layers[:2], layers[1], *layers[2:])
