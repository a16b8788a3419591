/* IIEU-B over feature maps, with the batch norm before it: patch lengths, mean responses, values and derivatives.

   Maps are (N, C, P) or, with the channels last, (N, P, C). Every step works on one sample at a time, and every sum has one place per sample.
   So no bit depends on the number of threads. Sums run in float32 over at most 32 numbers, then in double.

   x = scale z + offset, s = x / (|w| |p|), rho = s + shift, weight = rho, or eta exp(rho - eta) where rho < eta. */

#include <math.h>
#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))
#define MOST_THREADS 64

/* ---- bits and functions, free of branches and calls, so that loops over them become vectors ---- */
INLINE float as_float(uint32_t bits) {
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}
INLINE uint32_t as_bits(float x) {
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    return bits;
}
INLINE float absolute(float x) { return __builtin_fabsf(x); }
INLINE float square_root(float x) { return __builtin_sqrtf(x); }
/* a b + c, rounded once where the processor has it: the same bits in vectors and outside of them. */
#if defined(__FMA__) || defined(__ARM_FEATURE_FMA)
INLINE float fused(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
#else
INLINE float fused(float a, float b, float c) { return a * b + c; }
#endif
/* exp(x) = power * 2^-24 * (1 + less_one) for -104 <= x <= 0: with 24 added to its exponent the power is a normal number
   also where exp(x) is not. */
typedef struct {
    float power, less_one;
} Exponential;

INLINE float exp_polynomial(float r) {
    float p = 0x1.6d431cp-10f;
    p = fused(p, r, 0x1.120b6ap-7f);
    p = fused(p, r, 0x1.5554eap-5f);
    p = fused(p, r, 0x1.5554dcp-3f);
    p = fused(p, r, 0.5f);
    return fused(r * r, p, r);
}
INLINE float exp_rest(float x, float n) {
    return fused(n, 0x1.bd0106p-13f, fused(n, -0x1.63p-1f, x)); /* x - n log 2; n times the first is exact */
}
INLINE Exponential split_negative(float x) {
    const float magic = 0x1.8p+23f + 151.0f; /* added to n, it leaves n + 24 + 127, an exponent, in the last bits */
    float shifted = fused(x, 0x1.715476p+0f, magic), n = shifted - magic;
    return (Exponential){as_float(as_bits(shifted) << 23), exp_polynomial(exp_rest(x, n))};
}
/* exp(x) for x <= 0 or NaN. Below -104 it is 0, and nothing is computed that underflows: some processors take a hundred
   times as long for that. */
INLINE float exp_of_negative(float x) {
    Exponential e = split_negative(x < -104.0f ? 0.0f : x);
    float value = fused(e.less_one, e.power, e.power) * 0x1p-24f;
    return x < -104.0f ? 0.0f : value;
}

#define TILE 256             /* channels or positions that are worked on at once */
#define LANES 16
#define FLUSH 32             /* numbers that are added in float32 */
#define KINDS 5              /* sums per channel */
#define FARTHEST 1.76e13    /* beyond this a mean is bounded and passes no gradient */
#define TERM_EPS 1e-6       /* added to the variance of the means */
#define LEAST_WORK 65536     /* numbers that pay for a thread */

typedef const float *restrict Read;
typedef float *restrict Write;

/* Sizes: N samples, C channels, P positions, G groups of Term-B. */
typedef struct {
    const float *source, *z, *above;
    float *out, *source_gradient;
    const float *weight, *stored;                      /* filters, and their lengths if these are stored */
    const float *gamma, *beta;                         /* (C), or NULL */
    float *running_mean, *running_var;                 /* (C), or NULL; updated with the batch's if `share` > 0 */
    const float *eta, *term_weight, *term_bias;        /* (C) */
    float *kept;                                       /* scale, offset, centre, filter (C), level (N, C), patch (N, P) */
    double *wide;                                      /* deviation, roots (C), leaning, standard (N, C), spread (N, G) */
    double *sums;                                      /* (N, KINDS, C), 0 at first */
    double *term;                                      /* (N, 3, C): gradients to means, weight and bias of Term-B */
    float *results;                                    /* RESULTS of (C), constant (N, C) */
    float *positions;                                  /* (N, P): sums over channels */
    float *space;                                      /* (N, H W + OH W) */
    int64_t *far;                                      /* (N): whether a length is out of range */
    int64_t samples, inputs, channels, height, width, out_height, out_width;
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    int64_t source_last, last, has_norm, takes_batch, groups, filter_length, threads;
    double eps, more, norm_eps, share;                 /* `more` is added to a length, `eps` is the least length */
} Call;

INLINE int64_t positions_of(const Call *c) { return c->out_height * c->out_width; }
INLINE float *scale_of(const Call *c) { return c->kept; }
INLINE float *offset_of(const Call *c) { return c->kept + c->channels; }
INLINE float *centre_of(const Call *c) { return c->kept + 2 * c->channels; }
INLINE float *filter_of(const Call *c) { return c->kept + 3 * c->channels; }
INLINE float *level_of(const Call *c, int64_t n) { return c->kept + (4 + n) * c->channels; }
INLINE float *patch_of(const Call *c, int64_t n) {
    return c->kept + (4 + c->samples) * c->channels + n * positions_of(c);
}
INLINE double *deviation_of(const Call *c) { return c->wide; } /* its inverse */
INLINE double *roots_of(const Call *c) { return c->wide + c->channels; }
INLINE double *leaning_of(const Call *c, int64_t n) { return c->wide + (2 + n) * c->channels; }
INLINE double *standard_of(const Call *c, int64_t n) { return c->wide + (2 + c->samples + n) * c->channels; }
INLINE double *spread_of(const Call *c, int64_t n) {
    return c->wide + 2 * (1 + c->samples) * c->channels + n * c->groups;
}
enum { TO_GAMMA, TO_BETA, TO_ETA, TO_WEIGHT, TO_BIAS, FACTORS, SLOPE, RESULTS };
INLINE float *result_of(const Call *c, int which) { return c->results + which * c->channels; }
INLINE float *constant_of(const Call *c, int64_t n) { return c->results + (RESULTS + n) * c->channels; }

#if defined(__clang__)
#define EACH_ALONE _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define EACH_ALONE _Pragma("GCC ivdep")
#else
#define EACH_ALONE
#endif
INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- sums ---- */
/* In pairs, so that few additions wait for each other. */
INLINE float sum_of_lanes(const float *lanes) {
    float eight[8], four[4];
    for (int j = 0; j < 8; j++) eight[j] = lanes[j] + lanes[j + 8];
    for (int j = 0; j < 4; j++) four[j] = eight[j] + eight[j + 4];
    return (four[0] + four[2]) + (four[1] + four[3]);
}
static double total_of(Read values, int64_t count) {
    double total = 0;
    for (int64_t first = 0; first < count; first += LANES * FLUSH) {
        float lanes[LANES] = {0};
        const int64_t end = least(count, first + LANES * FLUSH);
        int64_t i = first;
        for (; i + LANES <= end; i += LANES)
            for (int j = 0; j < LANES; j++) lanes[j] += values[i + j];
        for (int j = 0; j < end - i; j++) lanes[j] += values[i + j];
        total += sum_of_lanes(lanes);
    }
    return total;
}
static void flush(Write from, double *restrict to, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        to[i] += from[i];
        from[i] = 0;
    }
}

