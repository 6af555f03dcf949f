/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/diagnose/ranges.h"

#include "engine/base/machine.h"
#include "engine/diagnose/step_digest.h"
#include "engine/pass/memplan.h"
#include "engine/run/step.h"
#include "kernels/cpu/extent.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* Full batch and last batch. */
#define MAX_PROGRAMS 2

struct ranges_program {
    int64_t batch_size;
    struct program *program; /* owned, as all below */
    void *block;
    struct exec *exec;
    int *twin; /* by value of the graph: that of the other side, or -1 */
};

/* One precision. */
struct side {
    struct spec spec; /* borrows from the options' */
    int n_programs;
    struct ranges_program program[MAX_PROGRAMS];
    struct state shadow;    /* with these gradients and statistics */
    float *grads, *buffers; /* owned */
};

/* What a row is made of. */
struct tally {
    struct extent here, twin;
    int64_t n_elems, n_flushed;
    bool seen, has_twin;
};

struct ranges {
    struct ranges_options o;
    struct side low, full;
    bool has_full;      /* else the spec's precision is float32 */
    size_t block_bytes; /* of all programs so far */
    int n;
    struct ranges_row *row; /* owned */
    struct tally *tally;    /* owned; one a row */
    struct ranges_outcome outcome;
};

/* What the probe needs. */
struct look {
    struct ranges *ranges;
    struct ranges_program *low, *full; /* full: NULL without a twin */
    int next;                          /* row */
};

/* ---- sides ----------------------------------------------------------------*/

static float *
alloc_floats(int64_t n)
{
    return aligned_alloc(MEMPLAN_ALIGN,
                         ((size_t)n / 16 + 1) * 16 * sizeof(float));
}

static int
init_side(struct side *s, const struct ranges *r, enum dtype dtype,
          const struct state *state, struct err *err)
{
    s->spec = *r->o.spec;
    s->spec.amp.dtype = dtype;
    s->grads = alloc_floats(state->param_elems);
    s->buffers = alloc_floats(state->buffer_elems);
    if (s->grads == NULL || s->buffers == NULL)
        return err_set(err, ERR_NOMEM, "ranges: no memory for gradients");
    memset(s->grads, 0, (size_t)state->param_elems * sizeof(float));
    memcpy(s->buffers, state->buffers,
           (size_t)state->buffer_elems * sizeof(float));
    s->shadow = *state;
    s->shadow.grads = s->grads;
    s->shadow.buffers_pending = s->buffers;
    return 0;
}

static void
free_program(struct ranges_program *p)
{
    exec_destroy(&p->exec);
    program_destroy(&p->program);
    free(p->block);
    free(p->twin);
    memset(p, 0, sizeof(*p));
}

static void
fini_side(struct side *s)
{
    for (int i = 0; i < s->n_programs; i++)
        free_program(&s->program[i]);
    free(s->grads);
    free(s->buffers);
}

/* What a spec asks for need not fit: a layer that pads makes much of little. */
static int
check_memory(struct ranges *r, int64_t batch_size, size_t n_bytes,
             struct err *err)
{
    const int64_t here = machine_memory_bytes();

    r->block_bytes += n_bytes;
    if (n_bytes <= (size_t)here && r->block_bytes <= (size_t)here)
        return 0;
    return err_set(err, ERR_NOMEM,
                   "model: its tensors of a batch of %" PRId64
                   " take %zu bytes, more than the %" PRId64
                   " bytes of memory of this machine",
                   batch_size, r->block_bytes, here);
}

static int
make_program(struct ranges *r, struct side *s, int64_t batch_size,
             struct ranges_program *p, struct err *err)
{
    const struct variants_options vo = {
        .spec = &s->spec,
        .data = &r->o.data,
        .backend = r->o.backend,
        .threads = r->o.threads,
    };
    /* The twin is looked at after its run; the other one during it. */
    int rc = variants_compile(&vo, BUILD_TRAIN, batch_size, s == &r->full,
                              &p->program, err);

    if (rc != 0)
        return rc;
    const size_t n_bytes = program_block_bytes(p->program);
    rc = check_memory(r, batch_size, n_bytes, err);
    if (rc != 0)
        return rc;
    p->batch_size = batch_size;
    p->block = aligned_alloc(MEMPLAN_ALIGN,
                             (n_bytes / MEMPLAN_ALIGN + 1) * MEMPLAN_ALIGN);
    if (p->block == NULL)
        return err_set(err, ERR_NOMEM, "ranges: no memory for %zu bytes",
                       n_bytes);
    return exec_create(p->program, &s->shadow, p->block, true, &p->exec, err);
}

