/* SPDX-License-Identifier: Apache-2.0 */
/*
 * spec_read: typed values out of a spec_tree, and the faults met on the way.
 *
 * Private to proto/. Every reader reports its own faults and leaves what it
 * fills at a harmless value, so that its caller goes on and finds the next
 * one. Nothing here knows what a spec means; spec_keys.def says what an
 * object's keys are. Strings that are read live in the reader's pool.
 */
#ifndef PROTO_SPEC_READ_H
#define PROTO_SPEC_READ_H

#include "proto/spec_fault.h"
#include "proto/spec_keys.h"
#include "proto/spec_words.h"

/* Scalars. false: a fault was reported, *out is untouched. */
bool spec_read_int(struct spec_reader *r, int node,
                   const struct spec_range *range, int64_t *out);
bool spec_read_real(struct spec_reader *r, int node,
                    const struct spec_range *range, double *out);
bool spec_read_bool(struct spec_reader *r, int node, bool *out);
bool spec_read_word(struct spec_reader *r, int node,
                    const struct spec_words *words, int *out);
/* Not empty, no control characters, at most SPEC_NAME_MAX bytes. */
bool spec_read_name(struct spec_reader *r, int node, const char **out);

/* Not empty, no control characters, shorter than a path may be. */
bool spec_read_path(struct spec_reader *r, int node, const char **out);

/* "must be WANTED, not a list" */
void spec_read_fault_type(struct spec_reader *r, int node, const char *wanted);

/* node is an object (or an array); a fault otherwise. */
bool spec_read_is_object(struct spec_reader *r, int node);
bool spec_read_is_array(struct spec_reader *r, int node, int max);

/* Child of an object by key, or -1. node may be -1. */
int spec_read_find(const struct spec_reader *r, int node, const char *key);

/* Fills base from an object's keys of spec_keys.def and gives the absent ones
 * their defaults; CUSTOM and computed ones stay as they are. Unknown, missing
 * and repeated keys are faults. node -1: all defaults. */
void spec_read_object(struct spec_reader *r, int node, enum spec_object object,
                      void *base);

/* "name", {"name": value}: the word's value in *kind and the value's node, or
 * -1 where there is none, in *value. `extra` are keys that may stand beside,
 * up to a NULL (NULL: none). */
bool spec_read_variant(struct spec_reader *r, int node,
                       const struct spec_words *words, const char *const *extra,
                       int *kind, int *value);

#endif
