/* CReLU in one pass each way: both halves are written side by side, and their gradients are read together.

   The input is `rows` of `length` numbers, the output `rows` of twice as many: first the positive parts, then the
   negative ones. Comparisons are false for NaN, so NaN stays NaN and passes the gradient. */

/*@FUNCTIONS@*/
#define MOST_THREADS 64
#define LEAST_WORK 65536 /* numbers that pay for a thread */
#define BLOCK 512

typedef const float *restrict Read;
typedef float *restrict Write;

typedef struct {
    const float *x, *above; /* `above` is NULL forward */
    float *out;
    int64_t rows, length, threads, streams; /* `streams`: whether the output passes the caches by */
} Call;

static void values(Read x, Write positive, Write negative, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        positive[i] = x[i] <= 0.0f ? 0.0f : x[i];
        negative[i] = -x[i] <= 0.0f ? 0.0f : -x[i];
    }
}
static void slopes(Read x, Read positive, Read negative, Write out, int64_t count) {
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

typedef struct {
    const Call *call;
    int64_t first, last; /* numbers of the input */
} Part;

static void *run_part(void *given) {
    const Part *part = given;
    const int64_t length = part->call->length;
    for (int64_t i = part->first; i < part->last;) {
        const int64_t row = i / length, start = i % length, left = part->last - row * length;
        run_row(part->call, row, start, left < length ? left : length);
        i = (row + 1) * length;
    }
    if (part->call->streams) end_streams();
    return NULL;
}

/* All rows, in as many threads as are allowed and pay. */
void gw_crelu(const Call *c) {
    pthread_t started[MOST_THREADS];
    Part parts[MOST_THREADS];
    int is_running[MOST_THREADS] = {0};
    const int64_t count = c->rows * c->length, most = count / LEAST_WORK + 1;
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