static int
find_program(struct ranges *r, struct side *s, int64_t batch_size,
             struct ranges_program **out, struct err *err)
{
    for (int i = 0; i < s->n_programs; i++)
        if (s->program[i].batch_size == batch_size) {
            *out = &s->program[i];
            return 0;
        }
    assert(s->n_programs < MAX_PROGRAMS);
    *out = &s->program[s->n_programs];
    const int rc = make_program(r, s, batch_size, *out, err);
    if (rc != 0)
        free_program(*out);
    else
        s->n_programs++;
    return rc;
}

/* ---- twins ----------------------------------------------------------------*/

/* Names of casts: "x.to_f16" and, of its gradient, "x.to_f16.grad". What was
 * cast is the twin, so the mark of the cast goes. */
static bool
strip_casts(const char *name, char out[EVENT_NAME_MAX])
{
    static const char *const marks[] = {".to_f16", ".to_bf16", ".to_f32"};
    bool stripped = false;
    size_t n = 0;

    while (*name != '\0' && n + 1 < EVENT_NAME_MAX) {
        size_t skip = 0;

        for (size_t i = 0; i < sizeof(marks) / sizeof(marks[0]); i++) {
            const size_t len = strlen(marks[i]);
            if (strncmp(name, marks[i], len) == 0 &&
                (name[len] == '\0' || name[len] == '.'))
                skip = len;
        }
        stripped |= skip > 0;
        name += skip;
        if (skip == 0)
            out[n++] = *name++;
    }
    out[n] = '\0';
    return stripped;
}

static int
find_value(const struct graph *g, const char *name)
{
    for (int i = 0; i < graph_n_values(g); i++)
        if (strcmp(graph_value_at(g, i)->name, name) == 0)
            return i;
    return -1;
}

/* Of several uses, each with a cast of its own, the sum is no twin. */
static bool
is_sum(const struct graph *g, const struct graph_value *v)
{
    if (v->producer < 0)
        return false;
    const struct graph_node *node = graph_node_at(g, v->producer);
    return node->op == OP_ADD && node->phase == GRAPH_BACKWARD;
}

static int
find_namesake(const struct graph *low, int id, const struct graph *full)
{
    const struct graph_value *v = graph_value_at(low, id);
    char name[EVENT_NAME_MAX];
    const bool stripped = strip_casts(v->name, name);
    const int twin = find_value(full, name);

    if (twin < 0)
        return -1;
    const struct graph_value *t = graph_value_at(full, twin);
    if (t->desc.dtype != DTYPE_F32 || t->desc.layout != v->desc.layout ||
        !tensor_same_shape(&t->desc, &v->desc))
        return -1;
    return stripped && is_sum(full, t) && !is_sum(low, v) ? -1 : twin;
}

/* Where float32 only passes a gradient on, the cast of it has no namesake. */
static int
find_twin(const struct graph *low, int id, const struct graph *full)
{
    const int producer = graph_value_at(low, id)->producer;
    const int twin = find_namesake(low, id, full);

    if (twin >= 0 || producer < 0 ||
        graph_node_at(low, producer)->op != OP_CAST)
        return twin;
    return find_namesake(low, graph_node_at(low, producer)->in[0], full);
}

static int
pair_values(struct ranges_program *low, const struct ranges_program *full,
            struct err *err)
{
    const struct graph *g = program_graph(low->program);
    const int n = graph_n_values(g);

    if (low->twin != NULL)
        return 0;
    low->twin = calloc((size_t)n + 1, sizeof(*low->twin));
    if (low->twin == NULL)
        return err_set(err, ERR_NOMEM, "ranges: no memory");
    for (int i = 0; i < n; i++)
        low->twin[i] = find_twin(g, i, program_graph(full->program));
    return 0;
}

/* ---- rows -----------------------------------------------------------------*/

static bool
is_shown(const struct graph *g, int value)
{
    return value >= 0 && dtype_is_float(graph_value_at(g, value)->desc.dtype);
}

static int
count_rows(const struct program *p)
{
    const struct graph *g = program_graph(p);
    int n = 0;

    for (int i = 0; i < program_n_instrs(p); i++) {
        const struct graph_node *node =
            graph_node_at(g, program_instr_at(p, i)->node);
        for (int k = 0; k < node->n_out; k++)
            n += is_shown(g, node->out[k]);
    }
    return n;
}

static int
make_rows(struct ranges *r, const struct program *p, struct err *err)
{
    const int n = count_rows(p);

    if (r->row != NULL) {
        assert(r->n == n); /* batches differ in their size only */
        return 0;
    }
    r->row = calloc((size_t)n + 1, sizeof(*r->row));
    r->tally = calloc((size_t)n + 1, sizeof(*r->tally));
    if (r->row == NULL || r->tally == NULL)
        return err_set(err, ERR_NOMEM, "ranges: no memory");
    r->n = n;
    return 0;
}

