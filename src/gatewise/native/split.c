/* Split convex polygons by the lines on which units change their sign: the units of one layer (gw_split_lines), or of
   a chain of dense layers (gw_split_dense).

   The same as gatewise/analysis/planes/line_splitting.py, one polygon at a time. The values of all units at the vertices
   show which units have both signs, and only those cut. A new vertex is on its line by construction. A value within a
   few roundings of its terms counts as zero, so that no line cuts twice. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__) && !defined(GW_PLAIN)
#define GW_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#define GW_FUSED __attribute__((optimize("fp-contract=fast")))
#else
#define GW_CLONES
#define GW_FUSED
#endif

typedef struct {
    double x, y;
    int64_t label; /* of the edge to the next vertex */
} Vertex;

typedef struct {
    int64_t start, count;
} Part;

typedef struct {
    int64_t polygons, vertices, next_label;
    double *coordinates; /* (vertices, 2) */
    int64_t *labels;     /* (vertices) */
    int64_t *starts;     /* (polygons + 1) */
    int64_t *parent;     /* (polygons) */
    uint8_t *piece;      /* (polygons, units) */
    int64_t room, vertex_room;
} Split;

typedef struct {
    Vertex *pool; /* vertices of all parts of the current polygon, including parts that were cut again */
    int64_t used, room;
    Part *parts;
    int64_t count, part_room;
    double *values;
    int64_t value_room;
} Work;

static int grow(void **memory, int64_t *room, int64_t wanted, size_t size) {
    if (wanted <= *room) return 1;
    int64_t more = *room ? *room : 64;
    while (more < wanted) more *= 2;
    void *fresh = realloc(*memory, (size_t)more * size);
    if (!fresh) return 0;
    *memory = fresh;
    *room = more;
    return 1;
}

/* The smallest and the largest value of each unit at the polygon's vertices; `lines` is (3, units). */
GW_CLONES
static void bounds(const double *restrict lines, int64_t units, const Vertex *restrict corners, int64_t count,
                   double *restrict low, double *restrict high) {
    const double *restrict c = lines, *restrict a = lines + units, *restrict b = lines + 2 * units;
    for (int64_t v = 0; v < count; v++) {
        const double x = corners[v].x, y = corners[v].y;
        if (v == 0) {
            for (int64_t u = 0; u < units; u++) low[u] = high[u] = c[u] + a[u] * x + b[u] * y;
        } else {
            for (int64_t u = 0; u < units; u++) {
                const double value = c[u] + a[u] * x + b[u] * y;
                low[u] = value < low[u] ? value : low[u];
                high[u] = value > high[u] ? value : high[u];
            }
        }
    }
}

/* `zero[u]`: the bound below which a value may be a rounding error. */
GW_CLONES
static void tolerances(const double *restrict lines, int64_t units, double reach_x, double reach_y, double rounding,
                       double *restrict zero) {
    const double *restrict c = lines, *restrict a = lines + units, *restrict b = lines + 2 * units;
    for (int64_t u = 0; u < units; u++) zero[u] = rounding * (fabs(c[u]) + reach_x * fabs(a[u]) + reach_y * fabs(b[u]));
}

GW_CLONES
static void sides(const double *restrict lines, int64_t units, double x, double y, uint8_t *restrict piece) {
    const double *restrict c = lines, *restrict a = lines + units, *restrict b = lines + 2 * units;
    for (int64_t u = 0; u < units; u++) piece[u] = c[u] + a[u] * x + b[u] * y > 0;
}

