/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/kernels/oracle/oracle.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct oracle {
    FILE *lines;                /* owned */
    struct safetensors *tensor; /* owned */
    char header[160];
    int line;
};

static _Noreturn void
complain(const struct oracle *o, const char *what, const char *text)
{
    fprintf(stderr, "ops.txt:%d: %s: %s\n", o->line, what, text);
    exit(2);
}

struct oracle *
oracle_open(const char *directory)
{
    struct oracle *o = calloc(1, sizeof(*o));
    struct err err;
    char path[256];

    if (o == NULL)
        abort();
    snprintf(path, sizeof(path), "%s/ops.txt", directory);
    o->lines = fopen(path, "r");
    if (o->lines == NULL ||
        fgets(o->header, sizeof(o->header), o->lines) == NULL)
        complain(o, "cannot be read", path);
    o->header[strcspn(o->header, "\n")] = '\0';
    o->line = 1;
    snprintf(path, sizeof(path), "%s/ops.safetensors", directory);
    if (safetensors_open(path, &o->tensor, &err) != 0)
        complain(o, path, err.msg);
    return o;
}

void
oracle_close(struct oracle **oracle)
{
    fclose((*oracle)->lines);
    safetensors_close(&(*oracle)->tensor);
    free(*oracle);
    *oracle = NULL;
}

const char *
oracle_header(const struct oracle *oracle)
{
    return oracle->header;
}

/* ---- parameters ---------------------------------------------------------- */

enum type { BOOLEAN, INT, UINT, INT64, REAL };

#define FIELD(name, type)                                                      \
    {                                                                          \
#name, type, offsetof(union op_params, name)                           \
    }

static const struct {
    const char *name;
    enum type type;
    size_t at;
} fields[] = {
    FIELD(conv.stride, INT64),
    FIELD(conv.padding, INT64),
    FIELD(conv.dilation, INT64),
    FIELD(conv.groups, INT64),
    FIELD(conv.output_padding, INT64),
    FIELD(matmul.a_transposed, BOOLEAN),
    FIELD(matmul.b_transposed, BOOLEAN),
    FIELD(attention.n_heads, INT64),
    FIELD(attention.causal, BOOLEAN),
    FIELD(attention.scale, REAL),
    FIELD(embedding.has_padding, BOOLEAN),
    FIELD(embedding.padding_index, INT64),
    FIELD(group_norm.eps, REAL),
    FIELD(group_norm.n_groups, INT64),
    FIELD(axis.axis, INT),
    FIELD(axis.keepdim, BOOLEAN),
    FIELD(axis.start, INT64),
    FIELD(axis.length, INT64),
    FIELD(axis.eps, REAL),
    FIELD(reduce.dims, UINT),
    FIELD(reduce.keepdim, BOOLEAN),
    FIELD(reduce.p, REAL),
    FIELD(pow.exponent, REAL),
    FIELD(softplus.beta, REAL),
    FIELD(softplus.threshold, REAL),
    FIELD(binary.value, REAL),
    FIELD(compare.how, UINT),
    FIELD(compare.value, REAL),
    FIELD(transpose.dim0, INT),
    FIELD(transpose.dim1, INT),
    FIELD(upsample.mode, UINT),
    FIELD(upsample.align_corners, BOOLEAN),
    FIELD(batch_norm.eps, REAL),
    FIELD(batch_norm.momentum, REAL),
    FIELD(batch_norm.n, INT64),
    FIELD(layer_norm.eps, REAL),
    FIELD(layer_norm.n_dims, INT),
    FIELD(gelu.tanh, BOOLEAN),
    FIELD(pool.kernel, INT64),
    FIELD(pool.stride, INT64),
    FIELD(pool.padding, INT64),
    FIELD(pool.count_include_pad, BOOLEAN),
    FIELD(dropout.p, REAL),
    FIELD(dropout.stream, UINT),
    FIELD(loss.label_smoothing, REAL),
    FIELD(loss.has_ignore_index, BOOLEAN),
    FIELD(loss.ignore_index, INT64),
    FIELD(loss.k, INT64),
    FIELD(loss.beta, REAL),
    FIELD(loss.delta, REAL),
    FIELD(loss.log_target, BOOLEAN),
    FIELD(loss.factor, REAL),
};

static void
put_field(void *at, enum type type, int i, double v)
{
    switch (type) {
    case BOOLEAN: ((bool *)at)[i] = v != 0; break;
    case INT: ((int *)at)[i] = (int)v; break;
    case UINT: ((unsigned *)at)[i] = (unsigned)v; break;
    case INT64: ((int64_t *)at)[i] = (int64_t)v; break;
    case REAL: ((double *)at)[i] = v; break;
    }
}

