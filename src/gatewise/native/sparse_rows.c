/* The product of one row of inputs with a matrix, `y = bias + sum of x[i] w[i, :]`, without the rows of w whose input
   is small. Rows of w are the columns of a linear layer's weight, stored one after another.

   The sums of a block of outputs stay in the first cache while eight rows at a time are read. Rows that are left out
   are not read at all, which is where the time goes. Sums are kept in float32, for bfloat16 too. NaN is not small. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__) && !defined(GW_PLAIN)
#define GW_CLONES __attribute__((target_clones("avx512f", "arch=haswell", "default"), optimize("fp-contract=fast")))
#else
#define GW_CLONES
#endif

#define BLOCK 4096 /* outputs at a time */

typedef struct {
    int64_t inputs, outputs;  /* w is (inputs, outputs) */
    const void *x, *w, *bias; /* bias may be null */
    void *found;              /* (outputs) */
    double threshold;
} SparseRows;

static inline float wide(uint16_t number) {
    uint32_t bits = (uint32_t)number << 16;
    float value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* To the nearest, to even at a tie. */
static inline uint16_t narrow(float value) {
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    if (value != value) return 0x7fc0;
    return (uint16_t)((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

static inline float same(float value) { return value; }

#define PRODUCT(NAME, TYPE, READ, WRITE)                                                                              \
    /* The number of inputs that are not small; -1 without memory. */                                                 \
    GW_CLONES int64_t gw_sparse_rows_##NAME(const SparseRows *p) {                                                    \
        const TYPE *x = p->x, *w = p->w, *bias = p->bias;                                                             \
        TYPE *found = p->found;                                                                                       \
        const float limit = READ(WRITE((float)p->threshold)); /* as torch compares */                                 \
        int64_t *places = malloc((size_t)p->inputs * sizeof *places), count = 0;                                      \
        if (!places) return -1;                                                                                       \
        for (int64_t i = 0; i < p->inputs; i++) {                                                                     \
            places[count] = i;                                                                                        \
            count += !(fabsf(READ(x[i])) <= limit);                                                                   \
        }                                                                                                             \
        float sums[BLOCK];                                                                                            \
        for (int64_t from = 0; from < p->outputs; from += BLOCK) {                                                    \
            const int64_t left = p->outputs - from, size = left < BLOCK ? left : BLOCK;                               \
            for (int64_t o = 0; o < size; o++) sums[o] = bias ? READ(bias[from + o]) : 0;                             \
            int64_t i = 0;                                                                                            \
            for (; i + 8 <= count; i += 8) {                                                                          \
                const int64_t *kept = places + i;                                                                     \
                const TYPE *w0 = w + kept[0] * p->outputs + from, *w1 = w + kept[1] * p->outputs + from;              \
                const TYPE *w2 = w + kept[2] * p->outputs + from, *w3 = w + kept[3] * p->outputs + from;              \
                const TYPE *w4 = w + kept[4] * p->outputs + from, *w5 = w + kept[5] * p->outputs + from;              \
                const TYPE *w6 = w + kept[6] * p->outputs + from, *w7 = w + kept[7] * p->outputs + from;              \
                const float x0 = READ(x[kept[0]]), x1 = READ(x[kept[1]]), x2 = READ(x[kept[2]]);                      \
                const float x3 = READ(x[kept[3]]), x4 = READ(x[kept[4]]), x5 = READ(x[kept[5]]);                      \
                const float x6 = READ(x[kept[6]]), x7 = READ(x[kept[7]]);                                             \
                for (int64_t o = 0; o < size; o++) {                                                                  \
                    float one = sums[o] + x0 * READ(w0[o]), two = x1 * READ(w1[o]);                                   \
                    one += x2 * READ(w2[o]), two += x3 * READ(w3[o]);                                                 \
                    one += x4 * READ(w4[o]), two += x5 * READ(w5[o]);                                                 \
                    one += x6 * READ(w6[o]), two += x7 * READ(w7[o]);                                                 \
                    sums[o] = one + two;                                                                              \
                }                                                                                                     \
            }                                                                                                         \
            for (; i < count; i++) {                                                                                  \
                const TYPE *row = w + places[i] * p->outputs + from;                                                  \
                const float value = READ(x[places[i]]);                                                               \
                for (int64_t o = 0; o < size; o++) sums[o] += value * READ(row[o]);                                   \
            }                                                                                                         \
            for (int64_t o = 0; o < size; o++) found[from + o] = WRITE(sums[o]);                                      \
        }                                                                                                             \
        free(places);                                                                                                 \
        return count;                                                                                                 \
    }

PRODUCT(float32, float, same, same)
PRODUCT(bfloat16, uint16_t, wide, narrow)
