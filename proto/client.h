/* SPDX-License-Identifier: Apache-2.0 */
/*
 * client: the client's side of the conversation as a state machine.
 *
 * Owns what has been received and what waits to be sent; the caller owns the
 * socket and moves bytes both ways (sans I/O). One request may be under way at
 * a time. Life: create, feed the hello, ask, move bytes until client_poll()
 * says what happened, repeat, destroy. Not thread-safe.
 */
#ifndef PROTO_CLIENT_H
#define PROTO_CLIENT_H

#include "proto/codec.h"

struct client;

struct client *client_create(void); /* NULL: no memory */
void client_destroy(struct client **client);

/* Bytes that arrived. ERR_PROTO, ERR_VERSION (no common version) or
 * ERR_NOMEM end the conversation. */
int client_feed(struct client *client, const void *bytes, size_t n,
                struct err *err);

/* Bytes to send: borrowed until client_sent(n) or another call. */
const void *client_pending(struct client *client, size_t *n);
void client_sent(struct client *client, size_t n);

/* Starts a request; args is the request view's struct. ERR_STATE while another
 * is under way. May be called before the hello arrived. */
int client_ask(struct client *client, enum message_id message, const void *args,
               struct err *err);
/* Grants n more notices to the request under way. */
int client_grant(struct client *client, int64_t n, struct err *err);

enum client_news {
    CLIENT_NOTHING, /* feed more */
    CLIENT_HELLO,   /* client_hello() is valid from now on */
    CLIENT_NOTICE,  /* client_read() gives it */
    CLIENT_REPLY,   /* client_envelope(), client_read() give it; request over */
    CLIENT_REFUSAL  /* client_envelope()->error; request over */
};

/* The next thing that happened; what it gives is borrowed until the next
 * poll. */
enum client_news client_poll(struct client *client);

const struct view_hello *client_hello(const struct client *client);
const struct codec_envelope *client_envelope(const struct client *client);
/* Item i of the reply, or the notice, into its view's struct. */
int client_read(struct client *client, int i, void *out, struct err *err);
/* Faults of a refusal. */
int client_n_faults(const struct client *client);
int client_read_fault(struct client *client, int i, struct view_fault *out);

#endif
