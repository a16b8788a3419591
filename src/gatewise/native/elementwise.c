/* The frame of a generated elementwise function: values, and derivatives times the gradient of the output.

   `gatewise.fused` writes the loops of one function in place of the line that says so below, and compiles the result.
   Every function here is free of branches and of calls, so that a compiler turns a loop over it into vectors. The
   compiler fuses no product with a sum by itself; only `fused` says where. So an element has the same bits in a full
   vector, in what is left over and in any number of threads.

   Elements lie in memory as `rows` of `inner` elements. A number of the function (a parameter) is constant along a row,
   or has one value per element of a row. Work is done in blocks that fit into the first cache. Half types are widened to
   float32 in the block and rounded once at its end. */

#include <pthread.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

#define BLOCK 512            /* elements */
#define SUMS 16              /* partial sums, so that vectors can add */
#define MOST_NUMBERS 12
#define MOST_DIMS 6
#define MOST_THREADS 64
#define MOST_CHUNKS 64       /* parts of a sum: as many whatever the number of threads, so that no bit changes */
#define SHORT_ROW 32         /* rows below this length are taken together */

enum { FLOAT32, BFLOAT16, FLOAT16 };

/* ---- bits ---- */
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

/* ---- half types ---- */
INLINE float from_bfloat16(uint16_t half) { return as_float((uint32_t)half << 16); }
INLINE uint16_t to_bfloat16(float x) {
    uint32_t bits = as_bits(x), rounded = bits + 0x7fffu + ((bits >> 16) & 1u);
    uint32_t quiet = bits | 0x400000u; /* NaN stays NaN */
    return (uint16_t)((x == x ? rounded : quiet) >> 16);
}
INLINE float from_float16(uint16_t half) {
    uint32_t magnitude = (uint32_t)(half & 0x7fffu) << 13, sign = (uint32_t)(half & 0x8000u) << 16;
    uint32_t scaled = as_bits(as_float(magnitude) * 0x1p+112f);
    uint32_t special = magnitude | 0x7f800000u;
    return as_float((magnitude >= 0x0f800000u ? special : scaled) | sign);
}
INLINE uint16_t to_float16(float x) {
    uint32_t bits = as_bits(x), sign = (bits >> 16) & 0x8000u, size = bits & 0x7fffffffu;
    uint32_t small = as_bits(as_float(size) + 0.5f) - 0x3f000000u; /* below 2^-14: the addition rounds */
    uint32_t normal = (size + 0xc8000fffu + ((size >> 13) & 1u)) >> 13;
    uint32_t finite = size < 0x38800000u ? small : normal;
    uint32_t infinite = size > 0x7f800000u ? 0x7e00u : 0x7c00u;
    return (uint16_t)((size >= 0x477ff000u ? infinite : finite) | sign);
}

/* ---- stores that pass the caches by ----
   An ordinary store first reads the line that it overwrites. For maps that are larger than the caches this is a third of
   what a copy moves. `stream` copies a block from the first cache. The bytes are the same. */
#define LINE 64 /* bytes of a cache line */
#if defined(__AVX512F__) || defined(__AVX__)
#ifdef __AVX512F__
typedef float Streamed __attribute__((vector_size(64)));
#define STREAM __builtin_ia32_movntps512
#else
typedef float Streamed __attribute__((vector_size(32)));
#define STREAM __builtin_ia32_movntps256
#endif
INLINE void stream(const float *restrict from, float *restrict to, int64_t count) {
    const int64_t lanes = sizeof(Streamed) / sizeof *to;
    int64_t i = (int64_t)(-(uintptr_t)to % LINE / sizeof *to); /* up to the next line */
    i = i < count ? i : count;
    memcpy(to, from, (size_t)i * sizeof *to);
    for (; i + lanes <= count; i += lanes) {
        Streamed several;
        memcpy(&several, from + i, sizeof several);
        STREAM((void *)(to + i), several);
    }
    memcpy(to + i, from + i, (size_t)(count - i) * sizeof *to);
}
INLINE void end_streams(void) { __builtin_ia32_sfence(); }
#else
INLINE void stream(const float *restrict from, float *restrict to, int64_t count) {
    memcpy(to, from, (size_t)count * sizeof *to);
}
INLINE void end_streams(void) {}
#endif