/* ---- lengths of patches ---- */
/* Squares of one position, summed over channels. */
static float dot(Read x, int64_t count) {
    float lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int j = 0; j < LANES; j++) lanes[j] += x[i + j] * x[i + j];
    for (int j = 0; j < count - i; j++) lanes[j] += x[i + j] * x[i + j];
    return sum_of_lanes(lanes);
}
static void add_squares(Read x, Write to, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] += x[i] * x[i];
}
static void add_values(Read from, Write to, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] += from[i];
}
/* Whether a patch may hold this row or column of the input: a kernel of size 1 leaves out what lies between its steps. */
static int is_read(const Call *c, int axis, int64_t place) {
    return c->kernel[axis] > 1 || c->stride[axis] == 1 || (place + c->padding[axis]) % c->stride[axis] == 0;
}
/* Squares of all positions, summed over channels. */
static void squares(const Call *c, const float *x, float *to) {
    const int64_t width = c->width, area = c->height * width;
    float part[TILE];
    for (int64_t p = 0; c->source_last && p < area; p++)
        to[p] = is_read(c, 0, p / width) && is_read(c, 1, p % width) ? dot(x + p * c->inputs, c->inputs) : 0.0f;
    for (int64_t first = 0; !c->source_last && first < area; first += TILE) {
        const int64_t count = least(TILE, area - first);
        memset(to + first, 0, (size_t)count * sizeof *to);
        for (int64_t channel = 0; channel < c->inputs; channel += FLUSH) {
            memset(part, 0, sizeof part);
            for (int64_t k = channel; k < least(c->inputs, channel + FLUSH); k++)
                add_squares(x + k * area + first, part, count);
            add_values(part, to + first, count);
        }
    }
}
static void lengths(const Call *c, int64_t n) {
    const int64_t area = c->height * c->width;
    float *energy = c->space + n * (area + c->out_height * c->width), *rows = energy + area;
    float *patch = patch_of(c, n);
    const float low = (float)(c->eps * c->eps), more = (float)c->more;
    int far = 0;
    squares(c, c->source + n * c->inputs * area, energy);
    for (int64_t o = 0; o < c->out_height; o++) {
        float *row = rows + o * c->width, *to = patch + o * c->out_width;
        memset(row, 0, (size_t)c->width * sizeof *row);
        for (int64_t k = 0; k < c->kernel[0]; k++) {
            const int64_t h = o * c->stride[0] - c->padding[0] + k * c->dilation[0];
            if (h >= 0 && h < c->height) add_values(energy + h * c->width, row, c->width);
        }
        memset(to, 0, (size_t)c->out_width * sizeof *to);
        for (int64_t k = 0; k < c->kernel[1]; k++) {
            const int64_t start = k * c->dilation[1] - c->padding[1], step = c->stride[1];
            for (int64_t i = 0; i < c->out_width; i++) {
                const int64_t w = i * step + start;
                to[i] += w >= 0 && w < c->width ? row[w] : 0.0f;
            }
        }
        for (int64_t i = 0; i < c->out_width; i++) {
            far |= !(to[i] <= 0x1p+100f);
            const float inverse = 1.0f / (square_root(to[i]) + more);
            to[i] = to[i] <= low ? 0.0f : inverse;
        }
    }
    c->far[n] = far;
}

