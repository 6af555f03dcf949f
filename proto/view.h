/* SPDX-License-Identifier: Apache-2.0 */
/*
 * view: one struct and one field table for each record of views.def.
 *
 * Plain data without behaviour. Strings and lists are borrowed from whoever
 * filled the struct; codec_decode() fills it from an arena of its own. Used by
 * daemon, worker and client; adding a field at the end of a view is a
 * compatible change, renaming or removing one is a new protocol version.
 */
#ifndef PROTO_VIEW_H
#define PROTO_VIEW_H

#include "proto/views.def"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct view_i64s {
    const int64_t *v;
    int n;
};
struct view_strs {
    const char **v;
    int n;
};

#define VIEW_TYPE_I64  int64_t
#define VIEW_TYPE_F64  double
#define VIEW_TYPE_BOOL bool
#define VIEW_TYPE_STR  const char *
#define VIEW_TYPE_I64S struct view_i64s
#define VIEW_TYPE_STRS struct view_strs

enum view_field_type {
    VIEW_I64,
    VIEW_F64,
    VIEW_BOOL,
    VIEW_STR,
    VIEW_I64S,
    VIEW_STRS
};

/* Structs: struct view_job, struct view_metric, ... */
#define VIEW_MEMBER(type, name, doc) VIEW_TYPE_##type name;
#define VIEW_STRUCT(view)                                                      \
    struct view_##view {                                                       \
        VIEW_##view(VIEW_MEMBER) char view_end;                                \
    };
VIEW_LIST(VIEW_STRUCT)
#undef VIEW_STRUCT
#undef VIEW_MEMBER

struct view_field {
    const char *name;
    enum view_field_type type;
    size_t offset;
    const char *doc;
};
struct view_desc {
    const char *name;
    const struct view_field *fields;
    int n_fields;
    size_t size_bytes;
};

/* Indices into view_table: VIEW_ID_job, ... */
#define VIEW_ENUM(view) VIEW_ID_##view,
enum view_id { VIEW_LIST(VIEW_ENUM) VIEW_ID_COUNT };
#undef VIEW_ENUM

extern const struct view_desc view_table[VIEW_ID_COUNT];

/* Sets every field of the struct at `view` to its default: 0, NaN, false, "",
 * empty. Call it before filling one in. */
void view_init(enum view_id id, void *view);

#endif
