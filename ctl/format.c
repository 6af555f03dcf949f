/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/format.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <wchar.h>
#include <wctype.h>

void
format_duration(double seconds, char *out, size_t n)
{
    if (!isfinite(seconds) || seconds < 0 || seconds > 1e11) {
        snprintf(out, n, "-");
        return;
    }
    long long s = (long long)(seconds + 0.5);
    long long days = s / 86400, h = s / 3600 % 24, m = s / 60 % 60;
    if (days > 0)
        snprintf(out, n, "%lldd %02lld:%02lld", days, h, m);
    else if (h > 0)
        snprintf(out, n, "%lld:%02lld:%02lld", h, m, s % 60);
    else
        snprintf(out, n, "%lld:%02lld", m, s % 60);
}

void
format_bytes(int64_t bytes, char *out, size_t n)
{
    static const char *const unit[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
    double v = (double)bytes / 1024;
    size_t u = 0;

    if (bytes > -1024 && bytes < 1024) {
        snprintf(out, n, "%lld B", (long long)bytes);
        return;
    }
    while (fabs(v) >= 1023.95 && u + 1 < sizeof(unit) / sizeof(unit[0])) {
        v /= 1024;
        u++;
    }
    snprintf(out, n, "%.1f %s", v, unit[u]);
}

void
format_real(double v, char *out, size_t n)
{
    if (isnan(v))
        snprintf(out, n, "nan"); /* printf would show the sign of a NaN */
    else
        snprintf(out, n, "%.4g", v);
}

void
format_known(double v, char *out, size_t n)
{
    if (isnan(v))
        snprintf(out, n, "-");
    else
        format_real(v, out, n);
}

void
format_exact(double v, char *out, size_t n)
{
    if (!isfinite(v)) {
        snprintf(out, n, "%s",
                 isnan(v) ? "NaN"
                 : v > 0  ? "Infinity"
                          : "-Infinity");
        return;
    }
    /* Fifteen always survive the way to text; %g drops their zeros. */
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(out, n, "%.*g", digits, v);
        if (strtod(out, NULL) == v)
            return;
    }
}

void
format_scale(double v, char *out, size_t n)
{
    int exponent = 0;
    double mantissa = frexp(v, &exponent);

    if (isfinite(v) && v == nearbyint(v) && fabs(v) < 1048576)
        snprintf(out, n, "%.0f", v);
    else if (isfinite(v) && mantissa == 0.5)
        snprintf(out, n, "2^%d", exponent - 1);
    else
        format_known(v, out, n);
}

void
format_time(int64_t t_us, bool utc, char *out, size_t n)
{
    time_t t = (time_t)(t_us / 1000000);
    struct tm tm;
    char zone[8];

    if (t_us <= 0 || (utc ? gmtime_r(&t, &tm) : localtime_r(&t, &tm)) == NULL) {
        snprintf(out, n, "-");
        return;
    }
    size_t len = strftime(out, n, "%Y-%m-%dT%H:%M:%S", &tm);
    if (utc)
        snprintf(out + len, n - len, "Z");
    else if (strftime(zone, sizeof(zone), "%z", &tm) == 5)
        snprintf(out + len, n - len, "%.3s:%.2s", zone, zone + 3);
}

/* Characters that are legal in a name but change how the text around them is
 * shown: bidi marks, embeddings and isolates, line separators, BOM, tags. */
static bool
is_disturbing(wchar_t c)
{
    return (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
           (c >= 0x2060 && c <= 0x2069) || c == 0xfeff || c == 0x61c ||
           (c >= 0xe0000 && c <= 0xe0fff);
}

static char *
escape_byte(unsigned char c, char *out)
{
    switch (c) {
    case '\n': return stpcpy(out, "\\n");
    case '\t': return stpcpy(out, "\\t");
    case '\r': return stpcpy(out, "\\r");
    default: return out + sprintf(out, "\\x%02x", c);
    }
}

/* Copies or escapes the character at s; *used bytes of it were taken. */
static char *
put_wide(const char *s, char *out, size_t *used)
{
    mbstate_t state = {0};
    wchar_t c = 0;
    size_t len = mbrtowc(&c, s, strlen(s), &state);

    *used = 1;
    if (len == (size_t)-1 || len == (size_t)-2 || len == 0)
        return escape_byte((unsigned char)*s, out);
    *used = len;
    if (iswprint((wint_t)c) && !is_disturbing(c))
        return mempcpy(out, s, len);
    if ((unsigned long)c > 0xffff)
        return out + sprintf(out, "\\U%08lx", (unsigned long)c);
    return out + sprintf(out, "\\u%04lx", (unsigned long)c);
}

char *
format_safe(const char *s, bool utf8)
{
    /* Worst: one byte becomes \x1b; a longer character grows less. */
    char *text = malloc(strlen(s) * 4 + 1), *out = text;
    size_t used;

    if (text == NULL)
        return NULL;
    for (; *s != '\0'; s += used) {
        unsigned char c = (unsigned char)*s;
        used = 1;
        if (c >= 0x20 && c < 0x7f)
            *out++ = (char)c;
        else if (c < 0x80 || !utf8)
            out = escape_byte(c, out);
        else
            out = put_wide(s, out, &used);
    }
    *out = '\0';
    return text;
}

void
format_put_safe(FILE *f, const char *s, bool utf8)
{
    char *safe = format_safe(s, utf8);

    fputs(safe != NULL ? safe : "(out of memory)", f);
    free(safe);
}

/* Bytes of the UTF-8 character at s, 0 when there is none. */
static size_t
utf8_bytes(const unsigned char *s)
{
    static const unsigned least[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t len = s[0] < 0x80   ? 1
                 : s[0] < 0xc0 ? 0
                 : s[0] < 0xe0 ? 2
                 : s[0] < 0xf0 ? 3
                 : s[0] < 0xf8 ? 4
                               : 0;
    unsigned c = len == 1 ? s[0] : s[0] & (0xffu >> (len + 1));

    for (size_t i = 1; i < len; i++) {
        if ((s[i] & 0xc0) != 0x80)
            return 0;
        c = c << 6 | (s[i] & 0x3f);
    }
    if (len == 0 || c < least[len] || c > 0x10ffff ||
        (c >= 0xd800 && c <= 0xdfff))
        return 0;
    return len;
}

bool
format_is_utf8(const char *s)
{
    const unsigned char *p = (const unsigned char *)s;

    while (*p != '\0') {
        size_t len = utf8_bytes(p);
        if (len == 0)
            return false;
        p += len;
    }
    return true;
}

void
format_put_json(FILE *f, const char *s)
{
    const unsigned char *p = (const unsigned char *)s;

    putc('"', f);
    while (*p != '\0') {
        size_t len = utf8_bytes(p);
        if (len == 0)
            fputs("\\ufffd", f);
        else if (*p == '"' || *p == '\\')
            fprintf(f, "\\%c", *p);
        else if (*p < 0x20 || *p == 0x7f)
            fprintf(f, "\\u%04x", *p);
        else
            fwrite(p, 1, len, f);
        p += len > 0 ? len : 1;
    }
    putc('"', f);
}

int
format_width(const char *s, bool utf8)
{
    mbstate_t state = {0};
    int width = 0;

    if (!utf8)
        return (int)strlen(s);
    while (*s != '\0') {
        wchar_t c = 0;
        size_t len = mbrtowc(&c, s, strlen(s), &state);
        if (len == (size_t)-1 || len == (size_t)-2 || len == 0)
            return width + (int)strlen(s); /* not safe text */
        int w = wcwidth(c);
        width += w > 0 ? w : 0;
        s += len;
    }
    return width;
}
