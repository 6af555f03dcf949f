/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/rangetable.h"

#include <inttypes.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/format.h"
#include "ctl/program.h"
#include "proto/codec.h"

#define MAX_WORDS        160
#define MAX_REGIONS      64
#define EXIT_DIFFERENT   1
#define MAX_ANSWER_BYTES (256 * 1024 * 1024)

/* ---- the table for a person -----------------------------------------------*/

static void
put_number(double v, char *cell, size_t n)
{
    snprintf(cell, n, isnan(v) ? "-" : "%.5g", v);
}

static void
put_count(int64_t v, char *cell, size_t n)
{
    if (v > 0)
        snprintf(cell, n, "%" PRId64, v);
}

#define CELL(name)                                                             \
    static void write_##name(const struct view_range *v, char *cell,           \
                             size_t n);                                        \
    static void put_##name(const struct output *o, const void *record,         \
                           char *cell, size_t n)                               \
    {                                                                          \
        (void)o;                                                               \
        write_##name(record, cell, n);                                         \
    }                                                                          \
    static void write_##name(const struct view_range *v, char *cell, size_t n)

CELL(pass)
{
    snprintf(cell, n, "%s", v->pass);
}
CELL(op)
{
    snprintf(cell, n, "%s", v->op);
}
CELL(tensor)
{
    snprintf(cell, n, "%s", v->tensor);
}
CELL(dtype)
{
    snprintf(cell, n, "%s", dtype_short_name(dtype_parse(v->dtype)));
}
CELL(shape)
{
    size_t len = 0;

    snprintf(cell, n, "1");
    for (int i = 0; i < v->shape.n && len < n; i++)
        len += (size_t)snprintf(cell + len, n - len, "%s%" PRId64,
                                i > 0 ? "x" : "", v->shape.v[i]);
}
CELL(largest)
{
    put_number(v->largest, cell, n);
}
CELL(smallest)
{
    put_number(v->smallest, cell, n);
}
CELL(nonfinite)
{
    put_count(v->nonfinite, cell, n);
}
CELL(headroom)
{
    if (!isnan(v->headroom))
        snprintf(cell, n, "%.1f", v->headroom);
}
CELL(flushed)
{
    if (v->flushed > 0)
        snprintf(cell, n, "%.2g %%", 100 * v->flushed);
}
CELL(fp32_largest)
{
    if (!isnan(v->fp32_largest))
        put_number(v->fp32_largest, cell, n);
}
CELL(fp32_smallest)
{
    if (!isnan(v->fp32_smallest))
        put_number(v->fp32_smallest, cell, n);
}
CELL(fp32_nonfinite)
{
    put_count(v->fp32_nonfinite, cell, n);
}
CELL(mark)
{
    snprintf(cell, n, "%s", v->mark);
}

static const struct output_column columns[] = {
    {"PASS", false, put_pass},
    {"OP", false, put_op},
    {"TENSOR", false, put_tensor},
    {"TYPE", false, put_dtype},
    {"SHAPE", false, put_shape},
    {"LARGEST", true, put_largest},
    {"SMALLEST", true, put_smallest},
    {"INF/NAN", true, put_nonfinite},
    {"BITS LEFT", true, put_headroom},
    {"TO ZERO", true, put_flushed},
    {"FP32 LARGEST", true, put_fp32_largest},
    {"FP32 SMALLEST", true, put_fp32_smallest},
    {"FP32 INF/NAN", true, put_fp32_nonfinite},
    {"MARK", false, put_mark},
};
static const struct output_layout layout = {
    VIEW_ID_range, columns, (int)(sizeof(columns) / sizeof(columns[0]))};

/* ---- the answer -----------------------------------------------------------*/

struct answer {
    char *text; /* owned; NUL-terminated */
    size_t n, room;
    struct view_replay replay; /* borrows from doc */
    struct codec_doc *doc;     /* owned */
    const char *ranges;        /* lines of text */
};

