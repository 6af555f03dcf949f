/* SPDX-License-Identifier: Apache-2.0 */
/*
 * text: a growing buffer and the JSON spelling of values.
 *
 * What spec_print.c, the codec and the daemon's HTTP write with. Running out
 * of memory is remembered and told once, by text_take(). Numbers are spelled
 * with 15 to 17 digits, as many as it takes to read back the same bits in any
 * locale; non-finite ones as "NaN", "Infinity", "-Infinity". Bytes of a string that
 * are no UTF-8 come out as U+FFFD: one odd path may not spoil a whole reply.
 */
#ifndef PROTO_TEXT_H
#define PROTO_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct text {
    char *s; /* owned, NUL-terminated once anything was put */
    size_t len, cap;
    bool failed;
};

void text_put(struct text *t, const char *s, size_t n);
void text_puts(struct text *t, const char *s);
void text_putc(struct text *t, char c);
void text_fill(struct text *t, char c, int n);
void text_json_string(struct text *t, const char *s);
void text_json_real(struct text *t, double v);
void text_json_int(struct text *t, int64_t v);

/* A JSON number of n bytes, whatever the locale. false: it is none, or no
 * finite double is near it. */
bool text_parse_real(const char *s, size_t n, double *out);

/* Gives the text away, malloc'd; its length in *len (may be NULL). NULL: there
 * was no memory. The buffer is empty afterwards. */
char *text_take(struct text *t, size_t *len);
void text_fini(struct text *t);

#endif
