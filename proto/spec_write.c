/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec_write.h"

#include "proto/spec_words.h"

struct spec_writer
spec_write_begin(struct text *t, int depth)
{
    text_putc(t, '{');
    return (struct spec_writer){t, depth, 0};
}

void
spec_write_member(struct spec_writer *o, const char *key)
{
    if (o->n++ > 0)
        text_puts(o->t, o->depth < 0 ? ", " : ",");
    if (o->depth >= 0) {
        text_putc(o->t, '\n');
        text_fill(o->t, ' ', 2 * (o->depth + 1));
    }
    text_json_string(o->t, key);
    text_puts(o->t, ": ");
}

void
spec_write_end(struct spec_writer *o)
{
    if (o->depth >= 0 && o->n > 0) {
        text_putc(o->t, '\n');
        text_fill(o->t, ' ', 2 * o->depth);
    }
    text_putc(o->t, '}');
}

static void
put_bool(struct text *t, bool v)
{
    text_puts(t, v ? "true" : "false");
}

void
spec_write_reals(struct text *t, const double *v, int n)
{
    text_putc(t, '[');
    for (int i = 0; i < n; i++) {
        text_puts(t, i > 0 ? ", " : "");
        text_json_real(t, v[i]);
    }
    text_putc(t, ']');
}

void
spec_write_ints(struct text *t, const int64_t *v, int n)
{
    text_putc(t, '[');
    for (int i = 0; i < n; i++) {
        text_puts(t, i > 0 ? ", " : "");
        text_json_int(t, v[i]);
    }
    text_putc(t, ']');
}

void
spec_write_strings(struct text *t, const char *const *v, int n)
{
    text_putc(t, '[');
    for (int i = 0; i < n; i++) {
        text_puts(t, i > 0 ? ", " : "");
        text_json_string(t, v[i]);
    }
    text_putc(t, ']');
}

/* Real sizes, [h, w] or null. */
static void
put_real_pair(struct text *t, const double *v)
{
    if (v[0] > 0)
        spec_write_reals(t, v, 2);
    else
        text_puts(t, "null");
}

/* Values that may be null; beside is what tells, where a type has that. */
static void
put_optional(struct text *t, const struct spec_key *key, const void *at,
             const void *beside)
{
    bool null = false;

    switch ((int)key->type) {
    case SPEC_TYPE_OPTIONAL_REAL: null = *(const double *)at == 0; break;
    case SPEC_TYPE_OPTIONAL_PAIR: null = *(const int64_t *)at == 0; break;
    case SPEC_TYPE_INTS: null = *(const int *)beside == 0; break;
    case SPEC_TYPE_MAYBE_INT:
    case SPEC_TYPE_MAYBE_REAL: null = !*(const bool *)beside; break;
    default: break;
    }
    if (null)
        text_puts(t, "null");
    else if (key->type == SPEC_TYPE_OPTIONAL_PAIR)
        spec_write_ints(t, at, 2);
    else if (key->type == SPEC_TYPE_INTS)
        spec_write_ints(t, at, *(const int *)beside);
    else if (key->type == SPEC_TYPE_MAYBE_INT)
        text_json_int(t, *(const int64_t *)at);
    else
        text_json_real(t, *(const double *)at);
}

static void
put_value(struct text *t, const struct spec_key *key, const void *base)
{
    const void *at = (const char *)base + key->offset;
    const char *s;

    switch (key->type) {
    case SPEC_TYPE_INT: text_json_int(t, *(const int64_t *)at); return;
    case SPEC_TYPE_INT32: text_json_int(t, *(const int *)at); return;
    case SPEC_TYPE_SEED:
        text_json_int(t, (int64_t) * (const uint64_t *)at);
        return;
    case SPEC_TYPE_REAL: text_json_real(t, *(const double *)at); return;
    case SPEC_TYPE_BOOL: put_bool(t, *(const bool *)at); return;
    case SPEC_TYPE_PAIR: spec_write_ints(t, at, 2); return;
    case SPEC_TYPE_BETAS: spec_write_reals(t, at, 2); return;
    case SPEC_TYPE_REAL_PAIR: put_real_pair(t, at); return;
    case SPEC_TYPE_OPTIONAL_PAIR:
    case SPEC_TYPE_OPTIONAL_REAL:
    case SPEC_TYPE_INTS:
    case SPEC_TYPE_MAYBE_INT:
    case SPEC_TYPE_MAYBE_REAL:
        put_optional(t, key, at, (const char *)base + key->beside);
        return;
    case SPEC_TYPE_NAME:
    case SPEC_TYPE_PATH:
    case SPEC_TYPE_OPTIONAL_PATH:
    case SPEC_TYPE_DEVICE:
        s = *(const char *const *)at;
        if (s != NULL)
            text_json_string(t, s);
        else
            text_puts(t, "null");
        return;
    case SPEC_TYPE_FORMAT:
    case SPEC_TYPE_GELU:
    case SPEC_TYPE_UPSAMPLE:
    case SPEC_TYPE_REDUCTION:
    case SPEC_TYPE_COUNT:
    case SPEC_TYPE_ACTIVATION:
    case SPEC_TYPE_DTYPE:
    case SPEC_TYPE_WGRAD:
        text_json_string(
            t, spec_words_name(spec_words_of(key->type), *(const int *)at));
        return;
    case SPEC_TYPE_CUSTOM: return;
    }
}

void
spec_write_keys(struct spec_writer *o, enum spec_object object,
                const void *base)
{
    for (int i = 0; i < spec_keys_n; i++) {
        const struct spec_key *key = &spec_keys_table[i];

        if (key->object != object || key->type == SPEC_TYPE_CUSTOM)
            continue;
        spec_write_member(o, key->name);
        put_value(o->t, key, base);
    }
}
