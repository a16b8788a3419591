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

#define FAR 0x1.fffffep+87f   /* the largest number times 2^-40: Note [Far out] of gatewise/units/_arithmetic.py */
#define INFINITE 0x1.fffffep+127f
#define BLOCK 512             /* terms of a sum that are kept before they are added */
#define SUMS 16               /* partial sums, so that vectors can add */
#define MOST_THREADS 64
#define LEAST_PART (1 << 16)  /* elements that pay for a thread */

typedef struct {
    float low, high, turn; /* constants of a unit */
} Constants;

typedef struct {
    const float *x, *above, *k; /* above: what arrives at the output, on the way back */
    float *out;
    double *sums;               /* one per channel: the gradient to k, or NULL */
    int64_t channels, inner;
    Constants constants;
} Call;

typedef void (*Work)(const Call *, int64_t first, int64_t last);

INLINE float absolute(float x) { return __builtin_fabsf(x); }
INLINE float between(float x, float bound) { return x > bound ? bound : x < -bound ? -bound : x; }
INLINE float power_of_two(int32_t n) {
    uint32_t bits = (uint32_t)(n + 127) << 23;
    float found;
    memcpy(&found, &bits, sizeof found);
    return found;
}

/* x = n log 2 + r for x <= 0: n as two halves whose powers are normal numbers, and exp(r) - 1. Below -104 as at -104,
   where exp is 0. */
typedef struct {
    float first, second, rest;
} Exponential;

INLINE Exponential split_exponential(float x) {
    const float magic = 0x1.8p+23f; /* added, it leaves the nearest integer in the last bits */
    x = x < -104.0f ? -104.0f : x;
    float shifted = x * 0x1.715476p+0f + magic, n = shifted - magic;
    int32_t bits;
    memcpy(&bits, &shifted, sizeof bits);
    int32_t whole = (int32_t)((uint32_t)bits - 0x4b400000u), half = whole >> 1;
    float r = (x - n * 0x1.63p-1f) - n * -0x1.bd0106p-13f; /* n times the first is exact */
    float p = 0x1.6d431cp-10f;
    p = p * r + 0x1.120b6ap-7f;
    p = p * r + 0x1.5554eap-5f;
    p = p * r + 0x1.5554dcp-3f;
    p = p * r + 0.5f;
    return (Exponential){power_of_two(half), power_of_two(whole - half), r + (r * r) * p};
}

/* exp(x) for x <= 0. */
INLINE float exponential(float x) {
    Exponential e = split_exponential(x);
    return ((1.0f + e.rest) * e.first) * e.second;
}

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

/* x times its gate; a closed gate also stops an infinite x. */
INLINE float let_through(float x, float gate) { return (absolute(x) > INFINITE && gate == 0 ? 0.0f : x) * gate; }

/* The slope of x times its gate: far out the gate no longer changes. */
INLINE float gated_slope(float x, float gate, float gate_slope) {
    return gate + (absolute(x) > FAR ? 0.0f : x * gate_slope);
}

/* x (low sigmoid(-t) + high sigmoid(t)), t = turn k x: Swish, and soft choices between two lines through 0. */
typedef struct {
    float gate, spread; /* spread: sigmoid(t) sigmoid(-t) */
} Choice;

INLINE Choice choose_line(float x, float k, const Constants c) {
    float t = (k * c.turn) * between(x, FAR), e = exponential(-absolute(t)), whole = 1.0f + e;
    float larger = t < 0 ? c.low : c.high, smaller = t < 0 ? c.high : c.low;
    return (Choice){(larger + smaller * e) / whole, e / (whole * whole)};
}
INLINE float two_lines_value(float x, float k, const Constants c) { return let_through(x, choose_line(x, k, c).gate); }
INLINE float two_lines_slope(float x, float k, const Constants c) {
    Choice chosen = choose_line(x, k, c);
    return gated_slope(x, chosen.gate, (chosen.spread * (c.high - c.low)) * (k * c.turn));
}
INLINE float two_lines_slope_to_k(float x, float k, const Constants c) {
    float turned = (choose_line(x, k, c).spread * (c.high - c.low)) * c.turn;
    return absolute(x) > FAR ? 0.0f : (turned * x) * x;
}