static enum event_pass
pass_of(enum graph_phase phase)
{
    switch (phase) {
    case GRAPH_FORWARD:
    case GRAPH_METRIC: return EVENT_PASS_FORWARD;
    case GRAPH_LOSS: return EVENT_PASS_LOSS;
    case GRAPH_BACKWARD: return EVENT_PASS_BACKWARD;
    }
    assert(!"phase of a node");
    return EVENT_PASS_FORWARD;
}

static void
join_extent(struct extent *all, const struct extent *one)
{
    all->largest = fmax(all->largest, one->largest); /* NaN gives way */
    all->smallest = fmin(all->smallest, one->smallest);
    all->n_nonfinite += one->n_nonfinite;
}

static void
join_tally(struct tally *all, const struct tally *one)
{
    join_extent(&all->here, &one->here);
    join_extent(&all->twin, &one->twin);
    all->n_elems += one->n_elems;
    all->n_flushed += one->n_flushed;
}

static void
look_at(const struct look *l, const struct exec *exec, int value,
        struct tally *out)
{
    const int threads = l->ranges->o.threads;
    const struct graph *g = program_graph(exec_program(exec));
    const struct tensor_desc *desc = &graph_value_at(g, value)->desc;
    const void *x = exec_value(exec, value);

    memset(out, 0, sizeof(*out));
    out->seen = true;
    out->n_elems = tensor_n_elems(desc);
    extent_measure(x, desc->dtype, out->n_elems, threads, &out->here);
    const int twin = l->full != NULL ? l->low->twin[value] : -1;
    if (twin < 0)
        return;
    const float *full = exec_value(l->full->exec, twin);
    out->has_twin = true;
    extent_measure(full, DTYPE_F32, out->n_elems, threads, &out->twin);
    out->n_flushed =
        extent_count_flushed(x, desc->dtype, full, out->n_elems, threads);
}

static void
put_row(const struct look *l, const struct exec *exec,
        const struct graph_node *node, int value)
{
    const struct graph *g = program_graph(exec_program(exec));
    const struct graph_value *v = graph_value_at(g, value);
    struct ranges_row *row = &l->ranges->row[l->next];
    struct tally *tally = &l->ranges->tally[l->next], now;

    look_at(l, exec, value, &now);
    if (tally->seen && v->kind == GRAPH_TEMP)
        join_tally(tally, &now);
    else
        *tally = now;
    if (row->op != NULL)
        return;
    row->pass = pass_of(node->phase);
    row->layer = node->layer;
    row->op = op_info(node->op)->name;
    row->tensor = v->name;
    row->desc = v->desc;
}

static bool
probe(void *ctx, const struct exec *exec, int i)
{
    struct look *l = ctx;
    const struct program *p = exec_program(exec);
    const struct graph *g = program_graph(p);
    const struct graph_node *node =
        graph_node_at(g, program_instr_at(p, i)->node);

    for (int k = 0; k < node->n_out; k++) {
        if (!is_shown(g, node->out[k]))
            continue;
        put_row(l, exec, node, node->out[k]);
        l->next++;
    }
    return true;
}

double
ranges_limit(enum dtype t)
{
    switch ((int)t) {
    case DTYPE_F16: return 65504.0;
    case DTYPE_BF16: return 0x1.fep127;
    case DTYPE_F32: return 0x1.fffffep127;
    default: return (double)NAN;
    }
}

const char *
ranges_mark_name(enum ranges_mark mark)
{
    switch (mark) {
    case RANGES_FINE: return "";
    case RANGES_OVERFLOW: return "overflow";
    case RANGES_HEADROOM: return "headroom";
    case RANGES_FLUSHED: return "flushed";
    }
    assert(!"mark");
    return "";
}

static enum ranges_mark
choose_mark(const struct ranges_row *row)
{
    if (row->n_nonfinite > 0)
        return RANGES_OVERFLOW;
    if (row->headroom < RANGES_HEADROOM_BITS)
        return RANGES_HEADROOM;
    if (row->pass == EVENT_PASS_BACKWARD && row->flushed > RANGES_FLUSHED_SHARE)
        return RANGES_FLUSHED;
    return RANGES_FINE;
}

static void
finish_row(const struct ranges *r, struct ranges_row *row,
           const struct tally *t)
{
    row->largest = t->here.largest;
    row->smallest = t->here.smallest;
    row->n_nonfinite = t->here.n_nonfinite;
    row->headroom = t->here.largest > 0
                        ? log2(ranges_limit(row->desc.dtype) / t->here.largest)
                        : (double)NAN;
    row->has_twin = t->has_twin;
    row->fp32_largest = t->has_twin ? t->twin.largest : (double)NAN;
    row->fp32_smallest = t->has_twin ? t->twin.smallest : (double)NAN;
    row->fp32_nonfinite = t->twin.n_nonfinite;
    row->flushed = r->has_full ? (double)NAN : 0.0;
    if (t->has_twin && t->n_elems > 0)
        row->flushed = (double)t->n_flushed / (double)t->n_elems;
    row->mark = choose_mark(row);
}

