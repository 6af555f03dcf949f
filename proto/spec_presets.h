/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_presets: models that a spec asks for by name, as lists of plain layers.
 *
 * Private to proto/. A preset is read by its keys of spec_keys.def and turned
 * into the text that a person would have written; the reader of layers goes on
 * with that text, so that a preset can be nothing that a spec cannot say.
 * Names are chosen so that parameters have the paths that they have in
 * PyTorch's own models: torchvision's resnet, GPT-2's state_dict.
 */
#ifndef PROTO_SPEC_PRESETS_H
#define PROTO_SPEC_PRESETS_H

#include "proto/spec_fault.h"

/* Behind the kinds of layers, so that both are told apart by number. */
enum spec_presets_kind {
    SPEC_PRESETS_FIRST = SPEC_LAYER_COUNT - 1,
#define PRESET(id, name, doc) SPEC_PRESETS_##id,
#include "proto/presets.def"
#undef PRESET
};

#define SPEC_PRESETS_MAX_HIDDEN 64

struct spec_presets_mlp {
    int64_t hidden[SPEC_PRESETS_MAX_HIDDEN];
    int n_hidden;
    int64_t num_classes, out_features; /* the same; 0: not given */
    enum spec_layer_kind activation;
    double dropout;
    bool batch_norm;
};

struct spec_presets_resnet {
    int64_t depth, num_classes, width;
};

struct spec_presets_gpt {
    int64_t vocab_size, block_size, n_layer, n_head, n_embd;
    double dropout;
    bool bias, tie_weights;
};

struct spec_preset {
    char *text; /* owned: a JSON list of layers */
};

/* Reads the object at node. false: a fault was reported, or no memory. */
bool spec_presets_expand(struct spec_reader *r, int node, int kind,
                         struct spec_preset *preset);

#endif
