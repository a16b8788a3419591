/* IIEU-B over feature maps, with the batch norm before it: patch lengths, mean responses, values and derivatives.

   `gatewise.fused` puts the functions of `elementwise.c` in front of this text and compiles both. Maps are (N, C, P) or,
   with the channels last, (N, P, C). Every step works on one sample at a time, and every sum has one place per sample.
   So no bit depends on the number of threads. Sums run in float32 over at most 32 numbers, then in double.

   x = scale z + offset, s = x / (|w| |p|), rho = s + shift, weight = rho, or eta exp(rho - eta) where rho < eta. */

#define TILE 256             /* channels or positions that are worked on at once */
#define LANES 16
#define FLUSH 32             /* numbers that are added in float32 */
#define FAR 0x1p+88f         /* beyond this a response passes no gradient to shift and threshold */
#define KINDS 5              /* sums per channel */
#define LEAST_WORK 65536     /* numbers that pay for a thread */

typedef const float *restrict Read;
typedef float *restrict Write;

typedef struct {
    const float *source, *z, *above;
    float *out, *source_gradient;
    const float *scale, *offset, *centre, *filter, *eta; /* (C) */
    const float *shift, *constant;                       /* (N, C) */
    const float *slope;                                  /* (C) */
    float *patch;                                        /* (N, P): inverse lengths */
    float *positions;                                    /* (N, P): sums over channels */
    float *space;                                        /* (N, H W + OH W) */
    double *sums;                                        /* (N, KINDS, C) */
    int64_t *far;                                        /* (N): whether a length is out of range */
    int64_t samples, inputs, channels, height, width, out_height, out_width;
    int64_t kernel[2], stride[2], padding[2], dilation[2];
    int64_t source_last, last, squares, adds, threads;
    double eps, more;                                    /* added to a length; `eps` is the least length */
} Call;

#if defined(__clang__)
#define EACH_ALONE _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__)
#define EACH_ALONE _Pragma("GCC ivdep")
#else
#define EACH_ALONE
#endif
INLINE int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }

