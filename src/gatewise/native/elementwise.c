/* Smooth units, element by element: values, and slopes times what arrives from above.

   The same as the plain forms of gatewise/units, in one pass. Every function here is free of branches and of calls, so
   that a compiler turns a loop over it into vectors; a sum and a product are each rounded, never fused, so that an
   element has the same bits in a full vector, in what is left over, on any processor and in any number of threads.

   `k` is the number of a unit that may be trained: one for all, or one per channel. Elements lie as (outer, channels,
   inner); with one channel, inner is all there are. */

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("no-trapping-math") /* changes no value: lets both sides of a choice be computed */
#endif
#if defined(__x86_64__) && defined(__GNUC__) && defined(__linux__) && !defined(GW_PLAIN)
#define CHOSEN_AT_RUN_TIME __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define CHOSEN_AT_RUN_TIME
#endif
#define INLINE static inline __attribute__((always_inline))

#define FAR 0x1.fffffep+87f  /* the largest number times 2^-40: Note [Far out] of gatewise/units/contract/arithmetic.py */
#define BLOCK 512            /* terms of a sum that are kept before they are added */
#define SUMS 16              /* partial sums, so that vectors can add */
#define MOST_THREADS 64
#define LEAST_PART (1 << 16) /* elements that pay for a thread */

/* `low`, `high` and `turn` belong to a unit. Below `least` exp is 0: it is the same in all calls, but a compiler that knew
   it would follow it through all that is computed from it, and lose more by choosing between the outcomes than it
   gains. */
typedef struct {
    float low, high, turn, least;
} Constants;

typedef struct {
    const float *x, *above, *k; /* above: what arrives at the output, on the way back */
    float *out;
    double *sums; /* one per channel: the gradient to k, or NULL */
    int64_t channels, inner;
    Constants constants;
} Call;

/* What a unit needs besides x: of `two_lines`, its slopes, how far they are apart, and the steepness of the choice. */
typedef struct {
    float k, low, high, apart, least;
} Numbers;

typedef void (*Work)(const Call *, int64_t first, int64_t last);

INLINE float absolute(float x) { return __builtin_fabsf(x); }

INLINE float as_float(uint32_t bits) {
    float found;
    memcpy(&found, &bits, sizeof found);
    return found;
}
INLINE uint32_t as_bits(float x) {
    uint32_t found;
    memcpy(&found, &x, sizeof found);
    return found;
}

/* exp(x) = power * 2^-24 * (1 + less_one) for -104 <= x <= 0: with 24 added to its exponent the power is a normal number
   also where exp(x) is not. */
typedef struct {
    float power, less_one;
} Exponential;

INLINE Exponential split_exponential(float x) {
    const float magic = 0x1.8p+23f + 151.0f; /* added to n, it leaves n + 24 + 127, an exponent, in the last bits */
    float shifted = x * 0x1.715476p+0f + magic, n = shifted - magic;
    float r = (x - n * 0x1.63p-1f) - n * -0x1.bd0106p-13f; /* x - n log 2; n times the first is exact */
    float p = 0x1.6d431cp-10f;
    p = p * r + 0x1.120b6ap-7f;
    p = p * r + 0x1.5554eap-5f;
    p = p * r + 0x1.5554dcp-3f;
    p = p * r + 0.5f;
    return (Exponential){as_float(as_bits(shifted) << 23), r + (r * r) * p};
}
INLINE float exponential(float x) {
    Exponential e = split_exponential(x);
    return ((1.0f + e.less_one) * e.power) * 0x1p-24f;
}
/* A bound from below that keeps a NaN, and one that does not: for gates, which are then multiplied by x itself. */
INLINE float bounded(float x, const Numbers *by) { return x < by->least ? by->least : x; }
INLINE float bounded_number(float x, const Numbers *by) { return x > by->least ? x : by->least; }

/* log(1 + e) for 0 <= e <= 1. */
INLINE float log_of_one_plus(float e) {
    float s = e / (2.0f + e), z = s * s;
    float p = 0x1.dbefd6p-3f;
    p = p * z + 0x1.bc7bd2p-3f;
    p = p * z + 0x1.24c9bep-2f;
    p = p * z + 0x1.9998d2p-2f;
    p = p * z + 0x1.555556p-1f;
    return e - s * (e - z * p);
}

