/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/safetensors.h"

#include <assert.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "engine/data/array.h"
#include "engine/data/file.h"

/* Jansson is met here and in ckpt's files besides proto: these formats are the
 * engine's own business and no message between processes. */

struct entry {
    struct safetensors_entry public;
    int64_t begin, end; /* into the data */
};

struct safetensors {
    struct file file;   /* empty when the bytes are borrowed */
    char *name;         /* owned, for sentences */
    json_t *header;     /* owned; names point into it */
    struct entry *list; /* owned, by place in the file */
    int *by_name;       /* owned: indices into list */
    int n;
};

/* ---- header ------------------------------------------------------------- */

static uint64_t
read_u64(const uint8_t *p)
{
    uint64_t v = 0;

    for (int i = 7; i >= 0; i--)
        v = v << 8 | p[i];
    return v;
}

/* Length of the JSON, plausible within a file of total bytes. */
static int
read_header_length(const uint8_t *bytes, size_t n, size_t total,
                   const char *name, size_t *out, struct err *err)
{
    uint64_t v;

    if (n < 8)
        return err_set(err, ERR_DATA, "%s: %zu bytes, shorter than 8 bytes",
                       name, n);
    if (n >= 11 && memcmp(bytes, "version htt", 11) == 0)
        return err_set(err, ERR_DATA,
                       "%s: not a safetensors file but the pointer of Git LFS",
                       name);
    v = read_u64(bytes);
    if (v > total - 8)
        return err_set(err, ERR_DATA,
                       "%s: header length %" PRIu64
                       " exceeds file size %zu; not a safetensors file, or cut",
                       name, v, total);
    if (v > SAFETENSORS_MAX_HEADER_BYTES)
        return err_set(err, ERR_DATA,
                       "%s: header length %" PRIu64 ", at most %d", name, v,
                       SAFETENSORS_MAX_HEADER_BYTES);
    if (v < 2 || (n > 8 && bytes[8] != '{'))
        return err_set(err, ERR_DATA,
                       "%s: not a safetensors file, no '{' at byte 8", name);
    *out = (size_t)v;
    return 0;
}

static int
size_of(const uint8_t *head, size_t n_head, size_t total, const char *name,
        size_t *n_bytes, struct err *err)
{
    size_t header;

    *n_bytes = total;
    return read_header_length(head, n_head, total, name, &header, err);
}

/* ---- one tensor --------------------------------------------------------- */

static int
refuse(const struct safetensors *f, const char *tensor, const char *why,
       struct err *err)
{
    return err_set(err, ERR_DATA, "%s: tensor %.128s: %s", f->name, tensor,
                   why);
}

static int
read_shape(const struct safetensors *f, const char *tensor, const json_t *shape,
           struct tensor_desc *out, struct err *err)
{
    const size_t rank = json_array_size(shape);

    if (!json_is_array(shape))
        return refuse(f, tensor, "shape is not an array", err);
    if (rank > TENSOR_MAX_RANK)
        return refuse(f, tensor, "more than 6 dimensions", err);
    out->rank = (int)rank;
    for (size_t i = 0; i < rank; i++) {
        const json_t *d = json_array_get(shape, i);

        if (!json_is_integer(d) || json_integer_value(d) < 0)
            return refuse(f, tensor, "shape holds something not a size", err);
        out->dim[i] = json_integer_value(d);
    }
    return 0;
}

static int
read_offsets(const struct safetensors *f, const char *tensor,
             const json_t *offsets, struct entry *out, struct err *err)
{
    const json_t *begin = json_array_get(offsets, 0);
    const json_t *end = json_array_get(offsets, 1);

    if (json_array_size(offsets) != 2 || !json_is_integer(begin) ||
        !json_is_integer(end))
        return refuse(f, tensor, "data_offsets are not two integers", err);
    out->begin = json_integer_value(begin);
    out->end = json_integer_value(end);
    if (out->begin < 0 || out->end < out->begin)
        return refuse(f, tensor, "data_offsets run backwards", err);
    return 0;
}

