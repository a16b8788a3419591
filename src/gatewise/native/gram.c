/* Add a layer's part of a tangent kernel: inner products of inputs, plus one for a bias, times those of slopes.

   The same as `KernelBlock._add_dense` of gatewise/analysis/tangent_kernel/gram.py, in tiles of five by five samples.
   No product is stored. Of a symmetric kernel, only tiles that touch the lower half are computed. Rows are read
   without a copy. Each inner product is summed in the lanes of a vector, which are added at its end. */

#include <stdint.h>

typedef struct {
    int64_t rows, columns, inputs, slopes;            /* samples of both sets, at least five; numbers of each */
    const float *z1, *z2, *d1, *d2;                   /* (rows, inputs), (columns, inputs), and so on */
    int64_t z1_step, z2_step, d1_step, d2_step, step; /* numbers from one row to the next */
    double *total;                                    /* (rows, columns) */
    int64_t bias, symmetric;
} Gram;

#if defined(__x86_64__) && defined(__GNUC__) && defined(__linux__) && !defined(GW_PLAIN)
#include <immintrin.h>

#define SIDE 5 /* 25 sums, five rows and a column fill the 32 registers. They stay there only if loops are unrolled. */
#define LANES 16
#define AVX512 __attribute__((target("avx512f")))
#define EACH(i, count) _Pragma("GCC unroll 25") for (int i = 0; i < count; i++)
#define PART(place) _mm512_maskz_loadu_ps(mask, place)
#define MULTIPLY_AND_ADD(load)                                                                             \
    {                                                                                                      \
        __m512 left[SIDE];                                                                                 \
        EACH(r, SIDE) left[r] = load(a + r * a_step + k);                                                  \
        EACH(c, SIDE) {                                                                                    \
            __m512 right = load(b + c * b_step + k);                                                       \
            EACH(r, SIDE) sums[r * SIDE + c] = _mm512_fmadd_ps(left[r], right, sums[r * SIDE + c]);        \
        }                                                                                                  \
    }

/* The sums over the lanes of sixteen vectors, as one vector. This is less work than sixteen separate sums. In each of
   four rounds, vectors are interleaved in pairs, and the two halves of the lanes are added. */
AVX512 static inline __m512 totals(const __m512 *v) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    __m512 left[LANES];
    EACH(i, LANES) left[i] = v[i];
    EACH(round, 4) {
        const int half = LANES / 2 >> round;
        EACH(i, half) left[i] = _mm512_add_ps(_mm512_permutex2var_ps(left[i], low, left[i + half]),
                                              _mm512_permutex2var_ps(left[i], high, left[i + half]));
    }
    return left[0];
}

/* Inner products of five rows of `a` with five of `b`. */
AVX512 static void tile(const float *a, int64_t a_step, const float *b, int64_t b_step,
                                                    int64_t count, float found[SIDE][SIDE]) {
    __m512 sums[SIDE * SIDE];
    EACH(i, SIDE * SIDE) sums[i] = _mm512_setzero_ps();
    int64_t k = 0;
    for (; k + LANES <= count; k += LANES) MULTIPLY_AND_ADD(_mm512_loadu_ps)
    if (k < count) {
        __mmask16 mask = (__mmask16)((1u << (count - k)) - 1);
        MULTIPLY_AND_ADD(PART)
    }
    __m512 first = totals(sums), last = totals(sums + SIDE * SIDE - LANES); /* some sums are written twice */
    _mm512_storeu_ps(&found[0][0], first);
    _mm512_storeu_ps(&found[0][0] + SIDE * SIDE - LANES, last);
}

/* Add the tile at `row` and `column`. Near an end the tile starts earlier, and only its new entries are added. */
static void add_tile(const Gram *g, int64_t row, int64_t column) {
    float z[SIDE][SIDE], d[SIDE][SIDE];
    int64_t r = row + SIDE > g->rows ? g->rows - SIDE : row, c = column + SIDE > g->columns ? g->columns - SIDE : column;
    tile(g->z1 + r * g->z1_step, g->z1_step, g->z2 + c * g->z2_step, g->z2_step, g->inputs, z);
    tile(g->d1 + r * g->d1_step, g->d1_step, g->d2 + c * g->d2_step, g->d2_step, g->slopes, d);
    for (int64_t i = row - r; i < SIDE; i++)
        for (int64_t j = column - c; j < SIDE; j++)
            g->total[(r + i) * g->step + c + j] += (double)((z[i][j] + (float)g->bias) * d[i][j]);
}

int gw_gram_is_quick(void) { return __builtin_cpu_supports("avx512f") != 0; }

void gw_gram(const Gram *g) {
    for (int64_t row = 0; row < g->rows; row += SIDE) {
        int64_t stop = g->symmetric && row + SIDE < g->columns ? row + SIDE : g->columns;
        for (int64_t column = 0; column < stop; column += SIDE) add_tile(g, row, column);
    }
}

#else

int gw_gram_is_quick(void) { return 0; }

void gw_gram(const Gram *g) { (void)g; }

#endif