static int
keep_bytes(void *ctx, const char *bytes, size_t n, struct err *err)
{
    struct answer *a = ctx;

    if (a->n + n + 1 > MAX_ANSWER_BYTES)
        return err_set(err, ERR_PROTO, "traind-worker: it says too much");
    if (a->n + n + 1 > a->room) {
        const size_t room = 2 * (a->n + n) + 4096;
        char *more = realloc(a->text, room);

        if (more == NULL)
            return err_set(err, ERR_NOMEM, "out of memory");
        a->text = more;
        a->room = room;
    }
    memcpy(a->text + a->n, bytes, n);
    a->n += n;
    a->text[a->n] = '\0';
    return 0;
}

static int
read_replay(struct answer *a, struct err *err)
{
    const char *end = a->text != NULL ? strchr(a->text, '\n') : NULL;

    if (end == NULL)
        return err_set(err, ERR_PROTO, "traind-worker: it has said nothing");
    a->ranges = end + 1;
    return codec_read_view(a->text, (size_t)(end - a->text), VIEW_ID_replay,
                           &a->replay, &a->doc, err);
}

/* For every record; *view is good for the call. */
typedef int range_fn(void *ctx, struct view_range *view, struct err *err);

static int
each_range(const struct answer *a, range_fn *fn, void *ctx, struct err *err)
{
    const char *at = a->ranges;
    int rc = 0;

    while (rc == 0 && *at != '\0') {
        const size_t len = strcspn(at, "\n");
        struct codec_doc *doc = NULL;
        struct view_range view;

        rc = codec_read_view(at, len, VIEW_ID_range, &view, &doc, err);
        if (rc == 0)
            rc = fn(ctx, &view, err);
        codec_doc_close(&doc);
        at += len + (at[len] != '\0');
    }
    return rc;
}

/* ---- words ----------------------------------------------------------------*/

static void
tell_what(const struct session *s, const struct view_replay *r)
{
    char scale[FORMAT_MAX];

    format_scale(r->scale, scale, sizeof(scale));
    session_tell(s,
                 "%s: iteration %" PRId64 " in %s at scale %s, on %s with "
                 "%" PRId64 " thread%s",
                 r->name, r->iteration, r->dtype, scale, r->backend, r->threads,
                 r->threads == 1 ? "" : "s");
    for (int i = 0; i < r->regions.n; i++)
        session_tell(s, "in float32: %s", r->regions.v[i]);
    if (r->varied[0] != '\0')
        session_tell(s, "changed: %s", r->varied);
}

static void
tell_bits(const struct session *s, const struct view_replay *r)
{
    if (strcmp(r->bits, "same") == 0)
        session_tell(s, "bits: the same as in the step that failed");
    if (strcmp(r->bits, "different") != 0)
        return;
    session_tell(s, "bits: NOT those of the step that failed (%s, recorded %s)",
                 r->digest, r->recorded);
    for (int i = 0; i < r->differences.n; i++)
        session_tell(s, "policy: %s", r->differences.v[i]);
    if (r->differences.n == 0)
        session_tell(s, "policy: the same as recorded");
}

static void
tell_stored(const struct session *s, const struct view_replay *r)
{
    if (r->verdict[0] != '\0')
        session_tell(s, "verdict: %s", r->verdict);
    if (r->sentence[0] != '\0')
        session_tell(s, "%s", r->sentence);
    else if (r->where[0] != '\0')
        session_tell(s, "then: %s", r->where);
    if (r->cure[0] != '\0')
        session_tell(s, "cure: %s", r->cure);
}

static void
tell_now(const struct session *s, const struct view_replay *r)
{
    if (r->pass[0] == '\0')
        session_tell(s, "now: everything is finite, the loss is %.6g", r->loss);
    else if (r->tensor[0] == '\0')
        session_tell(s, "now: a gradient is not finite once it is unscaled");
    else if (strcmp(r->pass, "optimizer") == 0)
        session_tell(s, "now: the weights are not finite before the step: %s",
                     r->tensor);
    else if (r->op[0] == '\0')
        session_tell(s, "now: the batch itself is not finite");
    else
        session_tell(s,
                     "now: the first that is not finite is %s, of %s%s%s "
                     "(%s, %s)",
                     r->tensor, r->op, r->layer[0] != '\0' ? " in " : "",
                     r->layer, r->pass, r->tensor_dtype);
}