/* ---- sums ---- */
static double total_of(Read values, int64_t count) {
    double total = 0;
    for (int64_t first = 0; first < count; first += LANES * FLUSH) {
        float lanes[LANES] = {0};
        const int64_t end = least(count, first + LANES * FLUSH);
        int64_t i = first;
        for (; i + LANES <= end; i += LANES)
            for (int j = 0; j < LANES; j++) lanes[j] += values[i + j];
        for (; i < end; i++) lanes[i % LANES] += values[i];
        for (int j = 0; j < LANES; j++) total += lanes[j];
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
    float lanes[LANES] = {0}, total = 0;
    int64_t i = 0;
    for (; i + LANES <= count; i += LANES)
        for (int j = 0; j < LANES; j++) lanes[j] += x[i + j] * x[i + j];
    for (; i < count; i++) lanes[i % LANES] += x[i] * x[i];
    for (int j = 0; j < LANES; j++) total += lanes[j];
    return total;
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
static void squares_of_row(const Call *c, const float *x, float *to, int64_t row) {
    const int64_t width = c->width, area = c->height * width;
    memset(to, 0, (size_t)width * sizeof *to);
    if (c->source_last) {
        for (int64_t w = 0; w < width; w++)
            if (is_read(c, 1, w)) to[w] = dot(x + (row * width + w) * c->inputs, c->inputs);
        return;
    }
    float part[TILE];
    for (int64_t first = 0; first < width; first += TILE) {
        const int64_t count = least(TILE, width - first);
        for (int64_t channel = 0; channel < c->inputs; channel += FLUSH) {
            memset(part, 0, sizeof part);
            for (int64_t k = channel; k < least(c->inputs, channel + FLUSH); k++)
                add_squares(x + k * area + row * width + first, part, count);
            add_values(part, to + first, count);
        }
    }
}
static void lengths(const Call *c, int64_t n) {
    const int64_t area = c->height * c->width, outputs = c->out_height * c->out_width;
    float *energy = c->space + n * (area + c->out_height * c->width), *rows = energy + area;
    float *patch = c->patch + n * outputs;
    const float low = (float)(c->eps * c->eps), more = (float)c->more;
    int far = 0;
    for (int64_t h = 0; h < c->height; h++)
        if (is_read(c, 0, h)) squares_of_row(c, c->source + n * c->inputs * area, energy + h * c->width, h);
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
static void scaled_row(Read x, Write to, Read factors, int64_t count, int64_t adds) {
    if (adds)
        for (int64_t i = 0; i < count; i++) to[i] = fused(x[i], factors[i], to[i]);
    else
        for (int64_t i = 0; i < count; i++) to[i] = x[i] * factors[i];
}
static void scaled_position(Read x, Write to, float factor, int64_t count, int64_t adds) {
    if (adds)
        for (int64_t i = 0; i < count; i++) to[i] = fused(x[i], factor, to[i]);
    else
        for (int64_t i = 0; i < count; i++) to[i] = x[i] * factor;
}
static void lengths_back(const Call *c, int64_t n) {
    const int64_t area = c->height * c->width, outputs = c->out_height * c->out_width;
    float *energy = c->space + n * (area + c->out_height * c->width), *rows = energy + area;
    const float *x = c->source + n * c->inputs * area;
    float *to = c->source_gradient + n * c->inputs * area;
    memset(energy, 0, (size_t)(area + c->out_height * c->width) * sizeof *energy);
    for (int64_t o = 0; o < c->out_height; o++)
        for (int64_t i = 0; i < c->out_width; i++) {
            /* inverse = 1 / length, length = root(total) + more: twice the derivative to `total`. */
            const int64_t place = n * outputs + o * c->out_width + i;
            const float inverse = c->patch[place];
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
            if (!c->adds || energy[p] != 0.0f)
                scaled_position(x + p * c->inputs, to + p * c->inputs, energy[p], c->inputs, c->adds);
    } else {
        for (int64_t k = 0; k < c->inputs; k++) scaled_row(x + k * area, to + k * area, energy, area, c->adds);
    }
}

/* ---- sums of responses: z - centre, and its square ---- */
static void centred_row(Read z, Write first, Write second, Read centre, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const float d = z[i] - centre[i];
        first[i] += d;
        second[i] = fused(d, d, second[i]);
    }
}
static void centred_tile(Read z, Write first, Write second, float centre, int64_t count) {
    for (int64_t i = 0; i < count; i++) {
        const float d = z[i] - centre;
        first[i] = d;
        second[i] = d * d;
    }
}
static void means(const Call *c, int64_t n) {
    const int64_t positions = c->out_height * c->out_width, channels = c->channels;
    const float *z = c->z + n * channels * positions;
    double *first = c->sums + n * KINDS * channels, *second = first + channels;
    float a[TILE] = {0}, b[TILE] = {0};
    if (!c->last) {
        for (int64_t k = 0; k < channels; k++)
            for (int64_t p = 0; p < positions; p += TILE) {
                const int64_t count = least(TILE, positions - p);
                centred_tile(z + k * positions + p, a, b, c->centre[k], count);
                first[k] += total_of(a, count);
                if (c->squares) second[k] += total_of(b, count);
            }
        return;
    }
    for (int64_t k = 0; k < channels; k += TILE) {
        const int64_t count = least(TILE, channels - k);
        for (int64_t p = 0; p < positions; p++) {
            centred_row(z + p * channels + k, a, b, c->centre + k, count);
            if (p % FLUSH == FLUSH - 1 || p == positions - 1) {
                flush(a, first + k, count);
                flush(b, second + k, count);
            }
        }
    }
}

/* ---- values and derivatives of a row ----
   With the channels last a row has one position and all channels, else one channel and all positions. */
#define ELEMENT(C_, P_)                                                                                              \
    const float raw = z[i], x = fused(raw, scale[C_], offset[C_]);                                                    \
    const float s = (x * patch[P_]) * filter[C_], rho = s + shift[C_], bound = eta[C_];                               \
    const int below = rho < bound;                                                                                     \
    const float decay = exp_of_negative(below ? rho - bound : 0.0f), weight = below ? bound * decay : rho;

#define ROWS(NAME, C_, P_, INTO)                                                                                      \
    __attribute__((noinline)) static void values_##NAME(const float *z, float *out, Read scale, Read offset,           \
                                                         Read filter, Read shift, Read eta, Read patch,                \
                                                         int64_t count) {                                              \
        EACH_ALONE /* the output may take the place of z */                                                            \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            ELEMENT(C_, P_)                                                                                            \
            out[i] = (decay == 0.0f ? 0.0f : x) * weight;                                                              \
        }                                                                                                              \
    }                                                                                                                  \
    __attribute__((noinline)) static void slopes_##NAME(                                                               \
        Read z, Read above, Write out, Write product, Write low, Write high, Write inner, Write sum, Write moment,     \
        Read scale, Read offset, Read filter, Read shift, Read eta, Read centre, Read patch, int64_t count) {          \
        for (int64_t i = 0; i < count; i++) {                                                                          \
            ELEMENT(C_, P_)                                                                                            \
            const float kept = decay == 0.0f ? 0.0f : above[i], up = kept * x, near = absolute(x) > FAR ? 0.0f : up;   \
            const float change = up * (below ? weight : 1.0f), part = change * s;                                      \
            const float slope = kept * weight + change * (patch[P_] * filter[C_]);                                     \
            out[i] = slope;                                                                                            \
            product[i] = part;                                                                                         \
            low[i] INTO(below ? near * decay : 0.0f);                                                                  \
            high[i] INTO(below ? 0.0f : near);                                                                         \
            inner[i] INTO part;                                                                                        \
            sum[i] INTO slope;                                                                                         \
            moment[i] INTO(slope * (raw - centre[C_]));                                                                \
        }                                                                                                              \
    }
