/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/npy.h"

#include <inttypes.h>
#include <string.h>

#include "engine/data/file.h"
#include "engine/data/npy_header.h"

static int
size_of(const uint8_t *head, size_t n_head, size_t total, const char *name,
        size_t *n_bytes, struct err *err)
{
    const struct npy_source from = {head, n_head, total, name};
    struct npy_header h;
    int rc = npy_header_parse(&from, &h, err);

    *n_bytes = rc == 0 ? h.data_at + (size_t)h.n_data_bytes : 0;
    return rc;
}

static int
check_length(const struct file *file, const struct npy_header *h,
             const char *name, struct err *err)
{
    const size_t want = (size_t)h->n_data_bytes;
    const size_t have = file->total - h->data_at;

    if (have < want)
        return err_set(err, ERR_DATA, "%s: data %zu bytes, expected %zu", name,
                       have, want);
    if (have > want)
        return err_set(err, ERR_DATA, "%s: %zu extra bytes after the data",
                       name, have - want);
    return 0;
}

/* uint64 elements were taken as int64: none may have the top bit. */
static int
check_u64(const struct array *a, const char *name, struct err *err)
{
    const uint64_t *v = a->data;
    int64_t index[TENSOR_MAX_RANK] = {0};

    for (int64_t i = 0; i < a->n_elems; i++) {
        if (v[i] <= INT64_MAX)
            continue;
        tensor_unravel(&a->desc, i, index);
        return err_set(err, ERR_DATA,
                       "%s: row %" PRId64 " value %" PRIu64
                       ", at most %" PRId64,
                       name, index[0] + 1, v[i], INT64_MAX);
    }
    return 0;
}

static int
take_file(struct file *file, const char *name, struct array *out,
          struct err *err)
{
    const uint16_t one = 1;
    const bool little = *(const uint8_t *)&one == 1;
    const struct npy_source from = {file->bytes, file->len, file->total, name};
    struct npy_header h;
    int rc = npy_header_parse(&from, &h, err);

    if (rc == 0)
        rc = check_length(file, &h, name, err);
    if (rc < 0) {
        file_fini(file);
        return rc;
    }
    array_init_take(out, &h.desc, file->bytes, h.data_at,
                    h.big_endian == little);
    if (h.fortran_order)
        rc = array_from_fortran(out, err);
    if (rc == 0 && h.is_u64)
        rc = check_u64(out, name, err);
    if (rc < 0)
        array_fini(out);
    return rc;
}

int
npy_open(const char *path, struct array *out, struct err *err)
{
    struct file file;
    int rc = file_load(path, size_of, &file, err);

    memset(out, 0, sizeof(*out));
    return rc < 0 ? rc : take_file(&file, path, out, err);
}

int
npy_parse(const void *bytes, size_t len, const char *name, struct array *out,
          struct err *err)
{
    struct file file;
    int rc = file_load_bytes(bytes, len, name, size_of, &file, err);

    memset(out, 0, sizeof(*out));
    return rc < 0 ? rc : take_file(&file, name, out, err);
}
