/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/idx.h"

#include <string.h>

#include "engine/data/file.h"

struct header {
    struct tensor_desc desc;
    size_t data_at;
    size_t n_bytes; /* header and data */
};

static const struct {
    uint8_t code;
    enum dtype dtype;
} types[] = {
    {0x08, DTYPE_U8},  {0x09, DTYPE_I8},  {0x0b, DTYPE_I16},
    {0x0c, DTYPE_I32}, {0x0d, DTYPE_F32}, {0x0e, DTYPE_F64},
};

static enum dtype
dtype_of(uint8_t code)
{
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (types[i].code == code)
            return types[i].dtype;
    return DTYPE_NONE;
}

static int
parse_header(const uint8_t *head, size_t n, const char *name,
             struct header *out, struct err *err)
{
    enum dtype dtype;
    int64_t dim[TENSOR_MAX_RANK], n_elems, n_bytes;
    int rank;

    if (n < 4)
        return err_set(err, ERR_DATA, "%s: %zu bytes, too short for IDX", name,
                       n);
    dtype = dtype_of(head[2]);
    rank = head[3];
    if (head[0] != 0 || head[1] != 0 || dtype == DTYPE_NONE)
        return err_set(err, ERR_DATA,
                       "%s: not an IDX file, it starts with %02x%02x%02x%02x",
                       name, head[0], head[1], head[2], head[3]);
    if (rank < 1 || rank > TENSOR_MAX_RANK)
        return err_set(err, ERR_DATA, "%s: %d dimensions, allowed 1..%d", name,
                       rank, TENSOR_MAX_RANK);
    out->data_at = 4 + 4 * (size_t)rank;
    if (n < out->data_at)
        return err_set(err, ERR_DATA, "%s: %zu bytes, the header needs %zu",
                       name, n, out->data_at);
    for (int i = 0; i < rank; i++) {
        const uint8_t *p = head + 4 + 4 * i;

        dim[i] = (int64_t)p[0] << 24 | p[1] << 16 | p[2] << 8 | p[3];
    }
    if (!array_count(rank, dim, dtype_size_bytes(dtype), &n_elems, &n_bytes) ||
        n_bytes > INT64_MAX - 4096)
        return err_set(err, ERR_DATA, "%s: shape too large", name);
    out->desc = tensor_make(dtype, rank, dim);
    out->n_bytes = out->data_at + (size_t)n_bytes;
    return 0;
}

static int
size_of(const uint8_t *head, size_t n_head, size_t total, const char *name,
        size_t *n_bytes, struct err *err)
{
    struct header h;
    int rc = parse_header(head, n_head, name, &h, err);

    (void)total;
    *n_bytes = rc == 0 ? h.n_bytes : 0;
    return rc;
}

static int
take_file(struct file *file, const char *name, struct array *out,
          struct err *err)
{
    const uint16_t one = 1;
    const bool little = *(const uint8_t *)&one == 1;
    struct header h;
    int rc = parse_header(file->bytes, file->len, name, &h, err);

    if (rc == 0 && file->total != h.n_bytes)
        rc = err_set(err, ERR_DATA, "%s: %zu bytes, expected %zu", name,
                     file->total, h.n_bytes);
    if (rc < 0) {
        file_fini(file);
        return rc;
    }
    array_init_take(out, &h.desc, file->bytes, h.data_at, little);
    return 0;
}

int
idx_open(const char *path, struct array *out, struct err *err)
{
    struct file file;
    int rc = file_load(path, size_of, &file, err);

    memset(out, 0, sizeof(*out));
    return rc < 0 ? rc : take_file(&file, path, out, err);
}

int
idx_parse(const void *bytes, size_t len, const char *name, struct array *out,
          struct err *err)
{
    struct file file;
    int rc = file_load_bytes(bytes, len, name, size_of, &file, err);

    memset(out, 0, sizeof(*out));
    return rc < 0 ? rc : take_file(&file, name, out, err);
}
