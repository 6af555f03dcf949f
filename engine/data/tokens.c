/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/tokens.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "engine/data/file.h"
#include "engine/data/mask.h"

#define HEADER_BYTES 1024 /* 256 i32 */
#define MAGIC_U16    20240520u
#define MAGIC_U32    20240801u

static uint32_t
read_u32(const uint8_t *p)
{
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 |
           (uint32_t)p[3] << 24;
}

static bool
is_little_endian(void)
{
    const uint16_t one = 1;

    return *(const uint8_t *)&one == 1;
}

/* ---- what the file is ---------------------------------------------------- */

struct layout {
    enum dtype dtype;
    bool has_header;
    size_t at;     /* bytes before the ids */
    int64_t count; /* of ids */
};

static enum dtype
magic_dtype(uint32_t magic)
{
    switch (magic) {
    case MAGIC_U16: return DTYPE_U16;
    case MAGIC_U32: return DTYPE_U32;
    default: return DTYPE_NONE;
    }
}

static int
check_header(const struct file *f, const struct spec_source *source,
             struct layout *l, struct err *err)
{
    const char *name = source->input;
    const size_t size = dtype_size_bytes(l->dtype);
    uint32_t version, count;

    if (source->token_dtype != DTYPE_NONE && source->token_dtype != l->dtype)
        return err_set(err, ERR_DATA,
                       "%s: its header says %s, token_dtype says %s", name,
                       dtype_name(l->dtype), dtype_name(source->token_dtype));
    if (f->len < HEADER_BYTES)
        return err_set(err, ERR_DATA, "%s: %zu bytes, its header alone has %d",
                       name, f->len, HEADER_BYTES);
    version = read_u32(f->bytes + 4);
    if (version != 1 && !(version == 7 && l->dtype == DTYPE_U32))
        return err_set(err, ERR_DATA,
                       "%s: header version %" PRIu32 ", expected 1%s", name,
                       version, l->dtype == DTYPE_U32 ? " or 7" : "");
    count = read_u32(f->bytes + 8);
    if (count * (uint64_t)size != f->len - HEADER_BYTES)
        return err_set(err, ERR_DATA,
                       "%s: header says %" PRIu32 " ids in %" PRIu64
                       " bytes, %zu bytes follow it",
                       name, count, count * (uint64_t)size,
                       f->len - HEADER_BYTES);
    l->has_header = true;
    l->at = HEADER_BYTES;
    l->count = count;
    return 0;
}

/* A header decides; without one, token_dtype does. */
static int
find_layout(const struct file *f, const struct spec_source *source,
            struct layout *l, struct err *err)
{
    const char *name = source->input;
    const uint32_t magic = f->len >= 4 ? read_u32(f->bytes) : 0;
    size_t size;

    *l = (struct layout){.dtype = magic_dtype(magic)};
    if (source->format == SPEC_FORMAT_TEXT) {
        l->dtype = DTYPE_U8;
        l->count = (int64_t)f->len;
        return 0;
    }
    if (l->dtype != DTYPE_NONE)
        return check_header(f, source, l, err);
    if (magic_dtype(__builtin_bswap32(magic)) != DTYPE_NONE)
        return err_set(err, ERR_DATA,
                       "%s: its header is big-endian, llm.c's files are "
                       "little-endian",
                       name);
    l->dtype = source->token_dtype;
    if (l->dtype != DTYPE_U16 && l->dtype != DTYPE_U32)
        return err_set(err, ERR_DATA,
                       "%s: no llm.c header says how wide the ids are; set "
                       "token_dtype to \"uint16\" or \"uint32\"",
                       name);
    size = dtype_size_bytes(l->dtype);
    if (f->len % size != 0)
        return err_set(err, ERR_DATA,
                       "%s: %zu bytes are no whole number of %s ids", name,
                       f->len, dtype_name(l->dtype));
    l->count = (int64_t)(f->len / size);
    return 0;
}

/* Ids below 65536 in 32 bits, little-endian: every second half is 0, and some
 * of the others are not. No tokenizer gives such text in 16 bits. */
