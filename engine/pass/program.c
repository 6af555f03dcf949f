/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/pass/program.h"

#include <assert.h>
#include <limits.h>
#include <stdint.h>
#include <stdlib.h>

#include "engine/graph/shape.h"
#include "engine/pass/program_private.h"

static int
no_memory(struct err *err)
{
    return err_set(err, ERR_NOMEM, "no memory for the program");
}

/* ---- order: the prologue first ------------------------------------------- */

/* Does this node depend on weights alone? made[v]: a prologue node makes v. */
static bool
is_prologue(const struct graph *g, const struct graph_node *node,
            const bool *made)
{
    for (int i = 0; i < node->n_in; i++) {
        const int v = node->in[i];

        if (v >= 0 && graph_value_at(g, v)->kind != GRAPH_PARAM && !made[v])
            return false;
    }
    for (int i = 0; i < node->n_out; i++)
        if (node->out[i] >= 0 &&
            graph_value_at(g, node->out[i])->kind != GRAPH_TEMP)
            return false;
    return true;
}

static int
order_instrs(struct program *p, struct err *err)
{
    const struct graph *g = p->graph;
    bool *made = calloc((size_t)graph_n_values(g) + 1, sizeof(*made));
    int at = 0;

    if (made == NULL)
        return no_memory(err);
    for (int i = 0; i < p->n_instrs; i++) {
        const struct graph_node *node = graph_node_at(g, i);

        if (!is_prologue(g, node, made))
            continue;
        p->instr[at++] = (struct program_instr){.node = i, .prologue = true};
        for (int k = 0; k < node->n_out; k++)
            if (node->out[k] >= 0)
                made[node->out[k]] = true;
    }
    p->n_prologue = at;
    for (int i = 0, next = 0; i < p->n_instrs; i++) {
        if (next < p->n_prologue && p->instr[next].node == i)
            next++;
        else
            p->instr[at++] = (struct program_instr){.node = i};
    }
    assert(at == p->n_instrs);
    free(made);
    return 0;
}

/* ---- kernels ------------------------------------------------------------- */

/* Ops that a spec can name write all of their outputs (kernel.h), also where
 * they run again in backward: what nobody wants has a descriptor all the same,
 * and gets a scratch place. Gradient ops leave out what is absent. */
static void
describe_outputs(const struct program *p, const struct graph_node *node,
                 struct kernel_sig *sig)
{
    struct shape_query q = {.op = node->op, .params = &node->params};
    struct tensor_desc want[OP_MAX_OUT];
    int rc;

    for (int i = 0; i < node->n_out; i++)
        if (node->out[i] >= 0)
            sig->out[i] = graph_value_at(p->graph, node->out[i])->desc;
    if (op_info(node->op)->cast == OP_CAST_NONE || node->n_out == 1)
        return;
    for (int i = 0; i < node->n_in; i++)
        q.in[i] = sig->in[i];
    q.like = &sig->out[0];
    rc = shape_infer(&q, want, NULL);
    assert(rc == 0); /* the graph is verified */
    for (int i = 0; i < node->n_out; i++)
        if (node->out[i] < 0)
            sig->out[i] = want[i];
}

static int
prepare_instr(const struct program *p, struct program_instr *instr,
              struct err *err)
{
    const struct graph_node *node = graph_node_at(p->graph, instr->node);
    struct kernel_sig *sig = &instr->sig;
    int rc = 0;

    *sig = (struct kernel_sig){.op = node->op,
                               .params = node->params,
                               .n_in = node->n_in,
                               .n_out = node->n_out,
                               .threads = p->threads};
    for (int i = 0; i < node->n_in; i++)
        if (node->in[i] >= 0)
            sig->in[i] = graph_value_at(p->graph, node->in[i])->desc;
    describe_outputs(p, node, sig);
    instr->kernel = backend_find_kernel(p->backend, sig, &instr->table, err);
    if (instr->kernel == NULL)
        rc = ERR_UNSUPPORTED;
    else if (instr->kernel->prepare != NULL)
        rc = instr->kernel->prepare(sig, &instr->state, err);
    if (rc != 0) {
        instr->kernel = NULL; /* nothing to release */
        return node->layer[0] == '\0' ? rc : err_prefix(err, "%s", node->layer);
    }
    if (instr->kernel->workspace_bytes != NULL)
        instr->workspace_bytes =
            instr->kernel->workspace_bytes(sig, instr->state);
    return 0;
}

/* ---- places -------------------------------------------------------------- */

/* When a value is written first and read last. */
struct life {
    int first, last;
    bool pinned; /* nobody may take its place */
};

static void
pin_role(struct life *life, int value, int end)
{
    if (value < 0)
        return;
    life[value].last = end;
    life[value].pinned = true;
}