/* The gradient of the inverse lengths, times the inverse lengths, back to the source. */
static void scaled_row(Read x, Write to, Read factors, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] = fused(x[i], factors[i], to[i]);
}
static void scaled_position(Read x, Write to, float factor, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] = fused(x[i], factor, to[i]);
}
static void lengths_back(const Call *c, int64_t n) {
    const int64_t area = c->height * c->width, outputs = positions_of(c);
    float *energy = c->space + n * (area + c->out_height * c->width), *rows = energy + area;
    const float *x = c->source + n * c->inputs * area;
    float *to = c->source_gradient + n * c->inputs * area;
    memset(energy, 0, (size_t)(area + c->out_height * c->width) * sizeof *energy);
    for (int64_t o = 0; o < c->out_height; o++)
        for (int64_t i = 0; i < c->out_width; i++) {
            /* inverse = 1 / length, length = root(total) + more: twice the derivative to `total`. */
            const int64_t place = n * outputs + o * c->out_width + i;
            const float inverse = patch_of(c, 0)[place];
            const float root = 1.0f / inverse - (float)c->more;
            const float slope = inverse > 0.0f ? -c->positions[place] * inverse / root : 0.0f;
            for (int64_t k = 0; k < c->kernel[1]; k++) {
                const int64_t w = i * c->stride[1] + k * c->dilation[1] - c->padding[1];
                if (w >= 0 && w < c->width) rows[o * c->width + w] += slope;
            }
        }
    for (int64_t o = 0; o < c->out_height; o++)
        for (int64_t k = 0; k < c->kernel[0]; k++) {
            const int64_t h = o * c->stride[0] - c->padding[0] + k * c->dilation[0];
            if (h >= 0 && h < c->height) add_values(rows + o * c->width, energy + h * c->width, c->width);
        }
    if (c->source_last) {
        for (int64_t p = 0; p < area; p++)
            if (energy[p] != 0.0f) scaled_position(x + p * c->inputs, to + p * c->inputs, energy[p], c->inputs);
    } else {
        for (int64_t k = 0; k < c->inputs; k++) scaled_row(x + k * area, to + k * area, energy, area);
    }
}

