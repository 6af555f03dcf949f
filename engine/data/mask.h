/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mask: which targets count, from an .npy file of bool or u8.
 *
 * 0 means that the target at this place does not count; anything else that it
 * does. Owns nothing: fills an array of the caller's. Used by dataset.
 */
#ifndef ENGINE_DATA_MASK_H
#define ENGINE_DATA_MASK_H

#include "engine/data/array.h"

/* What masked targets become when the spec names no ignore_index: PyTorch's
 * default, which no class id equals. */
#define MASK_IGNORE_INDEX (-100)

/* The mask must have the shape of what it masks, which came from `of`. */
int mask_open(const char *path, const struct tensor_desc *shape, const char *of,
              struct array *out, struct err *err);

bool mask_get(const struct array *mask, int64_t at);

#endif
