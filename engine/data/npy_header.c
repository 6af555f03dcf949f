/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/npy_header.h"

#include <ctype.h>
#include <string.h>

#include "engine/data/array.h"
#include "engine/data/npy.h"

/* The text between the length and the data, read left to right. */
struct scanner {
    const char *at, *end;
    const char *name;
    struct err *err;
    bool seen[3]; /* descr, fortran_order, shape */
    int rank;
    int64_t dim[TENSOR_MAX_RANK];
};

static int
refuse(const struct scanner *s, const char *why)
{
    return err_set(s->err, ERR_DATA, "%s: header: %s", s->name, why);
}

static void
skip_space(struct scanner *s)
{
    while (s->at < s->end && isspace((unsigned char)*s->at))
        s->at++;
}

/* Takes c after spaces, or leaves everything behind the spaces. */
static bool
take(struct scanner *s, char c)
{
    skip_space(s);
    if (s->at >= s->end || *s->at != c)
        return false;
    s->at++;
    return true;
}

/* 'text' or "text", pointing into the header. */
static bool
take_string(struct scanner *s, const char **text, size_t *n)
{
    char quote;
    const char *close;

    skip_space(s);
    if (s->at >= s->end || (*s->at != '\'' && *s->at != '"'))
        return false;
    quote = *s->at;
    close = memchr(s->at + 1, quote, (size_t)(s->end - s->at - 1));
    if (close == NULL)
        return false;
    *text = s->at + 1;
    *n = (size_t)(close - *text);
    s->at = close + 1;
    return true;
}

static bool
take_word(struct scanner *s, const char *word)
{
    const size_t n = strlen(word);

    skip_space(s);
    if ((size_t)(s->end - s->at) < n || memcmp(s->at, word, n) != 0)
        return false;
    s->at += n;
    return true;
}

/* A decimal integer >= 0, with Python 2's "L" or without. */
static int
take_dim(struct scanner *s, int64_t *out)
{
    int64_t v = 0;

    skip_space(s);
    if (s->at >= s->end || !isdigit((unsigned char)*s->at))
        return refuse(s, "shape is not a tuple of sizes");
    for (; s->at < s->end && isdigit((unsigned char)*s->at); s->at++)
        if (__builtin_mul_overflow(v, (int64_t)10, &v) ||
            __builtin_add_overflow(v, (int64_t)(*s->at - '0'), &v))
            return refuse(s, "shape too large");
    if (s->at < s->end && *s->at == 'L')
        s->at++;
    *out = v;
    return 0;
}

static int
take_shape(struct scanner *s)
{
    bool comma = true;

    if (!take(s, '('))
        return refuse(s, "shape is not a tuple of sizes");
    while (!take(s, ')')) {
        int64_t d = 0;
        int rc;

        if (!comma)
            return refuse(s, "shape is not a tuple of sizes");
        rc = take_dim(s, &d);
        if (rc < 0)
            return rc;
        if (s->rank == TENSOR_MAX_RANK)
            return refuse(s, "more than 6 dimensions");
        s->dim[s->rank++] = d;
        comma = take(s, ',');
    }
    if (s->rank == 1 && !comma)
        return refuse(s, "shape is not a tuple of sizes");
    return 0;
}

static const struct {
    char descr[3];
    enum dtype dtype;
} types[] = {
    {"f2", DTYPE_F16}, {"f4", DTYPE_F32}, {"f8", DTYPE_F64}, {"i1", DTYPE_I8},
    {"i2", DTYPE_I16}, {"i4", DTYPE_I32}, {"i8", DTYPE_I64}, {"u1", DTYPE_U8},
    {"u2", DTYPE_U16}, {"u4", DTYPE_U32}, {"u8", DTYPE_I64}, {"b1", DTYPE_BOOL},
};

static int
refuse_descr(const struct scanner *s, const char *text, int n)
{
    if (memchr(text, 'O', (size_t)n) != NULL)
        return err_set(s->err, ERR_DATA,
                       "%s: object arrays (pickles) are not read", s->name);
    return err_set(s->err, ERR_DATA,
                   "%s: dtype '%.*s' is not supported; allowed are f2 f4 f8 "
                   "i1..i8 u1..u8 b1",
                   s->name, n < 32 ? n : 32, text);
}

