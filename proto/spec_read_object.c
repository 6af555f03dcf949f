/* SPDX-License-Identifier: Apache-2.0 */
#include <assert.h>
#include <stdio.h>
#include <string.h>

#include "proto/spec_read.h"
#include "proto/text.h"

#define KNOWN_MAX 96 /* keys that an object can have */

/* ---- values of several parts --------------------------------------------- */

static void
read_pair(struct spec_reader *r, int node, const struct spec_range *range,
          int64_t out[2])
{
    const struct spec_node *at = &r->tree.nodes[node];
    int64_t v[2];

    if (at->type != SPEC_NODE_ARRAY) {
        if (spec_read_int(r, node, range, &v[0]))
            out[0] = out[1] = v[0];
        return;
    }
    if (at->n != 2) {
        spec_fault_at(r, node, "must have two elements, [h, w], not %d",
                      (int)at->n);
        return;
    }
    for (int i = 0, child = at->first; child >= 0;
         child = r->tree.nodes[child].next, i++)
        if (spec_read_int(r, child, range, &v[i]))
            out[i] = v[i];
}

static void
read_betas(struct spec_reader *r, int node, const struct spec_range *range,
           double out[2])
{
    const struct spec_node *at = &r->tree.nodes[node];
    struct spec_range each = *range;
    int i = 0;

    each.words = "a number, 0 or more and below 1";
    if (at->type != SPEC_NODE_ARRAY || at->n != 2) {
        spec_fault_at(r, node, "must be a list of two numbers");
        return;
    }
    for (int child = at->first; child >= 0; child = r->tree.nodes[child].next)
        spec_read_real(r, child, &each, &out[i++]);
}

static bool
is_null(const struct spec_reader *r, int node)
{
    return r->tree.nodes[node].type == SPEC_NODE_NULL;
}

/* As read_pair(), for sizes that need not be whole. */
static void
read_real_pair(struct spec_reader *r, int node, const struct spec_range *range,
               double out[2])
{
    const struct spec_node *at = &r->tree.nodes[node];
    int i = 0;

    if (at->type != SPEC_NODE_ARRAY) {
        if (spec_read_real(r, node, range, &out[0]))
            out[1] = out[0];
        return;
    }
    if (at->n != 2) {
        spec_fault_at(r, node, "must have two elements, [h, w], not %d",
                      (int)at->n);
        return;
    }
    for (int child = at->first; child >= 0; child = r->tree.nodes[child].next)
        spec_read_real(r, child, range, &out[i++]);
}

/* A list of integers, or one, which stands for a list of one. */
static void
read_ints(struct spec_reader *r, int node, const struct spec_key *key,
          int64_t *out, int *count)
{
    const struct spec_node *at = &r->tree.nodes[node];
    struct spec_range each = key->range;
    bool sound = true;
    int n = 0;

    if (at->type != SPEC_NODE_ARRAY) {
        *count = spec_read_int(r, node, &each, &out[0]);
        return;
    }
    if (!spec_read_is_array(r, node, (int)(key->size / sizeof(*out))))
        return;
    if (at->n == 0) {
        spec_fault_at(r, node, "may not be an empty list");
        return;
    }
    each.words = each.low == 1    ? "an integer, 1 or more"
                 : each.low == -1 ? "an integer, 1 or more, or -1"
                                  : "an integer from -6 to 5";
    for (int child = at->first; child >= 0; child = r->tree.nodes[child].next)
        sound = spec_read_int(r, child, &each, &out[n++]) && sound;
    *count = sound ? n : 0;
}

/* ---- objects by table ---------------------------------------------------- */

static void
read_word(struct spec_reader *r, int node, const struct spec_key *key, void *at)
{
    const struct spec_words *words = spec_words_of(key->type);
    int word;

    if (!spec_read_word(r, node, words, &word))
        return;
    if (key->type == SPEC_TYPE_DEVICE)
        *(const char **)at = spec_words_name(words, word);
    else
        *(int *)at = word;
}