static int
read_tensor(const struct safetensors *f, const char *tensor,
            const json_t *value, struct entry *out, struct err *err)
{
    const char *dtype = json_string_value(json_object_get(value, "dtype"));
    struct tensor_desc *desc = &out->public.desc;
    int64_t n_elems, n_bytes;
    int rc;

    if (!json_is_object(value) || json_object_size(value) != 3 || dtype == NULL)
        return refuse(f, tensor, "not {dtype, shape, data_offsets}", err);
    desc->dtype = dtype_parse_safetensors(dtype);
    desc->layout = TENSOR_ROW;
    if (desc->dtype == DTYPE_NONE)
        return err_set(err, ERR_DATA,
                       "%s: tensor %.128s: dtype %.32s is not supported",
                       f->name, tensor, dtype);
    rc = read_shape(f, tensor, json_object_get(value, "shape"), desc, err);
    if (rc == 0)
        rc = read_offsets(f, tensor, json_object_get(value, "data_offsets"),
                          out, err);
    if (rc < 0)
        return rc;
    if (!array_count(desc->rank, desc->dim, dtype_size_bytes(desc->dtype),
                     &n_elems, &n_bytes))
        return refuse(f, tensor, "shape too large", err);
    if (n_bytes != out->end - out->begin)
        return err_set(err, ERR_DATA,
                       "%s: tensor %.128s: data_offsets span %" PRId64
                       " bytes, its shape needs %" PRId64,
                       f->name, tensor, out->end - out->begin, n_bytes);
    out->public.name = tensor;
    return 0;
}

/* ---- all tensors -------------------------------------------------------- */

static int
compare_place(const void *a, const void *b)
{
    const struct entry *x = a, *y = b;

    if (x->begin != y->begin)
        return x->begin < y->begin ? -1 : 1;
    if (x->end != y->end)
        return x->end < y->end ? -1 : 1;
    return strcmp(x->public.name, y->public.name);
}

static int
compare_names(const void *a, const void *b, void *list)
{
    const struct entry *l = list;

    return strcmp(l[*(const int *)a].public.name,
                  l[*(const int *)b].public.name);
}

/* From 0 to the end of the file without gap or overlap. */
static int
check_places(const struct safetensors *f, int64_t n_data, struct err *err)
{
    int64_t at = 0;

    for (int i = 0; i < f->n; i++) {
        if (f->list[i].begin != at)
            return refuse(f, f->list[i].public.name,
                          "data_offsets leave a gap or overlap", err);
        at = f->list[i].end;
    }
    if (at != n_data)
        return err_set(err, ERR_DATA,
                       "%s: data %" PRId64 " bytes, header declares %" PRId64,
                       f->name, n_data, at);
    return 0;
}

static int
check_metadata(const struct safetensors *f, json_t *metadata, struct err *err)
{
    const char *key;
    json_t *value;

    if (!json_is_object(metadata))
        return refuse(f, "__metadata__", "not an object", err);
    json_object_foreach(metadata, key, value)
    {
        if (!json_is_string(value))
            return refuse(f, "__metadata__", "a value is not a string", err);
    }
    return 0;
}

static int
read_entries(struct safetensors *f, struct err *err)
{
    const size_t n = json_object_size(f->header);
    const char *key;
    json_t *value;
    int rc = 0;

    f->list = calloc(n + 1, sizeof(*f->list));
    f->by_name = calloc(n + 1, sizeof(*f->by_name));
    if (f->list == NULL || f->by_name == NULL)
        return err_set(err, ERR_NOMEM, "%s: no memory", f->name);
    json_object_foreach(f->header, key, value)
    {
        if (strcmp(key, "__metadata__") == 0)
            rc = check_metadata(f, value, err);
        else
            rc = read_tensor(f, key, value, &f->list[f->n++], err);
        if (rc < 0)
            return rc;
    }
    qsort(f->list, (size_t)f->n, sizeof(*f->list), compare_place);
    for (int i = 0; i < f->n; i++)
        f->by_name[i] = i;
    qsort_r(f->by_name, (size_t)f->n, sizeof(*f->by_name), compare_names,
            f->list);
    return 0;
}

