/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <errno.h>
#include <inttypes.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "engine/base/digest.h"
#include "engine/base/failpoint.h"
#include "engine/data/safetensors.h"

#define CHUNK_BYTES (4 << 20)

/* ---- header ------------------------------------------------------------- */

static int
compare_entries(const void *a, const void *b)
{
    const struct safetensors_entry *x =
        *(const struct safetensors_entry *const *)a;
    const struct safetensors_entry *y =
        *(const struct safetensors_entry *const *)b;
    const size_t nx = dtype_size_bytes(x->desc.dtype);
    const size_t ny = dtype_size_bytes(y->desc.dtype);

    if (nx != ny)
        return nx > ny ? -1 : 1;
    return strcmp(x->name, y->name);
}

static json_t *
describe_tensor(const struct safetensors_entry *e, int64_t *at)
{
    const int64_t begin = *at;
    json_t *shape = json_array();

    for (int i = 0; i < e->desc.rank; i++)
        json_array_append_new(shape, json_integer(e->desc.dim[i]));
    *at += (int64_t)tensor_n_bytes(&e->desc);
    return json_pack("{s:s, s:o, s:[I,I]}", "dtype",
                     dtype_safetensors_name(e->desc.dtype), "shape", shape,
                     "data_offsets", (json_int_t)begin, (json_int_t)*at);
}

static int
set_new(json_t *object, const char *key, json_t *value)
{
    /* Strings that are no UTF-8 are the way for this to fail. */
    return value == NULL ? -1 : json_object_set_new(object, key, value);
}

/* Length and JSON, padded with spaces to a multiple of 8; malloc'd. */
static char *
print_header(const struct safetensors_entry *const *sorted, int n,
             const struct safetensors_pair *metadata, int n_metadata,
             size_t *len)
{
    json_t *header = json_object(), *pairs = json_object();
    char *text = NULL, *out = NULL;
    size_t n_text, padded;
    int64_t at = 0;
    int rc = 0;

    for (int i = 0; i < n_metadata && rc == 0; i++)
        rc = set_new(pairs, metadata[i].key, json_string(metadata[i].value));
    if (n_metadata > 0 && rc == 0)
        rc = json_object_set(header, "__metadata__", pairs);
    for (int i = 0; i < n && rc == 0; i++)
        rc = set_new(header, sorted[i]->name, describe_tensor(sorted[i], &at));
    if (rc == 0)
        text = json_dumps(header, JSON_COMPACT | JSON_PRESERVE_ORDER);
    if (text == NULL)
        goto out;
    n_text = strlen(text);
    padded = (n_text + 7) / 8 * 8;
    out = malloc(8 + padded);
    if (out == NULL)
        goto out;
    for (int i = 0; i < 8; i++)
        out[i] = (char)(uint8_t)((uint64_t)padded >> 8 * i);
    memset(out + 8, ' ', padded);
    memcpy(out + 8, text, n_text);
    *len = 8 + padded;
out:
    free(text);
    json_decref(header);
    json_decref(pairs);
    return out;
}

/* ---- writing ------------------------------------------------------------ */

struct sink {
    int fd;
    struct digest *digest; /* owned by safetensors_write */
    int64_t n_bytes;
    int64_t half; /* where the failpoint stands; -1: passed */
    struct err *err;
};

static int
write_chunk(struct sink *s, const uint8_t *bytes, size_t n)
{
    digest_update(s->digest, bytes, n);
    while (n > 0) {
        const ssize_t done = write(s->fd, bytes, n);

        if (done < 0 && errno == EINTR)
            continue;
        if (done < 0) {
            const bool full =
                errno == ENOSPC || errno == EDQUOT || errno == EFBIG;

            return err_set_errno(s->err, full ? ERR_NOSPACE : ERR_IO, errno,
                                 "after %" PRId64 " bytes", s->n_bytes);
        }
        bytes += done;
        n -= (size_t)done;
        s->n_bytes += done;
    }
    return 0;
}

static int
pass_half(struct sink *s)
{
    int errnum;

    s->half = -1;
    errnum = failpoint_hit("ckpt.half_data");
    if (errnum == 0)
        return 0;
    return err_set_errno(s->err, errnum == ENOSPC ? ERR_NOSPACE : ERR_IO,
                         errnum, "after %" PRId64 " bytes", s->n_bytes);
}

static int
write_all(struct sink *s, const void *bytes, size_t n)
{
    const uint8_t *at = bytes;
    int rc = 0;

    while (n > 0 && rc == 0) {
        size_t now = n < CHUNK_BYTES ? n : CHUNK_BYTES;

        if (s->half >= 0 && s->n_bytes + (int64_t)now > s->half)
            now = (size_t)(s->half - s->n_bytes);
        rc = write_chunk(s, at, now);
        if (rc == 0 && s->half >= 0 && s->n_bytes >= s->half)
            rc = pass_half(s);
        at += now;
        n -= now;
    }
    return rc;
}

int
safetensors_write(int fd, const struct safetensors_entry *entries, int n,
                  const struct safetensors_pair *metadata, int n_metadata,
                  char digest[33], int64_t *n_bytes, struct err *err)
{
    const struct safetensors_entry **sorted =
        calloc((size_t)n + 1, sizeof(*sorted));
    struct sink s = {.fd = fd, .digest = digest_create(), .err = err};
    char *header = NULL;
    size_t n_header = 0, n_data = 0;
    int rc = ERR_NOMEM;

    if (sorted == NULL || s.digest == NULL)
        goto out;
    for (int i = 0; i < n; i++) {
        assert(entries[i].desc.layout == TENSOR_ROW);
        sorted[i] = &entries[i];
        n_data += tensor_n_bytes(&entries[i].desc);
    }
    qsort(sorted, (size_t)n, sizeof(*sorted), compare_entries);
    header = print_header(sorted, n, metadata, n_metadata, &n_header);
    if (header == NULL)
        goto out;
    s.half = (int64_t)(n_header + n_data / 2);
    rc = write_all(&s, header, n_header);
    for (int i = 0; i < n && rc == 0; i++)
        rc = write_all(&s, sorted[i]->data, tensor_n_bytes(&sorted[i]->desc));
    digest_print(s.digest, digest);
    *n_bytes = s.n_bytes;
out:
    if (rc == ERR_NOMEM)
        err_set(err, ERR_NOMEM, "no memory for the header of %d tensors", n);
    free(header);
    free(sorted);
    digest_destroy(&s.digest);
    return rc;
}
