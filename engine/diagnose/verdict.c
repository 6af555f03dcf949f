/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/diagnose/verdict.h"

#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define SUGGESTED_LR 0.1 /* of the rate that diverged */
#define NAME_BYTES   80  /* of a name within a sentence */
#define NAMES_BYTES  160 /* of a list of names */

/* ---- words ----------------------------------------------------------------*/

struct words {
    char *to;
    size_t size, n;
    bool cut;
};

__attribute__((format(printf, 2, 3))) static void
say(struct words *w, const char *fmt, ...)
{
    va_list args;

    va_start(args, fmt);
    const int n = vsnprintf(w->to + w->n, w->size - w->n, fmt, args);
    va_end(args);
    if (n > 0)
        w->n += (size_t)n;
    if (w->n >= w->size) {
        w->n = w->size - 1;
        w->cut = true;
    }
}

/* Where at most n bytes of s end without a character in halves. */
static int
whole_bytes(const char *s, size_t n)
{
    if (strlen(s) <= n)
        return (int)strlen(s);
    while (n > 0 && ((unsigned char)s[n] & 0xc0) == 0x80)
        n--;
    return (int)n;
}

static void
say_name(struct words *w, const char *name)
{
    const int n = whole_bytes(name, NAME_BYTES);

    say(w, "%.*s%s", n, name, name[n] != '\0' ? "..." : "");
}

/* What did not fit ends in dots, and is told to be cut by them. */
static void
end_words(struct words *w)
{
    static const char dots[] = "...";

    if (!w->cut)
        return;
    w->n = (size_t)whole_bytes(w->to, w->size - sizeof(dots));
    memcpy(w->to + w->n, dots, sizeof(dots));
}

static const char *
limit_of(enum dtype dtype)
{
    if (dtype == DTYPE_F16)
        return "65504";
    return dtype == DTYPE_BF16 ? "3.39e+38" : "3.40e+38";
}

/* "[2,0]" */
static void
say_index(struct words *w, const struct location *l)
{
    say(w, "[");
    for (int i = 0; i < l->rank; i++)
        say(w, "%s%lld", i > 0 ? "," : "", (long long)l->index[i]);
    say(w, "]");
}

static const char *
name_what(enum event_nonfinite what)
{
    return what == EVENT_NAN ? "NaN" : event_nonfinite_name(what);
}

static void
say_quoted(struct words *w, const char *name)
{
    say(w, "\"");
    say_name(w, name);
    say(w, "\"");
}

/* "fc1.out" (linear) */
static void
say_tensor(struct words *w, const struct location *l)
{
    say_quoted(w, l->tensor);
    if (l->op[0] != '\0')
        say(w, " (%s)", l->op);
}

static void
say_samples(struct words *w, const struct evidence *e)
{
    int n = 0;

    if (e->n_guilty == 1) {
        say(w, " Sample %lld causes it.", (long long)e->samples[0]);
    } else if (e->n_guilty > 1) {
        say(w, " %lld samples cause it: ", (long long)e->n_guilty);
        for (; n < e->n_samples && n < 4; n++)
            say(w, "%s%lld", n > 0 ? ", " : "", (long long)e->samples[n]);
        if (e->n_guilty > n)
            say(w, " and %lld more", (long long)e->n_guilty - n);
        say(w, ".");
    } else if (e->samples_no_need) {
        say(w, " No sample is to blame: without any it is the same.");
    } else if (e->samples_asked) {
        say(w, " No single sample causes it.");
    }
}

/* "fc1, fc2 and 12 more" */
static void
say_regions(struct words *w, const struct evidence *e)
{
    const size_t start = w->n;
    int n = 0;

    for (; n < e->n_regions; n++) {
        if (n > 0 && w->n - start + strlen(e->region[n]) > NAMES_BYTES)
            break;
        say(w, "%s", n > 0 ? ", " : "");
        say_name(w, e->region[n]);
    }
    if (n < e->n_regions)
        say(w, " and %d more", e->n_regions - n);
}

/* ---- cures ----------------------------------------------------------------*/

static bool
is_listed(const struct spec *spec, const char *region)
{
    for (int i = 0; i < spec->amp.n_fp32_regions; i++)
        if (strcmp(spec->amp.fp32_regions[i], region) == 0)
            return true;
    return false;
}

/* A list of strings as the value of amp.fp32_regions. */
static void
write_fragment(json_t *list, struct verdict *v)
{
    json_t *root = json_pack("{s:{s:o}}", "amp", "fp32_regions", list);
    const size_t n =
        json_dumpb(root, v->cure, sizeof(v->cure) - 1, JSON_COMPACT);

    v->cure[n < sizeof(v->cure) ? n : 0] = '\0';
    json_decref(root);
}

