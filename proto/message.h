/* SPDX-License-Identifier: Apache-2.0 */
/*
 * message: the table of messages, and the envelope each frame's JSON has.
 *
 * Everything here derives from messages.def and views.def: names, numbers,
 * rights, which view goes in and which comes out. Pure tables; the envelopes
 * themselves are written and read by codec.c:
 *
 *   hello     {"hello":"traind","proto_min":1,...}         first, from daemon
 *   request   {"id":7,"verb":"status","args":{...}}
 *   reply     {"id":7,"ok":true,"item":{...}}              ONE, LATER, STREAM
 *             {"id":7,"ok":true,"items":[...],"more":true} MANY
 *   refusal   {"id":7,"ok":false,"error":{"name":"spec","code":-5,
 *              "message":"...","faults":[...]}}
 *   notice    {"id":7,"notice":{...}}                      before the reply
 *   credit    {"id":7,"credit":32}                         from the client
 *   one way   {"verb":"start","args":{...}}                worker's socket
 */
#ifndef PROTO_MESSAGE_H
#define PROTO_MESSAGE_H

#include "proto/view.h"

#define MESSAGE_PROTO_MIN 1
#define MESSAGE_PROTO_MAX 1

enum message_flow { MESSAGE_CONTROL, MESSAGE_ORDER, MESSAGE_REPORT };
enum message_right { MESSAGE_ANY, MESSAGE_OWNER, MESSAGE_ADMIN, MESSAGE_NONE };
enum message_shape { MESSAGE_ONE, MESSAGE_MANY, MESSAGE_STREAM, MESSAGE_LATER };

/* MESSAGE_ID_status, ...: dense indices, not the wire numbers. */
enum message_id {
#define MESSAGE(name, number, flow, right, request, reply, shape, doc)         \
    MESSAGE_ID_##name,
#include "proto/messages.def"
#undef MESSAGE
    MESSAGE_ID_COUNT
};

struct message {
    const char *name;
    int number;
    enum message_flow flow;
    enum message_right right;
    enum view_id request, reply;
    enum message_shape shape;
    const char *doc;
};

extern const struct message message_table[MESSAGE_ID_COUNT];

/* MESSAGE_ID_COUNT when there is none such. */
enum message_id message_find(const char *name);

#endif