/* x times its gate; a closed gate also stops an infinite x, but no NaN. */
INLINE float let_through(float x, float gate) {
    float y = x * gate;
    return gate == 0 && x == x ? 0.0f : y;
}
/* The slope of x times its gate: far out the gate no longer changes. */
INLINE float gated_slope(float x, float gate, float gate_slope) {
    float turned = x * gate_slope;
    return gate + (absolute(x) > FAR ? 0.0f : turned);
}

INLINE Numbers only_k(float k, const Constants c) {
    return (Numbers){k, 0, 0, 0, c.least};
}

/* x (low sigmoid(-t) + high sigmoid(t)), t = turn k x: Swish, and soft choices between two lines through 0. With k = 0
   it is their mean, at an infinite x too, and a NaN in k is not to be lost. */
INLINE Numbers two_lines_numbers(float k, const Constants c) {
    float mean = 0.5f * (c.low + c.high), apart = c.high - c.low;
    float low = k == 0 ? mean : c.low, high = k == 0 ? mean : c.high;
    return (Numbers){k * c.turn, k != k ? k : low, k != k ? k : high, k != k ? k : apart, c.least};
}
typedef struct {
    float gate, spread; /* spread: sigmoid(t) sigmoid(-t) */
} Choice;
INLINE Choice choose_line(float x, const Numbers *by) {
    float t = by->k * x, e = exponential(bounded_number(-absolute(t), by)), whole = 1.0f + e;
    float larger = t < 0 ? by->low : by->high, smaller = t < 0 ? by->high : by->low;
    return (Choice){(larger + smaller * e) / whole, e / (whole * whole)};
}
INLINE float two_lines_value(float x, const Numbers *by) { return let_through(x, choose_line(x, by).gate); }
INLINE float two_lines_slope(float x, const Numbers *by) {
    Choice chosen = choose_line(x, by);
    return gated_slope(x, chosen.gate, (chosen.spread * by->apart) * by->k);
}
/* The derivative with respect to turn k. */
INLINE float two_lines_slope_to_k(float x, const Numbers *by) {
    float turned = ((choose_line(x, by).spread * by->apart) * x) * x;
    return absolute(x) > FAR ? 0.0f : turned;
}

/* log(1 + exp(k x)) / k. */
#define softplus_numbers only_k
INLINE float softplus_value(float x, const Numbers *by) {
    float curve = log_of_one_plus(exponential(bounded(-(by->k * absolute(x)), by))) / by->k;
    return (x < 0 ? 0.0f : x) + curve;
}
INLINE float softplus_slope(float x, const Numbers *by) {
    float e = exponential(bounded(-(by->k * absolute(x)), by));
    return (x < 0 ? e : 1.0f) / (1.0f + e);
}

/* x Phi(x). The tail of the normal distribution is exp(-a^2 / 2) times a function that is smooth in a / (a + 5/2). */
#define gelu_numbers only_k
typedef struct {
    float gate, density;
} Normal;
INLINE Normal normal(float x, const Numbers *by) {
    float a = absolute(x), e = exponential(bounded_number(-0.5f * (a * a), by));
    float v = (a < 20.0f ? a : 20.0f) / (a + 2.5f); /* beyond 20 the tail is 0 */
    float p = 0x1.f2987cp-7f;
    p = p * v - 0x1.28fb4ap-4f;
    p = p * v + 0x1.ba344cp-4f;
    p = p * v - 0x1.a133c8p-5f;
    p = p * v + 0x1.2ca8e4p-5f;
    p = p * v - 0x1.b29af4p-5f;
    p = p * v - 0x1.9d781ep-4f;
    p = p * v + 0x1.97920cp-5f;
    p = p * v + 0x1.215ad4p-1f;
    p = p * v - 0x1.fea568p-1f;
    p = p * v + 0.5f;
    float tail = p * e, rest = 1.0f - tail;
    return (Normal){x < 0 ? tail : rest, 0x1.988454p-2f * e};
}
INLINE float gelu_value(float x, const Numbers *by) { return let_through(x, normal(x, by).gate); }
INLINE float gelu_slope(float x, const Numbers *by) {
    Normal found = normal(x, by);
    return gated_slope(x, found.gate, found.density);
}

