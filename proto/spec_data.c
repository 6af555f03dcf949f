/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec_parts.h"

#define MAX_CHANNELS 65536
#define MAX_COLUMNS  4096

static int
find(const struct spec_reader *r, int node, const char *key)
{
    return spec_read_find(r, node, key);
}

static bool
is_null(const struct spec_reader *r, int node)
{
    return node < 0 || r->tree.nodes[node].type == SPEC_NODE_NULL;
}

/* ---- normalisation ------------------------------------------------------- */

/* A number, or a list of them; *n is 0 when nothing could be read. */
static double *
read_numbers(struct spec_reader *r, int node, const struct spec_range *range,
             double fallback, int *n)
{
    bool list = node >= 0 && r->tree.nodes[node].type == SPEC_NODE_ARRAY;
    int count = list ? r->tree.nodes[node].n : 1;
    double *v;
    int child, i = 0;

    *n = 0;
    if (list && !spec_read_is_array(r, node, MAX_CHANNELS))
        return NULL;
    if (count == 0) {
        spec_fault_at(r, node, "may not be an empty list");
        return NULL;
    }
    v = pool_alloc(r->pool, (size_t)count, sizeof(*v));
    if (v == NULL)
        return NULL;
    *n = count;
    v[0] = fallback;
    if (list)
        for (child = r->tree.nodes[node].first; child >= 0;
             child = r->tree.nodes[child].next)
            spec_read_real(r, child, range, &v[i++]);
    else if (node >= 0)
        spec_read_real(r, node, range, &v[0]);
    return v;
}

/* One number for all channels becomes one for each. */
static double *
spread(struct spec_reader *r, double *v, int n, int wanted)
{
    double *all;

    if (n == wanted)
        return v;
    all = pool_alloc(r->pool, (size_t)wanted, sizeof(*all));
    for (int i = 0; all != NULL && i < wanted; i++)
        all[i] = v[0];
    return all;
}

static void
read_normalize(struct spec_reader *r, int node, struct spec *spec)
{
    static const struct spec_range any = {-3.4e38, 3.4e38, false, false,
                                          "a number"};
    static const struct spec_range positive = {0, 3.4e38, true, false,
                                               "a number above 0"};
    int n_mean, n_std, n;

    if (is_null(r, node) || !spec_read_is_object(r, node))
        return;
    spec_read_object(r, node, SPEC_OBJECT_NORMALIZE, spec);
    spec->data.mean = read_numbers(r, find(r, node, "mean"), &any, 0, &n_mean);
    spec->data.std =
        read_numbers(r, find(r, node, "std"), &positive, 1, &n_std);
    if (n_mean == 0 || n_std == 0)
        return;
    if (n_mean != n_std && n_mean != 1 && n_std != 1) {
        spec_fault_at(r, find(r, node, "std"),
                      "has %d elements where mean has %d", n_std, n_mean);
        return;
    }
    n = n_mean > n_std ? n_mean : n_std;
    spec->data.mean = spread(r, spec->data.mean, n_mean, n);
    spec->data.std = spread(r, spec->data.std, n_std, n);
    spec->data.n_normalize = n;
}

/* ---- sources ------------------------------------------------------------- */

/* Formats as bits, for what has a meaning with some of them only. */
#define BIT(format) (1u << SPEC_FORMAT_##format)
#define TENSORS     (BIT(IDX) | BIT(NPY) | BIT(SAFETENSORS))
#define SEQUENCES   (BIT(TOKENS) | BIT(TEXT))

static const struct {
    const char *key;
    unsigned formats;
} with_format[] = {
    {"target", TENSORS},
    {"input_name", BIT(SAFETENSORS)},
    {"target_name", BIT(SAFETENSORS)},
    {"target_columns", BIT(CSV)},
    {"token_dtype", BIT(TOKENS)},
    {"part", SEQUENCES},
    {"mask", TENSORS | SEQUENCES},
};

static bool
is_sequence(const struct spec_source *source)
{
    return ((1u << source->format) & SEQUENCES) != 0;
}

