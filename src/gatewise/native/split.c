/* Split convex polygons by the lines on which the units of a layer change their sign.

   The same as gatewise/analysis/planes/line_splitting.py, one polygon at a time. The values of all units at the vertices
   show which units have both signs, and only those cut. A new vertex is on its line by construction. A value within a
   few roundings of its terms counts as zero, so that no line cuts twice. */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#if defined(__x86_64__) && defined(__GNUC__) && !defined(__clang__) && defined(__linux__) && !defined(GW_PLAIN)
#define GW_CLONES __attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define GW_CLONES
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