/* ---- for a person ---------------------------------------------------------*/

struct tally {
    struct session *s;
    int n, n_overflow, n_headroom, n_flushed;
};

/* What backward computes again to save memory is what it was. */
static bool
is_again(const char *tensor)
{
    const size_t n = strlen(tensor), m = strlen(".again");

    return n > m && strcmp(tensor + n - m, ".again") == 0;
}

static int
put_range(void *ctx, struct view_range *view, struct err *err)
{
    struct tally *t = ctx;
    const bool overflows = strcmp(view->mark, "overflow") == 0;

    if (is_again(view->tensor))
        return 0;

    t->n++;
    if (overflows && t->n_overflow == 0)
        view->mark = "overflow, the first";
    t->n_overflow += overflows;
    t->n_headroom += strcmp(view->mark, "headroom") == 0;
    t->n_flushed += strcmp(view->mark, "flushed") == 0;
    return output_row(&t->s->out, view, err);
}

static void
tell_limit(const struct session *s, const char *dtype)
{
    if (strcmp(dtype, "float16") == 0)
        session_tell(s, "float16 ends at 65504; below 2^-24 it has only 0");
    if (strcmp(dtype, "bfloat16") == 0)
        session_tell(s, "bfloat16 ends at 3.39e+38");
}

static void
tell_summary(const struct session *s, const struct tally *t, const char *dtype)
{
    const bool fine =
        t->n_overflow == 0 && t->n_headroom == 0 && t->n_flushed == 0;
    char flushed[64] = "";

    if (fine) {
        session_tell(s,
                     "%d tensors: none is within 2 bits of overflow, no "
                     "gradient lost more than 1 %% to zero",
                     t->n);
    } else {
        if (t->n_flushed > 0)
            snprintf(flushed, sizeof(flushed),
                     "; %d gradient%s lost more than 1 %% to zero",
                     t->n_flushed, t->n_flushed == 1 ? "" : "s");
        session_tell(s,
                     "%d of %d tensors %s within 2 bits of overflow; %d %s "
                     "not finite%s",
                     t->n_headroom, t->n, t->n_headroom == 1 ? "is" : "are",
                     t->n_overflow, t->n_overflow == 1 ? "is" : "are", flushed);
    }
    tell_limit(s, dtype);
}

static int
show_table(struct session *s, const struct answer *a, struct tally *t,
           struct err *err)
{
    int rc = output_begin(&s->out, &layout, err);

    t->s = s;
    if (rc == 0)
        rc = each_range(a, put_range, t, err);
    if (rc == 0)
        return output_end(&s->out, err);
    output_abandon(&s->out);
    return rc;
}

static int
show_text(struct session *s, const struct answer *a, struct err *err)
{
    struct tally t = {0};
    int rc;

    tell_what(s, &a->replay);
    tell_bits(s, &a->replay);
    tell_stored(s, &a->replay);
    tell_now(s, &a->replay);
    session_tell(s, "%s", "");
    rc = show_table(s, a, &t, err);
    if (rc == 0) {
        session_tell(s, "%s", "");
        tell_summary(s, &t, a->replay.dtype);
    }
    return rc;
}

/* ---- for a machine --------------------------------------------------------*/

static int
put_plain(void *ctx, struct view_range *view, struct err *err)
{
    struct session *s = ctx;

    return output_row(&s->out, view, err);
}

static int
show_rows(struct session *s, const struct answer *a, struct err *err)
{
    int rc = output_begin(&s->out, &layout, err);

    if (rc == 0)
        rc = each_range(a, put_plain, s, err);
    if (rc == 0)
        return output_end(&s->out, err);
    output_abandon(&s->out);
    return rc;
}

static int
show_object(struct session *s, const struct answer *a, struct err *err)
{
    size_t len = 0;
    char *head = codec_write_view(VIEW_ID_replay, &a->replay, 0, &len);

    if (head == NULL)
        return err_set(err, ERR_NOMEM, "out of memory");
    fputs("{\"replay\": ", s->out.f);
    fwrite(head, 1, len, s->out.f);
    free(head);
    fputs(",\n\"ranges\": ", s->out.f);
    const int rc = show_rows(s, a, err);
    fputs("}\n", s->out.f);
    return rc;
}

