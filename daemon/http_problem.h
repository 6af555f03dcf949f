/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_problem: an error as application/problem+json (RFC 9457).
 *
 * detail is the sentence that trainctl would print; error is the name in
 * errors.def; errors lists a spec's faults with path, line and column.
 */
#ifndef DAEMON_HTTP_PROBLEM_H
#define DAEMON_HTTP_PROBLEM_H

#include "daemon/http_server.h"
#include "proto/spec.h"

/* Answers with the status of err's code. faults may be NULL. */
void http_problem(struct http_exchange *x, const struct err *err,
                  const struct spec_faults *faults);
/* The same with a status that errors.def does not have. */
void http_problem_status(struct http_exchange *x, int status, int code,
                         const char *sentence);
const char *http_problem_title(int status);

#endif
