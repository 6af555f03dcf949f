/* SPDX-License-Identifier: Apache-2.0 */
/*
 * build_private: what the files of build share: a graph under construction.
 *
 * Private to engine/graph/build*.c. `at` is the value that the next layer
 * reads; each layer replaces it. Sentences begin "PATH (KIND): " for layers;
 * build.c puts "model" or "loss" before them.
 */
#ifndef ENGINE_GRAPH_BUILD_PRIVATE_H
#define ENGINE_GRAPH_BUILD_PRIVATE_H

#include "engine/graph/build.h"

struct build {
    const struct spec *spec;       /* borrowed */
    const struct build_data *data; /* borrowed */
    enum build_mode mode;
    int64_t batch_size;
    struct graph *graph; /* borrowed from build_graph() */
    int at;
    uint32_t n_dropout; /* layers so far: the next one's random stream */
};

/* Appends layers in order. */
int build_layers_append(struct build *b, const struct spec_layer *layers, int n,
                        struct err *err);

/* Appends target, loss and what follows it, and sets the roles. */
int build_loss_append(struct build *b, struct err *err);

#endif
