/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec_read.h"

#include <assert.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/text.h"
#include "proto/utf8.h"

#define KNOWN_MAX  96  /* words that a list of known ones can hold */
#define NUMBER_MAX 400 /* letters of a number */

/* ---- scalars ------------------------------------------------------------- */

static const char *
type_name(enum spec_node_type type)
{
    switch (type) {
    case SPEC_NODE_OBJECT: return "an object";
    case SPEC_NODE_ARRAY: return "a list";
    case SPEC_NODE_STRING: return "a string";
    case SPEC_NODE_INTEGER: return "an integer";
    case SPEC_NODE_REAL: return "a number with a fraction or exponent";
    case SPEC_NODE_TRUE: return "true";
    case SPEC_NODE_FALSE: return "false";
    case SPEC_NODE_NULL: return "null";
    }
    return "something else";
}

void
spec_read_fault_type(struct spec_reader *r, int node, const char *wanted)
{
    spec_fault_at(r, node, "must be %s, not %s", wanted,
                  type_name(r->tree.nodes[node].type));
}

static void
fault_range(struct spec_reader *r, int node, const struct spec_range *range,
            double v)
{
    const struct spec_node *at = &r->tree.nodes[node];
    const bool whole =
        range->high < 0x1p53 && range->high == floor(range->high);
    char value[48];

    spec_locate_quote(&r->tree, at->start, at->end, value, sizeof(value));
    if (v > range->high && !range->high_open && range->high > 1)
        spec_fault_at(r, node,
                      whole ? "must be at most %.0f, not %s"
                            : "must be at most %.9g, not %s",
                      range->high, value);
    else
        spec_fault_at(r, node, "must be %s, not %s", range->words, value);
}

static bool
is_in_range(const struct spec_range *range, double v)
{
    if (v < range->low || (range->low_open && v == range->low))
        return false;
    return v < range->high || (!range->high_open && v == range->high);
}

/* The node's number; false when it has none that a double could hold. */
static bool
number_value(const struct spec_reader *r, int node, double *out)
{
    const struct spec_node *at = &r->tree.nodes[node];
    size_t n = at->end - at->start;

    if (n > NUMBER_MAX)
        return false;
    return text_parse_real(r->tree.text + at->start, n, out);
}

bool
spec_read_real(struct spec_reader *r, int node, const struct spec_range *range,
               double *out)
{
    enum spec_node_type type = r->tree.nodes[node].type;
    double v;

    if (type != SPEC_NODE_INTEGER && type != SPEC_NODE_REAL) {
        spec_read_fault_type(r, node, range->words);
        return false;
    }
    if (!number_value(r, node, &v)) {
        spec_fault_at(r, node, "is too large or too long a number");
        return false;
    }
    if (!is_in_range(range, v)) {
        fault_range(r, node, range, v);
        return false;
    }
    *out = v;
    return true;
}

bool
spec_read_int(struct spec_reader *r, int node, const struct spec_range *range,
              int64_t *out)
{
    const struct spec_node *at = &r->tree.nodes[node];
    char digits[32];
    size_t n = at->end - at->start;
    long long v;

    if (at->type == SPEC_NODE_REAL) {
        fault_range(r, node, range, 0);
        return false;
    }
    if (at->type != SPEC_NODE_INTEGER) {
        spec_read_fault_type(r, node, range->words);
        return false;
    }
    errno = 0;
    if (n < sizeof(digits)) {
        memcpy(digits, r->tree.text + at->start, n);
        digits[n] = '\0';
        v = strtoll(digits, NULL, 10);
    }
    if (n >= sizeof(digits) || errno == ERANGE) {
        spec_fault_at(r, node, "is too large an integer");
        return false;
    }
    if (!is_in_range(range, (double)v)) {
        fault_range(r, node, range, (double)v);
        return false;
    }
    *out = v;
    return true;
}

