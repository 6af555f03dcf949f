/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec_view: any struct of views.def to a JSON object and back, by its table.
 *
 * Private to proto/. Decoded strings are borrowed from the JSON value, lists
 * from the pool; both must outlive the struct.
 */
#ifndef PROTO_CODEC_VIEW_H
#define PROTO_CODEC_VIEW_H

#include <jansson.h>

#include "proto/err.h"
#include "proto/pool.h"
#include "proto/text.h"
#include "proto/view.h"

/* All fields in the order of the table. indent 0: no space at all. */
void codec_view_encode(struct text *t, enum view_id id, const void *view,
                       int indent);

/* object NULL: all defaults. strict: unknown fields are refused, with the list
 * of those that are known. ERR_PROTO names the field at fault; ERR_NOMEM. */
int codec_view_decode(const json_t *object, enum view_id id, bool strict,
                      void *view, struct pool *pool, struct err *err);

/* A number, or one of the strings "NaN", "Infinity", "-Infinity". */
bool codec_view_real(const json_t *value, double *out);

/* A list of integers into memory of the pool; -1 when it is something else,
 * -2 when there is no memory. */
int codec_view_ints(const json_t *value, struct pool *pool,
                    const int64_t **out);

#endif
