/* SPDX-License-Identifier: Apache-2.0 */
#include <math.h>
#include <string.h>

#include "proto/spec_parts.h"

#define MAX_REGIONS 1024
#define BIT(kind)   (1u << SPEC_CONDITION_##kind)

/* ---- the rules that need not be written ---------------------------------- */

#define WHEN(kind)                                                             \
    .condition = SPEC_CONDITION_##kind, .above = NAN, .below = NAN,            \
    .iterations = 100
#define VERDICT(name, n)                                                       \
    WHEN(VERDICT), .verdict = EVENT_VERDICT_##name, .limit = (n)
#define DO(what) .action = EVENT_ACTION_##what
#define REGION   DO(ROLLBACK), .with.kind = SPEC_CHANGE_FP32_REGION
#define TO_DTYPE(type)                                                         \
    DO(ROLLBACK), .with.kind = SPEC_CHANGE_DTYPE, .with.dtype = DTYPE_##type

/* A ladder: of rules that fire together the first one acts that still can. A
 * bad input was passed over by the skip; going back would gain nothing. */
static const struct spec_guard repairs[] = {
    {VERDICT(FORWARD_OVERFLOW, 2), REGION},
    {VERDICT(FORWARD_OVERFLOW, 2), TO_DTYPE(BF16)},
    {VERDICT(FORWARD_OVERFLOW, 2), TO_DTYPE(F32)},
    {VERDICT(BACKWARD_OVERFLOW, 2), REGION},
    {VERDICT(BACKWARD_OVERFLOW, 2), TO_DTYPE(BF16)},
    {VERDICT(BACKWARD_OVERFLOW, 2), TO_DTYPE(F32)},
    {VERDICT(BAD_INPUT, 1), DO(CONTINUE)},
    {VERDICT(DIVERGENCE, 3), DO(FAIL)},
};
static const struct spec_guard defaults[] = {
    {WHEN(CONSECUTIVE_SKIPS), .limit = 20, DO(FAIL)},
    {WHEN(SCALE_AT_FLOOR), .limit = 5, DO(CONTINUE)},
    {WHEN(UPDATES_BELOW), .limit = 10, DO(FAIL)},
    {WHEN(NON_FINITE), .trigger = EVENT_TRIGGER_WEIGHTS, DO(FAIL)},
};
#define N_REPAIRS  ((int)(sizeof(repairs) / sizeof(repairs[0])))
#define N_DEFAULTS ((int)(sizeof(defaults) / sizeof(defaults[0])))

static bool
is_same_condition(const struct spec_guard *a, const struct spec_guard *b)
{
    return a->condition == b->condition && a->verdict == b->verdict &&
           a->trigger == b->trigger;
}

/* Those of a set that the list does not replace. */
static void
add_set(struct spec *spec, int n_listed, const struct spec_guard *set, int n)
{
    for (int i = 0; i < n; i++) {
        bool listed = false;

        for (int k = 0; k < n_listed && !listed; k++)
            listed = is_same_condition(&spec->guard.rule[k], &set[i]);
        if (!listed)
            spec->guard.rule[spec->guard.n_rules++] = set[i];
    }
}

/* ---- conditions ---------------------------------------------------------- */

static int
find(const struct spec_reader *r, int node, const char *key)
{
    return spec_read_find(r, node, key);
}

/* What stands beside conditions, and beside which. */
static const struct {
    const char *key;
    unsigned conditions;
} beside[] = {
    {"iterations", BIT(SKIP_SHARE) | BIT(UPDATES_BELOW) | BIT(LOSS_SPIKE)},
    {"above", BIT(METRIC)},
    {"below", BIT(METRIC)},
    {"count", BIT(VERDICT)},
};

/* The key that says what is watched: *condition, and its node; -1 and a fault
 * when there is none, unless a fault has been reported since `before`. */
static int
pick_word(struct spec_reader *r, int node, const struct spec_words *words,
          int before, int *picked)
{
    int value = -1;

    for (int at = r->tree.nodes[node].first; at >= 0;
         at = r->tree.nodes[at].next) {
        const struct spec_node *member = &r->tree.nodes[at];

        for (int i = 0; i < words->n; i++) {
            if (!spec_locate_equals(&r->tree, member->key, member->key_end,
                                    words->list[i].name))
                continue;
            if (value >= 0) {
                spec_fault_add(r, member->key, at, NULL,
                               "one %s too many: a rule has exactly one",
                               words->what);
                continue;
            }
            value = at;
            *picked = words->list[i].value;
        }
    }
    if (value < 0 && r->n_slots == before)
        spec_fault_at(r, node, "names no %s: a rule has exactly one",
                      words->what);
    return value;
}