/* ---- the run --------------------------------------------------------------*/

static void
set_inputs(struct exec *exec, const struct prefetch_batch *batch,
           const float *inv_count, const float *scale)
{
    exec_set_input(exec, GRAPH_INPUT_X, batch->input);
    exec_set_input(exec, GRAPH_INPUT_TARGET, batch->target);
    exec_set_input(exec, GRAPH_INPUT_INV_COUNT, inv_count);
    exec_set_input(exec, GRAPH_INPUT_SCALE, scale);
    exec_invalidate(exec);
}

static int
prepare(struct ranges *r, const struct prefetch_batch *batch, struct look *l,
        struct err *err)
{
    int rc = find_program(r, &r->low, batch->n, &l->low, err);

    l->full = NULL;
    if (rc == 0 && r->has_full)
        rc = find_program(r, &r->full, batch->n, &l->full, err);
    if (rc == 0 && r->has_full)
        rc = pair_values(l->low, l->full, err);
    return rc != 0 ? rc : make_rows(r, l->low->program, err);
}

static int
run_batch(struct ranges *r, const struct prefetch_window *window, int64_t b,
          struct err *err)
{
    const struct prefetch_batch *batch = &window->batch[b];
    const float inv_count = step_inverse_count(window->n_count);
    const float *scale = &r->low.shadow.scaler.scale;
    const struct kernel_step numbers = {
        .seed = r->low.shadow.seed,
        .iteration = (uint64_t)r->low.shadow.count.iteration + 1,
        .micro_batch = (uint32_t)b,
    };
    struct look look = {.ranges = r};
    const int rc = prepare(r, batch, &look, err);

    if (rc != 0)
        return rc;
    if (look.full != NULL) {
        set_inputs(look.full->exec, batch, &inv_count, scale);
        exec_run(look.full->exec, &numbers);
    }
    set_inputs(look.low->exec, batch, &inv_count, scale);
    exec_run_probed(look.low->exec, &numbers, probe, &look);
    const struct graph *g = program_graph(look.low->program);
    r->outcome.loss +=
        *(const float *)exec_value(look.low->exec, graph_roles(g)->loss);
    return 0;
}

static int
conclude(struct ranges *r, struct err *err)
{
    const struct kernel_flat flat = backend_flat(r->o.backend);
    const struct state *s = &r->low.shadow;

    r->outcome.finite = isfinite(r->outcome.loss);
    for (int i = 0; i < s->n_params; i++) {
        const struct state_tensor *t = &s->param[i];
        struct kernel_unscale one;
        flat.unscale(s->grads + t->offset, t->n_elems,
                     scaler_inverse(&s->scaler), r->o.threads, &one);
        r->outcome.finite = r->outcome.finite && !one.found_inf;
    }
    for (int i = 0; i < r->n; i++)
        finish_row(r, &r->row[i], &r->tally[i]);
    return step_digest(r->outcome.loss, s, r->outcome.digest, err);
}

int
ranges_measure(const struct ranges_options *options, const struct state *state,
               const struct prefetch_window *window, struct ranges **out,
               struct err *err)
{
    struct ranges *r = calloc(1, sizeof(*r));
    int rc;

    *out = NULL;
    if (r == NULL)
        return err_set(err, ERR_NOMEM, "ranges: no memory");
    r->o = *options;
    r->has_full = options->spec->amp.dtype != DTYPE_F32;
    rc = init_side(&r->low, r, options->spec->amp.dtype, state, err);
    if (rc == 0 && r->has_full)
        rc = init_side(&r->full, r, DTYPE_F32, state, err);
    for (int64_t b = 0; b < window->at.n_batches && rc == 0; b++)
        rc = run_batch(r, window, b, err);
    if (rc == 0)
        rc = conclude(r, err);
    if (rc != 0)
        ranges_destroy(&r);
    *out = r;
    return rc;
}

void
ranges_destroy(struct ranges **ranges)
{
    struct ranges *r = *ranges;

    *ranges = NULL;
    if (r == NULL)
        return;
    fini_side(&r->low);
    fini_side(&r->full);
    free(r->row);
    free(r->tally);
    free(r);
}

int
ranges_n(const struct ranges *ranges)
{
    return ranges->n;
}

const struct ranges_row *
ranges_at(const struct ranges *ranges, int i)
{
    assert(i >= 0 && i < ranges->n);
    return &ranges->row[i];
}

const struct ranges_outcome *
ranges_outcome(const struct ranges *ranges)
{
    return &ranges->outcome;
}