/* log(1 + exp(k x)) / k. */
INLINE float softplus_value(float x, float k, const Constants c) {
    (void)c;
    return (x < 0 ? 0.0f : x) + log_of_one_plus(exponential(-(k * absolute(x)))) / k;
}
INLINE float softplus_slope(float x, float k, const Constants c) {
    (void)c;
    float e = exponential(-(k * absolute(x)));
    return (x < 0 ? e : 1.0f) / (1.0f + e);
}

/* x Phi(x). The tail of the normal distribution is exp(-a^2 / 2) times a function that is smooth in (a - 5/2) / (a +
   5/2). */
typedef struct {
    float gate, density;
} Normal;

INLINE Normal normal(float x) {
    float a = absolute(x);
    a = a > 20.0f ? 20.0f : a;
    float w = 1.0f / (a + 2.5f), u = (a - 2.5f) * w, e = exponential(-0.5f * (a * a));
    float p = -0x1.452176p-13f;
    p = p * u - 0x1.43fc86p-12f;
    p = p * u + 0x1.650bbcp-11f;
    p = p * u + 0x1.4a684ep-9f;
    p = p * u - 0x1.a33c9cp-10f;
    p = p * u - 0x1.0c73c6p-6f;
    p = p * u + 0x1.2ea19ep-7f;
    p = p * u + 0x1.0e4f1ep-3f;
    p = p * u - 0x1.bc19c2p-2f;
    p = p * u + 0x1.69cee6p-1f;
    float tail = (p * w) * e;
    return (Normal){x < 0 ? tail : 1.0f - tail, 0x1.988454p-2f * e};
}
INLINE float gelu_value(float x, float k, const Constants c) {
    (void)k, (void)c;
    return let_through(x, normal(x).gate);
}
INLINE float gelu_slope(float x, float k, const Constants c) {
    (void)k, (void)c;
    Normal found = normal(x);
    return gated_slope(x, found.gate, found.density);
}

/* x tanh(softplus(x)), with t = exp(-|x|) alone. */
INLINE float mish_value(float x, float k, const Constants c) {
    (void)k, (void)c;
    float t = exponential(-absolute(x));
    float up = x < 0 ? t * (t + 2.0f) : 1.0f + 2.0f * t, rest = x < 0 ? 2.0f : 2.0f * (t * t);
    return let_through(x, up / (up + rest));
}
INLINE float mish_slope(float x, float k, const Constants c) {
    (void)k, (void)c;
    float t = exponential(-absolute(x));
    float up = x < 0 ? t * (t + 2.0f) : 1.0f + 2.0f * t, rest = x < 0 ? 2.0f : 2.0f * (t * t), whole = up + rest;
    return gated_slope(x, up / whole, (4.0f * (x < 0 ? t : t * t)) * (1.0f + t) / (whole * whole));
}

/* x above 0, k (exp(x) - 1) elsewhere. */
INLINE float elu_value(float x, float k, const Constants c) {
    (void)c;
    Exponential e = split_exponential(x > 0 ? 0.0f : x);
    float power = e.first * e.second;
    return x >= 0 ? x : k * (power * e.rest + (power - 1.0f)); /* at 0 too, for -0 is to stay -0 */
}
INLINE float elu_slope(float x, float k, const Constants c) {
    (void)c;
    float below = k * exponential(x > 0 ? 0.0f : x);
    return x > 0 ? 1.0f : below;
}

/* How many elements from `first` on have one k in common, or follow a row of k; none from `last` on. */
static int64_t stretch(const Call *c, int64_t first, int64_t last) {
    int64_t length = c->inner > 1 ? c->inner : c->channels, end = (first / length + 1) * length;
    return (end < last ? end : last) - first;
}
static const float *first_k(const Call *c, int64_t first) { return c->k + first / c->inner % c->channels; }
static int has_one_k(const Call *c) { return c->inner > 1 || c->channels == 1; }

