/* SPDX-License-Identifier: Apache-2.0 */
#include "proto/spec_parts.h"

#define MAX_GROUPS   64
#define MAX_PATTERNS 64

static enum spec_object
main_object(enum spec_optimizer kind)
{
    switch (kind) {
    case SPEC_OPTIMIZER_SGD: return SPEC_OBJECT_SGD;
    case SPEC_OPTIMIZER_ADAM: return SPEC_OBJECT_ADAM;
    case SPEC_OPTIMIZER_ADAMW: return SPEC_OBJECT_ADAMW;
    case SPEC_OPTIMIZER_ADAGRAD:
    case SPEC_OPTIMIZER_RMSPROP:
    case SPEC_OPTIMIZER_LION: break;
    }
    return SPEC_OBJECT_SGD;
}

static enum spec_object
group_object(enum spec_optimizer kind)
{
    return kind == SPEC_OPTIMIZER_SGD ? SPEC_OBJECT_SGD_GROUP
                                      : SPEC_OBJECT_ADAM_GROUP;
}

/* PyTorch refuses the same. */
static void
check_nesterov(struct spec_reader *r, int node, const struct spec_group *group)
{
    int at = spec_read_find(r, node, "nesterov");

    if (!group->nesterov || (group->momentum > 0 && group->dampening == 0))
        return;
    spec_fault_at(r, at >= 0 ? at : node,
                  "nesterov wants momentum above 0 and dampening 0");
}

static bool
read_patterns(struct spec_reader *r, int node, struct spec_group *group)
{
    bool sound = true;
    int n = 0;

    if (!spec_read_is_array(r, node, MAX_PATTERNS))
        return false;
    if (r->tree.nodes[node].n == 0) {
        spec_fault_at(r, node, "must have at least one pattern");
        return false;
    }
    group->match = pool_alloc(r->pool, (size_t)r->tree.nodes[node].n,
                              sizeof(*group->match));
    if (group->match == NULL)
        return false;
    for (int child = r->tree.nodes[node].first; child >= 0;
         child = r->tree.nodes[child].next) {
        group->match[n] = "";
        sound = spec_read_name(r, child, &group->match[n]) && sound;
        n++;
    }
    group->n_match = n;
    return sound;
}

static bool
read_group(struct spec_reader *r, int node, struct spec *spec,
           struct spec_group *group)
{
    int match;

    *group = spec->optim[0].group[0];
    if (!spec_read_is_object(r, node))
        return false;
    spec_read_object(r, node, group_object(spec->optim[0].kind), group);
    /* What is inherited whole was reported where it stands. */
    if (spec_read_find(r, node, "nesterov") >= 0 ||
        spec_read_find(r, node, "momentum") >= 0 ||
        spec_read_find(r, node, "dampening") >= 0)
        check_nesterov(r, node, group);
    match = spec_read_find(r, node, "match");
    return match >= 0 && read_patterns(r, match, group);
}

static bool
read_groups(struct spec_reader *r, int node, struct spec *spec)
{
    struct spec_group *all;
    bool sound = true;
    int n = 1;

    if (node < 0)
        return true;
    if (!spec_read_is_array(r, node, MAX_GROUPS))
        return false;
    all = pool_alloc(r->pool, (size_t)r->tree.nodes[node].n + 1, sizeof(*all));
    if (all == NULL)
        return false;
    all[0] = spec->optim[0].group[0];
    for (int child = r->tree.nodes[node].first; child >= 0;
         child = r->tree.nodes[child].next)
        sound = read_group(r, child, spec, &all[n++]) && sound;
    spec->optim[0].group = all;
    spec->optim[0].n_group = n;
    return sound;
}

bool
spec_optimizer_read(struct spec_reader *r, int node, struct spec *spec)
{
    struct spec_group *first = pool_alloc(r->pool, 1, sizeof(*first));
    int kind = 0, value = -1;

    if (first == NULL)
        return false;
    spec->optim[0].group = first;
    spec->n_optim = 1;
    spec->optim[0].n_group = 1;
    if (!spec_read_variant(r, node, &spec_words_optimizer, NULL, &kind, &value))
        return false;
    spec->optim[0].kind = (enum spec_optimizer)kind;
    if (value >= 0 && !spec_read_is_object(r, value))
        return false;
    spec_read_object(r, value, main_object(spec->optim[0].kind), first);
    if (value < 0 && spec->optim[0].kind == SPEC_OPTIMIZER_SGD) {
        spec_fault_add(r, r->tree.nodes[node].start, node, "lr",
                       "missing; must be a number, 0 or more: write "
                       "{\"sgd\": {\"lr\": ...}}");
        return false;
    }
    if (value >= 0)
        check_nesterov(r, value, first);
    return read_groups(r, spec_read_find(r, value, "groups"), spec);
}
