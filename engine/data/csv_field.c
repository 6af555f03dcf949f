/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/data/csv_field.h"

#include <inttypes.h>
#include <string.h>

void
csv_field_start(struct csv_field_source *s, const uint8_t *bytes, size_t len,
                const char *name)
{
    static const uint8_t mark[] = {0xef, 0xbb, 0xbf};

    *s = (struct csv_field_source){bytes, bytes + len, name, 1};
    if (len >= sizeof(mark) && memcmp(bytes, mark, sizeof(mark)) == 0)
        s->at += sizeof(mark);
    /* Now, not row by row: a file may be nothing but line ends. */
    while (s->end > s->at && (s->end[-1] == '\n' || s->end[-1] == '\r'))
        s->end--;
}

bool
csv_field_at_end(const struct csv_field_source *s)
{
    return s->at >= s->end;
}

static void
put(struct csv_field *f, uint8_t c)
{
    if (f->len < CSV_FIELD_MAX - 1)
        f->text[f->len++] = (char)c;
    else
        f->is_cut = true;
}

static bool
is_blank(uint8_t c)
{
    return c == ' ' || c == '\t';
}

static void
skip_blanks(struct csv_field_source *s)
{
    while (s->at < s->end && is_blank(*s->at))
        s->at++;
}

/* After the opening quote, through the closing one. */
static int
read_quoted(struct csv_field_source *s, struct csv_field *f, struct err *err)
{
    const int64_t line = s->line;

    while (s->at < s->end) {
        const uint8_t c = *s->at++;

        if (c == '"') {
            if (s->at >= s->end || *s->at != '"')
                return 0;
            s->at++;
        }
        s->line += c == '\n';
        put(f, c);
    }
    return err_set(err, ERR_DATA, "%s: line %" PRId64 ": a quote is not closed",
                   s->name, line);
}

static bool
at_line_end(const struct csv_field_source *s)
{
    return *s->at == '\n' ||
           (*s->at == '\r' && (s->at + 1 == s->end || s->at[1] == '\n'));
}

static void
read_plain(struct csv_field_source *s, struct csv_field *f)
{
    while (s->at < s->end && *s->at != ',' && !at_line_end(s))
        put(f, *s->at++);
    while (f->len > 0 && !f->is_cut && is_blank((uint8_t)f->text[f->len - 1]))
        f->len--;
}

/* The comma or the line's end behind a field. */
static void
step_over(struct csv_field_source *s, struct csv_field *f)
{
    f->ends_row = s->at >= s->end || *s->at != ',';
    if (s->at < s->end && *s->at == '\r')
        s->at++;
    if (s->at < s->end) {
        s->line += *s->at == '\n';
        s->at++;
    }
}

int
csv_field_next(struct csv_field_source *s, struct csv_field *f, struct err *err)
{
    int rc = 0;

    f->len = 0;
    f->is_cut = false;
    skip_blanks(s);
    if (s->at < s->end && *s->at == '"') {
        s->at++;
        rc = read_quoted(s, f, err);
        skip_blanks(s);
        if (rc == 0 && s->at < s->end && *s->at != ',' && !at_line_end(s))
            rc = err_set(err, ERR_DATA,
                         "%s: line %" PRId64 ": text after a closing quote",
                         s->name, s->line);
    } else {
        read_plain(s, f);
    }
    f->text[f->len] = '\0';
    if (rc == 0)
        step_over(s, f);
    return rc;
}
