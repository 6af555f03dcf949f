/* SPDX-License-Identifier: Apache-2.0 */
/* Which layers of layers are computed again: train.recompute. */
#include "engine/graph/build.h"

#include <assert.h>
#include <fnmatch.h>
#include <stdlib.h>

struct search {
    const struct spec *spec; /* borrowed */
    const char **block;      /* owned; NULL: only counts */
    int n_blocks;
    bool *used; /* owned: of each pattern */
};

static bool
matches(struct search *s, const struct spec_layer *layer)
{
    bool any = false;

    if (layer->n_body == 0)
        return false;
    for (int i = 0; i < s->spec->train.n_recompute; i++) {
        if (fnmatch(s->spec->train.recompute[i], layer->path, 0) != 0)
            continue;
        s->used[i] = true;
        any = true;
    }
    return any;
}

/* Innermost ones: true when the list holds one, or layers that do. Paths of
 * a model are at most SPEC_MAX_DEPTH deep. */
static bool
find_in(struct search *s, const struct spec_layer *list, int n)
{
    bool any = false;

    for (int i = 0; i < n; i++) {
        const struct spec_layer *layer = &list[i];
        const bool match = matches(s, layer);
        const bool body = find_in(s, layer->body, layer->n_body);
        const bool shortcut = find_in(s, layer->shortcut, layer->n_shortcut);

        any = any || match || body || shortcut;
        if (!match || body || shortcut)
            continue;
        if (s->block != NULL)
            s->block[s->n_blocks] = layer->path;
        s->n_blocks++;
    }
    return any;
}

int
build_find_blocks(const struct spec *spec, const char ***blocks, int *n_blocks,
                  struct err *err)
{
    struct search s = {.spec = spec};
    int rc = 0;

    *blocks = NULL;
    *n_blocks = 0;
    s.used = calloc((size_t)spec->train.n_recompute + 1, sizeof(*s.used));
    if (s.used == NULL)
        return err_set(err, ERR_NOMEM, "no memory for the graph");
    find_in(&s, spec->model, spec->n_model);
    s.block = calloc((size_t)s.n_blocks + 1, sizeof(*s.block));
    if (s.block == NULL) {
        rc = err_set(err, ERR_NOMEM, "no memory for the graph");
        goto out;
    }
    s.n_blocks = 0;
    find_in(&s, spec->model, spec->n_model);
    for (int i = 0; i < spec->train.n_recompute && rc == 0; i++)
        if (!s.used[i])
            rc = err_set(err, ERR_SPEC,
                         "train.recompute: \"%s\" is the path of no sequential "
                         "or residual",
                         spec->train.recompute[i]);
out:
    free(s.used);
    if (rc != 0) {
        free(s.block);
        return rc;
    }
    *blocks = s.block;
    *n_blocks = s.n_blocks;
    return 0;
}
