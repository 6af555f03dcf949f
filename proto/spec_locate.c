/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec_locate.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/err.h"
#include "proto/spec.h"
#include "proto/utf8.h"

struct scan {
    struct spec_tree *tree;
    size_t at;
    int open;  /* innermost container that is open, -1 = none */
    int depth; /* containers open */
    int last[SPEC_MAX_DEPTH + 1]; /* newest child at each depth, -1 = none */
    uint32_t key, key_end;
    int rc;
};

static int
peek(const struct scan *s)
{
    return s->at < s->tree->len ? (unsigned char)s->tree->text[s->at] : -1;
}

static void
skip_space(struct scan *s)
{
    int c = peek(s);

    while (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
        s->at++;
        c = peek(s);
    }
}

static bool
refuse(struct scan *s)
{
    s->tree->fault_at = s->at;
    s->rc = ERR_SPEC;
    return false;
}

/* ---- tokens -------------------------------------------------------------- */

static int
hex_value(int c)
{
    if (c >= '0' && c <= '9')
        return c - '0';
    if (c >= 'a' && c <= 'f')
        return c - 'a' + 10;
    if (c >= 'A' && c <= 'F')
        return c - 'A' + 10;
    return -1;
}

/* The four digits after "\u" at p, or -1. */
static int32_t
hex4(const char *p, size_t n)
{
    int32_t v = 0;

    if (n < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        int d = hex_value((unsigned char)p[i]);

        if (d < 0)
            return -1;
        v = v << 4 | d;
    }
    return v;
}

/* Decodes one character or escape of a string at p; returns the bytes it
 * takes there, 0 when it is not well formed. */
static size_t
decode_char(const char *p, size_t n, char out[4], size_t *n_out)
{
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    const char *plain;
    int32_t high, low;

    if (n >= 1 && *p != '\\') {
        size_t k = (unsigned char)*p < 0x20 ? 0 : utf8_length(p, n);

        memcpy(out, p, k);
        *n_out = k;
        return k;
    }
    if (n < 2)
        return 0;
    if (p[1] != 'u') {
        plain = p[1] == '\0' ? NULL : strchr(from, p[1]);
        if (plain == NULL)
            return 0;
        out[0] = to[plain - from];
        *n_out = 1;
        return 2;
    }
    high = hex4(p + 2, n - 2);
    if (high <= 0 || (high >= 0xdc00 && high <= 0xdfff))
        return 0;
    if (high < 0xd800 || high > 0xdbff) {
        *n_out = utf8_encode((uint32_t)high, out);
        return 6;
    }
    if (n < 12 || p[6] != '\\' || p[7] != 'u')
        return 0;
    low = hex4(p + 8, n - 8);
    if (low < 0xdc00 || low > 0xdfff)
        return 0;
    *n_out = utf8_encode(
        (uint32_t)(0x10000 + ((high - 0xd800) << 10) + (low - 0xdc00)), out);
    return 12;
}

static bool
scan_string(struct scan *s)
{
    const struct spec_tree *t = s->tree;
    char c[4];
    size_t n_out;

    if (peek(s) != '"')
        return refuse(s);
    s->at++;
    while (peek(s) != '"') {
        size_t k = s->at < t->len
                       ? decode_char(t->text + s->at, t->len - s->at, c, &n_out)
                       : 0;

        if (k == 0)
            return refuse(s);
        s->at += k;
    }
    s->at++;
    return true;
}

static bool
scan_digits(struct scan *s)
{
    if (peek(s) < '0' || peek(s) > '9')
        return refuse(s);
    while (peek(s) >= '0' && peek(s) <= '9')
        s->at++;
    return true;
}

static bool
scan_number(struct scan *s, enum spec_node_type *type)
{
    *type = SPEC_NODE_INTEGER;
    if (peek(s) == '-')
        s->at++;
    if (peek(s) == '0') {
        s->at++;
        if (peek(s) >= '0' && peek(s) <= '9')
            return refuse(s);
    } else if (!scan_digits(s)) {
        return false;
    }
    if (peek(s) == '.') {
        *type = SPEC_NODE_REAL;
        s->at++;
        if (!scan_digits(s))
            return false;
    }
    if (peek(s) == 'e' || peek(s) == 'E') {
        *type = SPEC_NODE_REAL;
        s->at++;
        if (peek(s) == '+' || peek(s) == '-')
            s->at++;
        if (!scan_digits(s))
            return false;
    }
    return true;
}