/* Append the side of `part` where sign * value >= 0; see `_side` in polygons.py for the labels. */
static Part side(Work *work, Part part, double sign, int64_t label) {
    Part made = {work->used, 0};
    const double *values = work->values;
    for (int64_t i = 0; i < part.count; i++) {
        const int64_t j = i + 1 < part.count ? i + 1 : 0;
        const Vertex here = work->pool[part.start + i], next = work->pool[part.start + j];
        const double value = sign * values[i], there = sign * values[j];
        if (value >= 0) {
            Vertex kept = here;
            if (value == 0 && there < 0) kept.label = label;
            work->pool[work->used++] = kept;
        }
        if ((value < 0 && there > 0) || (value > 0 && there < 0)) { /* their product could underflow to 0 */
            const double share = values[i] / (values[i] - values[j]);
            Vertex point = {here.x + share * (next.x - here.x), here.y + share * (next.y - here.y), here.label};
            if (value > 0) point.label = label;
            work->pool[work->used++] = point;
        }
    }
    made.count = work->used - made.start;
    return made;
}

/* Cut all parts of the polygon by one unit. */
static int cut(Work *work, double c, double a, double b, double zero, int64_t *label) {
    const int64_t before = work->count;
    for (int64_t p = 0; p < before; p++) {
        const Part part = work->parts[p];
        int above = 0, below = 0;
        if (!grow((void **)&work->values, &work->value_room, part.count, sizeof(double))) return 0;
        for (int64_t i = 0; i < part.count; i++) {
            const Vertex *v = &work->pool[part.start + i];
            double value = c + a * v->x + b * v->y;
            if (fabs(value) <= zero) value = 0;
            above |= value > 0;
            below |= value < 0;
            work->values[i] = value;
        }
        if (!(above && below)) continue;
        if (!grow((void **)&work->pool, &work->room, work->used + 4 * part.count + 8, sizeof(Vertex))) return 0;
        if (!grow((void **)&work->parts, &work->part_room, work->count + 1, sizeof(Part))) return 0;
        work->parts[p] = side(work, part, 1.0, *label);
        work->parts[work->count++] = side(work, part, -1.0, *label);
        (*label)++;
    }
    return 1;
}

/* The buffers of one layer for one polygon. */
typedef struct {
    Work work;
    double *low, *high, *zero; /* (units) each, one allocation */
} Bench;

static int open_bench(Bench *bench, int64_t units) {
    memset(bench, 0, sizeof *bench);
    bench->low = malloc(sizeof(double) * (size_t)(3 * units + 1));
    bench->high = bench->low + units;
    bench->zero = bench->high + units;
    return bench->low != NULL;
}

static void close_bench(Bench *bench) {
    free(bench->low);
    free(bench->work.pool);
    free(bench->work.parts);
    free(bench->work.values);
}

typedef struct {
    double reach_x, reach_y, rounding;
} Window;

/* Cut the polygon of `count` corners by the lines (3, units). The parts are in the bench's work. */
static int cut_polygon(Bench *bench, const Vertex *corners, int64_t count, const double *lines, int64_t units,
                       const Window *window, int64_t *label) {
    Work *work = &bench->work;
    if (!grow((void **)&work->pool, &work->room, count, sizeof(Vertex))) return 0;
    if (!grow((void **)&work->parts, &work->part_room, 1, sizeof(Part))) return 0;
    memcpy(work->pool, corners, sizeof(Vertex) * (size_t)count);
    work->used = count;
    work->parts[0] = (Part){0, count};
    work->count = 1;
    bounds(lines, units, corners, count, bench->low, bench->high);
    tolerances(lines, units, window->reach_x, window->reach_y, window->rounding, bench->zero);
    for (int64_t u = 0; u < units; u++)
        if (bench->low[u] < -bench->zero[u] && bench->high[u] > bench->zero[u])
            if (!cut(work, lines[u], lines[units + u], lines[2 * units + u], bench->zero[u], label)) return 0;
    return 1;
}