/* Lifetimes of all temporaries, counted in instructions. Values that the loop
 * reads, and copies of weights, stand to the end. */
static void
measure_lives(const struct program *p, struct life *life)
{
    const struct graph_roles *roles = graph_roles(p->graph);
    const int end = p->n_instrs - 1;

    for (int i = 0; i < graph_n_values(p->graph); i++)
        life[i] = (struct life){.first = INT_MAX, .last = -1};
    for (int i = 0; i < p->n_instrs; i++) {
        const struct graph_node *node =
            graph_node_at(p->graph, p->instr[i].node);

        for (int k = 0; k < node->n_in; k++)
            if (node->in[k] >= 0 && life[node->in[k]].last < i)
                life[node->in[k]].last = i;
        for (int k = 0; k < node->n_out; k++) {
            struct life *l;

            if (node->out[k] < 0)
                continue;
            l = &life[node->out[k]];
            if (l->first == INT_MAX)
                l->first = i;
            if (l->last < i)
                l->last = i;
            if (p->instr[i].prologue || p->keep_all)
                pin_role(life, node->out[k], end);
        }
    }
    pin_role(life, roles->output, end);
    pin_role(life, roles->loss, end);
    pin_role(life, roles->scaled_loss, end);
    pin_role(life, roles->correct, end);
    pin_role(life, roles->top_k, end);
    pin_role(life, roles->confusion, end);
    if (p->keep_all)
        for (int i = 0; i < graph_n_values(p->graph); i++)
            life[i].first = 0;
}

/* The value whose place output 0 of instruction i may take over, or -1. */
static int
find_shared(const struct program *p, int i, const struct life *life)
{
    const struct graph_node *node = graph_node_at(p->graph, p->instr[i].node);
    const int slot = op_info(node->op)->inplace;
    const struct graph_value *in, *out;
    int v;

    if (slot < 0 || node->in[slot] < 0 || node->out[0] < 0)
        return -1;
    v = node->in[slot];
    in = graph_value_at(p->graph, v);
    out = graph_value_at(p->graph, node->out[0]);
    if (in->kind != GRAPH_TEMP || out->kind != GRAPH_TEMP || life[v].pinned ||
        life[v].last != i || in->desc.dtype != out->desc.dtype ||
        tensor_n_bytes(&in->desc) != tensor_n_bytes(&out->desc))
        return -1;
    for (int k = 0; k < node->n_in; k++)
        if (k != slot && node->in[k] == v)
            return -1;
    return v;
}

static void
place_value(struct program *p, int value, int shared, const struct life *life)
{
    const struct graph_value *v = graph_value_at(p->graph, value);
    struct memplan_block *b;

    if (v->kind != GRAPH_TEMP)
        return;
    if (shared >= 0) {
        p->slot[value] = p->slot[shared];
        b = &p->block[p->slot[value]];
        if (b->last < life[value].last)
            b->last = life[value].last;
        return;
    }
    p->slot[value] = p->n_blocks;
    p->block[p->n_blocks++] =
        (struct memplan_block){.size_bytes = tensor_n_bytes(&v->desc),
                               .first = life[value].first,
                               .last = life[value].last};
}

static void
add_extra(struct program *p, int instr, int out, size_t bytes)
{
    p->extra[p->n_blocks - p->n_slots] = (struct program_extra){instr, out};
    p->block[p->n_blocks++] = (struct memplan_block){
        .size_bytes = bytes, .first = instr, .last = instr};
}

/* Workspaces, and scratch for outputs that are made in vain. */
static void
place_extras(struct program *p)
{
    p->n_slots = p->n_blocks;
    for (int i = 0; i < p->n_instrs; i++) {
        const struct program_instr *instr = &p->instr[i];
        const struct graph_node *node = graph_node_at(p->graph, instr->node);

        for (int k = 0; k < node->n_out; k++)
            if (node->out[k] < 0 && instr->sig.out[k].dtype != DTYPE_NONE)
                add_extra(p, i, k, tensor_n_bytes(&instr->sig.out[k]));
        if (instr->workspace_bytes > 0)
            add_extra(p, i, -1, instr->workspace_bytes);
    }
}

static int
plan_memory(struct program *p, struct err *err)
{
    const size_t n_values = (size_t)graph_n_values(p->graph);
    const size_t n_extras = (size_t)p->n_instrs * (1 + OP_MAX_OUT);
    struct life *life = calloc(n_values + 1, sizeof(*life));

    p->slot = calloc(n_values + 1, sizeof(*p->slot));
    p->block = calloc(n_values + n_extras + 1, sizeof(*p->block));
    p->extra = calloc(n_extras + 1, sizeof(*p->extra));
    if (life == NULL || p->slot == NULL || p->block == NULL ||
        p->extra == NULL) {
        free(life);
        return no_memory(err);
    }
    for (size_t i = 0; i < n_values; i++)
        p->slot[i] = -1;
    measure_lives(p, life);
    for (int i = 0; i < p->n_instrs; i++) {
        const struct graph_node *node =
            graph_node_at(p->graph, p->instr[i].node);
        const int shared = find_shared(p, i, life);

        for (int k = 0; k < node->n_out; k++)
            if (node->out[k] >= 0)
                place_value(p, node->out[k], k == 0 ? shared : -1, life);
    }
    free(life);
    place_extras(p);
    p->block_bytes = memplan_assign_offsets(p->block, p->n_blocks);
    return p->block_bytes == SIZE_MAX ? no_memory(err) : 0;
}