/* ---- sums of responses: z - centre, and its square ---- */
static void squared_row(Read z, Write first, Write second, Read centre, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const float d = z[i] - centre[i];
        first[i] += d;
        second[i] = fused(d, d, second[i]);
    }
}
static void centred_row(Read z, Write first, Read centre, int64_t count) {
    for (int64_t i = 0; i < count; i++) first[i] += z[i] - centre[i];
}
static float sum_of_differences(Read z, float centre, int64_t count) {
    float lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int j = 0; j < LANES; j++) lanes[j] += z[i + j] - centre;
    for (int j = 0; j < count - i; j++) lanes[j] += z[i + j] - centre;
    return sum_of_lanes(lanes);
}
static float sum_of_squares(Read z, float centre, int64_t count) {
    float lanes[LANES] = {0};
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int j = 0; j < LANES; j++) lanes[j] += (z[i + j] - centre) * (z[i + j] - centre);
    for (int j = 0; j < count - i; j++) lanes[j] += (z[i + j] - centre) * (z[i + j] - centre);
    return sum_of_lanes(lanes);
}
static void means(const Call *c, int64_t n) {
    const int64_t positions = positions_of(c), channels = c->channels;
    const float *z = c->z + n * channels * positions, *centre = centre_of(c);
    double *first = c->sums + n * KINDS * channels, *second = first + channels;
    float a[TILE] = {0}, b[TILE] = {0};
    for (int64_t k = 0; !c->last && k < channels; k++)
        for (int64_t p = 0; p < positions; p += LANES * FLUSH) {
            const float *row = z + k * positions + p;
            const int64_t count = least(LANES * FLUSH, positions - p);
            first[k] += sum_of_differences(row, centre[k], count);
            if (c->takes_batch) second[k] += sum_of_squares(row, centre[k], count);
        }
    for (int64_t k = 0; c->last && k < channels; k += TILE) {
        const int64_t count = least(TILE, channels - k);
        for (int64_t p = 0; p < positions; p++) {
            const float *row = z + p * channels + k;
            if (c->takes_batch)
                squared_row(row, a, b, centre + k, count);
            else
                centred_row(row, a, centre + k, count);
            if (p % FLUSH == FLUSH - 1 || p == positions - 1) {
                flush(a, first + k, count);
                if (c->takes_batch) flush(b, second + k, count);
            }
        }
    }
    memcpy(leaning_of(c, n), first, (size_t)channels * sizeof *first);
}

/* ---- the norm, as a scale and an offset ---- */
static void set_scale(const Call *c, int64_t k, double mean, double variance) {
    const double inverse = 1.0 / __builtin_sqrt(variance + c->norm_eps);
    const double scale = c->gamma ? inverse * c->gamma[k] : inverse;
    deviation_of(c)[k] = inverse;
    scale_of(c)[k] = (float)scale;
    offset_of(c)[k] = (float)((c->beta ? c->beta[k] : 0.0) - mean * scale);
}
/* Lengths of filters, and the norm if it does not depend on the batch; else a number near the responses. */
void gw_begin(const Call *c) {
    const double low = c->eps * c->eps, high = 0x1p+100;
    for (int64_t k = 0; k < c->channels; k++) {
        double total = 0, root = 0;
        const int64_t length = c->stored ? 0 : c->filter_length;
        for (int64_t i = 0; i < length; i += LANES * FLUSH)
            total += dot(c->weight + k * length + i, least(LANES * FLUSH, length - i));
        root = __builtin_sqrt(total);
        const double known = total <= low || total > high ? 0.0 : 1.0 / (root + c->eps);
        const double given = c->stored && c->stored[k] != 0.0f ? 1.0 / c->stored[k] : 0.0;
        roots_of(c)[k] = root;
        filter_of(c)[k] = (float)(c->stored ? given : known);
        scale_of(c)[k] = 1.0f;
        offset_of(c)[k] = centre_of(c)[k] = 0.0f;
        deviation_of(c)[k] = 1.0;
        if (c->takes_batch) {
            centre_of(c)[k] = c->z[c->last ? k : k * positions_of(c)];
        } else if (c->has_norm) {
            centre_of(c)[k] = c->running_mean[k];
            set_scale(c, k, c->running_mean[k], c->running_var[k]);
        }
    }
}
/* The norm from the sums of the batch. */
void gw_statistics(const Call *c) {
    const int64_t positions = positions_of(c);
    const double count = (double)(c->samples * positions);
    for (int64_t k = 0; k < c->channels; k++) {
        double first = 0, second = 0;
        for (int64_t n = 0; n < c->samples; n++) {
            first += c->sums[n * KINDS * c->channels + k];
            second += c->sums[(n * KINDS + 1) * c->channels + k];
        }
        const double near = centre_of(c)[k], away = first / count, mean = near + away;
        const double spread = second / count - away * away, variance = spread < 0 ? 0 : spread;
        set_scale(c, k, mean, variance);
        centre_of(c)[k] = (float)mean;
        for (int64_t n = 0; n < c->samples; n++) leaning_of(c, n)[k] += (near - centre_of(c)[k]) * (double)positions;
        if (c->share <= 0) continue;
        const double unbiased = variance * (count / (count - 1));
        c->running_mean[k] = (float)(c->running_mean[k] + c->share * (mean - c->running_mean[k]));
        c->running_var[k] = (float)(c->running_var[k] + c->share * (unbiased - c->running_var[k]));
    }
}