/* x tanh(softplus(x)) = x up / (up + rest), all in t = exp(-|x|). */
#define mish_numbers only_k
typedef struct {
    float t, up, whole;
} Mish;
INLINE Mish mish(float x, const Numbers *by) {
    float t = exponential(bounded_number(-absolute(x), by)), double_t = 2.0f * t, square = t * t;
    float below = square + double_t, above = 1.0f + double_t, double_square = 2.0f * square;
    float up = x < 0 ? below : above, rest = x < 0 ? 2.0f : double_square;
    return (Mish){t, up, up + rest};
}
INLINE float mish_value(float x, const Numbers *by) {
    Mish found = mish(x, by);
    return let_through(x, found.up / found.whole);
}
INLINE float mish_slope(float x, const Numbers *by) {
    Mish found = mish(x, by);
    float w = 1.0f / found.whole, square = found.t * found.t, first = x < 0 ? found.t : square;
    return gated_slope(x, found.up * w, ((4.0f * first) * w) * ((1.0f + found.t) * w));
}

/* x above 0, k (exp(x) - 1) elsewhere; at 0 too it is x, for -0 is to stay -0. */
#define elu_numbers only_k
INLINE float elu_value(float x, const Numbers *by) {
    Exponential e = split_exponential(bounded(x > 0 ? 0.0f : x, by));
    float power = e.power * 0x1p-24f, below = by->k * (power * e.less_one + (power - 1.0f));
    return x >= 0 ? x : below;
}
INLINE float elu_slope(float x, const Numbers *by) {
    float below = by->k * exponential(bounded(x > 0 ? 0.0f : x, by));
    return x > 0 ? 1.0f : below;
}

/* How many elements from `first` on have one k in common, or follow a row of k; none from `last` on. */
static int64_t stretch(const Call *c, int64_t first, int64_t last) {
    int64_t length = c->inner > 1 ? c->inner : c->channels, end = (first / length + 1) * length;
    return (end < last ? end : last) - first;
}
static const float *first_k(const Call *c, int64_t first) { return c->k + first / c->inner % c->channels; }
static int has_one_k(const Call *c) { return c->inner > 1 || c->channels == 1; }

typedef float (*Function)(float x, const Numbers *by);
typedef Numbers (*Prepare)(float k, const Constants c);

/* `by_channel`: whether k may differ. It is known to the compiler, which leaves out the second loop where it may not. */
INLINE void each_value(const Call *c, int64_t first, int64_t last, Function value, Prepare prepare, int by_channel) {
    const Constants constants = c->constants;
    for (int64_t count; first < last; first += count) {
        const float *restrict x = c->x + first, *restrict k = first_k(c, first);
        float *restrict out = c->out + first;
        count = stretch(c, first, last);
        const Numbers one = prepare(*k, constants);
        if (!by_channel || has_one_k(c))
            for (int64_t i = 0; i < count; i++) out[i] = value(x[i], &one);
        else
            for (int64_t i = 0; i < count; i++) {
                const Numbers own = prepare(k[i], constants);
                out[i] = value(x[i], &own);
            }
    }
}

INLINE void each_slope(const Call *c, int64_t first, int64_t last, Function slope, Prepare prepare, int by_channel) {
    const Constants constants = c->constants;
    for (int64_t count; first < last; first += count) {
        const float *restrict x = c->x + first, *restrict k = first_k(c, first), *restrict above = c->above + first;
        float *restrict out = c->out + first;
        count = stretch(c, first, last);
        const Numbers one = prepare(*k, constants);
        if (!by_channel || has_one_k(c))
            for (int64_t i = 0; i < count; i++) out[i] = above[i] * slope(x[i], &one);
        else
            for (int64_t i = 0; i < count; i++) {
                const Numbers own = prepare(k[i], constants);
                out[i] = above[i] * slope(x[i], &own);
            }
    }
}

#define UNIT(name, by_channel)                                                                 \
    CHOSEN_AT_RUN_TIME void gw_##name##_values(const Call *c, int64_t first, int64_t last) {   \
        each_value(c, first, last, name##_value, name##_numbers, by_channel);                  \
    }                                                                                          \
    CHOSEN_AT_RUN_TIME void gw_##name##_slopes(const Call *c, int64_t first, int64_t last) {   \
        each_slope(c, first, last, name##_slope, name##_numbers, by_channel);                  \
    }

UNIT(two_lines, 1)
UNIT(softplus, 0)
UNIT(gelu, 0)
UNIT(mish, 0)
UNIT(elu, 0)

/* In the order of `KERNELS` in gatewise/fused/kernels.py. */
static const Work VALUES[] = {gw_two_lines_values, gw_softplus_values, gw_gelu_values, gw_mish_values, gw_elu_values};
static const Work SLOPES[] = {gw_two_lines_slopes, gw_softplus_slopes, gw_gelu_slopes, gw_mish_slopes, gw_elu_slopes};

