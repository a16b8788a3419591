/* Products of a few rows with a large matrix, `x w'` and `d w`, that read the matrix once and without a copy.

   A matrix library packs the matrix before it multiplies. With few rows that takes longer than the products. Here the
   rows are packed instead, twelve at a time and block by block. Two vectors of the matrix are multiplied by all twelve
   rows while they are in registers: 24 sums, two vectors and one more fill the registers. */

#include <stdint.h>

typedef struct {
    int64_t rows, outputs, inputs;     /* of w: (outputs, inputs) */
    int64_t given_step, step, w_step;  /* numbers from one row to the next */
    const float *given, *w;            /* (rows, inputs) forward, (rows, outputs) backward */
    float *found;                      /* (rows, outputs) forward, (rows, inputs) backward */
} FewRows;

#if defined(__x86_64__) && defined(__GNUC__) && defined(__linux__) && !defined(GW_PLAIN)
#include <immintrin.h>

#define ROWS 12
#define LANES 16
#define BLOCK 512 /* inputs at a time: twelve rows of them fit in the L1 cache */
#define TOGETHER 8 /* rows of w read side by side in the backward product: more would compete for the same cache lines */
#define AVX512 __attribute__((target("avx512f")))
#define UNROLLED _Pragma("GCC unroll 12")

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

static AVX512 __mmask16 lanes(int64_t count) { return (__mmask16)(count >= LANES ? 0xffff : (1u << count) - 1); }

/* Pack the vectors of twelve rows side by side. Missing rows and numbers are zero. */
static AVX512 void pack(const FewRows *p, int64_t row, int64_t from, int64_t count, float *packed) {
    for (int64_t k = 0; k < count; k += LANES)
        for (int64_t r = 0; r < ROWS; r++) {
            __mmask16 there = row + r < p->rows ? lanes(count - k) : 0;
            const float *place = p->given + least(row + r, p->rows - 1) * p->given_step + from + k;
            _mm512_storeu_ps(packed + k * ROWS + r * LANES, _mm512_maskz_loadu_ps(there, place));
        }
}

/* Add the inner products of `count` inputs with rows `o` and `o + 1` of w, or with row `o` twice at the end. */
static AVX512 void add_products(const FewRows *p, int64_t row, int64_t from, int64_t count, int64_t o,
                                const float *packed) {
    const float *one = p->w + o * p->w_step + from, *two = o + 1 < p->outputs ? one + p->w_step : one;
    const int64_t ahead = 2 * p->w_step;
    __m512 a[ROWS], b[ROWS];
    UNROLLED for (int r = 0; r < ROWS; r++) a[r] = b[r] = _mm512_setzero_ps();
    for (int64_t k = 0; k < count; k += LANES) {
        __mmask16 there = lanes(count - k);
        __m512 left = _mm512_maskz_loadu_ps(there, one + k), right = _mm512_maskz_loadu_ps(there, two + k);
        _mm_prefetch(one + ahead + k, _MM_HINT_T0); /* the processor does not predict the jump to the next rows */
        _mm_prefetch(two + ahead + k, _MM_HINT_T0);
        UNROLLED for (int r = 0; r < ROWS; r++) {
            __m512 x = _mm512_loadu_ps(packed + k * ROWS + r * LANES);
            a[r] = _mm512_fmadd_ps(x, left, a[r]);
            b[r] = _mm512_fmadd_ps(x, right, b[r]);
        }
    }
    float first[ROWS], second[ROWS]; /* a variable index would move the sums out of the registers */
    UNROLLED for (int r = 0; r < ROWS; r++) first[r] = _mm512_reduce_add_ps(a[r]), second[r] = _mm512_reduce_add_ps(b[r]);
    for (int r = 0; r < ROWS && row + r < p->rows; r++) {
        float *place = p->found + (row + r) * p->step + o;
        place[0] += first[r];
        if (o + 1 < p->outputs) place[1] += second[r];
    }
}

/* x w', added to `found`. */
AVX512 void gw_few_rows_forward(const FewRows *p) {
    float packed[BLOCK * ROWS];
    for (int64_t row = 0; row < p->rows; row += ROWS)
        for (int64_t from = 0; from < p->inputs; from += BLOCK) {
            int64_t count = least(BLOCK, p->inputs - from);
            pack(p, row, from, count, packed);
            for (int64_t o = 0; o < p->outputs; o += 2) add_products(p, row, from, count, o, packed);
        }
}

/* Add the multiples of `some` rows of w, from row `o`, to two vectors of the sums. */
static AVX512 void add_multiples(const FewRows *p, int64_t o, int64_t some, int64_t k, int64_t left, const float *given,
                                 float *sums) {
    __mmask16 first = lanes(left), second = left > LANES ? lanes(left - LANES) : 0;
    const float *place = p->w + o * p->w_step + k;
    __m512 a[ROWS], b[ROWS];
    UNROLLED for (int r = 0; r < ROWS; r++) {
        a[r] = _mm512_loadu_ps(sums + r * LANES);
        b[r] = _mm512_loadu_ps(sums + (ROWS + r) * LANES);
    }
    for (int64_t i = 0; i < some; i++, place += p->w_step) {
        __m512 one = _mm512_maskz_loadu_ps(first, place), two = _mm512_maskz_loadu_ps(second, place + LANES);
        UNROLLED for (int r = 0; r < ROWS; r++) {
            __m512 d = _mm512_set1_ps(given[(o + i) * ROWS + r]);
            a[r] = _mm512_fmadd_ps(d, one, a[r]);
            b[r] = _mm512_fmadd_ps(d, two, b[r]);
        }
    }
    UNROLLED for (int r = 0; r < ROWS; r++) {
        _mm512_storeu_ps(sums + r * LANES, a[r]);
        _mm512_storeu_ps(sums + (ROWS + r) * LANES, b[r]);
    }
}

/* d w. `space` holds 12 numbers for each output. */
AVX512 void gw_few_rows_backward(const FewRows *p, float *space) {
    float sums[BLOCK * ROWS];
    for (int64_t row = 0; row < p->rows; row += ROWS) {
        for (int64_t o = 0; o < p->outputs; o++)
            for (int64_t r = 0; r < ROWS; r++)
                space[o * ROWS + r] = row + r < p->rows ? p->given[(row + r) * p->given_step + o] : 0;
        for (int64_t from = 0; from < p->inputs; from += BLOCK) {
            int64_t count = least(BLOCK, p->inputs - from);
            for (int64_t i = 0; i < BLOCK * ROWS; i++) sums[i] = 0;
            for (int64_t o = 0; o < p->outputs; o += TOGETHER)
                for (int64_t k = 0; k < count; k += 2 * LANES)
                    add_multiples(p, o, least(TOGETHER, p->outputs - o), from + k, count - k, space, sums + k * ROWS);
            for (int64_t k = 0; k < count; k += LANES)
                for (int64_t r = 0; r < ROWS && row + r < p->rows; r++)
                    _mm512_mask_storeu_ps(p->found + (row + r) * p->step + from + k, lanes(count - k),
                                          _mm512_loadu_ps(sums + k * ROWS + r * LANES));
        }
    }
}

int gw_few_rows_is_quick(void) { return __builtin_cpu_supports("avx512f") != 0; }

#else

int gw_few_rows_is_quick(void) { return 0; }

void gw_few_rows_forward(const FewRows *p) { (void)p; }

void gw_few_rows_backward(const FewRows *p, float *space) { (void)p, (void)space; }

#endif