/* ---- functions ---- */
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
/* exp(x) - 1 for x <= 0 or NaN. */
INLINE float expm1_of_negative(float x) {
    Exponential e = split_negative(x < -32.0f ? -32.0f : x); /* -1 from there on */
    float power = e.power * 0x1p-24f;
    float value = fused(power, e.less_one, power - 1.0f);
    return x == 0 ? x : value; /* -0 stays -0 */
}
typedef struct {
    float half_power, other_power, less_one;
} WideExponential;
INLINE WideExponential split_any(float x) {
    const float magic = 0x1.8p+23f;
    float low = x < -104.0f ? -104.0f : x, z = low > 89.0f ? 89.0f : low;
    float shifted = fused(z, 0x1.715476p+0f, magic), n = shifted - magic;
    int32_t whole = (int32_t)(as_bits(shifted) - 0x4b400000u), half = whole >> 1;
    return (WideExponential){as_float((uint32_t)(half + 127) << 23), as_float((uint32_t)(whole - half + 127) << 23),
                             exp_polynomial(exp_rest(z, n))};
}
INLINE float exp_any(float x) {
    WideExponential e = split_any(x);
    return ((1.0f + e.less_one) * e.half_power) * e.other_power;
}
INLINE float expm1_any(float x) {
    WideExponential e = split_any(x);
    float power = e.half_power * e.other_power;
    float near = fused(power, e.less_one, power - 1.0f), far = ((1.0f + e.less_one) * e.half_power) * e.other_power;
    float value = x > 32.0f ? far : near;
    return x == 0 ? x : value;
}
/* log(1 + e) for 0 <= e <= 1 or NaN. */
INLINE float log1p_of_unit(float e) {
    float s = e / (2.0f + e), z = s * s;
    float p = 0x1.dbefd6p-3f;
    p = fused(p, z, 0x1.bc7bd2p-3f);
    p = fused(p, z, 0x1.24c9bep-2f);
    p = fused(p, z, 0x1.9998d2p-2f);
    p = fused(p, z, 0x1.555556p-1f);
    return fused(-s, fused(-z, p, e), e);
}
/* log(x) plus a small correction. */
INLINE float log_plus(float x, float correction) {
    float scaled = x < 0x1p-126f ? x * 0x1p+23f : x, shift = x < 0x1p-126f ? -23.0f : 0.0f;
    uint32_t bits = as_bits(scaled), offset = bits - 0x3f3504f3u; /* the root of 1/2 */
    float n = (float)((int32_t)offset >> 23) + shift;
    float m = as_float((offset & 0x7fffffu) + 0x3f3504f3u);
    float f = m - 1.0f, s = f / (2.0f + f), z = s * s;
    float p = 0x1.8bc924p-3f;
    p = fused(p, z, 0x1.c68806p-3f);
    p = fused(p, z, 0x1.2492fep-2f);
    p = fused(p, z, 0x1.99999ap-2f);
    p = fused(p, z, 0x1.555556p-1f);
    float series = fused(-s, fused(-z, p, f), f);
    float value = n * 0x1.62e4p-1f + (series + (n * 0x1.7f7d1cp-20f + correction));
    float edge = x == 0.0f ? -__builtin_inff() : __builtin_nanf("");
    float inside = x < __builtin_inff() ? value : x;
    return x > 0.0f ? inside : edge;
}
INLINE float log_any(float x) { return log_plus(x, 0.0f); }
INLINE float log1p_any(float x) {
    float u = 1.0f + x, correction = (x - (u - 1.0f)) / u;
    float value = log_plus(u, x < 0x1p+30f ? correction : 0.0f);
    return absolute(x) < 0x1p-25f ? x : value;
}
/* erfc(a) for a >= 0: exp(-a^2) times a function that is smooth in a / (a + 5/sqrt(8)). */
INLINE float erfc_of_positive(float a) {
    float square = a * a, e = exp_of_negative(-square), wide = a * 0x1.6a09e6p+0f;
    float v = (wide < 20.0f ? wide : 20.0f) / (wide + 2.5f); /* beyond 20 the tail is 0 */
    float p = 0x1.f2987cp-6f;
    p = fused(p, v, -0x1.28fb4ap-3f);
    p = fused(p, v, 0x1.ba344cp-3f);
    p = fused(p, v, -0x1.a133c8p-4f);
    p = fused(p, v, 0x1.2ca8e4p-4f);
    p = fused(p, v, -0x1.b29af4p-4f);
    p = fused(p, v, -0x1.9d781ep-3f);
    p = fused(p, v, 0x1.97920cp-4f);
    p = fused(p, v, 0x1.215ad4p+0f);
    p = fused(p, v, -0x1.fea568p+0f);
    p = fused(p, v, 1.0f);
    return p * e;
}
INLINE float erfc_any(float x) {
    float tail = erfc_of_positive(absolute(x)), rest = 2.0f - tail;
    return x < 0 ? rest : tail;
}
INLINE float erf_any(float x) {
    float z = x * x;
    float p = 0x1.4a9dacp-14f;
    p = fused(p, z, -0x1.a46b4p-11f);
    p = fused(p, z, 0x1.541636p-8f);
    p = fused(p, z, -0x1.b7fb38p-6f);
    p = fused(p, z, 0x1.ce2d18p-4f);
    p = fused(p, z, -0x1.81273ep-2f);
    float near = fused(x, fused(z, p, 0x1.06eba0p-3f), x);
    float far = 1.0f - erfc_of_positive(absolute(x)), signed_far = x < 0 ? -far : far;
    return absolute(x) < 1.0f ? near : signed_far;
}
INLINE float tanh_any(float x) {
    float m = expm1_of_negative(-2.0f * absolute(x)), size = -m / (2.0f + m);
    return x < 0 ? -size : x == 0 ? x : size;
}