bool
spec_read_bool(struct spec_reader *r, int node, bool *out)
{
    enum spec_node_type type = r->tree.nodes[node].type;

    if (type != SPEC_NODE_TRUE && type != SPEC_NODE_FALSE) {
        spec_read_fault_type(r, node, "true or false");
        return false;
    }
    *out = type == SPEC_NODE_TRUE;
    return true;
}

static bool
read_string(struct spec_reader *r, int node, const char *wanted,
            const char **out)
{
    const struct spec_node *at = &r->tree.nodes[node];

    if (at->type != SPEC_NODE_STRING) {
        spec_read_fault_type(r, node, wanted);
        return false;
    }
    *out = spec_locate_decode(&r->tree, at->start, at->end, r->pool);
    return *out != NULL;
}

bool
spec_read_name(struct spec_reader *r, int node, const char **out)
{
    const char *s = NULL;

    if (!read_string(r, node, "a string", &s))
        return false;
    if (s[0] == '\0') {
        spec_fault_at(r, node, "may not be empty");
        return false;
    }
    if (strlen(s) > SPEC_NAME_MAX) {
        spec_fault_at(r, node, "is %zu bytes long, at most %d are allowed",
                      strlen(s), SPEC_NAME_MAX);
        return false;
    }
    if (utf8_has_control(s, strlen(s))) {
        spec_fault_at(r, node, "may not hold control characters");
        return false;
    }
    *out = s;
    return true;
}

bool
spec_read_path(struct spec_reader *r, int node, const char **out)
{
    const char *s = NULL;

    if (!read_string(r, node, "a path", &s))
        return false;
    if (s[0] == '\0' || strlen(s) >= 4096) {
        spec_fault_at(r, node,
                      s[0] == '\0' ? "may not be empty" : "is too long a path");
        return false;
    }
    if (utf8_has_control(s, strlen(s))) {
        spec_fault_at(r, node, "may not hold control characters");
        return false;
    }
    *out = s;
    return true;
}

/* Finds the string token [start, end) among words; reports it otherwise, as
 * a fault of node. */
static bool
match_word(struct spec_reader *r, size_t start, size_t end, int node,
           const struct spec_words *words, int *out)
{
    const char *known[KNOWN_MAX];
    char asked[64], what[128];

    assert(words->n <= KNOWN_MAX);
    for (int i = 0; i < words->n; i++) {
        known[i] = words->list[i].name;
        if (spec_locate_equals(&r->tree, start, end, known[i])) {
            *out = words->list[i].value;
            return true;
        }
    }
    spec_locate_quote(&r->tree, start + 1, end - 1, asked, sizeof(asked));
    if (strcmp(asked, "binary_cross_entropy") == 0 &&
        words == &spec_words_loss) {
        spec_fault_add(r, start, node, NULL,
                       "binary_cross_entropy is unsafe under autocast; ask "
                       "for bce_with_logits");
        return false;
    }
    snprintf(what, sizeof(what), "%s \"%s\"", words->what, asked);
    spec_fault_unknown(r, start, node, what, asked, known, words->n);
    return false;
}

bool
spec_read_word(struct spec_reader *r, int node, const struct spec_words *words,
               int *out)
{
    const struct spec_node *at = &r->tree.nodes[node];
    char wanted[48];

    if (at->type != SPEC_NODE_STRING) {
        snprintf(wanted, sizeof(wanted), "the name of a known %s", words->what);
        spec_read_fault_type(r, node, wanted);
        return false;
    }
    return match_word(r, at->start, at->end, node, words, out);
}

/* ---- containers ---------------------------------------------------------- */

bool
spec_read_is_object(struct spec_reader *r, int node)
{
    if (r->tree.nodes[node].type == SPEC_NODE_OBJECT)
        return true;
    spec_read_fault_type(r, node, "an object");
    return false;
}

bool
spec_read_is_array(struct spec_reader *r, int node, int max)
{
    if (r->tree.nodes[node].type != SPEC_NODE_ARRAY) {
        spec_read_fault_type(r, node, "a list");
        return false;
    }
    if (r->tree.nodes[node].n > max) {
        spec_fault_at(r, node, "has %d elements, at most %d are allowed",
                      (int)r->tree.nodes[node].n, max);
        return false;
    }
    return true;
}