static int reserve(Split *out, int64_t polygons, int64_t vertices, int64_t units) {
    if (out->polygons + polygons + 1 > out->room) {
        int64_t starts = out->room, parents = out->room, pieces = out->room;
        const int64_t wanted = out->polygons + polygons + 1;
        if (!grow((void **)&out->starts, &starts, wanted, sizeof(int64_t))) return 0;
        if (!grow((void **)&out->parent, &parents, wanted, sizeof(int64_t))) return 0;
        if (!grow((void **)&out->piece, &pieces, wanted, (size_t)units)) return 0;
        out->room = starts;
    }
    if (out->vertices + vertices > out->vertex_room) {
        int64_t points = out->vertex_room, labels = out->vertex_room;
        if (!grow((void **)&out->coordinates, &points, out->vertices + vertices, 2 * sizeof(double))) return 0;
        if (!grow((void **)&out->labels, &labels, out->vertices + vertices, sizeof(int64_t))) return 0;
        out->vertex_room = points;
    }
    return 1;
}

static int hand_out(Split *out, const Work *work, const double *lines, int64_t units, int64_t parent) {
    int64_t vertices = 0;
    for (int64_t p = 0; p < work->count; p++) vertices += work->parts[p].count;
    if (!reserve(out, work->count, vertices, units)) return 0;
    for (int64_t p = 0; p < work->count; p++) {
        const Part part = work->parts[p];
        double x = 0, y = 0;
        for (int64_t i = 0; i < part.count; i++) {
            const Vertex *v = &work->pool[part.start + i];
            out->coordinates[2 * out->vertices] = v->x;
            out->coordinates[2 * out->vertices + 1] = v->y;
            out->labels[out->vertices++] = v->label;
            x += v->x;
            y += v->y;
        }
        sides(lines, units, x / (double)part.count, y / (double)part.count, out->piece + out->polygons * units);
        out->parent[out->polygons++] = parent;
        out->starts[out->polygons] = out->vertices;
    }
    return 1;
}

void gw_split_free(Split *out) {
    free(out->coordinates);
    free(out->labels);
    free(out->starts);
    free(out->parent);
    free(out->piece);
    memset(out, 0, sizeof *out);
}

/* The corners of polygon i, in a buffer that grows. */
static const Vertex *corners_of(int64_t i, const double *coordinates, const int64_t *labels, const int64_t *starts,
                                Vertex **memory, int64_t *room) {
    const int64_t first = starts[i], count = starts[i + 1] - first;
    if (!grow((void **)memory, room, count, sizeof(Vertex))) return NULL;
    for (int64_t v = 0; v < count; v++)
        (*memory)[v] = (Vertex){coordinates[2 * (first + v)], coordinates[2 * (first + v) + 1], labels[first + v]};
    return *memory;
}

/* Split polygon i by the lines (3, units) at lines + 3 * units * i. Returns 1, or 0 if an allocation failed. */
int gw_split_lines(int64_t polygons, int64_t units, const double *coordinates, const int64_t *labels,
                   const int64_t *starts, const double *lines, double reach_x, double reach_y, double rounding,
                   int64_t first_label, Split *out) {
    const Window window = {reach_x, reach_y, rounding};
    Vertex *memory = NULL;
    int64_t room = 0;
    Bench bench;
    memset(out, 0, sizeof *out);
    out->next_label = first_label;
    int fine = open_bench(&bench, units) && reserve(out, polygons, starts[polygons], units);
    if (fine) out->starts[0] = 0;
    for (int64_t i = 0; fine && i < polygons; i++) {
        const double *own = lines + 3 * units * i;
        const Vertex *corners = corners_of(i, coordinates, labels, starts, &memory, &room);
        fine = corners && cut_polygon(&bench, corners, starts[i + 1] - starts[i], own, units, &window, &out->next_label) &&
               hand_out(out, &bench.work, own, units, i);
    }
    close_bench(&bench);
    free(memory);
    if (!fine) gw_split_free(out);
    return fine;
}

/* A chain of dense layers, depth first: a part is propagated through all layers before the next part. So its numbers
   stay in the L1 cache, and units that are off on the part cost nothing in later layers. */

#define LANES 8

