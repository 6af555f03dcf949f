/* SPDX-License-Identifier: Apache-2.0 */
#include "ctl/story.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "ctl/format.h"

#define LABEL_WIDTH 14
#define TEXT_MAX    16384

/* ---- lines ----------------------------------------------------------------*/

/* "         label: text"; a label of "" continues the one above. */
__attribute__((format(printf, 3, 4))) static void
put(const struct session *s, const char *label, const char *fmt, ...)
{
    char *text = NULL;
    va_list ap;

    va_start(ap, fmt);
    const int n = vasprintf(&text, fmt, ap);
    va_end(ap);
    if (n < 0)
        return;
    session_tell(s, "%*s%s %s", LABEL_WIDTH, label,
                 label[0] != '\0' ? ":" : " ", text);
    free(text);
}

static size_t
whole_bytes(const char *s, size_t n)
{
    const size_t most = n;

    while (n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80)
        n--;
    return n > 0 ? n : most;
}

/* Words up to the width of the terminal, two blanks in front. */
static void
put_paragraph(const struct session *s, const char *text)
{
    const size_t width = (size_t)session_width(s->out.f) - 3;

    while (*text != '\0') {
        size_t n = strlen(text);
        if (n > width) {
            n = width;
            while (n > 0 && text[n] != ' ')
                n--;
            if (n == 0) /* a word alone; never half a character of it */
                n = whole_bytes(text, width);
        }
        session_tell(s, "  %.*s", (int)n, text);
        text += n;
        text += strspn(text, " ");
    }
}

/* ---- parts ----------------------------------------------------------------*/

const char *
story_meaning(const char *verdict)
{
    static const struct {
        const char *verdict, *meaning;
    } known[] = {
        {"scale_overflow",
         "the loss scale was too large; it backs off by itself"},
        {"forward_overflow",
         "a value of the forward pass is too large for the dtype"},
        {"backward_overflow",
         "a gradient is too large for the dtype at every allowed scale"},
        {"bad_input", "the data is at fault"},
        {"divergence", "the same in float32: no matter of precision"},
        {"optimizer", "finite gradients, and an update that went too far"},
    };

    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (strcmp(known[i].verdict, verdict) == 0)
            return known[i].meaning;
    return "";
}

static void
put_head(const struct session *s, const struct view_incident *v)
{
    session_tell(s,
                 "incident %" PRId64 " of job %" PRId64 ": iteration %" PRId64
                 ", %" PRId64 " updates, attempt %" PRId64 "%s",
                 v->id, v->job, v->iteration, v->updates, v->attempt,
                 v->live ? "" : " (on an abandoned line)");
    if (v->verdict[0] != '\0')
        session_tell(s, "verdict: %s: %s", v->verdict,
                     story_meaning(v->verdict));
    else if (!v->replayed)
        session_tell(s, "no verdict: it was not replayed");
    else
        session_tell(s, "no verdict: run again, everything was finite");
    if (v->sentence[0] != '\0') {
        session_tell(s, "%s", "");
        put_paragraph(s, v->sentence);
        session_tell(s, "%s", "");
    }
}

static void
write_list(const struct view_i64s *list, const char *between, char *out,
           size_t size)
{
    size_t n = 0;

    out[0] = '\0';
    for (int i = 0; i < list->n && n < size; i++)
        n += (size_t)snprintf(out + n, size - n, "%s%" PRId64,
                              i > 0 ? between : "", list->v[i]);
}

static void
put_place(const struct session *s, const struct view_incident *v)
{
    char index[256], value[FORMAT_MAX], scale[FORMAT_MAX];

    if (v->located) {
        write_list(&v->index, ",", index, sizeof(index));
        put(s, "where", "%s%s%s%s%s, tensor %s[%s], %s", v->pass,
            v->layer[0] != '\0' ? ", layer " : "", v->layer,
            v->op[0] != '\0' ? ", operation " : "", v->op, v->tensor, index,
            v->dtype);
        put(s, "value", "%s", v->what);
    }
    if (v->has_fp32_value) {
        format_exact(v->fp32_value, value, sizeof(value));
        put(s, "in float32", "%s", value);
    }
    format_scale(v->scale, scale, sizeof(scale));
    if (v->data_position >= 0)
        put(s, "when",
            "micro-batch %" PRId64 ", loss scale %s, window %" PRId64
            " of the data",
            v->micro_batch, scale, v->data_position);
    else
        put(s, "when", "an evaluation");
    put(s, "noticed by", "%s", v->trigger);
}

static void
put_samples(const struct session *s, const struct view_incident *v)
{
    char list[512];

    write_list(&v->samples, " ", list, sizeof(list));
    if (v->n_guilty > v->samples.n)
        put(s, "samples", "%s ... (%" PRId64 " cause it)", list, v->n_guilty);
    else if (v->samples.n > 0)
        put(s, "samples", "%s", list);
}

static void
put_answer(const struct session *s, const char *label, const char *question,
           const char *answer)
{
    put(s, label, "%-44s %s", question,
        answer[0] != '\0' ? answer : "not asked");
}

static void
put_questions(const struct session *s, const struct view_incident *v)
{
    char alone[128], scale[FORMAT_MAX + 16] = "";

    if (!v->replayed || !v->located)
        return;
    put_answer(s, "questions", "finite in float32?", v->fp32_finite);
    put_answer(s, "", "finite in bfloat16?", v->bf16_finite);
    if (!isnan(v->finite_scale)) {
        strcpy(scale, "yes, at ");
        format_scale(v->finite_scale, scale + 8, FORMAT_MAX);
    } else if (strcmp(v->verdict, "backward_overflow") == 0) {
        strcpy(scale, "no");
    }
    put_answer(s, "", "finite at a smaller loss scale?", scale);
    snprintf(alone, sizeof(alone), "finite with %.60s alone in float32?",
             v->layer[0] != '\0' ? v->layer : "that layer");
    put_answer(s, "", alone, v->alone_finite);
    put_answer(s, "", "smallest set of float32 layers that cures?", v->regions);
}

static void
put_cure(const struct session *s, const struct view_incident *v)
{
    char size[FORMAT_MAX];

    if (v->cure[0] != '\0') {
        put(s, "cure", "%s", v->cure);
        put(s, "apply it",
            "trainctl rollback %" PRId64 " --cure %" PRId64
            " --accept-policy-change",
            v->job, v->id);
    }
    if (v->name[0] != '\0') {
        format_bytes(v->kept_bytes, size, sizeof(size));
        put(s, "kept", "%s, %s", v->path, size);
        put(s, "run it again", "trainctl replay %" PRId64, v->id);
    }
    if (v->replayed)
        put(s, "diagnosis", "%" PRId64 " runs, %.1f ms", v->runs,
            (double)v->cost_us / 1e3);
}

void
story_put_incident(const struct session *s, const struct view_incident *v)
{
    put_head(s, v);
    put_place(s, v);
    put_samples(s, v);
    put_questions(s, v);
    put_cure(s, v);
}