/* Reports what has no meaning for the format. */
static void
check_format(struct spec_reader *r, int node, const struct spec_source *source)
{
    for (size_t i = 0; i < sizeof(with_format) / sizeof(with_format[0]); i++) {
        int at = find(r, node, with_format[i].key);

        if (!is_null(r, at) &&
            (with_format[i].formats >> source->format & 1) == 0)
            spec_fault_add(r, r->tree.nodes[at].key, at, NULL,
                           "has no meaning for format %s",
                           spec_format_name(source->format));
    }
}

/* A key that the format cannot do without. */
static void
require(struct spec_reader *r, int node, const char *key, const char *wanted)
{
    int at = find(r, node, key);

    if (at < 0)
        spec_fault_add(r, r->tree.nodes[node].start, node, key,
                       "missing; must be %s", wanted);
    else if (is_null(r, at))
        spec_read_fault_type(r, at, wanted);
}

static void
read_tensor_name(struct spec_reader *r, int node, const char *fallback,
                 const char **out)
{
    *out = fallback;
    if (!is_null(r, node))
        spec_read_name(r, node, out);
}

/* A column's name, or its number as a string of digits. */
static const char *
read_column(struct spec_reader *r, int node)
{
    static const struct spec_range range = {0, 1e6, false, false,
                                            "a column's name or its number"};
    const struct spec_node *at = &r->tree.nodes[node];
    const char *name = "";
    int64_t number;

    if (at->type == SPEC_NODE_STRING)
        spec_read_name(r, node, &name);
    else if (spec_read_int(r, node, &range, &number))
        name =
            pool_copy(r->pool, r->tree.text + at->start, at->end - at->start);
    return name;
}

static void
read_columns(struct spec_reader *r, int node, struct spec_source *source)
{
    int n = 0;

    if (!spec_read_is_array(r, node, MAX_COLUMNS))
        return;
    if (r->tree.nodes[node].n == 0) {
        spec_fault_at(r, node, "may not be an empty list");
        return;
    }
    source->target_columns = pool_alloc(r->pool, (size_t)r->tree.nodes[node].n,
                                        sizeof(*source->target_columns));
    if (source->target_columns == NULL)
        return;
    for (int child = r->tree.nodes[node].first; child >= 0;
         child = r->tree.nodes[child].next)
        source->target_columns[n++] = read_column(r, child);
    source->n_target_columns = n;
}

static void
read_part(struct spec_reader *r, int node, struct spec_source *source)
{
    static const struct spec_range range = {0, 1, false, false,
                                            "a number from 0 to 1"};
    const struct spec_node *at = &r->tree.nodes[node];
    bool sound = true;
    int i = 0;

    if (at->type != SPEC_NODE_ARRAY || at->n != 2) {
        spec_fault_at(r, node, "must be a list of two numbers, from and to");
        return;
    }
    for (int child = at->first; child >= 0; child = r->tree.nodes[child].next)
        sound = spec_read_real(r, child, &range, &source->part[i++]) && sound;
    if (sound && source->part[0] >= source->part[1])
        spec_fault_at(r, node, "must be in order, not %.9g to %.9g",
                      source->part[0], source->part[1]);
}

/* The keys that the table leaves to code. */
static void
read_custom(struct spec_reader *r, int node, struct spec_source *source)
{
    int columns = find(r, node, "target_columns");
    int dtype = find(r, node, "token_dtype");
    int part = find(r, node, "part");
    int word;

    source->part[1] = 1;
    if (source->format == SPEC_FORMAT_SAFETENSORS) {
        read_tensor_name(r, find(r, node, "input_name"), "input",
                         &source->input_name);
        read_tensor_name(r, find(r, node, "target_name"), "target",
                         &source->target_name);
    }
    if (source->format == SPEC_FORMAT_CSV)
        require(r, node, "target_columns", "a list of column names or numbers");
    if (source->format == SPEC_FORMAT_IDX || source->format == SPEC_FORMAT_NPY)
        require(r, node, "target", "a path");
    if (!is_null(r, columns))
        read_columns(r, columns, source);
    if (!is_null(r, dtype) &&
        spec_read_word(r, dtype, &spec_words_token_dtype, &word))
        source->token_dtype = (enum dtype)word;
    if (!is_null(r, part))
        read_part(r, part, source);
}