static bool
scan_word(struct scan *s, const char *word)
{
    size_t n = strlen(word);

    if (s->tree->len - s->at < n || memcmp(s->tree->text + s->at, word, n) != 0)
        return refuse(s);
    s->at += n;
    return true;
}

/* ---- the tree ------------------------------------------------------------ */

static int
add_node(struct scan *s, enum spec_node_type type)
{
    struct spec_tree *t = s->tree;
    struct spec_node *nodes;
    int i = t->n;

    if (t->n == t->cap) {
        int cap = t->cap > 0 ? t->cap * 2 : 256;

        nodes = realloc(t->nodes, (size_t)cap * sizeof(*nodes));
        if (nodes == NULL) {
            s->rc = ERR_NOMEM;
            return -1;
        }
        t->nodes = nodes;
        t->cap = cap;
    }
    t->n++;
    t->nodes[i] = (struct spec_node){.type = type,
                                     .start = (uint32_t)s->at,
                                     .key = s->key,
                                     .key_end = s->key_end,
                                     .parent = s->open,
                                     .first = -1,
                                     .next = -1};
    s->key = s->key_end = 0;
    if (s->open >= 0) {
        t->nodes[s->open].n++;
        if (s->last[s->depth] < 0)
            t->nodes[s->open].first = i;
        else
            t->nodes[s->last[s->depth]].next = i;
    }
    s->last[s->depth] = i;
    return i;
}

static bool
scan_scalar(struct scan *s)
{
    enum spec_node_type type = SPEC_NODE_NULL;
    int c = peek(s);
    int node = add_node(s, type);
    bool ok;

    if (node < 0)
        return false;
    switch (c) {
    case '"':
        type = SPEC_NODE_STRING;
        ok = scan_string(s);
        break;
    case 't':
        type = SPEC_NODE_TRUE;
        ok = scan_word(s, "true");
        break;
    case 'f':
        type = SPEC_NODE_FALSE;
        ok = scan_word(s, "false");
        break;
    case 'n': ok = scan_word(s, "null"); break;
    default: ok = scan_number(s, &type); break;
    }
    s->tree->nodes[node].type = type;
    s->tree->nodes[node].end = (uint32_t)s->at;
    return ok;
}

static bool
scan_key(struct scan *s)
{
    skip_space(s);
    s->key = (uint32_t)s->at;
    if (!scan_string(s))
        return false;
    s->key_end = (uint32_t)s->at;
    skip_space(s);
    if (peek(s) != ':')
        return refuse(s);
    s->at++;
    return true;
}

static bool
is_object(const struct scan *s)
{
    return s->tree->nodes[s->open].type == SPEC_NODE_OBJECT;
}

/* Opens a container. *more: a child follows (its key has been read). */
static bool
open_container(struct scan *s, bool *more)
{
    bool object = peek(s) == '{';
    int node;

    if (s->depth == SPEC_MAX_DEPTH) {
        s->tree->too_deep = true;
        return refuse(s);
    }
    node = add_node(s, object ? SPEC_NODE_OBJECT : SPEC_NODE_ARRAY);
    if (node < 0)
        return false;
    s->at++;
    s->open = node;
    s->last[++s->depth] = -1;
    skip_space(s);
    *more = peek(s) != (object ? '}' : ']');
    return !*more || !object || scan_key(s);
}

/* After a value: closes what ends here. *more: another child follows. */
static bool
close_containers(struct scan *s, bool *more)
{
    *more = false;
    for (;;) {
        skip_space(s);
        if (s->open < 0)
            return s->at == s->tree->len || refuse(s);
        if (peek(s) == ',') {
            s->at++;
            *more = true;
            return !is_object(s) || scan_key(s);
        }
        if (peek(s) != (is_object(s) ? '}' : ']'))
            return refuse(s);
        s->at++;
        s->tree->nodes[s->open].end = (uint32_t)s->at;
        s->open = s->tree->nodes[s->open].parent;
        s->depth--;
    }
}

int
spec_locate_init(struct spec_tree *tree, const char *text, size_t len)
{
    struct scan s = {.tree = tree, .open = -1, .last = {-1}};
    bool more = true;

    assert(len <= SPEC_LOCATE_MAX_BYTES);
    *tree = (struct spec_tree){.text = text, .len = len};
    tree->cursor.line = tree->cursor.col = 1;
    while (more) {
        int c;

        skip_space(&s);
        c = peek(&s);
        more = false;
        if (c == '{' || c == '[') {
            if (!open_container(&s, &more))
                return s.rc;
        } else if (!scan_scalar(&s)) {
            return s.rc;
        }
        if (!more && !close_containers(&s, &more))
            return s.rc;
    }
    assert(tree->n > 0 && s.depth == 0);
    return 0;
}

