/* The transforms of Note [Tiles] in gatewise/analysis/tangent_kernel/compiled/winograd.py, along one axis of a tile and
   then the other.

   A vector holds sixteen channels of one pixel. In an image the numbers of a channel are contiguous, so images are
   transposed when they are read or written, one row of tiles at a time. Tiles are stored as 36 matrices with a row for
   each tile and a column for each channel, which is the layout that matrix products read. */

#include <stdint.h>

typedef struct {
    int64_t planes, height, width, plane_step, row_step; /* of an image; steps are numbers from one to the next */
    int64_t above, left;                                 /* zeros before the first row and column */
    int64_t down, across;                                /* tiles */
    float *image, *tiles;                                /* (planes, height, width), (36, down * across, planes) */
    float *space;                                        /* for 6 rows of `pixels(across)` vectors */
} Tiles;

#if defined(__x86_64__) && defined(__GNUC__) && defined(__linux__) && !defined(GW_PLAIN)
#include <immintrin.h>

#define LANES 16
#define TILE 4
#define POINTS 6 /* 0, 1, -1, 1/2, -2 and infinity, in this order; also the inputs under a tile */
#define TAPS 3
#define AVX512 __attribute__((target("avx512f")))
#define INLINED __attribute__((always_inline))
#define UNROLLED _Pragma("GCC unroll 16")
#define EACH(i, count) UNROLLED for (int i = 0; i < count; i++)
#define TIMES(number, v) _mm512_mul_ps(_mm512_set1_ps(number), v)
#define PLUS(sum, number, v) _mm512_fmadd_ps(_mm512_set1_ps(number), v, sum)

typedef __m512 Vector;

static int64_t pixels(int64_t across) { return (TILE * across + POINTS - TILE + LANES - 1) / LANES * LANES; }

/* The mask of those of 16 places, from `first`, that are at least 0 and below `size`. */
static __mmask16 inside(int64_t first, int64_t size) {
    uint32_t from = first >= 0 ? 0xffff : first <= -LANES ? 0 : 0xffff & (0xffffu << -first);
    uint32_t to = first + LANES <= size ? 0xffff : first >= size ? 0 : (1u << (size - first)) - 1;
    return (__mmask16)(from & to);
}

/* Transpose 16 by 16 numbers: in each of four rounds the two halves of the rows are interleaved. */
static inline AVX512 void turn(Vector v[LANES]) {
    const __m512i low = _mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
    const __m512i high = _mm512_setr_epi32(8, 24, 9, 25, 10, 26, 11, 27, 12, 28, 13, 29, 14, 30, 15, 31);
    EACH(round, 4) {
        Vector mixed[LANES];
        EACH(i, LANES / 2) {
            mixed[2 * i] = _mm512_permutex2var_ps(v[i], low, v[i + LANES / 2]);
            mixed[2 * i + 1] = _mm512_permutex2var_ps(v[i], high, v[i + LANES / 2]);
        }
        EACH(i, LANES) v[i] = mixed[i];
    }
}

/* Read `rows` rows of sixteen planes, with the zeros around them, into one vector for each pixel. */
static AVX512 void read_rows(const Tiles *p, int64_t plane, int64_t row, int64_t rows) {
    const int64_t count = pixels(p->across);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t at = 0; at < count; at += LANES) {
            const int64_t y = row + r - p->above, x = at - p->left;
            const __mmask16 there = y >= 0 && y < p->height ? inside(x, p->width) : 0;
            const float *place = p->image + plane * p->plane_step + y * p->row_step + x;
            Vector v[LANES];
            EACH(c, LANES) v[c] = _mm512_maskz_loadu_ps(plane + c < p->planes ? there : 0, place + c * p->plane_step);
            turn(v);
            EACH(c, LANES) _mm512_storeu_ps(p->space + (r * count + at + c) * LANES, v[c]);
        }
}

/* The inverse of `read_rows`: write the first `rows` rows. */
static AVX512 void write_rows(const Tiles *p, int64_t plane, int64_t row, int64_t rows) {
    const int64_t count = pixels(p->across);
    for (int64_t r = 0; r < rows; r++)
        for (int64_t at = 0; at < count; at += LANES) {
            const int64_t y = row + r - p->above, x = at - p->left;
            const __mmask16 there = y >= 0 && y < p->height ? inside(x, p->width) : 0;
            float *place = p->image + plane * p->plane_step + y * p->row_step + x;
            Vector v[LANES];
            EACH(c, LANES) v[c] = _mm512_loadu_ps(p->space + (r * count + at + c) * LANES);
            turn(v);
            EACH(c, LANES) _mm512_mask_storeu_ps(place + c * p->plane_step, plane + c < p->planes ? there : 0, v[c]);
        }
}