/* "conv.stride=2,1" */
static void
read_param(const struct oracle *o, char *text, union op_params *params)
{
    char *value = strchr(text, '=');

    if (value == NULL)
        complain(o, "not name=value", text);
    *value++ = '\0';
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (strcmp(fields[i].name, text) != 0)
            continue;
        for (int k = 0; *value != '\0'; k++) {
            put_field((char *)params + fields[i].at, fields[i].type, k,
                      strtod(value, &value));
            value += *value == ',';
        }
        return;
    }
    complain(o, "unknown parameter", text);
}

/* ---- tensors ------------------------------------------------------------- */

static enum dtype
read_dtype(const struct oracle *o, const char *text)
{
    for (int t = 1; t < DTYPE_COUNT; t++) {
        const char *name = dtype_short_name((enum dtype)t);

        if (strncmp(text, name, strlen(name)) == 0 && text[strlen(name)] == '[')
            return (enum dtype)t;
    }
    complain(o, "no dtype", text);
}

/* "f16[2,3]@=12!" */
static void
read_tensor(const struct oracle *o, char *text, struct tensor_desc *desc,
            const void **data, bool *or_zero)
{
    const struct safetensors_entry *e;
    char *at = strchr(text, '[');

    memset(desc, 0, sizeof(*desc));
    *data = NULL;
    if (strcmp(text, "-") == 0)
        return;
    desc->dtype = read_dtype(o, text);
    for (at++; *at != ']'; at += *at == ',')
        desc->dim[desc->rank++] = strtoll(at, &at, 10);
    at++;
    if (*at == '@') {
        desc->layout = TENSOR_NHWC;
        at++;
    }
    if (strcmp(at, "=?") == 0)
        return;
    if (or_zero != NULL && at[strlen(at) - 1] == '!') {
        *or_zero = true;
        at[strlen(at) - 1] = '\0';
    }
    e = safetensors_find(o->tensor, at + 1);
    if (e == NULL || tensor_n_bytes(&e->desc) != tensor_n_bytes(desc))
        complain(o, "no such tensor", text);
    *data = e->data;
}

/* ---- lines --------------------------------------------------------------- */

static enum op
find_op(const struct oracle *o, const char *name)
{
    for (int op = 0; op < OP_COUNT; op++)
        if (strcmp(op_info((enum op)op)->name, name) == 0)
            return (enum op)op;
    complain(o, "no such op", name);
}

static void
read_call(const struct oracle *o, char *text, struct oracle_call *call)
{
    char *part[4] = {text}, *save = NULL;
    int n = 0;

    for (int i = 1; i < 4; i++) {
        part[i] = strchr(part[i - 1], ';');
        if (part[i] == NULL)
            complain(o, "not four parts", text);
        *part[i]++ = '\0';
    }
    call->sig.op = find_op(o, strtok_r(part[0], " ", &save));
    call->native = strcmp(strtok_r(NULL, " ", &save), "native") == 0;
    for (char *s = strtok_r(part[1], " ", &save); s != NULL;
         s = strtok_r(NULL, " ", &save))
        read_param(o, s, &call->sig.params);
    for (char *s = strtok_r(part[2], " ", &save); s != NULL;
         s = strtok_r(NULL, " ", &save), n++)
        read_tensor(o, s, &call->sig.in[n], &call->in[n], NULL);
    call->sig.n_in = op_info(call->sig.op)->n_in;
    if (n > call->sig.n_in)
        complain(o, "too many inputs", part[2]);
    n = 0;
    for (char *s = strtok_r(part[3], " ", &save); s != NULL;
         s = strtok_r(NULL, " ", &save), n++)
        read_tensor(o, s, &call->sig.out[n], &call->want[n], &call->or_zero[n]);
    call->sig.n_out = op_info(call->sig.op)->n_out;
    if (n > call->sig.n_out)
        complain(o, "too many outputs", part[3]);
}

bool
oracle_next(struct oracle *oracle, struct oracle_call *call)
{
    char text[1024];

    memset(call, 0, sizeof(*call));
    if (fgets(text, sizeof(text), oracle->lines) == NULL)
        return false;
    oracle->line++;
    text[strcspn(text, "\n")] = '\0';
    call->line = oracle->line;
    call->sig.threads = 1;
    read_call(oracle, text, call);
    return true;
}