int
spec_read_find(const struct spec_reader *r, int node, const char *key)
{
    if (node < 0 || r->tree.nodes[node].type != SPEC_NODE_OBJECT)
        return -1;
    return spec_locate_find(&r->tree, node, key);
}

/* ---- variants ------------------------------------------------------------ */

static bool
is_word(const struct spec_reader *r, int child, const struct spec_words *words)
{
    const struct spec_node *at = &r->tree.nodes[child];

    for (int i = 0; i < words->n; i++)
        if (spec_locate_equals(&r->tree, at->key, at->key_end,
                               words->list[i].name))
            return true;
    return false;
}

/* The member's key is one of the extra ones. */
static bool
is_extra(const struct spec_reader *r, int child, const char *const *extra)
{
    const struct spec_node *at = &r->tree.nodes[child];

    for (; extra != NULL && *extra != NULL; extra++)
        if (spec_locate_equals(&r->tree, at->key, at->key_end, *extra))
            return true;
    return false;
}

/* The member of an object that says what it is: the first with a known word,
 * else the first that is no extra one; -1 and a fault when there is none. */
static int
pick_member(struct spec_reader *r, int node, const struct spec_words *words,
            const char *const *extra)
{
    const struct spec_node *nodes = r->tree.nodes;
    int other = -1;

    for (int child = nodes[node].first; child >= 0; child = nodes[child].next) {
        if (is_word(r, child, words))
            return child;
        if (other < 0 && !is_extra(r, child, extra))
            other = child;
    }
    if (other < 0)
        spec_fault_at(r, node, "names no %s", words->what);
    return other;
}

/* The first member of its object with an extra key. */
static bool
is_first(const struct spec_reader *r, int node, int child,
         const char *const *extra)
{
    const struct spec_node *at = &r->tree.nodes[child];

    for (; *extra != NULL; extra++)
        if (spec_locate_equals(&r->tree, at->key, at->key_end, *extra))
            return spec_read_find(r, node, *extra) == child;
    return false;
}

/* Faults for what stands beside the picked member. */
static void
fault_others(struct spec_reader *r, int node, const struct spec_words *words,
             const char *const *extra, int picked)
{
    const struct spec_node *nodes = r->tree.nodes;

    for (int child = nodes[node].first; child >= 0; child = nodes[child].next) {
        if (child == picked)
            continue;
        if (is_extra(r, child, extra)) {
            if (!is_first(r, node, child, extra))
                spec_fault_add(r, nodes[child].key, child, NULL,
                               "duplicate key");
        } else if (is_word(r, child, words))
            spec_fault_add(r, nodes[child].key, child, NULL,
                           "one %s too many: an object names exactly one",
                           words->what);
        else
            spec_fault_add(r, nodes[child].key, child, NULL,
                           "unknown key; settings of %s %s go inside its own "
                           "object",
                           strchr("aeiou", words->what[0]) != NULL ? "an" : "a",
                           words->what);
    }
}

bool
spec_read_variant(struct spec_reader *r, int node,
                  const struct spec_words *words, const char *const *extra,
                  int *kind, int *value)
{
    const struct spec_node *at = &r->tree.nodes[node];
    char wanted[64];

    *value = -1;
    if (at->type == SPEC_NODE_STRING)
        return match_word(r, at->start, at->end, node, words, kind);
    if (at->type != SPEC_NODE_OBJECT) {
        snprintf(wanted, sizeof(wanted), "the name of a known %s or an object",
                 words->what);
        spec_read_fault_type(r, node, wanted);
        return false;
    }
    *value = pick_member(r, node, words, extra);
    if (*value < 0)
        return false;
    fault_others(r, node, words, extra, *value);
    at = &r->tree.nodes[*value];
    return match_word(r, at->key, at->key_end, *value, words, kind);
}