/* False: there is no format to go by. */
static bool
read_source(struct spec_reader *r, int node, struct spec_source *source)
{
    int format = find(r, node, "format");
    int word = 0;

    if (is_null(r, node) || !spec_read_is_object(r, node))
        return false;
    source->present = true;
    spec_read_object(r, node, SPEC_OBJECT_SOURCE, source);
    if (format < 0 || r->tree.nodes[format].type != SPEC_NODE_STRING)
        return false;
    while (word < spec_words_format.n &&
           !spec_locate_equals(&r->tree, r->tree.nodes[format].start,
                               r->tree.nodes[format].end,
                               spec_words_format.list[word].name))
        word++;
    if (word == spec_words_format.n)
        return false;
    check_format(r, node, source);
    read_custom(r, node, source);
    return true;
}

/* ---- augmentation -------------------------------------------------------- */

static void
read_augment(struct spec_reader *r, int node, struct spec *spec)
{
    int crop = find(r, node, "random_crop");
    int flip = find(r, node, "horizontal_flip");

    if (is_null(r, node) || !spec_read_is_object(r, node))
        return;
    spec_read_object(r, node, SPEC_OBJECT_AUGMENT, spec);
    if (!is_null(r, crop) && spec_read_is_object(r, crop))
        spec_read_object(r, crop, SPEC_OBJECT_RANDOM_CROP, spec);
    if (!is_null(r, flip) && spec_read_is_object(r, flip))
        spec_read_object(r, flip, SPEC_OBJECT_HORIZONTAL_FLIP, spec);
}

/* ---- the whole ----------------------------------------------------------- */

/* What hangs on whether samples are windows of a sequence. */
static void
check_sequences(struct spec_reader *r, int node, const struct spec *spec)
{
    const struct spec_source *train = &spec->data.train;
    const char *format = spec_format_name(train->format);
    int length = find(r, node, "sequence_length");
    int normalize = find(r, node, "normalize");
    int augment = find(r, node, "augment");

    if (is_sequence(train) && length < 0)
        spec_fault_add(r, r->tree.nodes[node].start, node, "sequence_length",
                       "missing; must be an integer, 1 or more, for format "
                       "%s",
                       format);
    else if (is_sequence(train) && spec->data.sequence_length == 0 &&
             r->tree.text[r->tree.nodes[length].start] == '0')
        spec_fault_at(r, length, "must be 1 or more for format %s", format);
    else if (!is_sequence(train) && spec->data.sequence_length > 0)
        spec_fault_at(r, length, "has no meaning for format %s", format);
    if (is_sequence(train) && !is_null(r, normalize))
        spec_fault_at(r, normalize, "token ids cannot be normalized");
    if (((1u << train->format) & TENSORS) == 0 && !is_null(r, augment))
        spec_fault_at(r, augment, "is for images, which format %s has not",
                      format);
}

void
spec_data_read(struct spec_reader *r, int node, struct spec *spec)
{
    struct spec_source *train = &spec->data.train;
    struct spec_source *validation = &spec->data.validation;
    int at;

    if (node < 0)
        return;
    spec_read_object(r, node, SPEC_OBJECT_DATA, spec);
    at = find(r, node, "train");
    if (at >= 0 && is_null(r, at))
        spec_read_is_object(r, at);
    if (read_source(r, at, train))
        check_sequences(r, node, spec);
    else
        train = NULL;
    at = find(r, node, "validation");
    if (read_source(r, at, validation) && train != NULL &&
        is_sequence(train) != is_sequence(validation))
        spec_fault_at(r, at, "format %s does not go with training on %s",
                      spec_format_name(validation->format),
                      spec_format_name(train->format));
    read_normalize(r, find(r, node, "normalize"), spec);
    read_augment(r, find(r, node, "augment"), spec);
}