/* ---- Term-B: the logistic function of the standardised mean responses ---- */
static void standardise(double *values, double *spread, int64_t count) {
    double largest = 0, mean = 0, variance = 0;
    for (int64_t i = 0; i < count; i++) {
        const double size = __builtin_fabs(values[i]);
        largest = size > largest ? size : largest;
    }
    const int far = largest > FARTHEST;
    for (int64_t i = 0; i < count; i++) {
        const double low = far && values[i] < -FARTHEST ? -FARTHEST : values[i];
        values[i] = far && low > FARTHEST ? FARTHEST : low;
        mean += values[i];
    }
    mean /= (double)count;
    for (int64_t i = 0; i < count; i++) variance += (values[i] - mean) * (values[i] - mean);
    const double inverse = 1.0 / __builtin_sqrt(variance / (double)count + TERM_EPS);
    for (int64_t i = 0; i < count; i++) values[i] = (values[i] - mean) * inverse;
    *spread = far ? 0.0 : inverse;
}
static void term(const Call *c, int64_t n) {
    const int64_t channels = c->channels;
    const double share = 1.0 / (double)positions_of(c);
    double *values = standard_of(c, n);
    float *level = level_of(c, n);
    for (int64_t k = 0; k < channels; k++)
        values[k] = scale_of(c)[k] * (centre_of(c)[k] + leaning_of(c, n)[k] * share) + offset_of(c)[k];
    for (int64_t g = 0; g < c->groups; g++)
        standardise(values + g * (channels / c->groups), spread_of(c, n) + g, channels / c->groups);
    for (int64_t k = 0; k < channels; k++) {
        const float logit = (float)(c->term_weight[k] * values[k] + c->term_bias[k]);
        const float e = exp_of_negative(-absolute(logit));
        level[k] = (logit < 0.0f ? e : 1.0f) / (1.0f + e) - c->eta[k];
    }
}
/* Gradients to the means, and to weight and bias. */
static void term_back(const Call *c, int64_t n) {
    const int64_t channels = c->channels, groups = c->groups ? c->groups : 1, size = channels / groups;
    const double *change = c->sums + n * KINDS * channels, *standard = standard_of(c, n);
    double *to_mean = c->term + n * 3 * channels, *to_weight = to_mean + channels, *to_bias = to_weight + channels;
    for (int64_t k = 0; k < channels; k++) {
        const double e = exp(-__builtin_fabs(c->term_weight[k] * standard[k] + c->term_bias[k]));
        to_bias[k] = change[k] * e / ((1.0 + e) * (1.0 + e));
        to_weight[k] = to_bias[k] * standard[k];
        to_mean[k] = to_bias[k] * c->term_weight[k];
    }
    for (int64_t g = 0; c->groups && g < groups; g++) {
        double first = 0, second = 0;
        for (int64_t k = g * size; k < (g + 1) * size; k++) {
            first += to_mean[k] / (double)size;
            second += to_mean[k] * standard[k] / (double)size;
        }
        for (int64_t k = g * size; k < (g + 1) * size; k++)
            to_mean[k] = spread_of(c, n)[g] * (to_mean[k] - first - standard[k] * second);
    }
}

/* ---- values and derivatives of an element ---- */
#define LOWEST -87.0f /* below this the exponential counts as 0 */

/* exp(x) for LOWEST <= x <= 0 or NaN. */
INLINE float exp_above_lowest(float x) {
    const float magic = 0x1.8p+23f + 127.0f; /* added to n, it leaves n + 127, an exponent, in the last bits */
    const float shifted = fused(x, 0x1.715476p+0f, magic), n = shifted - magic;
    const float power = as_float(as_bits(shifted) << 23);
    return fused(exp_polynomial(exp_rest(x, n)), power, power);
}
/* `level` is the shift less the threshold, `both` the inverse lengths of patch and filter. A weight that decayed to 0
   also stops an infinite response. */
