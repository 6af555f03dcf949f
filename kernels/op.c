/* SPDX-License-Identifier: Apache-2.0 */
#include "kernels/op.h"

#include <assert.h>
#include <pthread.h>
#include <string.h>

/* ---- the table ------------------------------------------------------------
 * ops.def keeps the names of an op's tensors in one string, "x,w,b?", because
 * it is read by people. C cannot cut strings at compile time, so the rows are
 * cut once, on the first call; after that the table never changes. */

#define NAMES_MAX 64

struct row {
    const char *name, *in, *out;
    enum op_cast cast;
    int inplace;
    double ulps;
    enum op_reduce reduce;
    const char *doc;
};

static const struct row rows[OP_COUNT] = {
#define OP(id, nm, inputs, outputs, class, place, tol, red, text)              \
    {nm, inputs, outputs, OP_CAST_##class, place, tol, OP_REDUCE_##red, text},
#include "kernels/ops.def"
#undef OP
};

static struct op_info infos[OP_COUNT];
static char names[OP_COUNT][2][NAMES_MAX]; /* what infos points into */
static pthread_once_t infos_once = PTHREAD_ONCE_INIT;

/* "a,b?" in list -> name {"a", "b"}, optional {false, true}; the count. */
static int
cut_names(char *list, const char **name, bool *optional, int max)
{
    int n = 0;
    char *save = NULL;

    for (char *s = strtok_r(list, ",", &save); s != NULL;
         s = strtok_r(NULL, ",", &save)) {
        const size_t len = strlen(s);
        const bool is_optional = s[len - 1] == '?';

        assert(n < max);
        if (is_optional)
            s[len - 1] = '\0';
        if (optional != NULL)
            optional[n] = is_optional;
        name[n++] = s;
    }
    return n;
}

static void
infos_fill(void)
{
    for (int i = 0; i < OP_COUNT; i++) {
        const struct row *row = &rows[i];
        struct op_info *info = &infos[i];

        assert(strlen(row->in) < NAMES_MAX && strlen(row->out) < NAMES_MAX);
        strcpy(names[i][0], row->in);
        strcpy(names[i][1], row->out);
        *info = (struct op_info){.name = row->name,
                                 .cast = row->cast,
                                 .inplace = row->inplace,
                                 .ulps = row->ulps,
                                 .reduce = row->reduce,
                                 .doc = row->doc};
        info->n_in =
            cut_names(names[i][0], info->in_name, info->in_optional, OP_MAX_IN);
        info->n_out = cut_names(names[i][1], info->out_name, NULL, OP_MAX_OUT);
    }
}

const struct op_info *
op_info(enum op op)
{
    assert((int)op >= 0 && op < OP_COUNT);
    pthread_once(&infos_once, infos_fill);
    return &infos[op];
}

/* ---- shape arithmetic ---------------------------------------------------- */

int64_t
op_window_out(int64_t in, int64_t kernel, int64_t stride, int64_t padding,
              int64_t dilation)
{
    const int64_t span = in + 2 * padding - dilation * (kernel - 1) - 1;

    if (kernel < 1 || stride < 1 || dilation < 1 || padding < 0 || span < 0)
        return -1;
    return span / stride + 1;
}

static int64_t
div_up(int64_t a, int64_t b)
{
    return b > 0 ? (a + b - 1) / b : 0;
}

static int64_t
channels(const struct tensor_desc *t)
{
    if (t->rank == 0)
        return 1;
    return t->layout == TENSOR_NHWC ? t->dim[1] : t->dim[t->rank - 1];
}

/* Length of the axis that one element of the output runs over. */
static int64_t
in_length(enum op op, const union op_params *params,
          const struct tensor_desc *in)
{
    int64_t length = 1;

    if (op == OP_CROSS_ENTROPY_BWD) /* in 0 is the scalar dloss */
        return channels(&in[1]);
    /* What is summed over lies first when a is transposed, and in dy. */
    if (op == OP_MATMUL_DB || (op == OP_MATMUL && params->matmul.a_transposed))
        return in[0].dim[in[0].rank - 2];
    if (op != OP_LAYER_NORM && op != OP_LAYER_NORM_BWD && op != OP_RMS_NORM &&
        op != OP_RMS_NORM_BWD)
        return in[0].rank > 0 ? in[0].dim[in[0].rank - 1] : 1;
    for (int i = 0; i < params->layer_norm.n_dims; i++)
        length *= in[0].dim[in[0].rank - 1 - i];
    /* dw and db of the backward op run over the rows instead. */
    if ((op == OP_LAYER_NORM_BWD || op == OP_RMS_NORM_BWD) && length > 0) {
        const int64_t n_rows = tensor_n_elems(&in[0]) / length;

        return n_rows > length ? n_rows : length;
    }
    return length;
}

/* Taps from the output of a convolution to its input: its gradient, or the
 * transposed convolution, which is that. */
static bool
is_towards_input(enum op op)
{
    return op == OP_CONV2D_DX || op == OP_CONV1D_DX ||
           op == OP_CONV_TRANSPOSE2D;
}

static int64_t
taps_length(enum op op, const union op_params *params,
            const struct tensor_desc *in)
{
    const struct tensor_desc *w = &in[1]; /* (O, C/g, kh, kw), (O, C/g, k) */
    const int64_t groups = params->conv.groups;
    int64_t window = 1;

    for (int i = 2; i < w->rank; i++)
        window *= w->dim[i];
    if (is_towards_input(op)) /* every output channel of the group */
        return (groups > 1 ? w->dim[0] / groups : w->dim[0]) * window;
    return w->dim[1] * window;
}

/* Pixels of the images that a window leads to. */
static int64_t
pixels_length(enum op op, const struct tensor_desc *in)
{
    const struct tensor_desc *y = &in[op == OP_CONV_TRANSPOSE2D_DW ? 1 : 0];
    int64_t n = y->dim[0];

    for (int i = 2; i < y->rank; i++)
        n *= y->dim[i];
    return n;
}

/* Elements of one axis in a window of adaptive pooling, big to small, or how
 * many windows share an element. */
static int64_t
adaptive_overlap(int64_t big, int64_t small, bool backward)
{
    if (big <= 0 || small <= 0)
        return 1;
    return backward ? div_up(small, big) + 1 : div_up(big, small) + 1;
}

/* Taps of an interpolated element, or how many outputs read an input: two
 * taps an axis reach twice as far, and align_corners a little further. */
static int64_t
upsample_length(enum op op, const union op_params *params,
                const struct tensor_desc *in, const struct tensor_desc *out)
{
    const int64_t taps = params->upsample.mode == OP_UPSAMPLE_NEAREST ? 1 : 2;
    int64_t length = 1;

    if (op == OP_UPSAMPLE)
        return taps * taps;
    for (int i = 2; i < 4; i++)
        length *= taps * div_up(in->dim[i], out->dim[i]) + taps - 1;
    return length;
}

static int64_t
window_length(enum op op, const union op_params *params,
              const struct tensor_desc *in, const struct tensor_desc *out)
{
    int64_t length = 1;
    const bool resized = op == OP_UPSAMPLE || op == OP_UPSAMPLE_BWD;
    const bool adaptive =
        op == OP_ADAPTIVE_AVG_POOL2D || op == OP_ADAPTIVE_AVG_POOL2D_BWD;
    const bool backward = op == OP_MAX_POOL2D_BWD || op == OP_AVG_POOL2D_BWD ||
                          op == OP_ADAPTIVE_AVG_POOL2D_BWD;

    if (resized)
        return upsample_length(op, params, in, out);
    for (int i = 0; i < 2; i++) {
        if (adaptive)
            length *=
                adaptive_overlap((backward ? out : in)->dim[2 + i],
                                 (backward ? in : out)->dim[2 + i], backward);
        else if (backward)
            length *= div_up(params->pool.kernel[i], params->pool.stride[i]);
        else
            length *= params->pool.kernel[i];
    }
    return length;
}

/* The axis of the forward op's input. */
static int64_t
axis_length(enum op op, const union op_params *params,
            const struct tensor_desc *in)
{
    const bool second = op == OP_PROD_BWD || op == OP_COSINE_SIMILARITY_BWD;
    const struct tensor_desc *x = &in[second ? 1 : 0];

    return params->axis.axis < x->rank ? x->dim[params->axis.axis] : 1;
}

/* Elements that are normalized together; gradients of w and b sum over those
 * of a channel instead. */
static int64_t
group_length(enum op op, const union op_params *params,
             const struct tensor_desc *in)
{
    const bool backward = op == OP_GROUP_NORM_BWD;
    const struct tensor_desc *x = &in[backward ? 1 : 0];
    const int64_t n = tensor_n_elems(x);
    const int64_t n_groups = x->dim[0] * params->group_norm.n_groups;
    const int64_t group = n_groups > 0 ? n / n_groups : 0;
    const int64_t channel = x->dim[1] > 0 ? n / x->dim[1] : 0;

    return backward && channel > group ? channel : group;
}

/* A score sums over a head, a weighted value over the keys; gradients towards
 * keys sum over the queries, which are no more than q's rows. */
static int64_t
keys_length(enum op op, const union op_params *params,
            const struct tensor_desc *in)
{
    const bool backward = op == OP_ATTENTION_BWD;
    const struct tensor_desc *q = &in[backward ? 1 : 0];
    const struct tensor_desc *k = &in[backward ? 2 : 1];
    const bool packed = k->dtype == DTYPE_NONE;
    const int64_t n_keys = packed ? q->dim[1] : k->dim[1];
    const int64_t size = q->dim[2] / (packed ? 3 : 1);
    const int64_t n_heads = params->attention.n_heads;

    return (n_heads > 0 ? size / n_heads : size) +
           (backward && q->dim[1] > n_keys ? q->dim[1] : n_keys);
}

int64_t
op_reduce_length(enum op op, const union op_params *params,
                 const struct tensor_desc *in, const struct tensor_desc *out)
{
    const int64_t n = tensor_n_elems(&in[0]);
    int64_t c = channels(&in[0]);

    switch (op_info(op)->reduce) {
    case OP_REDUCE_ONE: return 1;
    case OP_REDUCE_IN: return in_length(op, params, in);
    case OP_REDUCE_ROWS: return c > 0 ? n / c : 0;
    case OP_REDUCE_TAPS: return taps_length(op, params, in);
    case OP_REDUCE_PIXELS: return pixels_length(op, in);
    case OP_REDUCE_CHAN: c = in[0].dim[1]; return c > 0 ? n / c : 0;
    case OP_REDUCE_WINDOW: return window_length(op, params, in, out);
    case OP_REDUCE_AXIS: return axis_length(op, params, in);
    case OP_REDUCE_DIMS: return div_up(n, tensor_n_elems(&out[0]));
    case OP_REDUCE_SPREAD: return div_up(n, tensor_n_elems(&out[0]));
    case OP_REDUCE_KEYS: return keys_length(op, params, in);
    case OP_REDUCE_GROUP: return group_length(op, params, in);
    case OP_REDUCE_ALL: return n;
    }
    return 1;
}

/* ---- cost ---------------------------------------------------------------- */

/* Two products of head size for each query and key that it sees; backward does
 * five. What a mask hides counts: it is not known here. */
static double
attention_flops(enum op op, const union op_params *params,
                const struct tensor_desc *in)
{
    const bool backward = op == OP_ATTENTION_BWD;
    const struct tensor_desc *q = &in[backward ? 1 : 0];
    const struct tensor_desc *k = &in[backward ? 2 : 1];
    const bool packed = k->dtype == DTYPE_NONE;
    const int64_t n_queries = q->dim[1];
    const int64_t n_keys = packed ? n_queries : k->dim[1];
    const double size = (double)(q->dim[2] / (packed ? 3 : 1));
    double pairs = (double)n_queries * (double)n_keys;

    if (params->attention.causal) {
        pairs = 0;
        for (int64_t t = 0; t < n_queries; t++) {
            const int64_t seen = t + 1 + n_keys - n_queries;

            pairs += seen > 0 ? (double)seen : 0;
        }
    }
    return (backward ? 10 : 4) * pairs * size * (double)q->dim[0];
}

double
op_flops(enum op op, const union op_params *params,
         const struct tensor_desc *in, const struct tensor_desc *out)
{
    const double length = (double)op_reduce_length(op, params, in, out);
    double largest = 0;

    switch (op_info(op)->reduce) {
    case OP_REDUCE_IN:
        if (op == OP_LINEAR || op == OP_LINEAR_DX || op == OP_MATMUL ||
            op == OP_MATMUL_DA || op == OP_MATMUL_DB)
            return 2 * length * (double)tensor_n_elems(&out[0]);
        break;
    case OP_REDUCE_ROWS:
        if (op == OP_LINEAR_DW)
            return 2 * length * (double)tensor_n_elems(&out[0]);
        break;
    case OP_REDUCE_TAPS: /* dx does the forward's work, whatever its stride */
        if (is_towards_input(op) && in[1].dim[0] > 0)
            return 2 * (double)tensor_n_elems(&in[0]) *
                   (double)(tensor_n_elems(&in[1]) / in[1].dim[0]);
        return 2 * length * (double)tensor_n_elems(&out[0]);
    case OP_REDUCE_PIXELS: return 2 * length * (double)tensor_n_elems(&out[0]);
    case OP_REDUCE_ONE:
    case OP_REDUCE_CHAN:
    case OP_REDUCE_WINDOW:
    case OP_REDUCE_AXIS:
    case OP_REDUCE_DIMS:
    case OP_REDUCE_SPREAD:
    case OP_REDUCE_GROUP:
    case OP_REDUCE_ALL: break;
    case OP_REDUCE_KEYS: return attention_flops(op, params, in);
    }
    /* Everything else: one operation an element of the largest tensor. */
    for (int i = 0; i < op_info(op)->n_in; i++)
        if (in[i].dtype != DTYPE_NONE && tensor_n_elems(&in[i]) > largest)
            largest = (double)tensor_n_elems(&in[i]);
    for (int i = 0; i < op_info(op)->n_out; i++)
        if (out[i].dtype != DTYPE_NONE && tensor_n_elems(&out[i]) > largest)
            largest = (double)tensor_n_elems(&out[i]);
    return largest;
}

double
op_bytes(enum op op, const struct tensor_desc *in,
         const struct tensor_desc *out)
{
    double bytes = 0;

    for (int i = 0; i < op_info(op)->n_in; i++)
        bytes += (double)tensor_n_bytes(&in[i]);
    for (int i = 0; i < op_info(op)->n_out; i++)
        bytes += (double)tensor_n_bytes(&out[i]);
    return bytes;
}