ROWS(channels, i, 0, +=)
ROWS(positions, 0, i, =)

static void values(const Call *c, int64_t n) {
    const int64_t positions = c->out_height * c->out_width, channels = c->channels;
    const int64_t start = n * channels * positions;
    const float *patch = c->patch + n * positions, *shift = c->shift + n * channels;
    if (c->last)
        for (int64_t p = 0; p < positions; p++)
            values_channels(c->z + start + p * channels, c->out + start + p * channels, c->scale, c->offset, c->filter,
                            shift, c->eta, patch + p, channels);
    else
        for (int64_t k = 0; k < channels; k++)
            values_positions(c->z + start + k * positions, c->out + start + k * positions, c->scale + k, c->offset + k,
                             c->filter + k, shift + k, c->eta + k, patch, positions);
}

/* The gradient to x, without what comes through the mean; sums per channel and per position. */
static void slopes(const Call *c, int64_t n) {
    const int64_t positions = c->out_height * c->out_width, channels = c->channels;
    const int64_t start = n * channels * positions;
    const float *z = c->z + start, *above = c->above + start, *patch = c->patch + n * positions;
    const float *shift = c->shift + n * channels;
    float *out = c->out + start, *by_position = c->positions + n * positions;
    double *sums = c->sums + n * KINDS * channels;
    float parts[KINDS][TILE] = {{0}}, product[TILE];
    memset(by_position, 0, (size_t)positions * sizeof *by_position);
    for (int64_t k = 0; c->last && k < channels; k += TILE) {
        const int64_t count = least(TILE, channels - k);
        for (int64_t p = 0; p < positions; p++) {
            const int64_t at = p * channels + k;
            slopes_channels(z + at, above + at, out + at, product, parts[0], parts[1], parts[2], parts[3], parts[4],
                            c->scale + k, c->offset + k, c->filter + k, shift + k, c->eta + k, c->centre + k, patch + p,
                            count);
            by_position[p] += (float)total_of(product, count);
            if (p % FLUSH == FLUSH - 1 || p == positions - 1)
                for (int kind = 0; kind < KINDS; kind++) flush(parts[kind], sums + kind * channels + k, count);
        }
    }
    for (int64_t p = 0; !c->last && p < positions; p += TILE) {
        const int64_t count = least(TILE, positions - p);
        float group[TILE] = {0};
        for (int64_t k = 0; k < channels; k++) {
            const int64_t at = k * positions + p;
            slopes_positions(z + at, above + at, out + at, product, parts[0], parts[1], parts[2], parts[3], parts[4],
                             c->scale + k, c->offset + k, c->filter + k, shift + k, c->eta + k, c->centre + k,
                             patch + p, count);
            for (int kind = 0; kind < KINDS; kind++) sums[kind * channels + k] += total_of(parts[kind], count);
            add_values(product, group, count);
            if (k % FLUSH == FLUSH - 1 || k == channels - 1) {
                add_values(group, by_position + p, count);
                memset(group, 0, sizeof group);
            }
        }
    }
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
    const int64_t positions = c->out_height * c->out_width, channels = c->channels;
    const int64_t start = n * channels * positions;
    const float *constant = c->constant + n * channels;
    if (c->last)
        for (int64_t p = 0; p < positions; p++)
            finish_channels(c->z + start + p * channels, c->out + start + p * channels, c->scale, constant, c->slope,
                            c->centre, channels);
    else
        for (int64_t k = 0; k < channels; k++)
            finish_positions(c->z + start + k * positions, c->out + start + k * positions, c->scale[k], constant[k],
                             c->slope[k], c->centre[k], positions);
}

/* ---- steps ---- */
typedef void (*Step)(const Call *, int64_t);
static const Step STEPS[] = {lengths, means, values, slopes, finish, lengths_back};

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

/* The sum of squares of each row of a matrix. */
void gw_squares(const float *matrix, double *out, int64_t rows, int64_t length) {
    for (int64_t r = 0; r < rows; r++) {
        double total = 0;
        for (int64_t i = 0; i < length; i += LANES * FLUSH)
            total += dot(matrix + r * length + i, least(LANES * FLUSH, length - i));
        out[r] = total;
    }
}
/* Add each row times its factor. */
void gw_add_rows(const float *matrix, float *to, const float *factors, int64_t rows, int64_t length) {
    for (int64_t r = 0; r < rows; r++)
        scaled_position(matrix + r * length, to + r * length, factors[r], length, 1);
}
