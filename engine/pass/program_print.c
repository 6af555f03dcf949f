/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program as text: its instructions with places, and its memory map.
 *
 * "fc1.out @12800" is a value and its offset in the block; values without one
 * lie outside (inputs, weights, statistics, gradients).
 */
#include "engine/pass/program.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/pass/program_private.h"

static int
wider(int width, const char *s)
{
    const int n = (int)strlen(s);

    return n > width ? n : width;
}

/* "fc1.out @12800". */
static const char *
format_place(const struct program *p, int value, char *text, size_t size)
{
    const struct graph_value *v = graph_value_at(p->graph, value);

    if (v->kind == GRAPH_TEMP)
        snprintf(text, size, "%s @%zu", v->name,
                 program_value_ref(p, value).offset);
    else
        snprintf(text, size, "%s", v->name);
    return text;
}

static bool
same_place(const struct program_ref *a, const struct program_ref *b)
{
    return a->space == b->space && a->index == b->index &&
           a->offset == b->offset;
}

static bool
is_in_place(const struct program_instr *instr)
{
    const int slot = op_info(instr->sig.op)->inplace;

    return slot >= 0 && instr->out[0].space != PROGRAM_NONE &&
           same_place(&instr->out[0], &instr->in[slot]);
}

struct widths {
    int layer, op, table, out, desc;
};

static struct widths
measure(const struct program *p)
{
    struct widths w = {0};
    char text[256];

    for (int i = 0; i < p->n_instrs; i++) {
        const struct program_instr *instr = &p->instr[i];
        const struct graph_node *node = graph_node_at(p->graph, instr->node);

        w.layer = wider(w.layer, node->layer);
        w.op = wider(w.op, op_info(node->op)->name);
        w.table = wider(w.table, instr->table);
        for (int k = 0; k < node->n_out; k++) {
            if (node->out[k] < 0)
                continue;
            w.out =
                wider(w.out, format_place(p, node->out[k], text, sizeof(text)));
            w.desc = wider(
                w.desc, tensor_format(&instr->sig.out[k], text, sizeof(text)));
        }
    }
    return w;
}

static void
print_reads(FILE *f, const struct program *p, const struct program_instr *instr)
{
    const struct graph_node *node = graph_node_at(p->graph, instr->node);
    bool any = false;
    char text[256];

    fprintf(f, " <-");
    for (int k = 0; k < node->n_in; k++) {
        if (node->in[k] < 0)
            continue;
        fprintf(f, "%s %s", any ? "," : "",
                format_place(p, node->in[k], text, sizeof(text)));
        any = true;
    }
    if (is_in_place(instr))
        fprintf(f, "  [in place]");
    if (instr->workspace_bytes > 0)
        fprintf(f, "  [workspace @%zu, %zu bytes]", instr->workspace_offset,
                instr->workspace_bytes);
    fprintf(f, "\n");
}

static void
print_instr(FILE *f, const struct program *p, int i, const struct widths *w)
{
    const struct program_instr *instr = &p->instr[i];
    const struct graph_node *node = graph_node_at(p->graph, instr->node);
    const int indent = 4 + 1 + w->layer + 1 + w->op + 1 + w->table + 1;
    bool first = true;
    char place[256], desc[96];

    fprintf(f, "%4d %-*s %-*s %-*s ", i, w->layer, node->layer, w->op,
            op_info(node->op)->name, w->table, instr->table);
    for (int k = 0; k < node->n_out; k++) {
        if (node->out[k] < 0)
            continue;
        format_place(p, node->out[k], place, sizeof(place));
        tensor_format(&instr->sig.out[k], desc, sizeof(desc));
        if (!first) {
            fprintf(f, "%*s%-*s %s\n", indent, "", w->out, place, desc);
            continue;
        }
        first = false;
        fprintf(f, "%-*s %-*s", w->out, place, w->desc, desc);
        print_reads(f, p, instr);
    }
}

char *
program_print(const struct program *p)
{
    const struct widths w = measure(p);
    char *text = NULL;
    size_t size = 0;
    FILE *f = open_memstream(&text, &size);

    if (f == NULL)
        return NULL;
    fprintf(f,
            "program: backend %s, threads %d, %d instructions, block of %zu "
            "bytes\n",
            p->backend->name, p->threads, p->n_instrs, p->block_bytes);
    for (int i = 0; i < p->n_instrs; i++) {
        if (i == 0 && p->n_prologue > 0)
            fprintf(f, "\nprologue, after weights changed\n");
        if (i == p->n_prologue)
            fprintf(f, "\nstep\n");
        print_instr(f, p, i, &w);
    }
    if (fclose(f) != 0) {
        free(text);
        return NULL;
    }
    return text;
}