static void
read_metric(struct spec_reader *r, int node, int value, struct spec_guard *rule)
{
    int metric = 0;

    if (!spec_read_word(r, value, &spec_words_metric, &metric))
        return;
    rule->metric = (enum spec_metric)metric;
    if (rule->metric == SPEC_METRIC_CONFUSION)
        spec_fault_at(r, value, "confusion is a table and has no bound");
    else if (find(r, node, "above") < 0 && find(r, node, "below") < 0)
        spec_fault_at(r, value, "has no bound; write above, below or both");
    else if (rule->below > rule->above)
        spec_fault_at(r, find(r, node, "below"),
                      "is larger than above: no value would be within");
}

static void
check_window(struct spec_reader *r, int node, int value,
             const struct spec_guard *rule)
{
    int at = find(r, node, "iterations");

    if (rule->condition == SPEC_CONDITION_UPDATES_BELOW &&
        rule->limit > rule->iterations)
        spec_fault_at(r, value, "is above iterations, %lld: it always holds",
                      (long long)rule->iterations);
    if (rule->condition == SPEC_CONDITION_LOSS_SPIKE &&
        rule->iterations > SPEC_GUARD_MAX_SPIKE)
        spec_fault_at(r, at, "must be at most %d for loss_spike, not %lld",
                      SPEC_GUARD_MAX_SPIKE, (long long)rule->iterations);
}

/* The value of the condition, where the table of keys has not read it. */
static void
read_condition(struct spec_reader *r, int node, int value,
               struct spec_guard *rule)
{
    int word = 0;

    for (size_t i = 0; i < sizeof(beside) / sizeof(beside[0]); i++) {
        int at = find(r, node, beside[i].key);

        if (at >= 0 && (beside[i].conditions >> rule->condition & 1) == 0)
            spec_fault_add(r, r->tree.nodes[at].key, at, NULL,
                           "has no meaning for %s",
                           spec_guard_condition_name(rule->condition));
    }
    if (rule->condition == SPEC_CONDITION_METRIC)
        read_metric(r, node, value, rule);
    else if (rule->condition == SPEC_CONDITION_NON_FINITE &&
             spec_read_word(r, value, &spec_words_trigger, &word))
        rule->trigger = (enum event_trigger)word;
    else if (rule->condition == SPEC_CONDITION_VERDICT &&
             spec_read_word(r, value, &spec_words_verdict, &word))
        rule->verdict = (enum event_verdict)word;
    else
        check_window(r, node, value, rule);
}

static void
read_when(struct spec_reader *r, int node, struct spec_guard *rule)
{
    int condition = SPEC_CONDITION_COUNT, before = r->n_slots, value;

    rule->iterations = 100;
    rule->limit = 1;
    rule->above = rule->below = NAN;
    if (node < 0 || !spec_read_is_object(r, node))
        return;
    spec_read_object(r, node, SPEC_OBJECT_WHEN, rule);
    value = pick_word(r, node, &spec_words_condition, before, &condition);
    rule->condition = (enum spec_condition)condition;
    if (value >= 0)
        read_condition(r, node, value, rule);
}

/* ---- changes ------------------------------------------------------------- */

/* "diagnosed", a path, or a list of paths. */
static void
read_regions(struct spec_reader *r, int node, struct spec_guard *rule)
{
    const struct spec_node *at = &r->tree.nodes[node];
    const bool list = at->type == SPEC_NODE_ARRAY;

    if (!list && spec_locate_equals(&r->tree, at->start, at->end, "diagnosed"))
        return;
    if (list && !spec_read_is_array(r, node, MAX_REGIONS))
        return;
    if (list && at->n == 0) {
        spec_fault_at(r, node, "may not be an empty list");
        return;
    }
    rule->with.regions = pool_alloc(r->pool, list ? (size_t)at->n : 1,
                                    sizeof(*rule->with.regions));
    if (rule->with.regions == NULL)
        return;
    for (int child = list ? at->first : node; child >= 0;
         child = list ? r->tree.nodes[child].next : -1) {
        const char **region = &rule->with.regions[rule->with.n_regions++];

        *region = "";
        spec_read_path(r, child, region);
    }
}

static void
read_with(struct spec_reader *r, int node, struct spec_guard *rule)
{
    int change = SPEC_CHANGE_NONE, word = 0, before = r->n_slots, value;

    if (!spec_read_is_object(r, node))
        return;
    spec_read_object(r, node, SPEC_OBJECT_WITH, rule);
    value = pick_word(r, node, &spec_words_change, before, &change);
    rule->with.kind = (enum spec_change)change;
    switch (rule->with.kind) {
    case SPEC_CHANGE_FP32_REGION: read_regions(r, value, rule); return;
    case SPEC_CHANGE_SKIP_BATCHES:
        if (r->tree.nodes[value].type != SPEC_NODE_TRUE)
            spec_read_fault_type(r, value, "true");
        return;
    case SPEC_CHANGE_DTYPE:
        if (spec_read_word(r, value, &spec_words_wider, &word))
            rule->with.dtype = (enum dtype)word;
        return;
    case SPEC_CHANGE_LOWER_SCALE:
    case SPEC_CHANGE_NONE: return;
    }
}