/* ---- the loops of one function ----
   `numbers` are constants in `one`, a row for each of them in `many`; `terms` are the derivatives to the numbers. */
typedef const float *restrict In;
typedef float *restrict Out;
typedef const float *const *Rows;
/*@LOOPS@*/
#ifndef COUNT /* the frame alone: the identity */
#define COUNT 0
static void values_one(In x, Out out, In numbers, int64_t count) {
    (void)numbers;
    for (int64_t i = 0; i < count; i++) out[i] = x[i];
}
static void slopes_one(In x, In above, Out out, In numbers, int64_t count) {
    (void)x;
    values_one(above, out, numbers, count);
}
static void terms_one(In x, In above, Out out, Out terms, In numbers, int64_t count) {
    (void)terms;
    slopes_one(x, above, out, numbers, count);
}
#define values_many(x, out, rows, count) values_one(x, out, NULL, count)
#define slopes_many(x, above, out, rows, count) slopes_one(x, above, out, NULL, count)
#define terms_many(x, above, out, terms, rows, count) terms_one(x, above, out, terms, NULL, count)
#endif

/* ---- the frame ---- */
typedef struct {
    const void *x, *above;
    void *out;
    const float *numbers[MOST_NUMBERS];
    const void *elements[MOST_NUMBERS]; /* numbers that lie as x does, in its type; NULL for others */
    void *element_out[MOST_NUMBERS];    /* gradients to these; NULL if not wanted */
    double *sums[MOST_NUMBERS]; /* gradients to the numbers; NULL if not wanted */
    int64_t lengths[MOST_NUMBERS];
    int64_t steps[MOST_NUMBERS][MOST_DIMS];
    int64_t sizes[MOST_DIMS];
    int64_t dims, count, chunks, dtype, threads, wants_sums;
    int64_t streams; /* whether the output passes the caches by */
} Call;

typedef struct {
    float x[BLOCK], above[BLOCK], out[BLOCK];
    float numbers[COUNT + 1][BLOCK], terms[COUNT + 1][BLOCK];
    int64_t filled[COUNT + 1]; /* the place of the row in `numbers`, and how many elements; -1 for none */
    int64_t filled_length;
} Space;

