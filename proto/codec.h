/* SPDX-License-Identifier: Apache-2.0 */
/*
 * codec: structs of this folder to JSON text and back.
 *
 * With spec.c the only place that knows jansson or a field's name. Text in,
 * struct out, or the other way; no I/O. Decoded structs borrow their strings
 * and lists from a struct codec_doc, which one codec_doc_close() frees.
 * Unknown fields are ignored in replies, reports and events, and refused in
 * requests, naming the ones that are known. Thread-safe on distinct objects.
 */
#ifndef PROTO_CODEC_H
#define PROTO_CODEC_H

#include "proto/err.h"
#include "proto/event.h"
#include "proto/message.h"
#include "proto/spec.h"
#include "proto/view.h"

struct codec_doc; /* owns the parsed text and everything decoded from it */
void codec_doc_close(struct codec_doc **doc);

/* ---- envelopes ---------------------------------------------------------- */

enum codec_envelope_kind {
    CODEC_HELLO,
    CODEC_REQUEST,
    CODEC_REPLY,
    CODEC_REFUSAL,
    CODEC_NOTICE,
    CODEC_CREDIT,
    CODEC_ONE_WAY
};

struct codec_envelope {
    enum codec_envelope_kind kind;
    int64_t id;              /* all but hello and one way */
    enum message_id message; /* request, one way */
    int64_t credit;
    bool more;        /* reply of a MANY that was cut into pages */
    struct err error; /* refusal */
    int n_items;      /* reply: 1 for an item */
};

/* Opens one frame's payload. ERR_PROTO with a sentence when it is no envelope;
 * *doc is NULL then, and envelope->id is the id where there was a readable
 * one, else 0, for the refusal. */
int codec_open(const char *text, size_t len, struct codec_envelope *envelope,
               struct codec_doc **doc, struct err *err);

/* Fills the view struct `out` (struct view_NAME *) from the envelope's args,
 * hello, notice, or item i of a reply. ERR_PROTO names the field at fault. */
int codec_read(struct codec_doc *doc, int i, enum view_id id, void *out,
               struct err *err);

/* Faults that came with a refusal: count, and one of them. */
int codec_n_faults(const struct codec_doc *doc);
int codec_read_fault(struct codec_doc *doc, int i, struct view_fault *out);

/* Writers: malloc'd NUL-terminated text, its length in *len; NULL means no
 * memory. `items` is an array of n structs of the reply's view. */
char *codec_write_hello(const struct view_hello *hello, size_t *len);
char *codec_write_request(int64_t id, enum message_id message, const void *args,
                          size_t *len);
char *codec_write_reply(int64_t id, enum message_id message, const void *items,
                        int n_items, bool more, size_t *len);
char *codec_write_refusal(int64_t id, const struct err *error,
                          const struct spec_faults *faults, size_t *len);
char *codec_write_notice(int64_t id, const struct view_notice *notice,
                         size_t *len);
char *codec_write_credit(int64_t id, int64_t credit, size_t *len);
char *codec_write_one_way(enum message_id message, const void *args,
                          size_t *len);

/* One view as a JSON object, for --json and for files of ours; `indent` 0 is
 * one line. */
char *codec_write_view(enum view_id id, const void *view, int indent,
                       size_t *len);
/* And back: the text is one object. */
int codec_read_view(const char *text, size_t len, enum view_id id, void *out,
                    struct codec_doc **doc, struct err *err);
/* The same of a request: unknown fields are refused, naming those known. */
int codec_read_args(const char *text, size_t len, enum view_id id, void *out,
                    struct codec_doc **doc, struct err *err);
/* A page of them: {"items":[...],"more":...}. */
char *codec_write_page(enum view_id id, const void *items, int n_items,
                       bool more, size_t *len);

/* ---- events ------------------------------------------------------------- */

/* One line of events.jsonl, without the line feed. */
char *codec_write_event(const struct event *event, size_t *len);

/* Fills *event from a line; its pointers live in *doc. */
int codec_read_event(const char *line, size_t len, struct event *event,
                     struct codec_doc **doc, struct err *err);

#endif
