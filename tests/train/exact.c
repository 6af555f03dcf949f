/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/train/exact.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/kernels/golden/golden.h"

struct exact {
    const struct graph *graph; /* borrowed */
    double **value;            /* owned, as all below */
    double *scratch, *mag;     /* of the largest value */
    int64_t most_elems;
};

struct exact *
exact_create(const struct graph *graph)
{
    struct exact *e = calloc(1, sizeof(*e));
    const int n = graph_n_values(graph);

    if (e == NULL)
        abort();
    e->graph = graph;
    e->value = calloc((size_t)n + 1, sizeof(*e->value));
    for (int i = 0; i < n; i++) {
        const int64_t elems = tensor_n_elems(&graph_value_at(graph, i)->desc);

        e->value[i] = calloc((size_t)elems + 1, sizeof(double));
        if (elems > e->most_elems)
            e->most_elems = elems;
    }
    e->scratch = calloc((size_t)e->most_elems + 1, sizeof(double));
    e->mag = calloc((size_t)e->most_elems + 1, sizeof(double));
    if (e->scratch == NULL || e->mag == NULL)
        abort();
    return e;
}

void
exact_destroy(struct exact **exact)
{
    struct exact *e = *exact;

    *exact = NULL;
    if (e == NULL)
        return;
    for (int i = 0; i < graph_n_values(e->graph); i++)
        free(e->value[i]);
    free(e->value);
    free(e->scratch);
    free(e->mag);
    free(e);
}

double *
exact_value(struct exact *exact, int id)
{
    assert(id >= 0 && id < graph_n_values(exact->graph));
    return exact->value[id];
}

int64_t
exact_n_elems(const struct exact *exact, int id)
{
    return tensor_n_elems(&graph_value_at(exact->graph, id)->desc);
}

static void
run_node(struct exact *e, const struct graph_node *node,
         const struct kernel_step *step)
{
    struct kernel_sig sig = {.op = node->op,
                             .params = node->params,
                             .n_in = node->n_in,
                             .n_out = node->n_out,
                             .threads = 1};
    struct golden g = {.sig = &sig, .step = step};

    for (int i = 0; i < node->n_in; i++) {
        if (node->in[i] < 0)
            continue;
        sig.in[i] = graph_value_at(e->graph, node->in[i])->desc;
        g.in[i] = e->value[node->in[i]];
    }
    for (int i = 0; i < node->n_out; i++) {
        g.out[i] = e->scratch;
        g.mag[i] = e->mag;
        if (node->out[i] < 0)
            continue;
        sig.out[i] = graph_value_at(e->graph, node->out[i])->desc;
        g.out[i] = e->value[node->out[i]];
    }
    golden_run(&g);
}

double
exact_run(struct exact *exact, const struct kernel_step *step)
{
    const int loss = graph_roles(exact->graph)->loss;

    for (int i = 0; i < graph_n_nodes(exact->graph); i++) {
        const struct graph_node *node = graph_node_at(exact->graph, i);

        if (node->op != OP_STATS_TRACK)
            run_node(exact, node, step);
    }
    return loss < 0 ? NAN : exact->value[loss][0];
}