typedef struct {
    int64_t inputs, outputs, units; /* `units`: outputs, padded with zeros to whole vectors */
    const double *weight;           /* (inputs, units) */
    const double *bias;             /* (units) */
    const double *slope;            /* (units) slope of a negative response; that of a positive one is 1. NULL: no unit */
    const uint64_t *random;         /* (units) the sum over positive units identifies the pattern */
} Dense;

typedef struct {
    int64_t polygons, vertices, next_label, limit;
    double *coordinates; /* (vertices, 2) */
    int64_t *labels;     /* (vertices) */
    int64_t *starts;     /* (polygons + 1) */
    uint64_t *pattern;   /* (polygons) */
    double *maps;        /* (polygons, 3, outputs of the last layer) */
    int64_t room, vertex_room;
} Regions;

/* The input of a layer on a polygon: constants and slopes (3, step). Only those at `index` are not zero. */
typedef struct {
    const double *numbers;
    int64_t step, count;
    const int64_t *index;
} Given;

/* The buffers of one layer on one polygon. */
typedef struct {
    Bench bench;
    double *lines;  /* (3, units) its responses */
    double *passed; /* (3, units) the outputs of its units */
    double *factor; /* (units) slope of the piece that each unit is in */
    int64_t *index; /* (units) the units that are not off */
    uint8_t *piece; /* (units) */
} Level;

enum { NO_MEMORY = 0, FINE = 1, TOO_MANY = 2 };

typedef struct {
    int64_t depth;
    const Dense *layers;
    Level *levels;
    Window window;
    Regions *out;
} Chain;

typedef double Lanes __attribute__((vector_size(LANES * sizeof(double)), aligned(8)));
#define AT(place) (*(Lanes *)(place))

/* Four vectors of the responses (3, units) from `u`. All twelve sums stay in registers. */
GW_CLONES GW_FUSED
static void respond_wide(const Dense *layer, const Given *given, int64_t u, double *lines) {
    const double *c = given->numbers, *a = c + given->step, *b = a + given->step, *bias = layer->bias + u;
    const int64_t units = layer->units;
    Lanes c0 = AT(bias), c1 = AT(bias + LANES), c2 = AT(bias + 2 * LANES), c3 = AT(bias + 3 * LANES);
    Lanes a0 = {0}, a1 = {0}, a2 = {0}, a3 = {0}, b0 = {0}, b1 = {0}, b2 = {0}, b3 = {0};
    for (int64_t i = 0; i < given->count; i++) {
        const int64_t k = given->index[i];
        const double *weight = layer->weight + k * units + u;
        const Lanes w0 = AT(weight), w1 = AT(weight + LANES), w2 = AT(weight + 2 * LANES), w3 = AT(weight + 3 * LANES);
        c0 += c[k] * w0, c1 += c[k] * w1, c2 += c[k] * w2, c3 += c[k] * w3;
        a0 += a[k] * w0, a1 += a[k] * w1, a2 += a[k] * w2, a3 += a[k] * w3;
        b0 += b[k] * w0, b1 += b[k] * w1, b2 += b[k] * w2, b3 += b[k] * w3;
    }
    double *at = lines + u;
    AT(at) = c0, AT(at + LANES) = c1, AT(at + 2 * LANES) = c2, AT(at + 3 * LANES) = c3;
    at += units;
    AT(at) = a0, AT(at + LANES) = a1, AT(at + 2 * LANES) = a2, AT(at + 3 * LANES) = a3;
    at += units;
    AT(at) = b0, AT(at + LANES) = b1, AT(at + 2 * LANES) = b2, AT(at + 3 * LANES) = b3;
}

/* The same for one vector. */
GW_CLONES GW_FUSED
static void respond(const Dense *layer, const Given *given, int64_t u, double *lines) {
    const double *c = given->numbers, *a = c + given->step, *b = a + given->step;
    Lanes cs = AT(layer->bias + u), as = {0}, bs = {0};
    for (int64_t i = 0; i < given->count; i++) {
        const int64_t k = given->index[i];
        const Lanes w = AT(layer->weight + k * layer->units + u);
        cs += c[k] * w, as += a[k] * w, bs += b[k] * w;
    }
    AT(lines + u) = cs, AT(lines + layer->units + u) = as, AT(lines + 2 * layer->units + u) = bs;
}