static int
parse(struct safetensors *f, const uint8_t *bytes, size_t len, struct err *err)
{
    json_error_t error;
    size_t n = 0;
    int rc = read_header_length(bytes, len, len, f->name, &n, err);

    if (rc < 0)
        return rc;
    f->header =
        json_loadb((const char *)bytes + 8, n, JSON_REJECT_DUPLICATES, &error);
    if (f->header == NULL)
        return err_set(err, ERR_DATA, "%s: header: %s at byte %d", f->name,
                       error.text, 8 + error.position);
    if (!json_is_object(f->header))
        return err_set(err, ERR_DATA, "%s: header is not an object", f->name);
    rc = read_entries(f, err);
    if (rc == 0)
        rc = check_places(f, (int64_t)(len - 8 - n), err);
    for (int i = 0; rc == 0 && i < f->n; i++)
        f->list[i].public.data = bytes + 8 + n + f->list[i].begin;
    return rc;
}

/* ---- opening ------------------------------------------------------------ */

static struct safetensors *
create(const char *name, struct err *err)
{
    struct safetensors *f = calloc(1, sizeof(*f));

    if (f != NULL)
        f->name = strdup(name);
    if (f == NULL || f->name == NULL) {
        free(f);
        err_set(err, ERR_NOMEM, "%s: no memory", name);
        return NULL;
    }
    return f;
}

int
safetensors_open(const char *path, struct safetensors **out, struct err *err)
{
    struct safetensors *f = create(path, err);
    int rc;

    *out = NULL;
    if (f == NULL)
        return ERR_NOMEM;
    rc = file_load(path, size_of, &f->file, err);
    if (rc == 0)
        rc = parse(f, f->file.bytes, f->file.len, err);
    if (rc < 0)
        safetensors_close(&f);
    *out = f;
    return rc;
}

int
safetensors_parse(const void *bytes, size_t len, const char *name,
                  struct safetensors **out, struct err *err)
{
    struct safetensors *f = create(name, err);
    int rc;

    *out = NULL;
    if (f == NULL)
        return ERR_NOMEM;
    rc = parse(f, bytes, len, err);
    if (rc < 0)
        safetensors_close(&f);
    *out = f;
    return rc;
}

void
safetensors_close(struct safetensors **file)
{
    struct safetensors *f = *file;

    *file = NULL;
    if (f == NULL)
        return;
    file_fini(&f->file);
    json_decref(f->header);
    free(f->list);
    free(f->by_name);
    free(f->name);
    free(f);
}

/* ---- reading ------------------------------------------------------------ */

int
safetensors_n_entries(const struct safetensors *file)
{
    return file->n;
}

const struct safetensors_entry *
safetensors_at(const struct safetensors *file, int i)
{
    assert(i >= 0 && i < file->n);
    return &file->list[i].public;
}

const struct safetensors_entry *
safetensors_find(const struct safetensors *f, const char *name)
{
    int low = 0, high = f->n;

    while (low < high) {
        const int middle = low + (high - low) / 2;
        const struct safetensors_entry *e = &f->list[f->by_name[middle]].public;
        const int order = strcmp(name, e->name);

        if (order == 0)
            return e;
        if (order < 0)
            high = middle;
        else
            low = middle + 1;
    }
    return NULL;
}

const char *
safetensors_metadata(const struct safetensors *file, const char *key)
{
    const json_t *metadata = json_object_get(file->header, "__metadata__");

    return json_string_value(json_object_get(metadata, key));
}