typedef struct {
    float x, s, decay, weight;
    int below;
} Element;
INLINE Element element(float z, float scale, float offset, float both, float level, float eta) {
    const float free = fused(z, scale, offset), s = free * both, margin = s + level;
    const int below = margin < 0.0f;
    const float low = below ? margin : 0.0f, e = exp_above_lowest(low);
    const int is_closed = low < LOWEST;
    const float decay = is_closed ? 0.0f : e, x = is_closed ? 0.0f : free;
    return (Element){x, s, decay, fused(eta, decay, below ? 0.0f : margin), below};
}
typedef struct {
    float slope, change, under, part, moment;
} Slopes;
INLINE Slopes slopes_at(Element e, float above, float both, float away) {
    const float up = above * e.x, change = up * (e.below ? e.weight : 1.0f);
    const float slope = fused(change, both, above * e.weight);
    return (Slopes){slope, change, e.below ? up * e.decay : 0.0f, change * e.s, slope * away};
}

/* With the channels last: all channels of one position, or of two. */
__attribute__((noinline)) static void values_channels(const float *z, float *out, Read scale, Read offset, Read filter,
                                                      Read level, Read eta, float patch, int64_t count) {
    EACH_ALONE /* the output may take the place of z */
    for (int64_t i = 0; i < count; i++) {
        const Element e = element(z[i], scale[i], offset[i], patch * filter[i], level[i], eta[i]);
        out[i] = e.x * e.weight;
    }
}
/* Parameters with `restrict` let a compiler make vectors. */
#define CHANNELS                                                                                                     \
    Read scale, Read offset, Read filter, Read level, Read eta, Read centre, Write change, Write under, Write part,   \
        Write slope, Write moment
__attribute__((noinline)) static void slopes_of_one(Read z, Read above, Write out, Write product, float patch, CHANNELS,
                                                    int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const float both = patch * filter[i], g = above[i];
        const Slopes a = slopes_at(element(z[i], scale[i], offset[i], both, level[i], eta[i]), g, both, z[i] - centre[i]);
        out[i] = a.slope;
        product[i] = a.part;
        change[i] += a.change;
        under[i] += a.under;
        part[i] += a.part;
        slope[i] += a.slope;
        moment[i] += a.moment;
    }
}
__attribute__((noinline)) static void slopes_of_two(Read z, Read z2, Read above, Read above2, Write out, Write out2,
                                                    Write product, Write product2, float patch, float patch2, CHANNELS,
                                                    int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const float both = patch * filter[i], both2 = patch2 * filter[i], g = above[i], g2 = above2[i];
        const Slopes a = slopes_at(element(z[i], scale[i], offset[i], both, level[i], eta[i]), g, both, z[i] - centre[i]);
        const Slopes b = slopes_at(element(z2[i], scale[i], offset[i], both2, level[i], eta[i]), g2, both2,
                                   z2[i] - centre[i]);
        out[i] = a.slope;
        out2[i] = b.slope;
        product[i] = a.part;
        product2[i] = b.part;
        change[i] += a.change + b.change;
        under[i] += a.under + b.under;
        part[i] += a.part + b.part;
        slope[i] += a.slope + b.slope;
        moment[i] += a.moment + b.moment;
    }
}

/* Otherwise: positions of one channel. */
typedef struct {
    float scale, offset, filter, level, eta, centre;
} Channel;
__attribute__((noinline)) static void values_positions(Channel c, const float *z, float *out, Read patch,
                                                       int64_t count) {
    EACH_ALONE
    for (int64_t i = 0; i < count; i++) {
        const Element e = element(z[i], c.scale, c.offset, patch[i] * c.filter, c.level, c.eta);
        out[i] = e.x * e.weight;
    }
}
__attribute__((noinline)) static void slopes_positions(Channel c, Read z, Read above, Write out, Read patch,
                                                       float parts[restrict KINDS][TILE], int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const float both = patch[i] * c.filter, g = above[i];
        const Slopes a = slopes_at(element(z[i], c.scale, c.offset, both, c.level, c.eta), g, both, z[i] - c.centre);
        out[i] = a.slope;
        parts[0][i] = a.change;
        parts[1][i] = a.under;
        parts[2][i] = a.part;
        parts[3][i] = a.slope;
        parts[4][i] = a.moment;
    }
}
static Channel channel_of(const Call *c, int64_t n, int64_t k) {
    return (Channel){scale_of(c)[k],    offset_of(c)[k], filter_of(c)[k],
                     level_of(c, n)[k], c->eta[k],       centre_of(c)[k]};
}