/* A value that may be null, and is not; beside it may lie a count or a bool. */
static void
read_optional(struct spec_reader *r, int node, const struct spec_key *key,
              void *at, void *beside)
{
    switch ((int)key->type) {
    case SPEC_TYPE_OPTIONAL_PATH: spec_read_path(r, node, at); return;
    case SPEC_TYPE_OPTIONAL_PAIR: read_pair(r, node, &key->range, at); return;
    case SPEC_TYPE_OPTIONAL_REAL:
        spec_read_real(r, node, &key->range, at);
        return;
    case SPEC_TYPE_REAL_PAIR: read_real_pair(r, node, &key->range, at); return;
    case SPEC_TYPE_INTS: read_ints(r, node, key, at, beside); return;
    case SPEC_TYPE_MAYBE_INT:
        *(bool *)beside = spec_read_int(r, node, &key->range, at);
        return;
    case SPEC_TYPE_MAYBE_REAL:
        *(bool *)beside = spec_read_real(r, node, &key->range, at);
        return;
    default: assert(false);
    }
}

static void
read_value(struct spec_reader *r, int node, const struct spec_key *key,
           void *base)
{
    void *at = (char *)base + key->offset;
    int64_t i;

    switch (key->type) {
    case SPEC_TYPE_INT: spec_read_int(r, node, &key->range, at); return;
    case SPEC_TYPE_INT32:
        if (spec_read_int(r, node, &key->range, &i))
            *(int *)at = (int)i;
        return;
    case SPEC_TYPE_SEED:
        if (spec_read_int(r, node, &key->range, &i))
            *(uint64_t *)at = (uint64_t)i;
        return;
    case SPEC_TYPE_REAL: spec_read_real(r, node, &key->range, at); return;
    case SPEC_TYPE_BOOL: spec_read_bool(r, node, at); return;
    case SPEC_TYPE_PAIR: read_pair(r, node, &key->range, at); return;
    case SPEC_TYPE_BETAS: read_betas(r, node, &key->range, at); return;
    case SPEC_TYPE_NAME: spec_read_name(r, node, at); return;
    case SPEC_TYPE_PATH: spec_read_path(r, node, at); return;
    case SPEC_TYPE_OPTIONAL_PATH:
    case SPEC_TYPE_OPTIONAL_PAIR:
    case SPEC_TYPE_OPTIONAL_REAL:
    case SPEC_TYPE_REAL_PAIR:
    case SPEC_TYPE_INTS:
    case SPEC_TYPE_MAYBE_INT:
    case SPEC_TYPE_MAYBE_REAL:
        if (key->required || !is_null(r, node))
            read_optional(r, node, key, at, (char *)base + key->beside);
        return;
    case SPEC_TYPE_DEVICE:
    case SPEC_TYPE_FORMAT:
    case SPEC_TYPE_GELU:
    case SPEC_TYPE_UPSAMPLE:
    case SPEC_TYPE_REDUCTION:
    case SPEC_TYPE_COUNT:
    case SPEC_TYPE_ACTIVATION:
    case SPEC_TYPE_DTYPE:
    case SPEC_TYPE_WGRAD: read_word(r, node, key, at); return;
    case SPEC_TYPE_CUSTOM: return;
    }
}

/* The text between the quotes of a default that is a string. */
static const char *
copy_unquoted(struct spec_reader *r, const char *quoted)
{
    return pool_copy(r->pool, quoted + 1, strlen(quoted) - 2);
}

static void
set_word(const struct spec_words *words, const char *quoted, int *out)
{
    size_t n = strlen(quoted) - 2;

    for (int i = 0; i < words->n; i++)
        if (strlen(words->list[i].name) == n &&
            strncmp(words->list[i].name, quoted + 1, n) == 0)
            *out = words->list[i].value;
}