/* The spec's own regions stay. */
static void
write_regions(const struct spec *spec, const struct evidence *e,
              struct verdict *v)
{
    struct words names = {v->regions, sizeof(v->regions), 0, false};
    json_t *list = json_array();

    for (int i = 0; i < spec->amp.n_fp32_regions; i++)
        json_array_append_new(list, json_string(spec->amp.fp32_regions[i]));
    for (int i = 0; i < e->n_regions; i++) {
        say(&names, "%s%s", i > 0 ? ", " : "", e->region[i]);
        if (!is_listed(spec, e->region[i]))
            json_array_append_new(list, json_string(e->region[i]));
    }
    write_fragment(list, v);
}

static void
write_dtype(const char *dtype, struct verdict *v)
{
    snprintf(v->cure, sizeof(v->cure), "{\"amp\":{\"dtype\":\"%s\"}}", dtype);
}

/* A rate for one optimizer with one group: nobody proved that it helps. */
static bool
suggest_rate(const struct spec *spec, struct verdict *v)
{
    const struct spec_optim *o = &spec->optim[0];

    if (spec->n_optim != 1 || o->n_group != 1 || !(o->group[0].lr > 0))
        return false;
    snprintf(v->cure, sizeof(v->cure), "{\"optimizer\":{\"%s\":{\"lr\":%.6g}}}",
             spec_optimizer_name(o->kind), o->group[0].lr * SUGGESTED_LR);
    return true;
}

/* ---- one verdict each -----------------------------------------------------*/

static void
tell_bad_input(const struct evidence *e, struct words *w)
{
    const struct location *l = &e->where;

    if (l->is_label) {
        say(w,
            "sample %lld has the label %lld, and the model tells %lld classes "
            "apart: 0 to %lld.",
            (long long)l->sample, (long long)l->label, (long long)l->n_classes,
            (long long)l->n_classes - 1);
    } else {
        say(w, "the batch itself is not finite: ");
        say_quoted(w, l->tensor);
        say(w, " of sample %lld is %s at ", (long long)l->sample,
            name_what(l->what));
        say_index(w, l);
        say(w, ".");
    }
    if (e->n_guilty > 1)
        say_samples(w, e);
    say(w, " Mend the data, or pass over these windows.");
}

static void
tell_optimizer(const struct spec *spec, const struct evidence *e,
               struct words *w, struct verdict *v)
{
    const struct location *l = &e->where;

    if (l->op[0] == '\0') {
        say(w, "the %s ", l->role);
        say_quoted(w, l->tensor);
        say(w, " became %s at ", name_what(l->what));
        say_index(w, l);
        say(w, ", though the gradients were finite: the activations it is made "
               "of are too large for float32. Go back to a checkpoint.");
        return;
    }
    say(w, "the update before made the %s ", l->role);
    say_quoted(w, l->tensor);
    say(w, " %s at ", name_what(l->what));
    say_index(w, l);
    say(w,
        ", though its gradients were finite: %s with lr %.6g went too far "
        "(or eps is too small).",
        l->op, e->lr);
    say(w, " Go back to a checkpoint;");
    if (suggest_rate(spec, v))
        say(w, " a tenth of the rate is a suggestion, not proven.");
    else
        say(w, " lower the rate.");
}

static void
tell_divergence(const struct spec *spec, const struct evidence *e,
                struct words *w, struct verdict *v)
{
    const struct location *l =
        e->fp32_where.located ? &e->fp32_where : &e->where;

    say_tensor(w, l);
    say(w, " is %s at ", name_what(l->what));
    say_index(w, l);
    say(w,
        " in float32 too: this is no matter of precision. The model, the "
        "learning rate (%.6g) or the loss has diverged.",
        e->lr);
    say_samples(w, e);
    say(w, " Go back to a checkpoint");
    if (suggest_rate(spec, v))
        say(w, "; a tenth of the rate is a suggestion, not proven");
    say(w, ".");
}

static void
tell_scale(const struct spec *spec, const struct evidence *e, struct words *w,
           struct verdict *v)
{
    const struct location *l = &e->where;