GW_CLONES
static void scale(const double *restrict lines, const double *restrict slope, const uint8_t *restrict piece,
                  int64_t units, double *restrict factor, double *restrict passed) {
    for (int64_t u = 0; u < units; u++) factor[u] = piece[u] ? 1.0 : slope[u];
    for (int64_t row = 0; row < 3 * units; row += units)
        for (int64_t u = 0; u < units; u++) passed[row + u] = factor[u] * lines[row + u];
}

/* The outputs of the layer's units in their pieces. */
static Given pass(const Dense *layer, Level *level) {
    int64_t count = 0;
    scale(level->lines, layer->slope, level->piece, layer->units, level->factor, level->passed);
    for (int64_t u = 0; u < layer->outputs; u++) { /* without a branch, which would be mispredicted */
        level->index[count] = u;
        count += level->factor[u] != 0;
    }
    return (Given){level->passed, layer->units, count, level->index};
}

/* The outputs of a layer without units: all responses. */
static Given pass_all(const Dense *layer, Level *level) {
    for (int64_t u = 0; u < layer->outputs; u++) level->index[u] = u;
    return (Given){level->lines, layer->units, layer->outputs, level->index};
}

static uint64_t name(const Dense *layer, const uint8_t *piece) {
    uint64_t sum = 0;
    for (int64_t u = 0; u < layer->outputs; u++) sum += layer->random[u] & -(uint64_t)piece[u];
    return sum;
}

static int keep(Regions *out, const Vertex *corners, int64_t count, const Given *given, int64_t outputs, uint64_t pattern) {
    if (out->polygons >= out->limit) return TOO_MANY;
    if (out->polygons + 2 > out->room) {
        int64_t starts = out->room, patterns = out->room, maps = out->room;
        const int64_t wanted = out->polygons + 2;
        if (!grow((void **)&out->starts, &starts, wanted, sizeof(int64_t))) return NO_MEMORY;
        if (!grow((void **)&out->pattern, &patterns, wanted, sizeof(uint64_t))) return NO_MEMORY;
        if (!grow((void **)&out->maps, &maps, wanted, 3 * sizeof(double) * (size_t)outputs)) return NO_MEMORY;
        out->room = starts;
        out->starts[0] = 0;
    }
    if (out->vertices + count > out->vertex_room) {
        int64_t points = out->vertex_room, labels = out->vertex_room;
        if (!grow((void **)&out->coordinates, &points, out->vertices + count, 2 * sizeof(double))) return NO_MEMORY;
        if (!grow((void **)&out->labels, &labels, out->vertices + count, sizeof(int64_t))) return NO_MEMORY;
        out->vertex_room = points;
    }
    for (int64_t v = 0; v < count; v++) {
        out->coordinates[2 * out->vertices] = corners[v].x;
        out->coordinates[2 * out->vertices + 1] = corners[v].y;
        out->labels[out->vertices++] = corners[v].label;
    }
    double *map = out->maps + 3 * outputs * out->polygons;
    for (int row = 0; row < 3; row++)
        memcpy(map + row * outputs, given->numbers + row * given->step, sizeof(double) * (size_t)outputs);
    out->pattern[out->polygons++] = pattern;
    out->starts[out->polygons] = out->vertices;
    return FINE;
}