static void values(const Call *c, int64_t n) {
    const int64_t positions = positions_of(c), channels = c->channels, first = n * channels * positions;
    for (int64_t p = 0; c->last && p < positions; p++)
        values_channels(c->z + first + p * channels, c->out + first + p * channels, scale_of(c), offset_of(c),
                        filter_of(c), level_of(c, n), c->eta, patch_of(c, n)[p], channels);
    for (int64_t k = 0; !c->last && k < channels; k++)
        values_positions(channel_of(c, n, k), c->z + first + k * positions, c->out + first + k * positions,
                         patch_of(c, n), positions);
}

/* The gradient to x, without what comes through the mean; sums per channel and per position. */
static void slopes_last(const Call *c, int64_t n) {
    const int64_t positions = positions_of(c), channels = c->channels, first = n * channels * positions;
    const float *z = c->z + first, *above = c->above + first, *patch = patch_of(c, n);
    float *out = c->out + first, *by_position = c->positions + n * positions;
    float sums[KINDS][TILE] = {{0}}, product[2 * TILE];
    for (int64_t k = 0; k < channels; k += TILE) {
        const int64_t count = least(TILE, channels - k);
        const float *scale = scale_of(c) + k, *offset = offset_of(c) + k, *filter = filter_of(c) + k;
        const float *level = level_of(c, n) + k, *eta = c->eta + k, *centre = centre_of(c) + k;
        for (int64_t p = 0; p < positions; p += 2) {
            const int64_t at = p * channels + k, next = at + channels, has_next = p + 1 < positions;
            if (has_next)
                slopes_of_two(z + at, z + next, above + at, above + next, out + at, out + next, product, product + TILE,
                              patch[p], patch[p + 1], scale, offset, filter, level, eta, centre, sums[0], sums[1],
                              sums[2], sums[3], sums[4], count);
            else
                slopes_of_one(z + at, above + at, out + at, product, patch[p], scale, offset, filter, level, eta,
                              centre, sums[0], sums[1], sums[2], sums[3], sums[4], count);
            by_position[p] += (float)total_of(product, count);
            if (has_next) by_position[p + 1] += (float)total_of(product + TILE, count);
            if (p % FLUSH == FLUSH - 2 || p + 2 >= positions)
                for (int kind = 0; kind < KINDS; kind++)
                    flush(sums[kind], c->sums + (n * KINDS + kind) * channels + k, count);
        }
    }
}
static void slopes(const Call *c, int64_t n) {
    const int64_t positions = positions_of(c), channels = c->channels, first = n * channels * positions;
    float *by_position = c->positions + n * positions;
    float parts[KINDS][TILE];
    memset(by_position, 0, (size_t)positions * sizeof *by_position);
    if (c->last) {
        slopes_last(c, n);
        return;
    }
    for (int64_t p = 0; p < positions; p += TILE) {
        const int64_t count = least(TILE, positions - p);
        float group[TILE] = {0};
        for (int64_t k = 0; k < channels; k++) {
            const int64_t at = first + k * positions + p;
            slopes_positions(channel_of(c, n, k), c->z + at, c->above + at, c->out + at, patch_of(c, n) + p, parts,
                             count);
            for (int kind = 0; kind < KINDS; kind++)
                c->sums[(n * KINDS + kind) * channels + k] += total_of(parts[kind], count);
            add_values(parts[2], group, count);
            if (k % FLUSH == FLUSH - 1 || k == channels - 1) {
                add_values(group, by_position + p, count);
                memset(group, 0, sizeof group);
            }
        }
    }
}

/* All gradients per channel, and what is left to add to that of each response. Returns whether all are finite. */
int64_t gw_totals(const Call *c) {
    const int64_t channels = c->channels, positions = positions_of(c);
    const double count = (double)(c->samples * positions);
    int64_t are_finite = 1;
    for (int64_t k = 0; k < channels; k++) {
        double low = 0, inner = 0, total = 0, moment = 0, to_weight = 0, to_bias = 0;
        for (int64_t n = 0; n < c->samples; n++) {
            const double *sums = c->sums + n * KINDS * channels + k, *given = c->term + n * 3 * channels + k;
            low += sums[channels];
            inner += sums[2 * channels];
            total += sums[3 * channels] + given[0];
            moment += sums[4 * channels] + given[0] / (double)positions * leaning_of(c, n)[k];
            to_weight += given[channels];
            to_bias += given[2 * channels];
        }
        const double inverse = deviation_of(c)[k], scale = scale_of(c)[k], filter = filter_of(c)[k];
        const double mean = c->takes_batch ? total / count : 0.0;
        const double slope = c->takes_batch ? -scale * inverse * inverse * moment / count : 0.0;
        for (int64_t n = 0; n < c->samples; n++)
            constant_of(c, n)[k] = (float)(scale * (c->term[n * 3 * channels + k] / (double)positions - mean));
        result_of(c, TO_GAMMA)[k] = (float)(moment * inverse);
        result_of(c, TO_BETA)[k] = (float)total;
        result_of(c, TO_ETA)[k] = (float)((1.0 - c->eta[k]) * low);
        result_of(c, TO_WEIGHT)[k] = (float)to_weight;
        result_of(c, TO_BIAS)[k] = (float)to_bias;
        result_of(c, FACTORS)[k] = c->stored || filter == 0 ? 0.0f : (float)(-inner * filter / roots_of(c)[k]);
        result_of(c, SLOPE)[k] = (float)slope;
        are_finite &= low - low == 0 && inner - inner == 0 && total - total == 0 && moment - moment == 0;
    }
    return are_finite;
}