/* float16 by the processor's own conversions, eight at a time, where the compiler may use them. */
#ifdef __F16C__
typedef float Floats __attribute__((vector_size(32)));
typedef short Halves __attribute__((vector_size(16)));
#define EIGHT 8
INLINE void widen_eight(const uint16_t *from, float *to, size_t count) {
    Halves halves = {0};
    memcpy(&halves, from, count * sizeof *from);
    Floats floats = __builtin_ia32_vcvtph2ps256(halves);
    memcpy(to, &floats, count * sizeof *to);
}
INLINE void narrow_eight(const float *from, uint16_t *to, size_t count) {
    Floats floats = {0};
    memcpy(&floats, from, count * sizeof *from);
    Halves halves = __builtin_ia32_vcvtps2ph256(floats, 0); /* 0: to the nearest, ties to even */
    memcpy(to, &halves, count * sizeof *to);
}
static void widen_float16(const uint16_t *restrict from, float *restrict to, int64_t count) {
    int64_t i = 0;
    for (; i + EIGHT <= count; i += EIGHT) widen_eight(from + i, to + i, EIGHT);
    if (i < count) widen_eight(from + i, to + i, (size_t)(count - i));
}
static void narrow_float16(const float *restrict from, uint16_t *restrict to, int64_t count) {
    int64_t i = 0;
    for (; i + EIGHT <= count; i += EIGHT) narrow_eight(from + i, to + i, EIGHT);
    if (i < count) narrow_eight(from + i, to + i, (size_t)(count - i));
}
#else
static void widen_float16(const uint16_t *restrict from, float *restrict to, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] = from_float16(from[i]);
}
static void narrow_float16(const float *restrict from, uint16_t *restrict to, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] = to_float16(from[i]);
}
#endif

__attribute__((noinline)) static void widen(const uint16_t *restrict from, float *restrict to, int64_t count,
                                             int64_t dtype) {
    if (dtype == BFLOAT16)
        for (int64_t i = 0; i < count; i++) to[i] = from_bfloat16(from[i]);
    else
        widen_float16(from, to, count);
}
__attribute__((noinline)) static void narrow(const float *restrict from, uint16_t *restrict to, int64_t count,
                                              int64_t dtype) {
    if (dtype == BFLOAT16)
        for (int64_t i = 0; i < count; i++) to[i] = to_bfloat16(from[i]);
    else
        narrow_float16(from, to, count);
}
static const float *block_in(const void *from, int64_t place, float *space, int64_t count, int64_t dtype) {
    if (dtype == FLOAT32) return (const float *)from + place;
    widen((const uint16_t *)from + place, space, count, dtype);
    return space;
}

/* The sum of products in double, always in the same order. */
static double exact_sum_of(const float *restrict above, const float *restrict terms, int64_t count) {
    double sums[SUMS] = {0}, total = 0;
    for (int64_t i = 0; i < count; i++) sums[i % SUMS] += (double)above[i] * (double)terms[i];
    for (int j = 0; j < SUMS; j++) total += sums[j];
    return total;
}
/* The same in a third of the time: four products in float, which costs at most two units in the last place of each, and
   all of these in double. Where a product may have left the range of float, the sum is taken again in double. */
static double sum_of(const float *restrict above, const float *restrict terms, int64_t count) {
    double sums[SUMS] = {0}, total = 0;
    int64_t i = 0;
    for (; i + 4 * SUMS <= count; i += 4 * SUMS) {
        const float *restrict a = above + i, *restrict b = terms + i;
        for (int j = 0; j < SUMS; j++) {
            const float first = a[j] * b[j] + a[SUMS + j] * b[SUMS + j];
            const float second = a[2 * SUMS + j] * b[2 * SUMS + j] + a[3 * SUMS + j] * b[3 * SUMS + j];
            sums[j] += (double)(first + second);
        }
    }
    for (; i < count; i++) sums[i % SUMS] += (double)above[i] * (double)terms[i];
    for (int j = 0; j < SUMS; j++) total += sums[j];
    const double size = __builtin_fabs(total);
    return size > 0x1p-90 && size < 0x1p+126 ? total : exact_sum_of(above, terms, count);
}
static void add_products(double *restrict sums, const float *restrict above, const float *restrict terms,
                         int64_t count) {
    for (int64_t i = 0; i < count; i++) sums[i] += (double)above[i] * (double)terms[i];
}

static void multiply(float *restrict to, const float *restrict above, const float *restrict terms, int64_t count) {
    for (int64_t i = 0; i < count; i++) to[i] = above[i] * terms[i];
}

/* Where the row begins in number `k`, without the last `skipped` dimensions. */
static int64_t place_of(const Call *c, int k, int64_t row, int64_t dims) {
    int64_t place = 0;
    for (int64_t d = dims - 1; d >= 0; d--) {
        place += row % c->sizes[d] * c->steps[k][d];
        row /= c->sizes[d];
    }
    return place;
}