/* ---- references ---------------------------------------------------------- */

struct program_ref
program_value_ref(const struct program *p, int id)
{
    static const enum program_space spaces[] = {
        [GRAPH_INPUT] = PROGRAM_INPUT,   [GRAPH_PARAM] = PROGRAM_PARAM,
        [GRAPH_BUFFER] = PROGRAM_BUFFER, [GRAPH_GRAD] = PROGRAM_GRAD,
        [GRAPH_TEMP] = PROGRAM_BLOCK,
    };
    const struct graph_value *v;

    if (id < 0)
        return (struct program_ref){.space = PROGRAM_NONE, .index = -1};
    v = graph_value_at(p->graph, id);
    if (v->kind != GRAPH_TEMP)
        return (struct program_ref){.space = spaces[v->kind],
                                    .index = v->index};
    assert(p->slot[id] >= 0);
    return (struct program_ref){.space = PROGRAM_BLOCK,
                                .index = -1,
                                .offset = p->block[p->slot[id]].offset};
}

static void
resolve_refs(struct program *p)
{
    for (int i = 0; i < p->n_instrs; i++) {
        struct program_instr *instr = &p->instr[i];
        const struct graph_node *node = graph_node_at(p->graph, instr->node);

        for (int k = 0; k < OP_MAX_IN; k++)
            instr->in[k] =
                program_value_ref(p, k < node->n_in ? node->in[k] : -1);
        for (int k = 0; k < OP_MAX_OUT; k++)
            instr->out[k] =
                program_value_ref(p, k < node->n_out ? node->out[k] : -1);
    }
    for (int i = p->n_slots; i < p->n_blocks; i++) {
        const struct program_extra *x = &p->extra[i - p->n_slots];
        struct program_instr *instr = &p->instr[x->instr];

        if (x->out < 0)
            instr->workspace_offset = p->block[i].offset;
        else
            instr->out[x->out] =
                (struct program_ref){PROGRAM_BLOCK, -1, p->block[i].offset};
    }
}

/* ---- interface ----------------------------------------------------------- */

int
program_compile_take(struct graph *graph, const struct program_options *options,
                     struct program **out, struct err *err)
{
    struct program *p = calloc(1, sizeof(*p));
    int rc = 0;

    *out = NULL;
    assert(options->threads >= 1 && options->backend != NULL);
    if (p == NULL) {
        graph_destroy(&graph);
        return no_memory(err);
    }
    p->graph = graph;
    p->backend = options->backend;
    p->threads = options->threads;
    p->keep_all = options->keep_all;
    p->n_instrs = graph_n_nodes(graph);
    p->instr = calloc((size_t)p->n_instrs + 1, sizeof(*p->instr));
    rc = p->instr == NULL ? no_memory(err) : order_instrs(p, err);
    for (int i = 0; i < p->n_instrs && rc == 0; i++)
        rc = prepare_instr(p, &p->instr[i], err);
    if (rc == 0)
        rc = plan_memory(p, err);
    if (rc == 0)
        resolve_refs(p);
    else
        program_destroy(&p);
    *out = p;
    return rc;
}

void
program_destroy(struct program **program)
{
    struct program *p = *program;

    if (p == NULL)
        return;
    for (int i = 0; i < p->n_instrs && p->instr != NULL; i++) {
        const struct program_instr *instr = &p->instr[i];

        if (instr->kernel != NULL && instr->kernel->release != NULL)
            instr->kernel->release(instr->state);
    }
    graph_destroy(&p->graph);
    free(p->instr);
    free(p->block);
    free(p->extra);
    free(p->slot);
    free(p);
    *program = NULL;
}

const struct graph *
program_graph(const struct program *p)
{
    return p->graph;
}

int
program_n_instrs(const struct program *p)
{
    return p->n_instrs;
}

const struct program_instr *
program_instr_at(const struct program *p, int i)
{
    assert(i >= 0 && i < p->n_instrs);
    return &p->instr[i];
}

int
program_n_prologue(const struct program *p)
{
    return p->n_prologue;
}

size_t
program_block_bytes(const struct program *p)
{
    return p->block_bytes;
}