/* From the gradient to x to that of z: scale g + constant + slope (z - centre), in place. */
static void finish_channels(Read z, Write out, Read scale, Read constant, Read slope, Read centre, int64_t count) {
    for (int64_t i = 0; i < count; i++)
        out[i] = fused(out[i], scale[i], fused(z[i] - centre[i], slope[i], constant[i]));
}
static void finish_positions(Read z, Write out, float scale, float constant, float slope, float centre,
                             int64_t count) {
    for (int64_t i = 0; i < count; i++) out[i] = fused(out[i], scale, fused(z[i] - centre, slope, constant));
}
static void finish(const Call *c, int64_t n) {
    const int64_t positions = positions_of(c), channels = c->channels, start = n * channels * positions;
    const float *constant = constant_of(c, n), *slope = result_of(c, SLOPE), *scale = scale_of(c);
    const float *centre = centre_of(c);
    if (c->last)
        for (int64_t p = 0; p < positions; p++)
            finish_channels(c->z + start + p * channels, c->out + start + p * channels, scale, constant, slope, centre,
                            channels);
    else
        for (int64_t k = 0; k < channels; k++)
            finish_positions(c->z + start + k * positions, c->out + start + k * positions, scale[k], constant[k],
                             slope[k], centre[k], positions);
}

/* ---- steps ---- */
typedef void (*Step)(const Call *, int64_t);
static void start(const Call *c, int64_t n) {
    lengths(c, n);
    means(c, n);
}
static void ending(const Call *c, int64_t n) {
    term(c, n);
    values(c, n);
}
/* The responses of a sample are still in the cache when they are read again. */
static void whole(const Call *c, int64_t n) {
    start(c, n);
    ending(c, n);
}
static void back(const Call *c, int64_t n) {
    slopes(c, n);
    term_back(c, n);
}
static const Step STEPS[] = {start, ending, whole, back, finish, lengths_back, values, slopes};

typedef struct {
    const Call *call;
    Step step;
    int64_t first, last; /* samples */
} Part;

static void *run_part(void *given) {
    const Part *part = given;
    for (int64_t n = part->first; n < part->last; n++) part->step(part->call, n);
    return NULL;
}

/* One step for all samples, in as many threads as are allowed and pay. */
void gw_iieu(const Call *c, int64_t step) {
    pthread_t started[MOST_THREADS];
    Part parts[MOST_THREADS];
    int is_running[MOST_THREADS] = {0};
    const int64_t work = c->samples * c->channels * c->out_height * c->out_width / LEAST_WORK;
    int64_t threads = least(least(c->threads, c->samples), least(work + 1, MOST_THREADS));
    threads = threads < 1 ? 1 : threads;
    for (int64_t i = threads - 1; i >= 0; i--) {
        parts[i] = (Part){c, STEPS[step], c->samples * i / threads, c->samples * (i + 1) / threads};
        is_running[i] = i > 0 && pthread_create(&started[i], NULL, run_part, &parts[i]) == 0;
        if (!is_running[i]) run_part(&parts[i]);
    }
    for (int64_t i = 1; i < threads; i++)
        if (is_running[i]) pthread_join(started[i], NULL);
}

/* Add the gradient through the lengths of the filters. */
void gw_add_filters(const Call *c, float *to) {
    const int64_t length = c->filter_length;
    for (int64_t k = 0; k < c->channels; k++)
        scaled_position(c->weight + k * length, to + k * length, result_of(c, FACTORS)[k], length);
}