    say_tensor(w, l);
    say(w, " is %s in %s with the loss scale %.9g.", name_what(l->what),
        dtype_name(l->dtype), (double)e->scale);
    say(w,
        " The forward pass is finite, and with the scale %.9g everything is: ",
        e->finite_scale);
    if (spec->amp.scaler.dynamic) {
        say(w, "the scale backs off by itself, which is normal calibration.");
        return;
    }
    say(w, "the scale is static, so it takes a smaller one.");
    snprintf(v->cure, sizeof(v->cure),
             "{\"amp\":{\"scaler\":{\"init_scale\":%.17g}}}", e->finite_scale);
}

static void
tell_value(const struct evidence *e, struct words *w)
{
    const struct location *l = &e->where;

    say_tensor(w, l);
    say(w, " %s %s at ", l->what == EVENT_NAN ? "becomes NaN in" : "overflows",
        dtype_name(l->dtype));
    say_index(w, l);
    if (e->has_fp32_value)
        say(w, ": in float32 it is %.9g there", (double)e->fp32_value);
    if (e->has_fp32_value && l->what != EVENT_NAN)
        say(w, ", and %s ends at %s", dtype_name(l->dtype), limit_of(l->dtype));
    say(w, ".");
}

static void
tell_overflow(const struct spec *spec, const struct evidence *e,
              struct words *w, struct verdict *v)
{
    tell_value(e, w);
    if (v->verdict == EVENT_VERDICT_FORWARD_OVERFLOW)
        say(w, " No loss scale helps.");
    else if (e->scale_asked)
        say(w,
            " The forward pass is finite; no scale down to the floor helps.");
    say_samples(w, e);
    if (e->n_regions > 0) {
        write_regions(spec, e, v);
        say(w, " With ");
        say_regions(w, e);
        say(w, " in float32 it is finite%s.",
            e->bf16_finite == EVENT_YES  ? ", in bfloat16 too"
            : e->bf16_finite == EVENT_NO ? ", in bfloat16 it is not"
                                         : "");
    } else if (e->bf16_finite == EVENT_YES) {
        write_dtype("bfloat16", v);
        say(w, " No set of float32 layers cured it; bfloat16 does.");
    } else {
        write_dtype("float32", v);
        say(w, " Only float32 throughout cured it.");
    }
}

/* ---- the judge ------------------------------------------------------------*/

bool
verdict_is_forward(const struct location *where)
{
    switch (where->pass) {
    case EVENT_PASS_FORWARD: return true;
    case EVENT_PASS_LOSS: return strcmp(where->op, "scale_loss") != 0;
    case EVENT_PASS_INPUT:
    case EVENT_PASS_BACKWARD:
    case EVENT_PASS_UNSCALE:
    case EVENT_PASS_OPTIMIZER:
    case EVENT_PASS_COUNT: break;
    }
    return false;
}

static enum event_verdict
judge(const struct evidence *e)
{
    if (!e->where.located)
        return EVENT_VERDICT_NONE;
    if (e->where.pass == EVENT_PASS_INPUT)
        return EVENT_VERDICT_BAD_INPUT;
    if (e->where.pass == EVENT_PASS_OPTIMIZER)
        return EVENT_VERDICT_OPTIMIZER;
    if (e->scale_asked && isfinite(e->finite_scale))
        return EVENT_VERDICT_SCALE_OVERFLOW;
    if (e->fp32_finite == EVENT_NO)
        return EVENT_VERDICT_DIVERGENCE;
    if (e->fp32_finite == EVENT_NOT_ASKED)
        return EVENT_VERDICT_NONE;
    return verdict_is_forward(&e->where) ? EVENT_VERDICT_FORWARD_OVERFLOW
                                         : EVENT_VERDICT_BACKWARD_OVERFLOW;
}

void
verdict_judge(const struct spec *spec, const struct evidence *e,
              struct verdict *out)
{
    struct words w = {out->sentence, sizeof(out->sentence), 0, false};

    memset(out, 0, sizeof(*out));
    out->verdict = judge(e);
    switch (out->verdict) {
    case EVENT_VERDICT_NONE:
        say(&w, "run again, everything is finite: what was seen does not "
                "follow from weights, batch and scale.");
        break;
    case EVENT_VERDICT_SCALE_OVERFLOW: tell_scale(spec, e, &w, out); break;
    case EVENT_VERDICT_FORWARD_OVERFLOW:
    case EVENT_VERDICT_BACKWARD_OVERFLOW:
        tell_overflow(spec, e, &w, out);
        break;
    case EVENT_VERDICT_BAD_INPUT: tell_bad_input(e, &w); break;
    case EVENT_VERDICT_DIVERGENCE: tell_divergence(spec, e, &w, out); break;
    case EVENT_VERDICT_OPTIMIZER: tell_optimizer(spec, e, &w, out); break;
    }
    end_words(&w);
}