/* ---- the program ----------------------------------------------------------*/

struct words {
    char program[PATH_MAX];
    char *at[MAX_WORDS + 1];
    int n;
};

static void
add_word(struct words *w, const char *word)
{
    if (w->n < MAX_WORDS) /* execv() does not write to them */
        w->at[w->n++] = (char *)(uintptr_t)word;
}

static void
add_option(struct words *w, const char *option, const char *value)
{
    if (value == NULL)
        return;
    add_word(w, option);
    add_word(w, value);
}

static int
check_options(const struct session *s, struct err *err)
{
    const char *amp = args_value(s->args, "amp");
    const char *scale = args_value(s->args, "scale");
    int64_t threads;
    char *end;

    if (amp != NULL && dtype_parse(amp) != DTYPE_F32 &&
        !dtype_is_half(dtype_parse(amp)))
        return err_set(err, ERR_USAGE, "--amp %s: float32, float16 or bfloat16",
                       amp);
    if (scale != NULL) {
        const double v = strtod(scale, &end);
        if (end == scale || *end != '\0' || !(v > 0) || v > 3.4e38)
            return err_set(err, ERR_USAGE, "--scale %s: a number above 0",
                           scale);
    }
    if (args_nth(s->args, "fp32-region", MAX_REGIONS) != NULL)
        return err_set(err, ERR_USAGE, "--fp32-region: more than %d",
                       MAX_REGIONS);
    return args_i64(s->args, "threads", 1, 1, 4096, &threads, err);
}

static int
make_words(struct session *s, const char *const *words, int n, struct words *w,
           struct err *err)
{
    const int rc =
        program_find("traind-worker", w->program, sizeof(w->program), err);

    add_word(w, w->program);
    for (int i = 0; i < n; i++)
        add_word(w, words[i]);
    add_option(w, "--amp", args_value(s->args, "amp"));
    add_option(w, "--scale", args_value(s->args, "scale"));
    add_option(w, "--threads", args_value(s->args, "threads"));
    add_option(w, "--backend", args_value(s->args, "backend"));
    for (int i = 0; args_nth(s->args, "fp32-region", i) != NULL; i++)
        add_option(w, "--fp32-region", args_nth(s->args, "fp32-region", i));
    return rc;
}

static int
take_form(struct session *s, struct err *err)
{
    if (!args_flag(s->args, "csv"))
        return 0;
    if (!output_is_text(&s->out))
        return err_set(err, ERR_USAGE, "--csv and --%s exclude each other",
                       s->out.ops->name);
    s->out.ops = &output_csv;
    return 0;
}

static int
show(struct session *s, const struct answer *a, struct err *err)
{
    if (output_is_text(&s->out))
        return show_text(s, a, err);
    return s->out.ops == &output_json ? show_object(s, a, err)
                                      : show_rows(s, a, err);
}

int
rangetable_show(struct session *s, const char *const *words, int n,
                const char *input, struct err *err)
{
    struct words *w = calloc(1, sizeof(*w));
    struct answer a = {0};
    int rc = take_form(s, err), status = 0;

    if (rc == 0 && w == NULL)
        rc = err_set(err, ERR_NOMEM, "out of memory");
    if (rc == 0)
        rc = check_options(s, err);
    if (rc == 0)
        rc = make_words(s, words, n, w, err);
    if (rc == 0)
        rc = status =
            program_run(w->at, input, strlen(input), keep_bytes, &a, err);
    /* What else it may end with, it has given the reason for. */
    if (rc == 0 || (rc == EXIT_DIFFERENT && a.n > 0)) {
        rc = read_replay(&a, err);
        if (rc == 0)
            rc = show(s, &a, err);
        if (rc == 0)
            rc = status;
    }
    codec_doc_close(&a.doc);
    free(a.text);
    free(w);
    return rc;
}