typedef float (*Function)(float x, float k, const Constants c);

/* `by_channel`: whether k may differ. It is known to the compiler, which leaves out the second loop where it may not. */
INLINE void each_value(const Call *c, int64_t first, int64_t last, Function value, int by_channel) {
    const Constants constants = c->constants;
    for (int64_t count; first < last; first += count) {
        const float *restrict x = c->x + first, *restrict k = first_k(c, first), one = *k;
        float *restrict out = c->out + first;
        count = stretch(c, first, last);
        if (!by_channel || has_one_k(c))
            for (int64_t i = 0; i < count; i++) out[i] = value(x[i], one, constants);
        else
            for (int64_t i = 0; i < count; i++) out[i] = value(x[i], k[i], constants);
    }
}

INLINE void each_slope(const Call *c, int64_t first, int64_t last, Function slope, int by_channel) {
    const Constants constants = c->constants;
    for (int64_t count; first < last; first += count) {
        const float *restrict x = c->x + first, *restrict k = first_k(c, first), one = *k;
        const float *restrict above = c->above + first;
        float *restrict out = c->out + first;
        count = stretch(c, first, last);
        if (!by_channel || has_one_k(c))
            for (int64_t i = 0; i < count; i++) out[i] = above[i] * slope(x[i], one, constants);
        else
            for (int64_t i = 0; i < count; i++) out[i] = above[i] * slope(x[i], k[i], constants);
    }
}

#define UNIT(name, by_channel)                                                                \
    CHOSEN_AT_RUN_TIME void gw_##name##_values(const Call *c, int64_t first, int64_t last) {  \
        each_value(c, first, last, name##_value, by_channel);                                 \
    }                                                                                         \
    CHOSEN_AT_RUN_TIME void gw_##name##_slopes(const Call *c, int64_t first, int64_t last) {  \
        each_slope(c, first, last, name##_slope, by_channel);                                 \
    }

UNIT(two_lines, 1)
UNIT(softplus, 0)
UNIT(gelu, 0)
UNIT(mish, 0)
UNIT(elu, 0)

/* In the order of `KERNELS` in gatewise/fused/_kernels.py. */
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

/* The gradient to k of `two_lines`, added to what is there. One thread: the order of a sum is then always the same. */
CHOSEN_AT_RUN_TIME void gw_two_lines_sums(const Call *c, int64_t first, int64_t last) {
    const Constants constants = c->constants;
    float terms[BLOCK];
    for (int64_t count; first < last; first += count) {
        const float *restrict x = c->x + first, *restrict k = first_k(c, first), *restrict above = c->above + first, one = *k;
        count = stretch(c, first, last);
        count = count < BLOCK ? count : BLOCK;
        double *restrict sums = c->sums + (k - c->k);
        if (has_one_k(c)) {
            for (int64_t i = 0; i < count; i++) terms[i] = two_lines_slope_to_k(x[i], one, constants);
            *sums += sum_of(above, terms, count);
        } else
            for (int64_t i = 0; i < count; i++)
                sums[i] += (double)above[i] * (double)two_lines_slope_to_k(x[i], k[i], constants);
    }
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
    Constants constants = {numbers[1], numbers[2], numbers[3]};
    Call call = {x, NULL, k ? k : numbers, out, NULL, channels, inner, constants};
    run(VALUES[unit], &call, count, threads);
}

/* `sums`, where it is not NULL, belongs to `two_lines`. */
void gw_elementwise_backward(int64_t unit, const float *x, const float *above, float *out, double *sums, const float *k,
                             const float *numbers, int64_t count, int64_t channels, int64_t inner, int64_t threads) {
    Constants constants = {numbers[1], numbers[2], numbers[3]};
    Call call = {x, above, k ? k : numbers, out, sums, channels, inner, constants};
    run(SLOPES[unit], &call, count, threads);
    if (sums) gw_two_lines_sums(&call, 0, count);
}
