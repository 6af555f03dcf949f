/* SPDX-License-Identifier: Apache-2.0 */
/*
 * shadow: an interpreter that only knows who wrote what where.
 *
 * Walks the instructions of a program with each byte range of its block holding
 * a value of the graph, or rubbish: so it sees an instruction that reads what
 * was overwritten, writes on what it reads, or leaves the block. Fails the
 * running CMocka test. Header only.
 */
#ifndef TESTS_SUPPORT_SHADOW_H
#define TESTS_SUPPORT_SHADOW_H

#include "tests/support/model.h"

struct held {
    int value; /* -1: rubbish */
    size_t from, to;
};

struct shadow {
    const struct program *program;
    struct held *held; /* of every value: where it lies while it is whole */
};

static bool
meets(const struct held *h, size_t from, size_t to)
{
    return h->value >= 0 && h->from < to && from < h->to;
}

/* Bytes from .. to are overwritten: values there are gone. */
static void
spoil(struct shadow *s, size_t from, size_t to)
{
    const struct graph *g = program_graph(s->program);

    assert_true(to <= program_block_bytes(s->program));
    for (int v = 0; v < graph_n_values(g); v++)
        if (meets(&s->held[v], from, to))
            s->held[v].value = -1;
}

static void
check_reads(const struct shadow *s, int i)
{
    const struct program_instr *instr = program_instr_at(s->program, i);
    const struct graph *g = program_graph(s->program);
    const struct graph_node *node = graph_node_at(g, instr->node);

    for (int k = 0; k < node->n_in; k++) {
        const int v = node->in[k];

        if (v < 0) {
            assert_int_equal(instr->in[k].space, PROGRAM_NONE);
            continue;
        }
        if (graph_value_at(g, v)->kind != GRAPH_TEMP) {
            assert_true(instr->in[k].space != PROGRAM_BLOCK);
            continue;
        }
        assert_int_equal(instr->in[k].space, PROGRAM_BLOCK);
        if (s->held[v].value != v || s->held[v].from != instr->in[k].offset)
            fail_msg("instruction %d (%s) reads %s, which is overwritten", i,
                     op_info(node->op)->name, graph_value_at(g, v)->name);
    }
}

/* Writes may not touch inputs, workspace or each other, except in place. */
static void
check_apart(const struct program_instr *instr)
{
    struct held range[OP_MAX_IN + OP_MAX_OUT + 1];
    int n = 0;

    for (int k = 0; k < instr->sig.n_out; k++)
        if (instr->out[k].space == PROGRAM_BLOCK)
            range[n++] = (struct held){k, instr->out[k].offset,
                                       instr->out[k].offset +
                                           tensor_n_bytes(&instr->sig.out[k])};
    if (instr->workspace_bytes > 0)
        range[n++] =
            (struct held){OP_MAX_OUT, instr->workspace_offset,
                          instr->workspace_offset + instr->workspace_bytes};
    for (int a = 0; a < n; a++) {
        assert_true(range[a].from % 64 == 0);
        for (int b = 0; b < a; b++)
            assert_false(meets(&range[a], range[b].from, range[b].to));
        for (int k = 0; k < instr->sig.n_in; k++) {
            const size_t from = instr->in[k].offset;
            const size_t to = from + tensor_n_bytes(&instr->sig.in[k]);

            if (instr->in[k].space != PROGRAM_BLOCK ||
                !meets(&range[a], from, to))
                continue;
            assert_int_equal(range[a].value, 0); /* output 0 */
            assert_int_equal(k, op_info(instr->sig.op)->inplace);
            assert_true(range[a].from == from && range[a].to == to);
        }
    }
}

static void
write_outputs(struct shadow *s, int i)
{
    const struct program_instr *instr = program_instr_at(s->program, i);
    const struct graph *g = program_graph(s->program);
    const struct graph_node *node = graph_node_at(g, instr->node);

    if (instr->workspace_bytes > 0)
        spoil(s, instr->workspace_offset,
              instr->workspace_offset + instr->workspace_bytes);
    for (int k = 0; k < node->n_out; k++) {
        const size_t from = instr->out[k].offset;
        const size_t to = from + tensor_n_bytes(&instr->sig.out[k]);
        const int v = node->out[k];

        if (instr->out[k].space != PROGRAM_BLOCK)
            continue;
        spoil(s, from, to);
        if (v >= 0)
            s->held[v] = (struct held){v, from, to};
    }
}

static void
run_range(struct shadow *s, int first, int last)
{
    for (int i = first; i < last; i++) {
        check_reads(s, i);
        check_apart(program_instr_at(s->program, i));
        write_outputs(s, i);
    }
}

static void
check_role(const struct shadow *s, int value)
{
    if (value >= 0)
        assert_int_equal(s->held[value].value, value);
}

/* The prologue once, the step three times; then what the loop reads stands. */
static MODEL_UNUSED void
shadow_check(const struct program *p, bool keep_all)
{
    const struct graph *g = program_graph(p);
    const struct graph_roles *roles = graph_roles(g);
    const int n = graph_n_values(g);
    struct shadow s = {p, calloc((size_t)n + 1, sizeof(*s.held))};

    assert_non_null(s.held);
    for (int i = 0; i < n; i++)
        s.held[i].value = -1;
    for (int i = 0; i < program_n_instrs(p); i++)
        assert_int_equal(program_instr_at(p, i)->prologue,
                         i < program_n_prologue(p));
    run_range(&s, 0, program_n_prologue(p));
    for (int i = 0; i < 3; i++)
        run_range(&s, program_n_prologue(p), program_n_instrs(p));
    check_role(&s, roles->output);
    check_role(&s, roles->loss);
    check_role(&s, roles->scaled_loss);
    check_role(&s, roles->correct);
    for (int i = 0; i < n && keep_all; i++)
        if (graph_value_at(g, i)->kind == GRAPH_TEMP)
            check_role(&s, i);
    free(s.held);
}

#endif
