/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_words: the words of every enumeration that a spec may name.
 *
 * Private to proto/. Constant data; the order is that of the enums.
 */
#ifndef PROTO_SPEC_WORDS_H
#define PROTO_SPEC_WORDS_H

#include "proto/spec_keys.h"

/* A value of an enumeration and its word. */
struct spec_word {
    int value;
    const char *name;
};
struct spec_words {
    const struct spec_word *list;
    int n;
    const char *what; /* "dtype" */
};

/* Layers and presets; presets alone. */
extern const struct spec_words spec_words_layer, spec_words_loss,
    spec_words_optimizer, spec_words_schedule, spec_words_metric,
    spec_words_format, spec_words_gelu, spec_words_dtype, spec_words_wgrad,
    spec_words_device, spec_words_upsample, spec_words_init,
    spec_words_activation, spec_words_reduction, spec_words_count,
    spec_words_token_dtype, spec_words_preset, spec_words_guards,
    spec_words_condition, spec_words_change, spec_words_trigger,
    spec_words_verdict, spec_words_action, spec_words_to, spec_words_wider;

/* The words of a type that is an enumeration; NULL for the others. */
const struct spec_words *spec_words_of(enum spec_type type);
/* NULL when value has no word. */
const char *spec_words_name(const struct spec_words *words, int value);
#endif