static void loop_one(const Call *c, Space *s, const float *x, const float *above, float *out, const float *one,
                     int64_t count) {
    if (!above)
        values_one(x, out, one, count);
    else if (c->wants_sums)
        terms_one(x, above, out, s->terms[0], one, count);
    else
        slopes_one(x, above, out, one, count);
}
static void loop_many(const Call *c, Space *s, const float *x, const float *above, float *out, Rows rows,
                      int64_t count) {
    (void)rows;
    if (!above)
        values_many(x, out, rows, count);
    else if (c->wants_sums)
        terms_many(x, above, out, s->terms[0], rows, count);
    else
        slopes_many(x, above, out, rows, count);
}

/* A block: `rows` rows of `length` elements from element `first` on, in which a number steps by steps[k][dims - 2] from
   row to row and by steps[k][dims - 1] within a row. `places` says where the first row begins in each number. */
static void run_block(const Call *c, Space *s, double *const *sums, int64_t first, const int64_t *places, int64_t rows,
                      int64_t length, int are_constant) {
    const int64_t count = rows * length, last = c->dims - 1;
    const float *x = block_in(c->x, first, s->x, count, c->dtype);
    const float *above = c->above ? block_in(c->above, first, s->above, count, c->dtype) : NULL;
    const int is_direct = c->dtype == FLOAT32 && !c->streams;
    float *out = is_direct ? (float *)c->out + first : s->out;
    if (are_constant) {
        float one[COUNT + 1];
        for (int k = 0; k < COUNT; k++) one[k] = c->numbers[k][places[k]];
        loop_one(c, s, x, above, out, one, count);
    } else {
        const float *given[COUNT + 1];
        for (int k = 0; k < COUNT; k++) {
            const int64_t down = last > 0 ? c->steps[k][last - 1] : 0, along = c->steps[k][last];
            given[k] = s->numbers[k];
            if (c->elements[k]) {
                given[k] = block_in(c->elements[k], first, s->numbers[k], count, c->dtype);
                continue;
            }
            if (along && rows == 1) { /* it lies in memory as the block reads it */
                given[k] = c->numbers[k] + places[k];
                s->filled[k] = -1;
                continue;
            }
            if (s->filled[k] == places[k] && s->filled_length >= count && (rows == 1 || down == 0)) continue;
            for (int64_t r = 0; r < rows; r++) {
                const float *from = c->numbers[k] + places[k] + r * down;
                float *to = s->numbers[k] + r * length;
                if (along)
                    memcpy(to, from, (size_t)length * sizeof *to);
                else
                    for (int64_t i = 0; i < length; i++) to[i] = *from;
            }
            s->filled[k] = down == 0 ? places[k] : -1;
        }
        s->filled_length = count;
        loop_many(c, s, x, above, out, given, count);
    }
    if (c->dtype != FLOAT32)
        narrow(out, (uint16_t *)c->out + first, count, c->dtype);
    else if (!is_direct)
        stream(out, (float *)c->out + first, count);
    if (!above || !c->wants_sums) return;
    for (int k = 0; k < COUNT; k++) {
        if (c->element_out[k]) {
            float *to = c->dtype == FLOAT32 ? (float *)c->element_out[k] + first : s->out;
            multiply(to, above, s->terms[k], count);
            if (c->dtype != FLOAT32) narrow(s->out, (uint16_t *)c->element_out[k] + first, count, c->dtype);
            continue;
        }
        if (!sums[k]) continue;
        const int64_t down = last > 0 ? c->steps[k][last - 1] : 0, along = c->steps[k][last];
        if (!along && !down) {
            sums[k][places[k]] += sum_of(above, s->terms[k], count);
            continue;
        }
        for (int64_t r = 0; r < rows; r++) {
            const float *from = above + r * length, *terms = s->terms[k] + r * length;
            double *to = sums[k] + places[k] + r * down;
            if (along)
                add_products(to, from, terms, length);
            else
                *to += sum_of(from, terms, length);
        }
    }
}

