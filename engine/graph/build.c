/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/graph/build.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#include "engine/graph/build_private.h"
#include "engine/graph/shape.h"

/* The batch: samples of rank 3 are images and lie channels last. */
static int
add_input(struct build *b, struct err *err)
{
    const struct build_data *data = b->data;
    struct tensor_desc x = {.dtype = DTYPE_F32, .rank = data->rank + 1};
    char text[SHAPE_TEXT_MAX];

    x.dim[0] = b->batch_size;
    for (int i = 0; i < data->rank; i++)
        x.dim[i + 1] = data->dim[i];
    if (data->input_is_tokens)
        x.dtype = DTYPE_I32;
    if (data->rank == 3)
        x.layout = TENSOR_NHWC;
    for (int i = 0; i < x.rank; i++)
        if (x.dim[i] < 1)
            return err_set(err, ERR_SPEC,
                           "data: a batch of shape %s has nothing in it",
                           shape_format(&x, text, sizeof(text)));
    if (!shape_fits(&x))
        return err_set(err, ERR_SPEC,
                       "data: a batch of %" PRId64
                       " samples has more than 2^40 elements",
                       b->batch_size);
    b->at = graph_add_input(b->graph, GRAPH_INPUT_X, &x, "x");
    if (b->at < 0)
        return build_no_memory(err);
    return build_layers_remember(b, "input", b->at, err);
}

int
build_graph(const struct spec *spec, const struct build_data *data,
            enum build_mode mode, int64_t batch_size, struct graph **out,
            struct err *err)
{
    struct build b = {.spec = spec,
                      .data = data,
                      .mode = mode,
                      .batch_size = batch_size,
                      .graph = graph_create(),
                      .at = -1};
    int rc;

    *out = NULL;
    assert(data->rank >= 0 && data->rank < TENSOR_MAX_RANK);
    assert(!data->input_is_tokens || data->rank < 3);
    if (b.graph == NULL)
        return err_set(err, ERR_NOMEM, "no memory for the graph");
    rc = add_input(&b, err);
    if (rc != 0)
        goto out;
    rc = build_layers_append(&b, spec->model, spec->n_model, err);
    if (rc != 0) {
        err_prefix(err, "model");
        goto out;
    }
    rc = build_loss_append(&b, err);
    if (rc != 0) {
        err_prefix(err, "loss");
        goto out;
    }
    rc = build_loss_check_metrics(&b, err);
    if (rc == 0)
        rc = graph_freeze(b.graph, err);
out:
    if (rc != 0)
        graph_destroy(&b.graph);
    free(b.place);
    free(b.twin);
    *out = b.graph;
    return rc;
}

int64_t
build_token_limit(const struct graph *graph)
{
    const int x = graph_input_value(graph, GRAPH_INPUT_X);
    int64_t limit = 0;

    for (int i = 0; i < graph_n_nodes(graph); i++) {
        const struct graph_node *node = graph_node_at(graph, i);
        int64_t rows;

        if (node->op != OP_EMBEDDING || node->in[0] != x)
            continue;
        rows = graph_value_at(graph, node->in[1])->desc.dim[0];
        if (limit == 0 || rows < limit)
            limit = rows;
    }
    return limit;
}

/* Classes lie last in memory: so in rows, and in images channels last. */
int64_t
build_class_limit(const struct graph *graph)
{
    const struct tensor_desc *y =
        &graph_value_at(graph, graph_roles(graph)->output)->desc;

    assert(y->rank >= 1);
    return y->dim[y->layout == TENSOR_NHWC ? 1 : y->rank - 1];
}