/* Gives *at the default that the table spells. */
static void
set_default(struct spec_reader *r, const struct spec_key *key, void *at)
{
    const char *text = key->fallback;
    double v = 0;

    if (text == NULL || key->type == SPEC_TYPE_CUSTOM)
        return;
    text_parse_real(text, strlen(text), &v);
    switch (key->type) {
    case SPEC_TYPE_INT: *(int64_t *)at = (int64_t)v; return;
    case SPEC_TYPE_INT32: *(int *)at = (int)v; return;
    case SPEC_TYPE_SEED: *(uint64_t *)at = (uint64_t)v; return;
    case SPEC_TYPE_REAL: *(double *)at = v; return;
    case SPEC_TYPE_BOOL: *(bool *)at = text[0] == 't'; return;
    case SPEC_TYPE_PAIR:
        ((int64_t *)at)[0] = ((int64_t *)at)[1] = (int64_t)v;
        return;
    case SPEC_TYPE_BETAS:
        text_parse_real(text + 1, strcspn(text + 1, ","), at);
        text = strchr(text, ' ') + 1;
        text_parse_real(text, strcspn(text, "]"), (double *)at + 1);
        return;
    case SPEC_TYPE_NAME:
    case SPEC_TYPE_DEVICE: *(const char **)at = copy_unquoted(r, text); return;
    case SPEC_TYPE_OPTIONAL_PATH: *(const char **)at = NULL; return;
    case SPEC_TYPE_OPTIONAL_PAIR:
    case SPEC_TYPE_REAL_PAIR:
    case SPEC_TYPE_OPTIONAL_REAL:
    case SPEC_TYPE_INTS:
    case SPEC_TYPE_MAYBE_INT:
    case SPEC_TYPE_MAYBE_REAL: memset(at, 0, key->size); return;
    case SPEC_TYPE_FORMAT:
    case SPEC_TYPE_GELU:
    case SPEC_TYPE_UPSAMPLE:
    case SPEC_TYPE_REDUCTION:
    case SPEC_TYPE_COUNT:
    case SPEC_TYPE_ACTIVATION:
    case SPEC_TYPE_DTYPE:
    case SPEC_TYPE_WGRAD: set_word(spec_words_of(key->type), text, at); return;
    case SPEC_TYPE_PATH:
    case SPEC_TYPE_CUSTOM: return;
    }
}

/* Reports a member whose key is not in known[]. */
static void
fault_key(struct spec_reader *r, int child, const char *const *known, int n)
{
    const struct spec_node *at = &r->tree.nodes[child];
    char asked[64];

    if (spec_fault_is_late(r, at->key))
        return;
    spec_locate_quote(&r->tree, at->key + 1, at->key_end - 1, asked,
                      sizeof(asked));
    spec_fault_unknown(r, at->key, child, "key", asked, known, n);
}

/* Sorts out the members of an object: node[i] becomes the one called
 * known[i], or -1. Unknown and repeated keys are faults. */
static void
match_keys(struct spec_reader *r, int node, const char *const *known, int n,
           int *found)
{
    for (int i = 0; i < n; i++)
        found[i] = -1;
    for (int child = r->tree.nodes[node].first; child >= 0;
         child = r->tree.nodes[child].next) {
        const struct spec_node *at = &r->tree.nodes[child];
        int i = 0;

        while (i < n &&
               !spec_locate_equals(&r->tree, at->key, at->key_end, known[i]))
            i++;
        if (i == n)
            fault_key(r, child, known, n);
        else if (found[i] >= 0)
            spec_fault_add(r, at->key, child, NULL, "duplicate key");
        else
            found[i] = child;
    }
}

void
spec_read_object(struct spec_reader *r, int node, enum spec_object object,
                 void *base)
{
    const struct spec_key *keys[KNOWN_MAX];
    const char *known[KNOWN_MAX];
    int found[KNOWN_MAX];
    int n = 0;

    for (int i = 0; i < spec_keys_n; i++) {
        if (spec_keys_table[i].object != object)
            continue;
        assert(n < KNOWN_MAX);
        keys[n] = &spec_keys_table[i];
        found[n] = -1;
        known[n++] = spec_keys_table[i].name;
    }
    if (node >= 0 && r->tree.nodes[node].type == SPEC_NODE_OBJECT)
        match_keys(r, node, known, n, found);
    for (int i = 0; i < n; i++) {
        set_default(r, keys[i], (char *)base + keys[i]->offset);
        if (found[i] >= 0)
            read_value(r, found[i], keys[i], base);
        else if (keys[i]->required && node >= 0)
            spec_fault_add(r, r->tree.nodes[node].start, node, keys[i]->name,
                           "missing; must be %s", keys[i]->range.words);
    }
}
