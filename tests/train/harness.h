/* SPDX-License-Identifier: Apache-2.0 */
/*
 * harness: an engine in this process, on tiny data, with its events kept.
 *
 * Owns a scratch directory; writes npy files and a spec into it, runs attempts
 * with an injected clock, gives orders at chosen iterations, and keeps every
 * event with copies of its strings. Fails the running CMocka test when the
 * engine does what it should not.
 */
#ifndef TESTS_TRAIN_HARNESS_H
#define TESTS_TRAIN_HARNESS_H

#include "engine/engine.h"
#include "tests/support/bytes.h"

#define HARNESS_MAX_ORDERS  4
#define HARNESS_MAX_SAMPLES 16

struct harness_event {
    struct event e; /* strings point into text */
    char text[6][EVENT_NAME_MAX];
    int64_t samples[HARNESS_MAX_SAMPLES];
    int64_t confusion[HARNESS_MAX_SAMPLES];
    char sentence[EVENT_TEXT_MAX];
};

struct harness {
    char dir[64];
    struct spec *spec;
    struct engine *engine; /* of the last attempt, until harness_close() */
    enum event_outcome outcome;
    struct err err;
    int64_t attempt;
    struct harness_event *events; /* of all attempts since harness_forget() */
    int n_events, cap_events;
    struct {
        int64_t iteration; /* given once that many are done */
        unsigned orders;
    } order[HARNESS_MAX_ORDERS];
    int n_orders;
    int64_t clock_us, tick_us; /* each look at the clock lets a tick pass */
    int n_syncs;
    const char *backend; /* borrowed; "cpu" */
    /* Of the next attempts, as in engine_options. */
    double scale;
    const int64_t *skip_windows;
    int n_skip_windows;
    int64_t guard_rollbacks;
};

void harness_init(struct harness *h);
void harness_fini(struct harness *h);

/* Writes name (code "<f4" or "<i8") into the directory. */
void harness_npy_f32(struct harness *h, const char *name, int rank,
                     const int64_t *dim, const float *values);
void harness_npy_i64(struct harness *h, const char *name, int64_t n,
                     const int64_t *values);
/* A safetensors file of float32 tensors. */
struct harness_tensor {
    const char *name;
    int rank;
    int64_t dim[4];
    const float *values;
};
void harness_weights(struct harness *h, const char *name,
                     const struct harness_tensor *tensors, int n);

/* Parses a spec in which ' stands for " and paths are relative to the
 * directory. Replaces the one before. */
void harness_spec(struct harness *h, const char *text);

/* The next attempt, from checkpoint `resume` or from scratch (NULL). Returns
 * what opening or running returned. */
int harness_run(struct harness *h, const char *resume);
void harness_order(struct harness *h, int64_t iteration, unsigned orders);
void harness_close(struct harness *h);  /* the engine, not the directory */
void harness_forget(struct harness *h); /* events, orders */
/* Removes checkpoints and starts again from attempt 1. */
void harness_reset(struct harness *h);

/* Event i of a kind; NULL after the last. */
const struct event *harness_event(const struct harness *h, enum event_kind kind,
                                  int i);
int harness_count(const struct harness *h, enum event_kind kind);

/* Parameter or buffer by name; NULL when there is none. */
const float *harness_param(const struct harness *h, const char *name);
const float *harness_buffer(const struct harness *h, const char *name);

/* Everything that a checkpoint holds, as bytes, for comparing runs. */
struct harness_snapshot {
    uint8_t *bytes; /* owned */
    size_t n;
};
struct harness_snapshot harness_snapshot(const struct harness *h);

#endif
