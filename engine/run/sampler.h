/* SPDX-License-Identifier: Apache-2.0 */
/*
 * sampler: a language model's continuation, one token after another.
 *
 * Owns the weights of one safetensors file and an evaluation program for a
 * batch of one: autocast as in training, no dropout. Each token is one run
 * over the last sequence_length tokens, so what a token follows from is what
 * the model saw in training. The choice is keyed by (seed, number of the
 * token): the same question has the same answer. Used by one thread; after
 * sampler_create() nothing is allocated.
 */
#ifndef ENGINE_RUN_SAMPLER_H
#define ENGINE_RUN_SAMPLER_H

#include "kernels/backend.h"
#include "proto/err.h"
#include "proto/spec.h"

struct sampler_options {
    const struct spec *spec; /* borrowed, outlives the sampler */
    const char *weights;     /* a safetensors file */
    const struct backend *backend;
    int threads;
    double temperature; /* scores are divided by it; 0: the best token */
    int64_t top_k;      /* only the k best tokens; 0: all */
    uint64_t seed;
};

struct sampler;

/* ERR_SPEC when the model does not read tokens and give scores for each;
 * ERR_DATA or ERR_IO for the file. */
int sampler_create(const struct sampler_options *options, struct sampler **out,
                   struct err *err);
void sampler_destroy(struct sampler **sampler);

/* Puts tokens behind what is there. ERR_DATA for an id that the model does not
 * know; nothing is taken then. */
int sampler_feed(struct sampler *sampler, const int32_t *ids, int64_t n,
                 struct err *err);

/* The next token, which is fed too. There must be one before it. ERR_NUMERICS
 * when a score is NaN. */
int sampler_next(struct sampler *sampler, int32_t *id, struct err *err);

/* The choice alone: scores[0 .. n-1], u in [0, 1). -1: a score is NaN. Equal
 * scores count in the order of their ids. scratch: n doubles. */
int64_t sampler_choose(const float *scores, int64_t n, double temperature,
                       int64_t top_k, double u, double *scratch);

#endif