static bool
looks_like_u32(const struct array *a)
{
    const uint16_t *v = a->data;
    bool any = false;

    if (a->n_elems < 4 || a->n_elems % 2 != 0)
        return false;
    for (int64_t i = 0; i < a->n_elems; i += 2) {
        if (v[i + 1] != 0)
            return false;
        any |= v[i] != 0;
    }
    return any;
}

/* Ids are i32 to the engine. */
static int
check_u32(const struct array *a, const char *name, struct err *err)
{
    const uint32_t *v = a->data;

    for (int64_t i = 0; i < a->n_elems; i++)
        if (v[i] > INT32_MAX)
            return err_set(err, ERR_DATA,
                           "%s: position %" PRId64 ": id %" PRIu32
                           " is no token; is token_dtype right?",
                           name, i, v[i]);
    return 0;
}

static int
check_width(const struct tokens *t, struct err *err)
{
    if (t->ids.desc.dtype == DTYPE_U32)
        return check_u32(&t->ids, t->name, err);
    if (t->ids.desc.dtype == DTYPE_U16 && !t->has_header &&
        looks_like_u32(&t->ids))
        return err_set(err, ERR_DATA,
                       "%s: looks like uint32: every second uint16 is 0; set "
                       "token_dtype to \"uint32\"",
                       t->name);
    return 0;
}

/* ---- opening ------------------------------------------------------------- */

/* Shares are rounded down, so that parts which share a bound neither overlap
 * nor leave out an id. */
static int
cut(struct tokens *t, const double part[2], struct err *err)
{
    const bool whole = part[0] == 0 && part[1] == 0;
    const double n = (double)t->ids.n_elems;
    int64_t end;

    if (t->ids.n_elems == 0)
        return err_set(err, ERR_DATA, "%s: no tokens", t->name);
    if (!whole && !(part[0] >= 0 && part[0] < part[1] && part[1] <= 1))
        return err_set(err, ERR_SPEC,
                       "%s: part %g..%g, must ascend within 0..1", t->name,
                       part[0], part[1]);
    t->first = whole ? 0 : (int64_t)floor(part[0] * n);
    end = whole || part[1] == 1 ? t->ids.n_elems : (int64_t)floor(part[1] * n);
    t->n = end - t->first;
    return 0;
}

/* file is consumed. */
static int
take_file(struct file *file, const struct spec_source *source,
          struct tokens *out, struct err *err)
{
    struct layout l;
    int rc = find_layout(file, source, &l, err);

    memset(out, 0, sizeof(*out));
    if (rc < 0) {
        file_fini(file);
        return rc;
    }
    const struct tensor_desc desc = tensor_make(l.dtype, 1, &l.count);

    out->has_header = l.has_header;
    out->is_text = source->format == SPEC_FORMAT_TEXT;
    array_init_take(&out->ids, &desc, file->bytes, l.at, !is_little_endian());
    out->name = strdup(source->input);
    if (out->name == NULL)
        rc = err_set(err, ERR_NOMEM, "%s: no memory", source->input);
    if (rc == 0)
        rc = check_width(out, err);
    if (rc == 0)
        rc = cut(out, source->part, err);
    if (rc < 0)
        tokens_fini(out);
    return rc;
}

static int
size_of_text(const uint8_t *head, size_t n_head, size_t total, const char *name,
             size_t *n_bytes, struct err *err)
{
    (void)head;
    (void)n_head;
    (void)total;
    (void)name;
    (void)err;
    *n_bytes = FILE_ALL;
    return 0;
}

static file_sizer_fn *
sizer_of(const struct spec_source *source)
{
    return source->format == SPEC_FORMAT_TEXT ? size_of_text : NULL;
}

int
tokens_parse(const void *bytes, size_t len, const struct spec_source *source,
             struct tokens *out, struct err *err)
{
    struct file file;
    int rc = file_load_bytes(bytes, len, source->input, sizer_of(source), &file,
                             err);

    memset(out, 0, sizeof(*out));
    return rc < 0 ? rc : take_file(&file, source, out, err);
}

