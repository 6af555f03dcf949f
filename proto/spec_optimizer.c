/* SPDX-License-Identifier: Apache-2.0 */
#include <stdio.h>

#include "proto/spec_parts.h"

#define MAX_GROUPS   64
#define MAX_PATTERNS 64

enum spec_object
spec_optimizer_object(enum spec_optimizer kind, bool group)
{
    char section[64];

    snprintf(section, sizeof(section), "optimizer.%s%s",
             spec_optimizer_name(kind), group ? ".groups[]" : "");
    return spec_keys_find_object(section);
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
read_patterns(struct spec_reader *r, int node, const char ***match,
              int *n_match)
{
    bool sound = true;
    int n = 0;

    if (!spec_read_is_array(r, node, MAX_PATTERNS))
        return false;
    if (r->tree.nodes[node].n == 0) {
        spec_fault_at(r, node, "must have at least one pattern");
        return false;
    }
    *match =
        pool_alloc(r->pool, (size_t)r->tree.nodes[node].n, sizeof(**match));
    if (*match == NULL)
        return false;
    for (int child = r->tree.nodes[node].first; child >= 0;
         child = r->tree.nodes[child].next) {
        (*match)[n] = "";
        sound = spec_read_name(r, child, &(*match)[n]) && sound;
        n++;
    }
    *n_match = n;
    return sound;
}

static bool
read_group(struct spec_reader *r, int node, const struct spec_optim *optim,
           struct spec_group *group)
{
    int match;

    *group = optim->group[0];
    if (!spec_read_is_object(r, node))
        return false;
    spec_read_object(r, node, spec_optimizer_object(optim->kind, true), group);
    /* What is inherited whole was reported where it stands. */
    if (spec_read_find(r, node, "nesterov") >= 0 ||
        spec_read_find(r, node, "momentum") >= 0 ||
        spec_read_find(r, node, "dampening") >= 0)
        check_nesterov(r, node, group);
    match = spec_read_find(r, node, "match");
    return match >= 0 &&
           read_patterns(r, match, &group->match, &group->n_match);
}

static bool
read_groups(struct spec_reader *r, int node, struct spec_optim *optim)
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
    all[0] = optim->group[0];
    for (int child = r->tree.nodes[node].first; child >= 0;
         child = r->tree.nodes[child].next)
        sound = read_group(r, child, optim, &all[n++]) && sound;
    optim->group = all;
    optim->n_group = n;
    return sound;
}

/* One optimizer; `extra` is what may stand beside its kind. */
static bool
read_optim(struct spec_reader *r, int node, const char *const *extra,
           struct spec_optim *optim)
{
    struct spec_group *first = pool_alloc(r->pool, 1, sizeof(*first));
    int kind = 0, value = -1;

    if (first == NULL)
        return false;
    optim->group = first;
    optim->n_group = 1;
    if (!spec_read_variant(r, node, &spec_words_optimizer, extra, &kind,
                           &value))
        return false;
    optim->kind = (enum spec_optimizer)kind;
    if (value >= 0 && !spec_read_is_object(r, value))
        return false;
    spec_read_object(r, value, spec_optimizer_object(optim->kind, false),
                     first);
    if (value < 0 && optim->kind == SPEC_OPTIMIZER_SGD) {
        spec_fault_add(r, r->tree.nodes[node].start, node, "lr",
                       "missing; must be a number, 0 or more: write "
                       "{\"sgd\": {\"lr\": ...}}");
        return false;
    }
    if (value >= 0)
        check_nesterov(r, value, first);
    return read_groups(r, spec_read_find(r, value, "groups"), optim);
}

/* Several: all but the last say which parameters they take. */
static bool
read_list(struct spec_reader *r, int node, struct spec *spec)
{
    static const char *const extra[] = {"match", NULL};
    bool sound = true;

    if (!spec_read_is_array(r, node, SPEC_MAX_OPTIMIZERS))
        return false;
    if (r->tree.nodes[node].n == 0) {
        spec_fault_at(r, node, "must have at least one optimizer");
        return false;
    }
    for (int child = r->tree.nodes[node].first; child >= 0;
         child = r->tree.nodes[child].next) {
        struct spec_optim *optim = &spec->optim[spec->n_optim++];
        int match = spec_read_find(r, child, "match");

        sound = read_optim(r, child, extra, optim) && sound;
        if (match >= 0) {
            sound = read_patterns(r, match, &optim->match, &optim->n_match) &&
                    sound;
        } else if (r->tree.nodes[child].next >= 0) {
            spec_fault_add(r, r->tree.nodes[child].start, child, "match",
                           "missing; only the last optimizer takes all that "
                           "is left");
            sound = false;
        }
    }
    return sound;
}

bool
spec_optimizer_read(struct spec_reader *r, int node, struct spec *spec)
{
    if (r->tree.nodes[node].type == SPEC_NODE_ARRAY)
        return read_list(r, node, spec);
    spec->n_optim = 1;
    return read_optim(r, node, NULL, &spec->optim[0]);
}
