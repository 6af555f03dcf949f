/* SPDX-License-Identifier: Apache-2.0 */
#include "daemon/exposition.h"

#include <assert.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "proto/utf8.h"

#define EXACT_MAX 9007199254740992.0 /* 2^53: below it a double counts */

void
exposition_observe(struct exposition_histogram *h, double value)
{
    int i = 0;

    if (isnan(value))
        return;
    while (i < h->n && value > h->le[i])
        i++;
    h->count[i]++;
    h->sum += value;
}

/* ---- names ----------------------------------------------------------------*/

/* Length of the name without what OpenMetrics adds to it per sample. */
static size_t
stem_length(const struct exposition_family *f)
{
    const char *end = f->type == EXPOSITION_INFO      ? "_info"
                      : f->type == EXPOSITION_COUNTER ? "_total"
                                                      : "";
    const size_t n = strlen(f->name), n_end = strlen(end);

    assert(n > n_end && strcmp(f->name + n - n_end, end) == 0);
    return n - n_end;
}

static const char *
type_word(const struct exposition_family *f, bool openmetrics)
{
    switch (f->type) {
    case EXPOSITION_INFO: return openmetrics ? "info" : "gauge";
    case EXPOSITION_GAUGE: return "gauge";
    case EXPOSITION_COUNTER: return "counter";
    case EXPOSITION_HISTOGRAM: return "histogram";
    }
    return "unknown";
}

static void
put_comment(struct exposition *e, const struct exposition_family *f,
            const char *what, const char *text)
{
    text_puts(&e->text, what);
    text_put(&e->text, f->name,
             e->openmetrics ? stem_length(f) : strlen(f->name));
    text_putc(&e->text, ' ');
    text_puts(&e->text, text);
    text_putc(&e->text, '\n');
}

static void
open_family(struct exposition *e, const struct exposition_family *f)
{
    if (e->open == f)
        return;
    e->open = f;
    put_comment(e, f, "# HELP ", f->help);
    put_comment(e, f, "# TYPE ", type_word(f, e->openmetrics));
    if (e->openmetrics && f->unit[0] != '\0')
        put_comment(e, f, "# UNIT ", f->unit);
}

/* ---- samples --------------------------------------------------------------*/

static void
put_number(struct text *t, double v)
{
    if (isinf(v))
        text_puts(t, v > 0 ? "+Inf" : "-Inf");
    else if (v == floor(v) && fabs(v) < EXACT_MAX)
        text_json_int(t, (int64_t)v);
    else
        text_json_real(t, v);
}

/* Bytes that are no UTF-8 would cost the whole scrape. */
static void
put_label_value(struct text *t, const char *s)
{
    size_t left = strlen(s);

    while (left > 0) {
        size_t n = utf8_length(s, left);

        if (*s == '\\' || *s == '"') {
            text_putc(t, '\\');
            text_putc(t, *s);
        } else if (*s == '\n') {
            text_puts(t, "\\n");
        } else if (n == 0) {
            text_puts(t, "\xef\xbf\xbd");
        } else {
            text_put(t, s, n);
        }
        n = n == 0 ? 1 : n;
        s += n;
        left -= n;
    }
}

/* Labels of the family, and le where it is not NULL. */
static void
put_labels(struct exposition *e, const struct exposition_family *f,
           const char *const *values, const char *le)
{
    const char *name = f->labels;
    struct text *t = &e->text;
    char before = '{';

    for (int i = 0; *name != '\0'; i++) {
        size_t n = strcspn(name, ",");

        assert(i < EXPOSITION_LABELS_MAX && values[i] != NULL);
        text_putc(t, before);
        text_put(t, name, n);
        text_puts(t, "=\"");
        put_label_value(t, values[i]);
        text_putc(t, '"');
        before = ',';
        name += n + (name[n] == ',');
    }
    if (le != NULL) {
        text_putc(t, before);
        text_puts(t, "le=\"");
        text_puts(t, le);
        text_putc(t, '"');
        before = ',';
    }
    if (before == ',')
        text_putc(t, '}');
    text_putc(t, ' ');
}

void
exposition_put(struct exposition *e, const struct exposition_family *f,
               const char *const *values, double value)
{
    assert(f->type != EXPOSITION_HISTOGRAM);
    if (isnan(value))
        return;
    open_family(e, f);
    text_puts(&e->text, f->name);
    put_labels(e, f, values, NULL);
    put_number(&e->text, value);
    text_putc(&e->text, '\n');
}

static void
put_part(struct exposition *e, const struct exposition_family *f,
         const char *part, const char *const *values, const char *le,
         double value)
{
    text_puts(&e->text, f->name);
    text_puts(&e->text, part);
    put_labels(e, f, values, le);
    put_number(&e->text, value);
    text_putc(&e->text, '\n');
}

/* OpenMetrics spells a whole bound "5.0", the older format "5". */
static void
spell_bound(const struct exposition *e, double le, char out[32])
{
    struct text t = {0};

    if (e->openmetrics)
        text_json_real(&t, le);
    else
        put_number(&t, le);
    snprintf(out, 32, "%s", t.s != NULL ? t.s : "");
    text_fini(&t);
}

void
exposition_put_histogram(struct exposition *e,
                         const struct exposition_family *f,
                         const char *const *values,
                         const struct exposition_histogram *h)
{
    uint64_t n = 0;
    char le[32];

    assert(f->type == EXPOSITION_HISTOGRAM && h->n <= EXPOSITION_BOUNDS_MAX);
    open_family(e, f);
    for (int i = 0; i < h->n; i++) {
        n += h->count[i];
        spell_bound(e, h->le[i], le);
        put_part(e, f, "_bucket", values, le, (double)n);
    }
    n += h->count[h->n];
    put_part(e, f, "_bucket", values, "+Inf", (double)n);
    put_part(e, f, "_sum", values, NULL, h->sum);
    put_part(e, f, "_count", values, NULL, (double)n);
}

char *
exposition_take(struct exposition *e, size_t *len)
{
    if (e->openmetrics)
        text_puts(&e->text, "# EOF\n");
    else
        text_puts(&e->text, "");
    return text_take(&e->text, len);
}