/* ---- rules --------------------------------------------------------------- */

/* Changes that need what their condition does not know. */
static void
check_change(struct spec_reader *r, int with, const struct spec_guard *rule)
{
    const unsigned no_batch =
        BIT(SKIP_SHARE) | BIT(UPDATES_BELOW) | BIT(METRIC);
    const unsigned no_diagnosis =
        BIT(LOSS_ABOVE) | BIT(LOSS_BELOW) | BIT(LOSS_SPIKE) | BIT(METRIC);
    const bool weights = rule->condition == SPEC_CONDITION_NON_FINITE &&
                         rule->trigger != EVENT_TRIGGER_LOSS;

    if (rule->condition == SPEC_CONDITION_COUNT)
        return;
    if (rule->with.kind == SPEC_CHANGE_SKIP_BATCHES &&
        (weights || (no_batch >> rule->condition & 1) != 0))
        spec_fault_at(r, find(r, with, "skip_batches"),
                      "%s does not say which batches",
                      spec_guard_condition_name(rule->condition));
    if (rule->with.kind == SPEC_CHANGE_FP32_REGION &&
        rule->with.n_regions == 0 && (no_diagnosis >> rule->condition & 1) != 0)
        spec_fault_at(r, find(r, with, "fp32_region"),
                      "there is no diagnosis of %s; name the layers",
                      spec_guard_condition_name(rule->condition));
}

/* What belongs to a rollback, and to nothing else. */
static void
read_rollback(struct spec_reader *r, int node, struct spec_guard *rule)
{
    static const char *const keys[] = {"with", "to"};
    int with = find(r, node, "with"), to = find(r, node, "to"), best = 0;

    if (rule->action != EVENT_ACTION_ROLLBACK) {
        for (int i = 0; i < 2; i++) {
            int at = find(r, node, keys[i]);

            if (at >= 0)
                spec_fault_add(r, r->tree.nodes[at].key, at, NULL,
                               "has no meaning for %s",
                               event_action_name(rule->action));
        }
        return;
    }
    if (to >= 0 && spec_read_word(r, to, &spec_words_to, &best))
        rule->to_best = best != 0;
    if (with < 0) {
        spec_fault_add(r, r->tree.nodes[node].start, node, "with",
                       "missing; a rollback that changes nothing would meet "
                       "the same iteration again");
        return;
    }
    read_with(r, with, rule);
    check_change(r, with, rule);
}

static void
read_rule(struct spec_reader *r, int node, struct spec_guard *rule)
{
    int action = 0, at;

    rule->condition = SPEC_CONDITION_COUNT;
    if (!spec_read_is_object(r, node))
        return;
    spec_read_object(r, node, SPEC_OBJECT_RULE, rule);
    read_when(r, find(r, node, "when"), rule);
    at = find(r, node, "do");
    if (at < 0 || !spec_read_word(r, at, &spec_words_action, &action))
        return;
    rule->action = (enum event_action)action;
    read_rollback(r, node, rule);
}

/* The list, or -1 where there is none. */
static int
read_guard(struct spec_reader *r, int node, struct spec *spec)
{
    const bool object =
        node >= 0 && r->tree.nodes[node].type == SPEC_NODE_OBJECT;
    int mode = object ? find(r, node, "mode") : node;
    int list = object ? find(r, node, "rules") : node, word = 0;

    spec->guard.mode = SPEC_GUARDS_DEFAULT;
    spec_read_object(r, object ? node : -1, SPEC_OBJECT_GUARD, spec);
    if (!object && node >= 0 && r->tree.nodes[node].type == SPEC_NODE_ARRAY)
        mode = -1;
    else if (!object)
        list = -1;
    if (mode >= 0 && spec_read_word(r, mode, &spec_words_guards, &word))
        spec->guard.mode = (enum spec_guards)word;
    return list >= 0 && spec_read_is_array(r, list, SPEC_GUARD_MAX_RULES) ? list
                                                                          : -1;
}