/* Sums of the products of up to 512 terms, in double and always in the same order. */
INLINE double sum_of(const float *restrict above, const float *restrict terms, int64_t count) {
    double sums[SUMS] = {0}, total = 0;
    int64_t i = 0;
    for (; i + SUMS <= count; i += SUMS)
        for (int j = 0; j < SUMS; j++) sums[j] += (double)above[i + j] * (double)terms[i + j];
    for (; i < count; i++) sums[i % SUMS] += (double)above[i] * (double)terms[i];
    for (int j = 0; j < SUMS; j++) total += sums[j];
    return total;
}

/* Slopes of `two_lines` with the gradient to k, into sums that are 0. For one thread: the order of a sum is then always the
   same. */
CHOSEN_AT_RUN_TIME void gw_two_lines_sums(const Call *c, int64_t first, int64_t last) {
    const Constants constants = c->constants;
    float terms[BLOCK];
    for (int64_t count; first < last; first += count) {
        const float *restrict x = c->x + first, *restrict k = first_k(c, first), *restrict above = c->above + first;
        double *restrict sums = c->sums + (k - c->k);
        float *restrict out = c->out + first;
        count = stretch(c, first, last);
        count = count < BLOCK ? count : BLOCK;
        const Numbers one = two_lines_numbers(*k, constants);
        if (has_one_k(c)) {
            for (int64_t i = 0; i < count; i++) {
                const float at = x[i]; /* read once, so that what both need is computed once */
                out[i] = above[i] * two_lines_slope(at, &one);
                terms[i] = two_lines_slope_to_k(at, &one);
            }
            *sums += sum_of(above, terms, count);
        } else
            for (int64_t i = 0; i < count; i++) {
                const Numbers own = two_lines_numbers(k[i], constants);
                const float at = x[i], from_above = above[i];
                out[i] = from_above * two_lines_slope(at, &own);
                sums[i] += (double)from_above * (double)two_lines_slope_to_k(at, &own);
            }
    }
    for (int64_t i = 0; i < c->channels; i++) c->sums[i] *= (double)constants.turn;
}

typedef struct {
    Work work;
    const Call *call;
    int64_t first, last;
} Part;

static void *run_part(void *given) {
    const Part *part = given;
    part->work(part->call, part->first, part->last);
    return NULL;
}

/* All `count` elements, in as many threads as are allowed and pay. A thread that cannot be had is done without. */
static void run(Work work, const Call *call, int64_t count, int64_t threads) {
    pthread_t started[MOST_THREADS];
    Part parts[MOST_THREADS];
    int is_running[MOST_THREADS] = {0};
    threads = threads < count / LEAST_PART ? threads : count / LEAST_PART;
    threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    for (int64_t i = threads - 1; i >= 0; i--) {
        parts[i] = (Part){work, call, count / threads * i, i + 1 < threads ? count / threads * (i + 1) : count};
        is_running[i] = i > 0 && pthread_create(&started[i], NULL, run_part, &parts[i]) == 0;
        if (!is_running[i]) run_part(&parts[i]);
    }
    for (int64_t i = 1; i < threads; i++)
        if (is_running[i]) pthread_join(started[i], NULL);
}

/* `numbers`: k and the constants; `k`, where it is not NULL, is used in place of the first. */
void gw_elementwise_forward(int64_t unit, const float *x, float *out, const float *k, const float *numbers,
                            int64_t count, int64_t channels, int64_t inner, int64_t threads) {
    Constants constants = {numbers[1], numbers[2], numbers[3], -104.0f};
    Call call = {x, NULL, k ? k : numbers, out, NULL, channels, inner, constants};
    run(VALUES[unit], &call, count, threads);
}

/* `sums`, where it is not NULL, belongs to `two_lines`. */
void gw_elementwise_backward(int64_t unit, const float *x, const float *above, float *out, double *sums, const float *k,
                             const float *numbers, int64_t count, int64_t channels, int64_t inner, int64_t threads) {
    Constants constants = {numbers[1], numbers[2], numbers[3], -104.0f};
    Call call = {x, above, k ? k : numbers, out, sums, channels, inner, constants};
    if (sums)
        gw_two_lines_sums(&call, 0, count);
    else
        run(SLOPES[unit], &call, count, threads);
}
