/* CReLU in one pass each way: both halves are written side by side, and their gradients are read together.

   The input is `rows` of `length` numbers, the output `rows` of twice as many: first the positive parts, then the
   negative ones. Comparisons are false for NaN, so NaN stays NaN and passes the gradient. */

/*@FUNCTIONS@*/
#define MOST_THREADS 64
#define LEAST_WORK 65536 /* numbers that pay for a thread */
#define BLOCK 512
#define SHORT 128 /* a row of at most so many numbers is short: many of them are computed together */
#define LANES 8
#define SPACE (16 * SHORT) /* numbers of short rows that are written together */

typedef const float *restrict Read;
typedef float *restrict Write;

typedef struct {
    const float *x, *above; /* `above` is NULL forward */
    float *out;
    int64_t rows, length, threads, streams; /* `streams`: whether the output passes the caches by */
} Call;

static inline void values(Read x, Write positive, Write negative, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        positive[i] = x[i] <= 0.0f ? 0.0f : x[i];
        negative[i] = -x[i] <= 0.0f ? 0.0f : -x[i];
    }
}
static inline void slopes(Read x, Read positive, Read negative, Write out, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const float first = positive[i], second = negative[i];
        out[i] = (x[i] <= 0.0f ? 0.0f : first) - (-x[i] <= 0.0f ? 0.0f : second);
    }
}
static void run_row(const Call *c, int64_t row, int64_t first, int64_t last) {
    float space[2][BLOCK];
    const float *x = c->x + row * c->length;
    for (int64_t i = first; i < last; i += BLOCK) {
        const int64_t count = last - i < BLOCK ? last - i : BLOCK;
        if (c->above) {
            const float *above = c->above + 2 * row * c->length + i;
            float *out = c->out + row * c->length + i;
            slopes(x + i, above, above + c->length, c->streams ? space[0] : out, count);
            if (c->streams) stream(space[0], out, count);
        } else {
            float *out = c->out + 2 * row * c->length + i;
            if (!c->streams) {
                values(x + i, out, out + c->length, count);
                continue;
            }
            values(x + i, space[0], space[1], count);
            stream(space[0], out, count);
            stream(space[1], out + c->length, count);
        }
    }
}

/* A short row in vectors of LANES numbers, of which the last overlaps the one before. */
typedef float Lanes __attribute__((vector_size(4 * LANES)));
typedef int32_t Bits __attribute__((vector_size(4 * LANES)));

static inline Lanes loaded(const float *from) {
    Lanes numbers;
    memcpy(&numbers, from, sizeof numbers);
    return numbers;
}
/* `numbers` where `x` is above 0 or NaN, and 0 elsewhere. */
static inline Lanes where_open(Lanes x, Lanes numbers) {
    const Bits is_shut = x <= 0.0f;
    return (Lanes)((Bits)numbers & ~is_shut);
}
static inline void short_values(const float *x, float *positive, float *negative, int64_t length) {
    if (length < LANES) {
        for (int64_t i = 0; i < length; i++) values(x + i, positive + i, negative + i, 1);
        return;
    }
    for (int64_t i = 0; i < length; i += LANES) {
        const int64_t at = i <= length - LANES ? i : length - LANES;
        const Lanes here = loaded(x + at);
        const Lanes both[2] = {where_open(here, here), where_open(-here, -here)};
        memcpy(positive + at, &both[0], sizeof both[0]);
        memcpy(negative + at, &both[1], sizeof both[1]);
    }
}
static inline void short_slopes(const float *x, const float *above, float *out, int64_t length) {
    if (length < LANES) {
        for (int64_t i = 0; i < length; i++) slopes(x + i, above + i, above + length + i, out + i, 1);
        return;
    }
    for (int64_t i = 0; i < length; i += LANES) {
        const int64_t at = i <= length - LANES ? i : length - LANES;
        const Lanes here = loaded(x + at);
        const Lanes slope =
            where_open(here, loaded(above + at)) - where_open(-here, loaded(above + length + at));
        memcpy(out + at, &slope, sizeof slope);
    }
}
static void run_short_rows(const Call *c, int64_t first, int64_t last) {
    float space[SPACE];
    const int64_t length = c->length, written = c->above ? length : 2 * length;
    const int64_t together = SPACE / written;
    for (int64_t row = first; row < last; row += together) {
        const int64_t rows = last - row < together ? last - row : together;
        const float *x = c->x + row * length;
        float *const there = c->out + row * written, *const out = c->streams ? space : there;
        if (c->above) {
            const float *above = c->above + 2 * row * length;
            for (int64_t i = 0; i < rows; i++)
                short_slopes(x + i * length, above + 2 * i * length, out + i * length, length);
        } else {
            for (int64_t i = 0; i < rows; i++)
                short_values(x + i * length, out + 2 * i * length, out + (2 * i + 1) * length, length);
        }
        if (c->streams) stream(space, there, rows * written);
    }
}

typedef struct {
    const Call *call;
    int64_t first, last; /* numbers of the input; rows, if they are short */
} Part;

static void *run_part(void *given) {
    const Part *part = given;
    const int64_t length = part->call->length;
    if (length <= SHORT) {
        run_short_rows(part->call, part->first, part->last);
    } else {
        for (int64_t i = part->first; i < part->last;) {
            const int64_t row = i / length, start = i % length, left = part->last - row * length;
            run_row(part->call, row, start, left < length ? left : length);
            i = (row + 1) * length;
        }
    }
    if (part->call->streams) end_streams();
    return NULL;
}

/* All rows, in as many threads as are allowed and pay. */
void gw_crelu(const Call *c) {
    pthread_t started[MOST_THREADS];
    Part parts[MOST_THREADS];
    int is_running[MOST_THREADS] = {0};
    const int64_t numbers = c->rows * c->length, most = numbers / LEAST_WORK + 1;
    const int64_t count = c->length <= SHORT ? c->rows : numbers;
    int64_t threads = c->threads < most ? c->threads : most;
    threads = threads < 1 ? 1 : threads > MOST_THREADS ? MOST_THREADS : threads;
    for (int64_t i = threads - 1; i >= 0; i--) {
        parts[i] = (Part){c, count * i / threads, count * (i + 1) / threads};
        is_running[i] = i > 0 && pthread_create(&started[i], NULL, run_part, &parts[i]) == 0;
        if (!is_running[i]) run_part(&parts[i]);
    }
    for (int64_t i = 1; i < threads; i++)
        if (is_running[i]) pthread_join(started[i], NULL);
}
