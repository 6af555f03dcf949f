/* SPDX-License-Identifier: Apache-2.0 */
/*
 * kept: a scratch directory with incidents in it, and what they are made of.
 *
 * Header only, for the tests of incidents on disk. Two micro-batches of 3 and 2
 * samples; non-finite numbers in weights, batch, loss and scale. Fails the
 * running CMocka test when an expectation is not met.
 */
#ifndef TESTS_SUPPORT_KEPT_H
#define TESTS_SUPPORT_KEPT_H

#include "tests/support/bytes.h"
#include "tests/support/model_state.h"

#include <math.h>

#include "engine/diagnose/incident_file.h"

#define KEPT_UNUSED __attribute__((unused))
#define KEPT_SPEC                                                              \
    "{\"data\": {\"train\": {\"format\": \"npy\", \"input\": \"x.npy\", "      \
    "\"target\": \"y.npy\"}, \"batch_size\": 3}, \"model\": [{\"linear\": "    \
    "{\"out_features\": 2}}], \"loss\": \"mse\", \"optimizer\": {\"sgd\": "    \
    "{\"lr\": 0.1}}, \"amp\": {\"dtype\": \"float16\"}, \"train\": "           \
    "{\"accumulate\": 2}}"
#define KEPT_POLICY "{\"dtype\":\"float16\"}"

struct kept {
    char dir[64], incidents[128];
    struct state *state;
    struct spec *spec;
    struct build_data data;
    float input[5][4], target[5][2];
    int64_t ids[5];
    struct prefetch_batch batch[2];
    struct prefetch_window window;
    struct event event;
    struct incident_file_args args;
};

static KEPT_UNUSED void
kept_make_batch(struct kept *k)
{
    for (int i = 0; i < 5; i++) {
        for (int j = 0; j < 4; j++)
            k->input[i][j] = (float)(10 * i + j) / 3;
        k->target[i][0] = k->target[i][1] = (float)i;
        k->ids[i] = 100 + i;
    }
    k->input[1][2] = NAN;
    k->input[4][0] = -INFINITY;
    k->target[2][1] = INFINITY;
    k->batch[0] = (struct prefetch_batch){k->input[0], k->target[0], k->ids, 3};
    k->batch[1] =
        (struct prefetch_batch){k->input[3], k->target[3], k->ids + 3, 2};
    k->window = (struct prefetch_window){
        .at = {.n_batches = 2, .n_samples = 5},
        .batch = k->batch,
        .n_count = 10,
        .ids = k->ids,
    };
    k->data = (struct build_data){.rank = 1,
                                  .dim = {4},
                                  .target_elems = 2,
                                  .target_rank = 1,
                                  .target_dim = {2},
                                  .has_ignore_index = true,
                                  .ignore_index = -100};
}

static KEPT_UNUSED void
kept_make_event(struct kept *k)
{
    k->event = (struct event){.kind = EVENT_INCIDENT};
    k->event.u.incident.replayed = true;
    k->event.u.incident.verdict = EVENT_VERDICT_FORWARD_OVERFLOW;
    k->event.u.incident.layer = "fc1";
    k->event.u.incident.op = "linear";
    k->event.u.incident.tensor = "fc1.out";
    k->event.u.incident.sentence = "it does not fit";
    k->event.u.incident.cure = k->event.u.incident.regions = "";
    k->event.u.incident.name = "";
    k->event.u.incident.finite_scale = NAN;
    k->event.u.incident.fp32_value = 66304;
    k->event.u.incident.scale = 65536;
    k->event.u.incident.sample = -1;
}

static KEPT_UNUSED int
kept_setup(void **state)
{
    struct kept *k = calloc(1, sizeof(*k));
    struct spec_faults faults = {0};

    bytes_make_dir(k->dir);
    snprintf(k->incidents, sizeof(k->incidents), "%s/incidents", k->dir);
    assert_int_equal(
        spec_parse(KEPT_SPEC, strlen(KEPT_SPEC), &k->spec, &faults), 0);
    k->state = model_state_create(2);
    model_state_fill(k->state, 41);
    k->state->weights[0] = NAN;
    k->state->weights[1] = -INFINITY;
    k->state->buffers[2] = INFINITY;
    k->state->grads[0] = 0.25f;
    kept_make_batch(k);
    kept_make_event(k);
    k->args = (struct incident_file_args){
        .directory = k->incidents,
        .attempt = 1,
        .spec = k->spec,
        .data = &k->data,
        .backend = "reference",
        .policy = KEPT_POLICY,
        .threads = 3,
        .state = k->state,
        .window = &k->window,
        .loss = INFINITY,
        .diagnosis = &k->event,
    };
    *state = k;
    return 0;
}

static KEPT_UNUSED int
kept_teardown(void **state)
{
    struct kept *k = *state;

    bytes_remove_dir(k->dir);
    state_destroy(&k->state);
    spec_destroy(&k->spec);
    free(k);
    return 0;
}

static KEPT_UNUSED void
kept_path(const struct kept *k, const char *name, const char *file,
          char path[256])
{
    snprintf(path, 256, "%s/%s%s%s", k->incidents, name, file[0] ? "/" : "",
             file);
}

static KEPT_UNUSED bool
kept_is_here(const struct kept *k, const char *name)
{
    char path[256];

    kept_path(k, name, "", path);
    return bytes_exists(path);
}

#endif