void
spec_locate_fini(struct spec_tree *tree)
{
    free(tree->nodes);
    tree->nodes = NULL;
    tree->n = tree->cap = 0;
}

/* ---- asking -------------------------------------------------------------- */

void
spec_locate_place(struct spec_tree *tree, size_t at, int *line, int *col)
{
    if (at < tree->cursor.at) {
        tree->cursor.at = 0;
        tree->cursor.line = tree->cursor.col = 1;
    }
    for (; tree->cursor.at < at && tree->cursor.at < tree->len;
         tree->cursor.at++) {
        unsigned char c = (unsigned char)tree->text[tree->cursor.at];

        if (c == '\n') {
            tree->cursor.line++;
            tree->cursor.col = 1;
        } else if ((c & 0xc0) != 0x80) {
            tree->cursor.col++;
        }
    }
    *line = tree->cursor.line;
    *col = tree->cursor.col;
}

static int
index_in_parent(const struct spec_tree *tree, int node)
{
    int i = 0;
    int at = tree->nodes[tree->nodes[node].parent].first;

    for (; at != node; at = tree->nodes[at].next)
        i++;
    return i;
}

void
spec_locate_path(const struct spec_tree *tree, int node, const char *key,
                 char *out, size_t size)
{
    int chain[SPEC_MAX_DEPTH + 1];
    int depth = 0;
    size_t n = 0;

    assert(size > 16);
    out[0] = '\0';
    for (int at = node; at > 0; at = tree->nodes[at].parent)
        chain[depth++] = at;
    while (depth-- > 0 && n + 16 < size) {
        const struct spec_node *at = &tree->nodes[chain[depth]];

        if (at->key_end == 0) {
            snprintf(out + n, size - n, "[%d]",
                     index_in_parent(tree, chain[depth]));
        } else {
            if (n > 0)
                out[n++] = '.';
            spec_locate_quote(tree, at->key + 1, at->key_end - 1, out + n,
                              size - n);
        }
        n += strlen(out + n);
    }
    if (key != NULL)
        snprintf(out + n, size - n, "%s%s", n > 0 ? "." : "", key);
}

bool
spec_locate_equals(const struct spec_tree *tree, size_t start, size_t end,
                   const char *s)
{
    const char *p = tree->text + start + 1;
    size_t n = end - start - 2;
    char c[4];
    size_t k = 0, n_out = 0;

    for (; n > 0; p += k, n -= k) {
        k = decode_char(p, n, c, &n_out);
        assert(k > 0);
        if (strncmp(s, c, n_out) != 0)
            return false;
        s += n_out;
    }
    return *s == '\0';
}

char *
spec_locate_decode(const struct spec_tree *tree, size_t start, size_t end,
                   struct pool *pool)
{
    const char *p = tree->text + start + 1;
    size_t n = end - start - 2;
    char *out = pool_alloc(pool, n + 1, 1);
    size_t at = 0;

    if (out == NULL)
        return NULL;
    while (n > 0) {
        char c[4];
        size_t n_out = 0;
        size_t k = decode_char(p, n, c, &n_out);

        assert(k > 0);
        memcpy(out + at, c, n_out);
        at += n_out;
        p += k;
        n -= k;
    }
    out[at] = '\0';
    return out;
}

int
spec_locate_find(const struct spec_tree *tree, int object, const char *key)
{
    int at = tree->nodes[object].first;

    while (at >= 0 && !spec_locate_equals(tree, tree->nodes[at].key,
                                          tree->nodes[at].key_end, key))
        at = tree->nodes[at].next;
    return at;
}

void
spec_locate_quote(const struct spec_tree *tree, size_t start, size_t end,
                  char *out, size_t size)
{
    size_t n = end - start;
    bool cut = n > size - 1;

    assert(size > 4);
    if (cut)
        n = utf8_cut(tree->text + start, size - 4);
    memcpy(out, tree->text + start, n);
    out[n] = '\0';
    for (size_t i = 0; i < n; i++) {
        size_t k = utf8_length(out + i, n - i);

        if (k > 0 && utf8_has_control(out + i, k))
            memset(out + i, '?', k);
    }
    if (cut)
        memcpy(out + n, "...", 4);
}
