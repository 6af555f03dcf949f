/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/text.h"

#include <inttypes.h>
#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proto/utf8.h"

static bool
make_room(struct text *t, size_t n)
{
    size_t cap = t->cap ? t->cap : 128;
    char *s;

    if (t->failed)
        return false;
    if (n >= (size_t)-1 / 4 - t->len) {
        t->failed = true;
        return false;
    }
    while (cap < t->len + n + 1)
        cap *= 2;
    if (cap == t->cap)
        return true;
    s = realloc(t->s, cap);
    if (s == NULL) {
        t->failed = true;
        return false;
    }
    t->s = s;
    t->cap = cap;
    return true;
}

void
text_put(struct text *t, const char *s, size_t n)
{
    if (!make_room(t, n))
        return;
    memcpy(t->s + t->len, s, n);
    t->len += n;
    t->s[t->len] = '\0';
}

void
text_puts(struct text *t, const char *s)
{
    text_put(t, s, strlen(s));
}

void
text_putc(struct text *t, char c)
{
    text_put(t, &c, 1);
}

void
text_fill(struct text *t, char c, int n)
{
    for (int i = 0; i < n; i++)
        text_putc(t, c);
}

static void
put_escaped(struct text *t, unsigned char c)
{
    static const char short_form[32] = {
        ['\b'] = 'b', ['\f'] = 'f', ['\n'] = 'n', ['\r'] = 'r', ['\t'] = 't'};
    char out[8];

    if (c == '"' || c == '\\' || (c < 32 && short_form[c] != 0))
        snprintf(out, sizeof(out), "\\%c", c < 32 ? short_form[c] : c);
    else
        snprintf(out, sizeof(out), "\\u%04x", c);
    text_puts(t, out);
}

void
text_json_string(struct text *t, const char *s)
{
    size_t n = strlen(s);
    size_t plain = 0; /* bytes at s that go out as they are */

    text_putc(t, '"');
    while (plain < n) {
        unsigned char c = (unsigned char)s[plain];
        size_t k = utf8_length(s + plain, n - plain);

        if (k > 0 && c >= 0x20 && c != '"' && c != '\\' && c != 0x7f) {
            plain += k;
            continue;
        }
        text_put(t, s, plain);
        if (k == 0)
            text_puts(t, "\xef\xbf\xbd");
        else
            put_escaped(t, c);
        s += plain + 1;
        n -= plain + 1;
        plain = 0;
    }
    text_put(t, s, n);
    text_putc(t, '"');
}

void
text_json_real(struct text *t, double v)
{
    char digits[40];
    bool is_real = false;

    if (isnan(v) || isinf(v)) {
        text_puts(t, isnan(v) ? "\"NaN\""
                     : v > 0  ? "\"Infinity\""
                              : "\"-Infinity\"");
        return;
    }
    for (int precision = 15; precision <= 17; precision++) {
        snprintf(digits, sizeof(digits), "%.*g", precision, v);
        if (strtod(digits, NULL) == v)
            break;
    }
    /* Anything that is no digit, sign or exponent is the locale's point. */
    for (const char *p = digits; *p != '\0'; p++) {
        bool known = strchr("0123456789+-e", *p) != NULL;

        if (known)
            text_putc(t, *p);
        else if (!is_real)
            text_putc(t, '.');
        is_real = is_real || !known || *p == 'e';
    }
    if (!is_real)
        text_puts(t, ".0");
}

void
text_json_int(struct text *t, int64_t v)
{
    char digits[24];

    snprintf(digits, sizeof(digits), "%" PRId64, v);
    text_puts(t, digits);
}

bool
text_parse_real(const char *s, size_t n, double *out)
{
    const char *point = localeconv()->decimal_point;
    char buf[512];
    size_t len = 0;
    char *end;
    double v;

    for (size_t i = 0; i < n; i++) {
        if (len + strlen(point) + 1 >= sizeof(buf) || s[i] == '\0' ||
            strchr("0123456789+-.eE", s[i]) == NULL)
            return false;
        if (s[i] == '.') {
            memcpy(buf + len, point, strlen(point));
            len += strlen(point);
        } else {
            buf[len++] = s[i];
        }
    }
    buf[len] = '\0';
    v = strtod(buf, &end);
    if (end == buf || *end != '\0' || isinf(v) || isnan(v))
        return false;
    *out = v;
    return true;
}

char *
text_take(struct text *t, size_t *len)
{
    char *s;

    text_put(t, "", 0);
    if (t->failed) {
        text_fini(t);
        return NULL;
    }
    s = t->s;
    if (len != NULL)
        *len = t->len;
    *t = (struct text){0};
    return s;
}

void
text_fini(struct text *t)
{
    free(t->s);
    *t = (struct text){0};
}
