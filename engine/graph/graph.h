/* SPDX-License-Identifier: Apache-2.0 */
/*
 * graph: a step as values and nodes in execution order.
 *
 * Built once by graph/build or by a pass, then frozen; a frozen graph is never
 * edited: a pass takes a const graph and makes a new one. Nodes are numbered
 * in execution order and every input of a node comes from an earlier node or
 * from outside, so order needs no sorting. A graph owns all that hangs on it;
 * names are copied in. No kernel, no memory and no I/O are known here.
 */
#ifndef ENGINE_GRAPH_GRAPH_H
#define ENGINE_GRAPH_GRAPH_H

#include "kernels/op.h"
#include "proto/err.h"

enum graph_value_kind {
    GRAPH_INPUT,  /* given from outside at every run; see graph_input */
    GRAPH_PARAM,  /* a weight: f32, lies in the flat parameter block */
    GRAPH_BUFFER, /* a running statistic: f32, in the flat buffer block */
    GRAPH_GRAD,   /* a weight's gradient: f32, in the flat gradient block */
    GRAPH_TEMP    /* made by a node, lives in the activation block */
};

/* What comes from outside; the index of a GRAPH_INPUT value. */
enum graph_input {
    GRAPH_INPUT_X,         /* the batch: f32, or i32 token ids */
    GRAPH_INPUT_TARGET,    /* i32 class ids [N] or [N,...], or f32 like the
                              prediction */
    GRAPH_INPUT_INV_COUNT, /* f32 []: 1 / elements of the window */
    GRAPH_INPUT_SCALE,     /* f32 []: the loss scale */
    GRAPH_INPUT_COUNT
};

enum graph_phase { GRAPH_FORWARD, GRAPH_LOSS, GRAPH_BACKWARD, GRAPH_METRIC };

struct graph_value {
    enum graph_value_kind kind;
    struct tensor_desc desc;
    const char *name; /* "fc1.weight", "fc1.out", "fc1.out.grad", "x" */
    int index;        /* parameter, buffer or enum graph_input; -1 for TEMP */
    int producer;     /* node, -1 from outside. GRAPH_GRAD: its last writer */
    int sample_axis;  /* dim that counts samples: 0, or -1 when none does */
};

struct graph_node {
    enum op op;
    union op_params params;
    int n_in, n_out;
    int in[OP_MAX_IN];   /* value ids; -1 for an absent optional input */
    int out[OP_MAX_OUT]; /* value ids; -1 where nobody wants the output */
    enum graph_phase phase;
    const char *layer; /* path of the layer it comes from; "" for the loss */
    bool fp32_region;  /* autocast is off here */
};

enum graph_init {
    GRAPH_INIT_UNIFORM, /* U(-bound, bound) */
    GRAPH_INIT_NORMAL,  /* N(0, bound^2) */
    GRAPH_INIT_ZERO,
    GRAPH_INIT_ONE,
    GRAPH_INIT_CONSTANT /* bound */
};

struct graph_param {
    const char *name; /* PyTorch's state_dict name: "0.weight" */
    struct tensor_desc desc;
    enum graph_init init;
    double bound; /* for UNIFORM and NORMAL; PyTorch's default for the layer
                      unless the spec says otherwise */
    bool has_zero_row; /* a row of dim 0 starts as zeros all the same: the */
    int64_t zero_row;  /* padding of an embedding */
    bool autocast;     /* used by an op of class LOWER: it gets a half copy */
};

struct graph_buffer {
    const char *name; /* "1.running_mean" */
    struct tensor_desc desc;
    enum graph_init init;
};

/* The values that the loop needs by role; -1 where there is none. */
struct graph_roles {
    int output;      /* prediction (logits), in the dtype it comes in */
    int loss;        /* f32 [] */
    int scaled_loss; /* f32 [] */
    int correct;     /* f32 [], evaluation of classifiers */
    int top_k;       /* f32 [], where the spec asks for it; so confusion */
    int confusion;   /* f32 [K,K] */
};

struct graph;

struct graph *graph_create(void); /* NULL: no memory */
void graph_destroy(struct graph **graph);

/* ---- building; each returns an id or a negative error ---------------------*/
int graph_add_input(struct graph *g, enum graph_input which,
                    const struct tensor_desc *desc, const char *name);
int graph_add_param(struct graph *g, const struct graph_param *param);
int graph_add_buffer(struct graph *g, const struct graph_buffer *buffer);
int graph_add_grad(struct graph *g, int param); /* value of kind GRAD */

/* graph_out.value: make a new value, or leave the output out. */
#define GRAPH_NEW    (-1)
#define GRAPH_ABSENT (-2)

struct graph_out {
    int value;        /* an existing value, GRAPH_NEW or GRAPH_ABSENT */
    const char *name; /* of a new one; NULL as in graph_node_args */
};

struct graph_node_args {
    enum op op;
    const union op_params *params; /* NULL: all zero */
    const int *in;                 /* value ids, op_info(op)->n_in of them */
    enum dtype out_dtype; /* NONE: by the op's rule; else of output 0 */
    enum graph_phase phase;
    const char *layer;
    const char *out_name; /* of output 0; others get ".mean" and so on */
    bool fp32_region;
    /* >= 0: output 0 is this existing value (GRAD, or in-place buffers). */
    int out_value;
    /* NULL, or op_info(op)->n_out rows that replace out_name, out_value. */
    const struct graph_out *out;
    /* Shape of output 0 for ops whose inputs do not tell it (pooling to a
     * size, gradients of pools and of convolutions, UNFLATTEN); else NULL. */
    const struct tensor_desc *like;
};

/* Adds a node, infers its outputs (graph/shape.h) and makes their values.
 * Returns the node's id; output values are in graph_node_at(...)->out.
 * ERR_SPEC with a sentence naming the layer when shapes do not fit. */
int graph_add_node(struct graph *g, const struct graph_node_args *args,
                   struct err *err);
void graph_set_roles(struct graph *g, const struct graph_roles *roles);

/* Checks the whole graph (graph/verify.h) and closes it. */
int graph_freeze(struct graph *g, struct err *err);

/* ---- reading ------------------------------------------------------------- */
int graph_n_values(const struct graph *g);
const struct graph_value *graph_value_at(const struct graph *g, int id);
int graph_n_nodes(const struct graph *g);
const struct graph_node *graph_node_at(const struct graph *g, int id);
int graph_n_params(const struct graph *g);
const struct graph_param *graph_param_at(const struct graph *g, int i);
int graph_n_buffers(const struct graph *g);
const struct graph_buffer *graph_buffer_at(const struct graph *g, int i);
const struct graph_roles *graph_roles(const struct graph *g);

/* Value id of parameter or buffer i, or of an input (-1 if not there). */
int graph_param_value(const struct graph *g, int i);
int graph_buffer_value(const struct graph *g, int i);
int graph_input_value(const struct graph *g, enum graph_input which);

/* The graph as text, one line a node; malloc'd. Stable: golden tests. */
char *graph_print(const struct graph *g);

#endif
