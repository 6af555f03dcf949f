/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>

#include "proto/spec_parts.h"
#include "proto/spec_words.h"

static void
put_word(struct spec_writer *o, const char *key, const struct spec_words *words,
         int value)
{
    spec_write_member(o, key);
    text_json_string(o->t, spec_words_name(words, value));
}

static void
put_int(struct spec_writer *o, const char *key, int64_t value)
{
    spec_write_member(o, key);
    text_json_int(o->t, value);
}

/* NaN: there is none. */
static void
put_bound(struct spec_writer *o, const char *key, double value)
{
    if (isnan(value))
        return;
    spec_write_member(o, key);
    text_json_real(o->t, value);
}

static void
put_when(struct spec_writer *rule, const struct spec_guard *g)
{
    const char *name = spec_guard_condition_name(g->condition);
    struct spec_writer o;

    spec_write_member(rule, "when");
    o = spec_write_begin(rule->t, -1);
    switch (g->condition) {
    case SPEC_CONDITION_CONSECUTIVE_SKIPS:
    case SPEC_CONDITION_SCALE_AT_FLOOR: put_int(&o, name, g->limit); break;
    case SPEC_CONDITION_SKIP_SHARE:
        put_bound(&o, name, g->above);
        put_int(&o, "iterations", g->iterations);
        break;
    case SPEC_CONDITION_UPDATES_BELOW:
        put_int(&o, name, g->limit);
        put_int(&o, "iterations", g->iterations);
        break;
    case SPEC_CONDITION_LOSS_ABOVE: put_bound(&o, name, g->above); break;
    case SPEC_CONDITION_LOSS_BELOW: put_bound(&o, name, g->below); break;
    case SPEC_CONDITION_LOSS_SPIKE:
        put_bound(&o, name, g->factor);
        put_int(&o, "iterations", g->iterations);
        break;
    case SPEC_CONDITION_METRIC:
        put_word(&o, name, &spec_words_metric, (int)g->metric);
        put_bound(&o, "above", g->above);
        put_bound(&o, "below", g->below);
        break;
    case SPEC_CONDITION_NON_FINITE:
        put_word(&o, name, &spec_words_trigger, (int)g->trigger);
        break;
    case SPEC_CONDITION_VERDICT:
        put_word(&o, name, &spec_words_verdict, (int)g->verdict);
        put_int(&o, "count", g->limit);
        break;
    case SPEC_CONDITION_COUNT: break;
    }
    if (g->after_updates > 0)
        put_int(&o, "after_updates", g->after_updates);
    spec_write_end(&o);
}

static void
put_with(struct spec_writer *rule, const struct spec_guard *g)
{
    const char *name = spec_words_name(&spec_words_change, (int)g->with.kind);
    struct spec_writer o;

    spec_write_member(rule, "with");
    o = spec_write_begin(rule->t, -1);
    switch (g->with.kind) {
    case SPEC_CHANGE_NONE: break;
    case SPEC_CHANGE_FP32_REGION:
        spec_write_member(&o, name);
        if (g->with.n_regions > 0)
            spec_write_strings(o.t, g->with.regions, g->with.n_regions);
        else
            text_json_string(o.t, "diagnosed");
        break;
    case SPEC_CHANGE_SKIP_BATCHES:
        spec_write_member(&o, name);
        text_puts(o.t, "true");
        break;
    case SPEC_CHANGE_LOWER_SCALE: put_bound(&o, name, g->with.factor); break;
    case SPEC_CHANGE_DTYPE:
        put_word(&o, name, &spec_words_wider, (int)g->with.dtype);
        break;
    }
    spec_write_end(&o);
}

static void
put_rule(struct text *t, const struct spec_guard *g)
{
    struct spec_writer o = spec_write_begin(t, -1);

    put_when(&o, g);
    put_word(&o, "do", &spec_words_action, (int)g->action);
    if (g->action == EVENT_ACTION_ROLLBACK) {
        put_with(&o, g);
        put_word(&o, "to", &spec_words_to, g->to_best);
    }
    spec_write_end(&o);
}

/* The rules of the list; those of the set follow from its name. */
void
spec_print_rules(struct spec_writer *root, const struct spec *spec)
{
    struct text *t = root->t;
    struct spec_writer o;

    spec_write_member(root, "guard");
    o = spec_write_begin(t, 1);
    put_word(&o, "mode", &spec_words_guards, (int)spec->guard.mode);
    spec_write_keys(&o, SPEC_OBJECT_GUARD, spec);
    spec_write_member(&o, "rules");
    text_putc(t, '[');
    for (int i = 0; i < spec->guard.n_listed; i++) {
        text_puts(t, i > 0 ? ",\n      " : "\n      ");
        put_rule(t, &spec->guard.rule[i]);
    }
    text_puts(t, spec->guard.n_listed > 0 ? "\n    ]" : "]");
    spec_write_end(&o);
}

char *
spec_print_rule(const struct spec *spec, int rule)
{
    struct text t = {0};

    put_rule(&t, &spec->guard.rule[rule]);
    return text_take(&t, NULL);
}
