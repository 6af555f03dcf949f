/* SPDX-License-Identifier: Apache-2.0 */
#include "engine/diagnose/samples.h"

#include "engine/pass/memplan.h"

#include <stdlib.h>
#include <string.h>

struct halving {
    struct rerun *rerun;
    const struct rerun_policy *policy;
    struct rerun_case c; /* of the one batch, over the copies below */
    struct prefetch_batch batch;
    const struct prefetch_batch *whole;
    uint8_t *input, *target; /* owned */
    size_t input_row, target_row;
    int n_runs;
    struct samples *out;
    struct err *err;
};

/* Inputs and targets are float32 or 32-bit integers. */
static size_t
row_bytes(const int64_t *dim, int rank)
{
    size_t n = 4;

    for (int i = 0; i < rank; i++)
        n *= (size_t)dim[i];
    return n;
}

static uint8_t *
alloc_rows(int64_t n, size_t row)
{
    const size_t n_bytes = (size_t)n * row;

    return aligned_alloc(MEMPLAN_ALIGN,
                         (n_bytes / MEMPLAN_ALIGN + 1) * MEMPLAN_ALIGN);
}

/* Rows [from, to) as they are, all others neutral. */
static void
keep_rows(const struct halving *h, int64_t from, int64_t to)
{
    const struct prefetch_batch *w = h->whole;
    const size_t n = (size_t)(to - from), at = (size_t)from;

    memset(h->input, 0, (size_t)w->n * h->input_row);
    memset(h->target, 0, (size_t)w->n * h->target_row);
    memcpy(h->input + at * h->input_row,
           (const uint8_t *)w->input + at * h->input_row, n * h->input_row);
    memcpy(h->target + at * h->target_row,
           (const uint8_t *)w->target + at * h->target_row, n * h->target_row);
}

/* *guilty: these alone are not finite. */
static int
try_rows(struct halving *h, int64_t from, int64_t to, bool *guilty)
{
    struct rerun_result result;

    keep_rows(h, from, to);
    h->n_runs++;
    const int rc =
        rerun_run(h->rerun, &h->c, h->policy, NULL, NULL, &result, h->err);
    *guilty = rc == 0 && !result.finite;
    return rc;
}

static int
halve(struct halving *h, int64_t from, int64_t to)
{
    bool guilty = false;

    if (h->n_runs >= SAMPLES_MAX_RUNS) {
        h->out->cut = true;
        return 0;
    }
    int rc = try_rows(h, from, to, &guilty);
    if (rc != 0 || !guilty)
        return rc;
    if (to - from == 1) {
        if (h->out->n < EVENT_MAX_SAMPLES)
            h->out->id[h->out->n] = h->whole->ids[from];
        h->out->n++;
        return 0;
    }
    const int64_t middle = from + (to - from) / 2;
    rc = halve(h, from, middle);
    return rc != 0 ? rc : halve(h, middle, to);
}

int
samples_find(struct rerun *rerun, const struct rerun_case *c,
             const struct rerun_policy *policy, int64_t which,
             struct samples *out, struct err *err)
{
    const struct build_data *data = &rerun_options(rerun)->data;
    const struct prefetch_batch *whole = &c->batch[which];
    struct halving h = {
        .rerun = rerun,
        .policy = policy,
        .c = *c,
        .whole = whole,
        .input_row = row_bytes(data->dim, data->rank),
        .target_row = row_bytes(&data->target_elems, 1),
        .out = out,
        .err = err,
    };
    bool guilty = true;
    int rc = 0;

    memset(out, 0, sizeof(*out));
    h.input = alloc_rows(whole->n, h.input_row);
    h.target = alloc_rows(whole->n, h.target_row);
    if (h.input == NULL || h.target == NULL)
        rc = err_set(err, ERR_NOMEM, "diagnosis: no memory for a batch");
    h.batch = (struct prefetch_batch){h.input, h.target, whole->ids, whole->n};
    h.c.batch = &h.batch;
    h.c.n_batches = 1;
    h.c.first = c->first + which;
    /* Not finite without any sample: none of them is to blame. */
    if (rc == 0)
        rc = try_rows(&h, 0, 0, &guilty);
    out->no_need = guilty;
    if (rc == 0 && !guilty)
        rc = halve(&h, 0, whole->n);
    free(h.input);
    free(h.target);
    return rc;
}