/* ---- memory map ---------------------------------------------------------- */

static int
compare_offsets(const void *pa, const void *pb, void *ctx)
{
    const struct memplan_block *a =
        &((const struct memplan_block *)ctx)[*(const int *)pa];
    const struct memplan_block *b =
        &((const struct memplan_block *)ctx)[*(const int *)pb];

    if (a->offset != b->offset)
        return a->offset < b->offset ? -1 : 1;
    if (a->first != b->first)
        return a->first - b->first;
    return *(const int *)pa - *(const int *)pb;
}

/* What is made after weights changed stands beside every step. */
static size_t
copies_bytes(const struct program *p)
{
    size_t n = 0;

    for (int i = 0; i < p->n_prologue; i++)
        for (int k = 0; k < OP_MAX_OUT; k++)
            n += tensor_n_bytes(&p->instr[i].sig.out[k]);
    return n;
}

void
program_measure_memory(const struct program *p, struct program_memory *m)
{
    *m = (struct program_memory){.peak = p->block_bytes,
                                 .lower_bound =
                                     memplan_lower_bound(p->block, p->n_blocks),
                                 .copies = copies_bytes(p)};
    for (int i = 0; i < graph_n_values(p->graph); i++) {
        const struct graph_value *v = graph_value_at(p->graph, i);
        const size_t n = tensor_n_bytes(&v->desc);

        switch (v->kind) {
        case GRAPH_INPUT: m->inputs += n; break;
        case GRAPH_PARAM: m->params += n; break;
        case GRAPH_BUFFER: m->buffers += n; break;
        case GRAPH_GRAD: m->grads += n; break;
        case GRAPH_TEMP: break;
        }
    }
    for (int i = p->n_slots; i < p->n_blocks; i++)
        if (p->block[i].size_bytes > m->workspace)
            m->workspace = p->block[i].size_bytes;
}

static void
print_holders(FILE *f, const struct program *p, int block)
{
    bool any = false;

    if (block >= p->n_slots) {
        const struct program_extra *x = &p->extra[block - p->n_slots];
        const struct op_info *info = op_info(p->instr[x->instr].sig.op);

        if (x->out < 0)
            fprintf(f, " workspace of %s\n", info->name);
        else
            fprintf(f, " unread %s of %s\n", info->out_name[x->out],
                    info->name);
        return;
    }
    for (int i = 0; i < graph_n_values(p->graph); i++) {
        if (p->slot[i] != block)
            continue;
        fprintf(f, "%s %s", any ? "," : "", graph_value_at(p->graph, i)->name);
        any = true;
    }
    fprintf(f, "\n");
}

char *
program_print_memory(const struct program *p)
{
    int *order = calloc((size_t)p->n_blocks + 1, sizeof(*order));
    char *text = NULL;
    size_t size = 0;
    FILE *f = order == NULL ? NULL : open_memstream(&text, &size);
    struct program_memory m;

    if (f == NULL) {
        free(order);
        return NULL;
    }
    for (int i = 0; i < p->n_blocks; i++)
        order[i] = i;
    qsort_r(order, (size_t)p->n_blocks, sizeof(*order), compare_offsets,
            p->block);
    program_measure_memory(p, &m);
    fprintf(f,
            "memory: peak %zu bytes, lower bound %zu; in it copies of weights "
            "%zu, largest workspace %zu\n"
            "beside it: parameters %zu, gradients %zu, buffers %zu, inputs "
            "%zu\n\n     offset      bytes   instrs  what\n",
            m.peak, m.lower_bound, m.copies, m.workspace, m.params, m.grads,
            m.buffers, m.inputs);
    for (int i = 0; i < p->n_blocks; i++) {
        const struct memplan_block *b = &p->block[order[i]];

        fprintf(f, "%11zu %10zu %4d-%-4d", b->offset, b->size_bytes, b->first,
                b->last);
        print_holders(f, p, order[i]);
    }
    free(order);
    if (fclose(f) != 0) {
        free(text);
        return NULL;
    }
    return text;
}