void
spec_rules_read(struct spec_reader *r, int node, struct spec *spec)
{
    int list = read_guard(r, node, spec);
    int n = list >= 0 ? r->tree.nodes[list].n : 0, k = 0;

    spec->guard.rule = pool_alloc(r->pool, (size_t)(n + N_REPAIRS + N_DEFAULTS),
                                  sizeof(*spec->guard.rule));
    if (spec->guard.rule == NULL)
        return;
    for (int at = list >= 0 ? r->tree.nodes[list].first : -1; at >= 0;
         at = r->tree.nodes[at].next)
        read_rule(r, at, &spec->guard.rule[k++]);
    spec->guard.n_rules = spec->guard.n_listed = n;
    if (spec->guard.mode == SPEC_GUARDS_AUTO)
        add_set(spec, n, repairs, N_REPAIRS);
    if (spec->guard.mode != SPEC_GUARDS_OFF)
        add_set(spec, n, defaults, N_DEFAULTS);
}

/* ---- across sections ----------------------------------------------------- */

static void
check_metric(struct spec_reader *r, int when, const struct spec_guard *rule,
             const struct spec *spec)
{
    int at = find(r, when, "metric");

    if (at < 0 || rule->condition != SPEC_CONDITION_METRIC ||
        rule->metric == SPEC_METRIC_CONFUSION)
        return;
    if (!spec->data.validation.present)
        spec_fault_at(r, at, "there is no data.validation to evaluate on");
    else if (!spec->evaluate.metric[rule->metric])
        spec_fault_at(r, at, "%s is not among evaluate.metrics",
                      spec_metric_name(rule->metric));
}

static void
check_regions(struct spec_reader *r, int with, const struct spec_guard *rule,
              const char *const *layers, int n)
{
    int at = find(r, with, "fp32_region");

    if (rule->with.n_regions == 0)
        return;
    if (r->tree.nodes[at].type == SPEC_NODE_ARRAY)
        at = r->tree.nodes[at].first;
    for (int i = 0; i < rule->with.n_regions; i++) {
        const char *region = rule->with.regions[i];
        bool known = region[0] == '\0'; /* reported where it was read */

        for (int k = 0; k < n && !known; k++)
            known = strcmp(layers[k], region) == 0;
        if (!known)
            spec_fault_unknown(r, r->tree.nodes[at].start, at, "layer", region,
                               layers, n);
        at = r->tree.nodes[at].next;
    }
}

#define NO_DIAGNOSIS                                                           \
    "nothing is diagnosed: diagnose.max_replays and replay_share are 0"

/* A rule that waits for what nobody finds out would be a guard in name only. */
static void
check_diagnosis(struct spec_reader *r, int node, const struct spec_guard *rule)
{
    int when = find(r, node, "when"), with = find(r, node, "with");

    if (rule->condition == SPEC_CONDITION_VERDICT)
        spec_fault_at(r, find(r, when, "verdict"),
                      "can never hold, as " NO_DIAGNOSIS);
    else if (rule->with.kind == SPEC_CHANGE_FP32_REGION &&
             rule->with.n_regions == 0)
        spec_fault_at(r, find(r, with, "fp32_region"),
                      "can name no layers, as " NO_DIAGNOSIS);
}

/* Of "auto" the rules that it adds. */
static void
check_mode(struct spec_reader *r, int guard, const struct spec *spec)
{
    int mode = guard >= 0 && r->tree.nodes[guard].type == SPEC_NODE_OBJECT
                   ? find(r, guard, "mode")
                   : guard;

    if (spec->guard.mode == SPEC_GUARDS_AUTO && mode >= 0)
        spec_fault_at(r, mode, "can repair nothing, as " NO_DIAGNOSIS);
}

void
spec_rules_check(struct spec_reader *r, const struct spec *spec,
                 const char *const *layers, int n_layers)
{
    const bool blind =
        spec->diagnose.max_replays == 0 && spec->diagnose.replay_share == 0;
    int guard = find(r, 0, "guard"), at;

    if (blind)
        check_mode(r, guard, spec);
    if (guard >= 0 && r->tree.nodes[guard].type == SPEC_NODE_OBJECT)
        guard = find(r, guard, "rules");
    if (guard < 0 || r->tree.nodes[guard].type != SPEC_NODE_ARRAY ||
        spec->guard.rule == NULL)
        return;
    at = r->tree.nodes[guard].first;
    for (int i = 0; at >= 0 && i < spec->guard.n_listed; i++) {
        const struct spec_guard *rule = &spec->guard.rule[i];
        int to = find(r, at, "to");

        check_metric(r, find(r, at, "when"), rule, spec);
        if (blind)
            check_diagnosis(r, at, rule);
        if (layers != NULL)
            check_regions(r, find(r, at, "with"), rule, layers, n_layers);
        if (rule->to_best && !spec->checkpoint.has_best)
            spec_fault_at(r, to,
                          "there is no best one: checkpoint.best is "
                          "null");
        at = r->tree.nodes[at].next;
    }
}