static int
take_descr(struct scanner *s, struct npy_header *out)
{
    const uint16_t one = 1;
    const bool little = *(const uint8_t *)&one == 1;
    const char *text;
    size_t n;

    skip_space(s);
    if (s->at < s->end && *s->at == '[')
        return err_set(s->err, ERR_DATA, "%s: structured arrays are not read",
                       s->name);
    if (!take_string(s, &text, &n) || n == 0)
        return refuse(s, "descr is not a string");
    if (n != 3 || strchr("<>=|", text[0]) == NULL)
        return refuse_descr(s, text, (int)(n < 32 ? n : 32));
    for (size_t i = 0; i < sizeof(types) / sizeof(types[0]); i++)
        if (memcmp(types[i].descr, text + 1, 2) == 0) {
            out->desc.dtype = types[i].dtype;
            out->is_u64 = memcmp(text + 1, "u8", 2) == 0;
            out->big_endian = text[0] == '>' || (text[0] == '=' && !little);
            if (text[0] == '|' && dtype_size_bytes(types[i].dtype) > 1)
                break;
            return 0;
        }
    return refuse_descr(s, text, 3);
}

static int
take_value(struct scanner *s, const char *key, size_t n, struct npy_header *out)
{
    static const char *const keys[3] = {"descr", "fortran_order", "shape"};
    int which = 0;

    while (which < 3 &&
           (strlen(keys[which]) != n || memcmp(keys[which], key, n) != 0))
        which++;
    if (which == 3)
        return refuse(s, "unknown key");
    if (s->seen[which])
        return refuse(s, "a key stands twice");
    s->seen[which] = true;
    if (which == 0)
        return take_descr(s, out);
    if (which == 2)
        return take_shape(s);
    out->fortran_order = take_word(s, "True");
    if (!out->fortran_order && !take_word(s, "False"))
        return refuse(s, "fortran_order is neither True nor False");
    return 0;
}

static int
take_dict(struct scanner *s, struct npy_header *out)
{
    bool comma = true;

    if (!take(s, '{'))
        return refuse(s, "not a dict");
    while (!take(s, '}')) {
        const char *key;
        size_t n;
        int rc;

        if (!comma || !take_string(s, &key, &n) || !take(s, ':'))
            return refuse(s, "not a dict of strings");
        rc = take_value(s, key, n, out);
        if (rc < 0)
            return rc;
        comma = take(s, ',');
    }
    skip_space(s);
    if (s->at != s->end)
        return refuse(s, "something follows the dict");
    if (!s->seen[0] || !s->seen[1] || !s->seen[2])
        return refuse(s, "descr, fortran_order or shape is missing");
    return 0;
}

/* Where the dict starts and how long it is. */
static int
find_text(const struct npy_source *from, size_t *at, size_t *len,
          struct err *err)
{
    const uint8_t *head = from->head;

    if (from->n < 10 || memcmp(head, "\x93NUMPY", 6) != 0)
        return err_set(err, ERR_DATA, "%s: not an .npy file", from->name);
    if (head[6] < 1 || head[6] > 3 || head[7] != 0)
        return err_set(err, ERR_DATA, "%s: .npy version %d.%d, known are 1..3",
                       from->name, head[6], head[7]);
    *at = head[6] == 1 ? 10 : 12;
    if (from->n < *at)
        return err_set(err, ERR_DATA, "%s: %zu bytes, too short for .npy",
                       from->name, from->n);
    *len = head[8] | (size_t)head[9] << 8;
    if (head[6] > 1)
        *len |= (size_t)head[10] << 16 | (size_t)head[11] << 24;
    /* Beyond the file first: that is what a cut file looks like. */
    if (from->total != SIZE_MAX && *len > from->total - *at)
        return err_set(err, ERR_DATA,
                       "%s: header length %zu beyond end of file", from->name,
                       *len);
    if (*len > NPY_MAX_HEADER_BYTES)
        return err_set(err, ERR_DATA, "%s: header length %zu, at most %d",
                       from->name, *len, NPY_MAX_HEADER_BYTES);
    if (*len > from->n - *at)
        return err_set(err, ERR_DATA,
                       "%s: header length %zu beyond end of file", from->name,
                       *len);
    return 0;
}

int
npy_header_parse(const struct npy_source *from, struct npy_header *out,
                 struct err *err)
{
    struct scanner s = {.name = from->name, .err = err};
    size_t at = 0, len = 0;
    int64_t n_elems;
    int rc = find_text(from, &at, &len, err);

    if (rc < 0)
        return rc;
    memset(out, 0, sizeof(*out));
    s.at = (const char *)from->head + at;
    s.end = s.at + len;
    rc = take_dict(&s, out);
    if (rc < 0)
        return rc;
    if (!array_count(s.rank, s.dim, dtype_size_bytes(out->desc.dtype), &n_elems,
                     &out->n_data_bytes) ||
        out->n_data_bytes > INT64_MAX - 2 * NPY_MAX_HEADER_BYTES)
        return err_set(err, ERR_DATA, "%s: shape too large", from->name);
    out->desc = tensor_make(out->desc.dtype, s.rank, s.dim);
    out->data_at = at + len;
    return 0;
}