/* G: evaluate the polynomial with four coefficients at every point. */
static inline AVX512 void evaluate(const Vector d[TILE], Vector found[POINTS]) {
    Vector even = _mm512_add_ps(d[0], d[2]), odd = _mm512_add_ps(d[1], d[3]);
    found[0] = d[0];
    found[1] = _mm512_add_ps(even, odd);
    found[2] = _mm512_sub_ps(even, odd);
    found[3] = PLUS(PLUS(PLUS(d[0], 0.5f, d[1]), 0.25f, d[2]), 0.125f, d[3]);
    found[4] = PLUS(PLUS(PLUS(d[0], -2, d[1]), 4, d[2]), -8, d[3]);
    found[5] = d[3];
}

/* B: six inputs times the polynomials whose roots are all points except one. */
static inline AVX512 void spread(const Vector x[POINTS], Vector found[POINTS]) {
    Vector even = _mm512_sub_ps(x[4], x[2]), odd = _mm512_sub_ps(x[3], x[1]);
    found[0] = PLUS(PLUS(_mm512_add_ps(x[0], x[4]), 1.5f, odd), -2, x[2]);
    found[1] = PLUS(PLUS(_mm512_sub_ps(x[4], x[1]), 0.5f, x[2]), 2.5f, x[3]);
    found[2] = PLUS(PLUS(_mm512_add_ps(x[4], x[1]), -2.5f, x[2]), 0.5f, x[3]);
    found[3] = PLUS(even, 2, odd);
    found[4] = PLUS(even, -0.5f, odd);
    found[5] = PLUS(PLUS(_mm512_add_ps(x[1], x[5]), 1.5f, even), -2, x[3]);
}

/* The transpose of B. */
static inline AVX512 void collect(const Vector v[POINTS], Vector found[POINTS]) {
    Vector even = PLUS(_mm512_add_ps(v[3], v[4]), 1.5f, v[5]);
    Vector odd = PLUS(PLUS(TIMES(1.5f, v[0]), 2, v[3]), -0.5f, v[4]);
    found[0] = v[0];
    found[1] = _mm512_sub_ps(_mm512_add_ps(_mm512_sub_ps(v[2], v[1]), v[5]), odd);
    found[2] = _mm512_sub_ps(PLUS(PLUS(TIMES(0.5f, v[1]), -2.5f, v[2]), -2, v[0]), even);
    found[3] = PLUS(PLUS(PLUS(odd, 2.5f, v[1]), 0.5f, v[2]), -2, v[5]);
    found[4] = _mm512_add_ps(_mm512_add_ps(v[0], _mm512_add_ps(v[1], v[2])), even);
    found[5] = v[5];
}

/* 15 A: the coefficients of the polynomial with these values. The entries of A itself are not exact. */
static inline AVX512 void interpolate(const Vector v[POINTS], Vector found[TAPS]) {
    Vector apart = _mm512_sub_ps(v[1], v[2]), both = _mm512_add_ps(v[1], v[2]);
    found[0] = PLUS(PLUS(PLUS(v[4], -16, v[3]), 15, v[0]), 5, apart);
    found[1] = PLUS(PLUS(TIMES(-2, v[4]), -8, v[3]), 5, both);
    found[2] = PLUS(PLUS(PLUS(TIMES(4, v[4]), -4, v[3]), 15, v[5]), 5, apart);
}

typedef void Along(const Vector *given, Vector *found); /* a transform along one axis, inlined by its caller */

static inline float *pixel(const Tiles *p, int64_t row, int64_t column) {
    return p->space + (row * pixels(p->across) + column) * LANES;
}

/* Transform both axes of one tile of `size` by `size` pixels to 36 points, `step` numbers apart. */
static inline AVX512 INLINED void transform(const Tiles *p, int64_t x, int size, Along *along, float *to, int64_t step,
                                            __mmask16 there) {
    Vector half[POINTS][POINTS];
    EACH(c, size) {
        Vector column[POINTS];
        EACH(r, size) column[r] = _mm512_loadu_ps(pixel(p, r, x + c));
        along(column, half[c]);
    }
    EACH(i, POINTS) {
        Vector line[POINTS], found[POINTS];
        EACH(c, size) line[c] = half[c][i];
        along(line, found);
        EACH(j, POINTS) _mm512_mask_storeu_ps(to + (i * POINTS + j) * step, there, found[j]);
    }
}