/* Propagate one polygon, and the input of the layer at `depth` on it, to the last layer. */
static int propagate(const Chain *chain, int64_t depth, const Vertex *corners, int64_t count, const Given *given,
                 uint64_t pattern) {
    if (depth == chain->depth) return keep(chain->out, corners, count, given, chain->layers[depth - 1].outputs, pattern);
    const Dense *layer = &chain->layers[depth];
    Level *level = &chain->levels[depth];
    int64_t u = 0;
    for (; u + 4 * LANES <= layer->units; u += 4 * LANES) respond_wide(layer, given, u, level->lines);
    for (; u < layer->units; u += LANES) respond(layer, given, u, level->lines);
    if (!layer->slope) {
        const Given all = pass_all(layer, level);
        return propagate(chain, depth + 1, corners, count, &all, pattern);
    }
    Work *work = &level->bench.work;
    if (!cut_polygon(&level->bench, corners, count, level->lines, layer->units, &chain->window, &chain->out->next_label))
        return NO_MEMORY;
    for (int64_t p = 0; p < work->count; p++) {
        const Part part = work->parts[p];
        const Vertex *own = work->pool + part.start;
        double x = 0, y = 0;
        for (int64_t v = 0; v < part.count; v++) x += own[v].x, y += own[v].y;
        sides(level->lines, layer->units, x / (double)part.count, y / (double)part.count, level->piece);
        const Given passed = pass(layer, level);
        const int found = propagate(chain, depth + 1, own, part.count, &passed, pattern + name(layer, level->piece));
        if (found != FINE) return found;
    }
    return FINE;
}

static int open_level(Level *level, const Dense *layer) {
    const size_t units = (size_t)layer->units;
    level->lines = malloc(7 * units * sizeof(double)); /* also for `passed` and `factor` */
    level->passed = level->lines + 3 * units;
    level->factor = level->passed + 3 * units;
    level->index = malloc(units * sizeof(int64_t));
    level->piece = malloc(units);
    return open_bench(&level->bench, layer->units) && level->lines && level->index && level->piece;
}

static void close_level(Level *level) {
    close_bench(&level->bench);
    free(level->lines);
    free(level->index);
    free(level->piece);
}

void gw_regions_free(Regions *out) {
    free(out->coordinates);
    free(out->labels);
    free(out->starts);
    free(out->pattern);
    free(out->maps);
    memset(out, 0, sizeof *out);
}

/* Propagate polygons through dense layers. The input of the first layer on polygon i is maps + 3 * inputs * i:
   (3, inputs). Returns FINE, NO_MEMORY or TOO_MANY. */
int gw_split_dense(int64_t depth, const Dense *layers, int64_t polygons, const double *coordinates,
                   const int64_t *labels, const int64_t *starts, const uint64_t *patterns, const double *maps,
                   double reach_x, double reach_y, double rounding, int64_t first_label, int64_t limit, Regions *out) {
    memset(out, 0, sizeof *out);
    out->next_label = first_label;
    out->limit = limit;
    Chain chain = {depth, layers, calloc((size_t)depth, sizeof(Level)), {reach_x, reach_y, rounding}, out};
    const int64_t inputs = layers[0].inputs;
    int64_t *index = malloc(sizeof(int64_t) * (size_t)(inputs + 1)), room = 0;
    Vertex *memory = NULL;
    int found = index && chain.levels ? FINE : NO_MEMORY;
    for (int64_t d = 0; chain.levels && d < depth; d++)
        if (!open_level(&chain.levels[d], &layers[d])) found = NO_MEMORY;
    for (int64_t i = 0; found == FINE && i < polygons; i++) {
        const Vertex *corners = corners_of(i, coordinates, labels, starts, &memory, &room);
        const double *map = maps + 3 * inputs * i;
        Given given = {map, inputs, 0, index};
        for (int64_t k = 0; k < inputs; k++) {
            index[given.count] = k;
            given.count += map[k] != 0 || map[inputs + k] != 0 || map[2 * inputs + k] != 0;
        }
        found = corners ? propagate(&chain, 0, corners, starts[i + 1] - starts[i], &given, patterns[i]) : NO_MEMORY;
    }
    for (int64_t d = 0; chain.levels && d < depth; d++) close_level(&chain.levels[d]);
    free(chain.levels);
    free(index);
    free(memory);
    if (found != FINE) gw_regions_free(out);
    return found;
}
