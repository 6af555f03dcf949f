/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_args: a request's view filled in from an HTTP request.
 *
 * Pure, by the field tables of view.h: the body is a JSON object of the view's
 * fields, the query's parameters are further ones, the path names the job or
 * the number. Nothing may be given twice or be unknown. Strings are borrowed
 * from the body's document and from the uri.
 */
#ifndef DAEMON_HTTP_ARGS_H
#define DAEMON_HTTP_ARGS_H

#include "daemon/http_uri.h"
#include "proto/codec.h"

/* args: struct of the view, init'ed or read from a body before. ERR_USAGE
 * names the parameter; those of `skip` (NULL-ended list) are not of the
 * view. */
int http_args_query(const struct http_uri *uri, enum view_id view,
                    const char *const *skip, void *args, struct err *err);

/* Sets a field from one text. ERR_USAGE. */
int http_args_set(enum view_id view, const char *name, const char *text,
                  void *args, struct err *err);

#endif