static inline AVX512 INLINED void transform_all(const Tiles *p, int size, Along *along) {
    const int64_t step = p->down * p->across * p->planes;
    for (int64_t plane = 0; plane < p->planes; plane += LANES)
        for (int64_t row = 0; row < p->down; row++) {
            float *to = p->tiles + row * p->across * p->planes + plane;
            read_rows(p, plane, row * TILE, size);
            for (int64_t tile = 0; tile < p->across; tile++, to += p->planes)
                transform(p, tile * TILE, size, along, to, step, inside(plane, p->planes));
        }
}

/* Images to tiles, for slopes and for inputs. */
AVX512 void gw_tiles_of_slopes(const Tiles *p) { transform_all(p, TILE, evaluate); }

AVX512 void gw_tiles_of_inputs(const Tiles *p) { transform_all(p, POINTS, spread); }

/* Apply the transpose of B along both axes to 36 points, and add the result to 6 by 6 pixels. */
static inline AVX512 INLINED void add_tile(const Tiles *p, int64_t x, const float *from, int64_t step,
                                           __mmask16 there) {
    Vector half[POINTS][POINTS];
    EACH(i, POINTS) {
        Vector line[POINTS];
        EACH(j, POINTS) line[j] = _mm512_maskz_loadu_ps(there, from + (i * POINTS + j) * step);
        collect(line, half[i]);
    }
    EACH(c, POINTS) {
        Vector column[POINTS], found[POINTS];
        EACH(i, POINTS) column[i] = half[i][c];
        collect(column, found);
        EACH(r, POINTS) {
            float *place = pixel(p, r, x + c);
            _mm512_storeu_ps(place, _mm512_add_ps(_mm512_loadu_ps(place), found[r]));
        }
    }
}

/* Move the last rows of a row of tiles to the first of the next row of tiles, and set the others to zero. */
static AVX512 void move_up(const Tiles *p, int64_t kept) {
    const int64_t row = pixels(p->across) * LANES;
    for (int64_t i = 0; i < POINTS * row; i++) p->space[i] = i < kept * row ? p->space[i + TILE * row] : 0;
}

/* Tiles to images, by the transpose of `gw_tiles_of_inputs`. Overlapping tiles are added. Every pixel under a tile is
   written, the others are left unchanged. */
AVX512 void gw_tiles_to_inputs(const Tiles *p) {
    const int64_t step = p->down * p->across * p->planes;
    for (int64_t plane = 0; plane < p->planes; plane += LANES)
        for (int64_t row = 0; row < p->down; row++) {
            const float *from = p->tiles + row * p->across * p->planes + plane;
            move_up(p, row > 0 ? POINTS - TILE : 0);
            for (int64_t tile = 0; tile < p->across; tile++, from += p->planes)
                add_tile(p, tile * TILE, from, step, inside(plane, p->planes));
            write_rows(p, plane, row * TILE, row + 1 < p->down ? TILE : POINTS);
        }
}

/* Apply A along both axes: (36, count) -> (9, count). */
AVX512 void gw_tiles_to_taps(const float *met, float *found, int64_t count) {
    const Vector scale = _mm512_set1_ps(15 * 15);
    for (int64_t k = 0; k < count; k += LANES) {
        const __mmask16 there = inside(k, count);
        Vector half[POINTS][TAPS];
        EACH(i, POINTS) {
            Vector line[POINTS];
            EACH(j, POINTS) line[j] = _mm512_maskz_loadu_ps(there, met + (i * POINTS + j) * count + k);
            interpolate(line, half[i]);
        }
        EACH(c, TAPS) {
            Vector column[POINTS], taps[TAPS];
            EACH(i, POINTS) column[i] = half[i][c];
            interpolate(column, taps);
            EACH(r, TAPS) {
                float *place = found + (r * TAPS + c) * count + k;
                _mm512_mask_storeu_ps(place, there, _mm512_div_ps(taps[r], scale));
            }
        }
    }
}

int gw_tiles_is_quick(void) { return __builtin_cpu_supports("avx512f") != 0; }

#else

int gw_tiles_is_quick(void) { return 0; }

void gw_tiles_of_slopes(const Tiles *p) { (void)p; }

void gw_tiles_of_inputs(const Tiles *p) { (void)p; }

void gw_tiles_to_inputs(const Tiles *p) { (void)p; }

void gw_tiles_to_taps(const float *met, float *found, int64_t count) { (void)met, (void)found, (void)count; }

#endif
