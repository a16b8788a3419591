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
#define TOGETHER 8 /* rows at a time, while the next ones are fetched: the processor does not predict the jump */

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

#define ADD_EIGHT(o, READ)                                                                                            \
    {                                                                                                                 \
        float one = sums[o] + xs[0] * READ(rows[0][o]), two = xs[1] * READ(rows[1][o]);                               \
        one += xs[2] * READ(rows[2][o]), two += xs[3] * READ(rows[3][o]);                                             \
        one += xs[4] * READ(rows[4][o]), two += xs[5] * READ(rows[5][o]);                                             \
        one += xs[6] * READ(rows[6][o]), two += xs[7] * READ(rows[7][o]);                                             \
        sums[o] = one + two;                                                                                          \
    }

#define PRODUCT(NAME, TYPE, READ, WRITE)                                                                              \
    /* The number of inputs that are not small; -1 without memory. */                                                 \
    GW_CLONES int64_t gw_sparse_rows_##NAME(const SparseRows *p) {                                                    \
        enum { LINE = 64 / sizeof(TYPE) }; /* numbers in a line of the cache */                                       \
        const TYPE *x = p->x, *w = p->w, *bias = p->bias;                                                             \
        TYPE *found = p->found;                                                                                       \
        const float limit = READ(WRITE((float)p->threshold)); /* rounded as the inputs are */                         \
        int64_t *places = malloc((size_t)(p->inputs + TOGETHER) * sizeof *places), count = 0;                         \
        if (!places) return -1;                                                                                       \
        for (int64_t i = 0; i < p->inputs; i++) {                                                                     \
            places[count] = i;                                                                                        \
            count += !(fabsf(READ(x[i])) <= limit);                                                                   \
        }                                                                                                             \
        for (int64_t i = 0; i < TOGETHER && count; i++) places[count + i] = places[count - 1];                        \
        float sums[BLOCK];                                                                                            \
        for (int64_t from = 0; from < p->outputs; from += BLOCK) {                                                    \
            const int64_t left = p->outputs - from, size = left < BLOCK ? left : BLOCK;                               \
            for (int64_t o = 0; o < size; o++) sums[o] = bias ? READ(bias[from + o]) : 0;                             \
            int64_t i = 0;                                                                                            \
            for (; i + TOGETHER <= count; i += TOGETHER) {                                                            \
                const int64_t *kept = places + i, *next = kept + TOGETHER;                                            \
                const TYPE *rows[TOGETHER], *ahead[TOGETHER];                                                         \
                float xs[TOGETHER];                                                                                   \
                for (int k = 0; k < TOGETHER; k++) {                                                                  \
                    rows[k] = w + kept[k] * p->outputs + from;                                                        \
                    ahead[k] = w + next[k] * p->outputs + from;                                                       \
                    xs[k] = READ(x[kept[k]]);                                                                         \
                }                                                                                                     \
                int64_t o = 0;                                                                                        \
                for (; o + LINE <= size; o += LINE) {                                                                 \
                    for (int k = 0; k < TOGETHER; k++) __builtin_prefetch(ahead[k] + o);                              \
                    for (int64_t j = o; j < o + LINE; j++) ADD_EIGHT(j, READ)                                         \
                }                                                                                                     \
                for (; o < size; o++) ADD_EIGHT(o, READ)                                                              \
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
