/* SPDX-License-Identifier: Apache-2.0 */
/*
 * tokens: files of token ids, and the windows that samples are cut from.
 *
 *   llm.c   256 i32 LE: 20240520, 1, count | count u16 LE (GPT-2)
 *           256 i32 LE: 20240801, 1 or 7, count | count u32 LE (Llama 3)
 *   nanoGPT u16 or u32 LE to the end of the file, no header
 *   text    bytes, which are ids 0 .. 255; unpacked when gzip
 *
 * Owns the ids of one split: a share of the file, chosen by `part`. Positions
 * in sentences count ids of the whole file from 0. Used by dataset; read-only
 * after opening, so any thread may take windows.
 */
#ifndef ENGINE_DATA_TOKENS_H
#define ENGINE_DATA_TOKENS_H

#include "engine/data/array.h"
#include "proto/spec.h"

struct tokens {
    char *name;       /* owned: the file, for sentences */
    struct array ids; /* u8, u16 or u32: all of the file */
    int64_t first, n; /* the part of it that is ours */
    bool has_header, is_text;
    struct array mask; /* bool or u8 like ids; n_elems 0: none */
    bool has_ignore_index;
    int64_t ignore_index; /* such targets, and masked ones, do not count */
};

/* Formats `tokens` and `text`. ERR_DATA, ERR_IO, ERR_NOMEM; sentences start
 * with the file. Nothing is left to free after an error. */
int tokens_open(const struct spec_source *source, struct tokens *out,
                struct err *err);
/* The same from memory, without a mask; source->input is the name. */
int tokens_parse(const void *bytes, size_t len,
                 const struct spec_source *source, struct tokens *out,
                 struct err *err);
void tokens_fini(struct tokens *tokens);

/* Ids at + 0 .. n - 1 of our part. */
void tokens_copy(const struct tokens *t, int64_t at, int64_t n, int32_t *out);

/* A sample: n ids from start, and as targets the id that follows each. Returns
 * the number of targets that count. Either may be NULL. */
int64_t tokens_window(const struct tokens *t, int64_t start, int64_t n,
                      int32_t *input, int32_t *target);

/* Every id of our part against a vocabulary: "FILE: position 3: id 70000,
 * vocabulary 100". As targets, ids that are ignored may be anything. */
int tokens_check(const struct tokens *t, int64_t vocabulary, bool as_targets,
                 struct err *err);

#endif