int
tokens_open(const struct spec_source *source, struct tokens *out,
            struct err *err)
{
    struct file file;
    int rc = file_load(source->input, sizer_of(source), &file, err);

    memset(out, 0, sizeof(*out));
    if (rc == 0)
        rc = take_file(&file, source, out, err);
    if (rc < 0 || source->mask == NULL)
        return rc;
    rc = mask_open(source->mask, &out->ids.desc, out->name, &out->mask, err);
    if (rc < 0) {
        tokens_fini(out);
        return rc;
    }
    out->has_ignore_index = true;
    out->ignore_index = MASK_IGNORE_INDEX;
    return 0;
}

void
tokens_fini(struct tokens *tokens)
{
    array_fini(&tokens->ids);
    array_fini(&tokens->mask);
    free(tokens->name);
    memset(tokens, 0, sizeof(*tokens));
}

/* ---- windows ------------------------------------------------------------- */

static int32_t
id_at(const struct tokens *t, int64_t at)
{
    const void *data = t->ids.data;

    if (t->ids.desc.dtype == DTYPE_U8)
        return ((const uint8_t *)data)[t->first + at];
    if (t->ids.desc.dtype == DTYPE_U16)
        return ((const uint16_t *)data)[t->first + at];
    return (int32_t)((const uint32_t *)data)[t->first + at];
}

void
tokens_copy(const struct tokens *t, int64_t at, int64_t n, int32_t *out)
{
    assert(at >= 0 && n >= 0 && at + n <= t->n);
    for (int64_t i = 0; i < n; i++)
        out[i] = id_at(t, at + i);
}

/* The id as a target, or ignore_index. */
static int32_t
target_at(const struct tokens *t, int64_t at)
{
    if (t->mask.n_elems > 0 && !mask_get(&t->mask, t->first + at))
        return (int32_t)t->ignore_index;
    return id_at(t, at);
}

static bool
is_ignored(const struct tokens *t, int32_t target)
{
    return t->has_ignore_index && target == t->ignore_index;
}

int64_t
tokens_window(const struct tokens *t, int64_t start, int64_t n, int32_t *input,
              int32_t *target)
{
    int64_t n_count = n;

    assert(start >= 0 && n >= 0 && start + n < t->n);
    if (input != NULL)
        tokens_copy(t, start, n, input);
    if (target == NULL && !t->has_ignore_index)
        return n;
    for (int64_t i = 0; i < n; i++) {
        const int32_t v = target_at(t, start + 1 + i);

        n_count -= is_ignored(t, v) ? 1 : 0;
        if (target != NULL)
            target[i] = v;
    }
    return n_count;
}

/* Pairs of small ids, read as one. */
static bool
looks_like_u16(const struct tokens *t, int64_t vocabulary)
{
    const uint32_t *v = t->ids.data;

    if (t->ids.desc.dtype != DTYPE_U32 || t->has_header)
        return false;
    for (int64_t i = 0; i < t->ids.n_elems; i++)
        if (v[i] >> 16 >= vocabulary || (v[i] & 0xffffu) >= vocabulary)
            return false;
    return true;
}

int
tokens_check(const struct tokens *t, int64_t vocabulary, bool as_targets,
             struct err *err)
{
    if (t->ids.desc.dtype == DTYPE_U16 && vocabulary > 65536)
        return err_set(err, ERR_DATA,
                       "%s: uint16 ids, but the vocabulary is %" PRId64
                       "; at most 65536 fit",
                       t->name, vocabulary);
    for (int64_t i = 0; i < t->n; i++) {
        const int32_t id = as_targets ? target_at(t, i) : id_at(t, i);

        if (id < vocabulary || (as_targets && is_ignored(t, id)))
            continue;
        return err_set(
            err, ERR_DATA,
            "%s: position %" PRId64 ": id %" PRId32 " >= vocabulary %" PRId64
            "%s",
            t->name, t->first + i, id, vocabulary,
            looks_like_u16(t, vocabulary)
                ? "; looks like uint16: set token_dtype to \"uint16\""
                : "");
    }
    return 0;
}