/* Elements from `first` to `last`. */
static void run_range(const Call *c, double *const *sums, int64_t first, int64_t last) {
    Space space;
    const int64_t inner = c->sizes[c->dims - 1], above_rows = c->dims > 1 ? c->sizes[c->dims - 2] : 1;
    int are_constant = inner >= SHORT_ROW || c->dims == 1;
    for (int k = 0; k < COUNT; k++) {
        space.filled[k] = -1;
        are_constant = are_constant && !c->steps[k][c->dims - 1] && !c->elements[k];
    }
    space.filled_length = 0;
    const int64_t together = are_constant || inner >= BLOCK ? 1 : BLOCK / inner;
    while (first < last) {
        const int64_t row = first / inner, within = first % inner;
        int64_t rows = 1, length = inner - within, places[COUNT + 1];
        if (within == 0 && together > 1) { /* whole rows, which differ in the last dimension but one */
            rows = above_rows - row % above_rows;
            rows = rows < together ? rows : together;
            rows = rows * inner <= last - first ? rows : (last - first) / inner;
            rows = rows < 1 ? 1 : rows;
        }
        length = rows > 1 ? inner : length;
        length = length < BLOCK ? length : BLOCK;
        length = rows == 1 && length > last - first ? last - first : length;
        for (int k = 0; k < COUNT; k++)
            places[k] = place_of(c, k, row, c->dims - 1) + within * c->steps[k][c->dims - 1];
        if (are_constant) {
            /* As many blocks as the row has: the places stay the same. */
            int64_t end = first - within + inner;
            end = end < last ? end : last;
            for (; first < end; first += length) {
                length = end - first < BLOCK ? end - first : BLOCK;
                run_block(c, &space, sums, first, places, 1, length, 1);
            }
        } else {
            run_block(c, &space, sums, first, places, rows, length, 0);
            first += rows * length;
        }
    }
}

typedef struct {
    const Call *call;
    double **sums;         /* of all chunks */
    int64_t chunks, first, last; /* chunks of this part */
} Part;

static int64_t chunk_start(const Call *c, int64_t chunks, int64_t chunk) {
    const int64_t inner = c->sizes[c->dims - 1], rows = c->count / (inner ? inner : 1);
    if (chunk >= chunks) return c->count;
    return rows >= chunks ? rows / chunks * chunk * inner : c->count / chunks * chunk;
}
static void *run_part(void *given) {
    const Part *part = given;
    for (int64_t chunk = part->first; chunk < part->last; chunk++)
        run_range(part->call, part->sums + chunk * MOST_NUMBERS, chunk_start(part->call, part->chunks, chunk),
                  chunk_start(part->call, part->chunks, chunk + 1));
    if (part->call->streams) end_streams();
    return NULL;
}

/* All elements, in as many threads as are allowed and pay. A thread that cannot be had is done without. `space` holds
   the sums of each chunk after the first, all 0; the sums of the first are those of the call. */
void gw_run(const Call *c, double *space) {
    pthread_t started[MOST_THREADS];
    Part parts[MOST_THREADS];
    int is_running[MOST_THREADS] = {0};
    double *sums[MOST_CHUNKS * MOST_NUMBERS];
    const int64_t chunks = c->chunks < MOST_CHUNKS ? c->chunks : MOST_CHUNKS;
    int64_t threads = c->threads < chunks ? c->threads : chunks;
    threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    if (c->count == 0) return;
    double *next = space;
    for (int64_t chunk = 0; chunk < chunks; chunk++)
        for (int k = 0; k < COUNT; k++) {
            sums[chunk * MOST_NUMBERS + k] = chunk == 0 || !c->sums[k] ? c->sums[k] : next;
            if (chunk > 0 && c->sums[k]) next += c->lengths[k];
        }
    for (int64_t i = threads - 1; i >= 0; i--) {
        parts[i] = (Part){c, sums, chunks, chunks * i / threads, chunks * (i + 1) / threads};
        is_running[i] = i > 0 && pthread_create(&started[i], NULL, run_part, &parts[i]) == 0;
        if (!is_running[i]) run_part(&parts[i]);
    }
    for (int64_t i = 1; i < threads; i++)
        if (is_running[i]) pthread_join(started[i], NULL);
    for (int64_t chunk = 1; chunk < chunks; chunk++)
        for (int k = 0; k < COUNT; k++)
            if (c->sums[k])
                for (int64_t i = 0; i < c->lengths[k]; i++) c->sums[k][i] += sums[chunk * MOST_NUMBERS + k][i];
}
