/* SPDX-License-Identifier: Apache-2.0 */
/*
 * http_openapi: the HTTP interface as an OpenAPI 3.1 document.
 *
 * Made of http_routes.def, messages.def and views.def, so that it cannot say
 * anything else than the implementation does.
 */
#ifndef DAEMON_HTTP_OPENAPI_H
#define DAEMON_HTTP_OPENAPI_H

#include <stddef.h>

/* malloc'd JSON; NULL: no memory. */
char *http_openapi_write(size_t *len);

#endif
