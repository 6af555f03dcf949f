/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec_event: a struct event to a JSON object and back.
 *
 * Private to proto/; codec_write_event() and codec_read_event() are the door.
 * An event is the fields that all have, "kind", then those of its kind under
 * the names that event.h gives them; enumerations go by name.
 */
#ifndef PROTO_CODEC_EVENT_H
#define PROTO_CODEC_EVENT_H

#include <jansson.h>

#include "proto/err.h"
#include "proto/event.h"
#include "proto/pool.h"
#include "proto/text.h"

void codec_event_encode(struct text *t, const struct event *event);

/* seq, t_us, kind and the three counters must be there; what else is absent
 * is 0, NaN, false, "" or empty. ERR_PROTO names the field; ERR_NOMEM. */
int codec_event_decode(const json_t *object, struct event *event,
                       struct pool *pool, struct err *err);

#endif
